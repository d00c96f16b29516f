"""Two servers, measured in turn in every round: the ratios of their figures, with confidence intervals. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Final

# Two-sided 95 % quantiles of Student's t distribution with 1, 2, … degrees of freedom.
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T_MANY: Final = 1.96


@dataclass(frozen=True, slots=True)
class Ratio:
    """A geometric mean of ratios, and the interval that holds the true one in 95 of 100 runs; None with one round."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int


def ratio(over: list[float], under: list[float]) -> Ratio | None:
    """`over` divided by `under`, round by round; None where a round has nothing to divide.

    Ratios are compared as logarithms: twice as fast and half as fast lie equally far from 1.
    """
    if not over or len(over) != len(under) or min([*over, *under]) <= 0:
        return None
    logarithms = [math.log(a / b) for a, b in zip(over, under, strict=True)]
    mean, rounds = statistics.fmean(logarithms), len(logarithms)
    if rounds == 1:
        return Ratio(math.exp(mean), None, None, rounds)
    quantile = _T[rounds - 2] if rounds - 2 < len(_T) else _T_MANY
    half = quantile * statistics.stdev(logarithms) / math.sqrt(rounds)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), rounds)
