"""A server in memory, and visitors of its console."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.console.visitors import Visitor, visitor_of
from tests.fixtures.targets import Target


@pytest.fixture(scope="session")
def target(targets: Callable[[str], Target]) -> Target:
    return targets("memory")


@pytest.fixture
def stranger(target: Target) -> Iterator[Visitor]:
    """A visitor who has not signed in."""
    visitor = visitor_of(target, signed_in=False)
    yield visitor
    visitor.close()


@pytest.fixture
def visitor(target: Target) -> Iterator[Visitor]:
    """A visitor who has signed in with the root key."""
    visitor = visitor_of(target)
    yield visitor
    visitor.close()


@pytest.fixture
def iam(target: Target) -> Iterator[Any]:
    """A client of IAM with the root key."""
    client = target.server.client("iam")
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A name of this test's own."""
    return f"n-{uuid.uuid4().hex[:12]}"
