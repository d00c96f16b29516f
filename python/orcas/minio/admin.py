"""The part of MinIO's admin API that sets a server up: users, policies, access keys, and what `mc admin info` shows.

Each order is one of IAM's actions, or several that are done together; root alone may give it. Bodies with secrets are
encrypted with root's (`orcas.minio.sealed`). https://github.com/minio/madmin-go
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, unquote

from orcas.admin.guard import RootOnly
from orcas.control.identities.failures import IamError
from orcas.errors import UnavailableError
from orcas.http.bodies import collect
from orcas.iam.removal import deletion_of, holds
from orcas.minio.policies import BUILT_IN
from orcas.minio.sealed import SealedError, opened, sealed
from orcas.telemetry.reports import note_cause
from orcas.version import orcas_version

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from orcas.admin.guard import Gatekeeper
    from orcas.admin.parts import Parts
    from orcas.engine import AdminCaller

PREFIX: Final = "/minio/admin/"
_VERSIONS: Final = ("v3", "v4")
_BODY_MAX: Final = 64 * 1024
# Entries of a list of IAM in one answer.
_PAGE: Final = 1000
_NOT_HERE: Final = "Orcas does not have this call of MinIO's admin API: use `{}`."
# The commands in place of other orders, by the beginning of their names.
_INSTEAD: Final = {
    "get-bucket-quota": "orcas quota", "set-bucket-quota": "orcas quota", "trace": "orcas top", "top": "orcas top",
    "heal": "orcas scrub", "service": "orcas stop", "replication": "orcas replication",
    "site-replication": "orcas replication", "set-remote-target": "orcas replication target",
    "list-remote-targets": "orcas replication target", "remove-remote-target": "orcas replication target",
    "export-iam": "orcas identities export", "get-config": "orcas config", "set-config": "orcas config",
    "speedtest": "orcas bench",
}  # fmt: skip
_OTHERS: Final = "orcas --help"
# For how long the same order is taken again: clients sign whole seconds.
_AGAIN_SECONDS: Final = 2.0
# What MinIO says of a key that does not expire.
_NEVER: Final = "1970-01-01T00:00:00Z"
_EVERYTHING: Final = {
    "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}],
}  # fmt: skip
_NO_CIPHER: Final = "MinIO's admin API needs the package cryptography: pip install 'orcas-s3[tls]'."


class Root(Protocol):
    """Who gives orders."""

    @property
    def access_key(self) -> str:
        """The access key."""

    @property
    def secret_key(self) -> str:
        """Its secret."""


class OrderError(Exception):
    """An order cannot be carried out: status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


# What an order answers: nothing, a document, or, encrypted, a document.
_Answer = tuple[dict[str, Any] | list[str] | None, bool]
_NOTHING: Final[_Answer] = (None, False)


class _Repeated:
    """Takes an order again within a moment of its first time; later, it is refused as one that was captured.

    Dates have whole seconds, and MinIO's clients sign nothing that would tell two orders of one second apart: a command that
    is given twice, or tried again after a lost connection, is the very same request.
    """

    def __init__(self, gatekeeper: Callable[[], Gatekeeper]) -> None:
        self._gatekeeper = gatekeeper
        # When each order was first taken, the oldest first.
        self._taken: dict[bytes, float] = {}

    def authenticate_admin(
        self, scope: MutableMapping[str, Any], action: str | None, bucket: str | None, once: bool, /
    ) -> AdminCaller:
        """As that of the gatekeeper."""
        now = time.monotonic()
        self._taken = {known: at for known, at in self._taken.items() if now - at < _AGAIN_SECONDS}
        signature = b",".join(value for name, value in scope["headers"] if name == b"authorization")
        caller = self._gatekeeper().authenticate_admin(scope, action, bucket, once and signature not in self._taken)
        if once:
            # Only of requests whose signature is right.
            self._taken.setdefault(signature, now)
        return caller


