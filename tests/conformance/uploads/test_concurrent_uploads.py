"""Concurrent large uploads: each gets the digests of its own bytes, whatever happens to the others."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.checksums import content_md5, etag
from tests.fixtures.targets import KINDS, MIB, Target, content, keys_of, read, refusal
from tests.fixtures.wire import Signer

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]

UPLOADS = 8


class Piecewise:
    """A body that botocore reads in pieces of random sizes."""

    def __init__(self, body: bytes, seed: int) -> None:
        self._body = body
        self._at = 0
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._body)

    def read(self, size: int = -1) -> bytes:
        """The next piece, at most `size` bytes."""
        wanted = len(self._body) - self._at if size < 0 else min(size, self._random.randint(1, 300_000))
        piece = self._body[self._at : self._at + wanted]
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        """As files do."""
        self._at = offset + (0, self._at, len(self._body))[whence]
        return self._at

    def tell(self) -> int:
        """Where the next piece begins."""
        return self._at


def body_of(number: int) -> bytes:
    """The body of an upload. Half of them begin with the same bytes, more than a chunk."""
    common = content(4 * MIB + 1, seed=99) if number % 2 else b""
    return common + content(MIB + 200_001 * number, seed=number)


def test_each_upload_has_its_own_digest(s3: Any, bucket: str) -> None:
    bodies = [body_of(number) for number in range(UPLOADS)]

    def put(number: int) -> str:
        tag: str = s3.put_object(Bucket=bucket, Key=str(number), Body=Piecewise(bodies[number], number))["ETag"]
        return tag

    with ThreadPoolExecutor(UPLOADS) as threads:
        tags = list(threads.map(put, range(UPLOADS)))
    assert tags == [etag(body) for body in bodies]
    for number, body in enumerate(bodies):
        assert read(s3, bucket, str(number)) == body


def test_uploads_that_fail_take_none_with_them(target: Target, s3: Any, bucket: str) -> None:
    bodies = [body_of(number) for number in range(UPLOADS)]
    wrong = content_md5(b"other content")
    signer = Signer.of(target.server)

    def refused(number: int) -> tuple[int, str]:
        return refusal(s3.put_object, Bucket=bucket, Key=f"refused-{number}", Body=bodies[number], ContentMD5=wrong)

    def broken_off(number: int) -> None:
        body = bodies[number]
        with signer.connect(60) as connection:
            connection.send(signer.put(f"/{bucket}/broken-{number}", len(body)) + body[: len(body) // 2])

    def put(number: int) -> str:
        tag: str = s3.put_object(Bucket=bucket, Key=f"whole-{number}", Body=bodies[number])["ETag"]
        return tag

    with ThreadPoolExecutor(3 * UPLOADS) as threads:
        refusals = [threads.submit(refused, number) for number in range(UPLOADS)]
        broken = [threads.submit(broken_off, number) for number in range(UPLOADS)]
        whole = [threads.submit(put, number) for number in range(UPLOADS)]
        assert [task.result() for task in refusals] == [(400, "BadDigest")] * UPLOADS
        assert [task.result() for task in broken] == [None] * UPLOADS
        assert [task.result() for task in whole] == [etag(body) for body in bodies]
    assert keys_of(s3, bucket) == [f"whole-{number}" for number in range(UPLOADS)]
    for number, body in enumerate(bodies):
        assert read(s3, bucket, f"whole-{number}") == body
