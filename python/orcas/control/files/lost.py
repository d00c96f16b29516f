"""Lost control files of a store: those that a start refuses to go without, and those that its operator gives up.

`root.json` notes which of them there were. So a store that lost one is not taken for a new one, whose identities and quotas
would be gone without a word.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from orcas.control.cipher import is_key_sealed, read_cipher
from orcas.control.database import DamagedError, check_secrets, read_database
from orcas.control.files import DATABASE_NAME, GIVE_UP, KEY_NAME, NODE_FOLDER, QUOTAS_NAME, ROOT_NAME, USAGE_NAME
from orcas.control.files.twice import copy_of, is_present
from orcas.control.quotas import read_quotas
from orcas.control.root import known_owner, note_files, noted_files
from orcas.errors import UnavailableError, because

_CONTENT: Final = {DATABASE_NAME: "all identities except root", QUOTAS_NAME: "the quotas of owners"}
_NOTED: Final = (*_CONTENT, USAGE_NAME)
_IDENTITIES: Final = (DATABASE_NAME, KEY_NAME)

log = logging.getLogger("orcas")


def is_established(directory: Path) -> bool:
    """Whether there is a store in the directory, which had a root identity before it had anything else."""
    return any(is_present(directory / name) for name in (*_NOTED, KEY_NAME, "store.keys", "store.keys.copy"))


def check_lost(directory: Path) -> None:
    """Called by a start, after the files were read last.

    Raises:
        UnavailableError: a file that the store had is missing, and so is its copy.
    """
    noted = noted_files(directory)
    for name in _NOTED:
        path = directory / name
        if name not in noted:
            continue
        if name not in _CONTENT:
            if path.exists() and path.stat().st_size:
                continue
            if (directory / NODE_FOLDER).exists():
                # Each node has the usage of the times in which it was the owner.
                log.info("The usage of the past is on nodes that owned the log before")
            else:
                log.warning("%s is missing or empty: usage of the past is lost, and usage is counted anew", path)
            continue
        if is_present(path):
            continue
        raise UnavailableError(
            f"{path} and its copy are missing, and with them {_CONTENT[name]}: restore them from a backup, or run {GIVE_UP} "
            "to go on without them."
        )


def note_presence(directory: Path) -> None:
    """Note which files there are. The caller holds the control lock."""
    try:
        note_files(directory, [name for name in _NOTED if is_present(directory / name)])
    except UnavailableError as error:
        # The disk may be full.
        log.warning("The files of the store could not be noted: %s", error)


def find_lost(directory: Path) -> list[str]:
    """The names of files without which the store does not start. The caller holds the control lock.

    Raises:
        UnavailableError: a file can neither be read now nor be said to be damaged.
    """
    lost, noted = [], frozenset[str]()
    try:
        noted = noted_files(directory)
        if not is_present(directory / ROOT_NAME) and any(is_present(directory / name) for name in (*_NOTED, KEY_NAME)):
            lost.append(ROOT_NAME)
    except UnavailableError:
        lost.append(ROOT_NAME)
    lost += _lost_of_identities(directory, noted)
    if not _has_quotas(directory, noted):
        lost.append(QUOTAS_NAME)
    return lost


def give_up(directory: Path, lost: list[str]) -> list[str]:
    """Set aside what is left of these files, and forget them: the names of those that can be given up.

    Raises:
        UnavailableError: that cannot be written.
    """
    # One of the two is of no use.
    lost = [*lost, *_IDENTITIES] if set(_IDENTITIES) & set(lost) else lost
    given_up = sorted({*_IDENTITIES, QUOTAS_NAME} & set(lost))
    for name in given_up:
        path = directory / name
        for left in (path, copy_of(path), path.with_name(f"{name}-journal")):
            try:
                left.replace(left.with_name(f"{left.name}.damaged"))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UnavailableError(f"{left} cannot be renamed: {because(error)}.") from None
    if given_up:
        note_files(directory, gone=given_up)
    return given_up


def _lost_of_identities(directory: Path, noted: frozenset[str]) -> list[str]:
    """Which of the two files are lost. A store that had none has lost none."""
    path = directory / DATABASE_NAME
    if not is_present(path) and DATABASE_NAME not in noted:
        return []
    lost, cipher = [], None
    try:
        # Only the keyring could tell more of one that is sealed.
        if not is_key_sealed(directory):
            cipher = read_cipher(directory, None)
            if cipher is None:
                lost.append(KEY_NAME)
    except UnavailableError:
        lost.append(KEY_NAME)
    try:
        if (
            read_database(path, [] if cipher is None else cipher.digests(), known_owner(directory) or "").content
            is None
        ):
            lost.insert(0, DATABASE_NAME)
    except DamagedError:
        lost.insert(0, DATABASE_NAME)
    try:
        if cipher is not None and not lost:
            check_secrets(path, cipher)
    except UnavailableError:
        # They do not belong together.
        return [*_IDENTITIES]
    return lost


def _has_quotas(directory: Path, noted: frozenset[str]) -> bool:
    try:
        read_quotas(directory)
    except UnavailableError:
        return False
    return is_present(directory / QUOTAS_NAME) or QUOTAS_NAME not in noted
