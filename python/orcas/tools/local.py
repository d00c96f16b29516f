"""Access to a store that no server has open: the application runs in this process, on its own event loop, without sockets.

Engine, signatures and responses are those of a server. Leaving the context closes the store in order.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import uvloop

from orcas.app import Orcas, open_store
from orcas.control.files import NoStoreError
from orcas.control.files.lost import is_established
from orcas.errors import UnavailableError
from orcas.http.extensions import RESPONSE, split_response
from orcas.settings.config import Settings
from orcas.tools.session import Body, Headers, Response, Session

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

    def __init__(self, app: Orcas, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

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
                piece = await asyncio.to_thread(next, body.pieces, b"") if isinstance(body, Body) else body
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
    headers, body = split_response(response)
    return (
        {"type": "http.response.start", "status": response.status, "headers": headers},
        {"type": "http.response.body", "body": body, "more_body": response.download is not None},
    )


def wait(work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop) -> _T:
    """Run `work` on `loop` from another thread."""
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@contextlib.contextmanager
def opened(settings: Settings, *, keyring_required: bool = False) -> Iterator[Session]:
    """Open the store of `settings.data`, which must be one.

    `keyring_required`: as of `orcas.edge.open_core`.

    Raises:
        InUseError: another process has it.
        UnavailableError: there is none, or it cannot be opened.
    """
    if not settings.salvage and not is_established(settings.data):
        raise NoStoreError(settings.data)
    # SQLite creates the index with the permissions that the umask allows: only for the owner.
    os.umask(0o077)
    # It serves no requests to be logged.
    opener = functools.partial(open_store, keyring_required=keyring_required, serves=False)
    app = Orcas(replace(settings, access_log=None), opener)
    ready: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = concurrent.futures.Future()
    ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def hold_open() -> None:
        stop = asyncio.Event()
        async with app.router.lifespan_context(app):
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(hold_open())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            (ended if ready.done() else ready).set_exception(error)
        else:
            ended.set_result(None)

    thread = threading.Thread(target=run, name="orcas-store", daemon=True)
    thread.start()
    loop, stop = ready.result()
    store = app.store
    assert store is not None
    try:
        root = store.root
        keys, key_owner = (root.access_key, root.secret_key), f"of the store in {settings.data}"
        yield Session(LocalTransport(app, loop), keys, settings.region, key_owner, salvage=store.salvage)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        ended.result()
