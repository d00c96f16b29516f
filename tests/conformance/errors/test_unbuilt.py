"""Operations that are not implemented say so, and do nothing."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from tests.fixtures.operations import (
    ALIASES,
    CONFIGURATIONS,
    CONFIRMED,
    EXTENSIONS,
    IMPLEMENTED,
    Call,
    make_scene,
    send,
    unbuilt_calls,
)
from tests.fixtures.targets import keys_of, read, refusal
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

UNBUILT = unbuilt_calls()


def test_the_table_knows_the_service_model() -> None:
    model = set(botocore.session.get_session().get_service_model("s3").operation_names)
    built = (set(IMPLEMENTED) - EXTENSIONS) | set(ALIASES) | set(CONFIGURATIONS) | CONFIRMED
    assert model == built | set(UNBUILT)
    assert not built & set(UNBUILT)


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_what_is_built_succeeds(wire: Wire, s3: Any, bucket: str, name: str) -> None:
    call = IMPLEMENTED[name]
    answer = send(wire, make_scene(s3, bucket), call)
    assert answer.status == call.succeeds, answer.body


@pytest.mark.parametrize("name", UNBUILT)
def test_what_is_not_built_is_refused_by_name(wire: Wire, s3: Any, bucket: str, name: str) -> None:
    call = UNBUILT[name]
    scene = make_scene(s3, bucket)
    before = scene.state()
    answer = send(wire, scene, call)
    assert (answer.status, answer.code) == (501, "NotImplemented"), answer.body
    assert answer.error["RequestId"] == answer.headers["x-amz-request-id"]
    # Nor may the request reach the bucket or object if the sub-resource is used with another method.
    for method in ("PUT", "DELETE", "POST"):
        answer = send(wire, scene, Call(method, call.path, call.query or "acl", body=b"<Any/>"))
        # 204: what is not there can be removed. 404: unless it has an id.
        assert answer.status in {400, 405, 501} or (method == "DELETE" and answer.status in {204, 404}), call.query
    assert scene.state() == before


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "HEAD"])
@pytest.mark.parametrize(
    "query", ["bogus", "Acl", "ACL", "tagging2", "x", "acl&tagging", "uploads&delete", "website=&policy="]
)
def test_unknown_and_conflicting_sub_resources(wire: Wire, s3: Any, bucket: str, method: str, query: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for path in (f"/{bucket}", f"/{bucket}/k", f"/{bucket}/new"):
        body = b"x" if method in {"PUT", "POST"} else b""
        answer = wire(method, path, query, body=body)
        assert 400 <= answer.status < 500 or answer.status == 501, (path, answer.body)
        if method != "HEAD":
            assert answer.code
    assert keys_of(s3, bucket) == ["k"]
    assert read(s3, bucket, "k") == b"kept"


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-server-side-encryption": "AES256"},
        {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "k"},
        {"x-amz-server-side-encryption": "aws:kms:dsse"},
        {"x-amz-object-lock-event-hold": "ON"},
    ],
)
def test_headers_whose_meaning_is_not_built(wire: Wire, s3: Any, bucket: str, headers: dict[str, str]) -> None:
    answer = wire("PUT", f"/{bucket}/k", headers=headers, body=b"x")
    assert (answer.status, answer.code) == (501, "NotImplemented"), answer.body
    answer = wire("POST", f"/{bucket}/k", "uploads", headers=headers)
    assert answer.status in {200, 501}
    assert keys_of(s3, bucket) == []


def test_buckets_that_need_what_is_not_built(s3: Any, bucket: str) -> None:
    name = f"{bucket}-locked"
    public = {"ACL": "public-read", "ObjectOwnership": "BucketOwnerEnforced"}
    assert refusal(s3.create_bucket, Bucket=name, **public) == (400, "InvalidBucketAclWithObjectOwnership")
    assert refusal(s3.head_bucket, Bucket=name) == (404, "404")
