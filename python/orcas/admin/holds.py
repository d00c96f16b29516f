"""Holds: each keeps the files of one moment of the store in place for a backup, until it is released or expires.

Nothing is reclaimed while there is a hold, so their number is limited, and each expires after a minute without renewal. Used
from one event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orcas.edge import Hold

HOLDS_MAX: Final = 8
EXPIRY_SECONDS: Final = 60.0


class TooManyHoldsError(Exception):
    """There are as many holds as are allowed."""


class Holds:
    """All holds of a store."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[Hold, asyncio.TimerHandle]] = {}
        self._pending = 0

    async def take(self, hold: Callable[[], Hold]) -> dict[str, Any]:
        """Take one with `hold`, which blocks.

        Raises:
            TooManyHoldsError: there are `HOLDS_MAX`.
        """
        if len(self._taken) + self._pending >= HOLDS_MAX:
            raise TooManyHoldsError
        self._pending += 1
        try:
            held = await asyncio.to_thread(hold)
        finally:
            self._pending -= 1
        name = secrets.token_hex(8)
        self._taken[name] = (held, self._timer(name))
        return {
            "id": name,
            "expires_in": EXPIRY_SECONDS,
            "store": held.store,
            "sequence": held.sequence,
            "files": [{"name": file, "length": length} for file, length in held.files],
        }

    def renew(self, name: str) -> bool:
        """Restart the time of a hold. False: there is none of that name, or it has ended."""
        found = self._taken.get(name)
        if found is None:
            return False
        held, timer = found
        timer.cancel()
        self._taken[name] = (held, self._timer(name))
        return True

    def release(self, name: str) -> bool:
        """Release a hold. False: as in `renew`."""
        found = self._taken.pop(name, None)
        if found is None:
            return False
        held, timer = found
        timer.cancel()
        held.release()
        return True

    def close(self) -> None:
        """Release all holds."""
        for name in list(self._taken):
            self.release(name)

    def _timer(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(EXPIRY_SECONDS, self.release, name)
