"""The store that batch writes are compared with: an object is a file, a directory entry and a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "file_each.py"
KEYS = ("FILEEACHACCESSKEY001", "file/each/secret/key/of/no/value/0000000")


@pytest.fixture(params=["cached", "synced", "nothing"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def endpoint(tmp_path: Path, kind: str) -> Iterator[str]:
    order = {"data": str(tmp_path / "data"), "objects": str(tmp_path / "objects"), "kind": kind}
    environment = {"ORCAS_ROOT_ACCESS_KEY": KEYS[0], "ORCAS_ROOT_SECRET_KEY": KEYS[1]}
    with subprocess.Popen(
        [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.close()
        yield child.stdout.readline().split()[-1]
        child.terminate()


def client(endpoint: str, secret: str = KEYS[1]) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEYS[0],
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}),
    )


def stored(objects: Path) -> dict[str, bytes]:
    """Contents by key, as the database has them."""
    with sqlite3.connect(objects / "objects.db") as database:
        rows = database.execute("SELECT key, id, size, md5 FROM objects JOIN data ON data = id").fetchall()
    found = {key: (objects / name[:2] / name).read_bytes() for key, name, _, _ in rows}
    for key, _, size, md5 in rows:
        assert (len(found[key]), hashlib.md5(found[key], usedforsecurity=False).digest()) == (size, md5)
    return found


def test_an_object_is_a_file_and_a_row(endpoint: str, tmp_path: Path, kind: str) -> None:
    s3 = client(endpoint)
    s3.create_bucket(Bucket="bucket")
    bodies = {f"a/{n}": bytes([n]) * length for n, length in enumerate((0, 1024, 300_000))}
    for key, body in bodies.items():
        answer = s3.put_object(Bucket="bucket", Key=key, Body=body)
        assert answer["ETag"] == f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    with pytest.raises(ClientError, match="403"):
        client(endpoint, "wrong").put_object(Bucket="bucket", Key="refused", Body=b"x")
    if kind == "nothing":
        assert not (tmp_path / "objects").exists()
    else:
        assert stored(tmp_path / "objects") == bodies
    # Everything but PUTs of objects is that of Orcas.
    assert s3.list_objects_v2(Bucket="bucket")["KeyCount"] == 0
