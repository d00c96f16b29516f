"""The S3 side of the application: one ASGI exchange becomes a verified request, its handler's response, and its end.

Nothing of a body is received before the verdict on the head. A response whose bytes turn out damaged is broken off, so
that a client never takes it for complete. Must not know S3 operations, headers or documents.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from orcas.edge import Request
from orcas.exchange import RESPONSE
from orcas.handlers import HANDLERS
from orcas.pages import is_browser, welcome
from orcas.store import ClientDisconnectedError, Store

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from orcas.edge import Core, Download, Response

_FORBIDDEN: Final = 403

log = logging.getLogger("orcas.s3")


class Dispatcher:
    """The application of S3 requests, ASGI but for the responses: `orcas.exchange` takes them as they are.

    Made on the event loop that it serves.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._accept = core.accept
        self._store = Store(core)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        method, raw_path = scope["method"], scope["raw_path"]
        verdict = self._accept(method, raw_path, scope["query_string"], scope["headers"])
        if isinstance(verdict, Request):
            try:
                response = await HANDLERS[verdict.operation](self._store, verdict, receive)
            except ClientDisconnectedError:
                return
            except Exception:
                log.exception("%s %r failed, request %s", method, raw_path, verdict.request_id)
                response = self._core.failure(method, raw_path)
        else:
            response = verdict
            # Nothing of this costs a request that is not refused.
            if response.status == _FORBIDDEN and raw_path == b"/" and _is_visit(scope):
                await _welcome(response, send)
                return
        if response.fault is not None:
            log.error("%s %r answered %d: %s", method, raw_path, response.status, response.fault)
        await send({"type": RESPONSE, "response": response})
        if response.download is not None:
            await self._send_pieces(response.download, receive, send)

    async def _send_pieces(self, download: Download, receive: Receive, send: Send) -> None:
        """Send a large body; stop reading it when the client goes away."""
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            left = download.length
            while left and not gone.done():
                piece = await self._store.next_piece(download)
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        finally:
            gone.cancel()

    def close(self) -> None:
        """Stop listening for completions."""
        self._store.close()


def _is_visit(scope: Scope) -> bool:
    """Whether somebody just opened the address in a browser."""
    return scope["method"] == "GET" and not scope["query_string"] and is_browser(scope["headers"])


async def _welcome(refusal: Response, send: Send) -> None:
    """The refusal, in words for somebody who opened the server's address in a browser."""
    headers, body = welcome(refusal.rest)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
