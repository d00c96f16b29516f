"""A request that botocore signed, with one thing changed, is refused; nothing is stored."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.fixtures.checksums import checksum
from tests.fixtures.operations import IMPLEMENTED, Call, Scene, make_scene
from tests.fixtures.signing import STREAMING, STREAMING_TRAILER, ChunkSigner, aws_chunked, signed_headers
from tests.fixtures.targets import content, keys_of
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

REFUSED = {400, 403}
# A header that is signed: one that an object stores, and one that means nothing.
METADATA, OTHER = "x-amz-meta-n", "x-other-n"


@dataclass(frozen=True)
class Signed:
    """A signed request that can be sent or changed."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    def send(self, wire: Wire) -> Answer:
        target = f"{self.path}?{self.query}" if self.query else self.path
        return wire.send(self.method, target, self.headers, self.body)

    def header(self, name: str, value: str | None) -> Signed:
        """The request with another value of a header, or without the header."""
        kept = {known: old for known, old in self.headers.items() if known.lower() != name.lower()}
        return replace(self, headers=kept if value is None else {**kept, name: value})

    def authorization(self, old: str, new: str) -> Signed:
        value = self.headers["Authorization"]
        assert old in value, (old, value)
        return self.header("Authorization", value.replace(old, new, 1))


def sign(wire: Wire, scene: Scene, call: Call) -> Signed:
    filled = scene.fill(call)
    target = f"{filled['path']}?{filled['query']}" if filled["query"] else filled["path"]
    headers = {"Host": wire.netloc, **filled["headers"]}
    # Renames and moves refuse what an object would store.
    moves = any(name.endswith(("-move-source", "-rename-source")) for name in headers)
    headers |= {OTHER: "v"} if moves else {METADATA: "v", "Cache-Control": "no-cache"}
    headers = signed_headers(wire.identity, filled["method"], wire.endpoint + target, headers, filled["body"])
    return Signed(filled["method"], filled["path"], filled["query"], headers, filled["body"])


def flipped(text: str, at: int) -> str:
    """Text with one hexadecimal digit changed."""
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


