"""A server in memory, a client and a bucket for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import orcas


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A boto3 client of a new server."""
    with orcas.Server(memory=True) as server:
        yield server.client()


@pytest.fixture(scope="session")
def bucket(client: Any) -> str:
    """An empty bucket."""
    client.create_bucket(Bucket="micro")
    return "micro"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that the JSON file repeats."""
    parser.addoption("--cargo-profile", default="unknown", help="how the installed Orcas was built")


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add how the numbers were measured to what pytest-benchmark records."""
    profile = config.getoption("--cargo-profile")
    machine_info["orcas"] = {"durability": "sync", "memory": True, "connections": 1, "cargo_profile": profile}
