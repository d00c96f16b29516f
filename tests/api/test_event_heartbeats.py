"""Heartbeats of streams of events, and their end, from an application in this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_admin import ROOT
from tests.fixtures.signing import signed_headers

from orcas.admin import events
from orcas.serving.app import Orcas
from orcas.settings.config import resolve

HOST = "localhost:9000"


@dataclass
class Client:
    """A client that waits for each message, until it is `gone`."""

    sent: asyncio.Queue[MutableMapping[str, Any]] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    _has_asked: bool = False

    async def receive(self) -> dict[str, Any]:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def body(self) -> bytes:
        piece: bytes = (await self.sent.get())["body"]
        return piece


@contextlib.asynccontextmanager
async def streaming(
    directory: Path, path: str, query: str = "", *, client: Client
) -> AsyncIterator[asyncio.Task[None]]:
    """A stream of a server that ends with it."""
    settings = {
        "data": str(directory / "data"), "root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key,
    }  # fmt: skip
    app = Orcas(resolve(settings, ambient=False).settings)
    signed = signed_headers(ROOT, "GET", f"http://{HOST}{path}?{query}", {"host": HOST}, b"")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("localhost", 9000), "headers": [(name.lower().encode(), v.encode()) for name, v in signed.items()],
    }  # fmt: skip
    async with app.router.lifespan_context(app), asyncio.timeout(20):
        stream = asyncio.create_task(app(scope, client.receive, client.sent.put))
        assert (await client.sent.get())["status"] == 200
        yield stream


async def test_a_quiet_stream_has_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    client = Client()
    async with streaming(tmp_path, events.PATH, client=client) as stream:
        assert await client.body() == b":\n\n"
        place = (await client.body()).removeprefix(b"retry: 1000\n")
        beats = [await client.body() for _ in range(2)]
        client.gone.set()
        await stream
    # Comments with the id of the place, with which clients come back. There was no event.
    assert place.startswith(b"id: ")
    assert beats == [b":\n" + place] * 2


async def test_a_quiet_stream_of_lines_has_no_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    client = Client()
    async with streaming(tmp_path, "/", "events=s3%3AObjectCreated%3A%2A", client=client) as stream:
        # The first piece only sends the head.
        assert [await client.body() for _ in range(3)] == [b"", b" ", b" "]
        client.gone.set()
        await stream


async def test_a_client_that_goes_before_its_stream_waits_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 3600)
    client, turns = Client(), itertools.count(1)

    async def turn(_: object) -> None:
        # In the first one the stream sends its place, and in the second it would begin to wait.
        if next(turns) == 2:
            client.gone.set()
            for _ in range(10):
                await asyncio.sleep(0)

    monkeypatch.setattr(events._Turns, "next", turn)
    async with streaming(tmp_path, events.PATH, client=client) as stream:
        await stream
    assert next(turns) == 3
