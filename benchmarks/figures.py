"""The result of a measurement: one number per round, its goal, and its row in the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Figure:
    """One measured figure. `goal` is a bound on the median: an upper one, or a lower one if `at_least`."""

    name: str
    what: str
    values: list[float]
    goal: float | None = None
    at_least: bool = False
    unit: str = ""
    # The absolute numbers behind the ratio.
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the median, for any distribution; None with fewer than six rounds."""
        values, rounds = sorted(self.values), len(self.values)
        # Each value lies below the true median with probability 1/2.
        outside, cut = 2 / 2**rounds, 0
        while outside <= 0.05:
            cut += 1
            outside += 2 * math.comb(rounds, cut) / 2**rounds
        return (values[cut - 1], values[-cut]) if cut else None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.median >= self.goal if self.at_least else self.median <= self.goal

    def goal_text(self) -> str:
        """The goal as the table shows it."""
        return "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:g} {self.unit}".rstrip()

    def document(self) -> dict[str, Any]:
        """Everything, for the JSON file."""
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "goal": self.goal,
            "goal_is": "at least" if self.at_least else "at most",
            "met": self.met,
            "min": min(self.values),
            "median": self.median,
            "max": max(self.values),
            "confidence_95": self.interval,
            "values": self.values,
            "detail": self.detail,
        }


@dataclass(frozen=True)
class Plan:
    """How much to measure, and where."""

    quick: bool
    # On the disk that is measured.
    directory: Path
    repository: Path
    # Size of the store that fsck reads in a full pass.
    check_gib: int = 10

    def size(self, full: int, quick: int) -> int:
        """`full`, or `quick` in a quick pass."""
        return quick if self.quick else full


Measurement = Callable[[Plan], list[Figure]]


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Round by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def table(figures: list[Figure], *, judged: bool) -> str:
    """Rows of figure, goal, median, least and most, and, if `judged`, whether the goal is met."""
    rows: list[tuple[str, ...]] = [("figure", "goal", "median", "min", "max", "")]
    verdicts = {True: "met", False: "MISSED", None: ""}
    for figure in figures:
        numbers = (f"{value:.3g}" for value in (figure.median, min(figure.values), max(figure.values)))
        rows.append(
            (f"{figure.name}: {figure.what}", figure.goal_text(), *numbers, verdicts[figure.met if judged else None])
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
