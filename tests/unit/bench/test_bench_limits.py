"""Limits on instruction counts: what a file may contain, and which counts it applies to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from benchmarks import limits
from benchmarks.limits import Counts, Limits

WITH = {"rustc": "rustc 1.95.0", "processor": 'x86_64 "avx2"', "libc": "glibc 2.36", "valgrind": "valgrind-3.19.0"}
LIMITS = Limits(2.0, Counts(WITH, {"etag": 20.0, "get": 10_000.0, "list": 500_000.0}))


def counted(**instructions: float) -> Counts:
    return Counts(WITH, LIMITS.expected.instructions | instructions)


def test_a_file_says_what_was_written() -> None:
    assert limits.read(limits.write(LIMITS)) == LIMITS


@pytest.mark.parametrize(
    ("whole", "broken", "why"),
    [
        ("tolerance_percent = 2.0", "", "incomplete: 'tolerance_percent'"),
        ("tolerance_percent = 2.0", "tolerance_percent = 0", "something that is none"),
        ("tolerance_percent = 2.0", "tolerance_percent = 2\nceiling = 3", "something that is none"),
        ("[instructions]", "[instruction]", "incomplete: 'instructions'"),
        ("etag = 20.0", "etag = 0", "something that is none"),
        ("etag = 20.0", 'etag = "many"', "many"),
        ("etag = 20.0", "etag =", "Invalid value"),
    ],
)
def test_a_broken_file_is_refused(whole: str, broken: str, why: str) -> None:
    text = limits.write(LIMITS)
    assert whole in text
    with pytest.raises(ValueError, match=why):
        limits.read(text.replace(whole, broken))


def test_what_is_within_the_tolerance_is_as_expected() -> None:
    assert limits.judge(LIMITS, counted()) == []
    assert limits.judge(LIMITS, counted(get=10_200.0, list=490_000.0)) == []
    # One of twenty instructions is more than 2 %.
    assert limits.judge(LIMITS, counted(etag=21.0)) == []


def test_what_is_dearer_fails_and_what_is_cheaper_is_said() -> None:
    dearer, cheaper = limits.judge(LIMITS, counted(etag=21.1, get=9_799.0))
    assert (dearer.path, dearer.failed) == ("etag", True)
    assert (cheaper.path, cheaper.failed) == ("get", False)
    assert str(dearer) == "etag: expected 20.0 instructions, found 21.1 (+5.5 %)"
    assert str(cheaper) == "get: expected 10,000.0 instructions, found 9,799.0 (-2.0 %)"


def test_a_path_on_one_side_only_fails() -> None:
    found = {"etag": 20.0, "get": 10_000.0, "crc": 7.0}
    gone, new = limits.judge(LIMITS, Counts(WITH, found))
    assert (gone.path, gone.found, gone.failed) == ("list", None, True)
    assert (new.path, new.expected, new.failed) == ("crc", None, True)
    assert "was not counted" in str(gone)
    assert "no limit" in str(new)


def test_counts_of_other_tools_are_not_compared() -> None:
    assert limits.unlike(LIMITS.expected, counted()) == []
    newer = dataclasses.replace(counted(), circumstances=WITH | {"rustc": "rustc 1.96.0"})
    assert limits.unlike(LIMITS.expected, newer) == ["rustc was 'rustc 1.95.0' and is 'rustc 1.96.0'"]
    unknown = dataclasses.replace(counted(), circumstances={"rustc": WITH["rustc"]})
    assert len(limits.unlike(LIMITS.expected, unknown)) == len(WITH) - 1


def test_start_up_cancels_out() -> None:
    features, paths = limits.parse_paths("features sse4.2 avx2\npath 256 etag\npath 4 list\n")
    assert features == "sse4.2 avx2"
    # 100 and 9 instructions are outside the calls.
    assert limits.per_call(paths, [100 + 256 * 20, 100 + 512 * 20, 9 + 4 * 1001, 9 + 8 * 1001]) == {
        "etag": 20.0,
        "list": 1001.0,
    }
    assert limits.parse_paths("features\npath 1 etag\n")[0] == ""
    with pytest.raises(ValueError, match="3 counts for 2 paths"):
        limits.per_call(paths, [1, 2, 3])
    with pytest.raises(ValueError, match="not what the benchmark says"):
        limits.parse_paths("Killed")


def test_every_path_has_a_limit() -> None:
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    known = limits.read((benchmarks / "instructions.toml").read_text(encoding="utf-8"))
    assert {"rustc", "processor", "libc", "valgrind"} == set(known.expected.circumstances)
    source = (benchmarks.parent / "rust_core" / "benches" / "instructions.rs").read_text(encoding="utf-8")
    for path in known.expected.instructions:
        assert f'"{path}"' in source
