"""Bodies that are late, too short, too long, or of an impossible length, and whether the connection stays usable."""

from __future__ import annotations

import socket
import time

import pytest
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Answer, EndOfConnectionError, Signer

from .conftest import BODY_TIMEOUT, BUCKET, stored

MIB = 1 << 20


@pytest.mark.parametrize("trickle", [b"", b"x" * 100], ids=["stalled", "trickling"])
@pytest.mark.parametrize("size", [1000, 20 * MIB], ids=["small", "large"])
def test_a_slow_body_is_cut_off(signer: Signer, key: str, size: int, trickle: bytes) -> None:
    """After a grace period, a body must deliver 1 KiB per second."""
    with signer.connect() as connection:
        began = time.monotonic()
        connection.send(signer.put(key, size) + b"x" * 500)
        connection.sock.settimeout(0.5)
        while time.monotonic() - began < 4 * BODY_TIMEOUT + 40:
            try:
                if not (piece := connection.sock.recv(4096)):
                    break
                connection.buffer += piece
            except TimeoutError:
                connection.push(trickle if size > 1000 else trickle[:1])
        took = time.monotonic() - began
        response = connection.response()
        assert (response.status, response.code, response.closes) == (400, "RequestTimeout", True)
        # A fast start earns no more than one timeout; then the server drains for a while.
        assert took < 2 * BODY_TIMEOUT + 30
    assert not stored(signer, key)


def test_a_body_fast_enough_may_take_its_time(signer: Signer, key: str) -> None:
    body = content_of("slow", 2 * BODY_TIMEOUT * 2048)
    with signer.connect() as connection:
        connection.send(signer.put(key, len(body)))
        for at in range(0, len(body), 512):
            connection.send(body[at : at + 512])
            time.sleep(0.2)
        assert connection.response().status == 200
    assert signer.roundtrip(signer.request("GET", key)).body == body


@pytest.mark.parametrize("size", [1000, 2 * MIB])
@pytest.mark.parametrize("missing", [1, 999])
def test_a_body_too_short_stores_nothing(signer: Signer, key: str, size: int, missing: int) -> None:
    with signer.connect() as connection:
        connection.send(signer.put(key, size) + bytes(size - missing))
        connection.sock.shutdown(socket.SHUT_WR)
        try:
            response = connection.response()
        except EndOfConnectionError as error:
            assert error.received == b""  # a server may also just close
        else:
            assert 400 <= response.status < 500
    assert not stored(signer, key)


@pytest.mark.parametrize("size", [10, 2 * MIB])
def test_what_follows_a_body_is_not_part_of_it(signer: Signer, key: str, size: int) -> None:
    with signer.connect() as connection:
        connection.push(signer.put(key, size) + b"a" * (size + 7) + b"\r\n\r\n")
        first = connection.response()
        assert first.status == 200
        second = connection.response()
        assert (second.status, second.closes) == (400, True)
        assert connection.rest() == b""
    assert signer.roundtrip(signer.request("GET", key)).body == b"a" * size


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_length_is_required(signer: Signer, method: str) -> None:
    query = [("uploads", "")] if method == "POST" else []
    path = f"/{BUCKET}/no-length"
    response = signer.roundtrip(signer.sign(method, path, query).head())
    if method == "PUT":
        assert (response.status, response.code) == (411, "MissingContentLength")
    else:
        # RFC 9112, section 6.3: without length and coding there is no body, and this operation takes none.
        assert response.status == 200
    assert not stored(signer, path)


@pytest.mark.parametrize("length", [5 * (1 << 30) + 1, 1 << 62])
@pytest.mark.parametrize("expect", [[("expect", "100-continue")], []], ids=["with Expect", "without"])
def test_a_body_longer_than_any_object_is_refused_at_once(
    signer: Signer, key: str, length: int, expect: list[tuple[str, str]]
) -> None:
    with signer.connect() as connection:
        connection.send(signer.put(key, length, expect))
        response = connection.response()
        assert (response.status, response.code, response.closes) == (400, "EntityTooLarge", True)
        assert connection.ended()


@pytest.mark.parametrize(
    ("declared", "body", "code"),
    [
        ("0" * 64, b"hello", "XAmzContentSHA256Mismatch"),
        ("nonsense", b"hello", "InvalidArgument"),
        ("0" * 64, bytes(2 * MIB), "XAmzContentSHA256Mismatch"),
    ],
    ids=["small", "no hash", "large"],
)
def test_a_body_with_another_hash_stores_nothing(
    signer: Signer, key: str, declared: str, body: bytes, code: str
) -> None:
    response = signer.roundtrip(signer.request("PUT", key, body=body, payload=declared))
    assert (response.status, response.code) == (400, code)
    assert not stored(signer, key)


