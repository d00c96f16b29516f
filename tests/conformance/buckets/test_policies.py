"""Policies of buckets through boto3, and what everybody may do by them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fixtures.targets import refusal
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance


def policy(bucket: str, **members: Any) -> str:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement | members]})


def test_everybody_may_read_what_a_policy_opens(s3: Any, bucket: str, wire: Wire) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"content")
    assert refusal(s3.put_bucket_policy, Bucket=bucket, Policy=policy(bucket)) == (403, "AccessDenied")
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(bucket))
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == policy(bucket)
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": True}
    assert wire("GET", f"/{bucket}/k", sign=False).body == b"content"
    assert [wire("GET", f"/{bucket}/{key}", sign=False).status for key in ("none", "")] == [403, 403]
    assert wire("PUT", f"/{bucket}/k", sign=False).status == 403
    s3.delete_bucket_policy(Bucket=bucket)
    assert wire("GET", f"/{bucket}/k", sign=False).status == 403
    assert refusal(s3.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")


def test_a_policy_that_s3_refuses_is_refused_in_its_words(s3: Any, bucket: str) -> None:
    for text, message in {
        "[]": "Policies must be valid JSON and the first byte must be '{'",
        "{": "This policy contains invalid Json",
        policy(bucket, Action="s3:Frobnicate"): "Policy has invalid action",
        policy(bucket, Resource="arn:aws:s3:::other/*"): "Policy has invalid resource",
        policy(bucket, Principal={"AWS": "arn:aws:iam::111122223333:user/none"}): "Invalid principal in policy",
        policy(bucket, Condition={"StringIs": {"aws:Referer": "x"}}): "Invalid Condition type : StringIs",
        policy(bucket, Condition={"StringEquals": {"aws:None": "x"}}): "Policy has an invalid condition key",
        policy(bucket, Condition={"StringEquals": {"s3:None": "x"}}): "Policy has an invalid condition key",
        policy(bucket, Condition={"StringEquals": {"s3:prefix": "x"}}): (
            "Conditions do not apply to combination of actions and resources in statement"
        ),
        policy(bucket, Condition={"IpAddress": {"aws:SourceIp": "192.0.2.0/33"}}): "Invalid IP address in Conditions",
        policy(bucket, Resource=[f"arn:aws:s3:::{bucket}/*{'?a' * 40}b"] * 150): (
            "The patterns of this policy take too much to compare: use fewer ? and * in them."
        ),
    }.items():
        with pytest.raises(s3.exceptions.ClientError) as refused:
            s3.put_bucket_policy(Bucket=bucket, Policy=text)
        error = refused.value.response["Error"]
        assert (error["Code"], error["Message"]) == ("MalformedPolicy", message)
    assert refusal(s3.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")
    assert refusal(s3.get_bucket_policy_status, Bucket=bucket) == (404, "NoSuchBucketPolicy")


def test_tags_of_what_is_there_decide(s3: Any, bucket: str, wire: Wire) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old", Tagging="Open=yes")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"new", Tagging="open=no")
    s3.delete_public_access_block(Bucket=bucket)
    condition = {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Action="s3:GetObject*", Condition=condition))

    def status(path: str, query: str = "") -> int:
        return wire("GET", f"/{bucket}/{path}", query, sign=False).status

    assert [status("k"), status("k", f"versionId={old}"), status("none")] == [403, 200, 403]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "open", "Value": "yes"}]})
    assert wire("GET", f"/{bucket}/k", sign=False).body == b"new"
