"""Backups: the files of one moment of a store, copied to a target unless they are there already.

Invariants. The manifest is written when everything it names is durable. Until then, nothing that the previous manifest names
is overwritten or removed, so an interruption at any point leaves the previous backup intact. A backup is aborted if its
pin is lost, because files that it has not read yet may have been deleted.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from orcas.control.database import back_up_database
from orcas.control.files import DATABASE_NAME, KEY_NAME, QUOTAS_NAME, ROOT_NAME, USAGE_NAME
from orcas.control.files.audit import FOLDER, audit_files
from orcas.control.files.copies import copy_database
from orcas.control.files.twice import read_twice
from orcas.errors import OrcasError, UnavailableError, UsageError, because
from orcas.tools.copies.copying import hashed, reading, sha256
from orcas.tools.copies.keyring import keyring_copy
from orcas.tools.copies.manifest import Entry, Manifest, Stat, decode, stored_name
from orcas.tools.copies.targets import DirectoryTarget, S3Target
from orcas.tools.session import Session
from orcas.version import orcas_version

RENEW_SECONDS: Final = 15.0
# A file that changed less than this ago could change again without a new timestamp.
_STABLE_AGE_NS: Final = 2_000_000_000

log = logging.getLogger("orcas")

Advance = Callable[[str, int, int], None]


@dataclass
class Outcome:
    """The result of a backup. Bytes are lengths of files; copied are those that were written to the target."""

    target: str
    store: str
    number: int
    sequence: int
    files: int
    bytes: int
    copied_files: int = 0
    copied_bytes: int = 0
    removed_files: int = 0
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """The result for JSON."""
        return asdict(self)


class _PinnedFiles:
    """A backup pin on the store, renewed until the block is left."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._done = threading.Event()
        self._lost: str | None = None
        taken = session.admin("POST", "backup-pins")
        self.store: str = taken["store"]
        self.sequence: int = taken["sequence"]
        self.files = [(str(file["name"]), int(file["length"])) for file in taken["files"]]
        self._path = f"backup-pins/{taken['id']}"
        self._thread = threading.Thread(target=self._renew, name="orcas-pin", daemon=True)

    def __enter__(self) -> _PinnedFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        with contextlib.suppress(OrcasError):
            self._session.admin("DELETE", self._path)

    def check(self) -> None:
        """Raise UnavailableError if the pin is lost."""
        if self._lost is not None:
            raise UnavailableError(
                f"The backup was aborted because its pin on the store was lost ({self._lost}): run the command again."
            )

    def confirm(self) -> None:
        """Renew the pin once more: if it still exists, everything read belongs to its moment."""
        try:
            self._session.admin("PUT", self._path)
        except OrcasError as error:
            self._lost = str(error)
        self.check()

    def _renew(self) -> None:
        while not self._done.wait(RENEW_SECONDS):
            try:
                self._session.admin("PUT", self._path)
            except OrcasError as error:
                self._lost = str(error)
                return


@dataclass
class _Run:
    """A backup under way."""

    directory: Path
    target: DirectoryTarget | S3Target
    pinned: _PinnedFiles
    advance: Advance
    number: int
    before: dict[str, Entry]
    present: dict[str, int]
    outcome: Outcome
    read: int = 0
    entries: list[Entry] = field(default_factory=list)

    def copy(self, name: str, path: Path, length: int, *, stable: bool = True) -> None:
        """Copy the parts of a file that the target lacks. `stable`: its timestamps show whether it has changed."""
        known = self.before.get(name)
        if known is not None and self.present.get(known.stored, -1) < known.length:
            known = None
        stat = _stat(path) if stable else None
        if known is not None and known.length == length:
            if stat is not None and known.stat == stat:
                self.entries.append(known)
                self._count(name, length)
                return
            with reading(path) as source:
                digest = sha256()
                hashed(source, 0, length, digest, self._meter(name))
            if digest.hexdigest() == known.sha256:
                self.entries.append(replace(known, stat=stat))
                return
        elif known is not None and known.length < length:
            digest_of_all = self.target.extend(
                path, length, known.stored, (known.length, known.sha256), self._meter(name)
            )
            if digest_of_all is not None:
                self._copied(length - known.length)
                self.entries.append(Entry(name, length, digest_of_all, known.stored, stat))
                return
        stored = stored_name(name, self.number)
        sha = self.target.store(path, length, stored, self._meter(name))
        self._copied(length)
        self.entries.append(Entry(name, length, sha, stored, stat))

    def _copied(self, count: int) -> None:
        self.outcome.copied_files += 1
        self.outcome.copied_bytes += count

    def _count(self, name: str, count: int) -> None:
        self.pinned.check()
        self.read += count
        self.advance(name, min(self.read, self.outcome.bytes), self.outcome.bytes)

    def _meter(self, name: str) -> Callable[[int], None]:
        return lambda count: self._count(name, count)


