"""Two commits measured in turn: the result of each figure as a row of a table and as JSON. Pure."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any, Final

from orcas.bench.compare import Ratio, ratio

# Dates, addresses and random keys make counts of requests differ by up to 0.3 % from run to run.
_COUNT_JITTER: Final = 0.005


@dataclass(frozen=True)
class Comparison:
    """A cost of both commits, one number per round. Numbers at the same index were measured one after the other."""

    name: str
    unit: str
    base: list[float]
    head: list[float]
    # A count, which hardly varies, so one round is enough.
    counted: bool = False

    @property
    def ratio(self) -> Ratio:
        """Head divided by base: below 1, head is cheaper.

        Raises:
            ValueError: there is nothing to divide.
        """
        found = ratio(self.head, self.base)
        if found is None:
            raise ValueError(f"{self.name} has no rounds, or costs nothing")
        return found

    @property
    def verdict(self) -> str:
        """The verdict that the interval allows."""
        found = self.ratio
        if self.counted and abs(found.ratio - 1) <= _COUNT_JITTER:
            return "the same"
        if not self.counted and (found.low is None or found.high is None):
            return "one round shows nothing"
        if found.low is not None and found.high is not None and found.low <= 1 <= found.high:
            return "no difference shown: the interval includes 1"
        return "head is cheaper" if found.ratio < 1 else "head is dearer"

    def document(self) -> dict[str, Any]:
        """Everything, for the JSON file."""
        return asdict(self) | asdict(self.ratio) | {"verdict": self.verdict}


def table(comparisons: list[Comparison]) -> str:
    """Medians, ratio, 95 % interval and verdict of each."""
    rows: list[tuple[str, ...]] = [("figure", "base", "head", "unit", "head ÷ base", "95 % interval", "")]
    for one in comparisons:
        found = one.ratio
        interval = "" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
        medians = (f"{statistics.median(side):.4g}" for side in (one.base, one.head))
        rows.append((one.name, *medians, one.unit, f"{found.ratio:.3f}", interval, one.verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
