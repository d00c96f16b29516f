"""What test_aws_command.py among the conformance tests leaves out: awkward names, long listings, versions."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, Command, package, tree_of, variables_of, write_tree
from tests.fixtures.targets import MIB, Target, content, keys_of, read

package("awscli")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture
def aws(target: Target, tmp_path: Path) -> Command:
    return Command((sys.executable, "-m", "awscli"), tmp_path, variables_of(target))


def answer(aws: Command, *arguments: str) -> Any:
    """The document of `aws s3api`, which is empty for some."""
    return json.loads(aws.text("s3api", *arguments) or "{}")


def test_trees_with_awkward_names(aws: Command, s3: Any, bucket: str) -> None:
    write_tree(aws.directory / "up", dict.fromkeys(AWKWARD, 300) | {"large +ü.bin": 9 * MIB})
    url = f"s3://{bucket}/tree"
    aws.output("s3", "cp", "up", url, "--recursive", "--no-progress")
    assert set(keys_of(s3, bucket)) == {f"tree/{name}" for name in tree_of(aws.directory / "up")}
    aws.output("s3", "cp", url, "down", "--recursive", "--no-progress")
    assert tree_of(aws.directory / "down") == tree_of(aws.directory / "up")
    aws.output("s3", "mv", url, f"s3://{bucket}/moved", "--recursive", "--no-progress")
    aws.output("s3", "sync", f"s3://{bucket}/moved", f"s3://{bucket}/synced", "--no-progress")
    aws.output("s3", "rm", f"s3://{bucket}/moved", "--recursive")
    assert set(keys_of(s3, bucket)) == {f"synced/{name}" for name in tree_of(aws.directory / "up")}


def test_more_than_a_page(aws: Command, listed: str, s3: Any, bucket: str) -> None:
    assert len(aws.text("s3", "ls", f"s3://{listed}", "--recursive").splitlines()) == MANY
    assert len(answer(aws, "list-objects-v2", "--bucket", listed)["Contents"]) == MANY
    first = answer(aws, "list-objects-v2", "--bucket", listed, "--max-items", "1050")
    rest = answer(aws, "list-objects-v2", "--bucket", listed, "--starting-token", first["NextToken"])
    assert len(first["Contents"]) + len(rest["Contents"]) == MANY
    aws.output("s3", "sync", f"s3://{listed}", f"s3://{bucket}", "--no-progress")
    assert len(keys_of(s3, bucket)) == MANY
    aws.output("s3", "rm", f"s3://{bucket}", "--recursive")
    assert keys_of(s3, bucket) == []


def test_options_of_a_copy(aws: Command, s3: Any, bucket: str) -> None:
    write_tree(aws.directory, {"f": 300})
    options = ["--metadata", "m=1", "--content-type", "x/y", "--storage-class", "STANDARD_IA", "--acl", "private"]
    aws.output("s3", "cp", "f", f"s3://{bucket}/f", *options, "--checksum-algorithm", "SHA256")
    head = s3.head_object(Bucket=bucket, Key="f", ChecksumMode="ENABLED")
    assert (head["Metadata"], head["ContentType"], head["StorageClass"]) == ({"m": "1"}, "x/y", "STANDARD_IA")
    assert head["ChecksumSHA256"]
    (aws.directory / "g").write_bytes(content(100))
    aws.output("s3", "sync", ".", f"s3://{bucket}/some", "--exclude", "*", "--include", "g")
    assert keys_of(s3, bucket) == ["f", "some/g"]


def test_versions(aws: Command, s3: Any, bucket: str) -> None:
    named = ("--bucket", bucket)
    aws.output("s3api", "put-bucket-versioning", *named, "--versioning-configuration", "Status=Enabled")
    for number in range(2):
        (aws.directory / "f").write_bytes(b"%d" % number)
        aws.output("s3", "cp", "f", f"s3://{bucket}/a b+ü")
    aws.output("s3", "rm", f"s3://{bucket}/a b+ü")
    found = answer(aws, "list-object-versions", *named)
    assert (len(found["Versions"]), len(found["DeleteMarkers"])) == (2, 1)
    at = ("--key", "a b+ü", "--version-id", found["Versions"][1]["VersionId"])
    aws.output("s3api", "get-object", *named, *at, "out")
    assert (aws.directory / "out").read_bytes() == b"0"
    every = [*found["Versions"], *found["DeleteMarkers"]]
    doomed = {"Objects": [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in every]}
    aws.output("s3api", "delete-objects", *named, "--delete", json.dumps(doomed))
    aws.output("s3api", "delete-bucket", *named)


def test_conditional_writes_and_tags(aws: Command, s3: Any, bucket: str) -> None:
    write_tree(aws.directory, {"f": 300})
    at = ("--bucket", bucket, "--key", "k")
    tag = answer(aws, "put-object", *at, "--body", "f", "--if-none-match", "*", "--tagging", "a=1&b=2")["ETag"]
    assert "PreconditionFailed" in aws.failure("s3api", "put-object", *at, "--body", "f", "--if-none-match", "*")
    answer(aws, "put-object", *at, "--body", "f", "--if-match", tag, "--tagging", "a=1&b=2")
    assert answer(aws, "get-object-tagging", *at)["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    aws.output("s3api", "put-object-tagging", *at, "--tagging", "TagSet=[{Key=c,Value=3}]")
    assert answer(aws, "get-object-tagging", *at)["TagSet"] == [{"Key": "c", "Value": "3"}]
    attributes = answer(aws, "get-object-attributes", *at, "--object-attributes", "ETag", "ObjectSize", "Checksum")
    assert attributes["ObjectSize"] == 300
    aws.output("s3api", "wait", "object-exists", *at)


def test_an_upload_part_by_part(aws: Command, s3: Any, bucket: str) -> None:
    at = ("--bucket", bucket, "--key", "k")
    (aws.directory / "f").write_bytes(content(5 * MIB))
    upload = ("--upload-id", answer(aws, "create-multipart-upload", *at)["UploadId"])
    tags = [
        answer(aws, "upload-part", *at, *upload, "--part-number", str(number), "--body", "f")["ETag"]
        for number in (1, 2)
    ]
    assert len(answer(aws, "list-parts", *at, *upload)["Parts"]) == 2
    parts = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]}
    answer(aws, "complete-multipart-upload", *at, *upload, "--multipart-upload", json.dumps(parts))
    assert read(s3, bucket, "k") == 2 * content(5 * MIB)


def test_errors(aws: Command, bucket: str) -> None:
    assert "NoSuchBucket" in aws.failure("s3", "ls", f"s3://t-{uuid.uuid4().hex}")
    assert "404" in aws.failure("s3", "cp", f"s3://{bucket}/none", "out")
    assert "NoSuchKey" in aws.failure("s3api", "get-object", "--bucket", bucket, "--key", "none", "out")
    wrong = aws.using(AWS_SECRET_ACCESS_KEY=WRONG_SECRET)
    assert "SignatureDoesNotMatch" in wrong.failure("s3", "ls", f"s3://{bucket}")
    assert "InvalidAccessKeyId" in aws.using(AWS_ACCESS_KEY_ID="nobody").failure("s3", "ls", f"s3://{bucket}")
