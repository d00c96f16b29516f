"""The aws command, configured by the lines that `orcas env` prints."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.clients import Command
from tests.fixtures.keys import ARN, MASTER_KEY, create_key
from tests.fixtures.targets import MIB, Target, content, running

from orcas.settings.clients import client_environment

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(180)]

_SECONDS: Final = 120
Aws = Callable[..., str]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Target]]:
    data = tmp_path_factory.mktemp("aws") / "store"
    with running(data) as target:
        yield data, target


@pytest.fixture(scope="module")
def variables(store: tuple[Path, Target]) -> dict[str, str]:
    """What `eval "$(orcas env)"` sets."""
    data, target = store
    port = target.server.endpoint.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "orcas", "env", "--data", str(data), "--port", port]
    lines = subprocess.run(command, capture_output=True, check=True, text=True, timeout=_SECONDS).stdout.splitlines()
    words = [shlex.split(line) for line in lines]
    assert {word[0] for word in words} == {"export"}
    found = dict(word[1].split("=", 1) for word in words)
    assert found["AWS_ENDPOINT_URL_S3"] == target.server.endpoint
    return found


@pytest.fixture
def command(variables: dict[str, str], tmp_path: Path) -> Command:
    """`aws` with these variables, and no AWS settings of the caller."""
    attempts = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}
    return Command((sys.executable, "-m", "awscli"), tmp_path, {**variables, **attempts})


@pytest.fixture
def aws(command: Command) -> Aws:
    """Runs `aws`; returns its standard output."""

    def run(*arguments: str, fails: bool = False) -> str:
        return command.failure(*arguments) if fails else command.text(*arguments)

    return run


@pytest.fixture
def url(aws: Aws) -> str:
    name = f"s3://t-{uuid.uuid4().hex}"
    aws("s3", "mb", name)
    return name


def test_files_up_and_down(aws: Aws, url: str, tmp_path: Path) -> None:
    for name, size in (("small file+ü.txt", 300), ("large.bin", 20 * MIB)):
        (tmp_path / name).write_bytes(content(size))
        aws("s3", "cp", name, f"{url}/dir/{name}", "--no-progress")
        aws("s3", "cp", f"{url}/dir/{name}", "back", "--no-progress")
        assert (tmp_path / "back").read_bytes() == content(size)
    listing = aws("s3", "ls", f"{url}/dir/")
    assert [line.split(maxsplit=3)[2:] for line in listing.splitlines()] == [
        [str(20 * MIB), "large.bin"],
        ["300", "small file+ü.txt"],
    ]
    assert "PRE dir/" in aws("s3", "ls", url)
    aws("s3", "cp", f"{url}/dir/large.bin", f"{url}/copy.bin", "--no-progress")
    aws("s3", "mv", f"{url}/copy.bin", f"{url}/moved.bin", "--no-progress")
    aws("s3", "cp", f"{url}/moved.bin", "back", "--no-progress")
    assert (tmp_path / "back").read_bytes() == content(20 * MIB)
    recursive = aws("s3", "ls", url, "--recursive")
    assert sorted(line.split(maxsplit=3)[3] for line in recursive.splitlines()) == [
        "dir/large.bin",
        "dir/small file+ü.txt",
        "moved.bin",
    ]


@pytest.mark.full
def test_folders_are_kept_in_step(aws: Aws, url: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for number in range(30):
        path = here / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(number * 500))
    aws("s3", "sync", "here", f"{url}/tree", "--no-progress")
    assert aws("s3", "sync", "here", f"{url}/tree", "--no-progress") == ""
    aws("s3", "sync", f"{url}/tree", "there", "--no-progress")
    (here / "d0" / "f0").unlink()
    assert "delete" in aws("s3", "sync", "here", f"{url}/tree", "--delete", "--no-progress")
    aws("s3", "sync", f"{url}/tree", "there", "--delete", "--no-progress")

    def files(top: Path) -> dict[str, bytes]:
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    assert files(there) == files(here)
    assert len(files(here)) == 29
    assert len(aws("s3", "rm", url, "--recursive").splitlines()) == 29
    assert aws("s3", "ls", url, "--recursive") == ""
    aws("s3", "rb", url)


@pytest.mark.full
def test_buckets_that_are_not_empty_stay(aws: Aws, url: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    aws("s3", "cp", "f", f"{url}/f")
    aws("s3", "rb", url, fails=True)
    assert url.removeprefix("s3://") in aws("s3", "ls")
    aws("s3", "rb", url, "--force")
    assert url.removeprefix("s3://") not in aws("s3", "ls")


@pytest.mark.full
def test_single_operations(aws: Aws, url: str, tmp_path: Path) -> None:
    bucket = url.removeprefix("s3://")
    (tmp_path / "f").write_bytes(b"0123456789")
    at = ("--bucket", bucket, "--key", "k")
    aws("s3api", "put-object", *at, "--body", "f", "--metadata", "a=1", "--content-type", "x/y")

    def answer(*arguments: str) -> Any:
        return json.loads(aws("s3api", *arguments))

    ranged = answer("get-object", *at, "--range", "bytes=2-4", "part")
    assert (ranged["ContentRange"], (tmp_path / "part").read_bytes()) == ("bytes 2-4/10", b"234")
    head = answer("head-object", *at)
    assert (head["ContentLength"], head["Metadata"], head["ContentType"]) == (10, {"a": "1"}, "x/y")
    assert [entry["Key"] for entry in answer("list-objects-v2", "--bucket", bucket)["Contents"]] == ["k"]
    aws("s3api", "get-object", "--bucket", bucket, "--key", "none", "out", fails=True)
    aws("s3api", "get-bucket-cors", "--bucket", bucket, fails=True)


def test_presigned_addresses(aws: Aws, url: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    aws("s3", "cp", "f", f"{url}/a b")
    aws("configure", "set", "default.s3.signature_version", "s3v4")
    address = aws("s3", "presign", f"{url}/a b", "--expires-in", "60").strip()
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.read() == b"content"


@pytest.mark.full
def test_standard_input_and_output(command: Command, url: str) -> None:
    command.output("s3", "cp", "-", f"{url}/stream", stdin=content(9 * MIB))
    assert command.output("s3", "cp", f"{url}/stream", "-") == content(9 * MIB)


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server with a keyring."""
    with running(tmp_path_factory.mktemp("sealing") / "store", master_key=MASTER_KEY) as target:
        yield target


