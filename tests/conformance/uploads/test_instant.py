"""Instant uploads on the wire: clients that have the bytes need not send them, and no others get an object."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.checksums import checksum, etag
from tests.fixtures.instant import ANSWER, CHALLENGE, SHA256, SIZE, Challenge, named, offer, prove
from tests.fixtures.signing import UNSIGNED, UNSIGNED_TRAILER, aws_chunked
from tests.fixtures.targets import MIB, Target, content, keys_of, read, running
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "chunked"], indirect=True)]

SIZES = [65_536, 65_537, 300_000, 9 * MIB + 1]


def unique(size: int) -> bytes:
    """Bytes that no other test has stored."""
    return random.randbytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_the_same_bytes_with_metadata_of_their_own(wire: Wire, s3: Any, bucket: str, size: int) -> None:
    data = unique(size)
    assert offer(wire, f"/{bucket}/k", data) is None
    s3.put_object(Bucket=bucket, Key="source", Body=data, Metadata={"of": "source"}, ContentType="a/source")
    challenge = offer(wire, f"/{bucket}/k", data)
    assert challenge is not None
    answer = prove(wire, f"/{bucket}/k", data, challenge.solved(data), content_type="a/own", x_amz_meta_of="own")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["etag"] == etag(data)
    assert answer.headers["x-amz-checksum-sha256"] == checksum("SHA256", data)
    assert answer.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == data
    assert (got["ContentType"], got["Metadata"], got["ETag"]) == ("a/own", {"of": "own"}, etag(data))
    assert got["ChecksumSHA256"] == checksum("SHA256", data)
    source = s3.head_object(Bucket=bucket, Key="source")
    assert (source["ContentType"], source["Metadata"]) == ("a/source", {"of": "source"})


@pytest.mark.parametrize("size", SIZES)
def test_ranges_lie_inside_and_differ(wire: Wire, s3: Any, bucket: str, size: int) -> None:
    data = unique(size)
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    challenges = [offer(wire, f"/{bucket}/k", data) for _ in range(3)]
    seen = []
    for challenge in challenges:
        assert challenge is not None
        assert len(challenge.ranges) == (1 if size <= 65_536 else 16)
        assert all(0 <= first <= last < size for first, last in challenge.ranges)
        assert all(last - first < 4096 for first, last in challenge.ranges) or challenge.ranges == [(0, size - 1)]
        seen.append((challenge.token, challenge.nonce, tuple(challenge.ranges)))
    assert len({token for token, _, _ in seen}) == len({nonce for _, nonce, _ in seen}) == 3
    if size > 65_536:
        assert len({ranges for _, _, ranges in seen}) == 3


def test_small_objects_are_sent(wire: Wire, s3: Any, bucket: str) -> None:
    for size in (0, 1, 65_535):
        data = unique(size)
        s3.put_object(Bucket=bucket, Key="source", Body=data)
        assert offer(wire, f"/{bucket}/k", data) is None
    assert keys_of(s3, bucket) == ["source"]


def test_a_wrong_answer(wire: Wire, s3: Any, bucket: str) -> None:
    data, path = unique(200_000), f"/{bucket}/k"
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    challenge, other = offer(wire, path, data), offer(wire, path, data)
    assert challenge is not None
    assert other is not None
    right = challenge.solved(data)
    forged = challenge.token[:-1] + ("0" if challenge.token[-1] != "0" else "1")
    for solution in (
        challenge.solved(bytes(len(data))),
        {**right, ANSWER: named(data)[SHA256]},
        {**right, ANSWER: ""},
        {**right, ANSWER: "x" * 64},
        {**right, CHALLENGE: other.token},
        {**right, CHALLENGE: forged},
        {**right, CHALLENGE: ""},
        {**right, CHALLENGE: "f" * len(forged)},
    ):
        answer = prove(wire, path, data, solution)
        assert (answer.status, answer.code) == (403, "AccessDenied"), solution
        assert right[ANSWER].encode() not in answer.body
    assert keys_of(s3, bucket) == ["source"]
    assert prove(wire, path, data, right).status == 200


def test_a_challenge_for_something_else(wire: Wire, s3: Any, bucket: str) -> None:
    data, longer = unique(200_000), unique(200_001)
    s3.create_bucket(Bucket=f"{bucket}-2")
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    s3.put_object(Bucket=bucket, Key="source-2", Body=longer)
    challenge = offer(wire, f"/{bucket}/k", data)
    assert challenge is not None
    right = challenge.solved(data)
    for path, named_data in ((f"/{bucket}/j", data), (f"/{bucket}-2/k", data), (f"/{bucket}/k", longer)):
        answer = prove(wire, path, named_data, right)
        assert (answer.status, answer.code) == (403, "AccessDenied"), path
    resized = {SIZE: "199999", SHA256: named(data)[SHA256]}
    assert wire("POST", f"/{bucket}/k", "instant", headers={**resized, **right}).code == "AccessDenied"
    assert keys_of(s3, bucket) == ["source", "source-2"]
    assert keys_of(s3, f"{bucket}-2") == []


def test_the_bytes_of_another_bucket_of_the_owner(wire: Wire, s3: Any, bucket: str) -> None:
    data = unique(100_000)
    s3.create_bucket(Bucket=f"{bucket}-2")
    s3.put_object(Bucket=f"{bucket}-2", Key="source", Body=data)
    challenge = offer(wire, f"/{bucket}/k", data)
    assert challenge is not None
    assert prove(wire, f"/{bucket}/k", data, challenge.solved(data)).status == 200
    assert read(s3, bucket, "k") == data


def test_a_source_that_goes_or_changes(wire: Wire, s3: Any, bucket: str) -> None:
    data, path = unique(200_000), f"/{bucket}/k"
    for change in (
        lambda: s3.delete_object(Bucket=bucket, Key="source"),
        lambda: s3.put_object(Bucket=bucket, Key="source", Body=bytes(200_000)),
    ):
        s3.put_object(Bucket=bucket, Key="source", Body=data)
        challenge = offer(wire, path, data)
        assert challenge is not None
        change()
        assert Challenge.of(prove(wire, path, data, challenge.solved(data))) is None
        assert offer(wire, path, data) is None
        assert "k" not in keys_of(s3, bucket)
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    s3.put_object(Bucket=bucket, Key="source-2", Body=data)
    challenge = offer(wire, path, data)
    assert challenge is not None
    s3.delete_object(Bucket=bucket, Key="source")
    assert prove(wire, path, data, challenge.solved(data)).status == 200
    s3.delete_object(Bucket=bucket, Key="source-2")
    assert read(s3, bucket, "k") == data


def test_conditions(wire: Wire, s3: Any, bucket: str) -> None:
    data, path = unique(100_000), f"/{bucket}/k"
    s3.put_object(Bucket=bucket, Key="source", Body=data)

    def attempt(**headers: str) -> tuple[int, str]:
        challenge = offer(wire, path, data)
        assert challenge is not None
        answer = prove(wire, path, data, challenge.solved(data), **headers)
        return answer.status, answer.code if answer.status >= 300 else ""

    assert attempt(if_match=etag(data)) == (404, "NoSuchKey")
    assert attempt(if_none_match="*") == (200, "")
    assert attempt(if_none_match="*") == (412, "PreconditionFailed")
    assert attempt(if_match=etag(b"")) == (412, "PreconditionFailed")
    assert attempt(if_match=etag(data)) == (200, "")
    # Without a proof, only what is known without reading the index is refused. The upload itself is refused above.
    early = wire("POST", path, "instant", headers={**named(data), "If-None-Match": "*"})
    assert (early.status, early.code) in {(412, "PreconditionFailed"), (200, "")}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({SIZE: ""}, "InvalidArgument"),
        ({SIZE: "1e6"}, "InvalidArgument"),
        ({SIZE: str((5 << 30) + 1)}, "EntityTooLarge"),
        ({SIZE: "9" * 30}, "InvalidArgument"),
        ({SHA256: "0" * 63}, "InvalidArgument"),
        ({SHA256: "g" * 64}, "InvalidArgument"),
        ({CHALLENGE: "00"}, "InvalidRequest"),
        ({ANSWER: "00"}, "InvalidRequest"),
        ({"x-amz-checksum-sha256": checksum("SHA256", b"")}, "InvalidRequest"),
        ({"x-amz-orcas-ref-level": "1"}, "NotImplemented"),
        ({"x-amz-tagging": "a=1&a=2"}, "InvalidArgument"),
    ],
)
def test_heads_that_cannot_be_meant(wire: Wire, s3: Any, bucket: str, headers: dict[str, str], code: str) -> None:
    answer = wire("POST", f"/{bucket}/k", "instant", headers={**named(content(70_000)), **headers})
    assert answer.code == code
    for without in (SIZE, SHA256):
        half = {name: value for name, value in named(b"x").items() if name != without}
        assert wire("POST", f"/{bucket}/k", "instant", headers=half).code == "InvalidArgument"
    refused = wire("POST", f"/{bucket}/k", "instant", headers=named(b"x"), body=b"x")
    assert (refused.status, refused.code) == (400, "InvalidRequest")
    assert keys_of(s3, bucket) == []


def test_strangers_learn_nothing(wire: Wire, s3: Any, bucket: str) -> None:
    data, path = unique(200_000), f"/{bucket}/k"
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    challenge = offer(wire, path, data)
    assert challenge is not None
    proof = {**named(data), **challenge.solved(data)}
    for headers in (named(data), proof):
        refusals = [
            wire("POST", path, "instant", headers=headers, sign=False),
            wire.using(secret_key="x" * 40)("POST", path, "instant", headers=headers),
            wire.using(access_key="AKIAUNKNOWN000000000")("POST", path, "instant", headers=headers),
            wire("POST", path, "instant", headers={**headers, "x-amz-expected-bucket-owner": "0" * 64}),
        ]
        assert [answer.status for answer in refusals] == [403] * 4
        assert all(b"InstantUpload" not in answer.body for answer in refusals)
    assert keys_of(s3, bucket) == ["source"]


@pytest.mark.parametrize("size", [65_536, 300_000])
def test_what_vouches_for_an_upload_is_kept(wire: Wire, s3: Any, bucket: str, size: int) -> None:
    def found(data: bytes) -> bool:
        return offer(wire, f"/{bucket}/new", data) is not None

    def put(data: bytes, payload: str | None, **headers: str) -> bool:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        assert wire("PUT", f"/{bucket}/k", headers=sent, body=data, payload=payload).status == 200
        return found(data)

    data = [unique(size) for _ in range(6)]
    assert put(data[0], None)
    assert not put(data[1], UNSIGNED)
    assert not put(data[1], UNSIGNED, x_amz_checksum_crc32=checksum("CRC32", data[1]))
    assert put(data[2], UNSIGNED, x_amz_checksum_sha256=checksum("SHA256", data[2]))
    for number, algorithm in ((3, "SHA256"), (4, "CRC32C")):
        name = f"x-amz-checksum-{algorithm.lower()}"
        headers = {"x-amz-decoded-content-length": str(size), "x-amz-trailer": name}
        body = aws_chunked(data[number], trailers={name: checksum(algorithm, data[number])})
        answer = wire("PUT", f"/{bucket}/k", headers=headers, body=body, payload=UNSIGNED_TRAILER)
        assert answer.status == 200, answer.body
        assert found(data[number]) == (algorithm == "SHA256")
    wire("PUT", f"/{bucket}", "orcas-settings", headers={"x-amz-orcas-keep-sha256": "true"})
    assert put(data[5], UNSIGNED)


def test_objects_made_of_parts_have_none(wire: Wire, s3: Any, bucket: str, tmp_path: Path) -> None:
    data = unique(9 * MIB)
    path = tmp_path / "data"
    path.write_bytes(data)
    s3.upload_file(str(path), bucket, "source")
    assert s3.head_object(Bucket=bucket, Key="source")["ETag"].endswith('-2"')
    assert offer(wire, f"/{bucket}/k", data) is None
    # Neither does a copy of it, but a copy of an object with a SHA-256 keeps that.
    s3.put_object(Bucket=bucket, Key="whole", Body=data)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/whole")
    s3.delete_object(Bucket=bucket, Key="whole")
    assert offer(wire, f"/{bucket}/k", data) is not None


def test_a_bucket_that_shares_nothing(wire: Wire, s3: Any, bucket: str) -> None:
    data, path = unique(100_000), f"/{bucket}/k"
    s3.put_object(Bucket=bucket, Key="source", Body=data)
    challenge = offer(wire, path, data)
    assert challenge is not None
    wire("PUT", f"/{bucket}", "orcas-settings", headers={"x-amz-orcas-ref-level": "off"})
    assert offer(wire, path, data) is None
    assert Challenge.of(prove(wire, path, data, challenge.solved(data))) is None
    assert keys_of(s3, bucket) == ["source"]


@pytest.fixture(scope="module")
def without() -> Iterator[Target]:
    """A server on which instant uploads are switched off."""
    with running(None, instant_upload_enabled=False) as target:
        yield target


def test_switched_off(without: Target, target: Target) -> None:
    data = unique(100_000)
    client = without.client()
    name = f"off-{random.randbytes(8).hex()}"
    client.create_bucket(Bucket=name)
    client.put_object(Bucket=name, Key="source", Body=data)
    assert offer(without.wire, f"/{name}/k", data) is None
    solution = {CHALLENGE: "00", ANSWER: "00"}
    assert Challenge.of(prove(without.wire, f"/{name}/k", data, solution)) is None


def test_a_restart_forgets_challenges(tmp_path: Path, target: Target) -> None:
    data = unique(100_000)
    with running(tmp_path) as first:
        first.client().create_bucket(Bucket="restarted")
        first.client().put_object(Bucket="restarted", Key="source", Body=data)
        challenge = offer(first.wire, "/restarted/k", data)
        assert challenge is not None
    with running(tmp_path) as second:
        wire = second.wire
        answer = prove(wire.using(), "/restarted/k", data, challenge.solved(data))
        assert (answer.status, answer.code) == (403, "AccessDenied")
        again = offer(wire, "/restarted/k", data)
        assert again is not None
        assert prove(wire, "/restarted/k", data, again.solved(data)).status == 200
