"""The keys of the keyring: their ids and states, never their secrets; new ones, and rotation. None is destroyed here."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.pages import CallError, Place, admin, explained, field, flash, flash_error, page, redirect, visit

# What can be done with a key, and what a message says then.
_ACTIONS: Final = {
    "rotate": "has a new version, which seals new content from now on",
    "disable": "is disabled: what it has sealed cannot be read",
    "enable": "is enabled again",
    "cancel": "is not destroyed",
}


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
    try:
        await admin(visit(request), "POST", "keys", {"name": name})
        flash(request, f"Key {name} was created.")
    except CallError as error:
        flash_error(request, error, "No key was created")
    return redirect(request, "/keyring")


async def act(request: Request) -> Response:
    """Rotate, disable or enable a key, or keep one that was to be destroyed."""
    key, action = field(request, "key"), field(request, "action")
    if action not in _ACTIONS:
        flash(request, "The key stays as it is: `orcas key` does what this page does not.", "failed")
        return redirect(request, "/keyring")
    try:
        await admin(visit(request), "POST", "keys/action", {"key": key, "action": action})
        flash(request, f"Key {field(request, 'name') or key} {_ACTIONS[action]}.")
    except CallError as error:
        flash_error(request, error, "The key stays as it is")
    return redirect(request, "/keyring")


ROUTES = [
    Route("/keyring", show),
    Route("/keyring/create", create, methods=["POST"]),
    Route("/keyring/act", act, methods=["POST"]),
]
PLACES = [Place("Keyring", "/keyring", "Server")]
