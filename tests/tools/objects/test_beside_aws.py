"""The same lines with `orcas` and with `aws s3`: the same keys and files, and the same words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.targets import Target, keys_of, read
from tests.tools.objects.conftest import Command

AWS = Path(sys.executable).parent / "aws"

# Lines for both, in this order, each in a directory of its own; BUCKET is another one for each.
LINES = [
    "mb s3://BUCKET",
    "cp one.txt s3://BUCKET",
    "cp one.txt s3://BUCKET/renamed",
    "cp one.txt s3://BUCKET/folder/",
    "cp tree s3://BUCKET/tree --recursive",
    "cp tree/ s3://BUCKET/slash/ --recursive",
    "cp tree s3://BUCKET --recursive",
    "cp s3://BUCKET/tree/a.txt .",
    "cp s3://BUCKET/tree/a.txt down",
    "cp s3://BUCKET/tree/a.txt made/",
    "cp s3://BUCKET/tree here --recursive",
    "cp s3://BUCKET/tree/ there/ --recursive",
    "cp s3://BUCKET/tr ere --recursive",
    "cp s3://BUCKET/tree/a.txt s3://BUCKET/copied/",
    "cp s3://BUCKET/tree s3://BUCKET/all --recursive",
    "ls s3://BUCKET",
    "ls s3://BUCKET/tree",
    "ls s3://BUCKET/tree/",
    "ls BUCKET --recursive --summarize",
    "rm s3://BUCKET/renamed",
    "rm s3://BUCKET/absent",
    "rm s3://BUCKET/tree/s --recursive",
    "rm s3://BUCKET/tree --recursive --dryrun",
    "rm s3://BUCKET/slash --recursive",
    "ls s3://BUCKET --recursive",
    "rb s3://BUCKET --force",
]


def words(text: str, bucket: str) -> list[str]:
    """What both print alike: no times, no summaries of `orcas`, no progress of `aws`, in any order."""
    lines = text.replace("\r", "\n").replace("(dryrun) ", "(dry run) ").splitlines()
    kept = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line).rstrip() for line in lines]
    ours = re.compile(r"(copied|objects.*): \d+|Completed .*|")
    return sorted(line.replace(bucket, "BUCKET") for line in kept if not ours.fullmatch(line))


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.mark.skipif(not AWS.exists(), reason="needs the AWS command line, of the extra test")
def test_the_same_lines(target: Target, orcas: Command, tmp_path: Path) -> None:
    s3 = target.client()
    variables = orcas.variables | {"AWS_DEFAULT_REGION": "us-east-1"}
    states: list[tuple[list[str], dict[str, bytes], dict[str, bytes]]] = []
    for who in ("aws", "orcas"):
        directory, bucket = tmp_path / who, f"side-{who}"
        for name in ("one.txt", "tree/a.txt", "tree/sub/b.jpg", "tree/sub-2/c"):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(name.encode())
        seen: Any = []
        for line in LINES:
            start = [AWS, "--endpoint-url", orcas.endpoint, "s3"] if who == "aws" else [AWS.with_name("orcas")]
            end = [] if who == "aws" else ["--endpoint", orcas.endpoint]
            done = subprocess.run(
                [*start, *line.replace("BUCKET", bucket).split(), *end],
                cwd=directory, env=variables, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (who, line, done.stderr)
            there = bucket in [each["Name"] for each in s3.list_buckets()["Buckets"]]
            objects = {key: read(s3, bucket, key) for key in keys_of(s3, bucket)} if there else {}
            said = words(done.stdout.replace(str(directory) + "/", "./"), bucket)
            seen.append((line, said if line[:2] in ("ls", "rm", "mb") else [], files(directory), objects))
        states.append(seen)
    for aws, ours in zip(*states, strict=True):
        assert aws == ours, aws[0]
