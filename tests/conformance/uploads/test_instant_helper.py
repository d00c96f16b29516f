"""`orcas.instant.upload` through boto3: what it sends, and what it does if an instant upload is impossible."""

from __future__ import annotations

import http.server
import io
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config
from tests.fixtures.checksums import checksum, etag
from tests.fixtures.targets import MIB, Target, keys_of, read

import orcas

pytestmark = pytest.mark.conformance


@pytest.fixture
def sent(s3: Any) -> Iterator[list[str]]:
    """Record the operations of ordinary uploads that the client sends meanwhile."""
    calls: list[str] = []

    def note(model: Any, **_: Any) -> None:
        calls.append(model.name)

    s3.meta.events.register("before-call.s3", note)
    yield calls
    s3.meta.events.unregister("before-call.s3", note)


@pytest.mark.parametrize("size", [65_536, 300_000, 9 * MIB])
@pytest.mark.parametrize("form", ["bytes", "memoryview", "path", "str", "file", "offset"])
def test_only_new_bytes_travel(s3: Any, bucket: str, sent: list[str], tmp_path: Path, size: int, form: str) -> None:
    data = random.randbytes(size)
    path = tmp_path / "data"
    path.write_bytes(b"before" + data if form == "offset" else data)

    def source() -> Any:
        if form == "offset":
            stream = path.open("rb")
            stream.seek(6)
            return stream
        return {"bytes": data, "memoryview": memoryview(data), "path": path, "str": str(path)}.get(form) or (
            io.BytesIO(data)
        )

    first = source()
    assert orcas.instant.upload(s3, bucket, "a", first) == orcas.instant.InstantResult(etag(data), True, size)
    assert sent == ["PutObject"]
    second = source()
    extra = {"ContentType": "a/b", "Metadata": {"m": "1"}, "IfNoneMatch": "*"}
    result = orcas.instant.upload(s3, bucket, "dir/ä +%?&#b", second, extra_args=extra)
    assert result == orcas.instant.InstantResult(etag(data), False, size)
    assert sent == ["PutObject"]
    for stream in (first, second):
        if form == "offset":
            stream.close()
    got = s3.get_object(Bucket=bucket, Key="dir/ä +%?&#b")
    assert got["Body"].read() == data
    assert (got["ContentType"], got["Metadata"]) == ("a/b", {"m": "1"})
    assert s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")["ChecksumSHA256"] == checksum("SHA256", data)


def test_small_bodies_are_simply_sent(s3: Any, bucket: str, sent: list[str]) -> None:
    for number, size in enumerate((0, 1, 65_535)):
        for key in ("a", "b"):
            assert orcas.instant.upload(s3, bucket, f"{key}{size}", bytes(size)).transferred
        assert sent == ["PutObject"] * 2 * (number + 1)
    assert read(s3, bucket, "a1") == b"\0"


def test_refusals_are_those_of_boto3(s3: Any, bucket: str) -> None:
    data = random.randbytes(100_000)
    orcas.instant.upload(s3, bucket, "k", data)
    for extra, key, code in (
        ({"IfNoneMatch": "*"}, "k", "PreconditionFailed"),
        ({"IfMatch": etag(b"")}, "k", "PreconditionFailed"),
        ({"IfMatch": etag(data)}, "other", "NoSuchKey"),
        ({"ServerSideEncryption": "AES256"}, "other", "NotImplemented"),
    ):
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            orcas.instant.upload(s3, bucket, key, data, extra_args=extra)
        assert refused.value.response["Error"]["Code"] == code
    with pytest.raises(botocore.exceptions.ClientError):
        orcas.instant.upload(s3, f"{bucket}-missing", "k", data)
    with pytest.raises(botocore.exceptions.ParamValidationError):
        orcas.instant.upload(s3, bucket, "other", data, extra_args={"Metadata": {"a": "ä"}})
    with pytest.raises(ValueError, match="Body"):
        orcas.instant.upload(s3, bucket, "k", data, extra_args={"Body": b""})
    assert keys_of(s3, bucket) == ["k"]


def test_other_clients_of_the_same_server(target: Target, bucket: str) -> None:
    data = random.randbytes(100_000)
    orcas.instant.upload(target.client(), bucket, "a", data)
    virtual = target.client(s3={"addressing_style": "virtual"})
    assert not orcas.instant.upload(virtual, bucket, "b", data).transferred
    assert read(target.client(), bucket, "b") == data


def test_wrong_keys_are_told_by_boto3(target: Target, bucket: str) -> None:
    stranger = target.server.client(aws_secret_access_key="x" * 40)
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        orcas.instant.upload(stranger, bucket, "k", bytes(100_000))
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    stranger.close()


class _Other(http.server.BaseHTTPRequestHandler):
    """A server that stores nothing and does not know instant uploads."""

    reply: tuple[int, bytes] = (405, b"")
    puts: list[bytes]

    def do_POST(self) -> None:
        status, body = self.reply
        self._answer(status, body)

    def do_PUT(self) -> None:
        if "100-continue" in self.headers.get("Expect", ""):
            self.send_response_only(100)
            self.end_headers()
        self.puts.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(200, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"other"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _challenge(first: int, last: int) -> bytes:
    return (
        f'<InstantUpload><Status>challenge</Status><Challenge>00</Challenge><Nonce>00</Nonce><Range first="{first}" '
        f'last="{last}"/></InstantUpload>'
    ).encode()


@pytest.mark.parametrize(
    "reply",
    [
        (405, b"<Error/>"),
        (501, b""),
        (400, b"<Error>"),
        (404, b""),
        (403, b""),
        (500, b""),
        (301, b""),
        (200, b""),
        (200, b"<html>"),
        (200, b"<Other/>"),
        (200, b"<InstantUpload/>"),
        (200, b"<InstantUpload><Status>send</Status></InstantUpload>"),
        (200, b"<InstantUpload><Status>challenge</Status></InstantUpload>"),
        (200, _challenge(0, 10)),
        (200, _challenge(0, 100_000)),
        (200, _challenge(5, 4)),
        (200, _challenge(-5, 4)),
        (200, b"x" * 100_000),
    ],
)
def test_servers_that_are_not_orcas(reply: tuple[int, bytes]) -> None:
    handler = type("Handler", (_Other,), {"reply": reply, "puts": []})
    data = random.randbytes(100_000)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        client = boto3.session.Session().client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{server.server_address[1]}",
            aws_access_key_id="a",
            aws_secret_access_key="b",
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}),
        )
        try:
            assert orcas.instant.upload(client, "bucket", "k", data) == orcas.instant.InstantResult(
                '"other"', True, len(data)
            )
            assert handler.puts == [data]  # type: ignore[attr-defined]
        finally:
            client.close()
            server.shutdown()
            thread.join()


def test_the_package_does_not_pull_boto3_in() -> None:
    code = (
        "import sys, orcas; assert 'orcas.instant' not in sys.modules; orcas.instant.upload; import orcas.instant;"
        "assert not {'boto3', 'botocore'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
