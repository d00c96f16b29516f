"""Access keys. A secret is in the answer that makes it, and in no other one."""

from __future__ import annotations

import re
from typing import Any, Final

from orcas.control.identities.actions.entities import user_or_caller
from orcas.control.identities.calls import Answer, Call
from orcas.control.identities.failures import IamError, limit
from orcas.control.identities.names import KEYS_OF_USER_MAX, SERVICE_ACCOUNTS_OF_USER_MAX, SESSION_MAX, time_of
from orcas.control.identities.records import Entity, Key, now_ms
from orcas.control.identities.registry import action
from orcas.control.root import fresh_pair

ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9._+=@-]{3,128}")
SECRET_KEY: Final = re.compile(r"[\x21-\x7e]{8,128}")


async def _holder(call: Call) -> Entity | None:
    """The user or root whose keys are changed."""
    user = await user_or_caller(call)
    if user is None and call.account.id == call.root:
        message = "The root key of the store is replaced by `orcas access-key rotate-root`."
        raise IamError("UnmodifiableEntity", message)
    return user


def _owner(call: Call, user: Entity | None) -> str:
    return call.account.name if user is None else user.name


def _shown(call: Call, user: Entity | None, key: Key) -> dict[str, str]:
    return {
        "UserName": _owner(call, user), "AccessKeyId": key.access_key,
        "Status": "Active" if key.active else "Inactive", "CreateDate": time_of(key.created_ms),
    }  # fmt: skip


async def _key(call: Call, user: Entity | None) -> Key:
    name = call.parameters.text("AccessKeyId", 128)
    key = await call.records.key(name)
    if key is None or key.account != call.account.id or key.user != (None if user is None else user.id):
        raise IamError("NoSuchEntity", f"The Access Key with id {name} cannot be found.")
    return key


@action("self")
async def create_access_key(call: Call) -> Answer:
    """A key for a user. With `SessionPolicy`, it may do only what that allows as well: a service account."""
    if call.caller.key is not None and call.caller.key.session_policy is not None:
        # Otherwise it would be a way around its own policy.
        raise IamError("AccessDenied", "An access key that has a policy of its own cannot create access keys.")
    user, policy = await _holder(call), call.parameters.optional("SessionPolicy")
    if policy is not None:
        await call.valid(policy, "session", SESSION_MAX)
        if user is None:
            raise IamError("InvalidInput", "A service account belongs to a user.")
    keys = await call.records.keys(call.account.id, None if user is None else user.id)
    alike = sum((key.session_policy is None) == (policy is None) for key in keys)
    most = KEYS_OF_USER_MAX if policy is None else SERVICE_ACCOUNTS_OF_USER_MAX
    if alike >= most:
        raise limit("AccessKeysPerUser", most)
    access_key, secret = await _pair(call)
    owner = call.account.id if user is None else user.id
    key = Key(access_key, call.account.id, None if user is None else user.id, now_ms(), True, policy, None)
    await call.records.add_key(key, *call.encrypt(access_key, owner, secret))
    shown = _shown(call, user, key)
    return {"AccessKey": {**shown, "SecretAccessKey": secret}}


async def _pair(call: Call) -> tuple[str, str]:
    """A new pair, or the given one, which only an operator can give."""
    access_key, secret = call.parameters.optional("AccessKeyId", 128), call.parameters.optional("SecretAccessKey", 128)
    if access_key is None and secret is None:
        return fresh_pair()
    if not call.operator:
        raise IamError("AccessDenied", "Only the operator of the server can choose an access key.")
    if not ACCESS_KEY.fullmatch(access_key or "") or not SECRET_KEY.fullmatch(secret or ""):
        message = (
            "An access key has 3 to 128 letters, digits or any of . _ + = @ -, and its secret 8 to 128 printable ASCII "
            "characters."
        )
        raise IamError("ValidationError", message)
    assert access_key is not None
    assert secret is not None
    if await call.records.key(access_key) is not None:
        raise IamError("EntityAlreadyExists", f"Access key {access_key} already exists.")
    return access_key, secret


@action("self")
async def update_access_key(call: Call) -> Answer:
    """Turn a key on or off."""
    key = await _key(call, await _holder(call))
    status = call.parameters.choice("Status", ("Active", "Inactive"))
    await call.records.set_key_active(key.access_key, status == "Active")
    return {}


@action("self")
async def delete_access_key(call: Call) -> Answer:
    """Delete a key, which the next request can no longer use."""
    key = await _key(call, await _holder(call))
    await call.records.drop_key(key.access_key)
    return {}


@action("self")
async def list_access_keys(call: Call) -> Answer:
    """The keys of a user, without secrets. The operator is told as well which are service accounts."""
    user, page = await user_or_caller(call), call.parameters.page()
    keys = await call.records.keys(call.account.id, None if user is None else user.id)
    listed = sorted(keys, key=lambda key: key.access_key.lower())

    def shown(key: Key) -> dict[str, Any]:
        more = {"ServiceAccount": key.session_policy is not None} if call.operator else {}
        return {**_shown(call, user, key), **more}

    return page.of("AccessKeyMetadata", listed, lambda key: key.access_key, shown)


@action("key")
async def get_access_key_last_used(call: Call) -> Answer:
    """The user of a key, and when it was used last."""
    name = call.parameters.text("AccessKeyId", 128)
    key = await call.records.key(name)
    if key is None or key.account != call.account.id:
        raise IamError("NoSuchEntity", f"The Access Key with id {name} cannot be found.")
    user = None if key.user is None else await call.records.by_id(key.user)
    used_ms = max(key.used_ms or 0, *(at_ms or 0 for at_ms in call.decisions.used([name])))
    last: dict[str, str] = {"ServiceName": "s3", "Region": "N/A", "LastUsedDate": time_of(used_ms)}
    never = {"ServiceName": "N/A", "Region": "N/A"}
    return {"UserName": _owner(call, user), "AccessKeyLastUsed": last if used_ms else never}
