"""Fixtures of the tests that drive a live server through packages that the default run does not install."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.fixtures.clients import MANY
from tests.fixtures.targets import Target


@pytest.fixture(scope="session")
def listed(targets: Callable[[str], Target]) -> str:
    """A bucket with more objects than a page of a listing has: `page/0000` and so on, of one byte each."""
    client = targets("disk").client()
    client.create_bucket(Bucket="listed")
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(
            lambda number: client.put_object(Bucket="listed", Key=f"page/{number:04}", Body=b"x"), range(MANY)
        ):
            pass
    return "listed"
