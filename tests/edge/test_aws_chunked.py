"""Attacks on the framing and the signatures of `aws-chunked` bodies: refused, nothing stored, server alive."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence

import pytest
from tests.fixtures.signing import STREAMING, STREAMING_TRAILER, UNSIGNED_TRAILER, Header
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Answer, EndOfConnectionError, Signed, Signer

from .conftest import stored

# The minimum size of a signed chunk, except the last one, is 8 KiB.
PIECE = 8192
Attack = Callable[[list[bytes]], Sequence[bytes]]


def head_of(signed: Signed, body: bytes) -> bytes:
    return signed.head([("content-length", str(len(body)))])


def send(signer: Signer, signed: Signed, body: bytes) -> Answer:
    """Send a request in pieces that match no boundary, and read its one answer."""
    with signer.connect() as connection:
        whole = head_of(signed, body) + body
        for at in range(0, len(whole), 5_000):
            if not connection.push(whole[at : at + 5_000]):
                break
        return connection.response()


def signed_put(signer: Signer, path: str, length: int, payload: str = STREAMING, *extra: Header) -> Signed:
    headers = [("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(length)), *extra]
    return signer.sign("PUT", path, headers=headers, payload=payload)


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_the_good_case(signer: Signer, key: str, count: int) -> None:
    """Without this, the refusals below would prove nothing."""
    pieces = [content_of((key, n), PIECE) for n in range(count)]
    signed = signed_put(signer, key, PIECE * count)
    assert send(signer, signed, b"".join(signed.chunks(pieces))).status == 200
    answer = signer.roundtrip(signer.request("GET", key))
    assert answer.body == b"".join(pieces)
    assert "aws-chunked" not in answer.headers.get("content-encoding", "")


def without_signature(chunk: bytes) -> bytes:
    line, _, rest = chunk.partition(b"\r\n")
    return line.partition(b";")[0] + b"\r\n" + rest


ATTACKS: dict[str, Attack] = {
    "oversized declared chunk": lambda c: [c[0].replace(b"2000;", b"ffffffff;"), *c[1:]],
    "overflowing declared chunk": lambda c: [c[0].replace(b"2000;", b"10000000000002000;"), *c[1:]],
    "negative declared chunk": lambda c: [c[0].replace(b"2000;", b"-2000;"), *c[1:]],
    "declared chunk one byte short": lambda c: [c[0].replace(b"2000;", b"1fff;"), *c[1:]],
    "declared chunk one byte long": lambda c: [c[0].replace(b"2000;", b"2001;"), *c[1:]],
    "truncated within a chunk": lambda c: [*c[:2], c[2][:100]],
    "truncated after a chunk": lambda c: c[:2],
    "truncated within the last line": lambda c: [*c[:-1], c[-1][:10]],
    "no last chunk": lambda c: c[:-1],
    "a chunk left out": lambda c: [c[0], *c[2:]],
    "chunks in another order": lambda c: [c[1], c[0], *c[2:]],
    "a chunk in place of another": lambda c: [c[0], c[0], *c[2:]],
    "a chunk twice": lambda c: [c[0], c[0], *c[1:]],
    "an end in the middle": lambda c: [c[0], c[-1], *c[1:]],
    "bytes after the end": lambda c: [*c, b"more"],
    "a chunk after the end": lambda c: [*c, c[0]],
    "a byte changed": lambda c: [c[0], c[1][:200] + bytes([c[1][200] ^ 1]) + c[1][201:], *c[2:]],
    "the last byte of all changed": lambda c: [*c[:-2], c[-2][:-3] + bytes([c[-2][-3] ^ 1]) + c[-2][-2:], c[-1]],
    "no signature": lambda c: [without_signature(chunk) for chunk in c],
    "no signature at the end": lambda c: [*c[:-1], without_signature(c[-1])],
    "short signature": lambda c: [c[0].replace(b"chunk-signature=", b"chunk-signature=\r\n", 1), *c[1:]],
    "no CR LF after data": lambda c: [c[0][:-2], *c[1:]],
    "bare LF after the line": lambda c: [c[0].replace(b"\r\n", b"\n", 1), *c[1:]],
    "endless line": lambda c: [b"0" * 100_000, *c],
    "not chunked at all": lambda _: [b"plain bytes"],
    "nothing": lambda _: [],
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("count", [3, 40], ids=["small", "large"])
def test_attacks_on_signed_chunks(signer: Signer, key: str, attack: Attack, count: int) -> None:
    pieces = [content_of((key, n), PIECE) for n in range(count)]
    signed = signed_put(signer, key, PIECE * count)
    response = send(signer, signed, b"".join(attack(signed.chunks(pieces))))
    assert 400 <= response.status < 500, response
    assert not stored(signer, key)


@pytest.mark.parametrize("difference", [-PIECE, -1, 1, PIECE, 10**12])
def test_a_wrong_decoded_length(signer: Signer, key: str, difference: int) -> None:
    signed = signed_put(signer, key, 3 * PIECE + difference)
    response = send(signer, signed, b"".join(signed.chunks([content_of(n, PIECE) for n in range(3)])))
    assert 400 <= response.status < 500
    assert not stored(signer, key)


@pytest.mark.parametrize("lengths", [[], ["x"], ["-1"], [""], ["3", "3"], ["99999999999999999999999"]])
def test_a_decoded_length_that_is_none(signer: Signer, key: str, lengths: list[str]) -> None:
    headers = [("content-encoding", "aws-chunked"), *(("x-amz-decoded-content-length", length) for length in lengths)]
    signed = signer.sign("PUT", key, headers=headers, payload=STREAMING)
    response = send(signer, signed, b"".join(signed.chunks([b"abc"])))
    assert 400 <= response.status < 500
    assert not stored(signer, key)


def test_chunks_of_another_request_are_refused(signer: Signer, key: str) -> None:
    """The chain starts with the signature of the head."""
    pieces = [content_of(n, PIECE) for n in range(2)]
    recorded = signed_put(signer, f"{key}-recorded", 2 * PIECE).chunks(pieces)
    response = send(signer, signed_put(signer, key, 2 * PIECE), b"".join(recorded))
    assert (response.status, response.code) == (403, "SignatureDoesNotMatch")
    assert not stored(signer, key)


BODY = content_of("trailed", 100_000)
CRC32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big"))
WRONG = base64.b64encode(bytes(4))
NAME = b"x-amz-checksum-crc32"


def unsigned(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


TRAILERS = {
    "wrong checksum": b"0\r\n" + NAME + b":" + WRONG + b"\r\n\r\n",
    "no trailer": b"0\r\n\r\n",
    "another trailer": b"0\r\nx-amz-checksum-sha1:" + CRC32 + b"\r\n\r\n",
    "trailer twice": b"0\r\n" + (NAME + b":" + CRC32 + b"\r\n") * 2 + b"\r\n",
    "trailer that was not announced": b"0\r\n" + NAME + b":" + CRC32 + b"\r\nx-amz-meta-a:b\r\n\r\n",
    "no colon": b"0\r\n" + NAME + CRC32 + b"\r\n\r\n",
    "no value": b"0\r\n" + NAME + b":\r\n\r\n",
    "no base64": b"0\r\n" + NAME + b":????\r\n\r\n",
    "no end": b"0\r\n" + NAME + b":" + CRC32,
    "endless": b"0\r\n" + NAME + b":" + b"A" * 100_000 + b"\r\n\r\n",
    "many": b"0\r\n" + b"a:b\r\n" * 5000 + b"\r\n",
    "nothing": b"",
    "bytes after the end": b"0\r\n" + NAME + b":" + CRC32 + b"\r\n\r\nGET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("trailer", TRAILERS.values(), ids=TRAILERS.keys())
def test_attacks_on_trailers(signer: Signer, key: str, trailer: bytes) -> None:
    signed = signed_put(signer, key, len(BODY), UNSIGNED_TRAILER, ("x-amz-trailer", NAME.decode()))
    try:
        response = send(signer, signed, unsigned(BODY) + trailer)
    except EndOfConnectionError as error:
        pytest.fail(f"no answer: {error}")
    assert 400 <= response.status < 500, response
    assert not stored(signer, key)


def test_good_trailers(signer: Signer, key: str) -> None:
    """A trailer, unsigned or signed like the chunks."""
    trailer = ("x-amz-trailer", NAME.decode())
    signed = signed_put(signer, key, len(BODY), UNSIGNED_TRAILER, trailer)
    response = send(signer, signed, unsigned(BODY) + b"0\r\n" + NAME + b":" + CRC32 + b"\r\n\r\n")
    assert (response.status, response.headers["x-amz-checksum-crc32"]) == (200, CRC32.decode())
    for spoil in (False, True):
        signed = signed_put(signer, f"{key}-{spoil}", len(BODY), STREAMING_TRAILER, trailer)
        chunks = signed.chunk_signer()
        first, last = chunks.chunk(BODY), chunks.chunk(b"")
        line = NAME + b":" + CRC32
        proof = chunks.trailer(line + b"\n").encode()
        if spoil:
            proof = proof[::-1]
        body = b"%x;chunk-signature=%b\r\n%b\r\n" % (len(BODY), first.encode(), BODY)
        body += b"0;chunk-signature=%b\r\n%b\r\nx-amz-trailer-signature:%b\r\n\r\n" % (last.encode(), line, proof)
        response = send(signer, signed, body)
        assert response.status == (403 if spoil else 200), response
        assert stored(signer, f"{key}-{spoil}") is not spoil


@pytest.mark.parametrize("payload", [STREAMING, STREAMING_TRAILER, UNSIGNED_TRAILER])
@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_streaming_is_for_uploads(signer: Signer, method: str, payload: str) -> None:
    """A declared streaming payload on a request without a body does no harm."""
    with signer.connect() as connection:
        connection.send(signer.sign(method, "/edge/kept-not", payload=payload).head())
        assert 200 <= connection.response(method).status < 500
