"""Heartbeats of streams of events, from an application in this process."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_admin import ROOT
from tests.fixtures.signing import signed_headers

from orcas.admin import events
from orcas.app import Orcas
from orcas.settings.config import resolve

HOST = "localhost:9000"


async def test_a_quiet_stream_has_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    settings = {
        "data": str(tmp_path / "data"), "root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key,
    }  # fmt: skip
    app = Orcas(resolve(settings, ambient=False).settings)
    signed = signed_headers(ROOT, "GET", f"http://{HOST}{events.PATH}", {"host": HOST}, b"")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": events.PATH,
        "raw_path": events.PATH.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("localhost", 9000), "headers": [(name.lower().encode(), v.encode()) for name, v in signed.items()],
    }  # fmt: skip
    sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    gone = asyncio.Event()

    request = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if request:
            return request.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async with app.router.lifespan_context(app), asyncio.timeout(20):
        stream = asyncio.create_task(app(scope, receive, sent.put))
        assert (await sent.get())["status"] == 200
        assert (await sent.get())["body"] == b":\n\n"
        place = (await sent.get())["body"].removeprefix(b"retry: 1000\n")
        beats = [(await sent.get())["body"] for _ in range(2)]
        gone.set()
        await stream
    # Comments with the id of the place, with which clients come back. There was no event.
    assert place.startswith(b"id: ")
    assert beats == [b":\n" + place] * 2
