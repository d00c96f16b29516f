"""How long to wait between attempts at something that fails."""

from __future__ import annotations

import random

# Doublings are bounded, because a number of failures is not.
_DOUBLINGS_MAX = 40


def backoff(failures: int, first_sec: float, longest_sec: float) -> float:
    """Seconds until the next attempt after so many failures in a row: doubled with each, up to the longest.

    Up to half of it is left out at random, so that those who wait for the same server do not come back together.
    """
    doubled = first_sec * 2.0 ** min(max(0, failures - 1), _DOUBLINGS_MAX)
    return min(longest_sec, doubled) * random.uniform(0.5, 1)  # noqa: S311 - spreads attempts
