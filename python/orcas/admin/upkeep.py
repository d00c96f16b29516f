"""What a running server does for its keyring every minute: keys that are due are destroyed, unfinished writes repeated."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from orcas.edge import Keyring, StoreError

PERIOD_SECONDS: Final = 60.0

log = logging.getLogger("orcas")


async def keyring_upkeep(keyring: Keyring) -> None:
    """Runs until it is cancelled. A failure is reported when it begins, and not again every minute."""
    failing = False
    while True:
        try:
            # Shielded: a thread cannot be cancelled, so whoever ends this waits for it.
            for key in await asyncio.to_thread(keyring.upkeep):
                log.warning("Key %s was destroyed: its waiting period is over", key)
            failing = False
        except StoreError as error:
            if not failing:
                log.warning("A change of the keyring is incomplete: %s", error)
            failing = True
        await asyncio.sleep(PERIOD_SECONDS)
