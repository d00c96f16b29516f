"""The key of an object has 1 to 1,024 bytes: a URL or a form of the console that names another one reaches no bucket."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from starlette.routing import Route
from tests.console.test_uploads import step
from tests.console.visitors import Visitor

from orcas.console.app import MODULES

OF_OBJECTS = tuple(f"/b/{{bucket}}/{name}" for name in ("object", "versions", "share"))
ROUTES = sorted(
    (route.path, method)
    for module in MODULES
    for route in module.ROUTES
    if isinstance(route, Route) and route.path.startswith(OF_OBJECTS)
    for method in (route.methods or ()) - {"HEAD"}
)
FORM = {"version": "v", "marker": "1", "bucket": "elsewhere", "target": "t", "how": "move", "acl": "public-read-write",
        "tags": "a=b", "first": "0", "last": ""}  # fmt: skip


@pytest.fixture
def versions(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


@pytest.mark.parametrize(("path", "method"), ROUTES)
@pytest.mark.parametrize("key", ["", "é" * 512 + "x"], ids=["empty", "long"])
def test_a_page_of_an_object_needs_a_key(
    visitor: Visitor, s3: Any, bucket: str, versions: None, path: str, method: str, key: str
) -> None:
    place = f"{path.replace('{bucket}', bucket)}?key={quote(key)}&seconds=3600&old=a&new=b"
    before = s3.get_bucket_acl(Bucket=bucket)["Grants"]
    answer = visitor.get(place) if method == "GET" else visitor.post(place, FORM)
    assert answer.status_code == 400
    assert "has 1 to 1,024 bytes" in answer.text
    assert "X-Amz-Signature" not in answer.text
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert s3.get_bucket_acl(Bucket=bucket)["Grants"] == before


def test_routes_are_found() -> None:
    assert ("/b/{bucket}/object/delete", "POST") in ROUTES
    assert ("/b/{bucket}/share", "GET") in ROUTES
    assert len(ROUTES) == 15


def test_forms_and_steps_need_a_key(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="u")["UploadId"]
    assert visitor.post(f"/b/{bucket}/zip", {"key": ""}).status_code == 400
    visitor.done(f"/b/{bucket}/delete-objects", {"key": ""})
    visitor.done("/disk/abort", {"bucket": bucket, "key": "", "id": upload})
    visitor.done("/disk/abort", {"bucket": "", "key": "u", "id": upload})
    copied = visitor.done(f"/b/{bucket}/object/copy?key=k", {"bucket": bucket, "target": "x" * 1025})
    assert "Nothing was copied" in copied
    for name in ("put", "begin", "part", "parts", "complete", "abort"):
        order = {"crc32": "AAAAAA==", "upload": upload, "part": 1, "parts": []}
        assert step(visitor, bucket, name, key="", **order).status_code == 400
        assert step(visitor, bucket, name, key="x" * 1025, **order).status_code == 400
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]
    assert [entry["UploadId"] for entry in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
