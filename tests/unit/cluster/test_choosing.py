"""A follower that suits better asks the owner for the log, and an owner asks nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.fixtures.waiting import wait_until

from orcas.cluster import choosing
from orcas.cluster.member import Owner
from orcas.cluster.score import Measured, Pace
from orcas.engine import StoreError

HASTY = Pace(measure_sec=0.005, break_sec=60, better_for_sec=0.02, rest_sec=0.02)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The requests to owners."""
    made: list[tuple[Any, ...]] = []

    class Session:
        def __init__(self, transport: Any, keys: tuple[str, str], region: str) -> None:
            self._whom = transport.url, keys, region

        def admin(self, *request: object) -> None:
            made.append((*self._whom, *request))

        def close(self) -> None:
            pass

    monkeypatch.setattr(choosing, "PACE", HASTY)
    monkeypatch.setattr(choosing, "load_of_machine", lambda: 0.0)
    monkeypatch.setattr("orcas.tools.session.Session", Session)
    return made


def member(**how: Any) -> Any:
    """A node that is idle, and near the log, whose owner is neither."""
    calls: list[None] = []

    def latency() -> float:
        calls.append(None)
        return 0.001

    return SimpleNamespace(**{
        "node": SimpleNamespace(latency=latency), "measured": Measured(), "name": "1c2d3e4f", "region": "us-east-1",
        "owner": Owner("5a6b7c8d", "http://127.0.0.1:1", 3, score=0.6), "owns": False, "keys": ("access", "secret"),
        "is_complete": lambda: True, "calls": calls, **how,
    })  # fmt: skip


def looked(one: Any, *, asks: bool = True) -> None:
    """Let a node look for much longer than it needs to ask."""
    with choosing.measuring(one, asks=asks):
        assert wait_until(lambda: len(one.calls) > 30)


def test_a_follower_asks_the_owner_to_move_the_log_to_it(asked: list[tuple[Any, ...]]) -> None:
    looked(member())
    assert asked
    assert set(map(repr, asked)) == {
        repr(("http://127.0.0.1:1", ("access", "secret"), "us-east-1", "POST", "cluster/move", {"to": "1c2d3e4f"}))
    }


@pytest.mark.parametrize(
    "how",
    [
        {"owns": True},
        {"is_complete": lambda: False},
        {"keys": None},
        {"owner": None},
        {"owner": Owner("5a6b7c8d", "http://127.0.0.1:1", 3, score=0.6, released=True)},
        {"owner": Owner("5a6b7c8d", "http://127.0.0.1:1", 3)},
        {"owner": Owner("5a6b7c8d", "http://127.0.0.1:1", 3, score=0.9)},
    ],
    ids=["it owns it", "behind", "no key", "no owner", "given up", "of an earlier version", "not much better"],
)
def test_otherwise_it_asks_nobody(how: dict[str, Any], asked: list[tuple[Any, ...]]) -> None:
    looked(member(**how))
    assert not asked


def test_nobody_asks_unless_that_is_set(asked: list[tuple[Any, ...]]) -> None:
    looked(member(), asks=False)
    assert not asked


def test_an_owner_that_does_not_answer_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choosing, "PACE", HASTY)
    monkeypatch.setattr(choosing, "load_of_machine", lambda: 0.0)
    one = member()
    with caplog.at_level("INFO", logger="orcas"), choosing.measuring(one, asks=True):
        assert wait_until(lambda: "The owner did not give the log to this node" in caplog.text)
    assert "asks for it: score 1.0, not 0.6" in caplog.text


def test_a_log_that_does_not_answer_counts_as_far(asked: list[tuple[Any, ...]]) -> None:
    def gone() -> float:
        one.calls.append(None)
        raise StoreError("gone")

    one = member(node=SimpleNamespace(latency=gone))
    looked(one)
    assert one.measured.score() == pytest.approx(0.75)
