"""The number of handshakes under way is bounded, and plain connections never become requests."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fixtures.servers.connections import CLOSE, HOST, Running
from tests.fixtures.waiting import wait_until

from orcas.http import tls
from orcas.http.refusals import COUNTS


async def application(scope: Any, _receive: Any, send: Any) -> None:
    body = f"{scope['scheme']} {scope['client'][0]}".encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def server() -> Iterator[Running]:
    running = Running(application, tls=True)
    yield running
    running.close()
    assert running.errors == []


REQUEST = b"GET / HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"


def test_the_oldest_of_too_many_handshakes_ends(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKES_MAX", 4)
    before = COUNTS["TLSHandshakeFailed"]
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(server.connect_plain()) for _ in range(8)]
        # Well-behaved clients are served meanwhile.
        assert server.exchange(REQUEST).endswith(b"https 127.0.0.1")
        assert wait_until(lambda: COUNTS["TLSHandshakeFailed"] >= before + 4)
        for client in silent[:4]:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        # A client that is among the newest may still begin.
        late = stack.enter_context(server.connect_plain())
        assert server.tls is not None
        with server.tls[1].wrap_socket(late, server_hostname="localhost") as client:
            client.sendall(REQUEST)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_the_scheme_is_that_of_the_connection(server: Running) -> None:
    for claim in (
        b"X-Forwarded-Proto: http\r\n",
        b"Forwarded: proto=http;for=192.0.2.1\r\n",
        b"X-Forwarded-For: 192.0.2.1\r\n",
    ):
        request = REQUEST.replace(b"\r\n\r\n", b"\r\n" + claim + b"\r\n")
        assert server.exchange(request).endswith(b"https 127.0.0.1")
    assert server.exchange(REQUEST.replace(b"GET /", b"GET http://a/")).endswith(b"https 127.0.0.1")
    assert server.exchange(REQUEST.replace(b"GET /", b"GET https://a/")).endswith(b"https 127.0.0.1")


def test_a_server_without_descriptors_goes_on_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("tests.fixtures.servers.connections.TlsListener", _Full)
    running = Running(application, tls=True)
    assert running.exchange(REQUEST).endswith(b"https 127.0.0.1")
    running.close()
    assert "No connection can be accepted: Too many open files" in caplog.text


class _Full(tls.TlsListener):
    """Its first attempts to accept fail."""

    def __init__(self, listener: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(_FullSocket(listener), *arguments, **options)  # type: ignore[arg-type]


class _FullSocket:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.left = 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def accept(self) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


def test_plain_requests_are_never_served(server: Running) -> None:
    async def attempt() -> list[bytes]:
        async def one() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(REQUEST * 3)
            answer = await reader.read()
            writer.close()
            return answer

        return await asyncio.gather(*(one() for _ in range(50)))

    for answer in asyncio.run(attempt()):
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
