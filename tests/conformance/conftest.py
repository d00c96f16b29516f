"""A live server for every test here, and clients and raw requests that nobody here wrote."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config

import orcas


@pytest.fixture(scope="session")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True) as running:
        yield running


@pytest.fixture(scope="session")
def s3(server: orcas.Server) -> Any:
    # One attempt: a retry would hide a refused or broken connection.
    return server.client(config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}))


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"b-{uuid.uuid4()}"
    s3.create_bucket(Bucket=name)
    return name
