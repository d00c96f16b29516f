"""The server of all model tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .machines import Machines, machines


@pytest.fixture(scope="session")
def place() -> Iterator[Machines]:
    with machines() as made:
        yield made
