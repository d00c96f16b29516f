"""Users, groups and managed policies by name, with what belongs to them: a query for each table instead of each name.

A file of identities names thousands. Must not know secrets, but for passing them on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from orcas.control.identities.builtin import BUILTIN, builtin_document
from orcas.control.identities.records import Records
from orcas.control.identities.rows import Decrypt


@dataclass(slots=True)
class Named:
    """The entity of an ARN: a user, group or managed policy; its fields are empty if it is still to be made."""

    arn: str = ""
    boundary: str | None = None
    # ARNs of attached policies, and names of groups.
    policies: list[str] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    # Requests and bytes a second; 0 for no limit.
    limits: tuple[int, int] = (0, 0)
    # Secrets by access key, and whether the key is active.
    keys: dict[str, tuple[str, bool]] = field(default_factory=dict, repr=False)
    # Of a policy: its documents by version, and the version in effect.
    versions: dict[str, str] = field(default_factory=dict)
    default: str = ""


async def named(records: Records, decrypt: Decrypt, account: str, kind: str, names: Iterable[str]) -> dict[str, Named]:
    """Entities of an account with these names, in whatever case, by these names. Policies include those that AWS manages."""
    names = list(names)
    entities = await records.with_names(account, kind, names)
    found = {each.id: Named(each.arn, each.boundary, default=each.details.get("default", "")) for each in entities}
    ids = json.dumps(list(found))

    async def among(query: str) -> list[Any]:
        return await records.all(f"{query} IN (SELECT value FROM json_each(?))", ids)

    for owner, policy in await among("SELECT entity, policy FROM attachments WHERE entity"):
        found[owner].policies.append(policy)
    for owner, group in await among("SELECT user, name FROM members JOIN entities ON id = team WHERE user"):
        found[owner].groups.add(group)
    for owner, requests, bytes_ in await among("SELECT id, requests_per_sec, bytes_per_sec FROM limits WHERE id"):
        found[owner].limits = requests, bytes_
    # With the account, by which the index of the keys begins.
    keys = """SELECT user, access_key, nonce, secret, active FROM entities
        JOIN access_keys ON access_keys.account = entities.account AND user = id WHERE id"""
    for owner, key, nonce, secret, is_active in await among(keys):
        found[owner].keys[key] = decrypt(key, owner, nonce, secret), bool(is_active)
    versions = """SELECT entity, documents.name, document FROM documents
        JOIN entities ON id = entity AND kind = 'policy' WHERE id"""
    for owner, version, text in await among(versions):
        found[owner].versions[version] = text
    stored = {each.name.lower(): found[each.id] for each in entities}
    by_name = {name: stored[name.lower()] for name in names if name.lower() in stored}
    for policy in BUILTIN.values() if kind == "policy" else ():
        document = builtin_document(policy)
        by_name[policy.name] = Named(policy.arn, versions={document.name: document.text}, default=document.name)
    return by_name
