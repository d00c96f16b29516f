"""Starts on a disk without a free byte: the server starts, reads, lists, deletes and reclaims, and accepts writes again
once deletions have made room. Nothing else frees space meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Answer, Signer

import orcas

from .disks import KINDS, MIB, eat, free, mounted

pytestmark = pytest.mark.crash

BUCKET = "full"
# More than the ballast, so that the disk stays full when the store gives that up.
RESERVE = 16 * MIB
# Two log files, content, and the ballast.
SIZE = 128 * MIB
SMALL = MIB // 2
LARGE = 3 * MIB
# Each takes some seconds, so half of them run only with FULL_DISKS=all.
WAYS = [("tmpfs", "kill"), ("ext4", "stop")]
if os.environ.get("FULL_DISKS") == "all":
    WAYS = list(itertools.product(KINDS, ("stop", "kill")))
# The small ones are in the log and almost fill its file, so the next file is needed soon.
OBJECTS = {f"small-{n}": SMALL for n in range(31)} | {f"large-{n}": LARGE for n in range(9)}


class Client:
    """A server on the full disk, and requests to it."""

    def __init__(self, data: Path, reserve: int = RESERVE, **settings: object) -> None:
        self.server = orcas.Server(data, disk_reserve=reserve, max_batch_write_file_size=SMALL, **settings)
        self.signer = Signer.of(self.server)

    def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        return self.signer.roundtrip(self.signer.request(method, f"/{BUCKET}{path}", body=body))

    def put(self, name: str, size: int) -> Answer:
        return self.ask("PUT", f"/{name}", content_of(name, size))

    def health(self, check: str = "ready") -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(f"{self.server.endpoint}/_orcas/health/{check}") as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def has(self, objects: dict[str, int]) -> None:
        """Every object is listed, and some are read."""
        page = self.ask("GET", "")
        assert page.status == 200
        assert set(re.findall(r"<Key>([^<]*)<", page.body.decode())) == set(objects)
        for name in sorted(objects)[::5]:
            assert self.ask("GET", f"/{name}").body == content_of(name, objects[name])

    def is_full(self) -> None:
        status, said = self.health()
        assert (status, said["status"], said["writable"]) == (200, "full", False)
        assert "ORCAS_DISK_RESERVE" in str(said["reason"])
        assert self.health("writable") == (503, said)
        refused = self.put("refused", 1000)
        assert (refused.status, refused.code) == (503, "ServiceUnavailable")
        assert b"ORCAS_DISK_RESERVE" in refused.body

    def takes(self, name: str, size: int, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while (answer := self.put(name, size)).status != 200:
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)


def waits_for(client: Client, said: str) -> None:
    """Until the end of its log has a line: it looks at the disk every five seconds."""
    deadline = time.monotonic() + 60
    while said not in client.server._tail():
        assert time.monotonic() < deadline, client.server._tail()
        time.sleep(0.1)


def filled(data: Path) -> Client:
    """A server whose store has everything that a start reads, and a log file that is almost full."""
    client = Client(data)
    client.ask("PUT", "")
    for name, size in OBJECTS.items():
        assert client.put(name, size).status == 200
    # The spare log file and the ballast are made in the background; the tests rely on both.
    deadline = time.monotonic() + 60
    while len(list((data / "log").iterdir())) < 2 or not (data / "ballast").exists():
        assert time.monotonic() < deadline, sorted(data.rglob("*"))
        time.sleep(0.05)
    return client


def end(client: Client, kind: str, small: Path) -> None:
    """Stop the server and fill whatever space it frees."""
    if kind == "kill":
        client.server.kill()
    else:
        client.server.stop()
    eat(small)
    assert free(small) == 0


@pytest.mark.parametrize(("kind", "ending"), WAYS)
def test_a_full_disk_is_started_on_and_emptied(tmp_path: Path, kind: str, ending: str) -> None:
    with mounted(tmp_path, SIZE, kind) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        left = dict(OBJECTS)
        client = filled(data)
        stack.callback(lambda: client.server.kill())
        eat(small)
        client.is_full()
        end(client, ending, small)
        client = Client(data)
        client.is_full()
        client.has(left)
        for name in [*(f"small-{n}" for n in range(12)), *(f"large-{n}" for n in range(3))]:
            assert client.ask("DELETE", f"/{name}").status == 204
            del left[name]
        client.has(left)
        # Fill the space that this freed as well.
        end(client, ending, small)
        client = Client(data)
        client.has(left)
        for name in [*(f"small-{n}" for n in range(12, 28)), *(f"large-{n}" for n in range(3, 9))]:
            assert client.ask("DELETE", f"/{name}").status == 204
            del left[name]
        document("gc", "--data", data)
        client.takes("again", SMALL)
        client.has(left | {"again": SMALL})
        assert client.health() == (200, {"status": "ok", "writable": True, "durability": "sync"})
        client.server.stop()
        assert document("fsck", "--data", data)["losses_total"] == 0


def test_somebody_takes_every_byte_that_becomes_free(tmp_path: Path) -> None:
    """The store gives up its ballast and cannot restore it: it still starts, again and again."""
    with mounted(tmp_path, SIZE) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        left = dict(OBJECTS)
        client = filled(data)
        stack.callback(lambda: client.server.kill())
        for turn, ending in enumerate(["stop", "kill", "stop"]):
            eat(small)
            end(client, ending, small)
            client = Client(data)
            eat(small)
            client.is_full()
            for name in (f"small-{n}" for n in range(10 * turn, 10 * turn + 10)):
                assert client.ask("DELETE", f"/{name}").status == 204
                del left[name]
            client.has(left)
        (small / "filler").unlink()
        client.takes("again", LARGE)
        client.has(left | {"again": LARGE})


def test_everything_but_new_content_works_on_a_full_disk(tmp_path: Path) -> None:
    """What docs/operations/full-disk.md promises."""
    with mounted(tmp_path, SIZE) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        client = Client(data, log_level="info")
        stack.callback(lambda: client.server.kill())
        s3 = client.server.client()
        s3.create_bucket(Bucket=BUCKET)
        for name in ("a", "b", "c"):
            s3.put_object(Bucket=BUCKET, Key=name, Body=content_of(name, SMALL))
        begun = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")
        upload = {"Bucket": BUCKET, "Key": "parts", "UploadId": begun["UploadId"]}
        s3.upload_part(**upload, PartNumber=1, Body=b"x" * (5 * MIB))
        filler = eat(small)
        client.is_full()
        waits_for(client, "The store is full")
        for refused in (
            lambda: s3.create_bucket(Bucket="another"),
            lambda: s3.upload_part(**upload, PartNumber=2, Body=b"x"),
            lambda: s3.create_multipart_upload(Bucket=BUCKET, Key="more"),
        ):
            with pytest.raises(ClientError, match="ServiceUnavailable"):
                refused()
        s3.copy_object(Bucket=BUCKET, Key="copied", CopySource={"Bucket": BUCKET, "Key": "a"})
        s3.rename_object(Bucket=BUCKET, Key="renamed", RenameSource="b")
        command("snapshot", "create", BUCKET, "before", "--data", data)
        s3.delete_object(Bucket=BUCKET, Key="c")
        s3.abort_multipart_upload(**upload)
        assert [row["Key"] for row in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["a", "copied", "renamed"]
        assert s3.get_object(Bucket=BUCKET, Key="copied")["Body"].read() == content_of("a", SMALL)
        assert s3.get_object(Bucket=BUCKET, Key="renamed")["Body"].read() == content_of("b", SMALL)
        snapshots = document("snapshot", "list", BUCKET, "--data", data)["snapshots"]
        assert [entry["name"] for entry in snapshots] == ["before"]
        document("stats", "--data", data)
        document("gc", "--data", data)
        document("compact", "--data", data)
        assert re.search(
            "status=503 code=ServiceUnavailable operation=PutObject bucket=full key=refused .*ORCAS_DISK_RESERVE",
            client.server._tail(),
        )
        filler.unlink()
        client.takes("more", SMALL)
        waits_for(client, "The store is healthy again and accepts writes")


def test_a_smaller_reserve_accepts_writes_at_once(tmp_path: Path) -> None:
    with mounted(tmp_path, SIZE) as small, contextlib.ExitStack() as stack:
        client = Client(small / "store")
        stack.callback(lambda: client.server.kill())
        client.ask("PUT", "")
        deadline = time.monotonic() + 60
        while not (small / "store" / "ballast").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        eat(small, RESERVE - 2 * MIB)
        client.is_full()
        client.server.stop()
        client = Client(small / "store", reserve=MIB)
        assert client.put("first", SMALL).status == 200


def test_eight_mebibytes_and_the_size_of_the_index_are_enough_to_rebuild_it(tmp_path: Path) -> None:
    """Without a ballast."""
    with mounted(tmp_path, SIZE) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        client = filled(data)
        stack.callback(lambda: client.server.kill())
        client.server.kill()
        (data / "ballast").unlink()
        room = 8 * MIB
        for path in data.glob("index.db*"):
            room += path.stat().st_size
            path.unlink()
        eat(small, room)
        client = Client(data)
        client.is_full()
        client.has(OBJECTS)
