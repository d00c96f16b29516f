"""Uploads by HTML forms: boto3's own, and forms that no client would send."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import re
import select
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import httpx
import pytest
from tests.fixtures.checksums import checksum, content_md5, etag
from tests.fixtures.forms import BOUNDARY, form_headers, multipart, policy_of, post, signature_of, signed_form
from tests.fixtures.targets import MIB, Target, content, keys_of, read, running
from tests.fixtures.wire import Answer, Wire

from orcas.settings.config import environment

pytestmark = pytest.mark.conformance

DOCUMENT = Path(__file__).parents[3] / "docs" / "s3" / "forms.md"


def submit(form: dict[str, Any], data: bytes, filename: str = "f.txt") -> httpx.Response:
    """Send a form made by boto3 as a program does."""
    return httpx.post(form["url"], data=form["fields"], files={"file": (filename, data)}, trust_env=False, timeout=60)


def upload(wire: Wire, bucket: str, data: bytes, *conditions: Any, **fields: str) -> Answer:
    """A form signed for exactly these fields; the key is `k` unless they name another."""
    named = {"key": "k"} | {name if "action" in name else name.replace("_", "-"): fields[name] for name in fields}
    return post(wire, bucket, multipart(signed_form(wire.identity, bucket, named, conditions), data))


@pytest.mark.parametrize("target", ["disk", "chunked"], indirect=True)
@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize("size", [0, 1, 300, 20_000, 65_536, 70_000, 90_000, 5 * MIB + 1, 20 * MIB])
def test_boto3_forms_of_every_size(target: Target, s3: Any, bucket: str, version: str, size: int) -> None:
    data = content(size)
    signer = target.client(signature_version=version)
    form = signer.generate_presigned_post(bucket, "dir/${filename}", ExpiresIn=60)
    assert ("x-amz-signature" in form["fields"]) == (version == "s3v4")
    answer = submit(form, data, "ünï.bin")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["etag"] == etag(data)
    assert keys_of(s3, bucket) == ["dir/ünï.bin"]
    assert read(s3, bucket, "dir/ünï.bin") == data
    # The same content again, which is already stored.
    assert submit(form, data, "again").status_code == 204
    assert read(s3, bucket, "dir/again") == data


def test_fields_become_headers_of_the_object(wire: Wire, s3: Any, bucket: str) -> None:
    answer = upload(
        wire, bucket, b"x", Content_Type="text/x; charset=utf-8", Cache_Control="max-age=7", acl="private",
        Content_Disposition='attachment; filename="a b.txt"', Content_Encoding="br", Content_Language="de",
        Expires="Thu, 01 Jan 2037 00:00:00 GMT", X_Amz_Meta_Colour="blau", x_amz_storage_class="STANDARD",
    )  # fmt: skip
    assert answer.status == 204, answer.body
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["CacheControl"], head["ContentEncoding"], head["ContentLanguage"]) == (
        "text/x; charset=utf-8", "max-age=7", "br", "de",
    )  # fmt: skip
    assert (head["ContentDisposition"], head["Metadata"]) == ('attachment; filename="a b.txt"', {"colour": "blau"})
    assert head["ExpiresString"] == "Thu, 01 Jan 2037 00:00:00 GMT"


def test_metadata_of_forms_is_text(wire: Wire, s3: Any, bucket: str) -> None:
    word = "=?UTF-8?Q?actually-ascii?="
    assert upload(wire, bucket, b"x", x_amz_meta_a="ÄMÄZÕÑ S3", x_amz_meta_b=word).status == 204
    metadata = s3.head_object(Bucket=bucket, Key="k")["Metadata"]
    assert metadata == {"a": "=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?=", "b": word}


def test_headers_show_a_space_for_what_they_cannot_hold(wire: Wire, s3: Any, bucket: str) -> None:
    disposition = 'attachment; filename="caf\u00e9 \u2013 \U0001f451.txt"'
    answer = upload(
        wire, bucket, b"x", Content_Disposition=disposition, Cache_Control="a\u2013b", Content_Language="a\r\nb: c",
        x_amz_website_redirect_location="/\u6587",
    )  # fmt: skip
    assert answer.status == 204, answer.body
    for method in ("GET", "HEAD"):
        shown = wire(method, f"/{bucket}/k").headers
        latin = shown["content-disposition"].encode("utf-8", "surrogateescape").decode("latin-1")
        assert latin == 'attachment; filename="caf\u00e9     .txt"'
        assert (shown["cache-control"], shown["content-language"]) == ("a b", "a  b: c")
        assert shown["x-amz-website-redirect-location"] == "/"


def test_successful_uploads_answer_as_the_form_asks(wire: Wire, s3: Any, bucket: str) -> None:
    address = f"http://{wire.netloc}/{bucket}/a%2Fb%20%C3%BC"
    for status, asked in ((204, ""), (200, "200"), (204, "204"), (204, "404")):
        fields = {"success_action_status": asked} if asked else {}
        answer = upload(wire, bucket, b"abc", key="a/b ü", **fields)
        assert (answer.status, answer.body, answer.headers["location"]) == (status, b"", address)
        assert answer.headers["etag"] == etag(b"abc")
    created = upload(wire, bucket, b"abc", key="a/b ü", success_action_status="201")
    assert (created.status, created.headers["content-type"]) == (201, "application/xml")
    document = ET.fromstring(created.body)
    assert document.tag == "PostResponse"
    assert {child.tag: child.text for child in document} == {
        "Location": address, "Bucket": bucket, "Key": "a/b ü", "ETag": etag(b"abc"),
    }  # fmt: skip
    query = f"bucket={bucket}&key=a%2Fb+%C3%BC&etag={quote(etag(b'abc'))}"
    for name, url, location in (
        ("success_action_redirect", "https://example.com/done", f"https://example.com/done?{query}"),
        ("redirect", "http://example.com/?a=b#c", f"http://example.com/?a=b&{query}#c"),
    ):
        answer = upload(wire, bucket, b"abc", key="a/b ü", **{name: url})
        assert (answer.status, answer.headers["location"], answer.body) == (303, location, b"")
    assert upload(wire, bucket, b"abc", success_action_redirect="/relative").status == 204
    assert keys_of(s3, bucket) == ["a/b ü", "k"]


def test_fields_after_the_file_are_ignored(wire: Wire, s3: Any, bucket: str) -> None:
    form = signed_form(wire.identity, bucket, {"key": "k"})
    late = {"key": "other", "x-amz-meta-a": "1", "submit": "Upload", "file": "second"}
    for data in (b"", content(300), content(100_000)):
        assert post(wire, bucket, multipart(form, data, after=late)).status == 204
        assert (keys_of(s3, bucket), read(s3, bucket, "k")) == (["k"], data)
    key = form.pop("key")
    answer = post(wire, bucket, multipart(form, b"x", after={"key": key}))
    assert (answer.status, answer.code, answer.error["ArgumentName"]) == (400, "InvalidArgument", "key")
    for data in (b"x", content(100_000)):
        answer = post(wire, bucket, multipart(form | {"key": "k"}, data, after={"x": "y" * 20_000}))
        assert (answer.status, answer.code) == (400, "MaxPostPreDataLengthExceededError")


def test_who_may_not_upload_learns_nothing(wire: Wire, s3: Any, bucket: str) -> None:
    stranger = wire.using(secret_key="x" * 40).identity
    nobody = wire.using(access_key="AKIANOBODY").identity
    answers = []
    for name in (bucket, f"{bucket}-none"):
        good = signed_form(wire.identity, name, {"key": "k"})
        for form, status, code in (
            (signed_form(stranger, name, {"key": "k"}), 403, "SignatureDoesNotMatch"),
            (signed_form(nobody, name, {"key": "k"}), 403, "InvalidAccessKeyId"),
            ({"key": "k"}, 403, "AccessDenied"),
            ({"key": "k", "policy": good["policy"]}, 403, "AccessDenied"),
            (signed_form(wire.identity, name, {"key": "k"}, expires=-1), 403, "AccessDenied"),
            (good | {"policy": good["policy"][:-4]}, 403, "SignatureDoesNotMatch"),
            (good | {"x-amz-signature": "0" * 64}, 403, "SignatureDoesNotMatch"),
            (good | {"x-amz-security-token": "t"}, 400, "InvalidToken"),
        ):
            answer = post(wire, name, multipart(form))
            assert (answer.status, answer.code) == (status, code), answer.body
            said = {"AWSAccessKeyId": form.get("x-amz-credential", "").partition("/")[0]}
            if code == "SignatureDoesNotMatch":
                said["SignatureProvided"], said["StringToSign"] = form["x-amz-signature"], form["policy"]
                said["StringToSignBytes"] = form["policy"].encode().hex(" ")
                assert "CanonicalRequest" not in answer.error
            if code in {"SignatureDoesNotMatch", "InvalidAccessKeyId"}:
                assert said.items() <= answer.error.items()
            answers.append((name, answer.status, answer.error["Message"]))
    half = len(answers) // 2
    assert [answer[1:] for answer in answers[:half]] == [answer[1:] for answer in answers[half:]]
    assert answers[4][2] == "Invalid according to Policy: Policy expired."
    assert upload(wire, f"{bucket}-none", b"x").code == "NoSuchBucket"
    assert keys_of(s3, bucket) == []


def test_missing_signing_fields_are_named(wire: Wire, s3: Any, bucket: str) -> None:
    good = signed_form(wire.identity, bucket, {"key": "k"})
    for name, shown in (
        ("x-amz-algorithm", "X-Amz-Algorithm"),
        ("x-amz-credential", "X-Amz-Credential"),
        ("x-amz-date", "X-Amz-Date"),
        ("x-amz-signature", "X-Amz-Signature"),
        ("policy", "policy"),
    ):
        answer = post(wire, bucket, multipart({field: good[field] for field in good if field != name}))
        assert (answer.status, answer.code, answer.error["ArgumentName"]) == (400, "InvalidArgument", shown)
        assert answer.error["Message"] == (
            f"Bucket POST must contain a field named '{shown}'.  If it is specified, please check the order of the fields."
        )
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize(
    ("conditions", "fields", "reason"),
    [
        ([["eq", "$key", "k"]], {}, None),
        ([["starts-with", "$key", ""]], {}, None),
        ([["starts-with", "$key", "user/"]], {}, 'Policy Condition failed: ["starts-with", "$key", "user/"]'),
        ([["starts-with", "$KEY", "user/"]], {"key": "user/k"}, None),
        ([{"key": "K"}], {}, 'Policy Condition failed: ["eq", "$key", "K"]'),
        ([["eq", "key", "k"]], {}, 'Policy Condition failed: ["eq", "key", "k"]'),
        ([{"key": "k"}], {"Content-Type": "a/b"}, "Extra input fields: Content-Type"),
        ([{"key": "k"}], {"x-ignore-anything": "1"}, None),
        ([{"key": "k"}, ["starts-with", "$content-type", "image/"]], {"Content-Type": "image/png, image/x"}, None),
        (
            [{"key": "k"}, ["starts-with", "$Content-Type", "image/"]],
            {"Content-Type": "image/png,text/x"},
            'Policy Condition failed: ["starts-with", "$Content-Type", "image/"]',
        ),
        (
            [{"key": "k"}, {"acl": "private"}],
            {},
            'Policy Condition failed: ["eq", "$acl", "private"]',
        ),
    ],
)  # fmt: skip
def test_conditions(
    wire: Wire, s3: Any, bucket: str, conditions: list[Any], fields: dict[str, str], reason: str | None
) -> None:
    signing = signed_form(wire.identity, bucket, {})
    day = signing["x-amz-date"][:8]
    of_signature = [{name: signing[name]} for name in ("x-amz-algorithm", "x-amz-credential", "x-amz-date")]
    policy = policy_of([{"bucket": bucket}, *of_signature, *conditions])
    signing |= {"policy": policy, "x-amz-signature": signature_of(wire.identity, day, policy)}
    answer = post(wire, bucket, multipart({"key": "k"} | fields | signing))
    if reason is None:
        assert answer.status == 204, answer.body
    else:
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert answer.error["Message"] == f"Invalid according to Policy: {reason}"
        # Some clients read it with a regular expression.
        assert f"<Message>Invalid according to Policy: {reason}</Message>".encode() in answer.body
        assert keys_of(s3, bucket) == []


def test_no_field_can_be_changed(wire: Wire, s3: Any, bucket: str) -> None:
    named = {"key": "k", "Content-Type": "text/plain", "x-amz-meta-a": "1", "success_action_status": "200"}
    form = signed_form(wire.identity, bucket, named)
    assert post(wire, f"{bucket}-other", multipart(form)).status == 403
    for name in form:
        for changed in (form[name][:-1], form[name] + "A", form[name].swapcase()):
            if changed != form[name]:
                answer = post(wire, bucket, multipart(form | {name: changed}))
                assert answer.status in {400, 403}, (name, changed)
    for more in ({"x-amz-meta-b": "2"}, {"acl": "private"}, {"redirect": "http://a"}, {"bucket": bucket + "x"}):
        assert post(wire, bucket, multipart(form | more)).status in {400, 403}, more
    twice = multipart({"KEY": "k"}, None).removesuffix(f"--{BOUNDARY}--\r\n".encode()) + multipart(form)
    assert post(wire, bucket, twice).code == "InvalidArgument"
    assert keys_of(s3, bucket) == []
    assert post(wire, bucket, multipart(form)).status == 200


@pytest.mark.parametrize("scale", [1, 10_000, MIB])
def test_the_size_of_the_file_is_bounded(wire: Wire, s3: Any, bucket: str, scale: int) -> None:
    bounds = ["content-length-range", 5 * scale, 10 * scale]
    for size, expected in (
        (12 * scale, (400, "EntityTooLarge")),
        (10 * scale + 1, (400, "EntityTooLarge")),
        (5 * scale - 1, (400, "EntityTooSmall")),
    ):
        answer = upload(wire, bucket, content(size), bounds)
        assert (answer.status, answer.code) == expected
        assert answer.error["MaxSizeAllowed" if expected[1] == "EntityTooLarge" else "MinSizeAllowed"]
    assert keys_of(s3, bucket) == []
    for size in (5 * scale, 10 * scale):
        assert upload(wire, bucket, content(size), bounds).status == 204
        assert read(s3, bucket, "k") == content(size)


def test_a_file_that_is_too_large_is_refused_while_it_comes(wire: Wire, s3: Any, bucket: str) -> None:
    form = signed_form(wire.identity, bucket, {"key": "k"}, [["content-length-range", 0, MIB]])
    body = multipart(form, content(4 * MIB))
    headers = form_headers(wire) | {"Content-Length": str(1 << 30)}
    lines = "\r\n".join([f"POST /{bucket} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""])
    with wire.connect() as connection:
        connection.push(lines.encode() + body[: 3 * MIB])
        # The refusal is noticed with the next bytes.
        while not select.select([connection.sock], [], [], 0.05)[0] and connection.push(b"more"):
            pass
        answer = connection.response("POST")
        assert (answer.status, answer.code, answer.closes) == (400, "EntityTooLarge", True)
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("size", [1000, 3 * MIB])
def test_a_form_that_breaks_off_stores_nothing(wire: Wire, s3: Any, bucket: str, size: int) -> None:
    body = multipart(signed_form(wire.identity, bucket, {"key": "k"}), content(size))
    headers = form_headers(wire) | {"Content-Length": str(len(body))}
    lines = "\r\n".join([f"POST /{bucket} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""])
    for sent in (10, 700, len(body) - size // 2, len(body) - 3):
        with wire.connect() as connection:
            connection.send(lines.encode() + body[:sent])
    assert post(wire, bucket, body).status == 204
    assert (keys_of(s3, bucket), read(s3, bucket, "k")) == (["k"], content(size))


def test_forms_that_come_in_small_pieces_share_a_connection(wire: Wire, s3: Any, bucket: str) -> None:
    with wire.connect() as connection:
        for number, piece in enumerate([1, 7, 100_000, 3]):
            data = b"\r\n--" + BOUNDARY.encode()[:-1] + content(3000 if piece < 10 else 300_000)
            body = multipart(signed_form(wire.identity, bucket, {"key": f"k{number}"}), data)
            headers = form_headers(wire) | {"Content-Length": str(len(body))}
            head = [f"POST /{bucket} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
            connection.send("\r\n".join(head).encode())
            for at in range(0, len(body), piece):
                connection.send(body[at : at + piece])
            answer = connection.response("POST")
            assert (answer.status, answer.closes) == (204, False), answer.body
            assert read(s3, bucket, f"k{number}") == data


def test_hostile_bodies_are_refused(wire: Wire, s3: Any, bucket: str) -> None:
    form = signed_form(wire.identity, bucket, {"key": "k"})
    good, delimiter = multipart(form), f"--{BOUNDARY}".encode()
    for body, code in (
        (b"", "MalformedPOSTRequest"),
        (b"x", "MalformedPOSTRequest"),
        (b"\r\n" * 5000, "MalformedPOSTRequest"),
        (good[:-10], "MalformedPOSTRequest"),
        (good.replace(b"content\r\n", b"content\n"), "MalformedPOSTRequest"),
        (good.replace(b"content\r\n" + delimiter, b"content\r\n" + delimiter + b"X"), "MalformedPOSTRequest"),
        (good.replace(b'form-data; name="file"', b'file; name="file"'), "MalformedPOSTRequest"),
        (good.replace(b'name="key"', b"name"), "MalformedPOSTRequest"),
        (good.replace(b'name="file"', b'name="other"'), "IncorrectNumberOfFilesInPostRequest"),
        (multipart(form, None), "IncorrectNumberOfFilesInPostRequest"),
        (multipart(form | {"x-ignore-a": "y" * 20_480}), "MaxPostPreDataLengthExceededError"),
        (multipart(form).replace(b'name="file"', b'name="file"' + b";" * 30_000), "MaxPostPreDataLengthExceededError"),
        (multipart(form | {"x-ignore-a": "${filename}" * 900}, filename="n" * 5000), "MaxPostPreDataLengthExceededError"),
    ):  # fmt: skip
        answer = post(wire, bucket, body)
        assert (answer.status, answer.code) == (400, code), (body[:60], answer.body)
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        f'multipart/form-data; boundary="{"x" * 71}"',
    ):
        assert post(wire, bucket, good, Content_Type=kind).code == "MalformedPOSTRequest"
    assert post(wire, bucket, good, Content_Type="text/html").status in {403, 412}
    endless = [*form_headers(wire).items(), ("Transfer-Encoding", "chunked")]
    assert wire.send("POST", f"/{bucket}", endless, b"0\r\n\r\n").status == 411
    long = wire.send("POST", f"/{bucket}", form_headers(wire) | {"Content-Length": str((5 << 30) + 30_000)})
    assert (long.status, long.code) == (400, "EntityTooLarge")
    assert keys_of(s3, bucket) == []


def test_digests_in_fields_are_verified(wire: Wire, s3: Any, bucket: str) -> None:
    for data in (b"content", content(200_000)):
        sha256 = base64.b64encode(hashlib.sha256(data).digest()).decode()
        answer = upload(wire, bucket, data, x_amz_checksum_sha256=sha256, Content_MD5=content_md5(data))
        assert (answer.status, answer.headers["x-amz-checksum-sha256"]) == (204, sha256)
        head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert head["ChecksumSHA256"] == sha256
        s3.delete_object(Bucket=bucket, Key="k")
        for fields, code in (
            ({"x_amz_checksum_sha256": sha256}, "BadDigest"),
            ({"Content_MD5": content_md5(data)}, "BadDigest"),
            ({"x_amz_checksum_sha256": "sailorjerry"}, "InvalidRequest"),
        ):
            answer = upload(wire, bucket, data[:-1] + b"!", **fields)
            assert (answer.status, answer.code) == (400, code)
        assert keys_of(s3, bucket) == []


def test_a_file_without_a_checksum_gets_one(wire: Wire, s3: Any, bucket: str) -> None:
    for size in (0, 7, 70_000, 200_000):
        data = content(size)
        answer, value = upload(wire, bucket, data), checksum("CRC64NVME", data)
        assert [answer.headers[f"x-amz-checksum-{name}"] for name in ("crc64nvme", "type")] == [value, "FULL_OBJECT"]
        assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["ChecksumCRC64NVME"] == value
        assert read(s3, bucket, "k") == data


def test_a_page_of_another_origin_may_read_the_answer(wire: Wire, s3: Any, bucket: str) -> None:
    rule = {"AllowedMethods": ["POST"], "AllowedOrigins": ["https://page.example"], "ExposeHeaders": ["ETag"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    form = signed_form(wire.identity, bucket, {"key": "k"})
    for fields, status in ((form, 204), (form | {"key": "other"}, 403), ({"key": "k"}, 403)):
        answer = post(wire, bucket, multipart(fields), Origin="https://page.example")
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, "https://page.example")
        assert answer.headers["access-control-expose-headers"] == "ETag"
        answer = post(wire, bucket, multipart(fields), Origin="https://other.example")
        assert (answer.status, "access-control-allow-origin" in answer.headers) == (status, False)


def test_what_is_not_implemented_is_refused_by_name(wire: Wire, s3: Any, bucket: str) -> None:
    for name, value in {
        "x-amz-server-side-encryption": "aws:kms:dsse", "x-amz-copy-source": "b/k",
        "x-amz-trailer": "x", "x-amz-no-such": "",
    }.items():  # fmt: skip
        answer = upload(wire, bucket, b"x", **{name.replace("-", "_"): value})
        assert (answer.status, answer.code) == (501, "NotImplemented"), name
        assert name in answer.error["Message"]
    assert upload(wire, bucket, b"x", x_amz_storage_class="NONE").code == "InvalidStorageClass"
    assert upload(wire, bucket, b"x", acl="public-read").code == "AccessControlListNotSupported"
    form = multipart(signed_form(wire.identity, bucket, {"key": "k"}))
    for header in ("x_amz_meta_a", "x_amz_acl", "Content_MD5"):
        assert post(wire, bucket, form, **{header: "private"}).code == "NotImplemented"
    assert wire("POST", f"/{bucket}", headers=form_headers(wire), body=form).code == "InvalidArgument"
    forged = wire.using(secret_key="x" * 40)("POST", f"/{bucket}", headers=form_headers(wire), body=form)
    assert forged.code == "SignatureDoesNotMatch"
    assert post(wire, f"{bucket}/k", form).code == "MethodNotAllowed"
    assert wire("POST", f"/{bucket}", body=b"x", sign=False).code == "PreconditionFailed"
    assert keys_of(s3, bucket) == []


def test_versions_and_tags(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
    first = upload(wire, bucket, b"first", tagging=tags, x_amz_storage_class="GLACIER")
    second = upload(wire, bucket, content(100_000))
    assert (first.status, second.status) == (204, 204)
    version = first.headers["x-amz-version-id"]
    assert version != second.headers["x-amz-version-id"]
    assert read(s3, bucket, "k", VersionId=version) == b"first"
    assert s3.get_object_tagging(Bucket=bucket, Key="k", VersionId=version)["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert s3.head_object(Bucket=bucket, Key="k", VersionId=version)["StorageClass"] == "GLACIER"
    assert upload(wire, bucket, b"x", tagging="not-xml").code == "MalformedXML"


def test_policies_that_are_none(wire: Wire, s3: Any, bucket: str) -> None:
    signing = signed_form(wire.identity, bucket, {"key": "k"})
    day = signing["x-amz-date"][:8]
    for text, message in (
        ("{", "Invalid JSON."),
        ('{"conditions": []}', "Policy missing expiration."),
        ('{"expiration": "2099-01-01T00:00:00Z"}', "Policy missing conditions."),
        (
            '{"expiration": "2099-01-01 00:00:00", "conditions": []}',
            "Invalid 'expiration' value: '2099-01-01 00:00:00'",
        ),
        ("[" * 5000, "Invalid JSON."),
    ):
        policy = base64.b64encode(text.encode()).decode()
        changed = signing | {"policy": policy, "x-amz-signature": signature_of(wire.identity, day, policy)}
        answer = post(wire, bucket, multipart(changed))
        assert (answer.status, answer.code) == (400, "InvalidPolicyDocument")
        assert answer.error["Message"] == f"Invalid Policy: {message}"


def test_the_settings_for_signatures_hold_for_forms() -> None:
    with running(None, presign_v2=False) as target:
        target.client().create_bucket(Bucket="forms")
        older = target.client(signature_version="s3").generate_presigned_post("forms", "k")
        answer = submit(older, b"x")
        assert (answer.status_code, "<Code>InvalidRequest</Code>" in answer.text) == (400, True)
        assert upload(target.wire, "forms", b"x").status == 204
    with running(None, strict_region=True) as target:
        target.client().create_bucket(Bucket="forms")
        assert upload(target.wire, "forms", b"x").status == 204
        elsewhere = upload(target.wire.using(region="eu-west-9"), "forms", b"x")
        assert (elsewhere.status, elsewhere.code) == (400, "InvalidArgument")
        assert elsewhere.error["Message"] == "the region 'eu-west-9' is wrong; expecting 'us-east-1'"


def test_a_bucket_in_the_host(wire: Wire, s3: Any, bucket: str) -> None:
    body = multipart(signed_form(wire.identity, bucket, {"key": "k", "success_action_status": "201"}))
    answer = wire.send("POST", "/", form_headers(wire) | {"Host": f"{bucket}.s3.test"}, body)
    assert (answer.status, answer.headers["location"]) == (201, f"http://{bucket}.s3.test/k")
    assert read(s3, bucket, "k") == b"content"


def test_white_space_around_a_host_is_not_part_of_it(wire: Wire, bucket: str) -> None:
    body = multipart(signed_form(wire.identity, bucket, {"key": "k"}))
    answer = wire.send("POST", "/", form_headers(wire) | {"Host": f"  {bucket}.s3.test \t"}, body)
    assert (answer.status, answer.headers["location"]) == (204, f"http://{bucket}.s3.test/k")


class Page(html.parser.HTMLParser):
    """The form of a page: its action and its inputs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.form: dict[str, str | None] = {}
        self.inputs: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "form":
            self.form = dict(attrs)
        elif tag == "input":
            self.inputs.append(dict(attrs))


