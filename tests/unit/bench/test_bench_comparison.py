"""Comparison of two commits: the verdict on a figure, and what a short pass must have measured."""

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


def figures_of(profile: str) -> dict[str, Any]:
    """The document of a complete short pass of run.py."""
    figures = [{"name": name, "values": [1.5, 1.6]} for name in complete.FIGURES]
    return {"circumstances": {"cargo_profile": profile}, "figures": figures}


def micro_of(profile: str) -> dict[str, Any]:
    """The document of a complete pass of benchmarks/micro."""
    stats = {"rounds": 5, "median": 0.1}
    benchmarks = [{"name": f"test_{group}", "group": group, "stats": dict(stats)} for group in ("get", "put")]
    return {"machine_info": {"orcas": {"cargo_profile": profile}}, "benchmarks": benchmarks}


def comparison_of(profile: str) -> dict[str, Any]:
    """The document of a complete short pass of compare.py."""
    rounds = [Comparison(name, "µs", [1.5, 1.6], [1.4, 1.7]).document() for name in complete.COMPARED]
    circumstances = {"cargo_profile": profile}
    return {"commits": {"base": "1f", "head": "2e-dirty"}, "circumstances": circumstances, "servers": rounds}


def test_a_complete_pass_has_no_problems() -> None:
    assert complete.figure_problems(figures_of("ci"), "ci") == []
    assert complete.micro_problems(micro_of("ci"), "ci", {"get", "put"}) == []
    assert complete.comparison_problems(comparison_of("ci"), "ci") == []


def test_a_figure_that_is_missing_is_named() -> None:
    figures = figures_of("ci")
    figures["figures"][0]["values"] = []
    figures["figures"][1]["values"] = [1.0, float("nan")]
    del figures["figures"][2]
    assert complete.figure_problems(figures, "ci") == [
        f"{complete.FIGURES[0]} is missing",
        f"{complete.FIGURES[2]} is missing",
        f"{complete.FIGURES[1]} has a value that is none",
    ]
    assert len(complete.figure_problems({}, "ci")) == len(complete.FIGURES) + 1


def test_a_call_that_is_missing_is_named() -> None:
    micro = micro_of("ci")
    micro["benchmarks"][1]["stats"]["rounds"] = 0
    assert complete.micro_problems(micro, "ci", {"get", "put", "list"}) == [
        "nothing of the group list was measured",
        "test_put has a value that is none",
    ]
    assert len(complete.micro_problems({}, "ci", {"get"})) == 2


def test_a_round_that_is_missing_is_named() -> None:
    compared = comparison_of("ci")
    compared["servers"][0]["head"] = []
    compared["servers"][1]["base"][1] = 0.0
    del compared["servers"][2]
    compared["commits"]["head"] = ""
    first, second, third = complete.COMPARED[:3]
    assert complete.comparison_problems(compared, "ci") == [
        f"{first} of head is missing",
        f"{third} of base is missing",
        f"{third} of head is missing",
        f"{first} has 2 rounds of base and 0 of head",
        f"{second} has a value that is none",
        "the commit of head is missing",
    ]
    assert len(complete.comparison_problems({}, "ci")) == 2 * len(complete.COMPARED) + 3


def test_a_pass_says_how_it_was_built() -> None:
    said = ["it is not said that the profile was ci"]
    assert complete.figure_problems(figures_of("release"), "ci") == said
    assert complete.micro_problems(micro_of("release"), "ci", {"get", "put"}) == said
    assert complete.comparison_problems(comparison_of("release"), "ci") == said
