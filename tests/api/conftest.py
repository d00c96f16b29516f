"""The S3 application in this process: signed ASGI exchanges against a core over a real store, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.signing import UNSIGNED_TRAILER, Identity, signed_headers

from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.engine import Core, open_core
from orcas.http.extensions import RESPONSE
from orcas.s3.dispatch import Dispatcher
from orcas.s3.store import Store
from orcas.settings.config import resolve

OWNER = "0" * 64
HOST = "localhost:9000"
KEYS = Identity("root", "root-secret", "us-east-1")


@dataclass
class Exchange:
    """One ASGI exchange: what the client sends, in order, and what it received."""

    scope: dict[str, Any]
    incoming: list[dict[str, Any]]
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    closes: bool = False
    body: bytes = b""
    received: int = 0
    # Called before each message that is sent; may wait or raise.
    on_send: Callable[[dict[str, Any]], Any] | None = None

    async def receive(self) -> dict[str, Any]:
        """The next message; after the last one, the client only waits."""
        await asyncio.sleep(0)
        if self.received == len(self.incoming):
            await asyncio.Event().wait()
        self.received += 1
        return self.incoming[self.received - 1]

    async def send(self, message: dict[str, Any]) -> None:
        if self.on_send is not None:
            await self.on_send(message)
        if message["type"] == RESPONSE:
            response = message["response"]
            self.status, self.body = response.status, response.body
            self.headers = {name.decode(): value.decode("latin-1") for name, value in response.headers}
            self.closes = response.closes
        else:
            self.body += message["body"]


class App:
    """A dispatcher over an open core."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.dispatcher = Dispatcher(core, Store(core, 64 << 20))

    def exchange(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        pieces: int = 1,
        headers: dict[str, str] | None = None,
        trailing: bool = False,
        secure: bool = True,
        keys: Identity = KEYS,
    ) -> Exchange:
        """A signed exchange whose body arrives in `pieces`. `trailing`: the body is unsigned, with a trailer.

        `secure`: over a connection that keeps secrets.
        """
        payload = UNSIGNED_TRAILER if trailing else None
        signed = signed_headers(
            keys, method, f"http://{HOST}{target}", {"host": HOST, **(headers or {})}, body, payload
        )
        listed = [(b"content-length", b"%d" % len(body))]
        listed += [(name.lower().encode(), value.encode()) for name, value in signed.items()]
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": listed,
            "client": ("127.0.0.1" if secure else "192.0.2.1", 1),
        }
        step = max(1, -(-len(body) // pieces))
        parts = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
        last = len(parts) - 1
        incoming = [{"type": "http.request", "body": part, "more_body": n < last} for n, part in enumerate(parts)]
        return Exchange(scope, incoming)

    async def run(self, exchange: Exchange) -> Exchange:
        await self.dispatcher(exchange.scope, exchange.receive, exchange.send)
        return exchange

    async def call(self, method: str, target: str, body: bytes = b"", **options: Any) -> Exchange:
        return await self.run(self.exchange(method, target, body, **options))


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    given = {"data": str(tmp_path), "body_budget": 8 << 20, "master_key": MASTER_KEY}
    settings = resolve(given, ambient=False).settings
    snapshot = IdentitySnapshot.of_root(OWNER, (KEYS.access_key, KEYS.secret_key))
    core = open_core(settings, snapshot)
    running = App(core)
    created = await running.call("PUT", "/bucket")
    assert created.status == 200
    yield running
    running.dispatcher.close()
    core.close()
