"""A standby at work: a thread that brings round after round, and what it has reached."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orcas.errors import OrcasError
from orcas.process.backoff import backoff
from orcas.standby.copy import Copy

# Between two rounds: each pauses reclamation on the server, and makes it write what it would write later. At least as long
# as the last round took.
_ROUND_SECONDS: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 5.0
_WAIT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 2.0
_RETRY_SECONDS_MAX: Final = 15.0

log = logging.getLogger("orcas")


@dataclass(frozen=True, slots=True)
class Progress:
    """How a standby is. `behind_sec`: for how long the server may have had what is not here; None before the first round."""

    url: str
    sequence: int
    bytes: int
    behind_sec: float | None
    # Why the last round failed; None if it did not.
    error: str | None


class Following:
    """Follows a server while it is entered.

    `follow` shows what the copy of the log has by now, as of `orcas.engine.follow`; `changed` is called with the names of
    small files that are new.
    """

    def __init__(self, copy: Copy, follow: Callable[[list[str]], int], changed: Callable[[list[str]], None]) -> None:
        self._copy = copy
        self._follow = follow
        self._changed = changed
        self._sequence = copy.mark.sequence
        self._given_up: list[str] | None = None
        self._error: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orcas-standby", daemon=True)

    def progress(self) -> Progress:
        """How it is now."""
        as_of = self._copy.as_of
        behind = None if as_of is None else max(time.monotonic() - as_of, 0.0)
        return Progress(self._copy.mark.url, self._sequence, self._copy.bytes, behind, self._error)

    async def __aenter__(self) -> None:
        self._thread.start()

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        pause = 0.0
        failures = 0
        while not self._stop.wait(pause):
            began = time.monotonic()
            try:
                brought = self._copy.bring(_WAIT_SECONDS)
                if brought is not None:
                    self._given_up = [*(self._given_up or []), *brought.given_up]
                    if brought.control:
                        self._changed(brought.control)
                if self._given_up is not None:
                    self._sequence = self._follow(self._given_up)
                    self._given_up = None
                if self._error is not None:
                    log.info("The standby follows %s again", self._copy.mark.url)
                self._error, failures = None, 0
                took = min(time.monotonic() - began, _PAUSE_SECONDS_MAX)
                pause = 0.0 if brought is None else max(_ROUND_SECONDS, took)
            except OrcasError as error:
                if self._error is None:
                    log.warning("The standby cannot follow %s: %s It tries again", self._copy.mark.url, error)
                self._error = str(error)
                failures += 1
                pause = backoff(failures, _RETRY_SECONDS, _RETRY_SECONDS_MAX)
