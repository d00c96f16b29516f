"""Standard ASGI messages instead of the extensions: what a server may omit, repeat or raise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from orcas.http.asgi import DRAIN_BYTES_MAX, PIECE_MAX, HostedExchange
from orcas.http.extensions import MORE, RESPONSE

KIB = 1024
BODY = bytes(range(256)) * 4 * KIB


@dataclass(frozen=True)
class Pieces:
    length: int


@dataclass(frozen=True)
class Ready:
    """A response as Rust makes it."""

    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    status: int = 200
    closes: bool = False
    download: Pieces | None = None


@dataclass
class Server:
    """A server with one request: the messages to receive, in order, and those sent."""

    incoming: list[dict[str, Any]] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)
    sending: int = 0
    fails: type[Exception] | None = None

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if not self.incoming:
            await asyncio.Event().wait()
        return self.incoming.pop(0)

    async def send(self, message: Any) -> None:
        if self.fails is not None:
            raise self.fails
        assert self.sending == 0, "one piece at a time: a server that waits is waited for"
        self.sending += 1
        await asyncio.sleep(0)
        self.sending -= 1
        self.sent.append(message)

    async def run(self, application: Callable[[Any, Any, Any], Any]) -> None:
        scope = {
            "type": "http", "http_version": "1.1", "method": "PUT", "path": "/b/k", "headers": [], **self.scope,
        }  # fmt: skip
        async with asyncio.timeout(20):
            await HostedExchange(scope, self.receive, self.send).run(application)

    @property
    def body(self) -> bytes:
        """The body that was sent after the head, which must have been sent once."""
        assert [message["type"] for message in self.sent] == [
            "http.response.start", *["http.response.body"] * (len(self.sent) - 1),
        ]  # fmt: skip
        assert [message["more_body"] for message in self.sent[1:]] == [True] * (len(self.sent) - 2) + [False]
        assert all(type(message["body"]) is bytes for message in self.sent[1:])
        return b"".join(message["body"] for message in self.sent[1:])


async def refuse(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": RESPONSE, "response": Ready([(b"content-length", b"2")], b"no", status=403, closes=True)})


async def seen(scope: dict[str, Any]) -> Any:
    """The scope that the application gets."""
    found = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        found.append(scope)

    await Server(scope=scope).run(application)
    return found[0]


async def test_what_a_server_leaves_out_of_the_scope() -> None:
    scope = await seen({"path": "/b/a key/ü+~"})
    assert (scope["raw_path"], scope["query_string"]) == (b"/b/a%20key/%C3%BC%2B~", b"")
    scope = await seen({"path": "/b/k/1", "raw_path": b"/b/k%2F1", "query_string": b"a=%20"})
    assert (scope["raw_path"], scope["query_string"]) == (b"/b/k%2F1", b"a=%20")


async def test_headers_keep_order_and_number_and_come_in_lower_case() -> None:
    given = iter([[b"X-Amz-Meta-A", b"1"], (b"host", bytearray(b"a")), (b"x-amz-meta-a", b"Zwei")])
    scope = await seen({"headers": given})
    assert scope["headers"] == [(b"x-amz-meta-a", b"1"), (b"host", b"a"), (b"x-amz-meta-a", b"Zwei")]
    assert all(type(text) is bytes for pair in scope["headers"] for text in pair)


@pytest.mark.parametrize(
    ("raw_path", "root_path", "length"),
    [
        (b"/s3/b/k", "/s3", 3), (b"/s3/b/k", "/s3/", 3), (b"/s3", "/s3", 3), (b"/s33/k", "/s3", 0), (b"/b/k", "/s3", 0),
        (b"/my%20store/%C3%BC/b", "/my store/\u00fc", 18), (b"/%73%33/b", "/s3", 7), (b"/b/k", "", 0), (b"/b/k", "/", 0),
        (b"/s3%2Fb", "/s3", 0),
    ],
)  # fmt: skip
def test_how_much_of_a_path_belongs_to_the_mount(raw_path: bytes, root_path: str, length: int) -> None:
    server = Server()
    scope = {"type": "http", "path": "/", "raw_path": raw_path, "root_path": root_path, "headers": []}
    assert HostedExchange(scope, server.receive, server.send).mount_length == length


@pytest.mark.parametrize("size", [1, PIECE_MAX, PIECE_MAX + 1, len(BODY)])
async def test_pieces_of_any_size_are_handed_on_in_bounds(size: int) -> None:
    server = Server([
        {"type": "http.request", "body": b"", "more_body": True},
        *({"type": "http.request", "body": BODY[at : at + size], "more_body": True} for at in range(0, 4 * size, size)),
        # `body` and `more_body` may be left out.
        {"type": "http.request"},
    ])  # fmt: skip
    got: list[Any] = []

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        while not got or got[-1]["more_body"]:
            got.append(await receive())

    await server.run(application)
    assert b"".join(message["body"] for message in got) == BODY[: 4 * size]
    assert max(len(message["body"]) for message in got) <= PIECE_MAX
    assert all(message["body"] for message in got[:-1])
    assert [MORE in message for message in got] == [message["more_body"] for message in got]


@pytest.mark.parametrize("size", [0, 1, PIECE_MAX, len(BODY)])
async def test_a_whole_response_leaves_in_pieces_of_bounded_size(size: int) -> None:
    server = Server()
    headers = [(b"x-amz-meta-a", b"1: 2"), (b"x-amz-meta-a", b"3"), (b"content-length", b"%d" % size)]

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": RESPONSE, "response": Ready(headers, BODY[:size])})

    await server.run(application)
    assert server.body == BODY[:size]
    assert max(len(message["body"]) for message in server.sent[1:]) <= PIECE_MAX
    assert server.sent[0] == {"type": "http.response.start", "status": 200, "headers": headers}


async def test_a_download_leaves_in_pieces_of_bounded_size() -> None:
    server = Server()

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % len(BODY))]
        await send({"type": RESPONSE, "response": Ready(headers, download=Pieces(len(BODY)))})
        for at, more in ((0, True), (len(BODY) // 2, False)):
            piece = memoryview(BODY)[at : at + len(BODY) // 2]
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    await server.run(application)
    assert server.body == BODY
    assert max(len(message["body"]) for message in server.sent[1:]) <= PIECE_MAX


@pytest.mark.parametrize(("version", "said"), [("1.1", True), ("1.0", True), ("2", False), ("3", False)])
async def test_only_http_1_is_told_that_the_connection_ends(version: str, said: bool) -> None:
    server = Server([{"type": "http.request"}], {"http_version": version})
    await server.run(refuse)
    assert ((b"connection", b"close") in server.sent[0]["headers"]) is said
    assert server.body == b"no"


async def test_a_refused_client_may_finish_within_bounds() -> None:
    piece = {"type": "http.request", "body": BODY, "more_body": True}
    server = Server([piece] * 3 + [{"type": "http.request"}, {"type": "http.disconnect"}])
    await server.run(refuse)
    assert server.incoming == [{"type": "http.disconnect"}]
    assert server.body == b"no"
    endless = Server([piece] * 100)
    await endless.run(refuse)
    assert 100 - len(endless.incoming) == DRAIN_BYTES_MAX // len(BODY)
    # A client that waits for 100 Continue sends nothing, and a silent client is not waited for long.
    patient = Server([piece], {"headers": [(b"expect", b"100-continue")]})
    await patient.run(refuse)
    assert patient.incoming == [piece]
    silent = Server([piece])
    await silent.run(refuse)
    assert silent.body == b"no"


@pytest.mark.parametrize("waits", [True, False])
async def test_a_body_that_is_shed_ends_with_a_reason(waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "orcas")
    server = Server([{"type": "http.request", "body": BODY, "more_body": True}], {"client": ("2001:db8::1", 7)})

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        message = await receive()
        sender = message[MORE]
        assert sender.client == "2001:db8::1"
        if waits:
            asyncio.get_running_loop().call_later(0.05, sender.shed)
        else:
            sender.shed()
        while message["type"] == "http.request":
            message = await receive()
        assert message == {"type": "http.disconnect"}

    await server.run(application)
    start, body = server.sent
    assert start["status"] == 503
    assert b"<Code>SlowDown</Code>" in body["body"]
    assert (b"content-length", b"%d" % len(body["body"])) in start["headers"]
    assert [record.getMessage() for record in caplog.records] == ["Request refused"]


async def test_a_server_that_raises_for_a_client_that_is_gone() -> None:
    server = Server(fails=BrokenPipeError)
    await server.run(refuse)
    server = Server(fails=ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await server.run(refuse)


async def test_an_error_of_the_application_is_not_taken_for_a_client_that_is_gone() -> None:
    async def fail(_scope: Any, _receive: Any, send: Any) -> None:
        if server.fails is not None:
            with contextlib.suppress(OSError):
                await send({"type": "http.response.start", "status": 200, "headers": []})
        raise BrokenPipeError("of another pipe")

    for fails in (None, ConnectionResetError):
        server = Server(fails=fails)
        with pytest.raises(BrokenPipeError, match="another"):
            await server.run(fail)


async def test_a_timeout_of_the_server_itself_is_passed_on() -> None:
    server = Server()

    async def receive() -> dict[str, Any]:
        raise TimeoutError("the server's own")

    exchange = HostedExchange({"type": "http", "path": "/", "headers": []}, receive, server.send)
    with pytest.raises(TimeoutError, match="own"):
        await exchange.receive()
