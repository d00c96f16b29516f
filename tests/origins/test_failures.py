"""Origins that are down, slow, refuse, lie or change: a clear answer each, and nothing is stored that is not right."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from tests.fixtures.servers.answering import answering
from tests.fixtures.servers.tampering import Answer
from tests.fixtures.serving import serving
from tests.fixtures.targets import MIB, content, keys_of, read, refusal, running
from tests.fixtures.waiting import wait_until
from tests.origins.conftest import Pair, admin, in_flight

from orcas.origins.pulling import ANSWERS
from orcas.telemetry.origins import RESULTS
from orcas.tools.session import HttpTransport, Session


def refused(pair: Pair, key: str) -> tuple[int, str, str]:
    """Status, code and message of the answer to GetObject; HeadObject has the same status."""
    named = {"Bucket": pair.bucket, "Key": key}
    try:
        pair.here.client().get_object(**named)
    except botocore.exceptions.ClientError as error:
        answer = error.response
    else:
        raise AssertionError("the object was sent")
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    assert refusal(pair.here.client().head_object, **named) == (status, str(status))
    return status, answer["Error"]["Code"], answer["Error"]["Message"]


def expected(reason: str) -> tuple[int, str, str]:
    code, message = ANSWERS[reason]
    return (
        {"EntityTooLarge": 400, "InvalidArgument": 400, "QuotaExceeded": 403, "ServiceUnavailable": 503}[code],
        code,
        message,
    )


def test_every_reason_is_counted() -> None:
    assert set(RESULTS) == {"stored", "missing", *ANSWERS}


def changed(method: str, answer: Answer) -> None:
    # Whatever HEAD says of parts, GET has another object.
    if method == "HEAD":
        answer.without("etag")
        answer.headers.append(("etag", f'"{"0" * 32}-2"'))


def other_status(status: int, code: str) -> Callable[[str, Answer], None]:
    def change(method: str, answer: Answer) -> None:
        answer.status, answer.body = status, b"" if method == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
        answer.headers = [("location", "http://127.0.0.1:1/elsewhere"), ("content-length", str(len(answer.body)))]

    return change


def other_bytes(_method: str, answer: Answer) -> None:
    answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1]) if answer.body else b""


def cut(method: str, answer: Answer) -> None:
    answer.cut = method == "GET"


def longer(_method: str, answer: Answer) -> None:
    # Only HEAD told the truth.
    answer.body = answer.body * 2


def without_length(method: str, answer: Answer) -> None:
    if method == "GET":
        answer.without("content-length")
        answer.cut = True


CASES: dict[str, tuple[Callable[[str, Answer], None], str]] = {
    "403": (other_status(403, "AccessDenied"), "refused"),
    "redirect": (other_status(307, "TemporaryRedirect"), "refused"),
    "no bucket": (other_status(404, "NoSuchBucket"), "missing"),
    "500": (other_status(500, "InternalError"), "unreachable"),
    "wrong bytes": (other_bytes, "wrong_bytes"),
    "cut": (cut, "truncated"),
    "longer": (longer, "wrong_bytes"),
    "changed": (changed, "changed"),
    "no length": (without_length, "refused"),
}


@pytest.mark.parametrize("size", [100, 2 * MIB])
@pytest.mark.parametrize("case", CASES)
def test_each_failure_has_its_answer_and_stores_nothing(pair: Pair, case: str, size: int) -> None:
    change, reason = CASES[case]
    pair.put("k", content(size))
    pair.tamper = lambda method, _path, answer: change(method, answer)
    if reason == "missing":
        assert refused(pair, "k")[:2] == (404, "NoSuchKey")
    else:
        assert refused(pair, "k") == expected(reason)
    assert pair.fetches() == {reason: 2}
    # An origin that is well again is asked again.
    client = pair.here.client()
    assert keys_of(client, pair.bucket) == []
    assert "Uploads" not in client.list_multipart_uploads(Bucket=pair.bucket)
    pair.tamper = lambda *_: None
    assert read(client, pair.bucket, "k") == content(size)


@pytest.mark.parametrize(
    "key",
    [
        "../internal/k",
        "a/../../internal/k",
        "a/./k",
        "a/..",
        "a/%2e%2E/k",
        "a/%252e./k",
        "..\\k",
        "a/..;x/k",
        "a/.. /k",
    ],
)
def test_a_key_that_a_server_may_resolve_is_not_asked_for(pair: Pair, key: str) -> None:
    """A proxy before the origin might answer with what lies elsewhere."""
    path = f"/{pair.bucket}/{urllib.parse.quote(key)}"
    answer = pair.here.wire("GET", path)
    assert (answer.status, answer.code, answer.error["Message"]) == expected("unsafe_key")
    assert pair.here.wire("HEAD", path).status == 400
    assert pair.proxy.requests == []
    # What is here is served, whatever its key.
    assert pair.here.wire("PUT", path, body=b"x").status == 200
    assert pair.here.wire("GET", path).body == b"x"


def test_dots_that_no_server_resolves_are_asked_for(pair: Pair) -> None:
    for key in ("a/...", "..a/b..", ".hidden/k", "a.b", "%2e%2ex"):
        pair.put(key, key.encode())
        assert read(pair.here.client(), pair.bucket, key) == key.encode()


def test_an_origin_that_is_down_or_is_not_one(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    pair.join(url=f"http://127.0.0.1:{port}")
    assert refused(pair, "k") == expected("unreachable")
    pair.join(url="http://nowhere.invalid")
    assert refused(pair, "k") == expected("unreachable")
    with answering(lambda connection: connection.sendall(b"220 mail.example.org ESMTP\r\n")) as port:
        pair.join(url=f"http://127.0.0.1:{port}")
        assert refused(pair, "k") == expected("unreachable")
    pair.join(access_key="another")
    pair.put("k", b"x")
    assert refused(pair, "k") == expected("refused")
    shown = admin(pair.here, "GET", "origins")["origins"]
    assert "refused: 127.0.0.1" in next(one["last_failure"] for one in shown if one["bucket"] == pair.bucket)


def test_private_addresses_are_not_connected_to_unless_the_origin_is_private(pair: Pair) -> None:
    pair.put("k", b"x")
    for host in ("127.0.0.1", "localhost"):
        pair.join(private=False, url=pair.proxy.url.replace("127.0.0.1", host))
        assert refused(pair, "k") == expected("unreachable")
    assert pair.proxy.requests == []


@contextlib.contextmanager
def silent(head: bytes = b"") -> Iterator[int]:
    """A port that takes requests and sends this at most."""
    end = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(head)
        end.wait(60)

    with answering(serve) as port:
        try:
            yield port
        finally:
            end.set()


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\n", b'HTTP/1.1 200 OK\r\ncontent-length: 10\r\netag: "0"\r\n\r\n']
)
def test_a_silent_origin_is_given_up(pair: Pair, head: bytes) -> None:
    with silent(head) as port:
        pair.join(url=f"http://127.0.0.1:{port}", timeout_sec=1)
        assert refusal(pair.here.client().get_object, Bucket=pair.bucket, Key="k") == (503, "ServiceUnavailable")
    assert set(pair.fetches()) == {"slow"}


@pytest.mark.parametrize("head", [b"connection: close\r\n", b""])
def test_an_origin_that_sends_for_ever_is_given_up(pair: Pair, head: bytes) -> None:
    """Each byte comes in time, and no piece does. An answer that ends with its connection is no exception."""

    def drip(connection: socket.socket) -> None:
        connection.recv(10_000)
        described = b'HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\netag: "x"\r\n'
        connection.sendall(described + head + b"\r\n")
        connection.settimeout(0.1)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(10_000):
                        return

    def answer(connection: socket.socket) -> None:
        """HEAD has no body; then the connection, or the next one, is asked by GET."""
        if connection.recv(1, socket.MSG_PEEK) == b"H":
            connection.recv(10_000)
            connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\netag: "x"\r\nconnection: close\r\n\r\n')
        else:
            drip(connection)

    with answering(answer) as port:
        pair.join(url=f"http://127.0.0.1:{port}", timeout_sec=1)
        assert refused(pair, "k")[:2] in ((503, "SlowDown"), expected("slow")[:2])
        assert wait_until(lambda: bool(pair.fetches().get("slow")))


def test_who_waits_too_long_is_told_to_come_back(pair: Pair) -> None:
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "k"}
    end = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not end.wait(0.2):
            connection.sendall(b"x-more: 1\r\n")

    with answering(drip) as port:
        # It is never silent.
        pair.join(url=f"http://127.0.0.1:{port}", timeout_sec=1)
        assert refusal(client.get_object, **named) == (503, "SlowDown")
        # Nor is it waited for without an end.
        assert wait_until(lambda: pair.fetches() == {"slow": 1})
        end.set()


def test_a_fetch_goes_on_when_nobody_waits_for_it(pair: Pair) -> None:
    pair.put("k", b"x")
    begun, release = threading.Event(), threading.Event()

    def tamper(*_: object) -> None:
        begun.set()
        release.wait(60)

    pair.tamper = tamper
    impatient = pair.here.client(read_timeout=1)
    with pytest.raises(botocore.exceptions.ReadTimeoutError):
        impatient.get_object(Bucket=pair.bucket, Key="k")
    assert begun.is_set()
    release.set()
    assert wait_until(lambda: keys_of(pair.here.client(), pair.bucket) == ["k"])
    assert pair.asked("k") == ["HEAD", "GET"]


def test_objects_above_the_limit_are_not_fetched(pair: Pair) -> None:
    # The document of its tags is larger than it may be.
    pair.put("small", b"x" * 1000, Tagging="&".join(f"{'k' * 120}{number}={'v' * 200}" for number in range(9)))
    pair.put("large", b"x" * 1001)
    pair.join(object_bytes_max=1000)
    assert read(pair.here.client(), pair.bucket, "small") == b"x" * 1000
    assert refused(pair, "large") == expected("too_large")
    assert "GET" not in pair.asked("large")

    # One that grows after HEAD has said how large it is.
    def tamper(method: str, _path: str, answer: Answer) -> None:
        if method == "GET":
            answer.body += b"x"

    pair.put("grows", b"x" * 1000)
    pair.tamper = tamper
    assert refusal(pair.here.client().get_object, Bucket=pair.bucket, Key="grows") == (400, "EntityTooLarge")
    assert keys_of(pair.here.client(), pair.bucket) == ["small"]


def test_quotas_hold(pair: Pair) -> None:
    for key, size in (("a", 100), ("b", 100), ("large", 2 * MIB)):
        pair.put(key, content(size))
    admin(pair.here, "PUT", "quotas", {"bucket": pair.bucket, "bytes": 150})
    assert read(pair.here.client(), pair.bucket, "a") == content(100)
    assert refused(pair, "b") == expected("quota")
    assert refused(pair, "large") == expected("quota")
    assert keys_of(pair.here.client(), pair.bucket) == ["a"]


def test_a_slow_origin_leaves_room_to_others(pair: Pair) -> None:
    # More than the fetches that one origin may have.
    client, count, other = pair.here.client(), 20, f"{pair.bucket}-slow"
    client.create_bucket(Bucket=other)
    pair.put("k", b"x")
    with ThreadPoolExecutor(count) as pool:
        with silent() as port:
            pair.join(bucket=other, url=f"http://127.0.0.1:{port}")
            reads = [pool.submit(refusal, client.get_object, Bucket=other, Key=f"k{number}") for number in range(count)]
            assert wait_until(lambda: in_flight(pair.here) == count)
            assert read(client, pair.bucket, "k") == b"x"
        assert {one.result() for one in reads} == {(503, "ServiceUnavailable")}
    admin(pair.here, "DELETE", f"origins/{other}")


def test_a_server_that_is_killed_or_stopped_in_the_middle_leaves_nothing_half(pair: Pair, tmp_path: Path) -> None:
    size = 4 * MIB
    pair.put("k", content(size))
    begun, release = threading.Event(), threading.Event()

    def tamper(method: str, _path: str, answer: Answer) -> None:
        if method == "GET":
            begun.set()
            answer.cut = release.wait(60)

    key = {"access_key": pair.there.server.access_key, "secret_key": pair.there.server.secret_key}
    order = {"bucket": "bkt", "url": pair.proxy.url, "source": pair.bucket, "private": True, **key}
    for end in ("kill", "stop"):
        pair.tamper = tamper
        with running(tmp_path / "data", drain_timeout_sec=1) as here, ThreadPoolExecutor(1) as pool:
            if end == "kill":
                here.client().create_bucket(Bucket="bkt")
                admin(here, "PUT", "origins", order)
            reading: Any = pool.submit(read, here.client(), "bkt", "k")
            assert begun.wait(60)
            getattr(here.server, end)()
            release.set()
            with pytest.raises((botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)):
                reading.result()
        begun.clear()
        release.clear()
    pair.tamper = lambda *_: None
    with running(tmp_path / "data") as here:
        assert keys_of(here.client(), "bkt") == []
        assert "Uploads" not in here.client().list_multipart_uploads(Bucket="bkt")
        # The origin is known to the next start.
        assert read(here.client(), "bkt", "k") == content(size)


def test_the_log_says_why(pair: Pair, tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as here:
        client = here.client()
        client.create_bucket(Bucket="bkt")
        order = {"bucket": "bkt", "url": "http://127.0.0.1:1", "source": "s", "private": True}
        session = Session(HttpTransport(here.url), here.keys, "us-east-1")
        session.admin("PUT", "origins", {**order, "access_key": "a", "secret_key": "never-to-be-logged"})
        session.close()
        assert refusal(client.get_object, Bucket="bkt", Key="k") == (503, "ServiceUnavailable")
        lines = [line for line in here.lines() if line["message"] == "An object could not be fetched from an origin"]
        assert [(line["bucket"], line["reason"]) for line in lines] == [("bkt", "unreachable")]
        assert "127.0.0.1:1" in lines[0]["cause"]
        assert "never-to-be-logged" not in here.text()
