"""The control store: the root identity, secrets at rest, and directories with missing files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tests.fixtures.control import OneKey, add_identity, changing, control_of, pairs_of, snapshot_of

from orcas.control.cipher import Cipher, read_cipher
from orcas.control.files import LOCK_NAME, InUseError, NoStoreError, is_locked, locked, write_secret_file
from orcas.control.files.lost import find_lost, give_up
from orcas.control.files.twice import copy_of
from orcas.control.identities.names import account_number
from orcas.control.keys import root_pair
from orcas.control.root import ensure_owner, fresh_secret, note_keyring, noted_keyring
from orcas.control.salvage import salvaged_root
from orcas.control.store import Control
from orcas.errors import ConfigurationError, UnavailableError


def pair_of(directory: Path, access_key: str | None, secret_key: str | None) -> tuple[str, str]:
    """Of a store without a keyring."""
    return root_pair(directory, access_key, secret_key, lambda: None)


async def test_a_root_key_is_generated_once(tmp_path: Path) -> None:
    data = tmp_path / "new" / "store"
    async with control_of(data) as control:
        assert control.root.fresh
        assert control.root.path == data / "root.json"
        first = await control.load_snapshot()
    async with control_of(data) as control:
        assert not control.root.fresh
        assert await control.load_snapshot() == first
    (pair,) = pairs_of(first)
    ((number, owner, _),) = first.accounts
    assert (number, len(owner)) == (account_number(owner), 64)
    assert [row[0] for row in first.identities] == [first.keys[0][2]] == [f"arn:aws:iam::{number}:root"]
    assert pair_of(data, None, None) == pair
    salvaged = salvaged_root(data, owner, None, None, None)
    assert (salvaged.secret_key, salvaged.path) == (pair[1], data / "root.json")
    assert pair[1] not in repr(first)


def test_no_secret_key_looks_like_an_option() -> None:
    drawn = {fresh_secret() for _ in range(2_000)}
    assert {len(secret) for secret in drawn} == {40}
    assert len(drawn) == 2_000
    assert all(secret[0].isalnum() for secret in drawn)


async def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "store"
    await snapshot_of(data)
    assert data.stat().st_mode & 0o777 == 0o700
    names = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir()}
    assert {"control.db", "control.key", "control.lock", "root.json"} <= set(names)
    assert set(names.values()) == {0o600}


async def test_the_operators_key_stands_in_for_the_generated_one(tmp_path: Path) -> None:
    generated = await snapshot_of(tmp_path)
    operators = await snapshot_of(tmp_path, "operator", "operators-secret")
    assert pairs_of(operators) == [("operator", "operators-secret")]
    assert operators.accounts == generated.accounts
    assert await snapshot_of(tmp_path) == generated
    assert pair_of(tmp_path, "operator", "operators-secret") == ("operator", "operators-secret")


async def test_secrets_are_not_in_the_database_in_clear(tmp_path: Path) -> None:
    await snapshot_of(tmp_path, "operator", "operators-secret")
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name != "control.lock")
    assert b"operator" in stored
    assert b"operators-secret" not in stored
    assert "secret_key" not in json.loads((tmp_path / "root.json").read_text())


async def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    async with control_of(tmp_path):
        with pytest.raises(UnavailableError, match="in use by another process"):
            await snapshot_of(tmp_path)
    await snapshot_of(tmp_path)


async def test_the_key_of_the_operator_is_valid_only_while_it_is_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await snapshot_of(tmp_path, "operator", "operators-secret")
    generated = await snapshot_of(tmp_path)
    assert "The root key of the last server, access key operator, is not valid any more" in caplog.text
    caplog.clear()
    assert await snapshot_of(tmp_path) == generated
    await snapshot_of(tmp_path, "operator", "operators-secret")
    assert not caplog.text


async def test_a_foreign_key_opens_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await snapshot_of(tmp_path)
    identity, cipher = "e" * 64, read_cipher(tmp_path, None)
    assert cipher is not None
    with changing(tmp_path, cipher) as connection:
        connection.execute("INSERT INTO accounts VALUES (?, '999999999999', 'other', 0)", (identity,))
        connection.execute(
            "INSERT INTO access_keys SELECT 'other', ?, NULL, nonce, secret, 0, 1, NULL, NULL FROM access_keys",
            (identity,),
        )
    assert "other" not in dict(pairs_of(await snapshot_of(tmp_path)))
    assert "The secret of access key other is damaged" in caplog.text


async def test_a_key_of_another_time_is_not_sealed_over_the_right_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await snapshot_of(tmp_path)
    older = (tmp_path / "control.key").read_bytes()
    cipher, sealer = read_cipher(tmp_path, None), OneKey()
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    before = await snapshot_of(tmp_path, sealer=sealer)
    assert "root.json is sealed now, but its key pair is unchanged" in caplog.text
    sealed = (tmp_path / "control.key").read_bytes()
    (tmp_path / "control.key").write_bytes(older)
    copy_of(tmp_path / "control.key").unlink()
    files = contents(tmp_path)
    with pytest.raises(UnavailableError, match="access key other cannot be decrypted"):
        await snapshot_of(tmp_path, sealer=sealer)
    assert contents(tmp_path) == files
    (tmp_path / "control.key").write_bytes(sealed)
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    # The pair is replaced as the documentation says.
    document = json.loads((tmp_path / "root.json").read_text())
    del document["sealed"]
    (tmp_path / "root.json").write_text(json.dumps(document))
    (tmp_path / "root.json.copy").unlink()
    after = await snapshot_of(tmp_path, sealer=sealer)
    assert after.accounts == before.accounts
    assert not set(pairs_of(after)[:1]) & set(pairs_of(before))


async def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    await snapshot_of(tmp_path)
    connection = sqlite3.connect(tmp_path / "control.db")
    connection.execute("DELETE FROM digests WHERE id = 'schema'")
    connection.commit()
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UnavailableError, match="later version"):
        await snapshot_of(tmp_path)


def test_there_is_no_key_before_the_first_start(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="orcas serve"):
        pair_of(tmp_path, None, None)


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


@pytest.mark.parametrize("keys", [(None, None), ("operator", "operators-secret")], ids=["generated", "operators"])
async def test_a_start_that_changes_nothing_writes_nothing(tmp_path: Path, keys: tuple[str | None, str | None]) -> None:
    first = await snapshot_of(tmp_path, *keys)
    before = contents(tmp_path)
    async with control_of(tmp_path, *keys) as control:
        assert await control.load_snapshot() == first
        assert contents(tmp_path) == before
    assert contents(tmp_path) == before


async def test_a_root_key_that_cannot_be_written_counts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await snapshot_of(tmp_path, "operator", "operators-secret")

    async def full(_: Control) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Control, "_write_root", full)
        changed = await snapshot_of(tmp_path, "another", "another-secret")
    assert pairs_of(changed) == [("another", "another-secret")]
    assert "disk is full" in caplog.text
    async with control_of(tmp_path, "another", "another-secret") as control:
        assert await control.load_snapshot() == changed
    with sqlite3.connect(tmp_path / "control.db") as connection:
        assert connection.execute("SELECT access_key FROM access_keys").fetchall() == [("another",)]
    connection.close()


async def test_a_damaged_row_of_the_root_is_written_again(tmp_path: Path) -> None:
    first = await snapshot_of(tmp_path)
    with sqlite3.connect(tmp_path / "control.db") as connection:
        connection.execute("UPDATE access_keys SET secret = x'00'")
    connection.close()
    assert await snapshot_of(tmp_path) == first
    before = contents(tmp_path)
    assert await snapshot_of(tmp_path) == first
    assert contents(tmp_path) == before


def test_a_glance_at_the_lock_keeps_nobody_out(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(InUseError), locked(tmp_path):
            pass
    assert not is_locked(tmp_path)
    descriptor = os.open(tmp_path / LOCK_NAME, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    timer = threading.Timer(0.05, os.close, (descriptor,))
    timer.start()
    # It waits for another reader.
    with locked(tmp_path):
        pass
    timer.join()


async def test_the_tools_know_the_pair_of_the_server(tmp_path: Path) -> None:
    async with control_of(tmp_path) as control:
        generated = control.root.access_key, control.root.secret_key
        assert pair_of(tmp_path, "mine", "my-own-secret") == generated
    assert pair_of(tmp_path, "mine", "my-own-secret") == ("mine", "my-own-secret")
    async with control_of(tmp_path, "operator", "operators-secret"):
        assert pair_of(tmp_path, None, None) == ("operator", "operators-secret")
    # The next server would use this one.
    assert pair_of(tmp_path, None, None) == generated


async def test_secrets_are_sealed_as_soon_as_there_is_a_keyring(tmp_path: Path) -> None:
    plain = await snapshot_of(tmp_path)
    cipher = read_cipher(tmp_path, None)
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    before = await snapshot_of(tmp_path)
    old_key = (tmp_path / "control.key").read_bytes()
    sealer = OneKey()
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for _, secret in pairs_of(before):
        assert secret.encode() not in stored
    assert old_key not in stored
    # A copy of the old key opens nothing that is there now.
    with sqlite3.connect(tmp_path / "control.db") as connection:
        for row in connection.execute("SELECT access_key, account, nonce, secret FROM access_keys"):
            with pytest.raises(UnavailableError, match="cannot be decrypted"):
                cipher.decrypt(*row)
    connection.close()
    sealed = contents(tmp_path)
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    assert contents(tmp_path) == sealed
    assert root_pair(tmp_path, None, None, lambda: sealer) == pairs_of(plain)[0]


@pytest.mark.parametrize("writes", range(1, 6))
async def test_a_crash_while_secrets_are_sealed_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The start is cut off before its Nth write of a file or a row; the next one goes on."""
    await snapshot_of(tmp_path)
    cipher = read_cipher(tmp_path, None)
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    before, sealer, left = await snapshot_of(tmp_path), OneKey(), writes

    class Crash(BaseException):
        pass

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash
            return write(*arguments)

        return counting

    with monkeypatch.context() as patched:
        patched.setattr("orcas.control.files.twice.write_secret_file", counted(write_secret_file))
        patched.setattr(Cipher, "encrypt", counted(Cipher.encrypt))
        with contextlib.suppress(Crash):
            await snapshot_of(tmp_path, sealer=sealer)
    assert (left > 0) == (writes > 5)
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    found = read_cipher(tmp_path, sealer)
    assert found is not None
    assert not found.has_old
    assert "access_key" not in (tmp_path / "root.json").read_text()


