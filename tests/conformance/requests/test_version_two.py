"""Presigned URLs of Signature Version 2, the default of boto3 and the AWS command line in us-east-1."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from botocore.config import Config
from tests.fixtures.signing import presigned_url_of_version_two
from tests.fixtures.targets import Target, content, keys_of, read, running
from tests.fixtures.uploads import begin
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance


@pytest.fixture
def signer(target: Target) -> Any:
    """boto3 as it presigns by default."""
    return target.client(signature_version="s3", s3={"addressing_style": "path"})


def fetch(wire: Wire, method: str, url: str, body: bytes = b"", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    parts = urlsplit(url)
    target = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    return wire.send(method, target, {"Host": parts.netloc or wire.netloc, **named}, body)


def test_boto3_presigns_so_by_default(target: Target, wire: Wire, s3: Any, bucket: str) -> None:
    import boto3

    server = target.server
    keys = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1", **keys)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    assert "AWSAccessKeyId=" in url
    assert fetch(wire, "GET", url).body == b"x"


@pytest.mark.parametrize("key", ["k", "dir/a b+c", "ünï?&=#%", "..//x", "a&uploads"])
@pytest.mark.parametrize("size", [0, 300, 70_000])
def test_put_get_delete(signer: Any, s3: Any, wire: Wire, bucket: str, key: str, size: int) -> None:
    data, place = content(size), {"Bucket": bucket, "Key": key}
    put = signer.generate_presigned_url("put_object", Params=place, ExpiresIn=60)
    assert fetch(wire, "PUT", put, data).status == 200
    assert read(s3, bucket, key) == data
    got = fetch(wire, "GET", signer.generate_presigned_url("get_object", Params=place))
    assert (got.status, got.body) == (200, data)
    head = fetch(wire, "HEAD", signer.generate_presigned_url("head_object", Params=place))
    assert (head.status, head.headers["content-length"]) == (200, str(size))
    assert fetch(wire, "DELETE", signer.generate_presigned_url("delete_object", Params=place)).status == 204
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("domain", ["localhost", "s3.test"])
def test_buckets_in_the_host(target: Target, wire: Wire, s3: Any, bucket: str, domain: str) -> None:
    port = wire.netloc.rsplit(":", 1)[1]
    options = Config(signature_version="s3", s3={"addressing_style": "virtual"})
    client = target.server.client(endpoint_url=f"http://{domain}:{port}", config=options)
    put = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "_orcas/a b"})
    assert urlsplit(put).netloc.startswith(f"{bucket}.{domain}")
    assert fetch(wire, "PUT", put, b"x").status == 200
    got = fetch(
        wire, "GET", client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "_orcas/a b"})
    )
    assert (got.status, got.body) == (200, b"x")
    listed = fetch(wire, "GET", client.generate_presigned_url("list_objects_v2", Params={"Bucket": bucket}))
    assert listed.document().findtext("Contents/Key") == "_orcas/a%20b"
    # The bucket in the host name is signed.
    s3.create_bucket(Bucket=f"{bucket}-other")
    spoiled = fetch(wire, "PUT", put.replace(bucket, f"{bucket}-other"), b"x")
    assert (spoiled.status, spoiled.code) == (403, "SignatureDoesNotMatch")
    client.close()


@pytest.mark.parametrize(
    ("operation", "method", "status"),
    [
        ("list_objects_v2", "GET", 200),
        ("list_object_versions", "GET", 200),
        ("list_multipart_uploads", "GET", 200),
        ("head_bucket", "HEAD", 200),
        ("get_bucket_acl", "GET", 200),
        ("get_bucket_location", "GET", 200),
        ("get_bucket_versioning", "GET", 200),
        ("get_object_lock_configuration", "GET", 404),
        ("delete_bucket", "DELETE", 204),
        ("create_bucket", "PUT", 200),
    ],
)
def test_operations_on_buckets(signer: Any, wire: Wire, bucket: str, operation: str, method: str, status: int) -> None:
    """boto3 signs the bucket with a slash behind it, and sends it without."""
    url = signer.generate_presigned_url(operation, Params={"Bucket": bucket})
    assert urlsplit(url).path == f"/{bucket}"
    answer = fetch(wire, method, url)
    assert answer.status == status, answer.body
    if status == 404:
        assert answer.code == "ObjectLockConfigurationNotFoundError"


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        ("get_object_attributes", {"Key": "k", "ObjectAttributes": ["ETag"]}),
        ("get_object_retention", {"Key": "k"}),
        ("get_object_legal_hold", {"Key": "k"}),
        ("get_bucket_encryption", {}),
        ("get_public_access_block", {}),
    ],
)
def test_sub_resources_that_boto3_does_not_sign(
    signer: Any, s3: Any, wire: Wire, bucket: str, operation: str, more: dict[str, Any]
) -> None:
    """As on S3, they are refused: else a URL for an object would serve for its retention, too."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = fetch(wire, "GET", signer.generate_presigned_url(operation, Params={"Bucket": bucket, **more}))
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


