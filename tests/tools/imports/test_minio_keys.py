"""Drives of a MinIO that encrypted everything: with the key of its KMS, what clients saw of it is there after the import."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import Target, running
from tests.golden.minio.description import described
from tests.golden.minio.drives import expected, unpacked
from tests.golden.minio.make import CUSTOMER, KMS, MIB, SEALED, content

Importing = Callable[..., Any]
CLIENTS_KEY = "it is encrypted with a key that only its client has (SSE-C)"


@pytest.fixture
def fresh() -> Iterator[Target]:
    with running(None, master_key=MASTER_KEY) as target:
        yield target


@pytest.fixture
def importing(fresh: Target) -> Importing:
    def run(drives: list[Path], *words: str, key: str = KMS, code: int = 1) -> Any:
        keys = {"AWS_ACCESS_KEY_ID": fresh.server.access_key, "AWS_SECRET_ACCESS_KEY": fresh.server.secret_key}
        call = document if code in {0, 1} else command
        words = (*words, "--endpoint", fresh.server.endpoint)
        return call("import", "--minio-disk", *drives, *words, code=code, MINIO_KMS_SECRET_KEY=key, **keys)

    return run


def test_what_clients_saw_is_there_and_encrypted(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("sealed", tmp_path)
    done = importing(drives, "--versions")
    assert done["failures"] == [{"place": "sealed", "key": CUSTOMER, "reason": CLIENTS_KEY}]
    client = fresh.client()
    for key, size in SEALED.items():
        got = client.get_object(Bucket="sealed", Key=key)
        assert (got["Body"].read(), got["ServerSideEncryption"]) == (content(key, size), "AES256")
        # Clients saw the end of an ETag that is encrypted, where it is not that of the content.
        noted = "orcas-imported-etag" in got["Metadata"]
        assert got["ETag"].strip('"') == hashlib.md5(content(key, size), usedforsecurity=False).hexdigest()
        assert noted is (key == "named.zip")
    for key in ("parts", "parts of a key"):
        parts = content(f"{key}1", 5 * MIB) + content(f"{key}2", 100_001)
        assert client.get_object(Bucket="sealed", Key=key)["Body"].read() == parts
    again = importing(drives, "--versions")
    assert (again["copied"], again["delete_markers"]) == (0, 0)
    found = described(client)
    del found["sealed"], found["below"]
    for bucket in found.values():
        for version in bucket["versions"]:
            version.get("metadata", {}).pop("orcas-imported-etag", None)
    assert found == expected()


def test_users_come_as_well(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    importing(unpacked("sealed", tmp_path))
    alice = fresh.server.client(aws_access_key_id="alice", aws_secret_access_key="alice-secret")
    assert alice.get_object(Bucket="plain", Key="b/b")["Body"].read()


def test_with_another_key_everything_is_named(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("sealed", tmp_path)
    for key, reason in (
        (KMS.replace("A", "B", 1), "its key cannot be opened with the key that was given"),
        ("other" + KMS.removeprefix("key"), "it is encrypted with the key key"),
    ):
        done = importing(drives, key=key)
        assert (done["copied"], {failure["reason"] for failure in done["failures"]}) == (0, {reason, CLIENTS_KEY})
    assert not any(fresh.client().list_objects_v2(Bucket=name).get("Contents") for name in ("plain", "sealed"))
    assert "must be NAME:KEY" in importing(drives, key="key:short", code=78)


def test_a_key_is_bound_to_its_object(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("sealed", tmp_path)
    shutil.copytree(drives[0] / "sealed" / "squeezed", drives[0] / "sealed" / "moved")
    reasons = {failure["key"]: failure["reason"] for failure in importing(drives)["failures"]}
    assert reasons == {CUSTOMER: CLIENTS_KEY, "moved": "its key cannot be opened with the key that was given"}


def test_a_store_without_keys_takes_nothing_that_was_encrypted(tmp_path: Path) -> None:
    drives = unpacked("sealed", tmp_path)
    with running(None) as target:
        keys = {"AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key}
        words = ("--minio-disk", *drives, "--endpoint", target.server.endpoint)
        assert "ORCAS_MASTER_KEY" in command("import", *words, code=69, MINIO_KMS_SECRET_KEY=KMS, **keys)
        client = target.client()
        names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
        assert not any(client.list_objects_v2(Bucket=name).get("Contents") for name in names)