@pytest.mark.full
@pytest.mark.parametrize("size", [300, 9 * MIB])
def test_encryption(sealing: Target, tmp_path: Path, size: int) -> None:
    server = sealing.server
    keys = client_environment(server.endpoint, server.access_key, server.secret_key, server.region)
    environment = {**keys, "AWS_MAX_ATTEMPTS": "1"}
    aws = Command((sys.executable, "-m", "awscli"), tmp_path, environment)
    bucket, key = f"t-{uuid.uuid4().hex}", create_key(sealing, f"of-{size}")
    aws.text("s3", "mb", f"s3://{bucket}")
    (tmp_path / "f").write_bytes(content(size))
    (tmp_path / "key").write_bytes(bytes(range(32)))
    customer = ("--sse-c", "AES256", "--sse-c-key", "fileb://key")
    ways = {
        "managed": (("--sse", "AES256"), ()),
        "named": (("--sse", "aws:kms", "--sse-kms-key-id", key), ()),
        "customer": (customer, customer),
    }
    s3 = sealing.client()
    for name, (written, seen) in ways.items():
        aws.text("s3", "cp", "f", f"s3://{bucket}/{name}", "--no-progress", *written)
        aws.text("s3", "cp", f"s3://{bucket}/{name}", "back", "--no-progress", *seen)
        assert (tmp_path / "back").read_bytes() == content(size), name
    assert s3.head_object(Bucket=bucket, Key="managed")["ServerSideEncryption"] == "AES256"
    head = s3.head_object(Bucket=bucket, Key="named")
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", ARN + key)
    assert "400" in aws.failure("s3", "cp", f"s3://{bucket}/customer", "back", "--no-progress")
    (tmp_path / "other").write_bytes(bytes(32))
    aws.failure("s3", "cp", f"s3://{bucket}/customer", "back", "--sse-c", "AES256", "--sse-c-key", "fileb://other")
    source = ("--sse-c-copy-source", "AES256", "--sse-c-copy-source-key", "fileb://key")
    aws.text("s3", "cp", f"s3://{bucket}/customer", f"s3://{bucket}/copy", "--no-progress", *source, *ways["named"][0])
    aws.text("s3", "cp", f"s3://{bucket}/copy", "back", "--no-progress")
    assert (tmp_path / "back").read_bytes() == content(size)
