"""Instruction counts of hot paths, and their limits: reads, judges and writes them. Pure.

A count depends on the compiler, the C library and the processor features that valgrind emulates. A file of limits names
them, and counts taken with others are not judged.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import Final

# A share of a few instructions is less than one, so one more is always allowed.
_INSTRUCTIONS_ALLOWED: Final = 1.0
ACCEPT: Final = "python benchmarks/instructions.py --accept"
_TITLE: Final = f"""\
# Instructions of one call of each path of rust_core/benches/instructions.rs, as callgrind counts them.
# `{ACCEPT}` writes this file anew; only the tolerance is kept. docs/benchmarks.md says what the figures are worth.
"""


@dataclass(frozen=True)
class Counts:
    """Instructions of one call by path, and the circumstances in which they were counted."""

    circumstances: dict[str, str]
    instructions: dict[str, float]


@dataclass(frozen=True)
class Limits:
    """The expected counts, and the share by which a path may exceed its own."""

    tolerance_percent: float
    expected: Counts


@dataclass(frozen=True)
class Deviation:
    """One path that is not as expected; `failed` unless it is only cheaper."""

    path: str
    expected: float | None
    found: float | None
    failed: bool

    def __str__(self) -> str:
        if self.expected is None:
            return f"{self.path}: {self.found:,} instructions, and no limit"
        if self.found is None:
            return f"{self.path}: has a limit of {self.expected:,} instructions and was not counted"
        change = 100 * (self.found / self.expected - 1)
        return f"{self.path}: expected {self.expected:,} instructions, found {self.found:,} ({change:+.1f} %)"


def parse_paths(said: str) -> tuple[str, list[tuple[str, int]]]:
    """The output of the benchmark: the features of the processor, and the name and calls of each path in order."""
    features = re.search(r"^features ?(.*)$", said, re.MULTILINE)
    paths = [(name, int(calls)) for calls, name in re.findall(r"^path (\d+) (\S+)$", said, re.MULTILINE)]
    if features is None or not paths:
        raise ValueError(f"this is not what the benchmark says: {said[:200]!r}")
    return features[1], paths


def per_call(paths: list[tuple[str, int]], totals: list[int]) -> dict[str, float]:
    """Instructions of a call. `totals` has two numbers for each path: that of its calls, and that of twice as many.

    Raises:
        ValueError: there are not two for each.
    """
    if len(totals) != 2 * len(paths):
        raise ValueError(f"callgrind wrote {len(totals)} counts for {len(paths)} paths")
    pairs = zip(totals[::2], totals[1::2], strict=True)
    return {name: round((twice - once) / calls, 1) for (name, calls), (once, twice) in zip(paths, pairs, strict=True)}


def read(text: str) -> Limits:
    """The limits of a file.

    Raises:
        ValueError: something is missing or is not what it should be.
    """
    document = tomllib.loads(text)
    try:
        tolerance = float(document.pop("tolerance_percent"))
        circumstances, instructions = document.pop("circumstances"), document.pop("instructions")
        counts = Counts(dict(circumstances), {path: float(value) for path, value in instructions.items()})
    except (KeyError, TypeError) as error:
        raise ValueError(f"the limits are incomplete: {error}") from error
    if document or tolerance <= 0 or not all(value > 0 for value in counts.instructions.values()):
        raise ValueError("the limits have something that is none")
    return Limits(tolerance, counts)


def write(limits: Limits) -> str:
    """The file of these limits."""
    lines = [_TITLE, f"tolerance_percent = {limits.tolerance_percent}", "", "[circumstances]"]
    # A JSON string is a TOML string.
    lines += [f"{name} = {json.dumps(value)}" for name, value in limits.expected.circumstances.items()]
    lines += ["", "[instructions]"]
    lines += [f"{path} = {value}" for path, value in limits.expected.instructions.items()]
    return "\n".join(lines) + "\n"


def unlike(one: Counts, other: Counts) -> list[str]:
    """The differences in circumstances, each as a clause; empty if the counts may be compared."""
    names = one.circumstances | other.circumstances
    return [
        f"{name} was {one.circumstances.get(name)!r} and is {other.circumstances.get(name)!r}"
        for name in names
        if one.circumstances.get(name) != other.circumstances.get(name)
    ]


def judge(limits: Limits, counts: Counts) -> list[Deviation]:
    """The paths that are not as expected, in order: more expensive, cheaper, or only on one side."""
    deviations = []
    expected, found = limits.expected.instructions, counts.instructions
    for path in expected | found:
        before, now = expected.get(path), found.get(path)
        if before is None or now is None:
            deviations.append(Deviation(path, before, now, failed=True))
            continue
        allowed = max(before * limits.tolerance_percent / 100, _INSTRUCTIONS_ALLOWED)
        if abs(now - before) > allowed:
            deviations.append(Deviation(path, before, now, failed=now > before))
    return deviations
