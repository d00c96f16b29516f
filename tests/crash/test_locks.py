"""Versions and locks of a damaged store: salvage serves them, and a repair that lost a lock leaves nothing unlocked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

import orcas

from ..fixtures.commands import document
from .test_damage import fsck

pytestmark = pytest.mark.crash

BUCKET = "locked"
# Found in the log by its bytes.
TAG = "a-tag-that-nobody-else-has"


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, str]:
    """A stopped store without its index, and the id of a version that is tagged and held, and not the current one."""
    data = tmp_path / "store"
    with orcas.Server(data) as server:
        client = server.client()
        client.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        held = client.put_object(Bucket=BUCKET, Key="key", Body=b"first")["VersionId"]
        client.put_object(Bucket=BUCKET, Key="key", Body=b"second")
        tags = {"TagSet": [{"Key": "tag", "Value": TAG}]}
        client.put_object_tagging(Bucket=BUCKET, Key="key", VersionId=held, Tagging=tags)
        client.put_object_legal_hold(Bucket=BUCKET, Key="key", VersionId=held, LegalHold={"Status": "ON"})
    for path in data.glob("index.db*"):
        path.unlink()
    return data, held


def lose_attributes(data: Path) -> int:
    """Damage every record that has the tag; how many there were."""
    damaged = 0
    for path in data.glob("log/*.log"):
        content = path.read_bytes()
        damaged += content.count(TAG.encode())
        path.write_bytes(content.replace(TAG.encode(), b"?" * len(TAG)))
    return damaged


def test_salvage_serves_versions_with_their_tags_and_locks(store: tuple[Path, str], tmp_path: Path) -> None:
    data, held = store
    with orcas.Server(data, salvage=True) as server:
        client = server.client()
        of_version = {"Bucket": BUCKET, "Key": "key", "VersionId": held}
        assert client.get_object(**of_version)["Body"].read() == b"first"
        assert client.get_object_tagging(**of_version)["TagSet"] == [{"Key": "tag", "Value": TAG}]
        assert client.get_object_legal_hold(**of_version)["LegalHold"]["Status"] == "ON"
        listed = client.list_object_versions(Bucket=BUCKET)["Versions"]
        assert [version["IsLatest"] for version in listed] == [True, False]
    document("export", tmp_path / "exported", "--data", data, "--skip-lost", code=0)
    assert (tmp_path / "exported" / BUCKET / "key").read_bytes() == b"second"


def test_a_repair_that_lost_a_lock_holds_what_may_have_been_locked(store: tuple[Path, str]) -> None:
    data, held = store
    assert lose_attributes(data) == 2
    repaired = fsck(data, "--repair", "--accept-loss")
    assert repaired.returncode == 0
    # Events of records that are lost would tell of what never was.
    assert [json.loads(line)["message"] for line in repaired.stderr.splitlines()] == [
        "The event journal is missing: its events are lost"
    ]
    assert f"2 versions in {BUCKET} got a legal hold" in repaired.stdout
    with orcas.Server(data) as server:
        client = server.client()
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket=BUCKET, Key="key", VersionId=held, BypassGovernanceRetention=True)
        assert client.get_object(Bucket=BUCKET, Key="key", VersionId=held)["Body"].read() == b"first"
        # Whoever may do so removes the hold that was not needed.
        current = client.head_object(Bucket=BUCKET, Key="key")["VersionId"]
        client.put_object_legal_hold(Bucket=BUCKET, Key="key", VersionId=current, LegalHold={"Status": "OFF"})
        client.delete_object(Bucket=BUCKET, Key="key", VersionId=current)
