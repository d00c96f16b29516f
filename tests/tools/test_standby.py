"""A standby: what it shows of the server that it follows, what it refuses, and what is left when one of the two is lost."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.commands import command, document
from tests.fixtures.marks import full
from tests.fixtures.targets import Target, content, keys_of, read, refusal
from tests.fixtures.waiting import wait_until
from tests.tools.conftest import BUCKET, fill

from orcas.settings.config import child_environment

Serve = Callable[..., AbstractContextManager[Target]]


@dataclass
class Standby:
    """A standby in a process of its own."""

    process: subprocess.Popen[bytes]
    url: str
    client: Any
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def key_variables(target: Target) -> dict[str, str]:
    server = target.server
    return {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}


@contextlib.contextmanager
def following(target: Target, directory: Path, **variables: str) -> Iterator[Standby]:
    """A standby of a server, in `directory`."""
    log = directory.with_suffix(".log")
    words = ["standby", "--from", target.server.endpoint, "--data", str(directory), "-p", "0"]
    with log.open("ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "orcas", *words], stdout=subprocess.PIPE, stderr=err,
            env=child_environment() | key_variables(target) | variables,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("orcas ready "), log.read_text()
        url = line.split()[-1]
        keys = key_variables(target)
        client = boto3.client(
            "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"], config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
        yield Standby(process, url, client, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def caught_up(target: Target, standby: Standby) -> None:
    """Wait until the standby shows what the server has acknowledged by now."""
    mark = f"mark/{random.randrange(1 << 60)}"
    target.client().put_object(Bucket=BUCKET, Key=mark)

    def shown() -> bool:
        with contextlib.suppress(standby.client.exceptions.ClientError):
            standby.client.head_object(Bucket=BUCKET, Key=mark)
            return True
        return False

    assert wait_until(shown), standby.log.read_text()


def assert_same(target: Target, standby: Standby) -> None:
    """Every version of every bucket, and every body."""
    ours, theirs = standby.client, target.client()
    for bucket in theirs.list_buckets()["Buckets"]:
        name = bucket["Name"]
        listed = [
            [
                (entry["Key"], entry["VersionId"], entry.get("ETag"), entry["LastModified"])
                for page in client.get_paginator("list_object_versions").paginate(Bucket=name)
                for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            ]
            for client in (ours, theirs)
        ]
        assert listed[0] == listed[1], name
        for key in keys_of(theirs, name):
            assert read(ours, name, key) == read(theirs, name, key), key


def files_of(directory: Path) -> set[str]:
    return {f"{folder}/{path.name}" for folder in ("log", "chunks") for path in (directory / folder).iterdir()}


def test_a_standby_shows_what_the_server_has(serve: Serve, tmp_path: Path) -> None:
    with serve() as target:
        client = target.client()
        before = fill(target, range(20))
        with following(target, tmp_path / "copy") as standby:
            after = fill(target, range(20, 40))
            client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
            for key in [*before][::3]:
                client.delete_object(Bucket=BUCKET, Key=key)
            client.put_object(Bucket=BUCKET, Key="k/0001", Body=b"anew", Tagging="a=b")
            client.create_bucket(Bucket="second")
            client.copy_object(Bucket="second", Key="k", CopySource={"Bucket": BUCKET, "Key": [*after][4]})
            caught_up(target, standby)
            assert_same(target, standby)
            assert standby.client.get_object_tagging(Bucket=BUCKET, Key="k/0001")["TagSet"] == [
                {"Key": "a", "Value": "b"}
            ]
            refused = refusal(standby.client.put_object, Bucket=BUCKET, Key="k/0001", Body=b"here")
            assert refused == (403, "AccessDenied")
            shown = document("status", "--endpoint", standby.url, **key_variables(target))
            assert shown["standby"]["url"] == target.server.endpoint
            assert shown["standby"]["behind_sec"] < 30
            assert shown["wrong"] == []
            told = command("status", "--data", tmp_path / "copy")
            assert f"standby of {target.server.endpoint} up to record " in told
            assert "in use by another process" in command("promote", "--data", tmp_path / "copy", code=69)
            command("stop", "--data", tmp_path / "copy")
            assert standby.process.wait(60) == 0


def test_compaction_of_the_server_is_followed(serve: Serve, data: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    with serve() as target, following(target, directory) as standby:
        client = target.client()
        for turn in range(3):
            fill(target, range(turn * 100, turn * 100 + 100))
            for key in keys_of(client, BUCKET)[::2]:
                client.delete_object(Bucket=BUCKET, Key=key)
            caught_up(target, standby)
            document("compact", "--data", data)
            caught_up(target, standby)
            assert_same(target, standby)
        # What the server has removed goes here too, once nobody reads it.
        target.client().put_object(Bucket=BUCKET, Key="last")
        assert wait_until(lambda: files_of(directory) <= files_of(data)), files_of(directory) - files_of(data)
    # A start looks at nothing that was there.
    with serve() as target, following(target, directory) as standby:
        caught_up(target, standby)
        assert_same(target, standby)
        assert "rebuilt" not in standby.log.read_text().rpartition("Stopped")[2]


def test_a_promoted_standby_is_the_store(serve: Serve, data: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    with serve() as target:
        bodies = fill(target, range(30))
        root = target.server.access_key
        command("user", "create", "ann", "--data", data)
        command("user", "attach", "ann", "AmazonS3ReadOnlyAccess", "--data", data)
        key = document("access-key", "create", "ann", "--data", data)["AccessKey"]
        with following(target, directory) as standby:
            caught_up(target, standby)
    assert "orcas promote" in command("serve", "--data", directory, code=69)
    assert "orcas promote" in command("fsck", "--repair", "--data", directory, code=69)
    assert document("fsck", "--data", directory)["clean"]
    assert "is a store of its own now" in command("promote", "--data", directory)
    assert document("fsck", "--data", directory)["clean"]
    assert "is no standby" in command("promote", "--data", directory, code=69)
    with serve(directory) as copy:
        assert copy.server.access_key == root
        for name, body in bodies.items():
            assert read(copy.client(), BUCKET, name) == body
        copy.client().put_object(Bucket=BUCKET, Key="new", Body=b"new")
        ann = boto3.client(
            "s3", endpoint_url=copy.server.endpoint, region_name="us-east-1",
            aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"],
        )  # fmt: skip
        assert read(ann, BUCKET, "new") == b"new"
        assert refusal(ann.put_object, Bucket=BUCKET, Key="new") == (403, "AccessDenied")


def test_sealed_content_is_read_on_a_standby_with_the_master_key(serve: Serve, tmp_path: Path) -> None:
    key = base64.b64encode(bytes(32)).decode()
    master = {"ORCAS_MASTER_KEY": key}
    with serve(master_key=key, encrypt_by_default=True) as target:
        target.client().create_bucket(Bucket="sealed")
        with following(target, tmp_path / "copy", **master) as standby:
            fill(target, range(10), "sealed")
            caught_up(target, standby)
            assert_same(target, standby)


def test_damage_to_keys_of_the_server_does_not_reach_a_standby(serve: Serve, data: Path, tmp_path: Path) -> None:
    """Both copies of each are damaged while the server runs, which has them in memory."""
    names = ("store.keys", "store.keys.copy", "keyring", "keyring.copy")
    copy = tmp_path / "copy"
    key = base64.b64encode(bytes(32)).decode()
    with serve(master_key=key, encrypt_by_default=True) as target:
        target.client().create_bucket(Bucket="sealed")
        bodies = fill(target, range(5), "sealed")
        with following(target, copy, ORCAS_MASTER_KEY=key) as standby:
            caught_up(target, standby)
        intact = {name: (copy / name).read_bytes() for name in names}
        for name in names:
            (data / name).write_bytes(bytes(len(intact[name])))
        with following(target, copy, ORCAS_MASTER_KEY=key) as standby:
            caught_up(target, standby)
            assert all(read(standby.client, "sealed", name) == body for name, body in bodies.items())
        assert {name: (copy / name).read_bytes() for name in names} == intact


def test_who_cannot_be_followed(serve: Serve, data: Path, tmp_path: Path) -> None:
    with serve() as target:
        keys = key_variables(target)
        wrong = keys | {"AWS_SECRET_ACCESS_KEY": "x" * 40}
        source = ("standby", "--from", target.server.endpoint, "--data")
        away = ("--from", "http://127.0.0.1:9", "--data")
        assert "refused the key" in subprocess_error(*source, str(tmp_path / "a"), code=1, **wrong)
        assert "--from must be http" in subprocess_error(
            "standby", "--from", "ftp://x", "--data", str(tmp_path / "a"), code=2
        )
        # What went wrong the first time does not keep it from working later.
        with following(target, tmp_path / "a") as standby:
            caught_up(target, standby)
        full_of_others = tmp_path / "b"
        full_of_others.mkdir()
        (full_of_others / "letter").write_text("dear")
        assert "holds other files" in subprocess_error(*source, str(full_of_others), **keys)
        with serve(tmp_path / "c"):
            pass
        assert "has a store of its own" in subprocess_error(*source, str(tmp_path / "c"), **keys)
        with following(target, tmp_path / "d") as standby:
            caught_up(target, standby)
            # A standby has no standby.
            chained = subprocess_error("standby", "--from", standby.url, "--data", str(tmp_path / "e"), code=1, **keys)
            assert "follow the store itself" in chained
        with serve(tmp_path / "other") as other:
            there = ("--from", other.server.endpoint, "--data", str(tmp_path / "d"))
            stale = subprocess_error("standby", *there, code=78, **key_variables(other))
            assert "another store" in stale
        for name in ("store.keys", "store.keys.copy"):
            (tmp_path / "d" / name).unlink()
        assert "cannot be opened" in subprocess_error("standby", *away, str(tmp_path / "d"), **keys)
        nowhere = subprocess_error("standby", *away, str(tmp_path / "f"), **keys)
        assert "cannot be reached" in nowhere
        assert "no complete copy" in command("promote", "--data", tmp_path / "f", code=69)
    assert "name the server to follow with --from" in command("standby", "--data", tmp_path / "new", code=2)


def test_a_server_with_another_log_is_not_followed(serve: Serve, data: Path, tmp_path: Path) -> None:
    """One that was restored, and one that was promoted from a copy that had less. The copy stays as it is."""
    first, second = tmp_path / "first", tmp_path / "second"
    with serve() as target:
        port = int(target.server.endpoint.rpartition(":")[2])
        fill(target, range(10))
        with following(target, second) as standby:
            caught_up(target, standby)
        keys = key_variables(target)
    shutil.copytree(data, tmp_path / "old")
    with serve(port=port) as target:
        bodies = fill(target, range(10, 20))
        with following(target, first) as standby:
            caught_up(target, standby)
    before = {path.name: path.read_bytes() for path in (first / "log").iterdir()}
    refused = ("standby", "--data", str(first))
    with serve(tmp_path / "old", port=port) as restored:
        assert "cannot be followed" in subprocess_error(*refused, code=78)
        # Later it has more, and not the same.
        fill(restored, range(100, 140))
        assert "promote this one instead" in subprocess_error(*refused, code=78)
    command("promote", "--data", second)
    with serve(second) as promoted:
        fill(promoted, range(200, 240))
        there = ("standby", "--from", promoted.server.endpoint, "--data", str(first))
        assert "cannot be followed" in subprocess_error(*there, code=78, **keys)
    assert {path.name: path.read_bytes() for path in (first / "log").iterdir()} == before
    command("promote", "--data", first)
    assert document("fsck", "--data", first)["clean"]
    with serve(first) as copy:
        assert all(read(copy.client(), BUCKET, key) == body for key, body in bodies.items())


def subprocess_error(*words: str, code: int = 69, **variables: str) -> str:
    """Run a command that must end by itself. Its last line of stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "orcas", *words, "-p", "0"], env=child_environment() | variables,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stderr.splitlines()[-1]


