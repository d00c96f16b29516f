"""When a certificate is renewed, and how long an attempt waits after others have failed."""

from __future__ import annotations

import math

import pytest

from orcas.acme import schedule

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize("days", [1, 6, 45, 90, 365])
def test_a_third_of_its_life_is_left(days: float) -> None:
    ends = days * DAY
    latest, earliest = (schedule.renewal(0, ends, None, luck) for luck in (0, 1))
    assert latest == pytest.approx(ends * 2 / 3)
    assert earliest == pytest.approx(ends * (2 / 3 - 1 / 30))
    assert earliest <= schedule.renewal(0, ends, None, 0.4) <= latest


def test_what_the_ca_suggests_counts_unless_it_is_too_late() -> None:
    # At once, as after a certificate was revoked; and a little later than without it.
    for suggested in (-DAY, 0, 10 * DAY, 65 * DAY):
        assert schedule.renewal(0, 90 * DAY, suggested, 0.5) == suggested
    for suggested in (89 * DAY, 1000 * DAY, math.inf):
        assert schedule.renewal(0, 90 * DAY, suggested, 0.5) == 75 * DAY


def test_failures_wait_longer_and_longer() -> None:
    pauses = [schedule.pause(failures, math.inf, 0) / MINUTE for failures in range(1, 8)]
    assert pauses == [1, 4, 16, 64, 256, 360, 360]
    assert schedule.pause(10**6, math.inf, 1) == 360 * MINUTE * 1.25
    # Let's Encrypt takes five failures in an hour.
    assert sum(pauses[:4]) > 60


def test_a_short_life_leaves_time_for_several_attempts() -> None:
    assert schedule.pause(9, 90 * DAY, 0) == 6 * HOUR
    assert schedule.pause(9, DAY, 0) == 2 * HOUR
    assert schedule.pause(9, 60, 0) == MINUTE


def test_the_ca_is_asked_neither_always_nor_never() -> None:
    assert schedule.next_question(0, -DAY) == 10 * MINUTE
    assert schedule.next_question(0, 6 * HOUR) == 6 * HOUR
    assert schedule.next_question(0, math.inf) == DAY
