"""`orcas.events` against servers that follow a script: they cut streams anywhere, refuse, and fall silent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config

import orcas

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
Take = Callable[..., list[orcas.events.Event]]


def record(key: str, sequencer: str) -> dict[str, Any]:
    """An event in S3's structure."""
    return {
        "eventVersion": "2.3", "eventSource": "aws:s3", "awsRegion": "eu-west-1",
        "eventTime": "2026-01-02T03:04:05.678Z", "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "alice"}, "requestParameters": {"sourceIPAddress": "10.0.0.1"},
        "responseElements": {"x-amz-request-id": "AB", "x-amz-id-2": "host"},
        "s3": {
            "s3SchemaVersion": "1.0", "configurationId": "",
            "bucket": {"name": "photos", "ownerIdentity": {"principalId": "owner"}, "arn": "arn:aws:s3:::photos"},
            "object": {"key": key, "size": 3, "eTag": "e", "versionId": "v", "sequencer": sequencer},
        },
    }  # fmt: skip


def event(number: int) -> bytes:
    """An event of a stream: `number` is in its id and its key."""
    data = json.dumps({"Records": [record(f"k+{number}", f"{number:020X}")]})
    return f"id: {number}\nevent: s3\ndata: {data}\n\n".encode()


class Script:
    """A server that answers one connection after the other as the script says, and keeps what was asked."""

    def __init__(self, *answers: bytes, cut: int = 65_536, holds: bool = False) -> None:
        self.heads: list[str] = []
        self._answers = answers
        self._cut = cut
        self._holds = holds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for at, answer in enumerate(self._answers):
            with self._listener.accept()[0] as connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    piece = connection.recv(65_536)
                    if not piece:
                        break
                    head += piece
                self.heads.append(head.decode())
                for begin in range(0, len(answer), self._cut):
                    connection.sendall(answer[begin : begin + self._cut])
                if self._holds and at == len(self._answers) - 1:
                    connection.recv(1)
        self._listener.close()


@contextlib.contextmanager
def playing(*answers: bytes, **how: Any) -> Iterator[tuple[Script, Any]]:
    """A script that runs, and a client of it."""
    script = Script(*answers, **how)
    script.thread.start()
    keys = {"aws_access_key_id": "some-key", "aws_secret_access_key": "some-secret"}
    client = boto3.client(
        "s3", endpoint_url=script.url, region_name="eu-west-1", **keys, config=Config(max_pool_connections=1)
    )
    try:
        yield script, client
    finally:
        script.thread.join(20)
        assert not script.thread.is_alive()


def take_sync(client: Any, count: int, **arguments: Any) -> list[orcas.events.Event]:
    with orcas.events.listen(client, **arguments) as listener:
        return list(itertools.islice(listener, count))


def take_async(client: Any, count: int, **arguments: Any) -> list[orcas.events.Event]:
    async def run() -> list[orcas.events.Event]:
        found = []
        async with contextlib.aclosing(orcas.events.alisten(client, **arguments)) as listener:
            if count:
                async for one in listener:
                    found.append(one)
                    if len(found) == count:
                        break
        return found

    return asyncio.run(run())


@pytest.fixture(params=[take_sync, take_async], ids=["sync", "async"])
def take(request: pytest.FixtureRequest) -> Take:
    """Takes a number of events, or all until the end."""
    function: Take = request.param
    return function


def keys(events: list[orcas.events.Event]) -> list[str | None]:
    return [event.key for event in events]


def test_an_event_has_everything_that_was_sent(take: Take) -> None:
    with playing(STREAM + b"\r\n" + event(1)) as (_, client):
        (found,) = take(client, 1)
    time = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    assert found == orcas.events.Event(
        "1", "ObjectCreated:Put", time, "photos", "k 1", 3, "e", "v", f"{1:020X}", "owner", "alice", "AB", "10.0.0.1",
        "eu-west-1", "",
    )  # fmt: skip


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_a_stream_may_be_cut_anywhere(take: Take, cut: int) -> None:
    body = b"\xef\xbb\xbf: hello\r\n\r\n" + b"".join(event(number) for number in range(3))
    chunked = b"".join(
        b"%x\r\n%s\r\n" % (len(body[at : at + 50]), body[at : at + 50]) for at in range(0, len(body), 50)
    )
    for answer in (b"\r\n" + body, b"Transfer-Encoding: chunked\r\n\r\n" + chunked):
        with playing(STREAM + answer, cut=cut) as (_, client):
            assert keys(take(client, 3)) == ["k 0", "k 1", "k 2"]


