"""Clients reach Orcas through nginx, Caddy and Traefik with the configurations in deploy/."""

from __future__ import annotations

import gzip
import json
import os
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
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import MIB, content, keys_of, read, refusal
from tests.fixtures.waiting import wait_until

import orcas

pytestmark = [pytest.mark.conformance, pytest.mark.full]

ROOT: Final = Path(__file__).parents[2]
# Where `.ci/run` unpacks packages of Debian, besides the places of installed ones.
PLACES: Final = f"{ROOT}/target/{{name}}/usr/sbin:{ROOT}/target/{{name}}/usr/bin:/usr/sbin:/usr/local/sbin"
BUCKET: Final = "behind-nginx"
STRANGE: Final = (
    " ", "%", "%2F", "+", "a b+c%20d", "a//b", "//", "./a", "a/../b", "a/./b/", "_orcas/admin/stats", "a?b=c&d", "a#b", "\n",
    "a\\b", ";", "~!*'()", "日本", "\u00fc", "\x01", "x" * 1000,
)  # fmt: skip


NGINX_CHANGES: Final = (
    ("listen 443 ssl", "listen 127.0.0.1:{port} ssl"), ("    listen [::]:443 ssl;\n", ""),
    ("server 127.0.0.1:9000", "server {server}"),
    ("/etc/nginx/orcas/certificate.pem", "{certificate}"), ("/etc/nginx/orcas/key.pem", "{key}"),
)  # fmt: skip
CADDY_CHANGES: Final = (
    ("s3.example.com, *.s3.example.com {{", "https://localhost:{port} {{"), ("127.0.0.1:9000", "{server}"),
    ("/etc/caddy/orcas/certificate.pem", "{certificate}"), ("/etc/caddy/orcas/key.pem", "{key}"),
)  # fmt: skip
TRAEFIK_CHANGES: Final = (
    (":443", "127.0.0.1:{port}"), ("/etc/traefik/traefik-orcas.yml", "{directory}/traefik-orcas.yml"),
)  # fmt: skip
TRAEFIK_ORCAS_CHANGES: Final = (
    ("Host(`s3.example.com`)", "Host(`localhost`)"), ("http://127.0.0.1:9000", "http://{server}"),
    ("/etc/traefik/orcas/certificate.pem", "{certificate}"), ("/etc/traefik/orcas/key.pem", "{key}"),
)  # fmt: skip


def adapted(name: str, changes: tuple[tuple[str, str], ...], places: dict[str, Any]) -> str:
    """A file of deploy/ with other addresses and places."""
    sample = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    for was, now in changes:
        old, new = was.format(**places), now.format(**places)
        assert sample.count(old) == 1, old
        sample = sample.replace(old, new)
    return sample