def mutations(request: Signed, region: str) -> dict[str, Signed]:
    """Every field that a signature covers, changed one at a time."""
    authorization = request.headers["Authorization"]
    signature = authorization.rsplit("Signature=", 1)[1]
    moment = request.headers["X-Amz-Date"]
    second = dt.datetime.strptime(f"{moment}+0000", "%Y%m%dT%H%M%SZ%z") - dt.timedelta(seconds=1)
    named = authorization.split("SignedHeaders=")[1].split(",")[0]
    host = request.headers["Host"]
    signed = METADATA if METADATA in request.headers else OTHER
    spoiled = {
        "path": replace(request, path=request.path + "x"),
        "query added": replace(request, query=f"{request.query}&x-id=1".lstrip("&")),
        "query empty added": replace(request, query=f"{request.query}&prefix=".lstrip("&")),
        "host": request.header("Host", f"localhost:{host.rsplit(':', 1)[1]}"),
        "date": request.header("X-Amz-Date", second.strftime("%Y%m%dT%H%M%SZ")),
        "date missing": request.header("X-Amz-Date", None),
        "payload hash": request.header("X-Amz-Content-SHA256", flipped(request.headers["X-Amz-Content-SHA256"], 5)),
        "payload hash unsigned": request.header("X-Amz-Content-SHA256", "UNSIGNED-PAYLOAD"),
        "payload hash missing": request.header("X-Amz-Content-SHA256", None),
        "metadata": request.header(signed, "w"),
        "metadata missing": request.header(signed, None),
        "metadata unsigned": request.header("x-amz-meta-other", "v"),
        "signed headers fewer": request.authorization(named, named.replace(f";{signed}", "")),
        "signed headers without host": request.authorization(named, named.replace("host;", "")),
        "signed headers reordered": request.authorization(named, ";".join(reversed(named.split(";")))),
        "scope date": request.authorization(f"/{moment[:8]}/", "/20200101/"),
        "scope region": request.authorization(f"/{region}/", "/eu-west-9/"),
        "scope service": request.authorization("/s3/", "/ec2/"),
        "scope end": request.authorization("/aws4_request", "/aws5_request"),
        "access key": request.authorization("Credential=", "Credential=X"),
        "algorithm": request.authorization("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        "signature first": request.authorization(signature, flipped(signature, 0)),
        "signature middle": request.authorization(signature, flipped(signature, 31)),
        "signature last": request.authorization(signature, flipped(signature, 63)),
        "signature short": request.authorization(signature, signature[:-1]),
        "signature long": request.authorization(signature, signature + "0"),
        "signature empty": request.authorization(signature, ""),
        "authorization missing": request.header("Authorization", None),
        "authorization empty": request.header("Authorization", ""),
        "authorization other": request.header("Authorization", "AWS " + "x:y"),
    }
    if "Cache-Control" in request.headers:
        spoiled["other header"] = request.header("Cache-Control", "no-store")
    for name, value in request.headers.items():
        if name.lower().startswith(("x-amz-copy", "x-amz-move", "x-amz-rename", "x-amz-orcas", "content-md5")):
            spoiled[f"header {name}"] = request.header(name, value[:-1] + "z")
            spoiled[f"header {name} missing"] = request.header(name, None)
    if request.query:
        spoiled["query missing"] = replace(request, query="")
        spoiled["query value"] = replace(request, query=request.query + "1")
    if request.body:
        spoiled["payload"] = replace(request, body=b"X" + request.body[1:])
        spoiled["payload short"] = replace(request, body=request.body[:-1])
        spoiled["payload long"] = replace(request, body=request.body + b"x")
    methods = {"GET": "DELETE", "HEAD": "DELETE", "PUT": "DELETE", "DELETE": "GET", "POST": "PUT"}
    spoiled["method"] = replace(request, method=methods[request.method])
    return spoiled


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_one_field_changed(wire: Wire, s3: Any, bucket: str, name: str) -> None:
    scene = make_scene(s3, bucket)
    before = scene.state()
    request = sign(wire, scene, IMPLEMENTED[name])
    for what, spoiled in mutations(request, wire.identity.region).items():
        answer = spoiled.send(wire)
        # Who asks for another service of AWS is told so, in the form of its clients.
        if what == "scope service":
            assert (answer.status, b"not ec2" in answer.body) == (501, spoiled.method != "HEAD")
            continue
        assert answer.status in REFUSED, (what, answer.status, answer.body)
        if spoiled.method != "HEAD":
            assert answer.code, what
            # The answer must not help to forge a signature: it has only the client's own, and hashes of what it sent.
            own = spoiled.headers.get("Authorization", "").rsplit("=", 1)[-1]
            canonical = answer.error.get("CanonicalRequest", "").encode()
            sent = {hashlib.sha256(text).hexdigest() for text in (canonical, spoiled.body)}
            harmless = {own, *spoiled.headers.values(), *sent}
            assert set(re.findall(r"\b[0-9a-f]{64}\b", answer.body.decode())) <= harmless, what
        assert scene.state() == before, what
    # The request itself was right.
    assert request.send(wire).status == IMPLEMENTED[name].succeeds


MINUTES = dt.timedelta(minutes=1)
ATTACKERS: dict[str, tuple[Callable[[Wire], Wire], set[str]]] = {
    "wrong secret": (lambda wire: wire.using(secret_key="x" * 40), {"SignatureDoesNotMatch"}),
    "unknown key": (lambda wire: wire.using(access_key="AKIAUNKNOWN000000000"), {"InvalidAccessKeyId"}),
    "empty key": (lambda wire: wire.using(access_key=""), {"InvalidAccessKeyId", "AuthorizationHeaderMalformed"}),
    "16 minutes behind": (lambda wire: wire.using(clock_offset=-16 * MINUTES), {"RequestTimeTooSkewed"}),
    "16 minutes ahead": (lambda wire: wire.using(clock_offset=16 * MINUTES), {"RequestTimeTooSkewed"}),
    "other service": (lambda wire: wire.using(service="sts"), {"AuthorizationHeaderMalformed"}),
}


def check_version_two(wire: Wire, scene: Scene, call: Call) -> None:
    """Wrong URLs presigned with Version 2."""
    filled = scene.fill(call)
    method, path, query, headers = (filled[part] for part in ("method", "path", "query", "headers"))

    def url(signer: Wire, **options: Any) -> str:
        return signer.presign_version_two(method, path, query, headers=headers, **options)

    live = url(wire)
    at = live.index("&Signature=") + len("&Signature=")
    forgeries = {
        "wrong secret": (url(wire.using(secret_key="x" * 40)), "SignatureDoesNotMatch"),
        "unknown key": (url(wire.using(access_key="AKIAUNKNOWN000000000")), "InvalidAccessKeyId"),
        "expired": (url(wire.using(clock_offset=-2 * MINUTES)), "AccessDenied"),
        "for more than a week": (url(wire, expires=8 * 24 * 3600), "AuthorizationQueryParametersError"),
        "forged": (live[:at] + ("A" if live[at] != "A" else "B") + live[at + 1 :], "SignatureDoesNotMatch"),
        "longer": (
            re.sub(r"Expires=(\d+)", lambda found: f"Expires={int(found[1]) + 1}", live),
            "SignatureDoesNotMatch",
        ),
        "not signed": (live[: at - len("&Signature=")] + live[live.index("&", at) :], "AccessDenied"),
        "other key": (live.replace("?", "x?", 1), "SignatureDoesNotMatch"),
        "both versions": (wire.presign(method, path, live.partition("?")[2]), "InvalidArgument"),
        "twice": (live + "&Signature=x", "InvalidArgument"),
    }
    for name in {"x-amz-acl", "x-amz-meta-more", "x-amz-copy-source"} - set(headers):
        forgeries[f"{name} added"] = (f"{live}&{name}=private", "SignatureDoesNotMatch")
    for who, (spoiled, code) in forgeries.items():
        answer = wire.send(method, spoiled, {"Host": wire.netloc}, filled["body"])
        assert answer.status in REFUSED, (who, answer.body)
        if method != "HEAD":
            assert answer.code == code, (who, answer.body)
            # An answer shows the signature that was sent, and never the right one.
            right = urllib.parse.unquote(live[at : live.index("&", at)])
            sent = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(spoiled).query)).get("Signature")
            assert right == sent or right.encode() not in answer.body, who
    more = wire.send(method, live, {"Host": wire.netloc, "x-amz-meta-more": "1"}, filled["body"])
    assert more.status == 403


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_presigned_as_version_two(wire: Wire, s3: Any, bucket: str, name: str) -> None:
    scene = make_scene(s3, bucket)
    filled = scene.fill(IMPLEMENTED[name])
    method, body = filled["method"], filled["body"]
    url = wire.presign_version_two(method, filled["path"], filled["query"], headers=filled["headers"])
    answer = wire.send(method, url, {"Host": wire.netloc}, body)
    assert answer.status == IMPLEMENTED[name].succeeds, answer.body


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_strangers(wire: Wire, s3: Any, bucket: str, name: str) -> None:
    """Every operation, tried by everyone who may not perform it."""
    scene = make_scene(s3, bucket)
    before = scene.state()
    filled = scene.fill(IMPLEMENTED[name])
    method, path, query = filled.pop("method"), filled.pop("path"), filled.pop("query")
    for who, (impersonate, codes) in ATTACKERS.items():
        answer = impersonate(wire)(method, path, query, **filled)
        assert answer.status in REFUSED, who
        if method != "HEAD":
            assert answer.code in codes, (who, answer.body)
    anonymous = wire(method, path, query, **filled, sign=False)
    assert anonymous.status == 403
    check_version_two(wire, scene, IMPLEMENTED[name])
    assert scene.state() == before
    expired = wire.using(clock_offset=-2 * MINUTES).presign(method, path, query, headers=filled["headers"])
    ahead = wire.using(clock_offset=16 * MINUTES).presign(method, path, query, headers=filled["headers"])
    live = wire.presign(method, path, query, headers=filled["headers"])
    forged = live[:-64] + flipped(live[-64:], 0)
    longer = live.replace("X-Amz-Expires=60", "X-Amz-Expires=600")
    for url in (expired, ahead, forged, longer):
        answer = wire.send(method, url, {"Host": wire.netloc, **filled["headers"]}, filled["body"])
        assert answer.status in REFUSED, (url, answer.body)
    assert scene.state() == before
    right = wire.send(method, live, {"Host": wire.netloc, **filled["headers"]}, filled["body"])
    assert right.status == IMPLEMENTED[name].succeeds, right.body


