"""Receivers of webhooks that do not keep to HTTP or TLS: each costs its delivery, and no more than its time limit."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.fixtures.events.certificates import certify
from tests.fixtures.servers.answering import answering

from orcas.targets.kinds import WebhookTarget
from orcas.targets.sending import Failure, Message
from orcas.targets.webhook import WebhookSender

MESSAGE = Message("1", "photos", "key", b"{}", "application/json")
TAKEN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SECONDS = 1


@contextlib.contextmanager
def sending(port: int, scheme: str = "http", host: str = "127.0.0.1") -> Iterator[WebhookSender]:
    url = urlsplit(f"{scheme}://{host}:{port}/hook")
    sender = WebhookSender(WebhookTarget(name="hook", url=url, secret=b"s" * 24, private=True, timeout_sec=SECONDS))
    with contextlib.closing(sender):
        yield sender


def failure_of(sender: WebhookSender) -> Failure:
    failure = sender.send(MESSAGE)
    assert failure is not None
    return failure


def answer_with(connection: socket.socket, pieces: Iterable[bytes]) -> None:
    """Wait for a request, then send the pieces, and end."""
    connection.recv(65_536)
    for piece in pieces:
        connection.sendall(piece)


def trickled(answer: bytes) -> Iterator[bytes]:
    for at in range(len(answer)):
        time.sleep(0.2)
        yield answer[at : at + 1]


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([], "closed without an answer"),
        ([b"\r\n\r\n"], "closed without an answer"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "HttpParser"),
        ([b"HTTP/1.1 2000 OK\r\n\r\n"], "HttpParser"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"], "HttpParser"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"], "HttpParser"),
        # The head is not complete, so nothing was said.
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"], "closed without an answer"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"x: " + b"y" * 1000 + b"\r\n"] * 100], "without an answer"),
        (trickled(TAKEN), "no answer within 1 s"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], "closed without an answer"),
        ([b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"], "HTTP status 302"),
        ([b"HTTP/1.1 503 Slow Down\r\nretry-after: 99999999\r\ncontent-length: 0\r\n\r\n"], "HTTP status 503"),
    ],
    ids=[
        "silence", "empty lines", "ssh", "status", "length", "lengths", "half a head", "endless head", "trickled",
        "interim only", "redirect", "busy",
    ],
)  # fmt: skip
def test_what_is_no_good_answer_is_a_failure(pieces: Iterable[bytes], reason: str) -> None:
    with answering(lambda connection: answer_with(connection, pieces)) as port:
        began = time.monotonic()
        with sending(port) as sender:
            failure = failure_of(sender)
        assert reason in failure.reason
        assert failure.retry_after_sec <= 300
        assert time.monotonic() - began < 5 * SECONDS + 20


@pytest.mark.parametrize(
    "pieces",
    [
        [TAKEN],
        [b"HTTP/1.1 100 Continue\r\n\r\n", TAKEN],
        [b"HTTP/1.1 102 Processing\r\n\r\n" + TAKEN],
        [b"HTTP/1.1 204 No Content\r\n\r\n"],
        # The head says that it was taken. The body does not matter, whatever becomes of it.
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort"],
        itertools.chain([CHUNKED], itertools.repeat(b"400\r\n" + b"x" * 1024 + b"\r\n")),
    ],
    ids=["plain", "continue", "processing", "no content", "short", "endless"],
)  # fmt: skip
def test_a_good_head_is_enough(pieces: Iterable[bytes]) -> None:
    with answering(lambda connection: answer_with(connection, pieces)) as port, sending(port) as sender:
        assert sender.send(MESSAGE) is None


def test_a_second_answer_is_not_that_of_the_next_message() -> None:
    refused = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        answer_with(connection, [TAKEN + refused])
        connection.recv(1)

    with answering(serve) as port, sending(port) as sender:
        assert [sender.send(MESSAGE) for _ in range(3)] == [None, None, None]
    assert len(connections) == 3


def test_nothing_is_sent_to_a_receiver_whose_certificate_is_not_trusted(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certify(tmp_path))
    received = []

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            received.append(secure.recv(65_536))

    with answering(serve) as port, sending(port, "https", "localhost") as sender:
        failure = failure_of(sender)
    assert "SSLCertVerificationError" in failure.reason
    assert received == []


def test_a_receiver_that_does_not_speak_tls_is_a_failure() -> None:
    plain = answering(lambda connection: answer_with(connection, [TAKEN]))
    with plain as port, sending(port, "https", "localhost") as sender:
        failure = failure_of(sender)
    assert failure.reason.startswith("SSLError")
