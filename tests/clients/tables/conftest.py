"""Fixtures of the tests of the catalog of tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.tables.lake import LAKE, catalog_of

import orcas


@pytest.fixture(scope="session")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True, warehouse=LAKE) as running:
        yield running


@pytest.fixture
def catalog(server: orcas.Server) -> Any:
    return catalog_of(server)


@pytest.fixture
def namespace(catalog: Any) -> str:
    name = f"n{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(name)
    return name
