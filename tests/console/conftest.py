"""A server in memory, and visitors of its console."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.console.visitors import Visitor, area, shown, visitor_of
from tests.fixtures.targets import Target


@pytest.fixture(scope="session")
def target(targets: Callable[[str], Target]) -> Target:
    return targets("memory")


@pytest.fixture
def stranger(target: Target) -> Iterator[Visitor]:
    """A visitor who has not signed in."""
    visitor = visitor_of(target, signed_in=False)
    yield visitor
    visitor.close()


@pytest.fixture
def visitor(target: Target) -> Iterator[Visitor]:
    """A visitor who has signed in with the root key."""
    visitor = visitor_of(target)
    yield visitor
    visitor.close()


@pytest.fixture
def iam(target: Target) -> Iterator[Any]:
    """A client of IAM with the root key."""
    client = target.server.client("iam")
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A name of this test's own."""
    return f"n-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def visitor_with(target: Target, iam: Any) -> Iterator[Callable[..., Visitor]]:
    """Signs in as a new user who may do these actions on everything."""
    made: list[Visitor] = []

    def sign_in(*actions: str) -> Visitor:
        user = f"v-{uuid.uuid4().hex[:12]}"
        iam.create_user(UserName=user)
        if actions:
            statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            iam.put_user_policy(UserName=user, PolicyName="p", PolicyDocument=json.dumps({"Statement": [statement]}))
        key = iam.create_access_key(UserName=user)["AccessKey"]
        visitor = visitor_of(target, signed_in=False)
        assert visitor.sign_in(key["AccessKeyId"], key["SecretAccessKey"]).status_code == 303
        made.append(visitor)
        return visitor

    yield sign_in
    for visitor in made:
        visitor.close()


@pytest.fixture
def kept(s3: Any, bucket: str) -> str:
    """A bucket that keeps versions, with the same in the folder of one user and beside it."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for prefix in ("", "home/anna/"):
        for content in (b"first content", b"second content"):
            s3.put_object(Bucket=bucket, Key=f"{prefix}k", Body=content, ContentType="text/plain", Tagging="team=blue")
        upload = s3.create_multipart_upload(Bucket=bucket, Key=f"{prefix}parts", ChecksumAlgorithm="CRC32")["UploadId"]
        named = {"Bucket": bucket, "Key": f"{prefix}parts", "UploadId": upload}
        etag = s3.upload_part(**named, PartNumber=1, Body=b"part", ChecksumAlgorithm="CRC32")
        part = {"PartNumber": 1, "ETag": etag["ETag"], "ChecksumCRC32": etag["ChecksumCRC32"]}
        s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [part]})
    return bucket


@pytest.fixture
def user_of(visitor: Visitor, target: Target, name: str, kept: str) -> Iterator[Callable[[str, str, str], Visitor]]:
    """Makes a user by the forms of the console, and gives it a template."""
    made: list[Visitor] = []

    def make(place: str, template: str, prefix: str) -> Visitor:
        visitor.done("/users/users", {"name": name})
        if place == "identity":
            path = f"/users/users/{name}/inline"
            given = {"template": template, "bucket": kept, "prefix": prefix}
        else:
            path, given = f"/b/{kept}/settings/policy", {"template": template, "whose": name, "prefix": prefix}
        begun = visitor.post(path, {"do": "template", **given})
        assert begun.status_code == 200, begun.text
        visitor.done(path, {"do": "save", "name": "p", "document": area(begun.text)})
        key = visitor.done(f"/users/users/{name}/create-key")
        made.append(visitor_of(target, signed_in=False))
        assert made[-1].sign_in(shown(key, "access-key"), shown(key, "secret-key")).status_code == 303
        return made[-1]

    yield make
    for each in made:
        each.close()
