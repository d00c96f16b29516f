"""The listener: S3 end to end by boto3, and what the application behind it answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.targets import MIB, content
from tests.fixtures.waiting import wait_until

import orcas
from orcas.testing import Control


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orcas.Server]:
    log = tmp_path_factory.mktemp("log") / "access"
    with orcas.Server(memory=True, access_log=str(log), log_level="info") as running:
        running.client().create_bucket(Bucket="photos")
        yield running


@pytest.fixture
def s3(server: orcas.Server) -> Any:
    return server.client()


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a GET."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def send(url: str, body: bytes, kind: str, method: str = "PUT", **signed: str) -> Any:
    """The answer to a request with a body."""
    request = urllib.request.Request(url, body, {"content-type": kind, **signed}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer


def form_of(form: Any, file: bytes) -> tuple[str, bytes, str, str]:
    """What `send` takes for a form with a file."""
    fields = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in form["fields"].items()
    )
    begin = f'{fields}--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    return form["url"], begin.encode() + file + b"\r\n--x--\r\n", "multipart/form-data; boundary=x", "POST"


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, 9 * MIB])
def test_objects(s3: Any, size: int) -> None:
    body = content(size)
    s3.put_object(Bucket="photos", Key="a b/ü", Body=body)
    assert s3.head_object(Bucket="photos", Key="a b/ü")["ContentLength"] == size
    assert s3.get_object(Bucket="photos", Key="a b/ü")["Body"].read() == body
    assert [each["Key"] for each in s3.list_objects_v2(Bucket="photos")["Contents"]] == ["a b/ü"]
    s3.delete_object(Bucket="photos", Key="a b/ü")
    with pytest.raises(ClientError) as refused:
        s3.get_object(Bucket="photos", Key="a b/ü")
    assert refused.value.response["Error"]["Code"] == "NoSuchKey"


def test_uploads_in_parts(s3: Any) -> None:
    upload = {"Bucket": "photos", "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=content(size))["ETag"]}
        for number, size in ((1, 5 * MIB), (2, 10))
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="photos", Key="parts")["Body"].read() == content(5 * MIB) + content(10)
    s3.delete_object(Bucket="photos", Key="parts")


def test_presigned_urls_and_forms(s3: Any) -> None:
    s3.put_object(Bucket="photos", Key="shared", Body=b"hello")
    url = s3.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "shared"})
    assert fetch(url)[::2] == (200, b"hello")
    assert fetch(url + "0")[0] == 403
    form = s3.generate_presigned_post("photos", "posted")
    for size in (10, MIB):
        assert send(*form_of(form, content(size))).status == 204
        assert s3.get_object(Bucket="photos", Key="posted")["Body"].read() == content(size)
    s3.delete_object(Bucket="photos", Key="posted")
    s3.delete_object(Bucket="photos", Key="shared")


def test_changes_of_rights_are_in_the_audit_log(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="audited")
        allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::audited/*"}
        s3.delete_public_access_block(Bucket="audited")
        s3.put_bucket_policy(Bucket="audited", Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
        s3.put_bucket_ownership_controls(
            Bucket="audited", OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
        )
        # The fields of a form may ask for what a header would.
        url = s3.generate_presigned_url(
            "put_object", {"Bucket": "audited", "Key": "address", "ACL": "public-read", "ContentType": "text/plain"}
        )
        assert send(url, b"content", "text/plain", **{"x-amz-acl": "public-read"}).status == 200
        given = {"acl": "public-read"}
        form = s3.generate_presigned_post("audited", "form", given, [given])
        assert send(*form_of(form, b"content")).status == 204
        s3.put_object(Bucket="audited", Key="k", Body=b"public")
        assert fetch(f"{server.endpoint}/audited/k")[::2] == (200, b"public")
        (log,) = (tmp_path / "store" / "audit").glob("*.jsonl")
        text = log.read_text()
    assert "PutBucketPolicy" in text
    assert "DeletePublicAccessBlock" in text
    assert "127.0.0.1" in text
    changed = [json.loads(line) for line in text.splitlines()]
    assert {"address", "form"} <= {line["parameters"].get("Key") for line in changed} <= {"address", "form", None}


def counts(server: orcas.Server) -> Counter[str]:
    """Requests of each operation that are done, and those under way."""
    page = fetch(f"{server.endpoint}/_orcas/metrics")[2].decode()
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in ("orcas_requests_total", "orcas_requests_in_flight"):
                found[sample.labels.get("operation", "under way")] += int(sample.value)
    return found


def test_what_is_passed_on_counts_once(server: orcas.Server, s3: Any) -> None:
    path = Path(server._settings.access_log or "")
    s3.create_bucket(Bucket="passed")
    # A request counts when its answer was sent, which its client may see earlier.
    assert wait_until(lambda: not counts(server)["under way"])
    before = counts(server)
    preferred = {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}
    s3.put_bucket_ownership_controls(Bucket="passed", OwnershipControls=preferred)
    given = {"acl": "public-read-write"}
    s3.delete_public_access_block(Bucket="passed")
    url = s3.generate_presigned_url("put_object", {"Bucket": "passed", "Key": "once", "ACL": given["acl"]})
    assert send(url, b"content", "", **{"x-amz-acl": given["acl"]}).status == 200
    assert send(*form_of(s3.generate_presigned_post("passed", "once", given, [given]), b"content")).status == 204
    assert fetch(f"{server.endpoint}/", **{"x-amz-target": "DynamoDB_20120810.ListTables"})[0] == 501
    once = ["PutBucketOwnershipControls", "DeletePublicAccessBlock", "PutObject", "PostObject", "ListBuckets"]
    s3.put_object(Bucket="passed", Key="after", Body=b"")
    expected = Counter(once) + Counter(["PutObject"])
    assert wait_until(lambda: counts(server) - before == expected), counts(server) - before
    assert wait_until(lambda: '"after"' in path.read_text())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    logged = [line["operation"] for line in lines if line.get("bucket") == "passed"]
    assert logged == ["CreateBucket", *once[:4], "PutObject"]
    for key in ("once", "after"):
        s3.delete_object(Bucket="passed", Key=key)
    s3.delete_bucket(Bucket="passed")


def test_the_application_answers_the_rest(server: orcas.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="ann")
    assert [user["UserName"] for user in iam.list_users()["Users"]] == ["ann"]
    iam.delete_user(UserName="ann")
    status, headers, page = fetch(f"{server.endpoint}/", accept="text/html")
    assert (status, headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert b"This is an S3 server" in page
    assert fetch(f"{server.endpoint}/_orcas/health/ready")[0] == 200
    assert fetch(f"{server.endpoint}/_orcas/console/")[0] == 200
    status, _, text = fetch(f"{server.endpoint}/_orcas/metrics")
    assert status == 200
    assert b"orcas_connections" in text
    # A host that is a bucket has no routes.
    assert fetch(f"{server.endpoint}/_orcas/health/ready", host="photos.localhost")[0] == 403
    status, _, refusal = fetch(f"{server.endpoint}/", **{"x-amz-target": "DynamoDB_20120810.ListTables"})
    assert status == 501
    assert b"NotImplemented" in refusal


def test_nobody_says_where_others_come_from(server: orcas.Server) -> None:
    url = f"{server.endpoint}/_orcas/metrics"
    assert fetch(url, **{"orcas-front-client": "192.0.2.1:5"})[0] == 200
    assert fetch(url, **{"x-forwarded-for": "192.0.2.1"})[0] == 403


def test_requests_are_in_the_access_log_with_their_heads(server: orcas.Server, s3: Any) -> None:
    s3.put_object(Bucket="photos", Key="logged", Body=b"hello")
    path = Path(server._settings.access_log or "")
    wait_until(lambda: path.exists() and '"logged"' in path.read_text())
    (line,) = [json.loads(line) for line in path.read_text().splitlines() if '"logged"' in line]
    assert (line["operation"], line["status"], line["remote"]) == ("PutObject", 200, "127.0.0.1")
    s3.delete_object(Bucket="photos", Key="logged")


def test_faults_of_tests(server: orcas.Server, s3: Any) -> None:
    with Control(server) as control:
        control.fault("error", operation="PutObject", code="AccessDenied")
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket="photos", Key="k", Body=b"")
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
        control.clear_faults()
    s3.put_object(Bucket="photos", Key="k", Body=b"")
    s3.delete_object(Bucket="photos", Key="k")


def test_a_stop_waits_for_a_request_under_way(tmp_path: Path) -> None:
    server = orcas.Server(tmp_path / "store")
    server.client().create_bucket(Bucket="photos")
    url = urlsplit(server.client().generate_presigned_url("put_object", {"Bucket": "photos", "Key": "late"}))
    with socket.create_connection((url.hostname, url.port), timeout=60) as client:
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 5\r\n"
        client.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        os.kill(server.pid, signal.SIGTERM)
        client.sendall(b"hello")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    server.stop()
    with orcas.Server(tmp_path / "store") as again:
        assert again.client().get_object(Bucket="photos", Key="late")["Body"].read() == b"hello"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_a_client_may_begin_with_http_2(server: orcas.Server, s3: Any, tmp_path: Path) -> None:
    def curl(url: str, *options: str) -> tuple[str, bytes]:
        form = ["--write-out", "%{stderr}%{http_code} %{http_version}", "--output", "-", "--silent", "--max-time", "60"]
        words = ["curl", "--http2-prior-knowledge", *form, *options, url]
        done = subprocess.run(words, capture_output=True, check=True)
        return done.stderr.decode(), done.stdout

    body, sent = content(3 * MIB), {"Bucket": "photos", "Key": "http2"}
    (tmp_path / "body").write_bytes(body)
    upload = s3.generate_presigned_url("put_object", Params=sent)
    assert curl(upload, "--upload-file", str(tmp_path / "body")) == ("200 2", b"")
    assert curl(s3.generate_presigned_url("get_object", Params=sent)) == ("200 2", body)
    assert curl(f"{server.endpoint}/_orcas/health/ready")[0] == "200 2"


def test_tls_negotiates_http_2_with_who_speaks_nothing_else() -> None:
    """Who speaks both gets HTTP/1.1: threads share connections, not streams of one."""
    with orcas.Server(memory=True, tls_self_signed=True) as server:
        host = urlsplit(server.endpoint)
        for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["h2"], "h2"), ([], None)):
            context = ssl.create_default_context(cafile=server.ca)
            if offered:
                context.set_alpn_protocols(offered)
            with (
                socket.create_connection((host.hostname, host.port), timeout=60) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                assert connection.selected_alpn_protocol() == chosen
                if chosen == "h2":
                    # The preface and empty settings are answered by settings.
                    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
                    assert connection.recv(9)[3] == 4
                else:
                    connection.sendall(b"GET /_orcas/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert connection.recv(12) == b"HTTP/1.1 200"
