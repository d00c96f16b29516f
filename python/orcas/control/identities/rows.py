"""What requests need of the identities, as rows for the engine: all of it, or what a transaction has changed.

Policies of groups are those of their members. Must not know secrets, but for passing them on.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final, Protocol

from orcas.control.digests import LIMITS
from orcas.control.identities.builtin import BUILTIN, builtin_document
from orcas.control.identities.names import account_number, arn_of, root_arn
from orcas.control.identities.records import Changes, Records, inline_id, session_id
from orcas.control.identities.snapshot import Delta, IdentityRow, IdentitySnapshot, KeyRow, LimitRow, PolicyRow
from orcas.errors import UnavailableError


class Pair(Protocol):
    """The root of the store, and its present key pair."""

    owner: str
    access_key: str
    secret_key: str


# The secret of a key: access key, owner, nonce, ciphertext.
Decrypt = Callable[[str, str, bytes, bytes], str]

# A list in JSON takes the place of a list of placeholders, of which SQLite has few.
_AMONG: Final = "(SELECT value FROM json_each(?))"
# The holder of what is not there.
_LOST: Final = ""

log = logging.getLogger("orcas")


async def snapshot(records: Records, decrypt: Decrypt, root: Pair) -> IdentitySnapshot:
    """Everything. `root` may do everything."""
    accounts = sorted(await records.accounts(), key=lambda account: account.id != root.owner)
    identities = [_root_row(account.number, account.name) for account in accounts]
    first = root_arn(account_number(root.owner))
    keys: list[KeyRow] = [(root.access_key, root.secret_key, first, None, True)]
    found, sessions = await _keys(records, decrypt, None)
    keys += [row for row in found if row[2] != first and row[0] != root.access_key]
    builtin = [(arn, builtin_document(policy).text) for arn, policy in BUILTIN.items()]
    return IdentitySnapshot(
        tuple((account.number, account.id, account.name) for account in accounts),
        (*builtin, *await _policies(records, None), *sessions),
        (*identities, *await _identities(records, None)),
        tuple(keys),
        tuple(await _limits(records)),
    )


async def delta(records: Records, decrypt: Decrypt, changes: Changes) -> Delta:
    """The rows of what `changes` is about, as it is now, and the ids of entities that are gone."""
    accounts = [account for account in await records.accounts() if account.id in changes.accounts]
    identities = [_root_row(account.number, account.name) for account in accounts]
    denied = await _denied(records, changes)
    sound = changes.entities.keys() - denied
    identities += await _identities(records, sound) if sound else []
    policies = await _policies(records, changes.policies) if changes.policies else []
    keys, sessions = await _keys(records, decrypt, changes.keys, denied) if changes.keys else ([], [])
    policies += sessions
    limits = [(row[0], *await records.limits(row[3])) for row in identities if row[1] == "user"]
    limits += [(row[0], *await records.limits(row[0])) for row in keys]
    former = {arn for arns in changes.entities.values() for arn in arns}
    gone = former - {row[0] for row in identities}
    gone |= changes.policies - {row[0] for row in policies}
    for access_key in changes.keys - {row[0] for row in keys}:
        gone |= {access_key, session_id(access_key)}
    return Delta(
        tuple((account.number, account.id, account.name) for account in accounts),
        tuple(policies), tuple(identities), tuple(keys), tuple(sorted(gone)), tuple(limits),
    )  # fmt: skip


def root_delta(root: Pair, former: str) -> Delta:
    """The root of the store has a new key pair in place of `former`."""
    key = (root.access_key, root.secret_key, root_arn(account_number(root.owner)), None, True)
    return Delta((), (), (), (key,), () if former == root.access_key else (former,))


def _root_row(number: str, name: str) -> IdentityRow:
    return root_arn(number), "root", number, number, name, [], None, []


def _among(column: str, ids: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    return ("1", ()) if ids is None else (f"{column} IN {_AMONG}", (json.dumps(list(ids)),))


async def _policies(records: Records, ids: Collection[str] | None) -> list[PolicyRow]:
    """Inline policies, and the default versions of managed ones."""
    # By the entities they belong to; of those only what is asked for.
    owners = None if ids is None else {each.partition("/")[0] for each in ids if not each.startswith("arn:")}
    names = None if ids is None else {each.rpartition("/")[2] for each in ids if each.startswith("arn:")}
    inline, given = _among("entity", owners)
    query = f"""SELECT entity, documents.name, document FROM documents JOIN entities ON id = entity
        WHERE kind <> 'policy' AND {inline}"""
    found = [(inline_id(entity, name), text) for entity, name, text in await records.all(query, *given)]
    if names == set():
        return [row for row in found if ids is None or row[0] in ids]
    managed, given = _among("entities.name", names)
    query = f"""SELECT number, path, entities.name, document FROM accounts CROSS JOIN entities ON accounts.id = account
        JOIN documents ON entity = entities.id AND documents.name = json_extract(details, '$.default')
        WHERE kind = 'policy' AND {managed}"""
    found += [
        (arn_of(number, "policy", path, name), text) for number, path, name, text in await records.all(query, *given)
    ]
    return [row for row in found if ids is None or row[0] in ids]


async def _identities(records: Records, ids: Collection[str] | None) -> list[IdentityRow]:
    """Users and roles."""
    # In the order of the primary key: SQLite would scan another index, and look up each row.
    among, given = _among("entities.id", ids)
    query = f"""SELECT entities.id, kind, number, entities.name, path, boundary FROM entities
        JOIN accounts ON accounts.id = account WHERE kind IN ('user', 'role') AND {among} ORDER BY entities.id"""
    entities = await records.all(query, *given)
    among, given = _among("user", ids)
    groups = defaultdict(list)
    for user, group in await records.all(f"SELECT user, team FROM members WHERE {among}", *given):
        groups[user].append(group)
    owners = None if ids is None else {*ids, *(group for found in groups.values() for group in found)}
    among, given = _among("entity", owners)
    policies = defaultdict(list)
    query = f"""SELECT entity, documents.name FROM documents JOIN entities ON id = entity
        WHERE kind <> 'policy' AND {among} ORDER BY entity, documents.name"""
    for entity, name in await records.all(query, *given):
        policies[entity].append(inline_id(entity, name))
    for entity, arn in await records.all(f"SELECT entity, policy FROM attachments WHERE {among}", *given):
        policies[entity].append(arn)
    among, given = _among("entity", ids)
    tags = defaultdict(list)
    for entity, name, value in await records.all(f"SELECT entity, name, value FROM tags WHERE {among}", *given):
        tags[entity].append((name, value))
    return [
        (
            arn_of(number, kind, path, name), kind, number, entity, name,
            list(dict.fromkeys(each for owner in [entity, *groups.get(entity, ())] for each in policies.get(owner, ()))),
            boundary, tags.get(entity, []),
        )
        for entity, kind, number, name, path, boundary in entities
    ]  # fmt: skip


async def _limits(records: Records) -> list[LimitRow]:
    """All of them."""
    of_users = """SELECT number, path, entities.name, requests_per_sec, bytes_per_sec FROM limits
        JOIN entities ON entities.id = limits.id JOIN accounts ON accounts.id = account"""
    of_keys = "SELECT id, requests_per_sec, bytes_per_sec FROM limits WHERE id IN (SELECT access_key FROM access_keys)"
    found: list[LimitRow] = [
        (arn_of(number, "user", path, name), *rates) for number, path, name, *rates in await records.all(of_users)
    ]
    return found + [(key, *rates) for key, *rates in await records.all(of_keys)]


async def _denied(records: Records, changes: Changes) -> set[str]:
    """The ids of users and roles among those that changed whose rights are damaged on the disk, since the start."""
    ids = json.dumps(list(changes.entities))
    given: dict[str, set[str]] = {each: {each, f"{LIMITS}{each}"} for each in changes.entities}
    owners = defaultdict(set)
    for user, group in await records.all(f"SELECT user, team FROM members WHERE user IN {_AMONG}", ids):
        given[user].add(group)
        owners[group].add(user)
    for each in changes.entities:
        owners[each].add(each)
    query = f"""SELECT entity, policy FROM attachments WHERE entity IN {_AMONG}
        UNION ALL SELECT id, boundary FROM entities WHERE boundary IS NOT NULL AND id IN {_AMONG}"""
    among = json.dumps(list(owners))
    used = [(owner, arn) for owner, arn in await records.all(query, among, among) if arn not in BUILTIN]
    found = await _managed(records, {arn for _, arn in used})
    for owner, arn in used:
        for each in owners[owner]:
            # One that is not there might have denied something.
            given[each].add(found.get(arn, _LOST))
    broken = await records.broken({holder for holders in given.values() for holder in holders} | changes.accounts)
    denied = {each for each, holders in given.items() if _LOST in holders or holders & broken}
    for each in sorted(denied | broken):
        log.error("control.db is damaged at %s, which is denied everything: restart the server", each)
    return denied | (broken & changes.accounts)


async def _managed(records: Records, arns: Collection[str]) -> dict[str, str]:
    """The ids of managed policies by ARN."""
    query = f"""SELECT number, path, entities.name, entities.id FROM accounts CROSS JOIN entities ON accounts.id = account
        WHERE kind = 'policy' AND entities.name IN {_AMONG}"""
    rows = await records.all(query, json.dumps([arn.rpartition("/")[2] for arn in arns])) if arns else []
    return {arn_of(number, "policy", path, name): entity for number, path, name, entity in rows}


async def _keys(
    records: Records, decrypt: Decrypt, keys: Collection[str] | None, denied: Collection[str] = ()
) -> tuple[list[KeyRow], list[PolicyRow]]:
    """Access keys, and the policies that they have themselves. Without those of who is `denied`."""
    among, given = _among("access_key", keys)
    query = f"""SELECT access_key, user, access_keys.account, nonce, secret, number, path, entities.name, active,
            session_policy
        FROM access_keys JOIN accounts ON accounts.id = access_keys.account LEFT JOIN entities ON entities.id = user
        WHERE {among} ORDER BY access_key"""
    found: list[KeyRow] = []
    sessions: list[PolicyRow] = []
    for access_key, user, account, nonce, secret, number, path, name, active, session in await records.all(
        query, *given
    ):
        owner = user or account
        # A user that is lost is not the root of its account.
        if owner in denied or (user is not None and name is None):
            continue
        try:
            plain = decrypt(access_key, owner, nonce, secret)
        except UnavailableError:
            log.error("The secret of access key %s is damaged: delete the key, and make another one", access_key)
            continue
        arn = root_arn(number) if name is None else arn_of(number, "user", path, name)
        policy = None if session is None else session_id(access_key)
        found.append((access_key, plain, arn, policy, bool(active)))
        if policy is not None:
            sessions.append((policy, session))
    return found, sessions
