"""Ratios of two servers, and their intervals."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from orcas.bench.compare import ratio


def test_a_constant_ratio_is_certain() -> None:
    found = ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found is not None
    assert (found.ratio, found.low, found.high) == (pytest.approx(2), pytest.approx(2), pytest.approx(2))
    assert found.rounds == 3


def test_a_known_interval() -> None:
    # Logarithms 0 and 2: mean 1, standard error 1, times 12.706 with one degree of freedom.
    found = ratio([1.0, math.exp(2)], [1.0, 1.0])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.ratio == pytest.approx(math.e)
    assert (math.log(found.low), math.log(found.high)) == (pytest.approx(1 - 12.706), pytest.approx(1 + 12.706))


def test_nothing_to_compare() -> None:
    assert ratio([], []) is None
    assert ratio([1.0], [1.0, 2.0]) is None
    assert ratio([0.0], [1.0]) is None
    once = ratio([3.0], [2.0])
    assert once is not None
    assert (once.ratio, once.low, once.high) == (pytest.approx(1.5), None, None)


@pytest.mark.parametrize("rounds", [2, 6, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(rounds: int) -> None:
    drawn = random.Random(rounds)
    held = []
    for _ in range(2000):
        over = [drawn.lognormvariate(math.log(1.5), 0.2) for _ in range(rounds)]
        found = ratio(over, [1.0] * rounds)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 1.5 <= found.high)
    assert 0.93 < statistics.fmean(held) < 0.97