def test_clocks_within_15_minutes_are_right_enough(wire: Wire, bucket: str) -> None:
    for minutes in (-14, 14):
        assert wire.using(clock_offset=minutes * MINUTES)("GET", f"/{bucket}").status == 200


def test_both_ways_of_signing_at_once_are_refused(wire: Wire, bucket: str) -> None:
    url = wire.presign("GET", f"/{bucket}")
    headers = signed_headers(wire.identity, "GET", wire.endpoint + url, {"Host": wire.netloc})
    assert wire.send("GET", url, headers).status == 400


SCOPE = r"/\d{8}/us-east-1/s3/aws4_request"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/s3/", "/sts/", 'incorrect service "sts". This endpoint belongs to "s3".'),
        ("aws4_request", "aws_request", 'incorrect terminal "aws_request". This endpoint uses "aws4_request".'),
        (r"/\d{8}/", "/3223423234/",
         r'incorrect date format "3223423234". This date in the credential must be in the format "yyyyMMdd".'),
        (SCOPE, "/1/s3/x", 'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".'),
        (SCOPE, r"\g<0>/x",
         'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".'),
        ("Credential=", "Other=", "missing Credential."),
        ("SignedHeaders=", "Other=", "missing SignedHeaders."),
        ("Signature=", "Other=", "missing Signature."),
        ("SignedHeaders=", "SignedHeaders-", r'the authorization component "SignedHeaders-\S+" is malformed.'),
        (" SignedHeaders=[^,]+,", "",
         "the authorization header requires three components: Credential, SignedHeaders, and Signature."),
        (r"/\d{8}/", "/20060102/", r'Invalid credential date "20060102". This date is not the same as X-Amz-Date: "\d+".'),
    ],
)  # fmt: skip
def test_what_is_malformed_is_named(wire: Wire, bucket: str, old: str, new: str, message: str) -> None:
    headers = signed_headers(wire.identity, "GET", f"{wire.endpoint}/{bucket}", {"Host": wire.netloc})
    changed = re.sub(old, new, headers["Authorization"], count=1)
    answer = wire.send("GET", f"/{bucket}", headers | {"Authorization": changed})
    assert (answer.status, answer.code) == (400, "AuthorizationHeaderMalformed"), answer.body
    assert re.fullmatch(f"The authorization header is malformed; {message}", answer.error["Message"])


