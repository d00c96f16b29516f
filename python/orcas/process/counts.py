"""The process as its operating system counts it: when it started, its processor time and its memory."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_STAT = Path("/proc/self/stat")
_MEMORY = Path("/proc/self/statm")


def _start_sec() -> float:
    """When this process started, in seconds since 1970: from the system, else when this module was loaded."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Fields count from behind the name, which may have blanks and parentheses.
        ticks = int(_STAT.read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
    return time.time()


# Once: the clock may be set later.
_STARTED_SEC = _start_sec()


def counts() -> tuple[float, float, int | None]:
    """When it started and its processor time, in seconds, and its memory in bytes; None where nobody tells."""
    resident: int | None = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        resident = int(_MEMORY.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return _STARTED_SEC, time.process_time(), resident
