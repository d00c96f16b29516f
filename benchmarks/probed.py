"""`orcas serve` with a probe of its event loop: `python probed.py DATA FILE`, with the settings in the environment.

The probe looks once a millisecond. It keeps how late a look was, which includes waits for the interpreter and for a
processor, and how much processor time the loop's thread used between two looks. At SIGUSR1, it writes the greatest of
both, in milliseconds, to FILE, and begins again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from orcas.cli.server.serving import serve_with
from orcas.settings.config import resolve

# What timers of uvloop can tell apart.
_LOOK_SECONDS = 0.001


class _Probe:
    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._late = self._used = 0.0
        self._thread_seconds = time.thread_time()
        self._wait()

    def _wait(self) -> None:
        # Not the time of the loop, which is that of the begin of its turn.
        self._due = time.monotonic() + _LOOK_SECONDS
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        used = time.thread_time()
        self._used = max(self._used, used - self._thread_seconds)
        self._late = max(self._late, time.monotonic() - self._due)
        self._thread_seconds = used
        self._wait()

    def report(self) -> None:
        """Write what was found, and begin again."""
        self._timer.cancel()
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps({"late_ms": self._late * 1000, "used_ms": self._used * 1000}))
        written.rename(self._file)
        self._begin()


def main() -> None:
    """Serve until a signal arrives."""
    data, file = sys.argv[1:]

    def announce(address: object, _: object) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _Probe(loop, Path(file)).report)
        sys.stdout.write(f"orcas ready {address.url}\n")  # type: ignore[attr-defined]
        sys.stdout.flush()

    serve_with(resolve({"data": data, "port": 0}), announce)


if __name__ == "__main__":
    main()
