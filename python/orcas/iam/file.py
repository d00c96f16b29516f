"""`ORCAS_IDENTITIES_FILE`: users, groups, policies and providers that a start makes as the file says, in one transaction.

What the file does not name stays as it is, and so do the access keys of a user for whom it names none. A start that finds no
difference changes nothing. No message shows a secret.
"""

from __future__ import annotations

import json
import logging
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from orcas.control.identities.actions.limits import BYTES_MAX, REQUESTS_MAX
from orcas.control.identities.failures import IamError
from orcas.control.identities.service import Identities
from orcas.errors import ConfigurationError
from orcas.targets.table import Table

_SECTIONS: Final = ("policies", "groups", "users", "providers")
_ENTRIES_MAX: Final = 10_000

log = logging.getLogger("orcas.control")

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    policies: list[str]


@dataclass(frozen=True, slots=True)
class _User:
    name: str
    policies: list[str]
    groups: list[str]
    boundary: str | None
    # Requests and bytes a second; 0 for no limit.
    limits: tuple[int, int]
    # Access keys and secrets; None: whatever there is.
    keys: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class _Provider:
    url: str
    clients: list[str]
    thumbprints: list[str]
    # Where its keys are, if that is not asked of itself.
    jwks_file: str | None
    jwks_url: str | None


@dataclass(frozen=True, slots=True)
class Declared:
    """What the file says."""

    path: Path
    policies: dict[str, str]
    groups: list[_Group]
    users: list[_User]
    providers: list[_Provider]


