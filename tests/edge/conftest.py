"""One server with short timeouts for the tests of the HTTP edge, and a check after each test that it still serves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.fixtures.wire import Signer

import orcas

# Seconds; the server's defaults would make tests wait.
HEAD_TIMEOUT = 2
BODY_TIMEOUT = 2
BUCKET = "edge"


@pytest.fixture(scope="session")
def server() -> Iterator[orcas.Server]:
    """A server in memory with one bucket, `edge`, that holds `kept`."""
    with orcas.Server(memory=True, head_timeout_sec=HEAD_TIMEOUT, body_timeout_sec=BODY_TIMEOUT) as running:
        signer = Signer.of(running)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}/kept", body=b"kept")).status == 200
        yield running


_keys = itertools.count()


@pytest.fixture
def key() -> str:
    """The path of an object that does not exist."""
    return f"/{BUCKET}/new-{next(_keys)}"


@pytest.fixture
def signer(server: orcas.Server) -> Iterator[Signer]:
    """Root's signer. After the test, the server must be alive, with `kept` unchanged."""
    root = Signer.of(server)
    yield root
    alive = root.roundtrip(root.request("GET", f"/{BUCKET}/kept"))
    assert (alive.status, alive.body) == (200, b"kept")


def stored(signer: Signer, path: str) -> bool:
    """Whether an object exists."""
    status = signer.roundtrip(signer.request("HEAD", path), "HEAD").status
    assert status in (200, 404)
    return status == 200
