"""Buckets, listings and the deletion of many through boto3 over a real socket."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

pytestmark = pytest.mark.conformance


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    code: str = caught.value.response["Error"]["Code"]
    return code


def test_the_life_of_a_bucket(s3: Any) -> None:
    name = f"b-{uuid.uuid4()}"
    assert code_of(s3.head_bucket, Bucket=name) == "404"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == "eu-central-1"
    assert name in [found["Name"] for found in s3.list_buckets()["Buckets"]]
    assert code_of(s3.create_bucket, Bucket=name) == "BucketAlreadyOwnedByYou"
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    assert code_of(s3.delete_bucket, Bucket=name) == "BucketNotEmpty"
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)
    assert code_of(s3.list_objects_v2, Bucket=name) == "NoSuchBucket"
    assert code_of(s3.put_object, Bucket=name, Key="k", Body=b"x") == "NoSuchBucket"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_pages_with_prefix_and_delimiter(s3: Any, bucket: str, version: str) -> None:
    keys = sorted([f"{top}/{n:02}" for top in "abc" for n in range(7)] + ["top1", "top2", "a.txt"])
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    paginator = s3.get_paginator("list_objects" if version == "v1" else "list_objects_v2")

    def collect(**arguments: Any) -> tuple[list[str], list[str]]:
        found: list[str] = []
        prefixes: list[str] = []
        for page in paginator.paginate(Bucket=bucket, **arguments):
            found += [entry["Key"] for entry in page.get("Contents", [])]
            prefixes += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
        return found, prefixes

    for size in (1, 2, 5, 1000):
        config = {"PageSize": size}
        assert collect(PaginationConfig=config) == (keys, [])
        assert collect(PaginationConfig=config, Delimiter="/") == (["a.txt", "top1", "top2"], ["a/", "b/", "c/"])
        assert collect(PaginationConfig=config, Prefix="b/") == ([f"b/{n:02}" for n in range(7)], [])
    assert collect(Prefix="nothing") == ([], [])


def test_list_parameters(s3: Any, bucket: str) -> None:
    for key in ("a", "b", "c d"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"xy")
    page = s3.list_objects_v2(Bucket=bucket, StartAfter="a", FetchOwner=True)
    assert [entry["Key"] for entry in page["Contents"]] == ["b", "c d"]
    assert (page["KeyCount"], page["Contents"][0]["Size"]) == (2, 2)
    assert page["Contents"][0]["Owner"]["ID"] == s3.list_buckets()["Owner"]["ID"]
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"] == 0
    assert code_of(s3.list_objects_v2, Bucket=bucket, ContinuationToken="nonsense") == "InvalidArgument"


def test_delete_objects(s3: Any, bucket: str) -> None:
    keys = [f"k{n}" for n in range(50)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    delete = {"Objects": [{"Key": key} for key in [*keys, "missing"]]}
    answer = s3.delete_objects(Bucket=bucket, Delete=delete)
    assert [entry["Key"] for entry in answer["Deleted"]] == [*keys, "missing"]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert code_of(s3.delete_objects, Bucket=bucket, Delete={"Objects": []}) == "MalformedXML"
