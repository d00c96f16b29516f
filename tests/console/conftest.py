"""A server in memory, and visitors of its console."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