def test_it_continues_after_the_last_event(take: Take) -> None:
    first = STREAM + b"\r\nretry: 1\n\n" + event(1) + event(2) + event(3)[:-30]
    unavailable = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"
    torn = b"HTTP/1.1 200 O"
    with playing(first, unavailable, torn, b"", STREAM + b"\r\n" + event(3)) as (script, client):
        assert keys(take(client, 3)) == ["k 1", "k 2", "k 3"]
    assert "last-event-id" not in script.heads[0].lower()
    assert all("\r\nlast-event-id: 2\r\n" in head.lower() for head in script.heads[1:])


def test_a_place_without_an_event_is_kept(take: Take) -> None:
    """A server says at once where a stream of new events begins, so that none is missed if it breaks off."""
    with playing(STREAM + b"\r\nid: 41\nretry: 1\n\n", STREAM + b"\r\n" + event(42)) as (script, client):
        assert keys(take(client, 1)) == ["k 42"]
    assert "\r\nlast-event-id: 41\r\n" in script.heads[1].lower()


def test_what_is_asked_for_is_in_the_signed_request(take: Take) -> None:
    asked = {
        "buckets": ["a", "b"], "events": ["s3:ObjectCreated:*"], "prefix": "ä b/", "suffix": ".jpg",
        "start": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
    }  # fmt: skip
    with playing(STREAM + b"\r\nretry: 1\n\n" + event(1), STREAM + b"\r\n" + event(2)) as (script, client):
        assert len(take(client, 2, **asked)) == 2
    filters = "bucket=a&bucket=b&event=s3%3AObjectCreated%3A%2A&prefix=%C3%A4%20b%2F&suffix=.jpg"
    first, second = (head.partition(" HTTP")[0] for head in script.heads)
    assert first == f"GET /_orcas/events?{filters}&start=2026-01-02T03%3A04%3A05.678Z"
    assert second == f"GET /_orcas/events?{filters}"
    assert "Authorization: AWS4-HMAC-SHA256 Credential=some-key/" in script.heads[0]


def test_a_gap_is_raised_and_says_where_to_continue(take: Take) -> None:
    gap = b"id: 7\nevent: gap\ndata: {}\n\n"
    with playing(STREAM + b"\r\n" + event(1) + b"event: other\ndata: x\n\n" + gap) as (script, client):
        with pytest.raises(orcas.events.EventsLostError) as lost:
            take(client, 9, after="0")
        assert lost.value.after == "7"
    assert "\r\nlast-event-id: 0\r\n" in script.heads[0].lower()


def test_it_ends_when_the_server_has_no_more_to_say(take: Take) -> None:
    with playing(STREAM + b"\r\nretry: 1\n\n" + event(1), b"HTTP/1.1 204 No Content\r\n\r\n") as (_, client):
        assert keys(take(client, 9)) == ["k 1"]


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (
            b'HTTP/1.1 403 X\r\nContent-Length: 42\r\n\r\n{"error":{"code":"Denied","message":"No"}}',
            "Denied",
            "refused: No",
        ),
        (b"HTTP/1.1 404 X\r\nContent-Length: 1\r\n\r\nx", "404", "HTTP status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>", "NoStream", "is this server Orcas"),
        (STREAM + b"\r\nevent: s3\ndata: {}\n\n", "NoStream", "cannot be read"),
        (STREAM + b"\r\n" + b"x" * 1_100_000, "NoStream", "too long"),
    ],
    ids=["denied", "missing", "page", "foreign", "long"],
)
def test_a_refusal_is_raised(take: Take, answer: bytes, code: str, message: str) -> None:
    with playing(answer) as (_, client), pytest.raises(orcas.events.ListenError, match=message) as refused:
        take(client, 1)
    assert refused.value.code == code


def test_a_listener_that_waits_can_be_closed() -> None:
    with playing(STREAM + b"\r\n" + event(1), holds=True) as (_, client):
        listener = orcas.events.listen(client)
        assert next(listener).key == "k 1"
        threading.Timer(0.1, listener.close).start()
        assert list(listener) == []


def test_a_task_that_waits_can_be_cancelled() -> None:
    async def run(client: Any) -> None:
        listener = orcas.events.alisten(client)
        assert (await anext(listener)).key == "k 1"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(listener)

    with playing(STREAM + b"\r\n" + event(1), holds=True) as (_, client):
        asyncio.run(run(client))


def test_messages_are_parsed_without_a_stream() -> None:
    body = json.dumps({"Records": [record("a%2Fb", "0" * 20), record("c", "0" * 19 + "1")]})
    assert [(one.id, one.key) for one in orcas.events.parse(body)] == [("0" * 20, "a/b"), ("0" * 19 + "1", "c")]
    with pytest.raises(ValueError, match="no message"):
        orcas.events.parse("{}")
