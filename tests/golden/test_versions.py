"""Files of another format version: a store is refused and left unchanged, an index is rebuilt."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.fixtures.checksums import DIGESTS
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import running
from tests.golden.document import SECOND_AT, crc
from tests.golden.expectation import verify
from tests.golden.test_golden import STORES, unpack

import orcas
from orcas.errors import UnavailableError

CLOSED = next(name for name in STORES if name.endswith("-closed"))
# The part of a page of the index that its checksum covers; the offset of the schema number in the first page.
PAGE_CONTENT = 4_088
SCHEMA_AT = 60


def set_version(path: Path, version: int) -> None:
    """Gives both copies of a header another version, with the matching checksum."""
    data = bytearray(path.read_bytes())
    crc_at = {b"ORCASLOG": 160, b"ORCASCMP": 256, b"ORCASPAK": 56}[bytes(data[:8])]
    for at in (0, SECOND_AT):
        struct.pack_into("<I", data, at + 8, version)
        struct.pack_into("<I", data, at + crc_at, crc(bytes(data[at : at + crc_at])))
    path.write_bytes(data)


def schema_of(path: Path) -> int:
    number: int = struct.unpack_from(">I", path.read_bytes(), SCHEMA_AT)[0]
    return number


@pytest.mark.parametrize(
    ("magic", "version", "message"),
    [
        (b"ORCASLOG", 2, "was written by format 2; this version reads format 3"),
        (b"ORCASLOG", 4, "was written by format 4; this version reads format 3"),
        (b"ORCASCMP", 4, "was written by format 4; this version reads format 3"),
        (b"ORCASPAK", 2, "was written by format 2; this version reads format 1"),
    ],
)
def test_a_file_of_another_version_is_named_and_left(magic: bytes, version: int, message: str, tmp_path: Path) -> None:
    unpack(CLOSED, tmp_path)
    paths = [*(tmp_path / "log").iterdir(), *(tmp_path / "chunks").iterdir()]
    changed = max(path for path in paths if path.read_bytes()[:8] == magic)
    set_version(changed, version)
    before = changed.read_bytes()
    with pytest.raises(UnavailableError, match=message) as refused:
        orcas.Server(tmp_path, master_key=MASTER_KEY)
    assert changed.name in str(refused.value)
    assert changed.read_bytes() == before


def test_an_index_of_another_schema_is_built_anew(tmp_path: Path) -> None:
    manifest = unpack(CLOSED, tmp_path)
    index = tmp_path / "index.db"
    assert schema_of(index) == 5
    data = bytearray(index.read_bytes())
    struct.pack_into(">I", data, SCHEMA_AT, 6)
    # The first page is at offset 0, so its checksum is that of its content.
    data[PAGE_CONTENT : PAGE_CONTENT + 8] = DIGESTS["CRC64NVME"](bytes(data[:PAGE_CONTENT]))
    index.write_bytes(data)
    with running(tmp_path, master_key=MASTER_KEY) as target:
        verify(target, manifest)
    assert schema_of(index) == 5
