"""Changes of who may do what with a bucket are in the audit log, whoever makes them, and those that fail are said to."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.fixtures.signing import Identity
from tests.fixtures.wire import Wire

import orcas
from orcas.control.audit import verify
from orcas.control.files.audit import read_audit

POLICY = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/x"}],
})  # fmt: skip
BLOCK = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[orcas.Server]:
    with orcas.Server(tmp_path / "store") as server:
        server.client().create_bucket(Bucket="photos")
        yield server


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    verify(tmp_path / "store")
    return [read.content for read in read_audit(tmp_path / "store") if read.content is not None]


def test_what_changes_a_bucket_is_a_line(server: orcas.Server, tmp_path: Path) -> None:
    s3, iam = server.client(), server.client("iam")
    s3.put_bucket_policy(Bucket="photos", Policy=POLICY)
    s3.get_bucket_policy(Bucket="photos")
    s3.put_public_access_block(Bucket="photos", PublicAccessBlockConfiguration=BLOCK)
    s3.put_bucket_tagging(Bucket="photos", Tagging={"TagSet": [{"Key": "policy", "Value": "a"}]})
    s3.delete_public_access_block(Bucket="photos")
    iam.create_user(UserName="alice")
    iam.attach_user_policy(UserName="alice", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    alice = server.client(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
    alice.delete_bucket_policy(Bucket="photos")
    found = lines(tmp_path)
    assert [line["action"] for line in found] == [
        "PutBucketPolicy", "PutPublicAccessBlock", "DeletePublicAccessBlock", "CreateUser", "AttachUserPolicy",
        "CreateAccessKey", "DeleteBucketPolicy",
    ]  # fmt: skip
    first, last = found[0], found[-1]
    assert (first["actor"][-5:], first["parameters"], first["address"]) == (":root", {"Bucket": "photos"}, "127.0.0.1")
    assert (last["actor"].rpartition(":")[2], last["access_key"]) == ("user/alice", key["AccessKeyId"])


def test_a_change_by_a_session_is_a_line_with_its_name(server: orcas.Server, tmp_path: Path) -> None:
    iam, sts = server.client("iam"), server.client("sts")
    root = sts.get_caller_identity()["Arn"]
    iam.create_user(UserName="alice")
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": root.replace(":root", ":user/alice")}}
    iam.create_role(
        RoleName="ops", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    iam.put_role_policy(RoleName="ops", PolicyName="all", PolicyDocument=policy)
    alice = server.client("sts", aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
    assumed = alice.assume_role(RoleArn=root.replace(":root", ":role/ops"), RoleSessionName="night")["Credentials"]
    session = server.client(
        aws_access_key_id=assumed["AccessKeyId"],
        aws_secret_access_key=assumed["SecretAccessKey"],
        aws_session_token=assumed["SessionToken"],
    )
    session.put_bucket_policy(Bucket="photos", Policy=POLICY)
    last = lines(tmp_path)[-1]
    assert (last["action"], last["actor"], last["access_key"]) == (
        "PutBucketPolicy",
        f"{root.replace(':iam:', ':sts:').removesuffix('root')}assumed-role/ops/night",
        assumed["AccessKeyId"],
    )


def test_lists_and_ownership_are_lines(server: orcas.Server, tmp_path: Path) -> None:
    s3 = server.client()
    controls: Any = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket="photos", OwnershipControls=controls)
    s3.put_bucket_acl(Bucket="photos", ACL="private")
    s3.put_object(Bucket="photos", Key="k", Body=b"x")
    s3.put_object_acl(Bucket="photos", Key="k", ACL="private")
    s3.delete_bucket_ownership_controls(Bucket="photos")
    assert [(line["action"], line["parameters"]) for line in lines(tmp_path)] == [
        ("PutBucketOwnershipControls", {"Bucket": "photos"}),
        ("PutBucketAcl", {"Bucket": "photos"}),
        ("PutObjectAcl", {"Bucket": "photos", "Key": "k"}),
        ("DeleteBucketOwnershipControls", {"Bucket": "photos"}),
    ]


def test_a_header_that_gives_others_something_is_a_line(server: orcas.Server, tmp_path: Path) -> None:
    s3 = server.client()
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="owned", ObjectOwnership="BucketOwnerPreferred")
    s3.create_bucket(Bucket="given", ObjectOwnership="ObjectWriter", GrantWrite=f"id={owner}")
    for key, headers in {
        "none": {},
        "private": {"ACL": "private"},
        "owner": {"ACL": "bucket-owner-full-control"},
        "read": {"ACL": "aws-exec-read"},
        "account": {"GrantRead": f"id={owner}"},
    }.items():
        s3.put_object(Bucket="given", Key=key, Body=b"x", **headers)
    s3.copy_object(Bucket="given", Key="copy", CopySource="given/none", GrantRead=f"id={owner}")
    s3.create_multipart_upload(Bucket="given", Key="parts", GrantFullControl=f"id={owner}")
    form = s3.generate_presigned_post(
        "given", "form", Fields={"acl": "aws-exec-read"}, Conditions=[{"acl": "aws-exec-read"}]
    )
    assert httpx.post(form["url"], data=form["fields"], files={"file": b"x"}, trust_env=False).status_code == 204
    found = [(line["action"], line["parameters"], line["access_key"]) for line in lines(tmp_path)]
    mine = server.access_key
    assert found == [
        ("CreateBucket", {"Bucket": "owned"}, mine),
        ("CreateBucket", {"Bucket": "given"}, mine),
        ("PutObject", {"Bucket": "given", "Key": "read"}, mine),
        ("PutObject", {"Bucket": "given", "Key": "account"}, mine),
        ("CopyObject", {"Bucket": "given", "Key": "copy"}, mine),
        ("CreateMultipartUpload", {"Bucket": "given", "Key": "parts"}, mine),
        ("PostObject", {"Bucket": "given", "Key": "form"}, mine),
    ]


def test_who_passes_by_a_retention_is_a_line(server: orcas.Server, tmp_path: Path) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    now = dt.datetime.now(dt.UTC)
    until = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": now + dt.timedelta(days=9)}
    one, two = (s3.put_object(Bucket="locked", Key="k", Body=b"x", **until)["VersionId"] for _ in range(2))
    shorter: Any = {"Mode": "GOVERNANCE", "RetainUntilDate": now + dt.timedelta(days=1)}
    s3.put_object_retention(Bucket="locked", Key="k", Retention=shorter, BypassGovernanceRetention=True)
    s3.delete_object(Bucket="locked", Key="k", VersionId=one, BypassGovernanceRetention=True)
    batch: Any = {"Objects": [{"Key": "k", "VersionId": two}]}
    s3.delete_objects(Bucket="locked", Delete=batch, BypassGovernanceRetention=True)
    s3.delete_object(Bucket="locked", Key="k")
    assert [(line["action"], line["parameters"]) for line in lines(tmp_path)] == [
        ("PutObjectRetention", {"Bucket": "locked", "Key": "k"}),
        ("DeleteObject", {"Bucket": "locked", "Key": "k", "VersionId": one}),
        ("DeleteObjects", {"Bucket": "locked"}),
    ]


def test_a_change_that_cannot_be_written_down_is_not_made(server: orcas.Server, tmp_path: Path) -> None:
    s3 = server.client(config=Config(retries={"total_max_attempts": 1}))
    s3.put_bucket_policy(Bucket="photos", Policy=POLICY)
    audit = tmp_path / "store" / "audit"
    # As a full disk, the log cannot be written.
    audit.rename(tmp_path / "audit")
    audit.write_bytes(b"")
    other = POLICY.replace("photos/x", "photos/y")
    for call, arguments in (
        (s3.put_bucket_policy, {"Policy": other}),
        (s3.delete_bucket_policy, {}),
        (s3.put_public_access_block, {"PublicAccessBlockConfiguration": BLOCK}),
        (s3.put_bucket_acl, {"ACL": "private"}),
    ):
        with pytest.raises(ClientError, match="audit log") as refused:
            call(Bucket="photos", **arguments)
        error = refused.value.response
        assert (error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"]) == (503, "ServiceUnavailable")
    assert json.loads(s3.get_bucket_policy(Bucket="photos")["Policy"]) == json.loads(POLICY)
    audit.unlink()
    (tmp_path / "audit").rename(audit)
    s3.put_bucket_policy(Bucket="photos", Policy=other)
    assert [line["action"] for line in lines(tmp_path)] == ["PutBucketPolicy", "PutBucketPolicy"]


def test_a_refused_change_is_not_in_effect(server: orcas.Server, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="MalformedPolicy"):
        server.client().put_bucket_policy(Bucket="photos", Policy="{}")
    put, refused = lines(tmp_path)
    assert (put["action"], refused["action"], refused["parameters"]) == (
        "PutBucketPolicy", "NotInEffect", {"From": 1, "To": 1},
    )  # fmt: skip


def test_no_spelling_passes_by(server: orcas.Server, tmp_path: Path) -> None:
    wire = Wire(server.endpoint, Identity(server.access_key, server.secret_key, "us-east-1"))
    server.client().put_bucket_policy(Bucket="photos", Policy=POLICY)
    done = [
        wire("DELETE", "/photos", query).status
        for query in ("policy", "policy=", "p%6Flicy", "%70olicy=", "x=1&policy", "policy&policy=1", "Policy")
    ]
    found = [line["action"] for line in lines(tmp_path)]
    assert done[:4] == [204] * 4
    assert found.count("DeleteBucketPolicy") - found.count("NotInEffect") == done.count(204)
