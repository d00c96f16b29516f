"""Secrets in the data directory of a store with a master key: access keys, the root key, keys of customers and content."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, read
from tests.tools.conftest import BUCKET, fill

Serve = Callable[..., AbstractContextManager[Target]]

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
PASSPHRASE = "correct horse battery staple"
SEALED = ("root.json", "control.key")


def files(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def assert_nowhere(data: Path, *secrets: bytes) -> None:
    for path, stored in files(data).items():
        assert not [secret for secret in secrets if secret in stored], path


def test_nothing_secret_is_in_the_data_directory_in_clear(serve: Serve, data: Path) -> None:
    customers, root = bytes(range(100, 132)), ""
    bodies = {
        f"{kind}-{size}": f"{kind} text of {size} bytes. ".encode() * size for kind in "abc" for size in (1, 9_000)
    }
    modes = {
        "a": {"ServerSideEncryption": "AES256"},
        "b": {"ServerSideEncryption": "aws:kms"},
        "c": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": customers},
    }
    for _ in range(2):
        with serve(master_key=KEY) as target:
            client, root = target.client(), target.server.secret_key
            for key, body in bodies.items():
                client.put_object(Bucket=BUCKET, Key=key, Body=body, **modes[key[0]])
                opened = {name: value for name, value in modes[key[0]].items() if name.startswith("SSECustomer")}
                assert read(client, BUCKET, key, **opened) == body
            running = files(data)
        texts = [body[:20] for body in bodies.values()]
        keys = [bytes(range(32)), KEY.encode(), customers, base64.b64encode(customers), root.encode()]
        assert_nowhere(data, *texts, *keys)
        for path, stored in running.items():
            assert not [secret for secret in [*texts, *keys] if secret in stored], path


@pytest.mark.full
def test_files_from_before_the_master_key_are_sealed_by_the_next_start(serve: Serve, data: Path) -> None:
    with serve() as target:
        bodies, pair = fill(target, range(3)), (target.server.access_key, target.server.secret_key)
    plain = {name: (data / name).read_bytes() for name in SEALED}
    assert pair[1].encode() in plain["root.json"]
    with serve(master_key=KEY) as target:
        # The key pair stays.
        assert (target.server.access_key, target.server.secret_key) == pair
        assert {key: read(target.client(), BUCKET, key) for key in bodies} == bodies
    assert_nowhere(data, pair[1].encode(), plain["control.key"])
    sealed = {name: (data / name).read_bytes() for name in SEALED}
    with serve(master_key=KEY):
        pass
    assert {name: (data / name).read_bytes() for name in SEALED} == sealed


def test_commands_sign_with_the_sealed_pair_if_they_have_the_master_key(serve: Serve, data: Path) -> None:
    key = {"ORCAS_MASTER_KEY": KEY}
    with serve(master_key=KEY) as target:
        fill(target, range(2))
        pair = {"ORCAS_ROOT_ACCESS_KEY": target.server.access_key, "ORCAS_ROOT_SECRET_KEY": target.server.secret_key}
        for given in (key, pair):
            assert [key["name"] for key in document("key", "list", "--data", data, **given)["keys"]] == ["orcas/s3"]
        sentence = command("stats", "--data", data, code=78)
        assert "is sealed: set ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE" in sentence
        sentence = command("stats", "--data", data, code=78, ORCAS_MASTER_KEY=OTHER)
        assert "not the one that" in sentence
        url = target.server.endpoint
        sentence = command("stats", "--data", data, "--endpoint", url, code=78, ORCAS_MASTER_KEY=OTHER)
        assert "not the one that" in sentence
        # The pair is enough, whatever the master key.
        assert document("key", "list", "--data", data, **pair, ORCAS_MASTER_KEY=OTHER)["keys"]
    before = files(data)
    assert target.server.secret_key in command("env", "--data", data, **key)
    assert "is sealed" in command("env", "--data", data, code=78)
    # A command that has the store to itself needs no pair, and leaves the files alone.
    assert document("stats", "--data", data)["buckets"][0]["objects"] == 2
    after = files(data)
    assert {path: after[path] for path in before if path.name in SEALED} == {
        path: stored for path, stored in before.items() if path.name in SEALED
    }


@pytest.mark.full
def test_another_master_key_and_a_restored_backup_open_what_is_sealed(serve: Serve, data: Path, tmp_path: Path) -> None:
    with serve(master_key=KEY) as target:
        bodies, pair = fill(target, range(3)), (target.server.access_key, target.server.secret_key)
    command("backup", tmp_path / "backup", "--data", data)
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    words = ("key", "set-master", "--passphrase-file", tmp_path / "passphrase", "--data", data)
    sealed = json.loads((data / "root.json").read_text())["sealed"], (data / "control.key").read_bytes()
    command(*words, ORCAS_MASTER_KEY=KEY)
    command("restore", tmp_path / "backup", "--data", tmp_path / "restored")
    for directory, settings in (
        (data, {"master_passphrase": PASSPHRASE}),
        (tmp_path / "restored", {"master_key": KEY}),
    ):
        with serve(directory, **settings) as target:
            assert (target.server.access_key, target.server.secret_key) == pair
            assert {key: read(target.client(), BUCKET, key) for key in bodies} == bodies
    # The keyring was sealed again, and nothing else.
    assert sealed == (json.loads((data / "root.json").read_text())["sealed"], (data / "control.key").read_bytes())


def test_a_start_without_the_key_that_sealed_says_what_to_do(serve: Serve, data: Path) -> None:
    with serve(master_key=KEY) as target:
        fill(target, range(2))
    sealed = {name: (data / name).read_bytes() for name in SEALED}
    for variables in ({}, {"ORCAS_MASTER_KEY": OTHER}):
        sentence = command("serve", "--data", data, "--port", "0", code=78, **variables)
        assert "master key" in sentence
    for name in SEALED:
        damaged = bytearray(sealed[name])
        damaged[-60] ^= 1
        (data / name).write_bytes(damaged)
        (data / f"{name}.copy").unlink()
        sentence = command("serve", "--data", data, "--port", "0", code=69, ORCAS_MASTER_KEY=KEY)
        assert f"{data / name}" in sentence
        assert "restore" in sentence
        (data / name).write_bytes(sealed[name])
    # Salvage has a pair for as long as it runs, with the master key the one that was sealed.
    for settings in ({}, {"master_key": KEY}):
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(serve(salvage=True, **settings))
            assert len(target.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 2
    assert "sealed" in json.loads((data / "root.json").read_text())
