"""Files that are read for uploads, and written by downloads.

Invariants: a file appears under its name whole and synced, or not at all; below the directory that a download was given, no
symbolic link is followed, so that no key leads out of it. Must not know requests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

from orcas.errors import UnavailableError, because
from orcas.tools.imports.requests import ObjectError


def files_below(top: bytes, left_out: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Path below `top`, and whole path, of every file, in the order of S3. Symbolic links are followed.

    Whatever is neither file nor directory goes to `left_out`, and so does a directory that contains itself.
    """

    def below(folder: bytes, around: frozenset[tuple[int, int]]) -> Iterator[tuple[bytes, bytes]]:
        path = os.path.join(top, folder)  # noqa: PTH118 - of bytes
        try:
            here = os.stat(path)  # noqa: PTH116 - of bytes
            if (here.st_dev, here.st_ino) in around:
                left_out.append(path)
                return
            # A folder is where its keys are: "a-b" comes before those of the folder "a".
            entries = sorted((entry.name + b"/" * entry.is_dir(), entry.is_file()) for entry in os.scandir(path))
        except OSError as error:
            raise UnavailableError(f"{os.fsdecode(path)} cannot be read: {because(error)}.") from error
        for name, is_file in entries:
            if is_file:
                yield folder + name, os.path.join(top, folder, name)  # noqa: PTH118 - of bytes
            elif name.endswith(b"/"):
                yield from below(folder + name, around | {(here.st_dev, here.st_ino)})
            else:
                left_out.append(path + name)

    return below(b"", frozenset())


class Tree:
    """A directory into which files are written. `umask`: that of the user, whatever it is in this process now."""

    def __init__(self, top: bytes, umask: int) -> None:
        self._top = top
        self._umask = umask

    def path(self, parts: list[bytes]) -> bytes:
        """The path of a file, for people."""
        return os.path.join(self._top, *parts)  # noqa: PTH118 - of bytes

    @contextlib.contextmanager
    def written(self, parts: list[bytes]) -> Iterator[int]:
        """A descriptor of a new file, which gets its name, the last of `parts`, when the block ends without an error.

        Raises:
            ObjectError: it cannot be made.
        """
        *folders, name = parts
        unfinished = b".orcas-%s" % secrets.token_hex(8).encode()
        with failing(self.path(parts)), self._opened(folders) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(unfinished, flags, 0o600, dir_fd=folder)
            try:
                yield descriptor
                os.fchmod(descriptor, 0o666 & ~self._umask)
                os.fsync(descriptor)
                os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _opened(self, folders: list[bytes]) -> Iterator[int]:
        """A directory below the top one, made if there is none."""
        os.makedirs(self._top, exist_ok=True)  # noqa: PTH103 - of bytes
        here = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
                    os.chmod(folder, 0o777 & ~self._umask, dir_fd=here)
                there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = there
            yield here
        finally:
            os.close(here)


@contextlib.contextmanager
def failing(path: bytes) -> Iterator[None]:
    """What the system refuses is a reason why one object is not there: a transport would take it for a lost connection."""
    try:
        yield
    except OSError as error:
        raise ObjectError(f"{os.fsdecode(path)} cannot be written: {because(error)}") from error


def umask() -> int:
    """The umask of this process."""
    found = os.umask(0o077)
    os.umask(found)
    return found
