"""The keyring as operators meet it: created, changed, damaged, backed up, and needed by a start."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.marks import full
from tests.fixtures.targets import Target, read
from tests.tools.conftest import BUCKET, fill

import orcas
from orcas.admin.schedule import TaskError
from orcas.engine import Keyring, Refusal
from orcas.settings.config import child_environment

Serve = Callable[..., AbstractContextManager[Target]]

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
PASSPHRASE = "correct horse battery staple"
FILES = ("keyring", "keyring.copy")


def keyring(data: Path) -> list[bytes]:
    return [(data / name).read_bytes() for name in FILES]


def damage(data: Path, *names: str) -> None:
    for name in names:
        content = bytearray((data / name).read_bytes())
        content[60] ^= 1
        (data / name).write_bytes(content)


def listed(data: Path, **variables: str) -> dict[str, Any]:
    found = document("key", "list", "--data", data, **variables)
    return {key["name"]: key for key in found["keys"]}


@pytest.fixture
def store(serve: Serve, data: Path) -> Path:
    """A store with a few objects and a keyring, that nobody serves."""
    with serve(master_key=KEY) as target:
        fill(target, range(5))
    return data


def test_a_start_with_a_master_key_creates_the_keyring_and_later_ones_need_it(serve: Serve, data: Path) -> None:
    with serve() as target:
        bodies = fill(target, range(5))
    assert not any((data / name).exists() for name in FILES)
    with serve(master_key=KEY):
        pass
    first, second = keyring(data)
    assert first == second
    assert all((data / name).stat().st_mode & 0o777 == 0o600 for name in FILES)
    sentence = command("serve", "--data", data, "--port", "0", code=78)
    assert "ORCAS_MASTER_KEY" in sentence
    assert "no master key was given" in sentence
    sentence = command("serve", "--data", data, "--port", "0", code=78, ORCAS_MASTER_KEY=OTHER)
    assert "not the one that" in sentence
    assert OTHER not in sentence
    sentence = command("serve", "--data", data, "--port", "0", code=78, ORCAS_MASTER_PASSPHRASE=PASSPHRASE)
    assert "a passphrase was given" in sentence
    assert PASSPHRASE not in sentence
    assert keyring(data) == [first, second]
    with serve(master_key=KEY) as target:
        assert {key: read(target.client(), BUCKET, key) for key in bodies} == bodies


def test_a_server_that_is_to_encrypt_everything_needs_a_keyring(serve: Serve, data: Path) -> None:
    default = {"ORCAS_ENCRYPT_BY_DEFAULT": "true"}
    sentence = command("serve", "--data", data, "--port", "0", code=78, **default)
    assert "ORCAS_ENCRYPT_BY_DEFAULT needs a keyring: set ORCAS_MASTER_KEY" in sentence
    assert not data.exists(), "nothing is left, such as a root key that nothing has sealed"
    with serve(master_key=KEY, encrypt_by_default=True) as target:
        fill(target, range(5))
    # Commands that store nothing do not need it.
    assert document("stats", "--data", data, **default)["buckets"][0]["objects"] == 5


def test_a_check_of_an_intact_keyring_logs_nothing(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orcas", "fsck", "--data", str(store)],
        env=child_environment() | {"ORCAS_MASTER_KEY": KEY}, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert ["findings", "0"] in [line.split() for line in done.stdout.splitlines()]
    assert done.stderr == ""


def test_only_a_server_and_key_create_create_a_keyring(serve: Serve, data: Path) -> None:
    with serve():
        pass
    for words in (["stats"], ["gc"]):
        command(*words, "--data", data, ORCAS_MASTER_KEY=KEY)
    sentence = command("key", "list", "--data", data, code=1, ORCAS_MASTER_KEY=KEY)
    assert "has no keyring" in sentence
    assert "has no keyring" in command("key", "create", "--data", data, code=1)
    assert not any((data / name).exists() for name in FILES)
    assert command("key", "create", "--data", data, ORCAS_MASTER_KEY=KEY) == "key orcas/s3 created\n"
    assert list(listed(data, ORCAS_MASTER_KEY=KEY)) == ["orcas/s3"]
    sentence = command("key", "create", "--data", data, code=1, ORCAS_MASTER_KEY=KEY)
    assert "exists" in sentence


def test_commands_that_need_no_key_run_without_one(store: Path) -> None:
    before = keyring(store)
    assert document("stats", "--data", store)["buckets"][0]["objects"] == 5
    assert "no master key was given" in command("key", "list", "--data", store, code=1)
    damage(store, *FILES)
    assert document("stats", "--data", store)["buckets"][0]["objects"] == 5
    sentence = command("serve", "--data", store, "--port", "0", code=69, ORCAS_MASTER_KEY=KEY)
    assert "no copy of the keyring can be read" in sentence
    assert "restore keyring" in sentence
    assert keyring(store) != before


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_copy_is_replaced_at_the_next_start(serve: Serve, store: Path, name: str) -> None:
    before = keyring(store)
    damage(store, name)
    with serve(master_key=KEY):
        pass
    assert keyring(store) == before


def test_keys_of_a_running_server_change(serve: Serve, data: Path) -> None:
    key = {"ORCAS_MASTER_KEY": KEY}
    with serve(master_key=KEY):
        # The root key, with which commands sign, is sealed.
        assert "is sealed: set ORCAS_MASTER_KEY" in command("key", "create", "reports", "--data", data, code=78)
        assert command("key", "create", "reports", "--data", data, **key) == "key reports created\n"
        assert command("key", "rotate", "reports", "--data", data, **key) == "key reports rotated\n"
        assert command("key", "disable", "reports", "--data", data, **key) == "key reports disabled\n"
        keys = listed(data, **key)
        assert {name: (key["state"], key["versions"]) for name, key in keys.items()} == {
            "orcas/s3": ("enabled", 1),
            "reports": ("disabled", 2),
        }
        assert "not in a state" in command("key", "disable", "reports", "--data", data, code=1, **key)
        assert "There is no key" in command("key", "rotate", "nobody", "--data", data, code=1, **key)
        assert "letters, digits" in command("key", "create", "no spaces", "--data", data, code=1, **key)
    # The same keys without the server, and by id.
    command("key", "enable", keys["reports"]["id"], "--data", data, ORCAS_MASTER_KEY=KEY)
    assert listed(data, ORCAS_MASTER_KEY=KEY)["reports"]["state"] == "enabled"


def test_a_key_is_destroyed_after_a_wait_that_can_be_cancelled(store: Path) -> None:
    key = {"ORCAS_MASTER_KEY": KEY}
    command("key", "create", "old", "--data", store, **key)
    assert "use a terminal, or --yes" in command("key", "destroy", "old", "--data", store, code=2, **key)
    assert "7 to 30" in command("key", "destroy", "old", "--after", "0", "--yes", "--data", store, code=2, **key)
    assert command("key", "destroy", "old", "--yes", "--data", store, **key) == "key old will be destroyed in 7 days\n"
    waiting = listed(store, **key)["old"]
    assert waiting["state"] == "pending destruction"
    assert waiting["destruction"] > waiting["created"]
    assert command("key", "cancel", "old", "--data", store, **key) == "key old is kept, and disabled\n"
    assert command("key", "destroy", "old", "--now", "--yes", "--data", store, **key) == "key old is destroyed\n"
    gone = listed(store, **key)["old"]
    assert (gone["state"], gone["versions"]) == ("destroyed", 0)


def test_the_key_of_content_is_destroyed_only_explicitly(store: Path) -> None:
    key = {"ORCAS_MASTER_KEY": KEY}
    sentence = command("key", "destroy", "orcas/s3", "--now", "--yes", "--data", store, code=1, **key)
    assert "--lose-content" in sentence
    assert listed(store, **key)["orcas/s3"]["state"] == "enabled"
    command("key", "destroy", "orcas/s3", "--now", "--yes", "--lose-content", "--data", store, **key)
    assert listed(store, **key)["orcas/s3"]["state"] == "destroyed"


@pytest.mark.parametrize("running", [True, *full(False)])
def test_another_master_key_takes_over(serve: Serve, store: Path, tmp_path: Path, running: bool) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text(f"{PASSPHRASE}\n")
    words = ("key", "set-master", "--passphrase-file", secret, "--data", store)
    told = "master key changed: the next start needs the new one\n"
    if running:
        with serve(master_key=KEY):
            assert command(*words, ORCAS_MASTER_KEY=KEY) == told
    else:
        assert command(*words, ORCAS_MASTER_KEY=KEY) == told
    assert "was sealed with a passphrase" in command(
        "serve", "--data", store, "--port", "0", code=78, ORCAS_MASTER_KEY=KEY
    )
    with serve(master_passphrase=PASSPHRASE) as target:
        assert len(target.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 5


@pytest.mark.full
def test_scrypt_is_raised_with_the_passphrase(serve: Serve, store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text(PASSPHRASE)
    words = ("key", "set-master", "--passphrase-file", secret, "--data", store)
    for wrong in ("16384", "40000", "2097152"):
        assert "power of two" in command(*words, "--scrypt-n", wrong, code=2, ORCAS_MASTER_KEY=KEY)
    command(*words, "--scrypt-n", "65536", ORCAS_MASTER_KEY=KEY)
    with serve(master_passphrase=PASSPHRASE, key_cache_entries=1, key_cache_sec=0) as target:
        assert len(target.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 5
        key = {"ORCAS_MASTER_PASSPHRASE": PASSPHRASE}
        assert json.loads(command("key", "list", "--json", "--data", store, **key))["scrypt_n"] == 65536
        # Another passphrase keeps it.
        secret.write_text("another passphrase")
        command(*words, **key)
        key = {"ORCAS_MASTER_PASSPHRASE": "another passphrase"}
        assert json.loads(command("key", "list", "--json", "--data", store, **key))["scrypt_n"] == 65536


def test_a_backup_has_the_keyring_and_keeps_a_good_one(serve: Serve, store: Path, tmp_path: Path) -> None:
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    good = keyring(store)
    damage(store, "keyring")
    # It needs no master key, and takes the copy that is whole.
    command("backup", backup, "--data", store)
    damage(store, "keyring.copy")
    command("backup", backup, "--data", store)
    command("restore", backup, "--data", restored)
    assert keyring(restored) == good
    with serve(restored, master_key=KEY) as target:
        assert len(target.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 5
    sentence = command("backup", tmp_path / "another", "--data", store, code=69)
    assert "Both copies of the keyring" in sentence


def test_an_older_keyring_does_not_replace_that_of_a_backup(store: Path, tmp_path: Path) -> None:
    old = keyring(store)
    command("key", "rotate", "orcas/s3", "--data", store, ORCAS_MASTER_KEY=KEY)
    new = keyring(store)
    command("backup", tmp_path / "backup", "--data", store)
    for name, content in zip(FILES, old, strict=True):
        (store / name).write_bytes(content)
    sentence = command("backup", tmp_path / "backup", "--data", store, code=69)
    assert "of generation 2, older than" in sentence
    assert "of generation 3" in sentence
    command("restore", tmp_path / "backup", "--data", tmp_path / "restored")
    assert keyring(tmp_path / "restored") == new


def test_an_older_keyring_that_was_put_back_only_reads_until_it_is_accepted(
    serve: Serve, data: Path, tmp_path: Path
) -> None:
    key, sealed = {"ORCAS_MASTER_KEY": KEY}, {"Bucket": BUCKET, "ServerSideEncryption": "AES256"}
    with serve(master_key=KEY) as target:
        target.client().create_bucket(Bucket=BUCKET)
        target.client().put_object(Key="old", Body=b"old", **sealed)
        old = keyring(data)
        command("key", "create", "reports", "--data", data, **key)
    newer = keyring(data)
    command("backup", tmp_path / "backup", "--data", data)
    for name, content in zip(FILES, old, strict=True):
        (data / name).write_bytes(content)

    with serve(master_key=KEY) as target:
        assert read(target.client(), BUCKET, "old") == b"old"
        target.client().put_object(Bucket=BUCKET, Key="plain", Body=b"plain")
        with pytest.raises(ClientError) as refused:
            target.client().put_object(Key="new", Body=b"new", **sealed)
        assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
    sentence = command("key", "rotate", "orcas/s3", "--data", data, code=1, **key)
    assert "orcas key accept-older" in sentence
    assert keyring(data) == old

    assert "newer copies are no longer valid" in command("key", "accept-older", "--data", data, **key)
    assert "is not older" in command("key", "accept-older", "--data", data, code=1, **key)
    with serve(master_key=KEY) as target:
        target.client().put_object(Key="new", Body=b"new", **sealed)
    # The keys that only the newer copy has are not lost: the target has it beside the one that replaced it.
    for _ in range(2):
        command("backup", tmp_path / "backup", "--data", data)
    restored = tmp_path / "restored"
    command("restore", tmp_path / "backup", "--data", restored)
    assert keyring(restored) == keyring(data)
    assert [path.read_bytes() for path in restored.glob("keyring.[0-9]*")] == newer[:1]
    # Nor does the newer copy come back unnoticed.
    for name, content in zip(FILES, newer, strict=True):
        (restored / name).write_bytes(content)
    assert "accept-older" in command("key", "rotate", "orcas/s3", "--data", restored, code=1, **key)


def test_a_key_that_cannot_be_stored_is_not_a_refusal_of_access(serve: Serve, data: Path) -> None:
    with serve(master_key=KEY) as target:
        client = target.client()
        client.create_bucket(Bucket=BUCKET)
        # In the place of the draft, so that neither file can be replaced.
        (data / "keyring.draft").mkdir()
        sealed = {"Bucket": BUCKET, "Key": "k", "Body": b"text", "ServerSideEncryption": "AES256"}
        with pytest.raises(ClientError) as refused:
            client.put_object(**sealed)
        assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
        (data / "keyring.draft").rmdir()
        client.put_object(**sealed)
        assert read(client, BUCKET, "k") == b"text"


def test_a_change_without_a_server_makes_the_former_keyring_an_older_one(store: Path) -> None:
    key, old = {"ORCAS_MASTER_KEY": KEY}, keyring(store)
    command("key", "rotate", "orcas/s3", "--data", store, **key)
    for name, content in zip(FILES, old, strict=True):
        (store / name).write_bytes(content)
    sentence = command("key", "create", "reports", "--data", store, code=1, **key)
    assert "of generation 2, and the store has had generation 3" in sentence


def test_a_process_with_a_master_key_writes_no_core_dump(tmp_path: Path) -> None:
    code = (
        "import sys, resource, ctypes, orcas.settings.config as c, orcas.engine as e\n"
        "import orcas.control.identities.snapshot as k\n"
        "s = c.resolve({'data': sys.argv[1], 'master_key': sys.argv[2]}, ambient=False).settings\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)\n"
        "core = e.open_core(s, k.IdentitySnapshot.of_root('a' * 64))\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3) if sys.platform == 'linux' else 0)\n"
        "core.close()\n"
    )
    (tmp_path / "data").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data"), KEY],
        env=child_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "0 0\n"


def test_the_master_key_is_nowhere_in_the_store_or_the_log(store: Path, tmp_path: Path) -> None:
    told = [
        command("key", "list", "--data", store, ORCAS_MASTER_KEY=KEY, ORCAS_LOG_LEVEL="debug"),
        command("config", "show", ORCAS_MASTER_KEY=KEY, ORCAS_LOG_LEVEL="debug"),
        command("config", "show", "--json", ORCAS_MASTER_PASSPHRASE=PASSPHRASE),
        command("serve", "--port", "x", code=2, ORCAS_MASTER_KEY=KEY, ORCAS_LOG_LEVEL="debug"),
    ]
    # What the settings would not take does not become the master key.
    for option, text in {"--key-file": PASSPHRASE, "--passphrase-file": f"a tab\tin {PASSPHRASE}"}.items():
        (tmp_path / "secret").write_text(text)
        words = ("key", "set-master", option, tmp_path / "secret", "--data", store)
        told.append(command(*words, code=1, ORCAS_MASTER_KEY=KEY))
        assert "must be" in told[-1]
    assert not any(secret in text for secret in (KEY, PASSPHRASE) for text in told)
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(secret in content for secret in (KEY.encode(), bytes(range(32)))), path


def test_salvage_needs_no_keyring_and_changes_none(serve: Serve, store: Path) -> None:
    damage(store, "keyring")
    before = keyring(store)
    for settings in ({}, {"master_key": KEY}):
        with serve(salvage=True, **settings) as target:
            assert len(target.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 5
        assert keyring(store) == before


def test_a_lost_keyring_is_not_replaced_by_a_new_one(store: Path) -> None:
    for name in FILES:
        (store / name).unlink()
    for words in (["serve", "--port", "0"], ["key", "create"]):
        sentence = command(*words, "--data", store, code=69, ORCAS_MASTER_KEY=KEY)
        assert "keyring and keyring.copy are missing" in sentence
        assert "with `orcas serve --salvage`" in sentence
    assert document("stats", "--data", store)["buckets"][0]["objects"] == 5
    assert not any((store / name).exists() for name in FILES)


def test_commands_say_that_a_keyring_is_lost(serve: Serve, data: Path) -> None:
    with serve(master_key=KEY, encrypt_by_default=True) as target:
        fill(target, range(5))
    for name in FILES:
        (data / name).unlink()
    for words in (["fsck"], ["key", "list"]):
        said = command(*words, "--data", data, code=1, ORCAS_MASTER_KEY=KEY)
        assert "keyring and keyring.copy are missing" in said


async def test_a_start_recognises_an_older_keyring(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    data.mkdir()
    for warned in (False, True, True):
        app = orcas.create_app(data=data, master_key=KEY)
        caplog.clear()
        async with app.lifespan():
            assert app.store is not None
            assert app.store.parts is not None
            opened = app.store.parts.core.keyring()
            assert isinstance(opened, Keyring)
            assert ("the store has had generation 3" in caplog.text) is warned
            if not warned:
                old = keyring(data)
                opened.rotate("orcas/s3")
        for name, content in zip(FILES, old, strict=True):
            (data / name).write_bytes(content)


async def test_the_upkeep_destroys_what_is_due_and_repeats_what_failed(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data.mkdir()
    app = orcas.create_app(data=data, master_key=KEY)
    async with app.lifespan():
        assert app.store is not None
        assert app.store.parts is not None
        schedule = app.store.parts.schedule
        opened = app.store.parts.core.keyring()
        assert isinstance(opened, Keyring)
        # No file can take the place of a directory.
        (data / "keyring.copy").unlink()
        (data / "keyring.copy").mkdir()
        with pytest.raises(Refusal) as refused:
            opened.rotate("orcas/s3")
        assert refused.value.args[:2] == (503, "KeyringNotStored")
        assert "in one file only" in refused.value.args[2]
        assert opened.list_keys()[0]["versions"] == 2
        for _ in range(2):
            with pytest.raises(TaskError, match="A change of the keyring is incomplete"):
                await schedule.run("keyring")
        assert caplog.text.count("A change of the keyring is incomplete") == 1
        (data / "keyring.copy").rmdir()
        await schedule.run("keyring")
        first, second = keyring(data)
        assert first == second