def read_identities(path: Path) -> Declared:
    """What is in the file.

    Raises:
        ConfigurationError: it cannot be read, or is not of this form.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", error)
        raise ConfigurationError(f"The identities in {path} cannot be read: {reason}; name a TOML file.") from None
    unknown = next((name for name in document if name not in _SECTIONS), None)
    if unknown is not None:
        raise ConfigurationError(
            f"{path} has [{unknown}]: it may have [policies.NAME], [groups.NAME], [users.NAME] and [providers.URL]."
        )
    sections = [document.get(name, {}) for name in _SECTIONS]
    if not all(isinstance(each, dict) and len(each) <= _ENTRIES_MAX for each in sections):
        raise ConfigurationError(
            f"{path} must have a table for each policy, group, user and provider, at most {_ENTRIES_MAX}."
        )
    policies, groups, users, providers = sections
    return Declared(
        path,
        {name: _document(_table(path, "policy", name, values)) for name, values in policies.items()},
        [_group(_table(path, "group", name, values), name) for name, values in groups.items()],
        [_user(_table(path, "user", name, values), name) for name, values in users.items()],
        [_provider(_table(path, "provider", url, values), path, url) for url, values in providers.items()],
    )


def _table(path: Path, kind: str, name: str, values: object) -> Table:
    where = f"The {kind} {name} in {path}"
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where} must be a table.")
    return Table(where, values)


def _document(table: Table) -> str:
    """The table is the policy."""
    try:
        return json.dumps({"Version": "2012-10-17", **table.rest()})
    except TypeError:
        # TOML has dates.
        raise table.wrong("has a value that JSON cannot have") from None


def _names(table: Table, name: str) -> list[str]:
    return list(table.texts(name, "a name", bool, least=0)) if name in table else []


def _group(table: Table, name: str) -> _Group:
    group = _Group(name, _names(table, "policies"))
    _check_end(table, "group")
    return group


def _user(table: Table, name: str) -> _User:
    keys = None
    if "keys" in table:
        keys = dict(_key(each) for each in table.tables("keys"))
    limits = _limit(table, "requests_per_sec", REQUESTS_MAX), _limit(table, "bytes_per_sec", BYTES_MAX)
    user = _User(name, _names(table, "policies"), _names(table, "groups"), table.text("boundary"), limits, keys)
    _check_end(table, "user")
    return user


def _limit(table: Table, name: str, most: int) -> int:
    return table.number(name, 1, most) if name in table else 0


def _provider(table: Table, path: Path, url: str) -> _Provider:
    jwks_file, jwks_url = table.text("jwks_file"), table.text("jwks_url")
    if jwks_file is not None and jwks_url is not None:
        raise table.wrong("has both jwks_file and jwks_url: keep one of them")
    if jwks_url is not None and not jwks_url.startswith("https://"):
        raise table.wrong("has a jwks_url that does not begin with https://")
    if jwks_file is not None:
        jwks_file = str(path.parent.absolute() / jwks_file)
    provider = _Provider(url, _names(table, "client_ids"), _names(table, "thumbprints"), jwks_file, jwks_url)
    _check_end(table, "provider")
    return provider


def _key(table: Table) -> tuple[str, str]:
    access_key, secret = table.text("access_key"), table.secret("secret_key")
    if access_key is None or secret is None:
        raise table.wrong("needs an access_key, and a secret_key or secret_key_file, in each of its keys")
    _check_end(table, "key")
    return access_key, secret


def _check_end(table: Table, kind: str) -> None:
    if left := table.left():
        raise table.wrong(f"sets {left}, which no {kind} has")


async def apply_identities(declared: Declared, identities: Identities) -> int:
    """Make the identities of the first account as the file says: the number of differences, which are logged.

    Raises:
        ConfigurationError: one of them is not valid. Nothing was changed.
    """
    try:
        steps = await _Plan(declared, identities).steps()
        if steps:
            await identities.perform_all(steps)
    except IamError as error:
        message = error.message if error.message.endswith(".") else f"{error.message}."
        raise ConfigurationError(f"The identities in {declared.path} cannot be applied: {message}") from None
    for action, given in steps:
        named = [
            str(value)
            for name, value in given.items()
            if name.endswith(("Name", "Arn", "AccessKeyId", "Boundary", "Url"))
        ]
        log.info("The file of identities: %s %s", action, " ".join(named))
    return len(steps)


class _Plan:
    """What is to be done, in order. Reads only."""

    def __init__(self, declared: Declared, identities: Identities) -> None:
        self._declared = declared
        self._identities = identities
        self._steps: list[Step] = []
        # ARNs of managed policies by name.
        self._known: dict[str, str] = {}

    async def steps(self) -> list[Step]:
        """The actions that make up the difference."""
        number = (await self._identities.perform("GetUser", {}))["User"]["UserId"]
        for policy in await self._all("ListPolicies", "Policies"):
            self._known[policy["PolicyName"]] = policy["Arn"]
        for name, document in self._declared.policies.items():
            await self._policy(name, document)
            self._known.setdefault(name, f"arn:aws:iam::{number}:policy/{name}")
        groups = {each["GroupName"] for each in await self._all("ListGroups", "Groups")}
        users = {each["UserName"]: each for each in await self._all("ListUsers", "Users")}
        for group in self._declared.groups:
            if group.name not in groups:
                self._add("CreateGroup", GroupName=group.name)
            await self._attachments("Group", group.name, group.policies, exists=group.name in groups)
        secrets = {row[0]: row[1] for row in (await self._identities.snapshot()).keys}
        for user in self._declared.users:
            await self._user(user, users.get(user.name), secrets)
        for provider in self._declared.providers:
            await self._provider(provider, number)
        return self._steps

    def _add(self, action: str, **given: Any) -> None:
        self._steps.append((action, given))

    async def _all(self, action: str, title: str, **given: Any) -> list[Any]:
        page = await self._identities.perform(action, {**given, "MaxItems": 1000})
        found: list[Any] = page[title]
        while page["IsTruncated"]:
            page = await self._identities.perform(action, {**given, "MaxItems": 1000, "Marker": page["Marker"]})
            found += page[title]
        return found

    async def _policy(self, name: str, document: str) -> None:
        arn = self._known.get(name)
        if arn is None:
            self._add("CreatePolicy", PolicyName=name, PolicyDocument=document)
            return
        versions = await self._all("ListPolicyVersions", "Versions", PolicyArn=arn)
        default = next(each["VersionId"] for each in versions if each["IsDefaultVersion"])
        present = await self._identities.perform("GetPolicyVersion", {"PolicyArn": arn, "VersionId": default})
        if json.loads(unquote(present["PolicyVersion"]["Document"])) == json.loads(document):
            return
        if len(versions) == 5:
            oldest = [each["VersionId"] for each in versions if not each["IsDefaultVersion"]][-1]
            self._add("DeletePolicyVersion", PolicyArn=arn, VersionId=oldest)
        self._add("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)

    def _arn(self, policy: str) -> str:
        arn = policy if policy.startswith("arn:") else self._known.get(policy)
        if arn is None:
            raise IamError("NoSuchEntity", f"There is no policy {policy}.")
        return arn

    async def _attachments(self, kind: str, name: str, policies: list[str], *, exists: bool) -> None:
        named, wanted = {f"{kind}Name": name}, [self._arn(policy) for policy in policies]
        listed = await self._all(f"ListAttached{kind}Policies", "AttachedPolicies", **named) if exists else []
        present = [each["PolicyArn"] for each in listed]
        for arn in present:
            if arn not in wanted:
                self._add(f"Detach{kind}Policy", **named, PolicyArn=arn)
        for arn in wanted:
            if arn not in present:
                self._add(f"Attach{kind}Policy", **named, PolicyArn=arn)

    async def _provider(self, wanted: _Provider, number: str) -> None:
        present = await self._identities.provider(number, wanted.url)
        keys = {"jwks_file": wanted.jwks_file, "jwks_url": wanted.jwks_url}
        details = {"url": wanted.url, "clients": wanted.clients, "thumbprints": wanted.thumbprints, **keys}
        if present is not None and {"jwks_file": None, "jwks_url": None, **present.details} == details:
            return
        if present is not None:
            self._add("DeleteOpenIDConnectProvider", OpenIDConnectProviderArn=present.arn)
        lists = {"ClientIDList": wanted.clients, "ThumbprintList": wanted.thumbprints}
        given = {"JwksFile": wanted.jwks_file, "JwksUrl": wanted.jwks_url}
        self._add("CreateOpenIDConnectProvider", Url=wanted.url, **lists, **given)

    async def _user(self, user: _User, present: dict[str, Any] | None, secrets: dict[str, str]) -> None:
        named, exists = {"UserName": user.name}, present is not None
        if not exists:
            self._add("CreateUser", **named)
        boundary = None if user.boundary is None else self._arn(user.boundary)
        former = (present or {}).get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        if boundary is not None and boundary != former:
            self._add("PutUserPermissionsBoundary", **named, PermissionsBoundary=boundary)
        if boundary is None and former is not None:
            self._add("DeleteUserPermissionsBoundary", **named)
        await self._attachments("User", user.name, user.policies, exists=exists)
        groups = (
            {each["GroupName"] for each in await self._all("ListGroupsForUser", "Groups", **named)} if exists else set()
        )
        for group in sorted(groups - set(user.groups)):
            self._add("RemoveUserFromGroup", GroupName=group, **named)
        for group in sorted(set(user.groups) - groups):
            self._add("AddUserToGroup", GroupName=group, **named)
        limits = (await self._identities.perform("GetLimits", named))["Limits"] if exists else {}
        requests, bytes_ = user.limits
        if (limits.get("RequestsPerSecond", 0), limits.get("BytesPerSecond", 0)) != user.limits:
            self._add("PutLimits", **named, RequestsPerSecond=requests, BytesPerSecond=bytes_)
        if user.keys is None:
            return
        listed = await self._all("ListAccessKeys", "AccessKeyMetadata", **named) if exists else []
        keys = {each["AccessKeyId"]: each["Status"] for each in listed}
        for key, status in keys.items():
            if user.keys.get(key) != secrets.get(key):
                self._add("DeleteAccessKey", **named, AccessKeyId=key)
            elif status != "Active":
                self._add("UpdateAccessKey", **named, AccessKeyId=key, Status="Active")
        for key, secret in user.keys.items():
            if key not in keys or secrets.get(key) != secret:
                self._add("CreateAccessKey", **named, AccessKeyId=key, SecretAccessKey=secret)
