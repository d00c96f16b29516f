"""Small file systems that tests fill: in memory, and ext4 without blocks that only root may use."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

MIB: Final = 1 << 20
KINDS: Final = ("tmpfs", "ext4")


@contextlib.contextmanager
def mounted(directory: Path, size: int, kind: str = "tmpfs") -> Iterator[Path]:
    """A file system of `size` bytes below `directory`. Skips the test where none can be mounted."""
    place, image = directory / "small", directory / "image"
    place.mkdir()
    try:
        if kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "orcas-test", place)
        else:
            with image.open("wb") as file:
                file.truncate(size)
            _run("mkfs.ext4", "-q", "-m", "0", image)
            _run("mount", "-o", "loop", image, place)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{kind} of a given size cannot be mounted here, which needs root: {error}")
    try:
        yield place
    finally:
        _unmount(place)
        image.unlink(missing_ok=True)


def _unmount(place: Path) -> None:
    """Unmount even what a failed test still uses: nobody can delete the directory of a file system left mounted."""
    try:
        _run("umount", place)
    except subprocess.CalledProcessError:
        _run("umount", "--lazy", place)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def free(place: Path) -> int:
    """The bytes that are free for everybody."""
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def eat(place: Path, left: int = 0) -> Path:
    """Fill the disk with another file until `left` bytes are free, whatever the server frees or takes."""
    path = place / "filler"
    with path.open("ab") as file:
        while (excess := free(place) - left) > 0:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), excess)
    return path
