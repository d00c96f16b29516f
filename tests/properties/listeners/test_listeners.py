"""Random requests are answered alike by the listener in Rust and by others, and leave the same behind.

The Python listener has the same limits and refusals, so all requests go to it, broken ones included. uvicorn has the
application behind its own parser, as any other ASGI server would: it gets requests that are well-formed HTTP.

A run is repeated by its name. The full run has ten of each; `LISTENER_RUNS=100` makes that 100 of 1,000 requests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from .running import run
from .scene import Scene, prepared

_RUNS: Final = int(os.environ.get("LISTENER_RUNS", "10"))
_REQUESTS: Final = 1000


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with prepared(tmp_path_factory.mktemp("prepared") / "store") as scene:
        yield scene


@pytest.mark.parametrize("other", ["python", "uvicorn"])
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        ("some", 600),
        *(pytest.param(str(number), _REQUESTS, marks=pytest.mark.full) for number in range(_RUNS)),
    ],
)
def test_two_listeners_answer_alike(scene: Scene, tmp_path: Path, other: str, seed: str, count: int) -> None:
    with run(seed, scene, tmp_path, other) as compared:
        first = next(compared.differences(count), None)
    assert first is None, f"\n{first}"
