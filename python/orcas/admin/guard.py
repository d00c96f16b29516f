"""Who may use the admin API: root, and for an operation with an action of its own whoever is allowed it by policies.

The signature is verified and the access decision made from the head, before the body is received; then the body must have
the signed hash. A request that changes something is accepted only once, and is in the audit log if root has not sent it.
Refusals are JSON, and reveal no more than those of S3.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.routing import Match, Route

from orcas.admin.rights import ACTIONS, AUDITED, SIGNED
from orcas.engine import Refusal
from orcas.errors import UnavailableError
from orcas.http.bodies import BodyError, collect, replayed
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orcas.engine import AdminCaller

    # Scope, where the answer goes, status, code and message.
    Refuse = Callable[[Scope, Send, int, str, str], Awaitable[None]]

# Most bytes of a body.
BODY_MAX: Final = 64 * 1024
# Only answered to a valid signature: the request was accepted before, or there were too many requests.
_STATUSES_FOR_SIGNERS: Final = frozenset((409, 503))
_ERROR: Final = 400
# Where the caller is in the scope of a request.
CALLER: Final = "orcas.caller"

# Writes a line into the audit log: what is done, with which parameters, by whom, with which key, from where. Returns what
# writes that it was not done.
Audit = Callable[[str, dict[str, str], str, str, str | None], Awaitable[Callable[[], Awaitable[None]]]]


class Gatekeeper(Protocol):
    """Verifies signatures, and decides."""

    def authenticate_admin(
        self, scope: MutableMapping[str, Any], action: str | None, bucket: str | None, once: bool, /
    ) -> AdminCaller:
        """The caller who has signed the request, and may send it.

        Raises:
            Refusal: nobody has, or who has may not.
        """


class RootOnly:
    """ASGI middleware that passes on only requests of root, and those that `ACTIONS` leaves to policies.

    Args:
        app: what they are passed on to.
        gatekeeper: verifies and decides.
        refusal: answers with an error document, instead of that of the admin API.
        routes: of the admin API; without them, root alone may send anything.
        audit: writes lines; None if there is no audit log.
    """

    def __init__(
        self,
        app: ASGIApp,
        gatekeeper: Callable[[], Gatekeeper],
        refusal: Refuse | None = None,
        routes: Callable[[], Sequence[BaseRoute]] = lambda: (),
        audit: Callable[[], Audit | None] = lambda: None,
    ) -> None:
        self._app, self._gatekeeper, self._refuse = app, gatekeeper, refusal or refuse
        self._routes, self._audit = routes, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        action, bucket = _needed(self._routes(), scope)
        # Reading again changes nothing, nor does asking.
        changes = scope["method"] not in ("GET", "HEAD") and action != SIGNED
        try:
            caller = self._gatekeeper().authenticate_admin(scope, action, bucket, changes)
        except Refusal as refusal:
            # Others only get 403, whatever else is wrong with their request.
            status, code, message = refusal.args
            await self._refuse(scope, send, status if status in _STATUSES_FOR_SIGNERS else 403, code, message)
            return
        if "\n" in scope["path"]:
            # Patterns of routes pass over a line end at the end of a path.
            await self._refuse(scope, send, 404, "NotFound", "Not Found")
            return
        try:
            body = await collect(receive, BODY_MAX)
        except BodyError as error:
            if not error.is_cut_off:
                await self._refuse(scope, send, 413, "EntityTooLarge", f"The body has more than {BODY_MAX} bytes.")
            return
        if not hmac.compare_digest(hashlib.sha256(body).digest(), caller.digest):
            message = "The body is not the one that was signed."
            await self._refuse(scope, send, 403, "XAmzContentSHA256Mismatch", message)
            return
        scope[CALLER] = caller
        audit = self._audit()
        if audit is None or not action or not changes or caller.is_root or action in AUDITED:
            await self._app(scope, replayed(body, receive), send)
            return
        about = {"Path": scope["path"].removeprefix(scope.get("root_path", "")), "Body": body.decode(errors="replace")}
        client = scope.get("client")
        try:
            failed = await audit(
                action, about, caller.arn, caller.access_key, None if client is None else str(client[0])
            )
        except UnavailableError as error:
            await self._refuse(scope, send, 503, "StoreError", str(error))
            return
        await _audited(self._app, scope, replayed(body, receive), send, failed)


def _needed(routes: Sequence[BaseRoute], scope: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The action that a request needs, and the bucket that it names. The router takes the first route that matches, too."""
    for route in routes:
        match, found = route.matches(dict(scope))
        if match is Match.FULL and isinstance(route, Route):
            bucket = found["path_params"].get("bucket")
            # No bucket has a name that is no Unicode.
            return ACTIONS.get((scope["method"], route.path)), bucket and bucket.encode(errors="replace").decode()
    return None, None


async def _audited(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, failed: Callable[[], Awaitable[None]]
) -> None:
    """Carry out what the audit log has. If it is refused or fails, the log says so."""
    status = 500

    async def noted(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    try:
        await app(scope, receive, noted)
    finally:
        if status >= _ERROR:
            await failed()


async def refuse(scope: Scope, send: Send, status: int, code: str, message: str) -> None:
    """Answer with an error document."""
    note_cause(scope, code, message)
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
