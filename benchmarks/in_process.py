"""Requests to the application in this process: no socket, no HTTP parser, no other process to wait for.

Only to show what figures measured this way leave out. Signatures are checked nevertheless: this cannot be disabled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.engine import close_core, open_core
from orcas.http.extensions import RESPONSE
from orcas.s3.dispatch import Dispatcher
from orcas.s3.store import Store
from orcas.settings.config import resolve
from processes import ACCESS_KEY, SECRET_KEY

_OWNER = "0" * 64
HOST = "localhost:9000"
Exchange = Callable[[Any, Any, Any], Awaitable[None]]


class Application:
    """The application over a store in a directory, on a thread of its own: a notebook runs its own loop on the main one.

    `wrap` makes of the dispatcher what answers instead; `settings` are those of `orcas.Server`.
    """

    def __init__(
        self, data: Path, durability: str, wrap: Callable[[Dispatcher], Exchange] | None = None, **settings: object
    ) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop()
        asked = {"data": str(data), "durability": durability, "scrub_bytes_per_sec": 0, **settings}
        resolved = resolve(asked, ambient=False).settings
        self._core = open_core(resolved, IdentitySnapshot.of_root(_OWNER, (ACCESS_KEY, SECRET_KEY)))

        async def made() -> Dispatcher:
            return Dispatcher(self._core, Store(self._core, resolved.body_budget))

        self._dispatcher = self._on_thread(made())
        self._exchange = wrap(self._dispatcher) if wrap else self._dispatcher

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._dispatcher.close).result()
        self._thread.shutdown()
        self._loop.close()
        close_core(self._core)

    def _on_thread(self, work: Any) -> Any:
        return self._thread.submit(self._loop.run_until_complete, work).result()

    def run(self, requests: Sequence[bytes], in_flight: int = 1) -> tuple[float, list[float]]:
        """The seconds that all took together, and each of them, with at most so many under way.

        `requests` are signed for `HOST` with the keys of `processes`. They are parsed before the clock starts.

        Raises:
            RuntimeError: an answer was no success.
        """
        parsed = [_parsed(request) for request in requests]

        async def all_of_them() -> tuple[float, list[float]]:
            waiting, taken = iter(parsed), list[float]()
            began = time.perf_counter()
            await asyncio.gather(*(_work(self._exchange, waiting, taken) for _ in range(in_flight)))
            return time.perf_counter() - began, taken

        done: tuple[float, list[float]] = self._on_thread(all_of_them())
        return done


def seconds_each(
    data: Path, durability: str, batches: Sequence[Sequence[bytes]], **settings: object
) -> list[list[float]]:
    """The seconds of each request, sent one after the other to a store in a directory; as `Application.run`."""
    with Application(data, durability, **settings) as application:
        return [application.run(batch)[1] for batch in batches]


async def _work(
    exchange: Exchange, waiting: Iterator[tuple[dict[str, Any], dict[str, Any]]], taken: list[float]
) -> None:
    for scope, incoming in waiting:
        taken.append(await _seconds(exchange, scope, incoming))


async def _seconds(exchange: Exchange, scope: dict[str, Any], incoming: dict[str, Any]) -> float:
    statuses = []

    async def receive() -> dict[str, Any]:
        return incoming

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == RESPONSE:
            statuses.append(message["response"].status)
        elif message["type"] == "http.response.start":
            statuses.append(message["status"])

    began = time.perf_counter()
    await exchange(scope, receive, send)
    took = time.perf_counter() - began
    if statuses != [200]:
        raise RuntimeError(f"{scope['method']} {scope['raw_path']!r} was answered with {statuses}")
    return took


def _parsed(request: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ASGI scope of a request, and the one message with its body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ")
    path, _, query = target.partition(b"?")
    headers = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
    scope: dict[str, Any] = {"type": "http", "method": method.decode(), "raw_path": path, "query_string": query}
    scope |= {"headers": headers, "extensions": {}}
    return scope, {"type": "http.request", "body": body, "more_body": False}