def test_without_its_server_a_standby_serves_and_catches_up_later(serve: Serve, data: Path, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    with serve() as target:
        before = fill(target, range(10))
        with following(target, directory) as standby:
            caught_up(target, standby)
        endpoint, keys = target.server.endpoint, key_variables(target)
    # By the address that the copy knows.
    process = subprocess.Popen(
        [sys.executable, "-m", "orcas", "standby", "--data", str(directory), "-p", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment(),
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().split()[-1]
        client = boto3.client(
            "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        )  # fmt: skip
        assert read(client, BUCKET, "k/0003") == before["k/0003"]
        shown = document("status", "--endpoint", url, code=1, **keys)
        assert shown is not None
        with serve(port=int(endpoint.rpartition(":")[2])) as again:
            again.client().put_object(Bucket=BUCKET, Key="later", Body=b"later")
            assert wait_until(lambda: "later" in keys_of(client, BUCKET))
        process.terminate()


@pytest.mark.parametrize("seed", [0, 1, *full(*range(2, 20))])
def test_whatever_is_killed_a_promoted_standby_has_a_beginning_of_what_was_written(
    seed: int, serve: Serve, data: Path, tmp_path: Path
) -> None:
    """One writer counts. The copy has its numbers without a gap, and all that were acknowledged a while before the end."""
    dice = random.Random(seed)
    directory = tmp_path / "copy"
    acknowledged: list[tuple[float, int]] = []
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(serve())
        end = threading.Event()

        def write() -> None:
            client = target.server.client(config=Config(retries={"total_max_attempts": 1}))
            at = 0
            with contextlib.suppress(Exception):
                while not end.is_set():
                    client.put_object(Bucket=BUCKET, Key=f"n/{at:06}", Body=content(dice_size(seed, at), at))
                    acknowledged.append((time.monotonic(), at))
                    at += 1

        writer = threading.Thread(target=write)
        writer.start()
        stack.callback(writer.join)
        stack.callback(end.set)
        for _ in range(3):
            with following(target, directory) as standby:
                time.sleep(dice.uniform(0.05, 1.5))
                if dice.random() < 0.7:
                    standby.kill()
        with following(target, directory) as standby:
            sure = len(acknowledged)
            caught_up(target, standby)
            time.sleep(dice.uniform(0.0, 1.0))
            if dice.random() < 0.5:
                target.server.kill()
            time.sleep(dice.uniform(0.0, 0.5))
            standby.kill()
        end.set()
        with contextlib.suppress(Exception):
            writer.join()
    command("promote", "--data", directory)
    assert document("fsck", "--data", directory)["clean"], seed
    with serve(directory) as copy:
        numbers = [int(key.removeprefix("n/")) for key in keys_of(copy.client(), BUCKET) if key.startswith("n/")]
        assert numbers == list(range(len(numbers))), seed
        assert len(numbers) >= sure - 1, seed
        for at in numbers[-20:]:
            assert read(copy.client(), BUCKET, f"n/{at:06}") == content(dice_size(seed, at), at), (seed, at)


def dice_size(seed: int, at: int) -> int:
    return (10, 400, 6_000, 90_000)[(seed + at) % 4]


def test_the_metrics_say_how_far_it_is_behind(serve: Serve, tmp_path: Path) -> None:
    import urllib.request

    with serve() as target, following(target, tmp_path / "copy") as standby:
        caught_up(target, standby)
        with urllib.request.urlopen(f"{standby.url}/_orcas/metrics") as answer:
            page = answer.read().decode()
        with urllib.request.urlopen(f"{standby.url}/_orcas/health/ready") as answer:
            health = json.loads(answer.read())
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(lines["orcas_standby_behind_seconds"]) < 30
    assert int(lines["orcas_standby_sequence"]) > 0
    assert health["status"] == "read-only"
    assert "standby" in health["reason"]
