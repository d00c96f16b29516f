"""What a process with an open keyring does for it: notes its generation, and in a server every minute what is due.

The note is in `root.json`. A store that had a keyring and has none gets no new one, under which nothing old can be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from orcas.config import Settings
from orcas.control.files import KEYRING_NAMES
from orcas.control.root import note_keyring, noted_keyring
from orcas.edge import Keyring, StoreError
from orcas.errors import ConfigurationError, UnavailableError

PERIOD_SECONDS: Final = 60.0

log = logging.getLogger("orcas")


def check_presence(directory: Path) -> None:
    """Called before a keyring may be created.

    Raises:
        UnavailableError: the store of `directory` had a keyring, and both files are missing.
    """
    if noted_keyring(directory) and not any((directory / name).exists() for name in KEYRING_NAMES):
        raise UnavailableError(f"keyring and keyring.copy are missing in {directory}: restore them from a backup.")


def check_default(settings: Settings) -> None:
    """Called before a server opens the store.

    Raises:
        ConfigurationError: everything is to be encrypted, and nothing can be.
    """
    if settings.encrypt_by_default and settings.master_key is None and settings.master_passphrase is None:
        raise ConfigurationError(
            "ORCAS_ENCRYPT_BY_DEFAULT needs a keyring: set ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE, too."
        )


@asynccontextmanager
async def keyring_upkeep(keyring: Keyring, directory: Path) -> AsyncIterator[None]:
    """Look after the open keyring of the store in `directory` while the context lasts."""
    noted, found = noted_keyring(directory), keyring.generation()
    if found < noted:
        log.warning(
            "The keyring is of generation %d, and the store has had generation %d: what was sealed under newer "
            "data keys cannot be read, and nothing new is encrypted",
            found, noted,
        )  # fmt: skip
    async with keyring_noted(keyring, directory):
        task = asyncio.create_task(_every_minute(keyring, directory))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def keyring_noted(keyring: Keyring, directory: Path) -> AsyncIterator[None]:
    """Note the generation of the open keyring, and at the end that which it has then."""
    await asyncio.to_thread(_note, keyring, directory)
    try:
        yield
    finally:
        await asyncio.to_thread(_note, keyring, directory)


def _note(keyring: Keyring, directory: Path) -> None:
    try:
        note_keyring(directory, keyring.generation())
    except UnavailableError as error:
        log.warning("The generation of the keyring could not be noted: %s", error)


def _due(keyring: Keyring, directory: Path) -> list[str]:
    destroyed = keyring.upkeep()
    _note(keyring, directory)
    return destroyed


async def _finished(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """The result of `work`, which ends before a cancellation does: the store stays open as long as it writes."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def _every_minute(keyring: Keyring, directory: Path) -> None:
    """A failure is reported when it begins, and not again every minute."""
    failing = False
    while True:
        try:
            for key in await _finished(asyncio.to_thread(_due, keyring, directory)):
                log.warning("Key %s was destroyed: its waiting period is over", key)
            failing = False
        except StoreError as error:
            if not failing:
                log.warning("A change of the keyring is incomplete: %s", error)
            failing = True
        await asyncio.sleep(PERIOD_SECONDS)
