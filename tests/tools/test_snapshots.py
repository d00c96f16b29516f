"""Snapshots, forks and restores of buckets, as the commands make them and as S3 clients see them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, read
from tests.tools.conftest import BUCKET, fill

Serve = Callable[..., AbstractContextManager[Target]]


def keys(client: Any, bucket: str, **selection: Any) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 7}, **selection
    )
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def names(data: Path, bucket: str = BUCKET) -> list[str]:
    return [entry["name"] for entry in document("snapshot", "list", bucket, "--data", data)["snapshots"]]


def refused(code: str, call: Callable[..., Any], **arguments: Any) -> None:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["Error"]["Code"] == code


def test_a_bucket_goes_back_to_its_snapshot(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()
        before = fill(target, range(30))
        assert command("snapshot", "create", BUCKET, "monday", "--data", data) == f"snapshot {BUCKET}@monday created\n"
        after = fill(target, range(30, 40))
        for key in list(before)[:10]:
            s3.delete_object(Bucket=BUCKET, Key=key)
        s3.put_object(Bucket=BUCKET, Key="k/0020", Body=b"replaced")
        s3.put_object_tagging(Bucket=BUCKET, Key="k/0021", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        assert keys(s3, BUCKET) == sorted([*list(before)[10:], *after])
        refused("NoSuchKey", s3.get_object, Bucket=BUCKET, Key="k/0000")
        assert read(s3, BUCKET, "k/0020") == b"replaced"
        assert s3.get_object_tagging(Bucket=BUCKET, Key="k/0021")["TagSet"] == [{"Key": "a", "Value": "b"}]
        assert read(s3, BUCKET, "k/0021") == before["k/0021"]
        assert names(data) == ["monday"]
        command("snapshot", "restore", BUCKET, "monday", "--data", data)
        assert {key: read(s3, BUCKET, key) for key in keys(s3, BUCKET)} == before
        assert s3.get_object_tagging(Bucket=BUCKET, Key="k/0021")["TagSet"] == []
    # A store that nobody serves, and another start.
    command("snapshot", "delete", BUCKET, "monday", "--data", data)
    assert names(data) == []
    with serve() as target:
        s3 = target.client()
        assert {key: read(s3, BUCKET, key) for key in keys(s3, BUCKET)} == before


def test_a_fork_is_a_bucket_of_its_own(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()
        before = fill(target, range(10))
        cors = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://example.org"]}]}
        s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration=cors)
        document("snapshot", "create", BUCKET, "s", "--data", data)
        s3.delete_object(Bucket=BUCKET, Key="k/0000")
        document("fork", BUCKET, "now", "--data", data)
        document("fork", f"{BUCKET}@s", "then", "--data", data)
        assert keys(s3, "now") == list(before)[1:]
        assert keys(s3, "then") == list(before)
        assert s3.get_bucket_cors(Bucket="then")["CORSRules"] == cors["CORSRules"]
        assert [entry["Name"] for entry in s3.list_buckets()["Buckets"]] == ["now", "then", BUCKET]
        s3.put_object(Bucket="then", Key="k/0001", Body=b"theirs")
        s3.copy_object(Bucket="then", Key="copy", CopySource={"Bucket": "now", "Key": "k/0002"})
        upload = s3.create_multipart_upload(Bucket="then", Key="parts")["UploadId"]
        etag = s3.upload_part(Bucket="then", Key="parts", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        s3.complete_multipart_upload(Bucket="then", Key="parts", UploadId=upload, MultipartUpload=parts)
        assert read(s3, "then", "parts") == b"part"
        assert read(s3, "then", "copy") == before["k/0002"]
        assert read(s3, BUCKET, "k/0001") == read(s3, "now", "k/0001") == before["k/0001"]
        versions = s3.list_object_versions(Bucket="then", MaxKeys=3)
        assert [(entry["Key"], entry["VersionId"]) for entry in versions["Versions"]] == [
            ("copy", "null"), ("k/0000", "null"), ("k/0001", "null"),
        ]  # fmt: skip
        rolled = s3.list_objects_v2(Bucket="then", Delimiter="/")
        assert [entry["Prefix"] for entry in rolled["CommonPrefixes"]] == ["k/"]
        # Conditions see what the layers show.
        refused("PreconditionFailed", s3.put_object, Bucket="now", Key="k/0003", Body=b"", IfNoneMatch="*")
        s3.put_object(Bucket="now", Key="k/0000", Body=b"", IfNoneMatch="*")
        head = s3.head_object(Bucket="then", Key="k/0005")
        s3.delete_object(Bucket="then", Key="k/0005")
        refused("404", s3.head_object, Bucket="then", Key="k/0005")
        assert s3.head_object(Bucket="now", Key="k/0005")["ETag"] == head["ETag"]


def test_what_cannot_be_is_refused(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()

        def answer(*arguments: str) -> str:
            return command(*arguments, "--data", data, code=1)

        s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        command("snapshot", "create", "locked", "s", "--data", data)
        assert "Object Lock forbids: fork the snapshot" in answer("snapshot", "restore", "locked", "s")
        assert "There is no bucket nowhere" in answer("snapshot", "list", "nowhere")
        assert "no snapshot of this name" in answer("fork", f"{BUCKET}@s", "new")
        command("snapshot", "create", BUCKET, "s", "--data", data)
        assert "already" in answer("snapshot", "create", BUCKET, "s")
        for name in ("a@b", "s" * 64, ".", "..", "_s", "-s"):
            refusal = command("snapshot", "create", "--data", data, "--", BUCKET, name, code=1)
            assert "63" in refusal, name
        for name in ("s" * 63, "2024.01-02_b"):
            command("snapshot", "create", BUCKET, name, "--data", data)
            command("snapshot", "delete", BUCKET, name, "--data", data)
        assert "3 to 63 lower-case letters" in answer("fork", BUCKET, "Not_A_Bucket")
        refused("InvalidBucketState", s3.delete_bucket, Bucket=BUCKET)
        fill(target, range(3))
        command("snapshot", "delete", BUCKET, "s", "--data", data)
        refused("BucketNotEmpty", s3.delete_bucket, Bucket=BUCKET)
        for key in keys(s3, BUCKET):
            s3.delete_object(Bucket=BUCKET, Key=key)
        s3.delete_bucket(Bucket=BUCKET)
        s3.create_bucket(Bucket=BUCKET)
        assert keys(s3, BUCKET) == []


def test_three_commands_free_what_was_deleted_since_the_last_snapshot(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()
        kept = fill(target, range(20))
        command("snapshot", "create", BUCKET, "s", "--data", data)
        for key in list(kept)[:15]:
            s3.delete_object(Bucket=BUCKET, Key=key)
            del kept[key]
        for name in ("s", "tidy"):
            if name == "tidy":
                command("snapshot", "create", BUCKET, name, "--data", data)
            command("snapshot", "delete", BUCKET, name, "--data", data)
        document("gc", "--data", data)
        assert document("stats", "--data", data)["totals"]["logical"] == sum(map(len, kept.values()))
        assert {key: read(s3, BUCKET, key) for key in keys(s3, BUCKET)} == kept


def test_the_space_of_what_nothing_has_is_freed(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()
        fill(target, range(20))
        command("fork", BUCKET, "fork", "--data", data)
        for bucket in (BUCKET, "fork"):
            for key in keys(s3, bucket):
                s3.delete_object(Bucket=bucket, Key=key)
            s3.delete_bucket(Bucket=bucket)
        document("gc", "--data", data)
        totals = document("stats", "--data", data)["totals"]
        assert totals == {"logical": 0, "stored": 0, "shared": 0, "dead": 0}
    report = document("fsck", "--data", data)
    assert report["findings"] == []
