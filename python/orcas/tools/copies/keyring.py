"""The keyring in a backup: two equal copies of the newest intact one in the store.

Read after the pin was taken, so it has every data key that the pinned files need: a data key is in both files before
anything is sealed with it. Neither a damaged nor an older keyring replaces the one that a target has. One that continues an
older copy (`orcas key accept-older`) may lack keys of the target's keyring, so that one stays beside it as
`keyring.GENERATION`.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orcas.control.files import KEYRING_NAMES
from orcas.control.root import noted_keyring
from orcas.engine import inspect_keyring
from orcas.errors import UnavailableError
from orcas.tools.copies.manifest import FORMER_KEYRING, Entry
from orcas.tools.copies.targets import DirectoryTarget, S3Target

# The bits above these count how often an older keyring was accepted.
_BRANCH_BITS: Final = 32

log = logging.getLogger("orcas")


@dataclass(frozen=True)
class KeyringCopy:
    """The files of the keyring that a backup takes: new ones, or the entries of the backup before."""

    files: list[Path]
    kept: list[Entry]


def keyring_copy(
    directory: Path, scratch: Path, before: dict[str, Entry], target: DirectoryTarget | S3Target
) -> KeyringCopy:
    """The keyring of the store in `directory` for a backup to `target`, whose last backup has the entries `before`.

    Raises:
        UnavailableError: it cannot be backed up, and the target has no better one.
    """
    there = [path for name in KEYRING_NAMES if (path := directory / name).exists()]
    found = [copy for path in there if (copy := _whole(path)) is not None]
    had = _newest_of(before, target)
    former = [entry for name, entry in before.items() if FORMER_KEYRING.fullmatch(name)]
    if not found:
        if had is None and not there:
            return KeyringCopy([], former)
        if had is None:
            raise UnavailableError(
                f"Both copies of the keyring in {directory} are damaged, and {target.name} has none: "
                "restore keyring and keyring.copy from another backup."
            )
        log.warning("The keyring of the store is lost or damaged: the backup keeps the one that it had")
        return KeyringCopy([], former + [before[name] for name in KEYRING_NAMES if name in before])
    generation, content = max(found)
    if had is not None and generation < had[0]:
        raise UnavailableError(
            f"The keyring in {directory} is of generation {generation}, older than the one in {target.name}, which is "
            f"of generation {had[0]}: restore keyring and keyring.copy from there, or choose another target."
        )
    files = [scratch / name for name in KEYRING_NAMES]
    for path in files:
        path.write_bytes(content)
    if had is not None and generation >> _BRANCH_BITS != had[0] >> _BRANCH_BITS:
        files.append(scratch / f"keyring.{had[0]}")
        files[-1].write_bytes(had[1])
    return KeyringCopy(files, former)


def lost_keyring(directory: Path) -> list[str]:
    """The name of the keyring, if the store in `directory` has had one and neither copy is intact."""
    had = any((directory / name).exists() for name in KEYRING_NAMES)
    # A `root.json` that is lost is reported as such.
    with contextlib.suppress(UnavailableError):
        had = had or noted_keyring(directory) > 0
    intact = any(_whole(directory / name) is not None for name in KEYRING_NAMES)
    return [KEYRING_NAMES[0]] if had and not intact else []


def _whole(path: Path) -> tuple[int, bytes] | None:
    """Generation and content of a copy; None if it is damaged or unreadable."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    inspected = inspect_keyring(content)
    return None if inspected is None else (inspected[1], content)


def _newest_of(before: dict[str, Entry], target: DirectoryTarget | S3Target) -> tuple[int, bytes] | None:
    """Generation and content of the newest copy of the last backup; None if it has no keyring that is whole."""
    copies = []
    for name in KEYRING_NAMES:
        if name in before:
            entry = before[name]
            try:
                content = b"".join(target.fetch(entry.stored, entry.length))
            except UnavailableError:
                continue
            inspected = inspect_keyring(content)
            if inspected is not None:
                copies.append((inspected[1], content))
    return max(copies, default=None)