def test_an_empty_session_token_is_none(wire: Wire, bucket: str) -> None:
    """The object_store crate sends the header so if it has keys without a session."""
    assert wire("GET", f"/{bucket}", headers={"x-amz-security-token": ""}).status == 200
    assert wire("GET", f"/{bucket}", headers={"x-amz-security-token": "t"}).code == "InvalidToken"
    for token, status in (("", 200), ("t", 400)):
        url = wire.presign("GET", f"/{bucket}", f"X-Amz-Security-Token={token}")
        assert wire.send("GET", url, {"Host": wire.netloc}).status == status


@pytest.mark.parametrize(
    "query", ["prefix=a&prefix=b", "list-type=2&prefix=&prefix=", "uploads=&uploads=", "prefix=a&pre%66ix=b", "x=1&x=1"]
)
def test_a_parameter_that_stands_twice_is_refused(wire: Wire, bucket: str, query: str) -> None:
    """One signature would cover two interpretations of the request."""
    for sign in (wire, wire.presign_version_two):
        answer = sign("GET", f"/{bucket}", query)
        if isinstance(answer, str):
            answer = wire.send("GET", answer, {"Host": wire.netloc})
        assert (answer.status, answer.code) == (400, "InvalidArgument"), answer.body
        assert "twice" in answer.error["Message"]


