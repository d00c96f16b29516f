"""How many requests and bytes a second a user or access key may have: actions of Orcas, for the root of the store alone."""

from __future__ import annotations

from typing import Final

from orcas.control.identities.actions.entities import found
from orcas.control.identities.calls import Answer, Call
from orcas.control.identities.failures import IamError
from orcas.control.identities.records import Entity, Key, id_of
from orcas.control.identities.registry import action

# A million requests and a TB.
REQUESTS_MAX: Final = 10**6
BYTES_MAX: Final = 10**12


async def _limited(call: Call) -> Entity | Key:
    """The user or the key that the call names."""
    name = call.parameters.optional("AccessKeyId", 128)
    if name is None:
        return await found(call, "user")
    key = await call.records.key(name)
    if key is None or key.account != call.account.id or key.user is None:
        raise IamError("NoSuchEntity", f"The Access Key with id {name} cannot be found.")
    return key


@action("account", root=True)
async def put_limits(call: Call) -> Answer:
    """Limit a user, or with `AccessKeyId` a key of a user; 0, and what is left out, is no limit."""
    limited = await _limited(call)
    requests = call.parameters.number("RequestsPerSecond", 0, REQUESTS_MAX, 0)
    await call.records.set_limits(limited, (requests, call.parameters.number("BytesPerSecond", 0, BYTES_MAX, 0)))
    return {}


@action("account", root=True)
async def get_limits(call: Call) -> Answer:
    """The limits of a user, or with `AccessKeyId` of a key."""
    requests, bytes_ = await call.records.limits(id_of(await _limited(call)))
    return {"Limits": {"RequestsPerSecond": requests, "BytesPerSecond": bytes_}}
