"""Paths of exported keys: a different one for each key, none outside the directory, and all valid names of files."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orcas.tools.copies.paths import PART, SIDE, bucket_name, path_of

KEYS = st.lists(
    st.sampled_from([b"", b".", b"..", b"a", b"%", b"%2F", b"A", b"\x00", b"\xff", "ü".encode(), b"x" * 300]),
    max_size=6,
).map(b"/".join) | st.binary(min_size=1, max_size=1024)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (b"a/b", "a/b"),
        (b"../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
        (b"./a", "%2E/a"),
        (b"/etc", "%2F/etc"),
        (b"a//b", "a/%2F/b"),
        (b"a/", "a/%2F"),
        (b"100%", "100%25"),
        (b"a\x00b\n", "a%00b%0A"),
        (b"\xff\xfe", "%FF%FE"),
        ("grün".encode(), "grün"),
        (b"...", "..."),
    ],
)
def test_paths_are_as_documented(key: bytes, path: str) -> None:
    assert path_of(key) == PurePosixPath(path)


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(KEYS, min_size=2, max_size=20, unique=True))
def test_paths_stay_inside_and_differ(keys: list[bytes]) -> None:
    paths = [path_of(key) for key in keys]
    assert len(set(paths)) == len(keys)
    for path in paths:
        assert not path.is_absolute()
        for part in path.parts:
            assert part not in {"", ".", ".."}
            assert "\0" not in part
            assert len(os.fsencode(part)) + len(PART) <= 255
            assert not part.endswith((SIDE, PART))


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(KEYS)
def test_a_path_can_be_made(key: bytes) -> None:
    top = Path("/top")
    assert Path(os.path.normpath(top / path_of(key))).is_relative_to(top)
    assert len((top / path_of(key)).parts) == 2 + len(key.split(b"/"))


def test_no_bucket_takes_the_place_of_the_index() -> None:
    assert bucket_name("index.jsonl") != "index.jsonl"
    assert bucket_name("photos.2026") == "photos.2026"
    assert bucket_name("..") == "%2E%2E"