def test_repeated_signed_headers_cannot_smuggle(wire: Wire, s3: Any, bucket: str) -> None:
    headers = signed_headers(
        wire.identity, "PUT", f"{wire.endpoint}/{bucket}/k", {"Host": wire.netloc, "x-amz-meta-a": "1"}
    )
    for extra in (("x-amz-meta-a", "2"), ("x-amz-date", "20200101T000000Z"), ("Authorization", "AWS4-HMAC-SHA256 x")):
        answer = wire.send("PUT", f"/{bucket}/k", [*headers.items(), extra])
        assert answer.status in REFUSED, extra
    assert keys_of(s3, bucket) == []


DATA = content(20_000)


def chunked(wire: Wire, bucket: str, payload: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of a signed upload of `DATA` in three chunks."""
    headers = {"Host": wire.netloc, "x-amz-decoded-content-length": str(len(DATA))}
    trailers = {"x-amz-checksum-crc32": checksum("CRC32", DATA)} if payload == STREAMING_TRAILER else {}
    if trailers:
        headers["x-amz-trailer"] = "x-amz-checksum-crc32"
    signed = signed_headers(wire.identity, "PUT", f"{wire.endpoint}/{bucket}/k", headers, payload=payload)
    return signed, aws_chunked(DATA, chunk=8192, signer=ChunkSigner(wire.identity, signed), trailers=trailers)


def spoiled_bodies(body: bytes) -> dict[str, bytes]:
    first = body.index(b"chunk-signature=") + 16
    end = body.rindex(b"chunk-signature=") + 16
    split = body.index(b"\r\n2000;") + 2
    size = split
    spoiled = {
        "content": body[: first + 70] + bytes([body[first + 70] ^ 1]) + body[first + 71 :],
        "signature of a chunk": body[:first] + (b"0" if body[first : first + 1] != b"0" else b"1") + body[first + 1 :],
        "signature of the end": body[:end] + (b"0" if body[end : end + 1] != b"0" else b"1") + body[end + 1 :],
        "chunks exchanged": body[size : 2 * size] + body[:size] + body[2 * size :],
        "a chunk left out": body[size:],
        "a chunk twice": body[:size] + body[:size] + body[2 * size :],
        "the end left out": body[: body.rindex(b"0;chunk-signature")],
        "no signatures": aws_chunked(DATA, chunk=8192),
    }
    if b"x-amz-trailer-signature:" in body:
        at = body.index(b"x-amz-trailer-signature:") + 24
        spoiled["signature of the trailer"] = body[:at] + (b"0" if body[at : at + 1] != b"0" else b"1") + body[at + 1 :]
        spoiled["trailer unsigned"] = body[: at - 24] + b"\r\n"
        value = body.index(b"x-amz-checksum-crc32:") + 21
        spoiled["trailer"] = body[:value] + checksum("CRC32", b"other").encode() + body[value + 8 :]
    return spoiled


@pytest.mark.parametrize("payload", [STREAMING, STREAMING_TRAILER])
def test_signed_chunks_changed(wire: Wire, s3: Any, bucket: str, payload: str) -> None:
    headers, body = chunked(wire, bucket, payload)
    for what, spoiled in spoiled_bodies(body).items():
        answer = wire.send("PUT", f"/{bucket}/k", headers, spoiled)
        assert answer.status in REFUSED, what
        assert keys_of(s3, bucket) == [], what
    assert wire.send("PUT", f"/{bucket}/k", headers, body).status == 200


def test_signed_paths_as_clients_spell_them(wire: Wire, s3: Any, bucket: str) -> None:
    """Some clients sign the encoded form of a path that they send raw: both name the same object."""
    key = "year=2024/a:b@c,d+e"
    encoded = urllib.parse.quote(key, safe="/~")
    headers = signed_headers(wire.identity, "PUT", f"{wire.endpoint}/{bucket}/{encoded}", {"Host": wire.netloc}, b"x")
    answer = wire.send("PUT", f"/{bucket}/{key}", headers, b"x")
    assert answer.status == 200, answer.body
    assert keys_of(s3, bucket) == [key]
