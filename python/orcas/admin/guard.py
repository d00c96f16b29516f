"""Authentication of the admin API: only requests that the root identity has signed reach it.

The signature is verified from the head, before the body is received; then the body must have the signed hash. A request that
changes something is accepted only once. Refusals are JSON, and reveal no more than those of S3.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from orcas.edge import Refusal
from orcas.http.bodies import BodyError, collect, replayed
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    # Scope, where the answer goes, status, code and message.
    Refuse = Callable[[Scope, Send, int, str, str], Awaitable[None]]

# Most bytes of a body.
BODY_MAX: Final = 64 * 1024
# Only answered to a valid signature: the request was accepted before, or there were too many requests.
_STATUSES_FOR_ROOT: Final = frozenset((409, 503))


class Gatekeeper(Protocol):
    """What verifies signatures."""

    def authenticate_root(
        self, method: str, raw_path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], client: str, /
    ) -> bytes:
        """The SHA-256 that the body must have.

        Raises:
            Refusal: root has not signed the request.
        """


class RootOnly:
    """ASGI middleware that passes on only requests of the root identity."""

    def __init__(self, app: ASGIApp, gatekeeper: Callable[[], Gatekeeper], refusal: Refuse | None = None) -> None:
        """`refusal` answers with an error document, instead of that of the admin API."""
        self._app = app
        self._gatekeeper = gatekeeper
        self._refuse = refusal or refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        try:
            signed = self._gatekeeper().authenticate_root(
                scope["method"],
                scope["raw_path"],
                scope["query_string"],
                list(scope["headers"]),
                (scope.get("client") or ("",))[0],
            )
        except Refusal as refusal:
            # Others only get 403, whatever else is wrong with their request.
            status, code, message = refusal.args
            await self._refuse(scope, send, status if status in _STATUSES_FOR_ROOT else 403, code, message)
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
        if not hmac.compare_digest(hashlib.sha256(body).digest(), signed):
            await self._refuse(
                scope, send, 403, "XAmzContentSHA256Mismatch", "The body is not the one that was signed."
            )
        else:
            await self._app(scope, replayed(body, receive), send)


async def refuse(scope: Scope, send: Send, status: int, code: str, message: str) -> None:
    """Answer with an error document."""
    note_cause(scope, code, message)
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
