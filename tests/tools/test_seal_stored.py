"""`orcas compact --seal`: what was stored without encryption is sealed, clients see no change, and thieves find nothing."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.checksums import multipart_etag
from tests.fixtures.commands import command, document
from tests.fixtures.marks import full
from tests.fixtures.targets import MIB, Target, content, read, running
from tests.fixtures.waiting import wait_until
from tests.tools.conftest import BUCKET

import orcas
from orcas.cli.store.seal import what_is_left

Serve = Callable[..., AbstractContextManager[Target]]

KEY = base64.b64encode(bytes(range(32))).decode()
NOTHING_LEFT = {"blobs": 0, "bytes": 0, "uploads": 0, "files": False, "index": False}
LOCKED = "locked"


class Bodies:
    """Bodies and values of metadata that were stored, no two alike."""

    def __init__(self) -> None:
        self.all: list[bytes] = []

    def new(self, size: int) -> bytes:
        self.all.append(content(size, 1000 + len(self.all)))
        return self.all[-1]

    def text(self) -> str:
        """A value of metadata."""
        value = content(20, 1000 + len(self.all)).hex()
        self.all.append(value.encode())
        return value

    def found(self, data: Path) -> list[tuple[Path, int]]:
        """Files of the store that have a piece of a body or a value, and its length."""
        files = [path for path in data.rglob("*") if path.is_file()]
        stored = {path: path.read_bytes() for path in files}
        pieces = [
            (body[at : at + 16], len(body)) for body in self.all for at in {0, len(body) // 2, max(0, len(body) - 16)}
        ]
        return [(path, size) for path, bytes_ in stored.items() for piece, size in pieces if piece in bytes_]


def fill(s3: Any, bodies: Bodies) -> None:
    """Every kind of object."""
    for size in (20, 256, 257, 5_000, 70_000, 300_000, 5 * MIB + 3):
        body = bodies.new(size)
        s3.put_object(
            Bucket=BUCKET, Key=f"size/{size}", Body=body,
            Metadata={"color": bodies.text()}, ContentType=f"text/{bodies.text()}",
            Tagging="tag=value", ChecksumAlgorithm="SHA256", StorageClass="STANDARD_IA",
        )  # fmt: skip
        s3.copy_object(Bucket=BUCKET, Key=f"copy/{size}", CopySource={"Bucket": BUCKET, "Key": f"size/{size}"})
        s3.put_object(Bucket=BUCKET, Key=f"same/{size}", Body=body)
    s3.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    upload = {"Bucket": BUCKET, "Key": "parts"}
    created = s3.create_multipart_upload(**upload, ChecksumAlgorithm="CRC32", Metadata={"color": bodies.text()})
    upload["UploadId"] = created["UploadId"]
    parts = []
    for number, size in ((1, 5 * MIB), (2, 5 * MIB + 1), (3, 100)):
        part = s3.upload_part(**upload, PartNumber=number, Body=bodies.new(size), ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]})
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    s3.create_bucket(Bucket=LOCKED, ObjectLockEnabledForBucket=True)
    for size in (100, 3_000, 100):
        until = datetime.now(UTC) + timedelta(days=1)
        s3.put_object(
            Bucket=LOCKED, Key="versions", Body=bodies.new(size), ObjectLockMode="COMPLIANCE",
            ObjectLockRetainUntilDate=until, ObjectLockLegalHoldStatus="ON", ChecksumAlgorithm="CRC32",
        )  # fmt: skip
    s3.put_object(Bucket=LOCKED, Key="marked", Body=bodies.new(4_000))
    s3.delete_object(Bucket=LOCKED, Key="marked")
    # What nobody sees any more is on the disk, too.
    s3.put_object(Bucket=BUCKET, Key="gone", Body=bodies.new(30))
    s3.put_object(Bucket=BUCKET, Key="gone", Body=bodies.new(40))
    s3.delete_object(Bucket=BUCKET, Key="gone")


def seen(s3: Any) -> dict[str, Any]:
    """What clients see of all versions, but for the encryption."""
    found: dict[str, Any] = {}
    for bucket in (BUCKET, LOCKED):
        listed = s3.list_object_versions(Bucket=bucket)
        order = [(entry["Key"], entry["VersionId"], entry["IsLatest"]) for entry in listed.get("Versions", [])]
        found[bucket] = (order, listed.get("DeleteMarkers"))
        for key, version, _ in order:
            name = {"Bucket": bucket, "Key": key} | ({} if version == "null" else {"VersionId": version})
            got = s3.get_object(**name, ChecksumMode="ENABLED")
            head = {field: value for field, value in got.items() if field not in {"Body", "ResponseMetadata"}}
            head.pop("ServerSideEncryption", None)
            body = got["Body"].read()
            ranges = [s3.get_object(**name, Range="bytes=5-77")["Body"].read()] if len(body) > 100 else []
            attributes = s3.get_object_attributes(
                **name, ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
            )
            del attributes["ResponseMetadata"]
            tags = s3.get_object_tagging(**name)["TagSet"]
            found[f"{bucket}/{key}/{version}"] = head, body, ranges, attributes, tags
    found["part"] = s3.get_object(Bucket=BUCKET, Key="parts", PartNumber=2)["Body"].read()
    return found


def encryptions(s3: Any) -> set[str | None]:
    found = set()
    for bucket in (BUCKET, LOCKED):
        for entry in s3.list_object_versions(Bucket=bucket).get("Versions", []):
            name = {"Bucket": bucket, "Key": entry["Key"]}
            name |= {} if entry["VersionId"] == "null" else {"VersionId": entry["VersionId"]}
            found.add(s3.head_object(**name).get("ServerSideEncryption"))
    return found


@pytest.mark.parametrize("served", [False, *full(True)], ids=["stopped", "served"])
def test_clients_see_no_change_and_files_have_no_body(serve: Serve, data: Path, served: bool) -> None:
    bodies = Bodies()
    with serve() as target:
        fill(target.client(), bodies)
        before = seen(target.client())
    assert {size for _, size in bodies.found(data)} == {len(body) for body in bodies.all}, "the search is blind"
    if served:
        with serve(master_key=KEY) as target:
            done = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
            assert seen(target.client()) == before
            assert encryptions(target.client()) == {"AES256"}
            assert bodies.found(data) == []
            again = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
    else:
        done = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
        again = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
    versions = sum(len(before[bucket][0]) for bucket in (BUCKET, LOCKED))
    assert (done["versions"], done["left"]) == (versions, NOTHING_LEFT), done
    assert (again["versions"], again["seen"], again["left"]) == (0, versions + 1, NOTHING_LEFT), again
    # Copies and equal content are stored once.
    assert done["stored_bytes"] <= sum(len(body) for body in bodies.all) + 2 * (20 + 256)
    assert bodies.found(data) == []
    report = document("fsck", "--data", data, ORCAS_MASTER_KEY=KEY)
    assert report["clean"], report
    with serve(master_key=KEY) as target:
        assert seen(target.client()) == before
        assert encryptions(target.client()) == {"AES256"}
        locked = {"Bucket": LOCKED, "Key": "versions", "VersionId": before[LOCKED][0][-1][1]}
        with pytest.raises(target.client().exceptions.ClientError, match="AccessDenied"):
            target.client().delete_object(**locked)


def test_no_event_tells_of_it(serve: Serve, data: Path) -> None:
    with serve() as target:
        target.client().put_object(Bucket=BUCKET, Key="k", Body=content(3_000))
    with serve(master_key=KEY) as target:
        document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
        target.client().put_object(Bucket=BUCKET, Key="later", Body=b"x")
        with orcas.events.listen(
            target.client(), buckets=[BUCKET], events=["s3:ObjectCreated:*"], start="oldest"
        ) as events:
            told = [next(events) for _ in range(2)]
    assert [event.key for event in told] == ["k", "later"]


def test_it_needs_the_master_key(serve: Serve, data: Path) -> None:
    with serve() as target:
        target.client().put_object(Bucket=BUCKET, Key="k", Body=content(3_000))
        assert "ORCAS_MASTER_KEY_FILE" in command("compact", "--seal", "--data", data, code=1)
        assert "ServerSideEncryption" not in target.client().head_object(Bucket=BUCKET, Key="k")
    assert "ORCAS_MASTER_KEY_FILE" in command("compact", "--seal", "--data", data, code=78)


@pytest.mark.parametrize("running", [False, True])
def test_incomplete_uploads_are_sealed_and_go_on(serve: Serve, data: Path, running: bool) -> None:
    bodies = Bodies()
    first, last = bodies.new(5 * MIB), bodies.new(100)
    upload = {"Bucket": BUCKET, "Key": "k"}
    with serve() as target:
        s3 = target.client()
        upload["UploadId"] = s3.create_multipart_upload(**upload, Metadata={"a": bodies.text()})["UploadId"]
        s3.upload_part(**upload, PartNumber=1, Body=first)
        before = s3.list_parts(**upload)["Parts"]
    if not running:
        said = " ".join(command("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY).split())
        assert ("incomplete uploads sealed 1" in said, "incomplete uploads not sealed 0" in said) == (True, True)
    with serve(master_key=KEY) as target:
        s3 = target.client()
        if running:
            assert document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)["uploads"] == 1
        assert s3.list_parts(**upload)["Parts"] == before
        second = s3.upload_part(**upload, PartNumber=2, Body=last)
        assert second["ServerSideEncryption"] == "AES256"
        parts = [{"PartNumber": 1, "ETag": before[0]["ETag"]}, {"PartNumber": 2, "ETag": second["ETag"]}]
        done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert done["ETag"] == multipart_etag([first, last])
        found = s3.get_object(Bucket=BUCKET, Key="k")
        assert (found["ServerSideEncryption"], found["Metadata"]) == ("AES256", {"a": bodies.all[-1].decode()})
        assert found["Body"].read() == first + last
    assert bodies.found(data) == []
    assert document("fsck", "--data", data, ORCAS_MASTER_KEY=KEY)["clean"]


def test_what_comes_without_encryption_is_sealed_by_the_next_run(serve: Serve, data: Path) -> None:
    with serve(master_key=KEY) as target:
        assert document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)["uploads"] == 0
        target.client().create_multipart_upload(Bucket=BUCKET, Key="k")
        done = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
        assert (done["uploads"], done["left"]) == (1, NOTHING_LEFT)


def test_each_thing_that_is_left_is_a_reason() -> None:
    nothing = dict.fromkeys(("changed", "no_room", "too_long", "unreadable"), 0)
    assert what_is_left({**nothing, "left": NOTHING_LEFT}) == []
    for name in nothing:
        assert len(what_is_left({**nothing, name: 3, "left": NOTHING_LEFT})) == 1
    for name in ("blobs", "uploads", "files", "index"):
        assert len(what_is_left({**nothing, "left": {**NOTHING_LEFT, name: 1}})) == 1


class Writer(threading.Thread):
    """Overwrites objects until the server is gone."""

    def __init__(self, server: orcas.Server, bodies: Bodies, expected: dict[str, bytes], first: int) -> None:
        super().__init__()
        self.server, self.bodies, self.expected, self.first = server, bodies, expected, first
        # A body that may be there or not after the kill.
        self.unclear: dict[str, bytes] = {}

    def run(self) -> None:
        client = self.server.client()
        for n in range(self.first, 100_000):
            key, body = f"k{n * 13 % 400}", self.bodies.new(200)
            self.unclear[key] = body
            try:
                client.put_object(Bucket=BUCKET, Key=key, Body=body)
            except Exception:  # noqa: BLE001 - the server is gone
                return
            self.expected[key] = self.unclear.pop(key)


@pytest.mark.full
def test_kills_and_writers_lose_nothing(data: Path) -> None:
    """The server is killed while it seals and others write; the last run ends, and nothing of any body is left."""
    bodies, expected = Bodies(), {}
    chance = random.Random(5)
    with running(data) as target:
        target.client().create_bucket(Bucket=BUCKET)
        for n in range(400):
            expected[f"k{n}"] = bodies.new(chance.choice((30, 300, 3_000, 100_000)))
            target.client().put_object(Bucket=BUCKET, Key=f"k{n}", Body=expected[f"k{n}"])
    for turn in range(4):
        server = orcas.Server(data, master_key=KEY)
        writer = Writer(server, bodies, expected, turn)
        sealing = threading.Thread(target=_sealed_or_killed, args=(data,))
        writer.start()
        sealing.start()
        time.sleep(chance.uniform(0.3, 1.2))
        os.kill(server.pid, signal.SIGKILL)
        writer.join()
        sealing.join()
        server.kill()
        with running(data, master_key=KEY) as target:
            for key, body in writer.unclear.items():
                found = read(target.client(), BUCKET, key)
                assert found in (expected[key], body)
                expected[key] = found
            for key, body in expected.items():
                assert read(target.client(), BUCKET, key) == body, key
    done = document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)
    assert done["left"] == NOTHING_LEFT, done
    assert bodies.found(data) == []
    assert document("fsck", "--data", data, ORCAS_MASTER_KEY=KEY)["clean"]
    with running(data, master_key=KEY) as target:
        for key, body in expected.items():
            assert read(target.client(), BUCKET, key) == body, key


def _sealed_or_killed(data: Path) -> None:
    """Run the command in a process of its own, whatever becomes of it."""
    with contextlib.suppress(AssertionError):
        document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)


@pytest.mark.full
def test_a_stop_ends_it_and_the_next_run_goes_on(serve: Serve, data: Path) -> None:
    with serve() as target:
        for n in range(300):
            target.client().put_object(Bucket=BUCKET, Key=f"k{n}", Body=content(60_000, n))
    with serve(master_key=KEY) as target:
        sealing = threading.Thread(target=lambda: _sealed_or_killed(data))
        sealing.start()
        wait_until(lambda: encryption_of(target, "k0") is not None)
    sealing.join()
    with serve(master_key=KEY) as target:
        assert all(read(target.client(), BUCKET, f"k{n}") == content(60_000, n) for n in range(300))
    assert document("compact", "--seal", "--data", data, ORCAS_MASTER_KEY=KEY)["left"] == NOTHING_LEFT


def encryption_of(target: Target, key: str) -> str | None:
    found: str | None = target.client().head_object(Bucket=BUCKET, Key=key).get("ServerSideEncryption")
    return found
