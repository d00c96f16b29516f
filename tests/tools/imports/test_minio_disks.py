"""Drives that a real MinIO wrote (tests/golden/minio): what clients saw of it is there after the import, whatever is lost or
damaged, or it is named."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, running
from tests.golden.minio.description import described
from tests.golden.minio.drives import current, expected, state, unpacked


@pytest.fixture
def fresh() -> Iterator[Target]:
    with running(None) as target:
        yield target


Importing = Callable[..., Any]


@pytest.fixture
def importing(fresh: Target) -> Importing:
    def run(drives: list[Path], *words: str, code: int = 0) -> Any:
        keys = {"AWS_ACCESS_KEY_ID": fresh.server.access_key, "AWS_SECRET_ACCESS_KEY": fresh.server.secret_key}
        call = document if code in {0, 1} else command
        return call("import", "--minio-disk", *drives, *words, "--endpoint", fresh.server.endpoint, code=code, **keys)

    return run


def seen(target: Target) -> Any:
    """What clients see of the store, without what MinIO did not list."""
    found = described(target.client())
    assert [version["key"] for version in found.pop("below")["versions"]] == ["a", "a/b"]
    return found


def flip(path: Path, at: int = -1) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def metas(drive: Path, *keys: str) -> list[Path]:
    return [drive / key / "xl.meta" for key in keys]


@pytest.mark.parametrize("kind", ["one", "ec1", "ec2", "sets"])
def test_what_clients_saw_is_there(kind: str, fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked(kind, tmp_path)
    before = state(drives)
    done = importing(drives, "--versions")
    assert (done["failed"], done["unverified"], done["gone"]) == (0, 0, 0)
    assert seen(fresh) == expected()
    again = importing(drives, "--versions")
    assert (again["copied"], again["delete_markers"], again["present"]) == (
        0,
        0,
        done["copied"] + done["delete_markers"],
    )
    assert seen(fresh) == expected()
    assert state(drives) == before


def test_without_versions_there_are_the_current_objects(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    would = importing(drives, "--dry-run")
    assert fresh.client().list_buckets()["Buckets"] == []
    done = importing(drives)
    assert (done["copied"], done["bytes"]) == (would["copied"], would["bytes"])
    assert current(seen(fresh)) == current(expected())


@pytest.mark.parametrize(("kind", "lost"), [("ec1", 1), ("ec2", 2), ("sets", 2)])
def test_drives_may_be_lost_up_to_parity(
    kind: str, lost: int, fresh: Target, importing: Importing, tmp_path: Path
) -> None:
    drives = unpacked(kind, tmp_path)[lost:]
    done = importing(drives, "--versions")
    assert done["failed"] == 0
    assert [count for what, count in done["not_kept"].items() if what.startswith("drive that was not named")] == [lost]
    assert seen(fresh) == expected()


def test_more_lost_drives_are_told(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("ec1", tmp_path)
    done = importing(drives[2:], "--versions", code=1)
    wanted = {key for bucket in current(expected()).values() for key in bucket}
    assert wanted <= {failure["key"] for failure in done["failures"]}
    assert {failure["reason"] for failure in done["failures"]} == {"3 drives are needed, and 2 of 4 have it"}
    assert not any(current(described(fresh.client())).values())
    assert "erasure set 1 has 4 drives, of which 1 are named" in importing(drives[3:], code=2)


def test_damage_that_parity_covers_changes_nothing(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("ec2", tmp_path)
    for path in drives[0].glob("[a-z]*/**/part.*"):
        flip(path)
    for path in drives[0].glob("[a-z]*/**/xl.meta"):
        flip(path)
    for path in drives[1].glob("[a-z]*/**/xl.meta"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    assert importing(drives, "--versions")["failed"] == 0
    assert seen(fresh) == expected()


def test_damage_beyond_that_is_named_and_the_others_arrive(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    inline, meta = metas(drives[0] / "plain", "b/b", "a-b")
    flip(inline)
    meta.write_bytes(meta.read_bytes()[:60])
    (part,) = (drives[0] / "plain" / "large").glob("*/part.1")
    flip(part, 1000)
    (first, _) = sorted((drives[0] / "plain" / "parts").glob("*/part.*"))
    first.write_bytes(first.read_bytes()[: 3 << 20])
    done = importing(drives, code=1)
    lost = "its content cannot be read, because 1 sound shards are needed, and 0 are left"
    assert {failure["key"]: failure["reason"] for failure in done["failures"]} == {
        "b/b": lost, "large": lost, "parts": lost, "a-b": "its xl.meta cannot be read on 1 of 1 drives",
    }  # fmt: skip
    left = current(expected())
    for key in ("b/b", "large", "parts", "a-b"):
        del left["plain"][key]
    assert current(seen(fresh)) == left


def test_shards_that_are_whole_but_of_another_object_are_noticed(
    fresh: Target, importing: Importing, tmp_path: Path
) -> None:
    drives = unpacked("ec2", tmp_path)
    for drive in drives[:3]:
        (one,) = (drive / "plain" / "large").glob("*/part.1")
        (other,) = (drive / "plain" / "parts").glob("*/part.1")
        one.write_bytes(other.read_bytes()[: one.stat().st_size])
    done = importing(drives, code=1)
    assert [failure["key"] for failure in done["failures"]] == ["large"]


def test_a_server_that_was_killed_left_what_it_acknowledged(
    fresh: Target, importing: Importing, tmp_path: Path
) -> None:
    drives = unpacked("killed", tmp_path)
    acknowledged = expected("killed")
    assert "?" in acknowledged.values()
    done = importing(drives, code=0)
    client = fresh.client()
    found = {
        entry["Key"]: hashlib.sha256(client.get_object(Bucket="busy", Key=entry["Key"])["Body"].read()).hexdigest()
        for entry in client.list_objects_v2(Bucket="busy").get("Contents", ())
    }
    assert done["copied"] == len(found)
    known = {key: digest for key, digest in acknowledged.items() if digest != "?"}
    assert {key: found.get(key, "") for key in known} == known


def test_compressed_objects_come_and_encrypted_ones_are_named(
    fresh: Target, importing: Importing, tmp_path: Path
) -> None:
    done = importing(unpacked("compressed", tmp_path), "--versions", code=1)
    reason = "MinIO has encrypted it, and its key was not given: set MINIO_KMS_SECRET_KEY"
    assert done["failures"] == [{"place": "sealed", "key": "s3", "reason": reason}]
    found = seen(fresh)
    del found["sealed"]
    assert found == expected()


def test_users_keep_their_keys_and_policies(fresh: Target, importing: Importing, tmp_path: Path) -> None:
    importing(unpacked("one", tmp_path))
    alice = fresh.server.client(aws_access_key_id="alice", aws_secret_access_key="alice-secret")
    assert alice.get_object(Bucket="plain", Key="b/b")["Body"].read()
    with pytest.raises(ClientError, match="AccessDenied"):
        alice.put_object(Bucket="plain", Key="b/b", Body=b"")
    bob = fresh.server.client(aws_access_key_id="bob", aws_secret_access_key="bob-secret-1")
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        bob.get_object(Bucket="plain", Key="b/b")


def test_other_directories_are_refused(importing: Importing, tmp_path: Path) -> None:
    one, more = unpacked("one", tmp_path / "one"), unpacked("ec2", tmp_path / "ec2")
    assert "is of another pool than the first one" in importing([*one, *more], code=2)
    assert "are the same drive" in importing([*more, more[0]], code=2)
    assert "has no .minio.sys/format.json" in importing([one[0] / "plain"], code=2)
    assert "leave it out" not in importing([tmp_path / "nowhere"], code=2)
    path = one[0] / ".minio.sys" / "format.json"
    path.write_text(path.read_text().replace('"xl-single"', '"fs"'))
    assert "has its objects as plain files" in importing(one, code=2)
    path.write_text("{")
    assert "format.json is damaged" in importing(one, code=2)
    shutil.rmtree(one[0] / ".minio.sys")
    assert "has no .minio.sys/format.json" in importing(one, code=2)