class MinioAdmin:
    """The ASGI application below `/minio/admin/`. `parts` and `root` are called for each request."""

    def __init__(self, parts: Callable[[], Parts], root: Callable[[], Root]) -> None:
        self._parts = parts
        self._root = root
        # Deriving a key takes 64 MiB.
        self._turn = asyncio.Lock()
        repeated = _Repeated(lambda: parts().core)
        self._guarded = RootOnly(self._answer, lambda: repeated, _refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._guarded(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        version, _, name = scope["path"].partition(PREFIX)[2].partition("/")
        order = _ORDERS.get((scope["method"], name)) if version in _VERSIONS else None
        try:
            if order is None:
                instead = next((command for begin, command in _INSTEAD.items() if name.startswith(begin)), _OTHERS)
                raise OrderError(501, "NotImplemented", _NOT_HERE.format(instead))
            if find_spec("cryptography") is None:
                raise OrderError(501, "NotImplemented", _NO_CIPHER)
            given = _Given(self, scope, await collect(receive, _BODY_MAX))
            document, is_sealed = await order(given)
        except OrderError as error:
            await _refuse(scope, send, error.status, error.code, error.message)
            return
        except IamError as error:
            await _refuse(scope, send, error.status, error.code, error.message)
            return
        except UnavailableError as error:
            await _refuse(scope, send, 503, "StoreError", str(error))
            return
        body = b"" if document is None else json.dumps(document).encode()
        if is_sealed:
            body = await self.seal(body)
        await _send(scope, send, 204 if order is _delete_service_account else 200, body)

    def is_root(self, access_key: str) -> bool:
        """Whether it is root's."""
        return access_key == self._root().access_key

    async def seal(self, content: bytes) -> bytes:
        """The body of an answer that is encrypted."""
        async with self._turn:
            return await asyncio.to_thread(sealed, self._root().secret_key, content)

    async def open(self, body: bytes) -> dict[str, Any]:
        """The document in an encrypted body.

        Raises:
            OrderError: it is not encrypted with root's secret, or has no document.
        """
        async with self._turn:
            try:
                document = json.loads(await asyncio.to_thread(opened, self._root().secret_key, body))
            except (SealedError, ValueError):
                document = None
        if not isinstance(document, dict):
            raise OrderError(400, "InvalidRequest", "The body is not encrypted with the secret that signs the request.")
        return document

    async def perform(self, action: str, scope: Scope, **parameters: Any) -> dict[str, Any]:
        """The answer of an action of IAM, by root."""
        identities = self._parts().identities
        if identities is None:
            raise OrderError(409, "NoIdentities", "A store that is open for salvage has no identities but root.")
        client = scope.get("client")
        context = {"aws:SourceIp": [client[0]]} if client else {}
        return await (await identities.identities()).perform(action, parameters, context=context)

    async def perform_all(self, steps: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Actions of IAM, by root: all of them or none."""
        identities = self._parts().identities
        if identities is None:
            raise OrderError(409, "NoIdentities", "A store that is open for salvage has no identities but root.")
        await (await identities.identities()).perform_all(list(steps))

    async def stats(self) -> dict[str, Any]:
        """What `mc admin info` shows."""
        stats = await asyncio.to_thread(self._parts().core.stats)
        server = {"state": "online", "endpoint": "orcas", "version": f"orcas {orcas_version()}", "drives": []}
        return {
            "mode": "online",
            "deploymentID": stats["store"],
            "buckets": {"count": len(stats["buckets"])},
            "objects": {"count": sum(bucket["objects"] for bucket in stats["buckets"])},
            "usage": {"size": stats["totals"]["logical"]},
            "backend": {"backendType": "FS"},
            "servers": [server],
        }


class _Given:
    """One order: its parameters and its body, and what carries it out."""

    def __init__(self, admin: MinioAdmin, scope: Scope, body: bytes) -> None:
        self.admin, self.body, self._scope = admin, body, scope
        self._parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)

    def text(self, name: str) -> str:
        """A parameter, which must be there."""
        found = self.texts(name)
        if not found:
            raise OrderError(400, "InvalidArgument", f"The parameter {name} is missing.")
        return found[0]

    def texts(self, name: str) -> list[str]:
        """All values of a parameter."""
        return [value for value in self._parameters.get(name, []) if value]

    async def document(self) -> dict[str, Any]:
        """The document in the body, which is encrypted."""
        return await self.admin.open(self.body)

    async def ask(self, action: str, **parameters: Any) -> dict[str, Any]:
        """The answer of an action of IAM."""
        return await self.admin.perform(action, self._scope, **parameters)

    async def all(self, action: str, entries: str, **parameters: Any) -> list[Any]:
        """All entries of a list of IAM: documents, or names."""
        found: list[Any] = []
        marker: dict[str, Any] = {}
        while True:
            page = await self.ask(action, MaxItems=_PAGE, **parameters, **marker)
            found += page[entries]
            if not page.get("IsTruncated"):
                return found
            marker = {"Marker": page["Marker"]}

    async def policies(self) -> dict[str, str]:
        """The ARNs of the policies of this server, by name."""
        known = await self.all("ListPolicies", "Policies", Scope="Local")
        return {str(each["PolicyName"]): str(each["Arn"]) for each in known}

    async def arn_of(self, name: str) -> str:
        """The ARN of a policy. One that MinIO brings along is made when it is first used."""
        known = await self.policies()
        if name in known:
            return known[name]
        if name not in BUILT_IN:
            raise OrderError(404, "XMinioAdminNoSuchPolicy", f"The policy {name} does not exist.")
        made = await self.ask("CreatePolicy", PolicyName=name, PolicyDocument=json.dumps(BUILT_IN[name]))
        arn: str = made["Policy"]["Arn"]
        return arn

    async def has_user(self, name: str) -> bool:
        """Whether there is a user with this name."""
        try:
            await self.ask("GetUser", UserName=name)
        except IamError as error:
            if error.code != "NoSuchEntity":
                raise
            return False
        return True

    async def check_user(self, name: str) -> None:
        """Refuse an order about a user that does not exist."""
        if not await self.has_user(name):
            raise OrderError(404, "XMinioAdminNoSuchUser", f"The user {name} does not exist.")

    async def shown_user(self, name: str) -> dict[str, Any]:
        """A user as MinIO shows it: enabled as long as the key of its name is."""
        keys = await self.all("ListAccessKeys", "AccessKeyMetadata", UserName=name)
        groups = await self.all("ListGroupsForUser", "Groups", UserName=name)
        is_active = any(key["AccessKeyId"] == name and key["Status"] == "Active" for key in keys)
        return {
            "policyName": ",".join(await self.attached("User", name)),
            "status": "enabled" if is_active else "disabled",
            "memberOf": [each["GroupName"] for each in groups],
        }

    async def attached(self, kind: str, name: str) -> list[str]:
        """The policies that are attached to a user or a group, by name."""
        found = await self.all(f"ListAttached{kind}Policies", "AttachedPolicies", **{f"{kind}Name": name})
        return sorted(each["PolicyName"] for each in found)

    async def members(self, group: str) -> list[str]:
        """The members of a group, which must be there."""
        try:
            members = await self.all("GetGroup", "Users", GroupName=group)
        except IamError as error:
            raise OrderError(404, "XMinioAdminNoSuchGroup", error.message) from None
        return [member["UserName"] for member in members]

    async def groups(self) -> list[str]:
        """All groups, by name."""
        return [group["GroupName"] for group in await self.all("ListGroups", "Groups")]

    async def service_accounts(self, user: str) -> list[dict[str, Any]]:
        """The access keys of a user beside the one of its name."""
        keys = await self.all("ListAccessKeys", "AccessKeyMetadata", UserName=user)
        return [
            {
                "parentUser": user,
                "accountStatus": "on" if key["Status"] == "Active" else "off",
                "impliedPolicy": False,
                "accessKey": key["AccessKeyId"],
                "expiration": _NEVER,
            }
            for key in keys
            if key["AccessKeyId"] != user
        ]

    async def owner_of(self, access_key: str) -> str:
        """The user who has an access key."""
        try:
            found: str = (await self.ask("GetAccessKeyLastUsed", AccessKeyId=access_key))["UserName"]
        except IamError as error:
            raise OrderError(404, "XMinioInvalidIAMCredentials", error.message) from None
        return found


async def _add_user(given: _Given) -> _Answer:
    name, document = given.text("accessKey"), await given.document()
    secret, status, policy = (document.get(key) for key in ("secretKey", "status", "policy"))
    if not isinstance(secret, str):
        raise OrderError(400, "InvalidArgument", "A user needs a secretKey.")
    steps: list[tuple[str, dict[str, Any]]] = []
    if await given.has_user(name):
        keys = await given.all("ListAccessKeys", "AccessKeyMetadata", UserName=name)
        if any(key["AccessKeyId"] == name for key in keys):
            steps.append(("DeleteAccessKey", {"UserName": name, "AccessKeyId": name}))
    else:
        steps.append(("CreateUser", {"UserName": name}))
    steps.append(("CreateAccessKey", {"UserName": name, "AccessKeyId": name, "SecretAccessKey": secret}))
    if status == "disabled":
        steps.append(("UpdateAccessKey", {"UserName": name, "AccessKeyId": name, "Status": "Inactive"}))
    if policy:
        arns = [await given.arn_of(each) for each in str(policy).split(",")]
        steps += [("AttachUserPolicy", {"UserName": name, "PolicyArn": arn}) for arn in arns]
    await given.admin.perform_all(steps)
    return _NOTHING


async def _remove_user(given: _Given) -> _Answer:
    name = given.text("accessKey")
    await given.check_user(name)
    await given.admin.perform_all(await _removal(given, "User", name))
    return _NOTHING


async def _removal(given: _Given, called: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """The steps that delete a user or group with all that it has."""
    named, steps = {f"{called}Name": name}, list[tuple[str, dict[str, Any]]]()
    for hold in holds(called.lower()):
        for entry in await given.all(hold.lists, hold.entries, **named):
            found = entry if isinstance(entry, str) else entry[hold.parameter]
            steps.append((hold.removes, {**named, hold.parameter: found}))
    return [*steps, (f"Delete{called}", named)]


async def _list_users(given: _Given) -> _Answer:
    users = await given.all("ListUsers", "Users")
    return {user["UserName"]: await given.shown_user(user["UserName"]) for user in users}, True


async def _user_info(given: _Given) -> _Answer:
    name = given.text("accessKey")
    await given.check_user(name)
    return await given.shown_user(name), False


async def _set_user_status(given: _Given) -> _Answer:
    name, status = given.text("accessKey"), given.text("status")
    if status not in ("enabled", "disabled"):
        raise OrderError(400, "InvalidArgument", "The status is enabled or disabled.")
    await given.check_user(name)
    wanted = "Active" if status == "enabled" else "Inactive"
    await given.ask("UpdateAccessKey", UserName=name, AccessKeyId=name, Status=wanted)
    return _NOTHING


async def _change_group(given: _Given) -> _Answer:
    """Make a group, change who is in it, or, without members to remove, remove it."""
    try:
        document = json.loads(given.body)
        name, members = document["group"], document["members"] or []
    except (ValueError, TypeError, KeyError):
        raise OrderError(400, "InvalidRequest", "The body names no group and members.") from None
    for member in members:
        await given.check_user(str(member))
    change = "RemoveUserFromGroup" if document.get("isRemove") else "AddUserToGroup"
    steps = [(change, {"GroupName": name, "UserName": member}) for member in members]
    if change == "AddUserToGroup":
        if name not in await given.groups():
            steps.insert(0, ("CreateGroup", {"GroupName": name}))
    elif not members:
        if await given.members(name):
            raise OrderError(400, "XMinioAdminGroupNotEmpty", f"The group {name} has members.")
        steps = await _removal(given, "Group", name)
    await given.admin.perform_all(steps)
    return _NOTHING


async def _list_groups(given: _Given) -> _Answer:
    return await given.groups(), False


async def _group_info(given: _Given) -> _Answer:
    name = given.text("group")
    members, policies = await given.members(name), await given.attached("Group", name)
    return {"name": name, "status": "enabled", "members": members, "policy": ",".join(policies)}, False


async def _policy_entities(given: _Given) -> _Answer:
    """Which policies the users and groups have that are named, and who has those that are named; else all that there is."""
    users, groups, policies = (given.texts(kind) for kind in ("user", "group", "policy"))
    of_all = not (users or groups or policies)
    names = [user["UserName"] for user in await given.all("ListUsers", "Users")]
    of_users = {name: await given.attached("User", name) for name in names}
    of_groups = {name: await given.attached("Group", name) for name in await given.groups()}
    if of_all:
        policies = sorted({policy for found in (*of_users.values(), *of_groups.values()) for policy in found})
    mappings = []
    for name, found in of_users.items():
        if name in users or (of_all and found):
            member_of = [team["GroupName"] for team in await given.all("ListGroupsForUser", "Groups", UserName=name)]
            shown = [{"group": team, "policies": of_groups[team]} for team in member_of]
            mappings.append({"user": name, "policies": found, "memberOfMappings": shown})
    having = {"users": of_users, "groups": of_groups}
    return {
        "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "userMappings": mappings,
        "groupMappings": [
            {"group": name, "policies": found}
            for name, found in of_groups.items()
            if name in groups or (of_all and found)
        ],
        "policyMappings": [
            {
                "policy": policy,
                **{kind: [name for name in found if policy in found[name]] for kind, found in having.items()},
            }
            for policy in policies
        ],
    }, True


async def _add_policy(given: _Given) -> _Answer:
    name, document = given.text("name"), given.body.decode("utf-8", errors="replace")
    known = await given.policies()
    if name not in known:
        await given.ask("CreatePolicy", PolicyName=name, PolicyDocument=document)
        return _NOTHING
    versions = await given.all("ListPolicyVersions", "Versions", PolicyArn=known[name])
    others = [version["VersionId"] for version in versions if not version["IsDefaultVersion"]]
    steps: list[tuple[str, dict[str, Any]]] = [
        ("DeletePolicyVersion", {"PolicyArn": known[name], "VersionId": other}) for other in others
    ]
    new = {"PolicyArn": known[name], "PolicyDocument": document, "SetAsDefault": True}
    await given.admin.perform_all([*steps, ("CreatePolicyVersion", new)])
    return _NOTHING


async def _remove_policy(given: _Given) -> _Answer:
    name = given.text("name")
    known = await given.policies()
    if name not in known:
        raise OrderError(404, "XMinioAdminNoSuchPolicy", f"The policy {name} does not exist.")
    versions = await given.all("ListPolicyVersions", "Versions", PolicyArn=known[name])
    await given.admin.perform_all(deletion_of(known[name], versions))
    return _NOTHING


async def _document_of(given: _Given, arn: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a policy says, and when that was written."""
    policy = (await given.ask("GetPolicy", PolicyArn=arn))["Policy"]
    version = await given.ask("GetPolicyVersion", PolicyArn=arn, VersionId=policy["DefaultVersionId"])
    # Encoded, as AWS has it.
    return json.loads(unquote(version["PolicyVersion"]["Document"])), policy


async def _list_policies(given: _Given) -> _Answer:
    known = await given.policies()
    return BUILT_IN | {name: (await _document_of(given, arn))[0] for name, arn in known.items()}, False


async def _policy_info(given: _Given) -> _Answer:
    name = given.text("name")
    known = await given.policies()
    if name in known:
        document, policy = await _document_of(given, known[name])
        dates = {"CreateDate": policy["CreateDate"], "UpdateDate": policy["UpdateDate"]}
        return {"PolicyName": name, "Policy": document, **dates}, False
    if name not in BUILT_IN:
        raise OrderError(404, "XMinioAdminNoSuchPolicy", f"The policy {name} does not exist.")
    return {"PolicyName": name, "Policy": BUILT_IN[name]}, False


async def _change_policies(given: _Given, *, attach: bool) -> _Answer:
    document = await given.document()
    policies, user, group = (document.get(key) for key in ("policies", "user", "group"))
    if not isinstance(policies, list) or not policies or bool(user) == bool(group):
        raise OrderError(400, "InvalidRequest", "Name policies, and a user or a group.")
    kind, name = ("User", user) if user else ("Group", group)
    attached = await given.all(f"ListAttached{kind}Policies", "AttachedPolicies", **{f"{kind}Name": name})
    present = {each["PolicyName"]: each["PolicyArn"] for each in attached}
    changed = [str(each) for each in policies if (str(each) in present) != attach]
    if not changed:
        message = "The specified policy change is already in effect."
        raise OrderError(400, "XMinioAdminPolicyChangeAlreadyApplied", message)
    action = f"{'Attach' if attach else 'Detach'}{kind}Policy"
    arns = [present[each] if each in present else await given.arn_of(each) for each in changed]
    await given.admin.perform_all((action, {f"{kind}Name": name, "PolicyArn": arn}) for arn in arns)
    return {"policiesAttached" if attach else "policiesDetached": changed}, True


async def _attach(given: _Given) -> _Answer:
    return await _change_policies(given, attach=True)


async def _detach(given: _Given) -> _Answer:
    return await _change_policies(given, attach=False)


async def _add_service_account(given: _Given) -> _Answer:
    document = await given.document()
    if document.get("expiration"):
        raise OrderError(501, "NotImplemented", "Access keys do not expire: use temporary credentials (AssumeRole).")
    user = document.get("targetUser")
    parameters: dict[str, Any] = {}
    if user and not given.admin.is_root(user):
        # With a policy of its own, whatever that says, it does not count as one of the two keys of the user.
        parameters = {"UserName": user, "SessionPolicy": json.dumps(document.get("policy") or _EVERYTHING)}
    elif document.get("policy"):
        raise OrderError(400, "InvalidRequest", "A key of root has no policy: make it for a user.")
    if document.get("accessKey") or document.get("secretKey"):
        parameters |= {"AccessKeyId": document.get("accessKey"), "SecretAccessKey": document.get("secretKey")}
    key = (await given.ask("CreateAccessKey", **parameters))["AccessKey"]
    made = {"accessKey": key["AccessKeyId"], "secretKey": key["SecretAccessKey"], "expiration": _NEVER}
    return {"credentials": made}, True


async def _list_service_accounts(given: _Given) -> _Answer:
    user = given.text("user")
    await given.check_user(user)
    return {"accounts": await given.service_accounts(user)}, True


async def _list_access_keys(given: _Given) -> _Answer:
    named = given.texts("users")
    users = named or [user["UserName"] for user in await given.all("ListUsers", "Users")]
    found = {}
    for user in users:
        await given.check_user(user)
        found[user] = {"serviceAccounts": await given.service_accounts(user), "stsKeys": None}
    return found, True


async def _service_account_info(given: _Given) -> _Answer:
    key = given.text("accessKey")
    user = await given.owner_of(key)
    shown = [each for each in await given.service_accounts(user) if each["accessKey"] == key]
    if not shown:
        raise OrderError(404, "XMinioInvalidIAMCredentials", f"{key} is no service account.")
    return shown[0], True


async def _delete_service_account(given: _Given) -> _Answer:
    key = given.text("accessKey")
    user = await given.owner_of(key)
    await given.ask("DeleteAccessKey", UserName=user, AccessKeyId=key)
    return _NOTHING


async def _info(given: _Given) -> _Answer:
    return await given.admin.stats(), False


_Order = Callable[[_Given], Awaitable[_Answer]]
_ORDERS: Final[dict[tuple[str, str], _Order]] = {
    ("GET", "info"): _info,
    ("PUT", "add-user"): _add_user,
    ("DELETE", "remove-user"): _remove_user,
    ("GET", "list-users"): _list_users,
    ("GET", "user-info"): _user_info,
    ("PUT", "set-user-status"): _set_user_status,
    ("PUT", "add-canned-policy"): _add_policy,
    ("DELETE", "remove-canned-policy"): _remove_policy,
    ("GET", "list-canned-policies"): _list_policies,
    ("GET", "info-canned-policy"): _policy_info,
    ("PUT", "update-group-members"): _change_group,
    ("GET", "groups"): _list_groups,
    ("GET", "group"): _group_info,
    ("GET", "idp/builtin/policy-entities"): _policy_entities,
    ("POST", "idp/builtin/policy/attach"): _attach,
    ("POST", "idp/builtin/policy/detach"): _detach,
    ("PUT", "add-service-account"): _add_service_account,
    ("GET", "list-service-accounts"): _list_service_accounts,
    ("GET", "list-access-keys-bulk"): _list_access_keys,
    ("GET", "info-service-account"): _service_account_info,
    ("GET", "info-access-key"): _service_account_info,
    ("DELETE", "delete-service-account"): _delete_service_account,
}


async def _refuse(scope: Scope, send: Send, status: int, code: str, message: str) -> None:
    note_cause(scope, code, message)
    await _send(scope, send, status, json.dumps({"Code": code, "Message": message}).encode())


async def _send(scope: Scope, send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
