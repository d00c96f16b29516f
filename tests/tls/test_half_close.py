"""A client that says, after its request, that it sends nothing more: it gets its whole answer, with TLS and without."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from tests.fixtures.targets import MIB, content
from tests.fixtures.waiting import wait_until

import orcas

SIZES: Final = {"small": 1000, "large": 24 * MIB}


@pytest.fixture(scope="module", params=[False, True], ids=["tcp", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[orcas.Server]:
    with orcas.Server(memory=True, **({"tls_self_signed": True} if request.param else {})) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="photos")
        for key, size in SIZES.items():
            s3.put_object(Bucket="photos", Key=key, Body=content(size))
        yield server


class Client:
    """A connection of which each side ends by itself."""

    def __init__(self, server: orcas.Server) -> None:
        self.url = urlsplit(server.endpoint)
        self.socket = socket.create_connection((self.url.hostname, self.url.port), timeout=60)
        self.tls: ssl.SSLObject | None = None
        if server.ca is not None:
            self.coming, self.going = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = ssl.create_default_context(cafile=server.ca)
            self.tls = context.wrap_bio(self.coming, self.going, server_hostname="localhost")
            self.until_done(self.tls.do_handshake)

    def until_done(self, step: Callable[..., Any], *arguments: Any) -> Any:
        while True:
            try:
                found = step(*arguments)
            except ssl.SSLWantReadError:
                self.flush()
                if not (data := self.socket.recv(65536)):
                    self.coming.write_eof()
                self.coming.write(data)
            else:
                self.flush()
                return found

    def flush(self) -> None:
        self.socket.sendall(self.going.read())

    def send(self, data: bytes) -> None:
        if self.tls is None:
            self.socket.sendall(data)
        else:
            self.until_done(self.tls.write, data)

    def send_end(self) -> None:
        if self.tls is None:
            self.socket.shutdown(socket.SHUT_WR)
            return
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        self.flush()

    def rest(self) -> bytes:
        pieces = []
        try:
            while piece := self.socket.recv(65536) if self.tls is None else self.until_done(self.tls.read, 65536):
                pieces.append(piece)
        except ssl.SSLZeroReturnError:
            pass
        self.socket.close()
        return b"".join(pieces)


def head_of(server: orcas.Server, key: str) -> bytes:
    url = urlsplit(server.client().generate_presigned_url("get_object", Params={"Bucket": "photos", "Key": key}))
    return f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode()


@pytest.mark.parametrize("key", SIZES)
@pytest.mark.parametrize("running", [False, True], ids=["at once", "while it runs"])
def test_a_download_is_whole(server: orcas.Server, key: str, running: bool) -> None:
    client = Client(server)
    client.send(head_of(server, key))
    if running:
        # Until the answer has begun to arrive; nothing of it is read.
        assert client.socket.recv(1, socket.MSG_PEEK)
    client.send_end()
    head, _, body = client.rest().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == content(SIZES[key])


def test_all_requests_of_a_pipeline_are_answered(server: orcas.Server) -> None:
    client = Client(server)
    client.send(head_of(server, "large") + head_of(server, "small"))
    client.send_end()
    answers = client.rest()
    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert answers.endswith(content(SIZES["small"]))


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTT", b"PUT /photos/k HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"]
)
def test_what_is_not_complete_ends(server: orcas.Server, sent: bytes) -> None:
    client = Client(server)
    client.send(sent)
    client.send_end()
    assert not client.rest().startswith(b"HTTP/1.1 2")


def test_a_client_that_has_gone_is_noticed(server: orcas.Server) -> None:
    with orcas.testing.Control(server) as control:
        control.record()
        client = Client(server)
        client.send(head_of(server, "large"))
        assert client.socket.recv(1, socket.MSG_PEEK)
        client.send_end()
        client.socket.close()
        assert wait_until(lambda: bool(control.requests("GetObject")))
        assert [request.key for request in control.requests("GetObject")] == ["large"]
