"""The file of identities, written: what `ORCAS_IDENTITIES_FILE` of another server reads back.

Secrets are in it only if they were asked for. What the file has no place for is named, never silently left out.
"""

from __future__ import annotations

import json
from typing import Any, Final

from orcas.control.identities.service import Identities

_PAGE: Final = 1_000
_KINDS: Final = ("User", "Group", "Role", "LocalManagedPolicy")


async def export_identities(identities: Identities, *, secrets: bool) -> tuple[str, list[str]]:
    """The users, groups, policies and providers of the first account as a file, and the names of what is not in it.

    Without `secrets`, the file says nothing of access keys, so that whoever reads it keeps theirs.

    Raises:
        IamError: they cannot be read.
        UnavailableError: a secret cannot be decrypted.
    """
    found = await _details(identities)
    users, groups = found["UserDetailList"], found["GroupDetailList"]
    policies = [policy["PolicyName"] for policy in found["Policies"]]
    left_out = [f"role {role['RoleName']}" for role in found["RoleDetailList"]]
    lines: list[str] = []
    for name, policy in sorted((await identities.named("policy", policies)).items()):
        if name in policies:
            lines += _table("policies", name, json.loads(policy.versions[policy.default]))
    for group in groups:
        left_out += [f"policy {it['PolicyName']} of the group {group['GroupName']}" for it in group["GroupPolicyList"]]
        lines += _table("groups", group["GroupName"], {"policies": _attached(group)})
    keys = await _keys(identities, left_out) if secrets else {}
    known = await identities.named("user", [user["UserName"] for user in users])
    for user in users:
        name = user["UserName"]
        left_out += [f"policy {it['PolicyName']} of the user {name}" for it in user["UserPolicyList"]]
        requests, bytes_ = known[name].limits
        boundary = user.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        values = {
            "groups": user["GroupList"], "policies": _attached(user),
            "boundary": boundary and boundary.rpartition("/")[2],
            "requests_per_sec": requests or None, "bytes_per_sec": bytes_ or None,
            "keys": keys.get(user["Arn"], []) if secrets else None,
        }  # fmt: skip
        lines += _table("users", name, values)
    lines += await _providers(identities)
    return "\n".join(lines), left_out


async def _details(identities: Identities) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    page: dict[str, Any] = {}
    while not found or page["IsTruncated"]:
        marker = {"Marker": page["Marker"]} if page else {}
        page = await identities.perform(
            "GetAccountAuthorizationDetails", {"Filter": list(_KINDS), "MaxItems": _PAGE, **marker}
        )
        for title in ("UserDetailList", "GroupDetailList", "RoleDetailList", "Policies"):
            found.setdefault(title, []).extend(page[title])
    return found


async def _keys(identities: Identities, left_out: list[str]) -> dict[str, list[dict[str, str]]]:
    """The active keys by the ARNs of their users, but for those with policies of their own, which are left out."""
    found: dict[str, list[dict[str, str]]] = {}
    for key, secret, arn, policy, is_active in (await identities.snapshot()).keys:
        if policy is not None or not is_active:
            left_out.append(f"access key {key}, which {'is a service account' if policy else 'is disabled'}")
        else:
            found.setdefault(arn, []).append({"access_key": key, "secret_key": secret})
    return found


async def _providers(identities: Identities) -> list[str]:
    number = (await identities.perform("GetUser", {}))["User"]["UserId"]
    lines: list[str] = []
    for listed in (await identities.perform("ListOpenIDConnectProviders", {}))["OpenIDConnectProviderList"]:
        url = "https://" + listed["Arn"].partition("oidc-provider/")[2]
        provider = await identities.provider(number, url)
        if provider is not None:
            details = provider.details
            values = {"client_ids": details["clients"], "thumbprints": details["thumbprints"]}
            lines += _table("providers", url, values | {name: details.get(name) for name in ("jwks_file", "jwks_url")})
    return lines


def _attached(entity: dict[str, Any]) -> list[str]:
    return [policy["PolicyName"] for policy in entity["AttachedManagedPolicies"]]


def _table(section: str, name: str, values: dict[str, Any]) -> list[str]:
    """A table of TOML, without what is None."""
    lines = [f"{_text(field)} = {_value(value)}" for field, value in values.items() if value is not None]
    return [f"[{section}.{_text(name)}]", *lines, ""]


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A string of TOML, which is one of JSON, but for the last control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
