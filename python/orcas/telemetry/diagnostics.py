"""Diagnostics of the engine's threads, in the log: `orcas.engine`, `orcas.log` and other loggers named after crates.

A daemon thread waits in Rust, without the GIL, and logs what arrives; `flush` does so at once, before a process ends or
says why. The engine never waits for either. Rates are limited in Rust, so that a flood costs Python nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orcas._core import collect_diagnostics, end_diagnostics, take_diagnostics, wait_for_diagnostics

if TYPE_CHECKING:
    from orcas._core import Diagnostic

# Reentrant: a handler may flush. Held while diagnostics are logged, so that `flush` returns after lines that another
# thread has taken.
_writing: Final = threading.RLock()
_started = False


@contextlib.contextmanager
def forwarded() -> Iterator[None]:
    """Log what the engine reports, from now on and until the process ends, at the level of the logger `orcas`.

    Everything that was reported in the block is logged when it ends.
    """
    _start()
    try:
        yield
    finally:
        flush()


def _start() -> None:
    global _started
    with _writing:
        collect_diagnostics(logging.getLogger("orcas").getEffectiveLevel())
        if not _started:
            thread = threading.Thread(target=_run, name="orcas-log", daemon=True)
            thread.start()
            _started = True
            # A thread in Rust must not come back to an interpreter that is gone.
            atexit.register(_end, thread)


def flush() -> None:
    """Log what has been reported until now."""
    with _writing:
        log_diagnostics(take_diagnostics())


def log_diagnostics(diagnostics: list[Diagnostic]) -> None:
    """Log each where it belongs."""
    for diagnostic in diagnostics:
        log = logging.getLogger(f"orcas.{diagnostic['part']}")
        if log.isEnabledFor(diagnostic["level"]):
            extra = {"orcas": diagnostic["fields"], "is_limited": True}
            place = diagnostic["file"], diagnostic["line"]
            log.handle(
                log.makeRecord(log.name, diagnostic["level"], *place, diagnostic["message"], (), None, extra=extra)
            )


def _run() -> None:
    while wait_for_diagnostics():
        flush()


def _end(thread: threading.Thread) -> None:
    # A child of a fork does not have the thread, and would wait for ever for a lock that was held at the fork.
    if thread.is_alive():
        end_diagnostics()
        thread.join()
        flush()
