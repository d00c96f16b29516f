"""The files of a standby, brought up to date round by round.

A round counts when its mark is written, and everything that it brought is durable before. A new file gets its name when it
is whole. Log files grow at their ends. Packs are written at several places at once, so of a pack that is here already,
those bytes are copied that the new part of the log names.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from orcas.control.files import KEYRING_NAMES, sync_directory, write_secret_file
from orcas.control.files.twice import SUFFIX
from orcas.engine import inspect_keyring, named_in_packs
from orcas.errors import ConfigurationError, UnavailableError, because
from orcas.standby.mark import Mark, cut_to, read_mark
from orcas.standby.source import Round, Source

_FOLDERS: Final = ("chunks", "log", "audit")
_PART: Final = ".part"
_KEY_FILES: Final = ("store.keys", "store.keys.copy")


class Brought(NamedTuple):
    """What a round has brought. `given_up`: files that the server does not have any more; `control`: small files changed."""

    given_up: list[str]
    control: list[str]


class Copy:
    """The copy of the store of `source` in `directory`. For one thread; everything blocks."""

    def __init__(self, directory: Path, source: Source) -> None:
        self._directory = directory
        self._source = source
        mark = read_mark(directory)
        if mark is None:
            mark = Mark(source.url, secrets.token_hex(8))
            for name in _FOLDERS:
                (directory / name).mkdir(mode=0o700, exist_ok=True)
            mark.write(directory)
        self.mark = mark
        # Bytes that were copied, on the monotonic clock since when the copy is as the server was, and files known here.
        self.bytes = 0
        self.as_of: float | None = None
        if mark.is_complete:
            cut_to(directory, mark)
        self._lengths = {
            f"{folder}/{path.name}": path.stat().st_size
            for folder in _FOLDERS
            for path in (directory / folder).iterdir()
            if path.suffix != _PART
        }
        if mark.is_complete:
            # These never change. Damage to those of the server must not reach the copy.
            keys = (directory / name for name in _KEY_FILES)
            self._lengths |= {path.name: path.stat().st_size for path in keys if path.exists()}
        self._small: dict[str, str] = {}

    def bring(self, wait: float, advance: Callable[[int, int], None] = lambda _done, _all: None) -> Brought | None:
        """One round: everything that the server has acknowledged by now. None: nothing was new for `wait` seconds.

        `advance` is told how many bytes of how many were copied.

        Raises:
            ConfigurationError: the server has another store, or a log that does not continue this one.
            UnavailableError: the server is gone, or a file cannot be written here. What was there stays usable.
        """
        before = time.monotonic()
        found = self._source.begin(self.mark, wait)
        if found is None:
            if self.mark.url != self._source.url:
                self.mark = self.mark.following(self._source.url)
                self.mark.write(self._directory)
            # Nothing was new all the time.
            self.as_of = max(before, time.monotonic() - 1)
            return None
        try:
            if self.mark.store and found.store != self.mark.store:
                raise ConfigurationError(
                    f"{self._source.url} has another store than the one that {self._directory} copies: name another "
                    "server, or an empty directory."
                )
            brought = self._copy(found, advance)
        except OSError as error:
            place = error.filename or self._directory
            raise UnavailableError(f"{place} cannot be written: {because(error)}.") from error
        finally:
            self._source.end(found)
        self.as_of = found.asked
        return brought

    def forget(self, names: Iterable[str]) -> None:
        """Remove files that the server has given up, of a copy that is not open."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def _copy(self, found: Round, advance: Callable[[int, int], None]) -> Brought:
        if not self.mark.is_complete and not self.mark.sequence:
            # What is named from here on may be missing in packs that this attempt copies.
            self.mark = replace(self.mark, store=found.store, sequence=found.sequence)
            self.mark.write(self._directory)
        total = sum(max(length - self._lengths.get(name, 0), 0) for name, length in found.files.items())
        done = 0

        def meter(count: int) -> None:
            nonlocal done
            self.bytes += count
            done += count
            advance(min(done, total), total)

        # Compacted log files before the log that names them.
        logs = sorted((name for name in found.files if name.startswith("log/")), key=self._order)
        packs = sorted(name for name in found.files if name.startswith("chunks/"))
        for name in (*sorted(found.files.keys() - {*logs, *packs}), *logs):
            self._bring(found, name, [(self._lengths.get(name, 0), found.files[name])], meter)
        given_up = [name for name in self._lengths if name not in found.files]
        start = bytes.fromhex(self.mark.position) or None
        end, named = named_in_packs(self._directory, given_up, start, self.mark.sequence)
        wanted = {name: (first, last) for name, first, last in named}
        for name in packs:
            length, have = found.files[name], self._lengths.get(name)
            spans = []
            if have is None or not self.mark.is_complete:
                spans.append((have or 0, length))
            if have is not None and name in wanted:
                first, last = wanted[name]
                # Nothing follows the last chunk, not even what aligns the next one.
                spans.append((first, length if last is None else min(last, length)))
            self._bring(found, name, spans, meter)
        for folder in _FOLDERS:
            sync_directory(self._directory / folder)
        control = self._bring_control(found)
        last_log = max(name for name in logs if self._is_plain(name))
        self.mark = replace(
            self.mark.following(self._source.url), store=found.store, sequence=found.sequence, log=last_log,
            length=found.files[last_log], position=end.hex(), control=found.control_digest,
        )  # fmt: skip
        self.mark.write(self._directory)
        for name in given_up:
            del self._lengths[name]
        return Brought(given_up, control)

    def _order(self, name: str) -> tuple[bool, str]:
        """Files that are new here, in their order, then those that grow: a compacted file is new."""
        return name in self._lengths, name

    def _bring(self, found: Round, name: str, spans: list[tuple[int, int]], meter: Callable[[int], None]) -> None:
        """Bring these bytes of a file, durably. A file that is not a pack then ends where the last of them does."""
        path, have = self._directory / name, self._lengths.get(name)
        is_pack = name.startswith("chunks/")
        if not spans or (not is_pack and have == spans[-1][1]):
            return
        new = have is None
        target = path.with_name(path.name + _PART) if new else path
        descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if new:
                os.ftruncate(descriptor, 0)
            for start, end in spans:
                at = start
                if at < end:
                    for piece in self._source.read(found, name, at, end):
                        _write(descriptor, piece, at)
                        at += len(piece)
                        meter(len(piece))
                if at < end:
                    raise UnavailableError(
                        f"{self._source.url} gave {at} bytes of {name}, not {end}: it is asked again."
                    )
            if not is_pack:
                # The server may have cut a closed log file to what counts.
                os.ftruncate(descriptor, spans[-1][1])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            target.rename(path)
        self._lengths[name] = max(have or 0, spans[-1][1]) if is_pack else spans[-1][1]

    def _bring_control(self, found: Round) -> list[str]:
        changed = []
        for name, length, digest in found.control:
            if self._small.get(name) == digest:
                continue
            content = b"".join(self._source.read(found, name))
            if len(content) != length or hashlib.sha256(content).hexdigest() != digest:
                # It has changed once more. The next round has it.
                raise UnavailableError(f"{name} of {self._source.url} changes just now: it is asked for again.")
            if name not in KEYRING_NAMES:
                # A former copy would count for more than the file.
                (self._directory / (name + SUFFIX)).unlink(missing_ok=True)
            elif _generation(content) < self._keyring_generation():
                # It is damaged there, or older: what is here stays.
                self._small[name] = digest
                continue
            write_secret_file(self._directory / name, content)
            self._small[name] = digest
            changed.append(name)
        return changed

    def _keyring_generation(self) -> int:
        """Of the newest intact keyring here; 0 without one."""
        paths = [self._directory / name for name in KEYRING_NAMES]
        return max((_generation(path.read_bytes()) for path in paths if path.exists()), default=0)

    def _is_plain(self, name: str) -> bool:
        with (self._directory / name).open("rb") as file:
            return file.read(8) == b"ORCASLOG"


def _generation(content: bytes) -> int:
    """Of a keyring; 0 for one that is damaged."""
    inspected = inspect_keyring(content)
    return 0 if inspected is None else inspected[1]


def _write(descriptor: int, piece: bytes, at: int) -> None:
    view = memoryview(piece)
    while view:
        written = os.pwrite(descriptor, view, at)
        view = view[written:]
        at += written


def check_directory(directory: Path) -> None:
    """Whether a standby can be in this directory, which exists.

    Raises:
        UnavailableError: it has a store of its own.
    """
    if read_mark(directory) is None and any(
        (directory / name).exists() for name in ("store.keys", "log", "control.db")
    ):
        raise UnavailableError(
            f"{directory} has a store of its own: a standby needs an empty directory, which --data names."
        )
