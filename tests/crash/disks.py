"""Small file systems that tests fill: in memory, and in files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

MIB: Final = 1 << 20
KINDS: Final = ("tmpfs", "ext4")
# Those in a file: how they are made, and how they are mounted. The ext4 ones have no blocks that only root may use, except
# the last one, whose last tenth belongs to another user.
_MADE: Final = {
    "ext4": (("mkfs.ext4", "-m", "0"), "loop"),
    "ext4-1k": (("mkfs.ext4", "-m", "0", "-b", "1024"), "loop"),
    "ext4-reserved": (("mkfs.ext4", "-m", "10"), "loop,resuid=65534,resgid=65534"),
    "xfs": (("mkfs.xfs",), "loop"),
    "btrfs": (("mkfs.btrfs",), "loop"),
}
# EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, and the flag by which neither data nor the journal are written out first.
_SHUT_DOWN: Final = 0x8004587D
_NOTHING_WRITTEN: Final = 2
# Attempts to take more of a disk: enough to halve any step to a byte, and then some.
_FAILURES_MAX: Final = 100
# What mkfs.xfs wants at least.
_LEAST: Final = {"xfs": 320 * MIB, "btrfs": 512 * MIB}


@contextlib.contextmanager
def mounted(directory: Path, size: int, kind: str = "tmpfs") -> Iterator[Path]:
    """A file system of `size` bytes below `directory`. Skips the test where none can be mounted."""
    place, image = directory / "small", directory / "image"
    place.mkdir()
    try:
        if kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "orcas-test", place)
        else:
            make, options = _MADE[kind]
            with image.open("wb") as file:
                file.truncate(max(size, _LEAST.get(kind, 0)))
            _run(*make, "-q", image)
            _run("mount", "-o", options, image, place)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{kind} of a given size cannot be mounted here, which needs root: {error}")
    try:
        yield place
    finally:
        _unmount(place)
        image.unlink(missing_ok=True)


def cut_power(place: Path) -> None:
    """From now on nothing reaches the disk, as if the machine had lost its power: an ext4 or xfs that `mounted` made."""
    opened = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, _SHUT_DOWN, struct.pack("I", _NOTHING_WRITTEN))
    finally:
        os.close(opened)


def mount_again(place: Path) -> None:
    """Mount what is on the disk after a power cut, when nobody has files of `place` open any more."""
    _run("umount", place)
    _run("mount", "-o", "loop", place.parent / "image", place)


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


def limit(place: Path, size: int) -> None:
    """Give a btrfs a quota. Skips the test where it cannot have one."""
    try:
        _run("btrfs", "quota", "enable", place)
        _run("btrfs", "qgroup", "limit", str(size), place)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a quota cannot be set here: {error}")


def use_up(place: Path) -> Path:
    """Fill the disk, or a quota on it, until it takes no page more."""
    return _fill(place, lambda: 1 << 40)


def await_free(place: Path, least: int, seconds: float = 90) -> None:
    """Wait until `least` bytes are free. btrfs says that none are while its metadata are full, until a later commit."""
    deadline = time.monotonic() + seconds
    while (left := free(place)) < least:
        assert time.monotonic() < deadline, f"{left} bytes are free"
        _run("sync", "--file-system", place)
        time.sleep(0.5)


def eat(place: Path, left: int = 0) -> Path:
    """Fill the disk with another file until `left` bytes are free, whatever the server frees or takes."""
    return _fill(place, lambda: free(place) - left)


def _fill(place: Path, excess: Callable[[], int]) -> Path:
    path = place / "filler"
    # Some file systems count space as free that they do not give away, or not yet.
    step, failures = 1 << 40, 0
    with path.open("ab") as file:
        while (most := excess()) > 0 and failures < _FAILURES_MAX:
            step = min(step, most)
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), step)
                step *= 2
            except OSError:
                failures += 1
                step = max(step // 2, 1)
    return path
