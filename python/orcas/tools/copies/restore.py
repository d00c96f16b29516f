"""Restoring a backup into a new directory.

Invariants. Every file is verified by its digest before the directory gets its name; an interrupted restore leaves
`DIR.partial`, which the next one replaces. The store is opened once at the end, which proves that its log is complete and
that its index can be built.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from orcas.control.files import sync_directory
from orcas.errors import OrcasError, UnavailableError, because
from orcas.settings.config import Settings
from orcas.tools.copies.copying import sha256, write_sparse
from orcas.tools.copies.manifest import Entry, Manifest, decode
from orcas.tools.copies.targets import DirectoryTarget, S3Target

_UNFINISHED: Final = "restore.unfinished"

Advance = Callable[[str, int, int], None]


def restore(
    source: DirectoryTarget | S3Target, settings: Settings, advance: Advance, open_store: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Write the backup in `source` to `settings.data`, and open it once with `open_store`, which tells what it holds.

    Raises:
        UnavailableError: there is no backup, it is damaged, or the directory is not empty.
    """
    began = time.monotonic()
    content = source.read_manifest()
    if content is None:
        raise UnavailableError(f"There is no backup in {source.name}: name the TARGET of `orcas backup`.")
    manifest = decode(content, f"{source.name}/manifest.json")
    directory = settings.data
    partial = directory.with_name(directory.name + ".partial")
    try:
        _prepare_directory(directory, partial)
        _write(source, manifest, partial, advance)
        (partial / _UNFINISHED).unlink()
        for path in (*(path for path in partial.iterdir() if path.is_dir()), partial):
            sync_directory(path)
        # This replaces an empty directory, and fails if it is not empty.
        partial.rename(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise UnavailableError(f"{error.filename or partial} cannot be written: {because(error)}.") from error
    try:
        stats = open_store()
    except OrcasError as error:
        raise UnavailableError(
            f"The files are restored in {directory}, but the store does not open: {error}"
        ) from error
    return {
        "source": source.name,
        "data": str(directory),
        "store": manifest.store,
        "sequence": manifest.sequence,
        "time": manifest.time,
        "files": len(manifest.files),
        "bytes": sum(entry.length for entry in manifest.files),
        "buckets": len(stats["buckets"]),
        "objects": sum(bucket["objects"] for bucket in stats["buckets"]),
        "seconds": round(time.monotonic() - began, 3),
    }


def _prepare_directory(directory: Path, partial: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UnavailableError(f"{directory} is not empty: name a new directory with --data.")
    if partial.exists():
        if any(partial.iterdir()) and not (partial / _UNFINISHED).is_file():
            raise UnavailableError(f"{partial} is in the way, and was not created by a restore: remove it.")
        shutil.rmtree(partial)
    partial.mkdir(mode=0o700, parents=True)
    (partial / _UNFINISHED).touch(mode=0o600)
    for name in ("log", "chunks"):
        (partial / name).mkdir(mode=0o700)


def _write(source: DirectoryTarget | S3Target, manifest: Manifest, partial: Path, advance: Advance) -> None:
    total = sum(entry.length for entry in manifest.files)
    done = 0

    def meter(entry: Entry) -> Callable[[int], None]:
        def count(more: int) -> None:
            nonlocal done
            done += more
            advance(entry.name, done, total)

        return count

    for entry in manifest.files:
        # The names are those of a data directory: `decode` lets no others pass.
        path = partial / entry.name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            digest = sha256()
            length = write_sparse(descriptor, source.fetch(entry.stored, entry.length), digest, meter(entry))
            if length != entry.length or digest.hexdigest() != entry.sha256:
                raise UnavailableError(
                    f"{source.name}/files/{entry.stored} is damaged, because it does not match its digest in the manifest: "
                    "restore another backup."
                )
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
