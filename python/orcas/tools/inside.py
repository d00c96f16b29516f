"""Requests into an application of this process, from another thread than that of its event loop, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp

from orcas.errors import UnavailableError
from orcas.http.extensions import RESPONSE
from orcas.tools.session import Body, Headers, Response

# Most messages of a response that wait to be read: two pieces of a download.
_WAITING_MAX: Final = 2
_T = TypeVar("_T")


@dataclass
class _BrokenBody:
    """The body of a request ended with this error. It is nobody's fault here."""

    error: Exception


class LocalTransport:
    """Requests into an application on the loop of another thread."""

    host = "localhost"
    remote = False

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop, readers: Executor | None = None) -> None:
        self._app = app
        self._loop = loop
        # Where pieces of bodies are waited for; None: the threads that the loop has for everything.
        self._readers = readers

    def close(self) -> None:
        """Nothing is kept between requests."""

    @contextlib.contextmanager
    def exchange(
        self, method: str, raw_path: str, query: str, headers: Headers, body: bytes | Body
    ) -> Iterator[Response]:
        """Run one ASGI exchange; it ends with the block."""
        messages: asyncio.Queue[dict[str, Any] | BaseException | _BrokenBody | None] = asyncio.Queue(_WAITING_MAX)
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": raw_path, "raw_path": raw_path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [*headers, (b"content-length", b"%d" % len(body))], "client": ("127.0.0.1", 0), "server": None,
            "extensions": {RESPONSE: {}},
        }  # fmt: skip
        running = asyncio.run_coroutine_threadsafe(self._serve(scope, body, messages), self._loop)
        try:
            head = self._next(messages)
            if head is None:
                raise UnavailableError("The store gave no answer: `orcas fsck` checks it.")
            given = {name.decode("latin-1"): value.decode("latin-1") for name, value in head["headers"]}
            yield Response(head["status"], given, self._pieces(messages))
        finally:
            running.cancel()

    async def _serve(self, scope: dict[str, Any], body: bytes | Body, messages: asyncio.Queue[Any]) -> None:
        left = len(body)
        given = False
        broken: Exception | None = None

        async def receive() -> dict[str, Any]:
            nonlocal left, given, broken
            if given:
                await asyncio.Event().wait()
            try:
                # Pieces may come from another server, for which the loop must not wait.
                piece = await self._read(body.pieces) if isinstance(body, Body) else body
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits for an answer
                broken = error
                return {"type": "http.disconnect"}
            left -= len(piece)
            given = left <= 0 or not piece
            return {"type": "http.request", "body": piece, "more_body": not given}

        async def send(message: Any) -> None:
            for part in _plain(message) if message["type"] == RESPONSE else (message,):
                await messages.put(part)

        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for an answer
            await messages.put(error)
        else:
            await messages.put(None if broken is None else _BrokenBody(broken))

    async def _read(self, pieces: Iterator[bytes]) -> bytes:
        return await self._loop.run_in_executor(self._readers, next, pieces, b"")

    def _next(self, messages: asyncio.Queue[Any]) -> dict[str, Any] | None:
        message = wait(messages.get(), self._loop)
        if isinstance(message, _BrokenBody):
            raise message.error
        if isinstance(message, BaseException):
            raise UnavailableError(f"The store cannot be read: {message}; `orcas fsck` checks it.") from message
        return message  # type: ignore[no-any-return]

    def _pieces(self, messages: asyncio.Queue[Any]) -> Iterator[bytes]:
        while (message := self._next(messages)) is not None:
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body", False):
                break


def _plain(message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A ready-made response as standard ASGI messages."""
    response = message["response"]
    return (
        {"type": "http.response.start", "status": response.status, "headers": response.headers},
        {"type": "http.response.body", "body": response.body, "more_body": response.download is not None},
    )


def wait(work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop) -> _T:
    """Run `work` on `loop` from another thread."""
    return asyncio.run_coroutine_threadsafe(work, loop).result()
