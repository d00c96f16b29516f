"""Control files that are missing or damaged: restored from their copies, or refused until their operator gives them up."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.control import OneKey, add_identity, control_of, snapshot_of

from orcas.control.cipher import read_cipher
from orcas.control.database import back_up_database
from orcas.control.files import locked
from orcas.control.files.lost import find_lost, give_up
from orcas.control.files.twice import copy_of
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.quotas import ensure_quotas, write_quotas
from orcas.errors import UnavailableError


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("root.json", None, "missing"),
        ("root.json", b"{", "damaged"),
        ("root.json", b'{"owner": "x"}', "damaged"),
        ("root.json", b'{"owner": 5}', "damaged"),
        ("control.key", None, "missing"),
        ("control.key", b"short", "damaged"),
        ("control.db", None, "missing"),
        ("control.db", b"", "is empty"),
        ("control.db", b"not a database at all, but text" * 100, "is not a database"),
        ("quotas.json", None, "missing"),
        ("quotas.json", b"{}", "damaged"),
    ],
)
async def test_parts_that_are_lost_with_their_copies_are_refused(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    await snapshot_of(tmp_path)
    write_quotas(tmp_path, {"e" * 64: (1, None)})
    path = tmp_path / name
    copy_of(path).unlink()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(UnavailableError, match=says) as caught:
        async with control_of(tmp_path):
            ensure_quotas(tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with locked(tmp_path):
        lost = find_lost(tmp_path) if name != "root.json" else []
        give_up(tmp_path, lost)
    if name == "root.json":
        assert "orcas serve --salvage" in str(caught.value)
        return
    # The sentence names the command, after which the root still has its key.
    assert "orcas fsck --repair --accept-loss" in str(caught.value)
    assert lost == [name]
    async with control_of(tmp_path) as control:
        assert [key[0] for key in (await control.load_snapshot()).keys] == [control.root.access_key]
        assert ensure_quotas(tmp_path) == ({} if name == "quotas.json" else {"e" * 64: (1, None)})
    assert (content is None) == (not (tmp_path / f"{name}.damaged").exists())


def flipped(content: bytes, bit: int) -> bytes:
    at = bit // 8 % len(content)
    return content[:at] + bytes([content[at] ^ 1 << bit % 8]) + content[at + 1 :]


@pytest.mark.parametrize("blow", ["missing", "empty", "cut", "flipped"])
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
async def test_each_file_is_restored_from_its_other_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, blow: str, *, sealed: bool
) -> None:
    """Both copies in turn, with every byte of them flipped: what comes back is what was written last."""
    sealer = OneKey() if sealed else None
    await snapshot_of(tmp_path, sealer=sealer)
    cipher = read_cipher(tmp_path, sealer)
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    write_quotas(tmp_path, {"e" * 64: (1 << 40, 7)})

    caplog.set_level(logging.INFO)

    async def state() -> tuple[IdentitySnapshot, dict[str, Any]]:
        async with control_of(tmp_path, sealer=sealer) as control:
            return await control.load_snapshot(), ensure_quotas(tmp_path)

    before = await state()
    sound = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("root.json", "control.key", "control.db", "quotas.json"):
        for path in (tmp_path / name, copy_of(tmp_path / name)):
            whole = sound[path.name]
            blows: Iterator[bytes | None] = {
                "missing": iter([None]), "empty": iter([b""]), "cut": iter([whole[: len(whole) // 2]]),
                # A prime, so that all bits of a byte are met.
                "flipped": (flipped(whole, bit) for bit in range(3, 8 * len(whole), 8 * len(whole) // 12 + 5)),
            }[blow]  # fmt: skip
            for content in blows:
                caplog.clear()
                path.unlink()
                if content is not None:
                    path.write_bytes(content)
                assert await state() == before, (path.name, content)
                assert str(path) in caplog.text
                after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "damaged" not in path.name}
                assert after == sound, path.name


@pytest.mark.parametrize("name", ["root.json", "control.key", "control.db", "quotas.json"])
async def test_what_is_damaged_in_both_copies_is_not_believed(tmp_path: Path, name: str) -> None:
    """The same bit of the content, and the same bit of both files, whose copies have the content further behind."""
    before = await snapshot_of(tmp_path)
    write_quotas(tmp_path, {"e" * 64: (1 << 40, 7)})
    path, copy = tmp_path / name, copy_of(tmp_path / name)
    sound = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    head = len(sound[copy.name]) - len(sound[name])
    bits = 8 * len(sound[name])
    for bit in range(5, bits, bits // 24 * 2 + 1):
        for shift in (0, 8 * head):
            for each, content in sound.items():
                (tmp_path / each).write_bytes(content)
            path.write_bytes(flipped(sound[name], bit))
            copy.write_bytes(flipped(sound[copy.name], bit + shift))
            if bit + shift < 8 * head:
                # Of the checksum, one digit is wrong.
                assert await snapshot_of(tmp_path) == before
                assert ensure_quotas(tmp_path) == {"e" * 64: (1 << 40, 7)}
                assert path.read_bytes() == sound[name]
                continue
            if name == "control.db":
                # What is intact of it counts. The rights of nobody else are there to be damaged.
                with contextlib.suppress(UnavailableError):
                    assert await snapshot_of(tmp_path) == before
                continue
            with pytest.raises(UnavailableError, match=rf"{name}.* damaged"):
                async with control_of(tmp_path):
                    ensure_quotas(tmp_path)
            with locked(tmp_path):
                assert find_lost(tmp_path) == [name]


async def test_a_change_that_a_kill_interrupted_is_told_from_no_other_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two writes: the change was not confirmed, and is undone."""
    await snapshot_of(tmp_path)
    write_quotas(tmp_path, {"e" * 64: (1 << 40, 7)})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("orcas.control.files.twice.write_copy", killed)
        with pytest.raises(KeyboardInterrupt):
            write_quotas(tmp_path, {"e" * 64: (1, None)})
    async with control_of(tmp_path):
        assert ensure_quotas(tmp_path) == {"e" * 64: (1 << 40, 7)}
    assert f"{tmp_path / 'quotas.json'} has an interrupted change, or was damaged or changed by hand" in caplog.text