def test_the_form_of_the_document_uploads(target: Target, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the form as a browser does: inputs in order, the button after the file."""
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    program = next(text for text in programs if "<form" in text)
    server, names = target.server, dict[str, Any]()
    s3.create_bucket(Bucket="photos")
    # The default session keeps the first keys that it finds.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with environment({
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key, "AWS_DEFAULT_REGION": server.region,
    }):  # fmt: skip
        exec(compile(program, str(DOCUMENT), "exec"), names)  # noqa: S102 - the document's own code
    page = Page(names["page"])
    assert (page.form["method"], page.form["enctype"]) == ("post", "multipart/form-data")
    hidden = {str(field["name"]): str(field["value"]) for field in page.inputs if field["type"] == "hidden"}
    kinds = [field["type"] for field in page.inputs]
    assert kinds == ["hidden"] * len(hidden) + ["file", "submit"]
    body = multipart(hidden, content(100_000), filename="summer.jpg", after={"submit": "Upload"})
    path = str(page.form["action"]).removeprefix(server.endpoint)
    answer = target.wire.send("POST", path, form_headers(target.wire), body)
    assert (answer.status, "<Key>uploads/summer.jpg</Key>" in answer.body.decode()) == (201, True), answer.body
    assert read(s3, "photos", "uploads/summer.jpg") == content(100_000)
    refused = target.wire.send("POST", path, form_headers(target.wire), multipart(hidden | {"key": "x"}))
    assert (refused.status, refused.code) == (403, "AccessDenied")
