"""The audit log: a line of JSON for each change of identities, in numbered files below `audit` in the data directory.

Each line has the SHA-256 of the line before it, also across files, and a number that is one more. So a line that was
changed, removed or added is found. `control.db` has the number and the SHA-256 of the last line whose change is in effect
(the chain head), so lines that are missing at the end are found as well. Lines are synced before the change that they
are about; what a crash has cut off of the last one is removed at the next start.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from orcas.control.files import NODE_FOLDER, sync_directory
from orcas.errors import OrcasError, UnavailableError, because

FOLDER: Final = "audit"
# Size at which the next file is begun, and how many files there are at most: the oldest goes.
FILE_SIZE: Final = 16 * 1024 * 1024
FILES: Final = 64
# Bytes of a line, so that requests which fill the files and push out what is older are many. What is longer than this is
# cut, and each parameter that was cut is known by its length and its SHA-256.
LINE_MAX: Final = 8 * 1024
# So many parameters are cut. What they keep, in characters.
_CUT: Final = 8
_KEPT: Final = 256
# Parameters that are policies. White space between their elements says nothing, and is not counted in their size.
_POLICIES: Final = frozenset({"PolicyDocument", "AssumeRolePolicyDocument", "Policy"})
_STRING_OR_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
# Parameters that are not written down.
SECRETS: Final = frozenset({"SecretAccessKey"})
# The action of a line about lines whose changes are not in effect: they could not be committed, a crash came first, or an
# older `control.db` was put back.
NOT_IN_EFFECT: Final = "NotInEffect"

# What stands before the name of a user who acts.
_USER: Final = re.compile(r"arn:aws:iam::[0-9]{12}:user/(?:.*/)?")
_RESTORE: Final = "restore its files from a backup"

log = logging.getLogger("orcas")


class ChainHead(NamedTuple):
    """Number and SHA-256 of a line."""

    sequence: int
    digest: str


START: Final = ChainHead(0, "0" * 64)


@dataclass(frozen=True, slots=True)
class Entry:
    """A change: who asks for what. `address`: of the client, None without one. `account`: number of the one changed."""

    actor: str
    action: str
    parameters: dict[str, Any]
    account: str
    access_key: str | None = None
    address: str | None = None


class Read(NamedTuple):
    """A line of a file."""

    place: str
    text: bytes
    # None if it is none of this log.
    content: dict[str, Any] | None

    @property
    def head(self) -> ChainHead:
        """Number and SHA-256."""
        return ChainHead(0 if self.content is None else self.content["sequence"], sha256(self.text).hexdigest())


class AuditFiles:
    """The files of a store that is open. Blocking, and for one caller at a time."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._is_of_node = (directory / NODE_FOLDER).exists()
        self.last = START
        self.is_open = False
        # The file that has the last line, and its size.
        self._path: Path | None = None
        self._size = 0

    def open(self, head: ChainHead) -> Read:
        """Find the end, and cut off what a crash has left of a line. The last line, which may be newer than `head`.

        Raises:
            UnavailableError: a file cannot be read or cut.
        """
        self.last, self._path, self._size = head, None, 0
        found, end, beyond = Read("", b"", None), 0, []
        try:
            # The last file may have only the beginning of a line.
            for path in reversed(_files(self._folder)):
                content = path.read_bytes()
                end = content.rfind(b"\n") + 1
                while end and _parsed(_last_line(content, end)) is None:
                    end -= len(_last_line(content, end))
                beyond.append((path, end, len(content)))
                if end:
                    line = _last_line(content, end)
                    found = Read(str(path), line[:-1], _parsed(line))
                    break
            last = found.head if end else START
            if last.sequence < head.sequence or (last.sequence == head.sequence and last != head):
                # Nothing is cut: lines go on from the chain head, so that `orcas audit verify` finds the gap.
                if self._is_of_node:
                    # Each node has the lines that it wrote as the owner.
                    log.info("The audit log up to line %d is on nodes that owned the log before", head.sequence)
                else:
                    log.error("The audit log is damaged or missing: it should end with line %d", head.sequence)
                self.is_open = True
                return Read("", b"", None)
            for path, whole, size in beyond:
                if whole < size:
                    os.truncate(path, whole)
                    log.warning("The last line of the audit log was cut off by a crash, and is removed")
                if not whole:
                    path.unlink()
        except OSError as error:
            raise UnavailableError(f"The audit log cannot be read: {because(error)}.") from None
        if end:
            self.last, self._path, self._size = last, beyond[-1][0], end
        self.is_open = True
        return found

    def append(self, entries: Sequence[Entry], time: str) -> ChainHead:
        """Write lines, and sync them. The last one.

        Raises:
            UnavailableError: they cannot be written. The files have to be opened again.
        """
        last, lines = self.last, []
        for entry in entries:
            line = _line(entry, last, time)
            last = ChainHead(last.sequence + 1, sha256(line).hexdigest())
            lines.append(line + b"\n")
        content = b"".join(lines)
        path, size = self._path, self._size
        if path is None or (size and size + len(content) > FILE_SIZE):
            path, size = self._folder / f"{self.last.sequence + 1:020}.jsonl", 0
        try:
            self.is_open = False
            self._write(path, size, content)
        except OSError as error:
            raise UnavailableError(f"The audit log cannot be written: {because(error)}.") from None
        self.last, self._path, self._size, self.is_open = last, path, size + len(content), True
        return last

    def _write(self, path: Path, size: int, content: bytes) -> None:
        if not size:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
        finally:
            os.close(descriptor)
        if not size:
            sync_directory(self._folder)
            sync_directory(self._folder.parent)
            for old in _files(self._folder)[:-FILES]:
                old.unlink(missing_ok=True)


