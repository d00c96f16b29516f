"""Random requests are answered alike by the listener and by the application, and leave the same behind.

uvicorn has the application behind its own parser, as any other ASGI server would: so the two get requests that are
well-formed HTTP.

A run is repeated by its name. The full run has ten; `LISTENER_RUNS=100` makes that 100 of 1,000 requests.
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


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        ("some", 600),
        *(pytest.param(str(number), _REQUESTS, marks=pytest.mark.full) for number in range(_RUNS)),
    ],
)
def test_both_answer_alike(scene: Scene, tmp_path: Path, seed: str, count: int) -> None:
    with run(seed, scene, tmp_path) as compared:
        first = next(compared.differences(count), None)
    assert first is None, f"\n{first}"
