"""Who may copy: every set of actions against every kind of copy, of a key and of a version of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.fixtures.targets import Target
from tests.fixtures.wire import Answer, Signer

pytestmark = pytest.mark.conformance

# What each request needs, by action, of the source and of the destination.
READ, READ_VERSION, DELETE, WRITE = "s3:GetObject", "s3:GetObjectVersion", "s3:DeleteObject", "s3:PutObject"
ACTIONS = {READ: "source*/a", READ_VERSION: "source*/a", DELETE: "source*/a", WRITE: "destination*/*"}


@dataclass(frozen=True)
class Place:
    """Buckets, of which the source keeps versions, an upload in the destination, and a user for each set of actions."""

    root: Signer
    source: str
    destination: str
    version: str
    upload: str
    users: dict[frozenset[str], Signer]

    def answer(self, signer: Signer, request: str) -> Answer:
        versioned = f"?versionId={self.version}" if request.endswith("version") else ""
        name = "x-amz-move-source" if request == "move" else "x-amz-copy-source"
        part = request.startswith("part")
        query = [("partNumber", "1"), ("uploadId", self.upload)] if part else []
        bucket = f"{self.source}-plain" if request == "move" else self.source
        headers = [(name, f"/{bucket}/a{versioned}")]
        path = f"/{self.destination}/{'upload' if part else 'copy'}"
        return signer.roundtrip(signer.request("PUT", path, query, headers))


@pytest.fixture
def place(target: Target) -> Iterator[Place]:
    s3, iam = target.client(), target.server.client("iam")
    unique = uuid.uuid4().hex[:12]
    source, destination = (f"{name}-{unique}" for name in ("source", "destination"))
    # Objects are moved only in buckets that never had versioning.
    for bucket in (source, f"{source}-plain", destination):
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=f"{source}-plain", Key="a", Body=b"moved")
    s3.put_bucket_versioning(Bucket=source, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=source, Key="a", Body=b"older")["VersionId"]
    s3.put_object(Bucket=source, Key="a", Body=b"newer")
    upload = s3.create_multipart_upload(Bucket=destination, Key="upload")["UploadId"]
    users = {}
    root = Signer.of(target.server)
    for number, chosen in enumerate(itertools.product((False, True), repeat=len(ACTIONS))):
        allowed = [action for action, is_allowed in zip(ACTIONS, chosen, strict=True) if is_allowed]
        name = f"{unique}-{number}"
        iam.create_user(UserName=name)
        statements = []
        for action in allowed:
            resource = f"arn:aws:s3:::{ACTIONS[action].replace('*/', f'-{unique}*/')}"
            statements.append({"Effect": "Allow", "Action": action, "Resource": resource})
        if statements:
            document = json.dumps({"Version": "2012-10-17", "Statement": statements})
            iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        users[frozenset(allowed)] = dataclasses.replace(
            root, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"]
        )
    yield Place(root, source, destination, version, upload, users)
    iam.close()


NEEDS: dict[str, Any] = {
    "copy": {READ, WRITE},
    "copy of a version": {READ_VERSION, WRITE},
    "part": {READ, WRITE},
    "part of a version": {READ_VERSION, WRITE},
    "move": {READ, DELETE, WRITE},
}


def test_copies_need_the_source_and_the_destination(place: Place) -> None:
    for allowed, signer in place.users.items():
        for request, needed in NEEDS.items():
            answer = place.answer(signer, request)
            expected = 200 if needed <= allowed else 403
            assert answer.status == expected, f"{request} with {sorted(allowed)}: {answer}"
            if expected == 403:
                assert answer.error["Code"] == "AccessDenied"
            elif request == "move":
                put = place.root.request("PUT", f"/{place.source}-plain/a", body=b"moved")
                assert place.root.roundtrip(put).status == 200


def test_a_source_that_is_missing_is_denied_as_one_that_is_not(place: Place) -> None:
    """Whoever may not read it learns neither that it exists nor that it does not."""
    signer = place.users[frozenset({WRITE})]
    for missing in (f"/{place.source}/none", f"/{place.source}-none/a", f"/{place.source}/a?versionId={'0' * 32}"):
        headers = [("x-amz-copy-source", missing)]
        answer = signer.roundtrip(signer.request("PUT", f"/{place.destination}/copy", (), headers))
        assert (answer.status, answer.error["Code"]) == (403, "AccessDenied")
