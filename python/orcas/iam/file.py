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

from orcas.control.identities.actions.limits import BYTES_MAX, REQUESTS_MAX
from orcas.control.identities.failures import IamError
from orcas.control.identities.named import Named
from orcas.control.identities.names import VERSIONS_MAX
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
    """The identities that the file declares."""

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
            if value is not None and name.endswith(("Name", "Arn", "AccessKeyId", "Boundary", "Url"))
        ]
        log.info("The file of identities: %s %s", action, " ".join(named))
    return len(steps)


class _Plan:
    """The changes to be made, in order. Reads only."""

    def __init__(self, declared: Declared, identities: Identities) -> None:
        self._declared = declared
        self._identities = identities
        self._steps: list[Step] = []
        # ARNs of managed policies by name.
        self._known: dict[str, str] = {}

    async def steps(self) -> list[Step]:
        """The actions that make up the difference."""
        declared, named = self._declared, self._identities.named
        number = (await self._identities.perform("GetUser", {}))["User"]["UserId"]
        holders: list[_Group | _User] = [*declared.groups, *declared.users]
        wanted = {policy for holder in holders for policy in holder.policies}
        wanted |= {user.boundary for user in declared.users if user.boundary is not None}
        policies = await named("policy", wanted | declared.policies.keys())
        self._known = {name: policy.arn for name, policy in policies.items()}
        for name, document in declared.policies.items():
            self._policy(name, document, policies.get(name))
            self._known.setdefault(name, f"arn:aws:iam::{number}:policy/{name}")
        groups = await named("group", {group.name for group in declared.groups})
        users = await named("user", {user.name for user in declared.users})
        for group in declared.groups:
            if group.name not in groups:
                self._add("CreateGroup", GroupName=group.name)
            self._attachments("Group", group.name, group.policies, groups.get(group.name, Named()))
        for user in declared.users:
            if user.name not in users:
                self._add("CreateUser", UserName=user.name)
            self._user(user, users.get(user.name, Named()))
        for provider in declared.providers:
            await self._provider(provider, number)
        return self._steps

    def _add(self, action: str, **given: Any) -> None:
        self._steps.append((action, given))

    def _policy(self, name: str, document: str, present: Named | None) -> None:
        if present is None:
            self._add("CreatePolicy", PolicyName=name, PolicyDocument=document)
            return
        if json.loads(present.versions[present.default]) == json.loads(document):
            return
        if len(present.versions) == VERSIONS_MAX:
            oldest = min(present.versions.keys() - {present.default}, key=lambda version: int(version[1:]))
            self._add("DeletePolicyVersion", PolicyArn=present.arn, VersionId=oldest)
        self._add("CreatePolicyVersion", PolicyArn=present.arn, PolicyDocument=document, SetAsDefault=True)

    def _arn(self, policy: str) -> str:
        arn = policy if policy.startswith("arn:") else self._known.get(policy)
        if arn is None:
            raise IamError("NoSuchEntity", f"There is no policy {policy}.")
        return arn

    def _attachments(self, kind: str, name: str, policies: list[str], present: Named) -> None:
        named, wanted = {f"{kind}Name": name}, [self._arn(policy) for policy in policies]
        for arn in present.policies:
            if arn not in wanted:
                self._add(f"Detach{kind}Policy", **named, PolicyArn=arn)
        for arn in wanted:
            if arn not in present.policies:
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

    def _user(self, user: _User, present: Named) -> None:
        named = {"UserName": user.name}
        boundary = None if user.boundary is None else self._arn(user.boundary)
        if boundary is not None and boundary != present.boundary:
            self._add("PutUserPermissionsBoundary", **named, PermissionsBoundary=boundary)
        if boundary is None and present.boundary is not None:
            self._add("DeleteUserPermissionsBoundary", **named)
        self._attachments("User", user.name, user.policies, present)
        # Names are found in whatever case.
        is_in, wanted = ({group.lower(): group for group in groups} for groups in (present.groups, user.groups))
        for group in sorted(is_in.keys() - wanted.keys()):
            self._add("RemoveUserFromGroup", GroupName=is_in[group], **named)
        for group in sorted(wanted.keys() - is_in.keys()):
            self._add("AddUserToGroup", GroupName=wanted[group], **named)
        if present.limits != user.limits:
            requests, bytes_ = user.limits
            self._add("PutLimits", **named, RequestsPerSecond=requests, BytesPerSecond=bytes_)
        if user.keys is None:
            return
        for key, (secret, is_active) in present.keys.items():
            if user.keys.get(key) != secret:
                self._add("DeleteAccessKey", **named, AccessKeyId=key)
            elif not is_active:
                self._add("UpdateAccessKey", **named, AccessKeyId=key, Status="Active")
        for key, secret in user.keys.items():
            if key not in present.keys or present.keys[key][0] != secret:
                self._add("CreateAccessKey", **named, AccessKeyId=key, SecretAccessKey=secret)
