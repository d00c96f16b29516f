"""ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from tests.fixtures.targets import refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]


def new_name() -> str:
    return f"t-{uuid.uuid4().hex}"


def test_a_bucket_is_created_listed_and_deleted(s3: Any) -> None:
    name = new_name()
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=2)
    created = s3.create_bucket(Bucket=name)
    assert created["Location"] == f"/{name}"
    listed = {entry["Name"]: entry for entry in s3.list_buckets()["Buckets"]}
    assert before <= listed[name]["CreationDate"] <= dt.datetime.now(dt.UTC)
    assert s3.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert s3.delete_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert name not in {entry["Name"] for entry in s3.list_buckets()["Buckets"]}
    assert refusal(s3.head_bucket, Bucket=name) == (404, "404")
    assert refusal(s3.delete_bucket, Bucket=name) == (404, "NoSuchBucket")


def test_buckets_are_listed_in_order_with_their_owner(s3: Any) -> None:
    stem = new_name()[:20]
    for suffix in ("b", "a", "c"):
        s3.create_bucket(Bucket=f"{stem}-{suffix}")
    answer = s3.list_buckets(Prefix=stem)
    assert [entry["Name"] for entry in answer["Buckets"]] == [f"{stem}-{suffix}" for suffix in "abc"]
    assert answer["Owner"]["ID"]
    assert answer["Prefix"] == stem


def test_buckets_are_listed_in_pages(s3: Any) -> None:
    stem = new_name()[:20]
    names = [f"{stem}-{number}" for number in range(5)]
    for name in names:
        s3.create_bucket(Bucket=name)
    first = s3.list_buckets(Prefix=stem, MaxBuckets=2)
    assert [entry["Name"] for entry in first["Buckets"]] == names[:2]
    assert first["ContinuationToken"]
    pages = s3.get_paginator("list_buckets").paginate(Prefix=stem, PaginationConfig={"PageSize": 2})
    assert [entry["Name"] for page in pages for entry in page["Buckets"]] == names


def test_a_bucket_that_exists_is_not_created_again(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="kept", Body=b"x")
    # As on S3, this succeeds in the region us-east-1 only.
    assert s3.create_bucket(Bucket=bucket)["Location"] == f"/{bucket}"
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}
    for more in (elsewhere, {"ObjectLockEnabledForBucket": True}, {"ObjectOwnership": "ObjectWriter"}):
        assert refusal(s3.create_bucket, Bucket=bucket, **more) == (409, "BucketAlreadyOwnedByYou")
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"x"
    name = new_name()
    s3.create_bucket(Bucket=name, **elsewhere)
    assert refusal(s3.create_bucket, Bucket=name) == (409, "BucketAlreadyOwnedByYou")


def test_answers_about_buckets_name_their_arn(s3: Any, bucket: str) -> None:
    name, arn = new_name(), "arn:aws:s3:::"
    assert s3.create_bucket(Bucket=name)["BucketArn"] == arn + name
    head = s3.head_bucket(Bucket=name)
    assert (head["BucketArn"], head["AccessPointAlias"]) == (arn + name, False)
    listed = {entry["Name"]: entry["BucketArn"] for entry in s3.list_buckets()["Buckets"]}
    assert {listed[name], listed[bucket]} == {arn + name, arn + bucket}


def test_eu_stands_for_eu_west_1(s3: Any) -> None:
    name = new_name()
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "EU"})
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == "EU"
    assert s3.head_bucket(Bucket=name)["BucketRegion"] == "eu-west-1"


def test_a_new_bucket_has_the_ownership_controls_that_it_asks_for(s3: Any) -> None:
    for ownership in ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        name = new_name()
        s3.create_bucket(Bucket=name, ObjectOwnership=ownership)
        controls = s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]
        assert controls == {"Rules": [{"ObjectOwnership": ownership}]}


def test_a_bucket_with_objects_is_not_deleted(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="kept", Body=b"x")
    assert refusal(s3.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"x"
    s3.delete_object(Bucket=bucket, Key="kept")
    s3.delete_bucket(Bucket=bucket)


def test_a_deleted_bucket_leaves_nothing_to_its_successor(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    s3.delete_bucket(Bucket=bucket)
    s3.create_bucket(Bucket=bucket)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize(
    "name",
    [
        "ab",
        "a" * 64,
        "Upper",
        "under_score",
        "-dash",
        "dash-",
        ".dot",
        "dot.",
        "two..dots",
        "dash.-dot",
        "192.168.0.1",
        "xn--puny",
        "name-s3alias",
        "name--ol-s3",
        "with%20space",
        "%C3%BCmlaut",
        "..",
        "_orcas%2Fx",
    ],
)
def test_bad_names_are_refused(wire: Wire, name: str) -> None:
    answer = wire("PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName")


@pytest.mark.parametrize("name", ["A_Bucket", "a" * 69, "a" * 255, "xn--puny", "UPPER", "a..b", "-ab"])
def test_no_bucket_has_a_name_that_only_the_old_rule_allows(wire: Wire, bucket: str, name: str) -> None:
    for method, path, query in [
        ("GET", f"/{name}/k", ""), ("PUT", f"/{name}/k", ""), ("GET", f"/{name}", ""), ("GET", f"/{name}", "policy"),
        ("DELETE", f"/{name}", ""), ("POST", f"/{name}/k", "uploads"), ("DELETE", f"/{name}/k", ""),
    ]:  # fmt: skip
        answer = wire(method, path, query)
        assert (answer.status, answer.code, answer.error["BucketName"]) == (404, "NoSuchBucket", name)
    copy = wire("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": f"/{name}/k"})
    assert (copy.status, copy.code) == (404, "NoSuchBucket")
    created = wire("PUT", f"/{name}")
    assert (created.status, created.code) == (400, "InvalidBucketName")


def test_a_bucket_may_name_the_region_of_the_server(s3: Any, wire: Wire, bucket: str) -> None:
    body = b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>"
    assert wire("PUT", f"/{bucket}-named", body=body).status == 200
    assert s3.get_bucket_location(Bucket=f"{bucket}-named")["LocationConstraint"] is None
    # Again, as without a constraint.
    assert wire("PUT", f"/{bucket}-named", body=body).status == 200


def test_lists_say_the_region_of_their_bucket(wire: Wire, bucket: str) -> None:
    for method, query in (("HEAD", ""), ("GET", ""), ("GET", "list-type=2")):
        assert wire(method, f"/{bucket}", query).headers["x-amz-bucket-region"] == "us-east-1"


@pytest.mark.parametrize(
    "name", ["abc", "a" * 63, "a.b.c", "1a2", "docs", "openapi.json", "redoc", "health", "favicon.ico"]
)
def test_good_names_are_buckets_whatever_they_mean_elsewhere(s3: Any, name: str) -> None:
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=name)["Contents"]] == ["k"]
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)


def test_the_location_constraint_is_kept(s3: Any) -> None:
    name = new_name()
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == "eu-central-1"


def test_the_default_location_is_empty(s3: Any, bucket: str) -> None:
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    assert s3.head_bucket(Bucket=bucket)["BucketRegion"] == "us-east-1"


def test_a_bad_configuration_creates_nothing(wire: Wire) -> None:
    name = new_name()
    for body in (b"<CreateBucketConfiguration>", b"not xml", b"<Wrong/>"):
        answer = wire("PUT", f"/{name}", body=body)
        assert (answer.status, answer.code) == (400, "MalformedXML"), body
    assert wire("HEAD", f"/{name}").status == 404


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("list_objects_v2", {}),
        ("list_objects", {}),
        ("list_multipart_uploads", {}),
        ("get_bucket_location", {}),
        ("put_object", {"Key": "k", "Body": b"x"}),
        ("get_object", {"Key": "k"}),
        ("delete_object", {"Key": "k"}),
        ("delete_objects", {"Delete": {"Objects": [{"Key": "k"}]}}),
        ("create_multipart_upload", {"Key": "k"}),
        ("upload_part", {"Key": "k", "UploadId": "u", "PartNumber": 1, "Body": b"x"}),
        ("list_parts", {"Key": "k", "UploadId": "u"}),
        ("abort_multipart_upload", {"Key": "k", "UploadId": "u"}),
    ],
)
def test_an_unknown_bucket_is_said_so(s3: Any, operation: str, arguments: dict[str, Any]) -> None:
    assert refusal(getattr(s3, operation), Bucket=new_name(), **arguments) == (404, "NoSuchBucket")


def test_ways_in_which_a_bucket_cannot_be_asked(wire: Wire, bucket: str) -> None:
    assert wire("PATCH", f"/{bucket}").status == 405
    assert wire("POST", "/").code == "MethodNotAllowed"
    assert wire("DELETE", "/").code == "MethodNotAllowed"
    assert wire("GET", f"/{bucket}", "list-type=3").code == "InvalidArgument"
