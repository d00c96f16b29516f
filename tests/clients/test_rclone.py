"""rclone, configured by variables for any S3 server."""

from __future__ import annotations

import hashlib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, Command, executable, tree_of, write_tree
from tests.fixtures.targets import MIB, Target, content, keys_of, read

RCLONE = executable("rclone", "run .ci/run clients, or install rclone")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture
def rclone(target: Target, tmp_path: Path) -> Command:
    server = target.server
    settings = {
        "TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": server.endpoint, "REGION": server.region,
        "ACCESS_KEY_ID": server.access_key, "SECRET_ACCESS_KEY": server.secret_key,
        "UPLOAD_CUTOFF": "8M", "CHUNK_SIZE": "5M",
    }  # fmt: skip
    variables = {f"RCLONE_CONFIG_O_{name}": value for name, value in settings.items()}
    variables |= {
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
        "RCLONE_CONFIG": str(tmp_path / "rclone.conf"),
    }
    return Command((RCLONE,), tmp_path, variables)


def test_trees_are_kept_in_step(rclone: Command, s3: Any, bucket: str) -> None:
    write_tree(rclone.directory / "up", dict.fromkeys(AWKWARD, 300) | {"large +ü.bin": 17 * MIB, "empty": 0})
    tree = tree_of(rclone.directory / "up")
    rclone.output("copy", "up", f"o:{bucket}/tree")
    assert set(keys_of(s3, bucket)) == {f"tree/{name}" for name in tree}
    rclone.output("check", "--download", "up", f"o:{bucket}/tree")
    rclone.output("check", "up", f"o:{bucket}/tree")
    (rclone.directory / "up" / "empty").unlink()
    (rclone.directory / "up" / "a b").write_bytes(b"changed")
    rclone.output("sync", "up", f"o:{bucket}/tree")
    rclone.output("sync", f"o:{bucket}/tree", "down")
    assert tree_of(rclone.directory / "down") == tree_of(rclone.directory / "up")
    # Server-side: large objects as copies of parts.
    rclone.output("sync", f"o:{bucket}/tree", f"o:{bucket}/copies", "--s3-copy-cutoff", "8M")
    rclone.output("move", f"o:{bucket}/copies", f"o:{bucket}/moved", "--s3-copy-cutoff", "8M")
    rclone.output("check", "up", f"o:{bucket}/moved")
    rclone.output("purge", f"o:{bucket}")
    assert bucket not in rclone.text("lsf", "o:")


def test_times_and_metadata(rclone: Command, s3: Any, bucket: str) -> None:
    write_tree(rclone.directory, {"f": 300})
    rclone.output("copyto", "f", f"o:{bucket}/f", "--metadata-set", "content-type=x/y", "-M", "--metadata-set", "m=1")
    head = s3.head_object(Bucket=bucket, Key="f")
    assert (head["ContentType"], head["Metadata"]["m"]) == ("x/y", "1")
    rclone.output("touch", f"o:{bucket}/f", "-t", "2020-01-02T03:04:05")
    assert "2020-01-02" in rclone.text("lsl", f"o:{bucket}")
    rclone.output("copy", f"o:{bucket}/f", "back")
    assert (rclone.directory / "back" / "f").read_bytes() == (rclone.directory / "f").read_bytes()
    digest = hashlib.md5((rclone.directory / "f").read_bytes(), usedforsecurity=False).hexdigest()
    assert rclone.text("hashsum", "md5", f"o:{bucket}/f").split()[0] == digest


def test_streams(rclone: Command, s3: Any, bucket: str) -> None:
    for size in (10, 12 * MIB):
        rclone.output("rcat", f"o:{bucket}/a b+ü", stdin=content(size))
        assert read(s3, bucket, "a b+ü") == content(size)
        assert rclone.output("cat", f"o:{bucket}/a b+ü", "--offset", "3", "--count", "5") == content(size)[3:8]
        assert rclone.output("cat", f"o:{bucket}/a b+ü") == content(size)


def test_listings(rclone: Command, listed: str) -> None:
    assert rclone.text("lsf", f"o:{listed}") == "page/\n"
    assert len(rclone.text("lsf", "-R", "--files-only", f"o:{listed}").splitlines()) == MANY
    assert len(rclone.text("lsf", "-R", "--files-only", "--fast-list", f"o:{listed}").splitlines()) == MANY
    assert f"Total objects: {MANY / 1000:.3f}k ({MANY})" in rclone.text("size", f"o:{listed}")
    once = ("--s3-list-version", "1")
    assert len(rclone.text("lsf", "-R", "--files-only", *once, f"o:{listed}").splitlines()) == MANY


def test_versions(rclone: Command, bucket: str) -> None:
    assert "Enabled" in rclone.text("backend", "versioning", f"o:{bucket}", "Enabled")
    for number in range(2):
        rclone.output("rcat", f"o:{bucket}/k", stdin=b"%d" % number)
    rclone.output("deletefile", f"o:{bucket}/k")
    assert rclone.text("lsf", f"o:{bucket}") == ""
    kept = [name for name in rclone.text("lsf", "--s3-versions", f"o:{bucket}").splitlines() if name.startswith("k-v")]
    assert {rclone.text("cat", "--s3-versions", f"o:{bucket}/{name}") for name in kept} == {"0", "1"}
    rclone.output("backend", "cleanup-hidden", f"o:{bucket}")
    assert rclone.text("lsf", "--s3-versions", f"o:{bucket}") == ""


def test_uploads_left_behind(rclone: Command, s3: Any, bucket: str) -> None:
    s3.create_multipart_upload(Bucket=bucket, Key="left")
    assert "left" in rclone.text("backend", "list-multipart-uploads", f"o:{bucket}")
    rclone.output("backend", "cleanup", f"o:{bucket}", "-o", "max-age=0s")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_presigned_addresses(rclone: Command, bucket: str) -> None:
    rclone.output("rcat", f"o:{bucket}/a b+ü", stdin=b"content")
    address = rclone.text("link", f"o:{bucket}/a b+ü", "--expire", "60s").strip()
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.read() == b"content"


def test_errors(rclone: Command, bucket: str) -> None:
    assert "directory not found" in rclone.failure("lsf", f"o:{bucket}-none")
    assert "not found" in rclone.failure("deletefile", f"o:{bucket}/none")
    wrong = rclone.using(RCLONE_CONFIG_O_SECRET_ACCESS_KEY=WRONG_SECRET)
    assert "SignatureDoesNotMatch" in wrong.failure("lsf", f"o:{bucket}")