async def test_sealed_secrets_need_the_keyring_that_sealed_them(tmp_path: Path) -> None:
    another = OneKey()
    first = await snapshot_of(tmp_path, sealer=OneKey())
    with pytest.raises(
        UnavailableError, match=r"control\.key is damaged, or sealed under a key that the keyring lacks"
    ):
        await snapshot_of(tmp_path, sealer=another)
    # Nothing is damaged where only the master key is missing.
    with pytest.raises(UnavailableError, match=r"its keyring is not open: set ORCAS_MASTER_KEY or [^`]*$"):
        await snapshot_of(tmp_path)
    for path in [*tmp_path.glob("control.db*"), *tmp_path.glob("control.key*")]:
        path.unlink()
    with pytest.raises(UnavailableError, match=r"control\.db and its copy are missing"):
        await snapshot_of(tmp_path, sealer=another)
    give_up(tmp_path, find_lost(tmp_path))
    with pytest.raises(UnavailableError, match="ORCAS_ROOT_ACCESS_KEY"):
        await snapshot_of(tmp_path, sealer=another)
    operators = await snapshot_of(tmp_path, "operator", "operators-secret", another)
    assert operators.accounts == first.accounts


async def test_a_sealed_pair_is_given_only_to_those_who_have_the_master_key(tmp_path: Path) -> None:
    sealer = OneKey()
    async with control_of(tmp_path, sealer=sealer) as control:
        pair = control.root.access_key, control.root.secret_key
        assert root_pair(tmp_path, "mine", "my-own-secret", lambda: sealer) == pair
    assert root_pair(tmp_path, None, None, lambda: sealer) == pair
    assert pair_of(tmp_path, "mine", "my-own-secret") == ("mine", "my-own-secret")
    with pytest.raises(ConfigurationError, match="is sealed: set ORCAS_MASTER_KEY"):
        pair_of(tmp_path, None, None)