@pytest.mark.parametrize("body", [b"hello", bytes(2 * MIB)], ids=["small", "large"])
@pytest.mark.parametrize(
    ("header", "codes"),
    [
        (("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="), {"BadDigest"}),
        (("content-md5", "AAAA"), {"InvalidDigest"}),
        (("x-amz-checksum-crc32", "AAAAAA=="), {"BadDigest"}),
        (("x-amz-checksum-sha256", "A" * 43 + "="), {"BadDigest"}),
        (("x-amz-checksum-crc32", "no base64!"), {"InvalidRequest"}),
    ],
    ids=["md5", "no md5", "crc32", "sha256", "no crc32"],
)
def test_a_body_with_another_checksum_stores_nothing(
    signer: Signer, key: str, header: tuple[str, str], codes: set[str], body: bytes
) -> None:
    response = signer.roundtrip(signer.request("PUT", key, headers=[header], body=body))
    assert response.status == 400
    assert response.code in codes
    assert not stored(signer, key)


def test_pipelined_requests_are_answered_in_order(signer: Signer, key: str) -> None:
    requests: list[tuple[str, bytes]] = [
        ("PUT", signer.request("PUT", f"{key}-{n}", body=b"%d" % n)) for n in range(20)
    ]
    requests += [("GET", signer.request("GET", f"{key}-{n}")) for n in range(20)]
    requests += [("HEAD", signer.request("HEAD", f"{key}-{n}")) for n in range(20)]
    with signer.connect() as connection:
        connection.send(b"".join(request for _, request in requests))
        answers = [connection.response(method) for method, _ in requests]
    assert {answer.status for answer in answers} == {200}
    assert [answer.body for answer in answers[20:40]] == [b"%d" % n for n in range(20)]


def test_a_pipeline_behind_a_large_upload_waits(signer: Signer, key: str) -> None:
    body = content_of("pipelined", 3 * MIB)
    with signer.connect() as connection:
        connection.push(signer.request("PUT", key, body=body) + signer.request("GET", key))
        assert connection.response().status == 200
        assert connection.response().body == body


# Requests and their answers; each leaves the connection usable.
ORDERLY = {
    "no such key": ("GET", f"/{BUCKET}/none", [], [], 404),
    "no such key, HEAD": ("HEAD", f"/{BUCKET}/none", [], [], 404),
    "no such bucket": ("GET", "/no-such-bucket/k", [], [], 404),
    "not modified": ("GET", f"/{BUCKET}/kept", [], [("if-none-match", "*")], 304),
    "not modified, HEAD": ("HEAD", f"/{BUCKET}/kept", [], [("if-none-match", "*")], 304),
    "precondition": ("GET", f"/{BUCKET}/kept", [], [("if-match", '"x"')], 412),
    "range": ("GET", f"/{BUCKET}/kept", [], [("range", "bytes=9-")], 416),
    "no such upload": ("GET", f"/{BUCKET}/kept", [("uploadId", "none")], [], 404),
    "bad argument": ("GET", f"/{BUCKET}", [("max-keys", "many")], [], 400),
    "no such configuration": ("GET", f"/{BUCKET}", [("replication", "")], [], 404),
    "unbuilt": ("GET", f"/{BUCKET}/kept", [("torrent", "")], [], 501),
    "bad method": ("PATCH", f"/{BUCKET}/kept", [], [], 405),
    "delete of nothing": ("DELETE", f"/{BUCKET}/none", [], [], 204),
    "whole": ("GET", f"/{BUCKET}/kept", [], [], 200),
    "head": ("HEAD", f"/{BUCKET}/kept", [], [], 200),
}


def test_a_connection_survives_every_orderly_answer(signer: Signer) -> None:
    """No stray byte follows an answer; HEAD and 304 have no body."""
    with signer.connect() as connection:
        for name, (method, path, query, headers, status) in list(ORDERLY.items()) * 2:
            connection.send(signer.request(method, path, query, headers))
            answer: Answer = connection.response(method)
            assert answer.status == status, name
            assert not answer.closes, name
            if method == "HEAD" and status == 200:
                assert answer.headers["content-length"] == "4"
            if status == 304:
                assert "content-length" not in answer.headers
            if status >= 400 and method != "HEAD":
                assert answer.body.startswith(b"<?xml"), name
                assert answer.headers["content-type"] == "application/xml"
            assert answer.headers.get("x-amz-request-id"), name
            assert connection.buffer == b"", name


def test_a_stranger_keeps_its_connection_too(signer: Signer) -> None:
    stranger = Signer(signer.host, signer.port, signer.access_key, "not-the-secret-key")
    with signer.connect() as connection:
        connection.send(stranger.request("GET", f"/{BUCKET}/kept"))
        refused = connection.response()
        assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
        connection.send(signer.request("GET", f"/{BUCKET}/kept"))
        assert connection.response().body == b"kept"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_connection_close_is_obeyed(signer: Signer, version: str) -> None:
    request = signer.request("GET", f"/{BUCKET}/kept", headers=[("connection", "close")])
    with signer.connect() as connection:
        connection.send(request.replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
        response = connection.response()
        assert (response.body, response.closes) == (b"kept", True)
        assert connection.ended()