def _last_line(content: bytes, end: int) -> bytes:
    """The line that ends there, with its end."""
    return content[content.rfind(b"\n", 0, max(end - 1, 0)) + 1 : end]


def unreadable(read: Read) -> OrcasError:
    """The error for what is no line of this log."""
    return OrcasError(f"The audit log is damaged at {read.place}, which cannot be read: {_RESTORE}.")


def read_audit(directory: Path) -> Iterator[Read]:
    """All lines, the oldest first, without one that is not complete at the end of the last file.

    Raises:
        UnavailableError: a file cannot be read.
    """
    paths = audit_files(directory)
    for path in paths:
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if line.endswith(b"\n") or path != paths[-1]:
                        yield Read(f"line {number} of {FOLDER}/{path.name}", line.rstrip(b"\n"), _parsed(line))
        except OSError as error:
            raise UnavailableError(f"The audit log cannot be read: {because(error)}.") from None


def is_action(line: dict[str, Any], action: str | None) -> bool:
    """Whether the line has this action, in upper or lower case. None is any."""
    return action is None or str(line["action"]).lower() == action.lower()


def is_about(line: dict[str, Any], user: str) -> bool:
    """Whether a user has made a change, or it was about that user."""
    return line["parameters"].get("UserName") == user or _name_of(str(line["actor"])) == user


def _name_of(actor: str) -> str | None:
    before = _USER.match(actor)
    return None if before is None else actor[before.end() :]


def newest_audit(directory: Path, before: int | None = None) -> Iterator[Read]:
    """The lines with numbers below `before`, the newest first, without one that is not complete. A file is in memory.

    Raises:
        UnavailableError: a file cannot be read.
    """
    paths = audit_files(directory)
    for path in reversed(paths):
        # Its name is the number of its first line.
        if before is not None and int(path.stem) >= before:
            continue
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            # It was the oldest, and is gone meanwhile.
            return
        except OSError as error:
            raise UnavailableError(f"The audit log cannot be read: {because(error)}.") from None
        # What follows the last line end is empty, or is being written.
        for at in range(len(lines) - 2, -1, -1):
            read = Read(f"line {at + 1} of {FOLDER}/{path.name}", lines[at], _parsed(lines[at] + b"\n"))
            if before is None or read.content is None or read.content["sequence"] < before:
                yield read


def verify_audit(directory: Path, head: ChainHead) -> tuple[ChainHead, ChainHead]:
    """The first and the last line. `head`: the chain head of `control.db`, which was read before.

    Raises:
        OrcasError: a line was changed, or lines are missing.
        UnavailableError: a file cannot be read.
    """
    first = last = START
    for read in read_audit(directory):
        content = read.content
        if content is None:
            raise unreadable(read)
        found = read.head
        if last is START and found.sequence > 1 and len(audit_files(directory)) >= FILES:
            # The files before it were removed because there were too many.
            last = ChainHead(found.sequence - 1, content["previous"])
        if found.sequence != last.sequence + 1:
            raise OrcasError(
                f"The audit log is damaged at {read.place}, which has number {found.sequence} and not {last.sequence + 1}: "
                f"{_RESTORE}."
            )
        if content["previous"] != last.digest or (found.sequence == head.sequence and found.digest != head.digest):
            raise OrcasError(
                f"The audit log is damaged at {read.place}: it or the line before was changed; {_RESTORE}."
            )
        first, last = first if first.sequence else found, found
    if last.sequence < head.sequence:
        raise OrcasError(f"The audit log ends with line {last.sequence} and had {head.sequence}: {_RESTORE}.")
    return first, last


def audit_files(directory: Path) -> list[Path]:
    """The files of a store, the oldest first."""
    return _files(directory / FOLDER)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]" * 20 + ".jsonl"))


def _line(entry: Entry, previous: ChainHead, time: str) -> bytes:
    parameters = {name: _compact(name, value) for name, value in entry.parameters.items() if name not in SECRETS}
    known = {
        "sequence": previous.sequence + 1, "time": time, "actor": entry.actor, "access_key": entry.access_key,
        "address": entry.address, "account": entry.account, "action": entry.action, "parameters": parameters,
        "previous": previous.digest,
    }  # fmt: skip
    known = {name: value for name, value in known.items() if value is not None}
    line = json.dumps(known).encode()
    return line if len(line) <= LINE_MAX else _cut(known, parameters)


def _compact(name: str, value: Any) -> Any:
    """A parameter as it is written down."""
    if name in _POLICIES and isinstance(value, str):
        return _STRING_OR_SPACE.sub(lambda found: found[1] or "", value)
    return value


def _cut(known: dict[str, Any], parameters: dict[str, Any]) -> bytes:
    """The line without the ends of the longest parameters, or without all parameters if there are too many."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    kept, cut = dict(parameters), dict[str, Any]()
    for name in sorted(texts, key=lambda name: len(texts[name]), reverse=True)[:_CUT]:
        kept[name], cut[name] = texts[name][:_KEPT], _fingerprint(texts[name])
        line = json.dumps(known | {"parameters": kept, "cut": cut}).encode()
        if len(line) <= LINE_MAX:
            return line
    whole = _fingerprint(json.dumps(parameters))
    return json.dumps(known | {"parameters": {}, "cut": {"": whole}}).encode()


def _fingerprint(text: str) -> dict[str, Any]:
    content = text.encode(errors="surrogatepass")
    return {"bytes": len(content), "sha256": sha256(content).hexdigest()}


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The content of a line with its end, None if it is none of this log."""
    try:
        found = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    whole = (
        isinstance(found, dict) and isinstance(found.get("sequence"), int) and isinstance(found.get("previous"), str)
    )
    return found if whole else None
