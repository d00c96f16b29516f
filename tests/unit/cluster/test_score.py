"""The score of a node, when followers bid by it, and when one of them asks for the log: never to and fro."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

from orcas.cluster.score import LATENCY_WORST_MS, Measured, Pace, Wish, bid_share, score

# Report 003, section 2.4: load, latency in milliseconds, share of the data, and the score.
REPORT = [(0.65, 8, 0.98, 0.87), (0.82, 5, 0.92, 0.81), (0.43, 12, 0.99, 0.89)]
PACE = Pace()


@pytest.mark.parametrize(("load", "latency_ms", "copy", "scored"), REPORT)
def test_the_nodes_of_the_report_have_their_scores(load: float, latency_ms: float, copy: float, scored: float) -> None:
    assert round(score(load, latency_ms, copy), 2) == scored


def test_a_score_is_between_0_and_1_and_falls_with_what_is_worse() -> None:
    assert score(0, 0, 1) == pytest.approx(1)
    assert score(1, LATENCY_WORST_MS, 0) == score(7, 1e9, -1) == 0
    rng = random.Random(7)
    for _ in range(1000):
        load, latency, copy = rng.random(), rng.random() * 100, rng.random()
        found = score(load, latency, copy)
        assert 0 <= found <= 1
        assert found >= score(load + rng.random(), latency + 50 * rng.random(), copy - rng.random())


def test_the_better_of_two_followers_bids_first_and_none_waits_longer_than_the_share() -> None:
    idle_and_near, far = score(0.1, 1, 1), score(0.1, 60, 1)
    # Whatever chance says.
    assert bid_share(idle_and_near, 1) < bid_share(far, 0)
    assert 0 <= bid_share(1, 0) <= bid_share(score(1, 1e6, 1), 1) <= 1


def test_a_node_that_has_measured_nothing_bids_last() -> None:
    measured = Measured()
    assert bid_share(measured.score(), 1) == pytest.approx(1)
    measured.add(0.0, 2.0)
    good = measured.score()
    # One call that is lost is no reason to think worse of a node; a store that does not answer any more is.
    measured.add(0.0, 2.0)
    measured.add(0.0, None)
    assert measured.score() == good
    for _ in range(6):
        measured.add(0.0, None)
    assert measured.latency_ms == LATENCY_WORST_MS


class Looking:
    """A follower that looks every ten seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wish = Wish(PACE, lambda: self.now)

    def look(self, times: int = 1, term: int = 1, mine: float = 0.95, owners: float | None = 0.7, **how: Any) -> int:
        """How often it asks."""
        asked = 0
        for _ in range(times):
            self.now += PACE.measure_sec
            asked += self.wish.look(term, mine, owners, is_complete=how.get("is_complete", True))
        return asked


def test_a_node_that_was_better_for_a_minute_asks_ten_minutes_after_the_last_move() -> None:
    looking = Looking()
    assert looking.look(60) == 0
    assert looking.look() == 1
    # It was refused: once more after a minute, and no more often.
    assert looking.look(6) == 0
    assert looking.look() == 1


@pytest.mark.parametrize(
    "how",
    [{"mine": 0.9}, {"owners": None}, {"is_complete": False}, {"term": 2}],
    ids=["not much better", "no owner", "behind", "another owner"],
)
def test_a_minute_is_without_a_break(how: dict[str, Any]) -> None:
    looking = Looking()
    looking.look(50, owners=0.9)
    looking.look(6)
    assert looking.look(**how) == 0
    assert looking.look(6) == 0


def test_looks_that_were_missed_are_a_break() -> None:
    looking = Looking()
    looking.look(60, owners=0.9)
    looking.look(2)
    # The node was frozen.
    looking.now += 300
    assert looking.look(6) == 0
    assert looking.look() == 1


@pytest.mark.parametrize("seed", range(20))
def test_owners_never_change_more_often_than_every_ten_minutes(seed: int) -> None:
    """Three nodes whose load and latency jump, and whoever owns the log has more load. Only complete nodes ask."""
    rng = random.Random(seed)
    nodes = [SimpleNamespace(measured=Measured(), looking=Looking(), better=0) for _ in range(3)]
    owner, term, moves = 0, 1, []
    state = [(0.2, 2.0)] * 3
    for step in range(6 * 60 * 24):
        now = step * PACE.measure_sec
        if rng.random() < 0.02:
            state[rng.randrange(3)] = (rng.random(), rng.choice([2.0, 30.0, 79.0, 200.0]))
        complete = [rng.random() < 0.98 for _ in nodes]
        for at, node in enumerate(nodes):
            load, latency = state[at]
            node.measured.add(min(load + 0.5 * (at == owner), 1), latency)
        for at, node in enumerate(nodes):
            mine, owners = node.measured.score(), nodes[owner].measured.score()
            is_better = complete[at] and mine >= PACE.factor * owners
            node.better = node.better + 1 if is_better and at != owner else 0
            if at != owner and node.looking.look(1, term, mine, owners, is_complete=complete[at]):
                assert complete[at]
                assert node.better > PACE.better_for_sec / PACE.measure_sec
                moves.append(now)
                owner, term = at, term + 1
                for each in nodes:
                    each.better = 0
    assert all(later - earlier >= PACE.rest_sec for earlier, later in itertools.pairwise(moves))


def test_load_alone_moves_nothing() -> None:
    """It follows the owner, so it would move back."""
    assert score(0, 5, 1) < PACE.factor * score(1, 5, 1)
