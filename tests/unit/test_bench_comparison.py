"""Two commits beside each other: what is said about a figure, and what a short pass must have measured."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import complete
from benchmarks.comparison import Comparison, table

STEADY = Comparison("get", "µs", [100.0, 102.0, 98.0], [90.0, 92.0, 88.5])
NOISY = Comparison("put", "µs", [100.0, 140.0, 90.0], [120.0, 100.0, 95.0])


def test_a_difference_is_said_only_when_the_interval_shows_it() -> None:
    assert STEADY.verdict == "head is cheaper"
    assert Comparison("get", "µs", STEADY.head, STEADY.base).verdict == "head is dearer"
    assert NOISY.verdict == "no difference shown: the interval includes 1"
    assert NOISY.ratio.low is not None
    assert NOISY.ratio.high is not None
    assert NOISY.ratio.low < 1 < NOISY.ratio.high
    assert Comparison("once", "µs", [1.0], [2.0]).verdict == "one round shows nothing"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [(1000.0, "the same"), (1004.0, "the same"), (1006.0, "head is dearer"), (994.0, "head is cheaper")],
)
def test_counts_need_one_round(found: float, verdict: str) -> None:
    assert Comparison("etag", "", [1000.0], [found], counted=True).verdict == verdict


def test_a_figure_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        _ = Comparison("nothing", "µs", [], []).verdict


def test_the_table_and_the_document_say_the_same() -> None:
    document = STEADY.document()
    assert document["ratio"] == pytest.approx(0.9017, abs=1e-3)
    assert document["low"] < document["ratio"] < document["high"] < 1
    assert (document["rounds"], document["base"]) == (3, STEADY.base)
    head, row, other = table([STEADY, NOISY]).splitlines()
    assert head.split() == ["figure", "base", "head", "unit", "head", "÷", "base", "95", "%", "interval"]
    assert row.split()[:5] == ["get", "100", "90", "µs", f"{document['ratio']:.3f}"]
    assert row.endswith(document["verdict"])
    assert other.endswith("includes 1")


def pass_of(profile: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a complete short pass writes."""
    figures = [{"name": name, "values": [1.5, 1.6]} for name in complete.FIGURES]
    micro = [
        {"name": f"test_{group}", "group": group, "stats": {"rounds": 5, "median": 0.1}} for group in ("get", "put")
    ]
    machine = {"machine_info": {"orcas": {"cargo_profile": profile}}}
    return {"circumstances": {"cargo_profile": profile}, "figures": figures}, machine | {"benchmarks": micro}


def test_a_complete_pass_has_no_problems() -> None:
    assert complete.problems(*pass_of("ci"), {"get", "put"}, "ci") == []


def test_what_is_missing_is_named() -> None:
    figures, micro = pass_of("ci")
    figures["figures"][0]["values"] = []
    figures["figures"][1]["values"] = [1.0, float("nan")]
    del figures["figures"][2]
    micro["benchmarks"][1]["stats"]["rounds"] = 0
    assert complete.problems(figures, micro, {"get", "put", "list"}, "ci") == [
        f"{complete.FIGURES[0]} is missing",
        f"{complete.FIGURES[2]} is missing",
        f"{complete.FIGURES[1]} has a value that is none",
        "nothing of the group list was measured",
        "test_put has a value that is none",
    ]
    assert len(complete.problems({}, {}, set(), "ci")) == len(complete.FIGURES) + 1


def test_a_pass_says_how_it_was_built() -> None:
    assert complete.problems(*pass_of("release"), {"get", "put"}, "ci") == ["it is not said that the profile was ci"]
