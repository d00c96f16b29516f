"""s5cmd, which runs many transfers at once."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, Command, executable, tree_of, variables_of, write_tree
from tests.fixtures.targets import MIB, Target, content, keys_of, read

S5CMD = executable("s5cmd", "run .ci/run clients, or install s5cmd")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

# Wildcards of s5cmd in names of files, which it cannot quote.
NAMES = [name for name in AWKWARD if not set(name) & set("*?")]


@pytest.fixture
def s5cmd(target: Target, tmp_path: Path) -> Command:
    words = (S5CMD, "--endpoint-url", target.server.endpoint, "--retry-count", "0")
    return Command(words, tmp_path, variables_of(target))


def test_trees(s5cmd: Command, s3: Any, bucket: str) -> None:
    write_tree(s5cmd.directory / "up", dict.fromkeys(NAMES, 300) | {"large +ü.bin": 17 * MIB, "empty": 0})
    s5cmd.output("cp", "--part-size", "5", "up/", f"s3://{bucket}/tree/")
    assert set(keys_of(s3, bucket)) == {f"tree/{name}" for name in tree_of(s5cmd.directory / "up")}
    s5cmd.output("cp", "--part-size", "5", f"s3://{bucket}/tree/*", "down/")
    assert tree_of(s5cmd.directory / "down") == tree_of(s5cmd.directory / "up")
    s5cmd.output("cp", f"s3://{bucket}/tree/*", f"s3://{bucket}/copies/")
    s5cmd.output("mv", f"s3://{bucket}/copies/*", f"s3://{bucket}/moved/")
    assert read(s3, bucket, "moved/large +ü.bin") == tree_of(s5cmd.directory / "up")["large +ü.bin"]
    (s5cmd.directory / "up" / "empty").unlink()
    s5cmd.output("sync", "--delete", "up/", f"s3://{bucket}/tree/")
    assert set(keys_of(s3, bucket)) & {"tree/empty", "moved/empty"} == {"moved/empty"}
    s5cmd.output("rm", f"s3://{bucket}/*")
    assert keys_of(s3, bucket) == []
    s5cmd.output("rb", f"s3://{bucket}")


def test_more_than_a_page(s5cmd: Command, s3: Any, listed: str, bucket: str) -> None:
    assert len(s5cmd.text("ls", f"s3://{listed}/*").splitlines()) == MANY
    assert f"{MANY} objects" in s5cmd.text("du", f"s3://{listed}/*")
    s5cmd.output("cp", f"s3://{listed}/*", f"s3://{bucket}/")
    assert len(keys_of(s3, bucket)) == MANY
    s5cmd.output("rm", f"s3://{bucket}/*")
    assert keys_of(s3, bucket) == []


def test_streams_and_batches(s5cmd: Command, s3: Any, bucket: str) -> None:
    s5cmd.output("pipe", f"s3://{bucket}/a b", stdin=content(12 * MIB))
    assert s5cmd.output("cat", f"s3://{bucket}/a b") == content(12 * MIB)
    write_tree(s5cmd.directory, {"f": 10, "g": 20})
    s5cmd.output("run", stdin=f"cp f s3://{bucket}/f\ncp g s3://{bucket}/g\n".encode())
    assert keys_of(s3, bucket) == ["a b", "f", "g"]
    assert '"size":10' in s5cmd.text("--json", "ls", f"s3://{bucket}/f")


def test_versions(s5cmd: Command, bucket: str) -> None:
    s5cmd.output("bucket-version", "--set", "Enabled", f"s3://{bucket}")
    for number in range(2):
        s5cmd.output("pipe", f"s3://{bucket}/k", stdin=b"%d" % number)
    s5cmd.output("rm", f"s3://{bucket}/k")
    lines = s5cmd.text("ls", "--all-versions", f"s3://{bucket}/*").splitlines()
    assert len(lines) == 3
    found = set()
    for line in lines:
        done = s5cmd.run("cat", "--version-id", line.split()[-1], f"s3://{bucket}/k")
        found.add(done.stdout)
    assert found == {b"", b"0", b"1"}
    s5cmd.output("rm", "--all-versions", f"s3://{bucket}/*")
    s5cmd.output("rb", f"s3://{bucket}")


def test_presigned_addresses(s5cmd: Command, bucket: str) -> None:
    s5cmd.output("pipe", f"s3://{bucket}/a b+ü", stdin=b"content")
    address = s5cmd.text("presign", "--expire", "1h", f"s3://{bucket}/a b+ü").strip()
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.read() == b"content"


def test_errors(s5cmd: Command, bucket: str) -> None:
    assert "NoSuchBucket" in s5cmd.failure("ls", f"s3://t-{uuid.uuid4().hex}/*")
    assert "not found" in s5cmd.failure("cat", f"s3://{bucket}/none")
    wrong = s5cmd.using(AWS_SECRET_ACCESS_KEY=WRONG_SECRET)
    assert "SignatureDoesNotMatch" in wrong.failure("ls", f"s3://{bucket}/*")
