"""`orcas ls`, `mb`, `rb`, `rm` and `presign`: what they show, and what they leave."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest
from tests.fixtures.commands import command
from tests.fixtures.targets import Target, keys_of, put_keys, running
from tests.tools.objects.conftest import Command

ODD = ["a b", "a\nb", "ä", "%41", "&lt;", "<x>", " lead", "trail ", "\x7f", "..", "a//b", "quote'\""]


@pytest.fixture
def s3(target: Target) -> Any:
    return target.client()


def test_lists(s3: Any, bucket: str, orcas: Command) -> None:
    for key, size in (("a.txt", 3), ("photos/1.jpg", 2048), ("photos/2.jpg", 1), ("z", 0)):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x" * size)
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(rf"^{time} {bucket}$", orcas("ls"), re.MULTILINE)
    for place in (bucket, f"s3://{bucket}", f"s3://{bucket}/"):
        said = orcas("ls", place)
        assert re.fullmatch(rf" {{27}}PRE photos/\n{time}          3 a.txt\n{time}          0 z\n", said), said
    assert re.fullmatch(rf"{time}       2048 1.jpg\n{time}          1 2.jpg\n", orcas("ls", f"s3://{bucket}/photos/"))
    said = orcas("ls", "-r", "--human-readable", "--summarize", f"s3://{bucket}/ph")
    assert re.fullmatch(
        rf"{time}    2.0 KiB photos/1.jpg\n{time}        1 B photos/2.jpg\n\n"
        r"Total Objects: 2\n   Total Size: 2.0 KiB\n",
        said,
    )
    assert bucket in [each["Name"] for each in orcas.json("ls")["Buckets"]]
    shown = orcas.json("ls", f"s3://{bucket}")
    assert [(each["Key"], each["Size"]) for each in shown["Contents"]] == [("a.txt", 3), ("z", 0)]
    assert shown["CommonPrefixes"] == [{"Prefix": "photos/"}]
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert shown["Contents"][0].keys() >= listed[0].keys() - {"ChecksumAlgorithm", "ChecksumType"}
    assert "No key begins with" in orcas("ls", f"s3://{bucket}/none", code=1)
    assert "There is no bucket absent" in orcas("ls", "s3://absent", code=1)


def test_buckets_are_made_and_deleted(s3: Any, orcas: Command) -> None:
    assert orcas("mb", "s3://made-here") == "make_bucket: made-here\n"
    s3.put_object(Bucket="made-here", Key="k", Body=b"")
    refused = orcas.run("rb", "s3://made-here", "--json", code=1).stderr
    assert json.loads(refused)["error"]["code"] == "BucketNotEmpty"
    said = orcas("rb", "s3://made-here", "--force")
    assert said == "objects deleted: 1\nremove_bucket: made-here\n"
    assert orcas.json("mb", "s3://made-here") == {"Name": "made-here"}
    assert orcas.json("rb", "s3://made-here")["Name"] == "made-here"
    refused = orcas.run("mb", "s3://No_Bucket", "--json", code=1).stderr
    assert json.loads(refused)["error"]["code"] == "InvalidBucketName"
    assert "not a bucket: write s3://b" in orcas("rb", "s3://b/key", code=2)


def test_a_demo_is_made_where_the_variables_of_clients_say(s3: Any, target: Target, orcas: Command) -> None:
    command("demo", "shown", **orcas.variables | {"AWS_ENDPOINT_URL": target.server.endpoint})
    assert "README.md" in keys_of(s3, "shown")


def test_objects_are_deleted_whatever_their_keys(s3: Any, bucket: str, orcas: Command) -> None:
    for key in ODD:
        s3.put_object(Bucket=bucket, Key=f"odd/{key}", Body=b"")
        s3.put_object(Bucket=bucket, Key=f"keep{key}", Body=b"")
    orcas("rm", f"s3://{bucket}/odd/a b")
    said = orcas("rm", "-r", "--dryrun", f"s3://{bucket}/odd")
    assert said.endswith(f"\nobjects that would be deleted: {len(ODD) - 1}\n")
    said = orcas("rm", "-r", f"s3://{bucket}/odd")
    assert said.endswith(f"\nobjects deleted: {len(ODD) - 1}\n")
    assert said.count("delete: ") == len(ODD) - 1
    assert sorted(keys_of(s3, bucket)) == sorted(f"keep{key}" for key in ODD)
    orcas("rm", f"s3://{bucket}/not-there")


def test_more_than_one_page(target: Target, s3: Any, bucket: str, orcas: Command) -> None:
    put_keys(target, bucket, [f"k{number:04}" for number in range(1_203)])
    assert orcas.json("rm", "-r", f"s3://{bucket}") == {"Deleted": 1203, "DeleteMarkers": 0, "Failed": 0, "Errors": []}
    assert keys_of(s3, bucket) == []


def test_versions_stay_until_they_are_named(s3: Any, bucket: str, orcas: Command) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("a", "b\n", "c"):
        for _ in range(2):
            s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert "objects hidden by delete markers: 1;" in orcas("rm", f"s3://{bucket}/c")
    assert "objects hidden by delete markers: 2;" in orcas("rm", "-r", f"s3://{bucket}")
    assert "add --all-versions" in orcas("rb", "--force", f"s3://{bucket}", code=1)
    found = s3.list_object_versions(Bucket=bucket)
    assert (len(found["Versions"]), len(found["DeleteMarkers"])) == (6, 3)
    assert orcas("rm", "--all-versions", "-q", f"s3://{bucket}/c") == "versions and delete markers deleted: 3\n"
    said = orcas("rb", "--force", "--all-versions", f"s3://{bucket}")
    assert said == f"versions and delete markers deleted: 6\nremove_bucket: {bucket}\n"


def test_what_is_locked_is_counted(s3: Any, orcas: Command) -> None:
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    for key in ("free", "held", "also-held"):
        held = {} if key == "free" else {"ObjectLockLegalHoldStatus": "ON"}
        s3.put_object(Bucket="locked", Key=key, Body=b"", **held)
    done = orcas.run("rm", "-r", "--all-versions", "s3://locked", "--json", code=1)
    found = json.loads(done.stdout)
    assert (found["Deleted"], found["Failed"]) == (1, 2)
    assert {each["Code"] for each in found["Errors"]} == {"AccessDenied"}
    assert json.loads(done.stderr)["error"]["code"] == "AccessDenied"
    assert "could not be deleted: 2" in orcas("rb", "--force", "--all-versions", "s3://locked", code=1)


def test_links(s3: Any, bucket: str, orcas: Command, target: Target) -> None:
    s3.put_object(Bucket=bucket, Key="ä b/c+d", Body=b"here")
    link = orcas("presign", f"s3://{bucket}/ä b/c+d", "--expires-in", "60").strip()
    assert "X-Amz-Expires=60" in link
    with urllib.request.urlopen(link) as answer:
        assert answer.read() == b"here"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(link.replace("Expires=60", "Expires=61"))
    assert orcas.json("presign", f"s3://{bucket}/k")["Url"].startswith(target.server.endpoint)


def test_a_store_without_a_server(tmp_path: Any) -> None:
    data = tmp_path / "data"
    with running(data):
        pass
    (tmp_path / "file").write_bytes(b"stored")
    place = ("--data", data)
    command("mb", "s3://without", *place)
    command("cp", tmp_path / "file", "s3://without/", *place)
    # A store that is opened here has a mask of its own, which is not that of the file.
    line = [sys.executable, "-m", "orcas", "cp", "s3://without/file", tmp_path / "back", *place]
    subprocess.run(line, check=True, capture_output=True, umask=0o027)
    assert (tmp_path / "back").read_bytes() == b"stored"
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o640
    assert "start it, or give --endpoint" in command("presign", "s3://without/file", *place, code=69)
    assert command("rb", "--force", "s3://without", *place) == "objects deleted: 1\nremove_bucket: without\n"


def test_the_variables_of_aws_name_the_server(bucket: str, orcas: Command, target: Target) -> None:
    there, nowhere = target.server.endpoint, "http://127.0.0.1:1"

    def lists(**variables: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "orcas", "ls", f"s3://{bucket}"],
            env=orcas.variables | variables, cwd=orcas.directory, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode

    assert lists(AWS_ENDPOINT_URL=there) == 0
    assert lists(AWS_ENDPOINT_URL=nowhere, AWS_ENDPOINT_URL_S3=there) == 0
    assert lists(AWS_ENDPOINT_URL=there, AWS_ENDPOINT_URL_S3="") == 0
    assert lists(AWS_ENDPOINT_URL_S3=nowhere) == 69
    # Without a name, it is the store of the directory, and there is none.
    assert lists() == 69
    assert lists(AWS_ENDPOINT_URL_S3=there, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true") == 69
    # Options come first.
    done = Command(orcas.variables | {"AWS_ENDPOINT_URL_S3": nowhere}, orcas.directory, there)
    assert done("ls", f"s3://{bucket}") == ""
    done = Command(orcas.variables | {"AWS_ENDPOINT_URL_S3": there}, orcas.directory, nowhere)
    assert "cannot be reached" in done("ls", f"s3://{bucket}", code=69)