def test_headers_move_into_the_query_and_count(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    params = {"Bucket": bucket, "Key": "k", "ContentType": "x/y", "Metadata": {"m": "a b", "n": "2"}}
    url = signer.generate_presigned_url("put_object", Params=params)
    assert fetch(wire, "PUT", url, b"x").status == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["Metadata"]) == ("x/y", {"m": "a b", "n": "2"})
    sent = {"Content_Type": "x/y", "x_amz_meta_m": "a b"}
    assert fetch(wire, "PUT", url, b"x", **sent).status == 200
    for name, value in (("Content_Type", "z"), ("x_amz_meta_m", "b")):
        assert fetch(wire, "PUT", url, b"x", **(sent | {name: value})).status == 400, name
    digest = signer.generate_presigned_url(
        "put_object", Params={"Bucket": bucket, "Key": "k", "ContentMD5": "A" * 22 + "=="}
    )
    assert fetch(wire, "PUT", digest, b"x").code == "BadDigest"
    copy = signer.generate_presigned_url(
        "copy_object", Params={"Bucket": bucket, "Key": "c", "CopySource": f"{bucket}/k"}
    )
    assert fetch(wire, "PUT", copy).status == 200
    assert keys_of(s3, bucket) == ["c", "k"]


def test_overrides_and_ranges(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    asked = {
        "ResponseContentDisposition": 'attachment; filename="a&b c+d.txt"',
        "ResponseContentType": "text/x",
        "ResponseCacheControl": "no-store",
        "ResponseContentLanguage": "gsw",
        "ResponseContentEncoding": "identity",
    }
    url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k", **asked})
    got = fetch(wire, "GET", url, Range="bytes=2-3")
    assert (got.status, got.body) == (206, b"23"), got.body
    names = ["content-disposition", "content-type", "cache-control", "content-language", "content-encoding"]
    assert [got.headers[name] for name in names] == list(asked.values())
    for name in ("disposition", "type", "language"):
        assert (
            fetch(wire, "GET", url.replace(f"response-content-{name}=", f"response-content-{name}=x", 1)).status == 403
        )


def test_an_upload_in_presigned_parts(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for number, body in ((1, content(5 << 20)), (2, b"end")):
        url = signer.generate_presigned_url("upload_part", Params={**upload.arguments, "PartNumber": number})
        upload.tags[number] = fetch(wire, "PUT", url, body).headers["etag"]
        for spoiled in (url.replace(f"partNumber={number}", "partNumber=9"), url.replace("uploadId=", "uploadId=0")):
            assert fetch(wire, "PUT", spoiled, body).status == 403
    upload.complete()
    assert read(s3, bucket, "k") == content(5 << 20) + b"end"


def parts_of(url: str) -> dict[str, tuple[str, str]]:
    """Every field of a presigned URL, changed: its method and target."""
    target = url[url.index("/", len("http://")) :]
    path, _, query = target.partition("?")
    spoiled = {"method": ("DELETE", target), "path": ("PUT", f"{path}x?{query}")}
    for name, value in parse_qsl(query, keep_blank_values=True):
        written = f"{name}={quote(value, safe='-_.~')}"
        assert written in query, (written, query)
        for what, other in (
            ("missing", query.replace(written, "").strip("&")),
            ("changed", query.replace(written, f"{name}={quote(value[:-1] + ('1' if value[-1] != '1' else '2'))}")),
            ("longer", query.replace(written, written + "x")),
            ("twice", f"{query}&{written}"),
        ):
            spoiled[f"{name} {what}"] = ("PUT", f"{path}?{other}")
    for name in ("uploads", "uploadId=u&partNumber=1", "versionId=null", "response-expires=x", "acl", "instant",
                 "renameObject", "x-amz-meta-b=1", "content-md5=x", "x-amz-copy-source=a%2Fb"):  # fmt: skip
        spoiled[f"{name} added"] = ("PUT", f"{target}&{name}")
    return spoiled


def test_every_field_is_signed(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    params = {"Bucket": bucket, "Key": "k", "ContentType": "x/y", "Metadata": {"m": "v"}}
    url = signer.generate_presigned_url("put_object", Params=params)
    for what, (method, target) in parts_of(url).items():
        answer = wire.send(method, target, {"Host": wire.netloc}, b"spoiled")
        assert answer.status in {400, 403}, (what, answer.status, answer.body)
        assert "<StringToSign" not in answer.body.decode()
    for name, value in (("x-amz-acl", "private"), ("x-amz-meta-b", "1"), ("Content-MD5", "A" * 22 + "=="),
                        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("Authorization", "AWS a:b")):  # fmt: skip
        answer = wire.send("PUT", url.removeprefix(wire.endpoint), {"Host": wire.netloc, name: value}, b"spoiled")
        assert answer.status in {400, 403}, name
    assert read(s3, bucket, "k") == b"kept"
    assert keys_of(s3, bucket) == ["k"]
    assert fetch(wire, "PUT", url, b"right").status == 200


def test_urls_expire_as_aws_says(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    place = {"Bucket": bucket, "Key": "k"}
    expired = fetch(wire, "GET", signer.generate_presigned_url("get_object", Params=place, ExpiresIn=-1))
    assert (expired.status, expired.code, expired.error["Message"]) == (403, "AccessDenied", "Request has expired")
    week = 7 * 24 * 3600
    assert fetch(wire, "GET", signer.generate_presigned_url("get_object", Params=place, ExpiresIn=week)).body == b"x"
    long = fetch(wire, "GET", signer.generate_presigned_url("get_object", Params=place, ExpiresIn=week + 3600))
    assert (long.status, long.code) == (400, "AuthorizationQueryParametersError")


def test_the_headers_of_version_two_are_still_refused(wire: Wire, bucket: str) -> None:
    answer = wire.send("GET", f"/{bucket}", {"Host": wire.netloc, "Authorization": f"AWS {wire.identity.access_key}:x"})
    assert (answer.status, answer.code) == (400, "InvalidRequest")


def test_the_operators_tools_take_none(wire: Wire) -> None:
    url = wire.presign_version_two("GET", "/_orcas/admin/stats")
    assert wire.send("GET", url, {"Host": wire.netloc}).status == 403


@pytest.mark.parametrize("settings", [{"presign_v2": False}, {"strict_region": True}])
def test_a_server_may_refuse_them(settings: dict[str, object]) -> None:
    with running(None, **settings) as target:
        url = presigned_url_of_version_two(target.wire.identity, "GET", f"{target.server.endpoint}/")
        answer = fetch(target.wire, "GET", url)
        assert (answer.status, answer.code) == (400, "InvalidRequest")
        assert "AWS4-HMAC-SHA256" in answer.error["Message"]
        assert fetch(target.wire, "GET", target.server.endpoint + target.wire.presign("GET", "/")).status == 200
