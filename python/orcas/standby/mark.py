"""The mark of a standby, `standby.json` in its directory: whom it follows, and where its last complete round ended.

Invariants. A directory with a mark is opened by `orcas standby` alone. The mark is written when everything that a round
brought is durable. What the log has beyond it is of a round that was not completed, and is cut off before the copy is
opened; packs and compacted files beyond it do no harm, because no record of the log names them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from orcas.control.files import sync_directory, write_secret_file
from orcas.errors import UnavailableError, because

NAME: Final = "standby.json"
# What a log file that is no compacted one begins with.
_PLAIN: Final = b"ORCASLOG"


@dataclass(frozen=True, slots=True)
class Mark:
    """`log`: the last log file of the round, `length`: its bytes, `position`: their end as the engine writes it, in digits.

    All three are empty before the first round is completed. `sequence`: the last record then; until then that of the
    first attempt.
    """

    url: str
    # By which the server knows this standby.
    name: str
    store: str = ""
    sequence: int = 0
    log: str = ""
    length: int = 0
    position: str = ""
    # The word of the small files (`orcas.control.copied.digest_of`).
    control: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether a round was ever completed."""
        return bool(self.log)

    def write(self, directory: Path) -> None:
        """Replace the mark, durably.

        Raises:
            UnavailableError: it cannot be written.
        """
        write_secret_file(directory / NAME, json.dumps(asdict(self), indent=1).encode())

    def following(self, url: str) -> Mark:
        """The mark of the same server at another address."""
        return replace(self, url=url)


def read_mark(directory: Path) -> Mark | None:
    """The mark of a directory; None if it is no standby.

    Raises:
        UnavailableError: it cannot be read.
    """
    path = directory / NAME
    try:
        return Mark(**json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {because(error)}.") from None
    except (ValueError, TypeError):
        raise UnavailableError(
            f"The mark of the standby, {path}, is damaged: remove the directory and start the standby anew."
        ) from None


def check_no_standby(directory: Path) -> None:
    """Nobody but a standby opens its files.

    Raises:
        UnavailableError: it is the directory of a standby.
    """
    mark = read_mark(directory)
    if mark is not None:
        raise UnavailableError(
            f"{directory} is a standby of {mark.url}: continue it with `orcas standby`, or make it a store of its own with "
            "`orcas promote`."
        )


def cut_to(directory: Path, mark: Mark) -> None:
    """Cut off what a round that was not completed has left of the log, durably.

    Raises:
        UnavailableError: the file system refuses it, or the copy lacks what the mark says.
    """
    folder = directory / "log"
    try:
        last = folder / mark.log.rpartition("/")[2]
        if last.stat().st_size < mark.length:
            raise UnavailableError(
                f"{last} is shorter than {directory / NAME} says: remove the directory and start anew."
            )
        for path in folder.glob("*.log"):
            if path.name > last.name and _is_plain(path):
                path.unlink()
        for path in directory.glob("*/*.part"):
            path.unlink()
        descriptor = os.open(last, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, mark.length)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(folder)
    except OSError as error:
        raise UnavailableError(f"{error.filename or folder} cannot be changed: {because(error)}.") from None


def _is_plain(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_PLAIN)) == _PLAIN


def promote(directory: Path) -> Mark:
    """Make a standby a store of its own. Returns its last mark.

    Raises:
        UnavailableError: it is no standby, its copy was never complete, or it cannot be changed.
    """
    mark = read_mark(directory)
    if mark is None:
        raise UnavailableError(f"{directory} is no standby: name the directory of one with --data.")
    if not mark.is_complete:
        raise UnavailableError(
            f"{directory} has no complete copy of {mark.url} yet: let `orcas standby` finish it first."
        )
    cut_to(directory, mark)
    try:
        (directory / NAME).unlink()
        sync_directory(directory)
    except OSError as error:
        raise UnavailableError(f"{directory / NAME} cannot be removed: {because(error)}.") from None
    return mark
