"""Backup pins: each keeps the files of one moment of the store in place, until it is released or expires.

Nothing is reclaimed while there is one, so their number is limited, and each expires after a minute without renewal. Used
from one event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orcas.engine import BackupPin

PINS_MAX: Final = 8
EXPIRY_SECONDS: Final = 60.0


class TooManyPinsError(Exception):
    """There are too many backup pins."""


class BackupPins:
    """All backup pins of a store."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[BackupPin, asyncio.TimerHandle]] = {}
        self._pending = 0

    async def take(self, pin: Callable[[], BackupPin]) -> dict[str, Any]:
        """Take one with `pin`, which blocks.

        Raises:
            TooManyPinsError: there are `PINS_MAX`.
        """
        if len(self._taken) + self._pending >= PINS_MAX:
            raise TooManyPinsError
        self._pending += 1
        try:
            taken = await asyncio.to_thread(pin)
        finally:
            self._pending -= 1
        name = secrets.token_hex(8)
        self._taken[name] = (taken, self._timer(name))
        return {
            "id": name,
            "expires_in": EXPIRY_SECONDS,
            "store": taken.store,
            "sequence": taken.sequence,
            "files": [{"name": file, "length": length} for file, length in taken.files],
        }

    def length_of(self, name: str, file: str) -> int | None:
        """Bytes of a file of a pin. None: there is no such pin, or no such file of it."""
        found = self._taken.get(name)
        return None if found is None else dict(found[0].files).get(file)

    def renew(self, name: str) -> bool:
        """Restart the time of a pin. False: there is none of that name, or it has ended."""
        found = self._taken.get(name)
        if found is None:
            return False
        pin, timer = found
        timer.cancel()
        self._taken[name] = (pin, self._timer(name))
        return True

    def release(self, name: str) -> bool:
        """Release a pin. False: as in `renew`."""
        found = self._taken.pop(name, None)
        if found is None:
            return False
        pin, timer = found
        timer.cancel()
        pin.release()
        return True

    def close(self) -> None:
        """Release all pins."""
        for name in list(self._taken):
            self.release(name)

    def _timer(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(EXPIRY_SECONDS, self.release, name)
