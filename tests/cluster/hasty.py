"""`orcas` with times of the choice of an owner that tests can wait for: `python -m tests.cluster.hasty`."""

from __future__ import annotations

from orcas.cli import main
from orcas.cluster import choosing, member
from orcas.cluster.score import Pace

choosing.PACE = Pace(measure_sec=0.2, break_sec=60, factor=1.15, better_for_sec=1.0, rest_sec=2.0)
# Bids are further from each other than nodes of a busy machine are late.
member._JITTER = 2.0  # type: ignore[misc]

main()
