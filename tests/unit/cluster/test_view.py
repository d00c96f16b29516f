"""What a follower gives up, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orcas.cluster.view import View

FILE, OTHER = "log/00000000000000000003.log", "log/00000000000000000002.log"


def test_what_was_put_off_does_not_concern_a_file_that_is_there_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def follow(_core: object, *given_up: Any, **_options: object) -> int:
        calls.append(tuple(map(list, given_up)))
        return 1

    monkeypatch.setattr("orcas.cluster.view.follow", follow)
    core: Any = SimpleNamespace(published_sequence=lambda: 0)
    nothing: Any = None
    view = View(nothing, core, nothing)

    def step(*given_up: list[Any]) -> Any:
        return {"given_up": given_up, "keys": False, "small": []}

    view.take(step([FILE, OTHER], [(FILE, 8)], [(FILE, 0, 4096)], []))
    view.show(1)
    view.take(step([], [], [], [FILE]))
    # What is there anew is told before anything is given up.
    view.show(1)
    assert calls[-1] == ([], [], [], [FILE])
    view.show(1)
    assert calls[-1] == ([OTHER], [], [], [])
    assert view.rest() == ([], [], [], [])
