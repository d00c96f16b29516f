"""Requests to the application in this process: no socket, no HTTP parser, no other process to wait for.

Only to show what figures measured this way leave out. Signatures are checked nevertheless: this cannot be disabled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orcas.control import Snapshot
from orcas.edge import close_core, open_core
from orcas.http.extensions import RESPONSE
from orcas.s3.dispatch import Dispatcher
from orcas.settings.config import resolve
from processes import ACCESS_KEY, SECRET_KEY

_OWNER = "0" * 64
HOST = "localhost:9000"


def seconds_each(
    data: Path, durability: str, batches: Sequence[Sequence[bytes]], **settings: object
) -> list[list[float]]:
    """The seconds of each request, sent one after the other to a store in a directory.

    Args:
        data: the directory.
        durability: of the store.
        batches: requests, signed for `HOST` with the keys of `processes`. They are parsed before the clock starts.
        settings: others of the server, as `orcas.Server` takes them.

    Raises:
        RuntimeError: an answer was no success.
    """
    # On another thread, because a notebook runs its own loop on the main one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _measure(data, durability, batches, settings)).result()


async def _measure(
    data: Path, durability: str, batches: Sequence[Sequence[bytes]], settings: dict[str, object]
) -> list[list[float]]:
    settings = {"data": str(data), "durability": durability, "scrub_bytes_per_sec": 0, **settings}
    snapshot = Snapshot.of_root(_OWNER, (ACCESS_KEY, SECRET_KEY))
    resolved = resolve(settings, ambient=False).settings
    core = open_core(resolved, snapshot)
    dispatcher = Dispatcher(core, resolved.body_budget)
    try:
        return [[await _seconds(dispatcher, *_parsed(request)) for request in batch] for batch in batches]
    finally:
        dispatcher.close()
        close_core(core)


async def _seconds(dispatcher: Dispatcher, scope: dict[str, Any], incoming: dict[str, Any]) -> float:
    statuses = []

    async def receive() -> dict[str, Any]:
        return incoming

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == RESPONSE:
            statuses.append(message["response"].status)

    began = time.perf_counter()
    await dispatcher(scope, receive, send)
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
