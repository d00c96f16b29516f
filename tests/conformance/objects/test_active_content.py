"""Objects that could run scripts in a browser: at the origin of the server they are sandboxed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

ACTIVE = ["text/html", "image/svg+xml", "application/xhtml+xml; charset=utf-8", "text/xml", "image/png, text/html"]
PASSIVE = ["image/png", "video/mp4", "text/plain", "application/pdf", "binary/octet-stream"]


def policy(wire: Wire, target: str, host: str | None = None) -> str | None:
    """The Content-Security-Policy of the answer to a presigned GET."""
    answer = wire.send("GET", target, {"Host": host or wire.netloc})
    assert answer.status in {200, 206, 304}, answer.body
    return answer.headers.get("content-security-policy")


@pytest.mark.parametrize(
    ("kind", "expected"), [(kind, "sandbox") for kind in ACTIVE] + [(kind, None) for kind in PASSIVE]
)
def test_what_a_browser_may_run(wire: Wire, s3: Any, bucket: str, kind: str, expected: str | None) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"<script>alert(origin)</script>", ContentType=kind)
    assert policy(wire, wire.presign("GET", f"/{bucket}/k")) == expected


def test_the_type_that_counts_is_the_one_that_is_sent(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="plain", Body=b"<script></script>", ContentType="text/plain")
    s3.put_object(Bucket=bucket, Key="page", Body=b"<script></script>", ContentType="text/html")
    s3.put_object(Bucket=bucket, Key="untyped", Body=b"<script></script>")
    html, plain = "response-content-type=text%2Fhtml", "response-content-type=text%2Fplain"
    assert policy(wire, wire.presign("GET", f"/{bucket}/plain", html)) == "sandbox"
    assert policy(wire, wire.presign("GET", f"/{bucket}/page", plain)) is None
    assert policy(wire, wire.presign("GET", f"/{bucket}/untyped")) is None


def test_whoever_asks_and_however(wire: Wire, s3: Any, bucket: str) -> None:
    """Caches do not tell requests of pages from those of scripts, so the header does not depend on who asks."""
    page = b"<script></script>" * 10_000
    s3.put_object(Bucket=bucket, Key="dir/page", Body=page, ContentType="text/html")
    part = wire("GET", f"/{bucket}/dir/page", headers={"Range": "bytes=0-9"})
    for answer in (wire("GET", f"/{bucket}/dir/page"), wire("HEAD", f"/{bucket}/dir/page"), part):
        assert answer.headers["content-security-policy"] == "sandbox", answer.status
    assert policy(wire, wire.presign("GET", f"/{bucket}/%64ir/page")) == "sandbox"


def test_a_host_of_a_bucket_is_an_origin_of_its_own(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key=f"{bucket}/k", Body=b"x", ContentType="text/html")
    host = f"{bucket}.localhost:{wire.netloc.rpartition(':')[2]}"
    answer = wire("GET", f"/{bucket}/k", headers={"Host": host})
    assert (answer.status, answer.headers.get("content-security-policy")) == (200, None)
    answer = wire("GET", f"/{bucket}/{bucket}/k", headers={"Host": "localhost"})
    assert (answer.status, answer.headers.get("content-security-policy")) == (200, "sandbox")
