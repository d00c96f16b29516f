"""A reader of stores that is built from docs/format.md alone: it parses payloads by the tables of the document.

It shares only the document with the server, so it fails if the document omits something or is wrong. It reads intact
stores. Python's library has no keyed BLAKE3, so MACs, chain values and identities are not verified.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.fixtures.checksums import DIGESTS

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "format.md"
BLOCK: Final = 65_536
FRAMES_AT: Final = 4_096
SECOND_AT: Final = 2_048
INTEGERS: Final = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "flag": "<B", "code": "<B"}
_ROW: Final = re.compile(r"\| `(\w+)` \| `([^`]+)`(?: if `(\w+)` (=|≠|has bit) (\d+))? \|(.*)\|")


@dataclass
class Row:
    """A field of a record or structure, and when it is present."""

    name: str
    type: str
    depends_on: str | None
    relation: str | None
    number: int
    values: set[int]

    def is_there(self, before: dict[str, Any]) -> bool:
        if self.depends_on is None:
            return True
        value: int = before[self.depends_on]
        equal = value == self.number
        return {"=": equal, "≠": not equal, "has bit": bool(value >> self.number & 1)}[self.relation or "="]


@cache
def sections() -> dict[str, str]:
    """The text below each heading of the document."""
    parts = re.split(r"^#+ (.*)$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def tables() -> dict[str, list[Row]]:
    """The tables of fields: those of record kinds by number, those of structures by name."""
    found = {}
    for title, text in sections().items():
        if "| Field | Type | Meaning |" in text:
            rows = [
                Row(name, kind, on, relation, int(number or 0), {int(n) for n in re.findall(r"`(\d+)`", meaning)})
                for name, kind, on, relation, number, meaning in (match.groups() for match in _ROW.finditer(text))
            ]
            assert len(rows) == sum(line.startswith("| `") for line in text.splitlines()), title
            found[title.split()[0]] = rows
    return found


class Payload:
    """A cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        assert self.at + length <= len(self.data), "the payload ends early"
        self.at += length
        return self.data[self.at - length : self.at]

    def value(self, kind: str) -> Any:
        """Read a value of a type, as the document names types."""
        if kind in INTEGERS:
            (number,) = struct.unpack(INTEGERS[kind], self.take(struct.calcsize(INTEGERS[kind])))
            assert kind != "flag" or number < 2
            return number
        if kind == "byte[*]":
            return self.take(len(self.data) - self.at)
        if kind.endswith("]?"):
            return self.value(kind[:-1]) if self.value("flag") else None
        if kind.endswith("]"):
            of, count = kind[:-1].split("[")
            number = self.value(count) if count in INTEGERS else int(count)
            return self.take(number) if of == "byte" else [self.value(of) for _ in range(number)]
        return self.structure(kind)

    def structure(self, title: str) -> dict[str, Any]:
        """The fields of a structure or record."""
        found: dict[str, Any] = {}
        for row in tables()[title]:
            if row.is_there(found):
                found[row.name] = self.value(row.type)
                assert row.type != "code" or found[row.name] in row.values, (title, row.name)
        return found


def crc(data: bytes, salt: bytes = bytes(4)) -> int:
    """The CRC as the document defines it, salted with the beginning of the file's salt."""
    return int.from_bytes(DIGESTS["CRC32C"](data), "big") ^ int.from_bytes(salt[:4], "little")


def numbers(data: bytes, at: int, count: int) -> tuple[int, ...]:
    """`count` integers of 8 bytes."""
    return struct.unpack_from(f"<{count}Q", data, at)


@dataclass
class Record:
    """A record and where it is."""

    kind: int
    sequence: int
    offset: int
    fields: dict[str, Any]


@dataclass
class LogFile:
    """A log file and the records of its batches. `chained`: the file, end and sequence that it continues."""

    number: int
    compacted: bool
    chained: tuple[int, ...]
    records: list[Record] = field(default_factory=list)
    end: int = FRAMES_AT
    sequence: int = 0


