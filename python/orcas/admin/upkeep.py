"""Upkeep of an open keyring: every process notes its generation, and a server also runs its periodic work.

The note is in `root.json`. A store that has lost its keyring gets no new one, under which nothing old could be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orcas.control.files import KEYRING_NAMES
from orcas.control.root import note_keyring, noted_keyring
from orcas.engine import Keyring, StoreError
from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.settings.config import Settings

log = logging.getLogger("orcas")


def check_presence(directory: Path) -> None:
    """Called before a keyring may be created.

    Raises:
        UnavailableError: the store of `directory` had a keyring, and both files are missing.
    """
    if noted_keyring(directory) and not any((directory / name).exists() for name in KEYRING_NAMES):
        raise UnavailableError(
            f"keyring and keyring.copy are missing in {directory}: restore them from a backup, or serve what can be read "
            "without, with `orcas serve --salvage`."
        )


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
            "The keyring has generation %d, but the store has had generation %d: content sealed under newer "
            "data keys cannot be read, and no new content is encrypted",
            found, noted,
        )  # fmt: skip
    async with keyring_noted(keyring, directory):
        yield


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
        log.warning("The generation of the keyring could not be recorded: %s", error)


def destroy_due(keyring: Keyring, directory: Path) -> list[str]:
    """Destroy the keys whose waiting period is over, and repeat a write that did not reach both files. Blocks.

    Raises:
        OrcasError: that cannot be written.
    """
    try:
        destroyed = keyring.upkeep()
    except StoreError as error:
        raise OrcasError(
            f"A change of the keyring is incomplete ({error}): wait, because it is tried again every minute."
        ) from None
    for key in destroyed:
        log.warning("Key %s was destroyed: its waiting period is over", key)
    _note(keyring, directory)
    return destroyed