def _check_owner(session: Session, directory: Path) -> None:
    """The pin of a follower of a cluster would be on the files of another node. If it is lost later, the backup ends."""
    node = session.admin("GET", "about").get("cluster")
    if node is not None and node["role"] != "owner":
        owner = "none at present" if node["owner"] is None else f"{node['owner']['node']} at {node['owner']['url']}"
        raise UnavailableError(
            f"The node in {directory} does not own the log of its cluster: back up on the node that does ({owner})."
        )


def back_up(session: Session, directory: Path, target: DirectoryTarget | S3Target, advance: Advance) -> Outcome:
    """Copy the store that `session` reaches, whose files are in `directory`, to `target`.

    Raises:
        UnavailableError: something cannot be read or written; the target keeps the backup it had. Or the store is that of a
            follower of a cluster.
    """
    began = time.monotonic()
    if isinstance(target, DirectoryTarget) and Path(target.name).resolve().is_relative_to(directory.resolve()):
        raise UsageError(f"{target.name} is inside the store: choose a directory elsewhere.")
    with (
        target.writing(),
        _PinnedFiles(session) as pinned,
        tempfile.TemporaryDirectory(prefix="orcas-backup-") as scratch,
    ):
        _check_owner(session, directory)
        content = target.read_manifest()
        before = None if content is None else decode(content, f"{target.name}/manifest.json")
        if before is not None and before.store != pinned.store:
            raise UnavailableError(f"{target.name} contains backups of another store: choose another target.")
        # First, because what it notes must not be older: the keyring, and which other files there are.
        root = _copied(directory / ROOT_NAME, Path(scratch))
        database = Path(scratch) / DATABASE_NAME
        back_up_database(directory / DATABASE_NAME, database)
        control = [_copied(directory / name, Path(scratch)) for name in (KEY_NAME, QUOTAS_NAME)]
        # After the database, which says how many lines there must be.
        audit = [(f"{FOLDER}/{path.name}", path, path.stat().st_size) for path in audit_files(directory)]
        usage = _usage_copy(directory, Path(scratch))
        known = {} if before is None else {entry.name: entry for entry in before.files}
        keyring = keyring_copy(directory, Path(scratch), known, target)
        copies = [database, *usage, *(path for path in (root, *control) if path is not None), *keyring.files]
        sources = [*_sources(directory, copies, pinned), *audit]
        number = 1 if before is None else before.number + 1
        present = target.sizes()
        # An interrupted backup may have left files with this number.
        taken = [int(name.rpartition(".")[2]) for name in present if name.rpartition(".")[2].isdigit()]
        number = max([number, *(found + 1 for found in taken)])
        outcome = Outcome(
            target.name, pinned.store, number, pinned.sequence, len(sources), sum(length for _, _, length in sources)
        )
        run = _Run(directory, target, pinned, advance, number, known, present, outcome)
        run.entries.extend(keyring.kept)
        if not usage and USAGE_NAME in known:
            run.entries.append(known[USAGE_NAME])
        for name, path, length in sources:
            run.copy(name, path, length, stable=path.parent != database.parent)
        target.make_durable()
        pinned.confirm()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(pinned.store, number, pinned.sequence, now, orcas_version(), tuple(run.entries))
        target.write_manifest(manifest.encode())
        kept = {entry.stored for entry in run.entries}
        for stored in sorted(set(target.sizes()) - kept):
            target.remove(stored)
            outcome.removed_files += 1
    outcome.seconds = round(time.monotonic() - began, 3)
    return outcome


def _usage_copy(directory: Path, scratch: Path) -> list[Path]:
    """A copy of the usage, if there is one. Without it, a backup has that of the backup before: nothing depends on it."""
    if not (directory / USAGE_NAME).exists():
        return []
    copy = scratch / USAGE_NAME
    try:
        copy_database(directory / USAGE_NAME, copy)
    except UnavailableError as error:
        log.warning("The backup has no present usage: %s", error)
        return []
    return [copy]


def _copied(path: Path, scratch: Path) -> Path | None:
    """A copy of what is kept twice; None if there is no such file."""
    content = read_twice(path)
    if content is None:
        return None
    copy = scratch / path.name
    copy.write_bytes(content)
    return copy


def _sources(directory: Path, copies: list[Path], pinned: _PinnedFiles) -> list[tuple[str, Path, int]]:
    """Name, path and length of every file of a backup. `copies`: files that were copied for it."""
    listed = [(name, directory / name, length) for name, length in pinned.files]
    listed += [(path.name, path, path.stat().st_size) for path in copies]
    for _, path, length in listed:
        try:
            found = path.stat().st_size
        except OSError as error:
            raise UnavailableError(f"{path} cannot be read: {because(error)}.") from error
        if found < length:
            raise UnavailableError(
                f"{path} is shorter than the store reports: is {directory} the directory of that store?"
            )
    return listed


def _stat(path: Path) -> Stat | None:
    """The identity and timestamps of a file; None if it changed too recently to rely on them."""
    found = path.stat()
    if max(found.st_ctime_ns, found.st_mtime_ns) > time.time_ns() - _STABLE_AGE_NS:
        return None
    return Stat(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
