"""An event loop in a thread of its own, for the client library of a broker.

Its sockets connect to public addresses only, unless told otherwise: every address that the library connects to is
checked here, even one that a broker names. Messages of the library are logged at the level DEBUG, and its last warning is
kept to explain a failure. Must not know what the library does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from orcas.targets.addresses import is_public

# Seconds in which what was cancelled may end.
_END_SEC: Final = 1.0

log = logging.getLogger("orcas.targets")

_T = TypeVar("_T")


class RefusedAddressError(OSError):
    """The address may not be connected to."""


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, *, private: bool) -> None:
        super().__init__()
        self._private = private

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Called for every connection, with an address that was resolved."""
        if not self._private and not is_public(str(address[0])):
            raise RefusedAddressError(f"{address[0]} is no public address, and the target is not marked private")
        await super().sock_connect(sock, address)


class ClosedError(Exception):
    """The loop ends, or has ended."""


class ClientLoop:
    """Starts with the first use. `heard`: the last warning of the library since it was cleared."""

    def __init__(self, name: str, on_close: Callable[[], Coroutine[Any, Any, None]], *, private: bool) -> None:
        """`on_close` closes connections. It runs in the loop, last."""
        self._name = name
        self._on_close = on_close
        self._private = private
        self._lock = threading.Lock()
        self._loop: _Loop | None = None
        self._ending: asyncio.Event | None = None
        self._main: asyncio.Task[Any] | None = None
        self._closed = False
        self.heard: str | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]], timeout_sec: float) -> _T:
        """Run a coroutine to its end in the loop, and wait for it. `timeout_sec`: only against what cannot be cancelled.

        Raises:
            ClosedError: the loop was closed before or meanwhile.
            TimeoutError: the coroutine has not ended.
        """
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._loop is None:
                loop, ending = _Loop(private=self._private), asyncio.Event()
                try:
                    threading.Thread(target=self._serve, args=(loop, ending), name=self._name, daemon=True).start()
                except RuntimeError:
                    # Nothing would run in it.
                    loop.close()
                    raise
                self._loop, self._ending = loop, ending
            # Before `_ending` is set, so it is cancelled at the latest when the loop ends.
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(timeout_sec)
        except concurrent.futures.CancelledError:
            raise ClosedError from None

    async def cancel_others(self) -> None:
        """Cancel what else runs in the loop, and wait for it for a moment. Called in the loop."""
        others = asyncio.all_tasks() - {asyncio.current_task(), self._main}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_END_SEC)

    def close(self) -> None:
        """Cancel what runs in it. Does not wait."""
        with self._lock:
            if not self._closed and self._loop is not None and self._ending is not None:
                self._loop.call_soon_threadsafe(self._ending.set)
            self._closed = True

    def _serve(self, loop: _Loop, ending: asyncio.Event) -> None:
        with _listening(self), contextlib.closing(loop):
            loop.set_exception_handler(_note_exception)
            loop.run_until_complete(self._until(ending))

    async def _until(self, ending: asyncio.Event) -> None:
        self._main = asyncio.current_task()
        await ending.wait()
        await self.cancel_others()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_END_SEC):
                await self._on_close()
        await self.cancel_others()


class _ClientLog(logging.Handler):
    """Takes what client libraries log. `loops`: by the thread of each."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.loops: dict[int, ClientLoop] = {}
        for name in ("aiokafka", "nats"):
            client = logging.getLogger(name)
            client.handlers, client.propagate = [self], False
            # Below it are the messages themselves.
            client.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """One record, in the thread that logs it."""
        text = record.getMessage()
        if record.levelno >= logging.WARNING and (loop := self.loops.get(threading.get_ident())) is not None:
            loop.heard = text
        log.debug("%s: %s", record.name, text)


_CLIENT_LOG: Final = _ClientLog()


@contextlib.contextmanager
def _listening(loop: ClientLoop) -> Iterator[None]:
    _CLIENT_LOG.loops[threading.get_ident()] = loop
    try:
        yield
    finally:
        del _CLIENT_LOG.loops[threading.get_ident()]


def _note_exception(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What a task of the library ended in, if nobody asked: a delivery that needs it fails by itself."""
    log.debug("asyncio: %s", context.get("exception") or context["message"])
