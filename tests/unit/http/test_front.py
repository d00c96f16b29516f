"""What the listener says of a request, and that nothing behind sees it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from orcas.http.extensions import COUNTED, ENDLESS
from orcas.serving.front import ApplicationServer, passed_on


@pytest.mark.parametrize(
    ("said", "client"),
    [(b"192.0.2.1:80", ("192.0.2.1", 80)), (b"[2001:db8::1]:0", ("2001:db8::1", 0))],
)
def test_address_and_scheme_are_those_of_the_client(said: bytes, client: tuple[str, int]) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.update(scope)

    own = [(b"orcas-front-client", said), (b"orcas-front-scheme", b"https")]
    scope = {"type": "http", "headers": [(b"host", b"a"), *own], "client": None, "scheme": "http"}
    asyncio.run(passed_on(app)(scope, None, None))  # type: ignore[arg-type]
    assert seen.pop(COUNTED), "the listener has counted the body"
    assert seen == {"type": "http", "headers": [(b"host", b"a")], "client": client, "scheme": "https"}
    assert len(scope["headers"]) == 3, "the server's own scope stays as it was"


def test_an_answer_without_an_end_says_so() -> None:
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")], ENDLESS: True})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    own = [(b"orcas-front-client", b"192.0.2.1:80"), (b"orcas-front-scheme", b"http")]
    asyncio.run(passed_on(app)({"type": "http", "headers": own}, None, send))  # type: ignore[arg-type]
    assert sent[0]["headers"] == [(b"a", b"b"), (b"orcas-front-endless", b"")]
    assert sent[1] == {"type": "http.response.body", "body": b""}


def test_connections_that_come_as_the_server_stops_are_ended() -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError

    async def stop() -> list[bytes]:
        server = ApplicationServer(app)
        server.config.load()
        await server.startup()
        pairs = [socket.socketpair() for _ in range(8)]
        for own, passed in pairs:
            own.setblocking(False)
            socket.send_fds(server.listener_end, [b"x"], [passed.fileno()])
            passed.close()
        # The loop takes one of them.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        server.force_exit = True
        await server.shutdown()
        try:
            return [own.recv(1) for own, _ in pairs]
        finally:
            for own, _ in pairs:
                own.close()

    assert asyncio.run(stop()) == [b""] * 8
