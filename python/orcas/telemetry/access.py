"""The file of the access log: a thread takes lines from Rust and appends them, and begins a new file when one is full.

The thread waits without the GIL, so requests wait neither for it nor for the disk. A line that cannot be written is
dropped, counted in `orcas_access_log_dropped_lines_total`, and reported in the log. Must not know what a line says.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Seconds for which lines are gathered into one write.
_GATHER_SECONDS: Final = 0.2
# Seconds until another attempt to rename a file that could not be renamed.
_ROTATE_SECONDS: Final = 60
# Seconds that the last lines are given at the end.
_STOP_SECONDS: Final = 5

log = logging.getLogger("orcas.access")


class Lines(Protocol):
    """The source of lines."""

    def log_access(self, enabled: bool, /) -> None:
        """Keep lines for `take_access_lines`, or no longer."""

    def take_access_lines(self, gather: float, /) -> bytes:
        """Wait for lines; empty when there are no more."""

    def drop_access_lines(self, lines: int, /) -> None:
        """Count lines that were not written."""


class AccessLog:
    """The file and the thread that writes it. Renamed files are called `NAME.1` (the newest), `NAME.2` and so on."""

    def __init__(
        self, lines: Lines, path: Path, max_size: int, files: int, copy: Callable[[bytes], None] = lambda _: None
    ) -> None:
        """`copy`: also takes what is written."""
        self._lines = lines
        self._copy = copy
        self._path = path
        self._max_size = max_size
        self._files = files
        self._descriptor: int | None = None
        # Of the file; None if it is no file, such as a pipe, and is never renamed.
        self._size: int | None = None
        # Before this time, of the monotonic clock, a full file is not renamed again: it could not be.
        self._rotates_at = 0.0
        # Set when the file was renamed by somebody else.
        self._reopens = threading.Event()
        self._failing = self._overfull = False
        self._thread = threading.Thread(target=self._run, name="orcas-access", daemon=True)

    def start(self) -> None:
        """Open the file, and write from now on.

        Raises:
            OSError: the file cannot be opened.
        """
        self._open()
        self._lines.log_access(True)
        self._thread.start()

    def stop(self) -> None:
        """Write what there is, and close the file. Blocks, but not for longer than a disk that hangs is given."""
        self._lines.log_access(False)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            # It is a daemon: the process can end without it.
            log.warning("The access log is not written any more: the disk or the reader of %s hangs", self._path)
        else:
            self._close()

    def reopen(self) -> None:
        """Open the file anew before the next line: it may have been renamed."""
        self._reopens.set()

    def _run(self) -> None:
        while piece := self._lines.take_access_lines(_GATHER_SECONDS):
            self._copy(piece)
            try:
                self._write(piece)
            except OSError as error:
                self._lines.drop_access_lines(piece.count(b"\n"))
                self._close()
                if not self._failing:
                    log.warning("The access log cannot be written, and lines are lost: %s", error)
                self._failing = True
            else:
                if self._failing:
                    log.info("The access log is written again")
                self._failing = False

    def _write(self, piece: bytes) -> None:
        if self._reopens.is_set():
            self._reopens.clear()
            self._close()
        if self._descriptor is None:
            self._open()
        for part in _parts(piece, self._max_size):
            self._look()
            if self._size and self._size + len(part) > self._max_size and time.monotonic() >= self._rotates_at:
                self._rotate()
            self._append(part)

    def _append(self, part: bytes) -> None:
        if self._descriptor is None:
            raise RuntimeError("the file is closed")
        left = memoryview(part)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            # No line is left cut off.
            if self._size is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
            raise

    def _rotate(self) -> None:
        """Begin a new file. If the full one cannot be renamed, go on with it, and try again later."""
        try:
            if self._files == 0:
                self._path.unlink(missing_ok=True)
            for number in range(self._files, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    self._named(number - 1).replace(self._named(number))
        except OSError as error:
            self._rotates_at = time.monotonic() + _ROTATE_SECONDS
            if not self._overfull:
                log.warning("The access log cannot be renamed and keeps growing: %s", error)
            self._overfull = True
            return
        self._overfull = False
        self._close()
        self._open()

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _open(self) -> None:
        # Only the owner reads who asked for what.
        # A pipe without a reader is refused, and a full one loses lines, instead of being waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, 0o600)
        self._look()

    def _look(self) -> None:
        """Ask how large the file is: somebody else may have emptied it."""
        if self._descriptor is not None:
            status = os.fstat(self._descriptor)
            self._size = status.st_size if stat.S_ISREG(status.st_mode) else None

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _parts(piece: bytes, max_size: int) -> Iterator[bytes]:
    """`piece` in parts of whole lines, of at most `max_size` bytes unless a line is longer."""
    while len(piece) > max_size:
        end = piece.rfind(b"\n", 0, max_size) + 1 or piece.find(b"\n") + 1
        yield piece[:end]
        piece = piece[end:]
    if piece:
        yield piece