async def test_the_log_tells_of_usage_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await snapshot_of(tmp_path)
    (tmp_path / "usage.db").write_bytes(b"x")
    await snapshot_of(tmp_path)
    assert "usage" not in caplog.text
    (tmp_path / "usage.db").write_bytes(b"")
    await snapshot_of(tmp_path)
    assert "usage.db is missing or empty" in caplog.text


async def test_a_root_identity_that_is_damaged_twice_is_not_said_to_be_replaceable(tmp_path: Path) -> None:
    await snapshot_of(tmp_path)
    for path in (tmp_path / "root.json", tmp_path / "root.json.copy"):
        path.write_bytes(path.read_bytes().replace(b'"owner"', b'"owned"'))
    with pytest.raises(UnavailableError, match=r"are damaged: .* with `orcas serve --salvage`"):
        await snapshot_of(tmp_path)


async def test_a_backup_has_the_copy_of_a_damaged_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await snapshot_of(tmp_path)
    path = tmp_path / "control.db"
    sound = path.read_bytes()
    for number, content in enumerate((sound, flipped(sound, 8 * len(sound) - 3), sound[:4096], None)):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        back_up_database(path, tmp_path / f"backup-{number}")
        # SQLite's own copy of a sound one counts changes anew.
        assert content == sound or (tmp_path / f"backup-{number}").read_bytes() == sound
        assert ("the backup has its copy" in caplog.text) == (content != sound)
        path.write_bytes(sound)


async def test_a_change_that_has_no_copy_yet_is_kept(tmp_path: Path) -> None:
    """The process ended between the two, or an earlier version changed the database."""
    await snapshot_of(tmp_path)
    cipher = read_cipher(tmp_path, None)
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    before = await snapshot_of(tmp_path)
    assert "other" in {key[0] for key in before.keys}
    # A stopped transaction is rolled back before the two are compared.
    whole = (tmp_path / "control.db").read_bytes()
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size = 1');"
        "c.execute('BEGIN IMMEDIATE'); c.execute('DELETE FROM access_keys');"
        "c.execute('CREATE TABLE t (x)'); c.executemany('INSERT INTO t VALUES (zeroblob(4000))', [()] * 99); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "control.db"], check=True)
    assert (tmp_path / "control.db-journal").exists()
    assert (tmp_path / "control.db").read_bytes() != whole
    assert await snapshot_of(tmp_path) == before
    assert (tmp_path / "control.db").read_bytes() == whole
    for path in tmp_path.glob("*.copy"):
        path.unlink()
    assert await snapshot_of(tmp_path) == before
    assert {path.name for path in tmp_path.glob("*.copy")} == {"root.json.copy", "control.key.copy", "control.db.copy"}
