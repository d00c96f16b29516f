"""Listeners of minio-go (the program in `minio_go/`) and of mc, which is built on it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pytest
from tests.fixtures.clients import executable, variables_of
from tests.fixtures.targets import Target

pytestmark = pytest.mark.clients

BUILT: Final = "run .ci/run clients where Go is installed"
LISTEN: Final = executable("orcas-minio-go", BUILT)
MC: Final = executable("mc", BUILT)
# minio-go asks for a message at least every ten seconds.
PING_SECONDS: Final = 10


class Follower:
    """A process that prints events as lines of JSON."""

    def __init__(self, command: list[str], environment: dict[str, str], directory: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ORCAS_"))}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**kept, "HOME": str(directory), **environment},
        )  # fmt: skip
        assert self.process.stdout is not None
        self._lines = iter(self.process.stdout)

    def next(self) -> dict[str, Any]:
        """The next line. If there is none, the failure shows what the process said."""
        assert self.process.stderr is not None
        line = next(self._lines, b"")
        assert line, self.process.stderr.read().decode()
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def following(command: list[str], environment: dict[str, str], directory: Path) -> Iterator[Follower]:
    follower = Follower(command, environment, directory)
    # A test that hangs on a line fails.
    timer = threading.Timer(120, follower.process.kill)
    timer.start()
    try:
        yield follower
    finally:
        timer.cancel()
        follower.process.kill()
        follower.process.communicate()


@contextlib.contextmanager
def changes(s3: Any, bucket: str) -> Iterator[None]:
    """Change objects meanwhile: nothing tells when a client has begun to listen."""
    over = threading.Event()

    def change() -> None:
        while not over.wait(0.2):
            for key in ("in/a.txt", "in/b.jpg", "out/c.txt"):
                s3.put_object(Bucket=bucket, Key=key, Body=b"1")
            s3.delete_object(Bucket=bucket, Key="in/a.txt")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_minio_go(target: Target, bucket: str, tmp_path: Path) -> None:
    s3, address = target.client(), urlsplit(target.server.endpoint).netloc
    # Not sorted, and one of them is a kind of event that never comes.
    names = ["s3:ObjectRemoved:*", "s3:ObjectCreated:*", "s3:ObjectAccessed:*"]
    command = [LISTEN, address, bucket, "in/", ".txt", *names]
    with following(command, variables_of(target), tmp_path) as follower:
        with changes(s3, bucket):
            records = [follower.next()["Records"][0] for _ in range(4)]
        # It is still there after messages without events.
        time.sleep(PING_SECONDS + 2)
        s3.put_object(Bucket=bucket, Key="in/last.txt", Body=b"1")
        while (last := follower.next()["Records"][0])["s3"]["object"]["key"] != "in/last.txt":
            records.append(last)
    assert {record["eventName"] for record in records} == {"s3:ObjectCreated:Put", "s3:ObjectRemoved:Delete"}
    assert {record["s3"]["object"]["key"] for record in records} == {"in/a.txt"}


def test_mc_watch(target: Target, bucket: str, tmp_path: Path) -> None:
    server = target.server
    keys = f"{quote(server.access_key, safe='')}:{quote(server.secret_key, safe='')}"
    environment = {"MC_HOST_orcas": server.endpoint.replace("http://", f"http://{keys}@")}
    command = [MC, "--json", "watch", "--prefix", "in/", "--suffix", ".txt", f"orcas/{bucket}"]
    with following(command, environment, tmp_path) as follower, changes(target.client(), bucket):
        events = [follower.next()["events"] for _ in range(4)]
    assert {event["type"] for event in events} == {"s3:ObjectCreated:Put", "s3:ObjectRemoved:Delete"}
    assert {event["path"].rpartition(f"{bucket}/")[2] for event in events} == {"in/a.txt"}
