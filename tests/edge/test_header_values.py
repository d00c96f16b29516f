"""Every header that Orcas knows, absent, empty, huge, not UTF-8, twice: an answer, never a failure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.signing import UNSIGNED, Header
from tests.fixtures.wire import Signer

import orcas

from .conftest import BUCKET, stored

FRAMING = ("content-length", "content-type", "content-encoding", "content-md5", "content-language", "content-disposition",
           "cache-control", "expires", "date", "range", "if-match", "if-none-match", "if-modified-since",
           "if-unmodified-since", "if-range", "origin", "referer", "user-agent", "accept", "accept-encoding", "expect",
           "connection", "upgrade", "cookie", "x-forwarded-for", "x-forwarded-host", "forwarded", "te",
           "trailer")  # fmt: skip
AMZ = ("acl", "bucket-object-lock-enabled", "bypass-governance-retention", "checksum-algorithm", "checksum-crc32",
       "checksum-crc32c", "checksum-crc64nvme", "checksum-mode", "checksum-sha1", "checksum-sha256", "checksum-type",
       "content-sha256", "copy-source", "copy-source-if-match", "copy-source-if-modified-since",
       "copy-source-if-none-match", "copy-source-if-unmodified-since", "copy-source-range", "date",
       "decoded-content-length", "expected-bucket-owner", "grant-read", "meta-a", "meta-", "metadata-directive", "mfa",
       "move-source", "mp-object-size", "object-lock-mode", "object-ownership", "rename-source", "request-payer",
       "sdk-checksum-algorithm", "security-token", "server-side-encryption", "storage-class", "tagging",
       "tagging-directive", "trailer", "website-redirect-location", "write-offset-bytes",
       "copy-source-server-side-encryption-customer-key")  # fmt: skip
NAMES = (*FRAMING, *(f"x-amz-{name}" for name in AMZ))

Variant = Callable[[str], list[Header]]
VARIANTS: dict[str, Variant] = {
    "absent": lambda _: [],
    "empty": lambda name: [(name, "")],
    "8 KiB": lambda name: [(name, "a" * 8192)],
    "8 KiB of digits": lambda name: [(name, "9" * 8192)],
    "not UTF-8": lambda name: [(name, "\xff\xfe\x80")],
    "UTF-8": lambda name: [(name, "\xc3\xa9\xf0\x9f\x90\x8b")],
    "twice": lambda name: [(name, "a"), (name, "a")],
    "twice, different": lambda name: [(name, "1"), (name, "2")],
    "commas": lambda name: [(name, "," * 100)],
    "quotes": lambda name: [(name, "\"'<>&;=%00%0d%0a")],
    "tab": lambda name: [(name, "a\tb")],
    "negative": lambda name: [(name, "-1")],
}
# The connection refuses these before S3 sees them; see test_heads.py.
OWN = {"content-length", "transfer-encoding", "expect", "connection", "upgrade"}
REQUESTS: tuple[tuple[str, str, list[Header], bytes], ...] = (
    ("PUT", f"/{BUCKET}/swept", [], b"swept"),
    ("GET", f"/{BUCKET}/kept", [], b""),
    ("HEAD", f"/{BUCKET}/kept", [], b""),
    ("GET", f"/{BUCKET}", [("list-type", "2")], b""),
    ("POST", f"/{BUCKET}/swept", [("uploads", "")], b""),
    ("POST", f"/{BUCKET}", [("delete", "")], b"<Delete><Object><Key>none</Key></Object></Delete>"),
    ("PUT", f"/{BUCKET}", [], b""),
)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_no_value_is_a_failure(server: orcas.Server, signer: Signer, variant: Variant) -> None:
    """Signed, so that the value is examined; 501 means known but not implemented."""
    for name in NAMES:
        for method, path, query, body in REQUESTS:
            extra = variant(name)
            replaced = [header for header in [("x-amz-date", ""), ("x-amz-content-sha256", "")] if header[0] == name]
            request = signer.sign(method, path, query, [h for h in extra if h[0] not in OWN and not replaced], body)
            head = request.head([("content-length", str(len(body)))] if name != "content-length" else [])
            if replaced or name in OWN:
                # Headers that the signer sets itself, or may not sign, are replaced after signing.
                head = re.sub(rb"\r\n%b: [^\r]*" % name.encode(), b"", head)[:-2]
                head += b"".join(f"{key}: {value}\r\n".encode("latin-1") for key, value in extra) + b"\r\n"
            with signer.connect() as connection:
                connection.push(head + body)
                answer = connection.response(method)
            assert answer.status in (200, 204, 206, 304) or 400 <= answer.status < 500 or answer.status == 501, (
                name, method, path, answer,
            )  # fmt: skip
            if replaced:
                assert 400 <= answer.status < 500, (name, method, path, answer)
    assert server._process.poll() is None


AUTHORIZATIONS = [
    "", " ", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=", "AWS4-HMAC-SHA256 ,,,",
    "AWS4-HMAC-SHA256 Credential=a/b/c/d/e,SignedHeaders=,Signature=",
    "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=zz",
    "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request,SignedHeaders=host," + "Signature=" + "0" * 64,
    "AWS4-HMAC-SHA256 " + "Credential=a," * 500, "a" * 8192, "\xff\xfe", "AWS4-ECDSA-P256-SHA256 Credential=a",
    "AWS4-HMAC-SHA256 Credential=a/b/c/d/e SignedHeaders=host Signature=0", "Bearer x", "Negotiate",
]  # fmt: skip


@pytest.mark.parametrize("value", AUTHORIZATIONS, ids=range(len(AUTHORIZATIONS)))
def test_authorizations_that_are_none(signer: Signer, value: str) -> None:
    head = signer.sign("GET", f"/{BUCKET}/kept").head().decode("latin-1")
    spoiled = re.sub(r"authorization: [^\r]*", lambda _: f"authorization: {value}", head)
    answer = signer.roundtrip(spoiled.encode("latin-1"))
    # 501: Signature Version 4A is known but not implemented.
    assert answer.status in (400, 403, 501)
    good = signer.sign("GET", f"/{BUCKET}/kept").headers[-1]
    for extra in ([good], [("authorization", value)]):
        # Twice: client and server could mean different ones.
        twice = signer.sign("GET", f"/{BUCKET}/kept").head(extra)
        assert signer.roundtrip(twice).status in (400, 403)


INJECTIONS = ["a\r\nx-evil: 1", "a\nx-evil: 1", "a\rx-evil: 1", "a\0b", "a\r\n\r\n<html>", "\r\n"]
OVERRIDES = ["content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding"]


@pytest.mark.parametrize("value", INJECTIONS, ids=repr)
@pytest.mark.parametrize("name", OVERRIDES)
def test_overrides_inject_nothing(signer: Signer, name: str, value: str) -> None:
    for signed in (
        signer.sign("GET", f"/{BUCKET}/kept", [(f"response-{name}", value)]),
        signer.presign("GET", f"/{BUCKET}/kept", [(f"response-{name}", value)]),
    ):
        with signer.connect() as connection:
            connection.send(signed.head())
            answer = connection.response()
            assert answer.status == 400
            assert "x-evil" not in answer.headers
            assert b"\0" not in answer.body
            assert connection.buffer == b""


@pytest.mark.parametrize("value", INJECTIONS, ids=repr)
def test_reflected_names_inject_nothing(signer: Signer, value: str) -> None:
    """Answers repeat keys, buckets, prefixes, markers and upload ids in documents and headers."""
    key = f"/{BUCKET}/{value}"
    put = signer.roundtrip(signer.request("PUT", key, body=b"x"))
    assert put.status in (200, 400)
    requests = [
        ("GET", f"{key}-none", []), ("GET", f"/{value}", []), ("PUT", f"/{value}", []), ("DELETE", key, []),
        ("POST", key, [("uploads", "")]), ("GET", key, [("uploadId", value)]),
        *(("GET", f"/{BUCKET}", [(name, value)]) for name in ("prefix", "delimiter", "marker", "encoding-type")),
        *(("GET", f"/{BUCKET}", [("list-type", "2"), (name, value)]) for name in ("start-after", "continuation-token")),
        *(("GET", f"/{BUCKET}", [("uploads", ""), (name, value)]) for name in ("key-marker", "upload-id-marker")),
    ]  # fmt: skip
    for method, path, query in requests:
        with signer.connect() as connection:
            connection.send(signer.request(method, path, query))
            answer = connection.response(method)
            assert answer.status < 500, (method, path, query, answer)
            assert "x-evil" not in answer.headers
            assert connection.buffer == b""
            assert b"\0" not in answer.body
            assert b"<html>" not in answer.body


def test_secrets_are_nowhere(tmp_path: Path) -> None:
    """Secrets are not in the most verbose log, in argv, in the environment, or in files that others can read."""
    secret = "the-secret-that-nobody-may-see"  # long enough to be searched for
    with orcas.Server(
        tmp_path / "store", log_level="debug", root_access_key="operator", root_secret_key=secret
    ) as server:
        signer = Signer.of(server)
        signatures = set()
        for path in ("/", "/bucket", "/bucket/key", "/bucket/\xe9\n"):
            for method in ("GET", "PUT", "DELETE", "POST"):
                for signed in (signer.sign(method, path, payload=UNSIGNED), signer.presign(method, path)):
                    signatures.add(signed.signature)
                    signer.roundtrip(signed.head([("content-length", "0")]), method)
        signer.roundtrip(b"NONSENSE\r\n\r\n")
        for name in ("cmdline", "environ"):
            assert secret.encode() not in Path(f"/proc/{server.pid}/{name}").read_bytes()
        size = server._errors.seek(0, os.SEEK_END)
        server._errors.seek(0)
        log = server._errors.read(size).decode()
    assert secret not in log
    for signature in signatures:
        assert signature not in log
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_generated_secret_is_in_private_files(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as server:
        secret = server.secret_key.encode()
    holders = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert sorted(path.name for path in holders) == ["root.json", "root.json.copy"]
    assert not any(path.stat().st_mode & 0o077 for path in holders)
    assert json.loads((tmp_path / "store" / "root.json").read_text())["secret_key"].encode() == secret


def test_a_metadata_value_comes_back_as_it_was(signer: Signer, key: str) -> None:
    """Accepted values come back byte for byte."""
    value = "a\tb  c;=,\"'<>&"
    put = signer.roundtrip(signer.request("PUT", key, headers=[("x-amz-meta-odd", value)], body=b"x"))
    if put.status == 200:
        assert signer.roundtrip(signer.request("GET", key)).headers["x-amz-meta-odd"] == value
    else:
        assert put.status == 400
        assert not stored(signer, key)


@pytest.mark.parametrize("name", ["caf\xc3\xa9", "two words", "a:b", "a\tb", "a\r\nx-evil: 1"], ids=repr)
def test_a_name_of_metadata_that_no_header_could_have_is_refused(signer: Signer, key: str, name: str) -> None:
    """A presigned query can bring one, and no answer could give it back."""
    signed = signer.presign("PUT", key, [(f"x-amz-meta-{name}", "value")])
    put = signer.roundtrip(signed.head([("content-length", "1")]) + b"x")
    assert (put.status, put.code) == (400, "InvalidArgument")
    assert "x-evil" not in put.headers
    assert not stored(signer, key)