def nginx(directory: Path, places: dict[str, Any]) -> list[str | Path]:
    # What Debian's nginx.conf has around it, and places that need no rights.
    temporary = "".join(
        f"{name}_temp_path {directory}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; master_process off; pid {directory}/pid; events {{}}\n"
    sample = adapted("nginx.conf", NGINX_CHANGES, places)
    path = directory / "nginx.conf"
    path.write_text(f"{main}http {{ access_log off; {temporary}\n{sample}\n}}\n", encoding="utf-8")
    return ["-e", "stderr", "-p", directory, "-c", path]


def caddy(directory: Path, places: dict[str, Any]) -> list[str | Path]:
    path = directory / "Caddyfile"
    # A port of its own for redirects from http.
    options = "{\n\tauto_https off\n"
    path.write_text(adapted("Caddyfile", CADDY_CHANGES, places).replace("{\n", options, 1), encoding="utf-8")
    return ["run", "--adapter", "caddyfile", "--config", path]


def traefik(directory: Path, places: dict[str, Any]) -> list[str | Path]:
    path = directory / "traefik.yml"
    path.write_text(adapted("traefik.yml", TRAEFIK_CHANGES, places), encoding="utf-8")
    routes = adapted("traefik-orcas.yml", TRAEFIK_ORCAS_CHANGES, places)
    (directory / "traefik-orcas.yml").write_text(routes, encoding="utf-8")
    return [f"--configfile={path}"]


# Each with what installs it.
PROXIES: Final = {
    "nginx": (nginx, "apt-get install nginx-light"), "caddy": (caddy, "apt-get install caddy"),
    "traefik": (traefik, "https://github.com/traefik/traefik/releases"),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orcas.Server]:
    data = tmp_path_factory.mktemp("behind")
    settings = {"trusted_proxies": "127.0.0.1", "access_log": str(data / "access.log"), "master_key": MASTER_KEY}
    with orcas.Server(data / "store", **settings) as server:
        yield server


@pytest.fixture(scope="module", params=PROXIES)
def proxy(
    request: pytest.FixtureRequest, server: orcas.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The URL of a proxy before the server, and the certificate to trust."""
    name = request.param
    prepare, how = PROXIES[name]
    program = shutil.which(name) or shutil.which(name, path=PLACES.format(name=name))
    if program is None:
        pytest.skip(f"{name} is not installed: {how}")
    directory = tmp_path_factory.mktemp(name)
    certificate, key = certify(directory)
    port = free_port()
    places = {
        "port": port, "server": urlsplit(server.endpoint).netloc, "certificate": certificate, "key": key,
        "directory": directory,
    }  # fmt: skip
    log = directory / "log"
    with log.open("wb") as written:
        environ = {**os.environ, "HOME": str(directory), "XDG_DATA_HOME": str(directory)}
        process = subprocess.Popen([program, *prepare(directory, places)], stderr=written, stdout=written, env=environ)
    try:
        assert wait_until(lambda: is_open(port) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield f"https://localhost:{port}", certificate
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def through(proxy: tuple[str, Path], server: orcas.Server) -> Iterator[Any]:
    """A boto3 client that reaches the server through the proxy."""
    url, certificate = proxy
    config = Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    client = server.client(endpoint_url=url, verify=str(certificate), config=config)
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


def metadata_of(answer: Any) -> dict[str, str]:
    """The metadata of an object. Proxies in Go write names of headers with capitals, and boto3 passes these on."""
    return {name.lower(): value for name, value in answer["Metadata"].items()}


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
    assert metadata_of(found) == {"with_underscore": "a", "dot.ted": "b"}
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
    assert len(metadata_of(through.head_object(Bucket=BUCKET, Key="metadata"))["long"]) == 2000


def test_events_arrive_while_the_stream_is_open(through: Any) -> None:
    with orcas.events.listen(through, buckets=[BUCKET], prefix="event", start="oldest") as events:
        for number in range(3):
            through.put_object(Bucket=BUCKET, Key=f"event-{number}", Body=b"x")
            assert next(events).key == f"event-{number}"


def test_what_is_for_this_machine_only_is_refused(through: Any, proxy: tuple[str, Path]) -> None:
    url, certificate = proxy
    for path in ("/_orcas/admin/stats", "/%5Forcas/admin/stats", "/_orcas/x/../admin/stats", "/_orcas/metrics"):
        with pytest.raises(urllib.error.HTTPError, match=r"40[34]"):
            fetch(url + path, certificate)
    assert b"ok" in fetch(f"{url}/_orcas/health/ready", certificate)
    # An error of Orcas stays as it is.
    assert refusal(through.get_object, Bucket=BUCKET, Key="absent") == (404, "NoSuchKey")


def test_packed_objects_stay_packed(through: Any, proxy: tuple[str, Path]) -> None:
    body = gzip.compress(b"text" * 1000)
    through.put_object(Bucket=BUCKET, Key="packed", Body=body, ContentEncoding="gzip")
    url = through.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "packed"})
    assert fetch(url, proxy[1]) == body


def test_the_server_knows_the_client_and_its_scheme(
    through: Any, proxy: tuple[str, Path], server: orcas.Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A client cannot say who it is: the proxy does. Keys of customers need TLS, which the proxy had."""
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    through.put_object(Bucket=BUCKET, Key="secret", Body=b"content", **key)
    through.put_object(Bucket=BUCKET, Key="open", Body=b"content")
    url = through.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "open"})
    claims = {"X-Forwarded-For": "192.0.2.99", "Forwarded": "for=192.0.2.98", "X-Forwarded-Proto": "http"}
    fetch(url, proxy[1], **claims)
    log = Path(tmp_path_factory.getbasetemp(), "behind0", "access.log")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["remote"] for line in lines} == {"127.0.0.1"}
