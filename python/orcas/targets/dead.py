"""Dead letters: what could not be delivered to a target, in a file of lines in the data directory.

A letter is durable before delivery goes on. The file has a limit; when it is reached, `is_full` says so and no more
letters are accepted, so that none is dropped silently. Lines that cannot be read stay in the file. Thread-safe.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from orcas.control.files import sync_directory, write_secret_file

LETTERS_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024

log = logging.getLogger("orcas.targets")


@dataclass(frozen=True, slots=True)
class Letter:
    """An event that was not delivered. `message`: in S3's structure. `time` of the last attempt, in ISO 8601."""

    id: str
    bucket: str
    key: str
    time: str
    attempts: int
    reason: str
    message: str


class DeadLetters:
    """The dead letters of one target."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._letters, self._unreadable = _read(path)
        self._bytes = sum(len(letter.message) for letter in self._letters)

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another one."""
        return len(self._letters) >= LETTERS_MAX or self._bytes >= BYTES_MAX

    def list(self) -> list[Letter]:
        """All of them, the oldest first."""
        with self._lock:
            return list(self._letters)

    def add(self, letter: Letter) -> None:
        """Keep one more.

        Raises:
            OSError: it cannot be written.
        """
        # What a crash has left of a line before it is a line of its own.
        line = b"\n" + json.dumps(asdict(letter)).encode() + b"\n"
        with self._lock:
            is_new = not self._path.exists()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_directory(self._path.parent)
            self._letters.append(letter)
            self._bytes += len(letter.message)

    def remove(self, is_gone: Callable[[Letter], bool]) -> int:
        """Forget those that are gone, and return how many.

        Raises:
            UnavailableError: the file cannot be written.
        """
        with self._lock:
            left = [letter for letter in self._letters if not is_gone(letter)]
            removed = len(self._letters) - len(left)
            if removed:
                lines = [*self._unreadable, *(json.dumps(asdict(letter)).encode() for letter in left)]
                write_secret_file(self._path, b"".join(line + b"\n" for line in lines))
                self._letters = left
                self._bytes = sum(len(letter.message) for letter in left)
            return removed


def _read(path: Path) -> tuple[list[Letter], list[bytes]]:
    """The letters in the file, and the lines that are none: damaged, or not written to their end."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return [], []
    letters, unreadable = [], []
    for line in filter(None, lines):
        try:
            letters.append(Letter(**json.loads(line)))
        except (ValueError, TypeError):
            unreadable.append(line)
    if unreadable:
        log.warning("Lines of %s are no dead letters and are passed over: %d", path, len(unreadable))
    return letters, unreadable
