"""The keys of the keyring: their ids and states, never their secrets; new ones, rotation, and destruction.

Only a key that no content needs is destroyed here: to lose content takes the command.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin
from orcas.console.places import Place
from orcas.console.rendering import attempt, explained, field, flash, page, redirect, visit

# What can be done with a key, and what a message says then.
_ACTIONS: Final = {
    "rotate": "has a new version, which seals new content from now on",
    "disable": "is disabled: what it has sealed cannot be read",
    "enable": "is enabled again",
    "cancel": "is not destroyed",
}

# Days until a key is destroyed.
_DAYS: Final = {"7": "in 7 days", "14": "in 14 days", "30": "in 30 days", "0": "now, for good"}


async def show(request: Request) -> Response:
    """The keys, or why there are none."""
    found: dict[str, Any] | None = None
    reason = ""
    try:
        found = await admin(visit(request), "GET", "keys")
    except CallError as error:
        if error.code not in ("NoKeyring", "KeyringNotOpen"):
            raise
        reason = explained(error)
    return await page(request, "server/keyring.html", found=found, reason=reason)


async def create(request: Request) -> Response:
    """A new key."""
    name = field(request, "name").strip()
    work = admin(visit(request), "POST", "keys", {"name": name})
    await attempt(request, work, "No key was created", f"Key {name} was created.")
    return redirect(request, "/keyring")


async def act(request: Request) -> Response:
    """Rotate, disable or enable a key, or keep one that was to be destroyed."""
    key, action = field(request, "key"), field(request, "action")
    if action not in _ACTIONS:
        flash(request, "The key stays as it is: `orcas key` does what this page does not.", "failed")
        return redirect(request, "/keyring")
    work = admin(visit(request), "POST", "keys/action", {"key": key, "action": action})
    done = f"Key {field(request, 'name') or key} {_ACTIONS[action]}."
    await attempt(request, work, "The key stays as it is", done)
    return redirect(request, "/keyring")


async def confirm(request: Request) -> Response:
    """Destroy a key now or later, after its name was typed."""
    key, days = await _found(request), field(request, "days")
    if field(request, "confirm") != key["name"] or days not in _DAYS:
        return await destroy(request, "Nothing was destroyed. Type the name of the key, and choose when.", 400)
    order = {"key": key["id"], "action": "destroy", "days": int(days)}
    try:
        await admin(visit(request), "POST", "keys/action", order)
    except CallError as error:
        return await destroy(request, f"The key is kept. {explained(error)}", error.status)
    flash(
        request, f"Key {key['name']} is destroyed {_DAYS[days]}." if int(days) else f"Key {key['name']} is destroyed."
    )
    return redirect(request, "/keyring")


async def destroy(request: Request, problem: str = "", status: int = 200) -> Response:
    """The form by which a key is destroyed."""
    return await page(
        request, "server/key-destroy.html", status, key=await _found(request), problem=problem, days=list(_DAYS.items()),
        chosen=field(request, "days", "7"),
    )  # fmt: skip


async def _found(request: Request) -> dict[str, Any]:
    """The key that the address or the form names by its id, if it can be destroyed."""
    name = field(request, "key") or request.query_params.get("key")
    for key in (await admin(visit(request), "GET", "keys"))["keys"]:
        if key["id"] == name and key["state"] != "destroyed":
            return dict(key)
    raise HTTPException(404)


ROUTES = [
    Route("/keyring", show),
    Route("/keyring/destroy", destroy, methods=["GET"]),
    Route("/keyring/destroy", confirm, methods=["POST"]),
    Route("/keyring/create", create, methods=["POST"]),
    Route("/keyring/act", act, methods=["POST"]),
]
PLACES = [Place("Keyring", "/keyring", "Owner", ("orcas:ListKeys",))]
