"""Clients reach Orcas through nginx with the configuration in deploy/."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from tests.fixtures.events.brokers import free_port, is_open
from tests.fixtures.events.certificates import certify
from tests.fixtures.targets import MIB, Target, content, keys_of, read, refusal
from tests.fixtures.waiting import wait_until

import orcas

pytestmark = [pytest.mark.conformance, pytest.mark.full]

ROOT: Final = Path(__file__).parents[3]
# Where `.ci/run` unpacks Debian's package, besides the places of installed ones.
PLACES: Final = f"{ROOT}/target/nginx/usr/sbin:/usr/sbin:/usr/local/sbin"
BUCKET: Final = "behind-nginx"
STRANGE: Final = (
    " ", "%", "%2F", "+", "a b+c%20d", "a//b", "//", "./a", "a/../b", "a/./b/", "_orcas/admin/stats", "a?b=c&d", "a#b", "\n",
    "a\\b", ";", "~!*'()", "日本", "\u00fc", "\x01", "x" * 1000,
)  # fmt: skip


@pytest.fixture(scope="module")
def proxy(targets: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of nginx before the server, and the certificate to trust."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path=PLACES)
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    directory = tmp_path_factory.mktemp("nginx")
    certificate, key = certify(directory)
    port = free_port()
    sample = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for was, now in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("    listen [::]:443 ssl;\n", ""),
        ("server 127.0.0.1:9000", f"server {urlsplit(targets('disk').server.endpoint).netloc}"),
        ("/etc/nginx/orcas/certificate.pem", str(certificate)),
        ("/etc/nginx/orcas/key.pem", str(key)),
    ):
        assert sample.count(was) == 1, was
        sample = sample.replace(was, now)
    # What Debian's nginx.conf has around it, and places that need no rights.
    places = "".join(
        f"{name}_temp_path {directory}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; master_process off; pid {directory}/pid; events {{}}\n"
    path = directory / "nginx.conf"
    path.write_text(f"{main}http {{ access_log off; {places}\n{sample}\n}}\n", encoding="utf-8")
    log = directory / "log"
    with log.open("wb") as written:
        process = subprocess.Popen([nginx, "-e", "stderr", "-p", directory, "-c", path], stderr=written)
    try:
        assert wait_until(lambda: is_open(port) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield f"https://localhost:{port}", certificate
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def through(proxy: tuple[str, Path], targets: Any) -> Iterator[Any]:
    """A boto3 client that reaches the server through nginx."""
    url, certificate = proxy
    server: orcas.Server = targets("disk").server
    config = Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    client = server.client(endpoint_url=url, verify=str(certificate), config=config)
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


def fetch(url: str, certificate: Path, **headers: str) -> bytes:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=certificate)) as answer:
        body: bytes = answer.read()
    return body


def test_bodies_of_every_framing(through: Any) -> None:
    encodings: list[str] = []
    through.meta.events.register(
        "before-send.s3.PutObject",
        lambda request, **_: encodings.append(str(request.headers.get("content-encoding", b""), "ascii")),
    )
    # By default, boto3 sends chunks and a trailer over TLS.
    body = content(20 * MIB)
    through.put_object(Bucket=BUCKET, Key="large", Body=body, Metadata={"with_underscore": "a", "dot.ted": "b"})
    assert encodings == ["aws-chunked"]
    found = through.get_object(Bucket=BUCKET, Key="large")
    assert found["Metadata"] == {"with_underscore": "a", "dot.ted": "b"}
    assert found["Body"].read() == body
    assert read(through, BUCKET, "large", Range="bytes=1000000-9999999") == body[1_000_000:10_000_000]
    assert read(through, BUCKET, "large", Range="bytes=-1") == body[-1:]
    upload = through.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    pieces = [content(5 * MIB, 1), content(5 * MIB, 2), b"end"]
    parts = [
        {
            "PartNumber": number,
            "ETag": through.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=number, Body=piece)[
                "ETag"
            ],
        }
        for number, piece in enumerate(pieces, 1)
    ]
    through.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    assert read(through, BUCKET, "parts") == b"".join(pieces)


def test_presigned_requests(through: Any, proxy: tuple[str, Path]) -> None:
    _, certificate = proxy
    name = {"Bucket": BUCKET, "Key": "presigned +%/ü"}
    body = content(2 * MIB)
    put = urllib.request.Request(through.generate_presigned_url("put_object", Params=name), body, method="PUT")
    urllib.request.urlopen(put, context=ssl.create_default_context(cafile=certificate)).close()
    url = through.generate_presigned_url("get_object", Params=name)
    assert fetch(url, certificate) == body
    assert fetch(url, certificate, Range="bytes=5-6") == body[5:7]


def test_strange_keys(through: Any) -> None:
    for key in STRANGE:
        through.put_object(Bucket=BUCKET, Key=f"strange/{key}", Body=key.encode())
    for key in STRANGE:
        assert read(through, BUCKET, f"strange/{key}") == key.encode(), key
    listed = [key for key in keys_of(through, BUCKET) if key.startswith("strange/")]
    assert listed == sorted((f"strange/{key}" for key in STRANGE), key=str.encode)
    # Long heads of requests and answers.
    through.put_object(Bucket=BUCKET, Key="metadata", Metadata={"long": "m" * 2000}, Tagging="t=" + "v" * 200)
    assert len(through.head_object(Bucket=BUCKET, Key="metadata")["Metadata"]["long"]) == 2000


def test_events_arrive_while_the_stream_is_open(through: Any) -> None:
    with orcas.events.listen(through, buckets=[BUCKET], prefix="event", start="oldest") as events:
        for number in range(3):
            through.put_object(Bucket=BUCKET, Key=f"event-{number}", Body=b"x")
            assert next(events).key == f"event-{number}"


def test_what_is_for_this_machine_only_is_refused(through: Any, proxy: tuple[str, Path], target: Target) -> None:
    url, certificate = proxy
    for path in ("/_orcas/admin/stats", "/%5Forcas/admin/stats", "/_orcas/x/../admin/stats", "/_orcas/metrics"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetch(url + path, certificate)
    assert b"ok" in fetch(f"{url}/_orcas/health/ready", certificate)
    # An error of Orcas stays as it is.
    assert refusal(through.get_object, Bucket=BUCKET, Key="absent") == (404, "NoSuchKey")
