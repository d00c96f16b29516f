"""The file of the access log: a thread takes lines from Rust and appends them, and begins a new file when one is full.

The thread waits without the GIL, so requests wait neither for it nor for the disk. What cannot be written is dropped,
counted in `orcas_access_log_dropped_lines_total`, and said in the log. Must not know what a line says.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Seconds for which lines are gathered into one write.
_GATHER_SECONDS: Final = 0.2

log = logging.getLogger("orcas.access")


class Lines(Protocol):
    """Where lines come from."""

    def log_access(self, enabled: bool, /) -> None:
        """Keep lines for `take_access_lines`, or no longer."""

    def take_access_lines(self, gather: float, /) -> bytes:
        """Wait for lines; empty when there are no more."""

    def drop_access_lines(self, lines: int, /) -> None:
        """Count lines that were not written."""


class AccessLog:
    """The file and the thread that writes it. Renamed files are called `NAME.1` (the newest), `NAME.2` and so on."""

    def __init__(self, lines: Lines, path: Path, max_size: int, files: int) -> None:
        self._lines = lines
        self._path = path
        self._max_size = max_size
        self._files = files
        self._descriptor: int | None = None
        self._size = 0
        # Set when the file was renamed by somebody else.
        self._reopens = threading.Event()
        self._failing = False
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
        """Write what there is, and close the file. Blocks."""
        self._lines.log_access(False)
        self._thread.join()
        self._close()

    def reopen(self) -> None:
        """Open the file anew before the next line: it may have been renamed."""
        self._reopens.set()

    def _run(self) -> None:
        while piece := self._lines.take_access_lines(_GATHER_SECONDS):
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
            if self._size and self._size + len(part) > self._max_size:
                self._rotate()
            self._append(part)

    def _append(self, part: bytes) -> None:
        if self._descriptor is None:
            raise RuntimeError("the file is closed")
        begin = self._size
        left = memoryview(part)
        try:
            while left:
                written = os.write(self._descriptor, left)
                left = left[written:]
                self._size += written
        except OSError:
            # No line is left cut off.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, begin)
            raise

    def _rotate(self) -> None:
        self._close()
        with contextlib.suppress(FileNotFoundError):
            if self._files == 0:
                self._path.unlink()
            for number in range(self._files, 0, -1):
                newer = self._named(number - 1)
                if newer.exists():
                    newer.replace(self._named(number))
        self._open()

    def _named(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _open(self) -> None:
        # Only the owner reads who asked for what.
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size

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
