"""Stored configuration documents of buckets: they come back as S3 shows them, with the limits of S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.checksums import content_md5
from tests.fixtures.commands import command
from tests.fixtures.targets import refusal, running
from tests.fixtures.wire import Answer, Wire

import orcas

pytestmark = pytest.mark.conformance

BLOCK = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True, "RestrictPublicBuckets": False}
OWNERSHIP = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
CORS = {
    "CORSRules": [
        {
            "ID": "one & only",
            "AllowedHeaders": ["x-amz-*", "content-type"],
            "AllowedMethods": ["GET", "PUT"],
            "AllowedOrigins": ["https://*.example.com"],
            "ExposeHeaders": ["ETag"],
            "MaxAgeSeconds": 60,
        },
        {"AllowedMethods": ["HEAD"], "AllowedOrigins": ["*"]},
    ]
}
TAGS = {"TagSet": [{"Key": "cost centre", "Value": "Köln/7"}, {"Key": "stage", "Value": ""}]}


def put_all(s3: Any, bucket: str) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration=CORS)
    s3.put_bucket_tagging(Bucket=bucket, Tagging=TAGS)
    s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": "Requester"})
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=OWNERSHIP)
    s3.put_bucket_accelerate_configuration(Bucket=bucket, AccelerateConfiguration={"Status": "Enabled"})
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=BLOCK)


def check_all(s3: Any, bucket: str) -> None:
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == CORS["CORSRules"]
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == TAGS["TagSet"]
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "Requester"
    assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == OWNERSHIP
    assert s3.get_bucket_accelerate_configuration(Bucket=bucket)["Status"] == "Enabled"
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == BLOCK


def test_what_is_put_comes_back(s3: Any, bucket: str) -> None:
    put_all(s3, bucket)
    check_all(s3, bucket)
    # Each write replaces the whole document.
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "a", "Value": "b"}]
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicAcls": True})
    block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert block == dict.fromkeys(BLOCK, False) | {"BlockPublicAcls": True}


def test_what_is_deleted_is_gone(s3: Any, bucket: str) -> None:
    put_all(s3, bucket)
    for delete, get, code in [
        (s3.delete_bucket_cors, s3.get_bucket_cors, "NoSuchCORSConfiguration"),
        (s3.delete_bucket_tagging, s3.get_bucket_tagging, "NoSuchTagSet"),
        (s3.delete_bucket_ownership_controls, s3.get_bucket_ownership_controls, "OwnershipControlsNotFoundError"),
        (s3.delete_public_access_block, s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
    ]:
        for _ in range(2):
            assert delete(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204
            assert refusal(get, Bucket=bucket) == (404, code)
    s3.put_bucket_tagging(Bucket=bucket, Tagging=TAGS)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": []})
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")


def test_a_new_bucket_of_the_same_name_has_none(s3: Any, bucket: str) -> None:
    put_all(s3, bucket)
    s3.delete_bucket(Bucket=bucket)
    s3.create_bucket(Bucket=bucket)
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"


@pytest.mark.parametrize("end", [orcas.Server.stop, orcas.Server.kill], ids=["stopped", "killed"])
def test_documents_outlive_the_server(tmp_path: Path, end: Callable[[orcas.Server], None]) -> None:
    with running(tmp_path / "store", durability="buffered") as first:
        s3 = first.client()
        for name in ("kept", "removed", "dropped"):
            s3.create_bucket(Bucket=name)
            put_all(s3, name)
        s3.delete_bucket_cors(Bucket="removed")
        s3.delete_bucket(Bucket="dropped")
        end(first.server)
    with running(tmp_path / "store") as second:
        s3 = second.client()
        check_all(s3, "kept")
        assert refusal(s3.get_bucket_cors, Bucket="removed") == (404, "NoSuchCORSConfiguration")
        assert s3.get_bucket_tagging(Bucket="removed")["TagSet"] == TAGS["TagSet"]
        assert refusal(s3.get_bucket_tagging, Bucket="dropped") == (404, "NoSuchBucket")


def test_backups_and_checks_include_documents(tmp_path: Path) -> None:
    store, backup, restored = (tmp_path / name for name in ("store", "backup", "restored"))
    with running(store) as first:
        s3 = first.client()
        s3.create_bucket(Bucket="bkt")
        put_all(s3, "bkt")
    command("fsck", "--data", store)
    command("backup", backup, "--data", store)
    command("restore", backup, "--data", restored)
    for data in (store, restored):
        for path in data.glob("index.db*"):
            path.unlink()
        with running(data) as again:
            check_all(again.client(), "bkt")


def tags(count: int) -> dict[str, Any]:
    return {"TagSet": [{"Key": f"k{number}", "Value": "v"} for number in range(count)]}


def test_limits_of_tags(s3: Any, bucket: str) -> None:
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tags(50))
    for tagging, message in [
        (tags(51), "Bucket tag count cannot be greater than 50"),
        ({"TagSet": [{"Key": "aws:x", "Value": ""}]}, "System tags cannot be added/updated by requester"),
        ({"TagSet": [{"Key": "k" * 129, "Value": ""}]}, "The TagKey you have provided is invalid"),
        ({"TagSet": [{"Key": "k", "Value": "v" * 257}]}, "The TagValue you have provided is invalid"),
        ({"TagSet": [{"Key": "k", "Value": ""}] * 2}, "Cannot provide multiple Tags with the same key"),
    ]:
        with pytest.raises(ClientError) as refused:
            s3.put_bucket_tagging(Bucket=bucket, Tagging=tagging)
        assert refused.value.response["Error"]["Message"] == message
    assert len(s3.get_bucket_tagging(Bucket=bucket)["TagSet"]) == 50


def test_a_bucket_with_dots_has_no_acceleration(s3: Any, bucket: str) -> None:
    s3.create_bucket(Bucket=f"{bucket}.x")
    arguments = {"Bucket": f"{bucket}.x", "AccelerateConfiguration": {"Status": "Enabled"}}
    assert refusal(s3.put_bucket_accelerate_configuration, **arguments) == (400, "InvalidRequest")


def test_nothing_promises_what_nothing_enforces(s3: Any, bucket: str) -> None:
    rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    encryption = {"Bucket": bucket, "ServerSideEncryptionConfiguration": {"Rules": rules}}
    assert refusal(s3.put_bucket_encryption, **encryption) == (501, "NotImplemented")


@pytest.mark.parametrize(
    "query", ["cors", "tagging", "requestPayment", "ownershipControls", "accelerate", "publicAccessBlock"]
)
def test_hostile_documents_are_refused(wire: Wire, bucket: str, query: str) -> None:
    entities = b'<!DOCTYPE a [<!ENTITY e "x">]><CORSConfiguration>&e;</CORSConfiguration>'
    deep = b"<CORSConfiguration>" * 1_000 + b"</CORSConfiguration>" * 1_000

    def put(body: bytes) -> Answer:
        return wire("PUT", f"/{bucket}", query, headers={"Content-MD5": content_md5(body)}, body=body)

    assert put(b"").code == "MissingRequestBodyError"
    for body in (b"<a", b"<a/>", b"\xff", entities, deep):
        answer = put(body)
        assert (answer.status, answer.code) == (400, "MalformedXML"), body[:40]
    answer = put(b" " * 65_537)
    assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded")


@pytest.mark.parametrize("ownership", ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"])
def test_a_bucket_is_created_with_its_documents(s3: Any, bucket: str, ownership: str) -> None:
    name, tags = f"{bucket}-new", [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}]
    s3.create_bucket(Bucket=name, ObjectOwnership=ownership, CreateBucketConfiguration={"Tags": tags})
    controls = s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]
    assert controls == {"Rules": [{"ObjectOwnership": ownership}]}
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == tags


def test_a_bucket_with_wrong_documents_is_not_created(s3: Any, bucket: str) -> None:
    name = f"{bucket}-new"
    assert refusal(s3.create_bucket, Bucket=name, ObjectOwnership="Nobody") == (400, "InvalidArgument")
    twice = {"Tags": [{"Key": "a", "Value": "1"}] * 2}
    assert refusal(s3.create_bucket, Bucket=name, CreateBucketConfiguration=twice) == (400, "InvalidTag")
    assert refusal(s3.head_bucket, Bucket=name) == (404, "404")
