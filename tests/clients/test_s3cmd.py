"""s3cmd, with its own signer and its own idea of what names mean."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, Command, executable, tree_of, write_tree
from tests.fixtures.targets import MIB, Target, content, keys_of, read

S3CMD = executable("s3cmd", "run .ci/run clients, or apt-get install s3cmd")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


def command(target: Target, directory: Path, **others: str) -> Command:
    server = target.server
    host = urlsplit(server.endpoint).netloc
    settings = {
        "access_key": server.access_key, "secret_key": server.secret_key, "bucket_location": server.region,
        # Without %(bucket)s, the bucket is in the path.
        "host_base": host, "host_bucket": host, "use_https": "False", "multipart_chunk_size_mb": "5", "max_retries": "1",
    } | others  # fmt: skip
    path = directory / f"s3cfg-{uuid.uuid4().hex}"
    path.write_text("[default]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    return Command((S3CMD, "--config", str(path), "--no-progress"), directory, {"LANG": "C.UTF-8"})


@pytest.fixture
def s3cmd(target: Target, tmp_path: Path) -> Command:
    return command(target, tmp_path)


def test_trees(s3cmd: Command, s3: Any, bucket: str) -> None:
    write_tree(s3cmd.directory / "up", dict.fromkeys(AWKWARD, 300) | {"large +ü.bin": 12 * MIB, "empty": 0})
    s3cmd.output("sync", "up/", f"s3://{bucket}/tree/")
    assert set(keys_of(s3, bucket)) == {f"tree/{name}" for name in tree_of(s3cmd.directory / "up")}
    assert s3cmd.text("sync", "up/", f"s3://{bucket}/tree/") == ""
    s3cmd.output("sync", f"s3://{bucket}/tree/", "down/")
    assert tree_of(s3cmd.directory / "down") == tree_of(s3cmd.directory / "up")
    s3cmd.output("cp", "--recursive", f"s3://{bucket}/tree/", f"s3://{bucket}/copies/")
    s3cmd.output("mv", "--recursive", f"s3://{bucket}/copies/", f"s3://{bucket}/moved/")
    assert read(s3, bucket, "moved/large +ü.bin") == tree_of(s3cmd.directory / "up")["large +ü.bin"]
    s3cmd.output("del", "--recursive", "--force", f"s3://{bucket}/")
    assert keys_of(s3, bucket) == []
    s3cmd.output("rb", f"s3://{bucket}")


def test_objects(s3cmd: Command, s3: Any, bucket: str) -> None:
    write_tree(s3cmd.directory, {"f": 300, "large": 12 * MIB})
    s3cmd.output("put", "f", f"s3://{bucket}/f", "--add-header", "x-amz-meta-m:1", "--mime-type", "x/y")
    info = s3cmd.text("info", f"s3://{bucket}/f")
    assert "x/y" in info
    s3cmd.output("put", "--storage-class", "STANDARD_IA", "large", f"s3://{bucket}/large")
    s3cmd.output("put", "-", f"s3://{bucket}/stream", stdin=content(12 * MIB))
    assert s3cmd.output("get", f"s3://{bucket}/stream", "-") == content(12 * MIB)
    s3cmd.output("modify", "--add-header", "x-amz-meta-m:2", f"s3://{bucket}/f")
    assert s3.head_object(Bucket=bucket, Key="f")["Metadata"]["m"] == "2"
    s3cmd.output("setacl", "--acl-private", f"s3://{bucket}/f")
    s3cmd.output("get", f"s3://{bucket}/large", "back")
    assert (s3cmd.directory / "back").read_bytes() == (s3cmd.directory / "large").read_bytes()


def test_more_than_a_page(s3cmd: Command, listed: str) -> None:
    assert len(s3cmd.text("ls", "--recursive", f"s3://{listed}").splitlines()) == MANY
    assert f"{MANY} objects" in s3cmd.text("du", f"s3://{listed}")


def test_settings_of_a_bucket(s3cmd: Command, s3: Any) -> None:
    name = f"t-{uuid.uuid4().hex}"
    s3cmd.output("mb", f"s3://{name}")
    assert f"s3://{name}" in s3cmd.text("ls")
    s3cmd.output("setversioning", f"s3://{name}", "enable")
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    s3cmd.output("settagging", f"s3://{name}", "a=1&b=2")
    assert "a" in s3cmd.text("gettagging", f"s3://{name}")
    rules = (
        "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>"
        "</CORSConfiguration>"
    )
    (s3cmd.directory / "cors.xml").write_text(rules)
    s3cmd.output("setcors", "cors.xml", f"s3://{name}")
    assert "s3://" in s3cmd.text("info", f"s3://{name}")


def test_uploads_left_behind(s3cmd: Command, s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="left")["UploadId"]
    assert upload in s3cmd.text("multipart", f"s3://{bucket}")
    s3cmd.output("abortmp", f"s3://{bucket}/left", upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_presigned_addresses(s3cmd: Command, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a b+ü", Body=b"content")
    address = s3cmd.text("signurl", f"s3://{bucket}/a b+ü", "+60").strip()
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.read() == b"content"


def test_errors(target: Target, s3cmd: Command, bucket: str, tmp_path: Path) -> None:
    assert "NoSuchBucket" in s3cmd.failure("ls", f"s3://t-{uuid.uuid4().hex}")
    assert "does not exist" in s3cmd.failure("get", f"s3://{bucket}/none", "out")
    wrong = command(target, tmp_path, secret_key=WRONG_SECRET)
    assert "SignatureDoesNotMatch" in wrong.failure("ls", f"s3://{bucket}")
