"""A store for each test, and helpers for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fixtures.targets import Target, content, running

BUCKET = "tools"
# Inline, twice in the log, in packs.
SIZES = (10, 300, 5_000, 70_000, 700_000)


def fill(target: Target, names: range, bucket: str = BUCKET) -> dict[str, bytes]:
    """Put objects of all sizes, no two alike; their bodies by key."""
    bodies = {f"k/{at:04}": content(SIZES[at % len(SIZES)], at) for at in names}
    for key, body in bodies.items():
        target.client().put_object(Bucket=bucket, Key=key, Body=body)
    return bodies


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of the store of the test."""
    return tmp_path / "data"


@pytest.fixture
def serve(data: Path) -> Callable[..., contextlib.AbstractContextManager[Target]]:
    """Run a server on the store of the test, or on another directory, with the bucket that tests use."""

    @contextlib.contextmanager
    def start(directory: Path | None = None, **settings: object) -> Iterator[Target]:
        with running(directory or data, **settings) as target:
            client = target.client()
            if BUCKET not in [entry["Name"] for entry in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            yield target

    return start