def headed(data: bytes, magics: tuple[bytes, ...], version: int, store: bytes, number: int) -> bytes:
    """Check the header of a file, and return its salt."""
    magic, found, frames, owner, own = struct.unpack_from("<8sII16sQ", data)
    assert magic in magics
    assert (found, frames, owner, own) == (version, FRAMES_AT, store, number)
    length, crc_at = {b"ORCASLOG": (264, 160), b"ORCASCMP": (264, 256), b"ORCASPAK": (64, 56)}[magic]
    assert struct.unpack_from("<I", data, crc_at)[0] == crc(data[:crc_at])
    assert data[:length] == data[SECOND_AT : SECOND_AT + length]
    assert not any(data[length:SECOND_AT] + data[SECOND_AT + length : FRAMES_AT])
    return data[40:56]


def frames(data: bytes, salt: bytes) -> Iterator[tuple[int, int, int, int, bytes]]:
    """Offset, kind, class, sequence and payload of each frame, up to the first bytes that are not a frame."""
    at = FRAMES_AT
    while at + 24 <= len(data):
        found, kind, of_class, zeros, length, more, sequence = struct.unpack_from("<IBBHIIQ", data, at)
        if found != crc(data[at + 4 : at + 24] + at.to_bytes(8, "little"), salt):
            return
        assert zeros == more == 0
        blocks = -(-length // BLOCK) if of_class == 1 else 0
        begin = at + 24 + 4 * blocks
        payload = data[begin : begin + length]
        sums = struct.unpack_from(f"<{blocks}I", data, at + 24)
        assert sums == tuple(crc(payload[n * BLOCK : (n + 1) * BLOCK], salt) for n in range(blocks))
        yield at, kind, of_class, sequence, payload
        end = begin + length
        at = end + -end % 8
        assert not any(data[end:at])


def read_log(path: Path, store: bytes) -> LogFile | None:
    """A log file; None for one without a header."""
    data, number = path.read_bytes(), int(path.stem)
    if not any(data[:FRAMES_AT]):
        return None
    salt = headed(data, (b"ORCASLOG", b"ORCASCMP"), 3, store, number)
    compacted = data[:8] == b"ORCASCMP"
    log = LogFile(number, compacted, numbers(data, 56, 3))
    log.sequence = log.chained[2]
    batch: list[Record] = []
    start = FRAMES_AT
    for at, kind, of_class, sequence, payload in frames(data, salt):
        if of_class == 2:
            assert (kind, len(payload)) == (0, 88)
            begin, watermark, count, zeros = struct.unpack_from("<QQII", payload)
            assert (begin, count, zeros, sequence) == (start, len(batch), 0, batch[-1].sequence)
            assert watermark <= sequence
            log.records += batch
            log.end = start = at + 24 + 88
            log.sequence, batch = sequence, []
            continue
        assert sequence > (batch[-1].sequence if batch else log.sequence)
        input_ = Payload(payload)
        batch.append(Record(kind, sequence, at, input_.structure(str(kind))))
        assert input_.at == len(payload), f"kind {kind} has more bytes than documented"
    if compacted:
        log.end, log.sequence = numbers(data, 168, 1)[0], numbers(data, 112, 3)[2]
    return log


def read_keys(data: Path) -> bytes:
    """The store id."""
    keys = (data / "store.keys").read_bytes()
    assert keys == (data / "store.keys.copy").read_bytes()
    magic, version, store = struct.unpack_from("<8sI16s", keys)
    assert (magic, version, len(keys)) == (b"ORCASKEY", 1, 124)
    return bytes(store)


def look_at_chunk(pack: bytes, salt: bytes, offset: int, chunk: dict[str, Any]) -> None:
    """Check that the frame of a chunk agrees with its record."""
    found, magic, length, table_crc, fingerprint, zeros = struct.unpack_from("<I4sII32s16s", pack, offset)
    assert offset % 4_096 == 0
    assert found == crc(pack[offset + 4 : offset + 64] + offset.to_bytes(8, "little"), salt)
    assert (magic, length, fingerprint, zeros) == (b"CHNK", chunk["length"], chunk["fingerprint"], bytes(16))
    table = pack[offset + 64 : offset + 64 + 4 * -(-length // BLOCK)]
    assert table_crc == crc(table, salt)
    content = offset + 64 + len(table)
    last = (length - 1) // BLOCK * BLOCK
    assert struct.unpack_from("<I", table, len(table) - 4)[0] == crc(pack[content + last : content + length], salt)