async def test_a_full_disk_puts_sealing_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before, sealer = await snapshot_of(tmp_path), OneKey()

    def full(path: Path, _: bytes) -> None:
        raise UnavailableError(f"{path} cannot be written: No space left on device.")

    with monkeypatch.context() as patched:
        patched.setattr("orcas.control.files.twice.write_secret_file", full)
        assert await snapshot_of(tmp_path, sealer=sealer) == before
    assert "control.key is not sealed yet" in caplog.text
    assert "root.json is not sealed yet" in caplog.text
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    assert "access_key" not in (tmp_path / "root.json").read_text()


def test_threads_note_the_keyring_at_the_same_time(tmp_path: Path) -> None:
    owner = ensure_owner(tmp_path, established=False)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(4):
            list(threads.map(lambda generation: note_keyring(tmp_path, generation), range(1, 41)))
            (tmp_path / "root.json").write_text(json.dumps({"owner": owner}))
            (tmp_path / "root.json.copy").unlink()
        list(threads.map(lambda generation: note_keyring(tmp_path, generation), reversed(range(1, 41))))
    assert noted_keyring(tmp_path) == 40


def test_a_secret_opens_with_what_sealed_it_alone() -> None:
    cipher = Cipher([bytes(range(32))])
    nonce, sealed = cipher.encrypt("AK", "owner", "geheim ä")
    # Another implementation of AES-256-GCM, which stores of before were written with.
    other = AESGCM(bytes(range(32)))
    assert other.decrypt(nonce, sealed, b"owner:AK") == "geheim ä".encode()
    assert cipher.decrypt("AK", "owner", nonce, other.encrypt(nonce, b"x", b"owner:AK")) == "x"
    old = Cipher([bytes(32), bytes(range(32))])
    assert old.decrypt("AK", "owner", nonce, sealed) == "geheim ä"
    flipped = bytes((sealed[0] ^ 1, *sealed[1:]))
    for broken in (
        (cipher, "AK", "other", nonce, sealed), (cipher, "BK", "owner", nonce, sealed),
        (cipher, "AK", "owner", nonce, flipped), (cipher, "AK", "owner", nonce, sealed[:8]),
        (cipher, "AK", "owner", nonce[:11], sealed), (cipher, "AK", "owner", b"", b""),
        (old.without_old(), "AK", "owner", nonce, sealed),
    ):  # fmt: skip
        with pytest.raises(UnavailableError, match="cannot be decrypted"):
            broken[0].decrypt(*broken[1:])
