"""Header formatting in Rust, called through PyO3, beside plain Python. One call for each object."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks import plain_headers as plain

from orcas import _core

TYPE = "application/octet-stream"
TYPE_BYTES = TYPE.encode()
DAY_MS = 86_400_000
# MD5, parts, length in bytes and time in milliseconds of objects, each of another day.
OBJECTS = [
    (hashlib.md5(b"%d" % n, usedforsecurity=False).digest(), n % 3, 7 ** (n % 12) + n, (20_000 - n) * DAY_MS + 997 * n)
    for n in range(256)
]

Call = Callable[[bytes, int, int, int], bytes]


def _compare(benchmark: Any, way: str, rust: Call, python: Call) -> None:
    for of_object in OBJECTS:
        assert rust(*of_object) == python(*of_object)
    call = rust if way == "rust" else python

    def once() -> None:
        for of_object in OBJECTS:
            call(*of_object)

    benchmark(once)
    benchmark.extra_info["calls"] = len(OBJECTS)


both = pytest.mark.parametrize("way", ["rust", "python"])


@both
@pytest.mark.benchmark(group="etag", max_time=0.5)
def test_etag(benchmark: Any, way: str) -> None:
    """The value of an ETag."""
    _compare(
        benchmark,
        way,
        lambda md5, parts, _length, _ms: _core.format_etag(md5, parts),
        lambda md5, parts, _length, _ms: plain.format_etag(md5, parts),
    )


@both
@pytest.mark.benchmark(group="content-length", max_time=0.5)
def test_content_length(benchmark: Any, way: str) -> None:
    """The value of a Content-Length."""
    _compare(
        benchmark,
        way,
        lambda _md5, _parts, length, _ms: _core.format_content_length(length),
        lambda _md5, _parts, length, _ms: plain.format_content_length(length),
    )


@both
@pytest.mark.benchmark(group="last-modified", max_time=0.5)
def test_last_modified(benchmark: Any, way: str) -> None:
    """The value of a Last-Modified."""
    _compare(
        benchmark,
        way,
        lambda _md5, _parts, _length, ms: _core.format_last_modified(ms),
        lambda _md5, _parts, _length, ms: plain.format_last_modified(ms),
    )


@both
@pytest.mark.benchmark(group="content-range", max_time=0.5)
def test_content_range(benchmark: Any, way: str) -> None:
    """The value of a Content-Range."""
    _compare(
        benchmark,
        way,
        lambda _md5, _parts, length, _ms: _core.format_content_range(length // 2, length, length + 1),
        lambda _md5, _parts, length, _ms: plain.format_content_range(length // 2, length, length + 1),
    )


@both
@pytest.mark.benchmark(group="five headers of a GET, as lines", max_time=0.5)
def test_object_headers(benchmark: Any, way: str) -> None:
    """The whole list in one call, ready for the wire."""
    _compare(
        benchmark,
        way,
        lambda md5, parts, length, ms: _core.set_object_headers_with_content_type(md5, parts, length, ms, TYPE_BYTES),
        lambda md5, parts, length, ms: plain.joined(plain.object_headers(md5, parts, length, ms, TYPE)),
    )
