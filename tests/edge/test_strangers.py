"""Every operation, requested by those who must not perform it: refused before the store is touched."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import pytest
from tests.fixtures.checksums import content_md5
from tests.fixtures.operations import IMPLEMENTED
from tests.fixtures.signing import Header
from tests.fixtures.wire import Signer, Wire

import orcas
from orcas.tools.session import HttpTransport, Session

BUCKET = "strangers"
RESTORE = b"<RestoreRequest><Days>1</Days></RestoreRequest>"
PART = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"
DELETE = b"<Delete><Object><Key>kept</Key></Object></Delete>"

CORS = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>"
    b"</CORSConfiguration>"
)
LIFECYCLE = (
    b"<LifecycleConfiguration><Rule><Prefix/><Status>Disabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
    b"</LifecycleConfiguration>"
)


@dataclass(frozen=True)
class Sample:
    """A request for an operation. In `query`, UPLOAD stands for the id of the existing upload."""

    method: str
    path: str
    query: tuple[Header, ...] = ()
    headers: tuple[Header, ...] = ()
    body: bytes = b""


KEPT = f"/{BUCKET}/kept"
LOCKED = "/strangers-lock/locked"
LOCK = (
    ("x-amz-object-lock-legal-hold", "ON"),
    ("x-amz-object-lock-mode", "COMPLIANCE"),
    ("x-amz-object-lock-retain-until-date", "2199-01-01T00:00:00Z"),
)
VERSIONING = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
SOURCE = ("x-amz-copy-source", KEPT)
UPLOAD = ("uploadId", "UPLOAD")
ANNOTATION = (("annotation", ""), ("annotationName", "x"))
SAMPLES = {
    "ListBuckets": Sample("GET", "/"),
    "CreateBucket": Sample("PUT", "/strangers-new"),
    "HeadBucket": Sample("HEAD", f"/{BUCKET}"),
    "DeleteBucket": Sample("DELETE", "/strangers-empty"),
    "GetBucketLocation": Sample("GET", f"/{BUCKET}", (("location", ""),)),
    "GetObject": Sample("GET", KEPT),
    "HeadObject": Sample("HEAD", KEPT),
    "PutObject": Sample("PUT", KEPT, body=b"changed"),
    "DeleteObject": Sample("DELETE", KEPT),
    "DeleteObjects": Sample("POST", f"/{BUCKET}", (("delete", ""),), (("content-md5", content_md5(DELETE)),), DELETE),
    "CopyObject": Sample("PUT", f"/{BUCKET}/copy", headers=(SOURCE,)),
    "RenameObject": Sample("PUT", f"/{BUCKET}/new", (("renameObject", ""),), (("x-amz-rename-source", KEPT),)),
    "MoveObject": Sample("PUT", f"/{BUCKET}/new", headers=(("x-amz-move-source", KEPT),)),
    "ListObjects": Sample("GET", f"/{BUCKET}"),
    "ListObjectsV2": Sample("GET", f"/{BUCKET}", (("list-type", "2"),)),
    "ListMultipartUploads": Sample("GET", f"/{BUCKET}", (("uploads", ""),)),
    "ListObjectVersions": Sample("GET", f"/{BUCKET}", (("versions", ""),)),
    "ListParts": Sample("GET", KEPT, (UPLOAD,)),
    "GetObjectAttributes": Sample("GET", KEPT, (("attributes", ""),), (("x-amz-object-attributes", "ETag"),)),
    "GetBucketAcl": Sample("GET", f"/{BUCKET}", (("acl", ""),)),
    "PutBucketAcl": Sample("PUT", f"/{BUCKET}", (("acl", ""),), (("x-amz-acl", "private"),)),
    "PutBucketPolicy": Sample("PUT", f"/{BUCKET}", (("policy", ""),), body=b"{}"),
    "DeleteBucketPolicy": Sample("DELETE", f"/{BUCKET}", (("policy", ""),)),
    "GetObjectTagging": Sample("GET", KEPT, (("tagging", ""),)),
    "PutObjectTagging": Sample("PUT", KEPT, (("tagging", ""),), body=b"<Tagging><TagSet/></Tagging>"),
    "DeleteObjectTagging": Sample("DELETE", KEPT, (("tagging", ""),)),
    "PutObjectAnnotation": Sample("PUT", KEPT, ANNOTATION, body=b"changed"),
    "GetObjectAnnotation": Sample("GET", KEPT, ANNOTATION),
    "ListObjectAnnotations": Sample("GET", KEPT, (("annotation", ""),)),
    "DeleteObjectAnnotation": Sample("DELETE", KEPT, ANNOTATION),
    "PutBucketCors": Sample("PUT", f"/{BUCKET}", (("cors", ""),), body=CORS),
    "PutBucketLifecycleConfiguration": Sample("PUT", f"/{BUCKET}", (("lifecycle", ""),), body=LIFECYCLE),
    "DeletePublicAccessBlock": Sample("DELETE", f"/{BUCKET}", (("publicAccessBlock", ""),)),
    "GetBucketVersioning": Sample("GET", f"/{BUCKET}", (("versioning", ""),)),
    "PutBucketVersioning": Sample("PUT", f"/{BUCKET}", (("versioning", ""),), body=VERSIONING),
    "GetObjectLockConfiguration": Sample("GET", "/strangers-lock", (("object-lock", ""),)),
    "PutObjectLockConfiguration": Sample(
        "PUT", "/strangers-lock", (("object-lock", ""),), body=b"<ObjectLockConfiguration/>"
    ),
    "GetObjectRetention": Sample("GET", LOCKED, (("retention", ""),)),
    "PutObjectRetention": Sample("PUT", LOCKED, (("retention", ""),), body=b"<Retention/>"),
    "GetObjectLegalHold": Sample("GET", LOCKED, (("legal-hold", ""),)),
    "PutObjectLegalHold": Sample("PUT", LOCKED, (("legal-hold", ""),), body=b"<LegalHold/>"),
    "CreateMultipartUpload": Sample("POST", KEPT, (("uploads", ""),)),
    "UploadPart": Sample("PUT", KEPT, (("partNumber", "1"), UPLOAD), body=b"changed"),
    "UploadPartCopy": Sample("PUT", KEPT, (("partNumber", "1"), UPLOAD), (SOURCE,)),
    "CompleteMultipartUpload": Sample("POST", KEPT, (UPLOAD,), body=PART),
    "AbortMultipartUpload": Sample("DELETE", KEPT, (UPLOAD,)),
    "RestoreObject": Sample("POST", KEPT, (("restore", ""),), body=RESTORE),
    "InstantUpload": Sample(
        "POST",
        f"/{BUCKET}/new",
        (("instant", ""),),
        (("x-amz-orcas-instant-sha256", "0" * 64), ("x-amz-orcas-instant-size", "65536")),
    ),
    "PutBucketSettings": Sample("PUT", f"/{BUCKET}", (("orcas-settings", ""),), (("x-amz-orcas-keep-sha256", "true"),)),
}

Forge = Callable[[Signer, Sample], bytes]


def changed(signer: Signer, **facts: object) -> Signer:
    return dataclasses.replace(signer, **facts)  # type: ignore[arg-type]


def framed(sample: Sample, head: bytes) -> bytes:
    """Add the body and its length to a head."""
    return head[:-2] + b"content-length: %d\r\n\r\n" % len(sample.body) + sample.body


def signed(signer: Signer, sample: Sample) -> bytes:
    return framed(sample, signer.sign(sample.method, sample.path, sample.query, sample.headers, sample.body).head())


def presigned(signer: Signer, sample: Sample, expires: str = "300") -> bytes:
    return framed(sample, signer.presign(sample.method, sample.path, sample.query, expires).head(sample.headers))


def hoisted(sample: Sample) -> Sample:
    """The same with its `x-amz-` headers in the query, as in a presigned URL."""
    moved = tuple(header for header in sample.headers if header[0].startswith("x-amz-"))
    kept = tuple(header for header in sample.headers if header not in moved)
    return dataclasses.replace(sample, query=(*sample.query, *moved), headers=kept)


def forged(request: bytes, *, where: bytes) -> bytes:
    """Replace the last digits of the signature."""
    at = request.index(where) + len(where) + 60
    return request[:at] + (b"0000" if request[at : at + 4] != b"0000" else b"1111") + request[at + 4 :]


def anonymous(signer: Signer, sample: Sample) -> bytes:
    return framed(
        sample,
        re.sub(rb"\r\nauthorization: [^\r]*", b"", signed(signer, sample).partition(b"\r\n\r\n")[0]) + b"\r\n\r\n",
    )


FORGERIES: dict[str, Forge] = {
    "anonymous": anonymous,
    "wrong secret": lambda signer, sample: signed(changed(signer, secret_key="x" * 40), sample),
    "unknown key": lambda signer, sample: signed(changed(signer, access_key="STRANGER"), sample),
    "forged": lambda signer, sample: forged(signed(signer, sample), where=b"Signature="),
    "clock behind": lambda signer, sample: signed(changed(signer, skew=-16 * 60), sample),
    "clock ahead": lambda signer, sample: signed(changed(signer, skew=16 * 60), sample),
    "presigned, wrong secret": lambda signer, sample: presigned(changed(signer, secret_key="x" * 40), sample),
    "presigned, forged": lambda signer, sample: forged(presigned(signer, sample), where=b"X-Amz-Signature="),
    "presigned, expired": lambda signer, sample: presigned(changed(signer, skew=-400), sample),
    "presigned, never valid": lambda signer, sample: presigned(signer, sample, "0"),
    "presigned for too long": lambda signer, sample: presigned(signer, sample, "604801"),
    "header and query": lambda signer, sample: presigned(signer, sample).replace(
        b"\r\n\r\n", b"\r\nauthorization: AWS4-HMAC-SHA256 Credential=x\r\n\r\n", 1
    ),
    "basic": lambda signer, sample: anonymous(signer, sample).replace(
        b"\r\n\r\n", b"\r\nauthorization: Basic b3JjYXM6b3JjYXM=\r\n\r\n", 1
    ),
    "version 2": lambda signer, sample: anonymous(signer, sample).replace(
        b"\r\n\r\n", b"\r\nauthorization: AWS %b:AAAA\r\n\r\n" % signer.access_key.encode(), 1
    ),
}


@dataclass(frozen=True)
class Place:
    """A store with something to lose."""

    signer: Signer
    upload_id: str
    # Those who can sign, but may nothing here, by who they are.
    powerless: dict[str, Signer]

    def state(self) -> list[bytes]:
        """Everything visible of it, except what differs from answer to answer."""
        asks = [
            ("/", ()),
            (f"/{BUCKET}", ()),
            (f"/{BUCKET}", (("uploads", ""),)),
            (f"/{BUCKET}", (("publicAccessBlock", ""),)),
            (KEPT, (("uploadId", self.upload_id),)),
            (KEPT, ()),
            (KEPT, ANNOTATION),
        ]
        return [self.signer.roundtrip(self.signer.request("GET", path, query)).body for path, query in asks]


@pytest.fixture(scope="module")
def place(server: orcas.Server) -> Place:
    signer = Signer.of(server)
    for path in (f"/{BUCKET}", "/strangers-empty"):
        assert signer.roundtrip(signer.request("PUT", path)).status == 200
    assert signer.roundtrip(signer.request("PUT", KEPT, body=b"kept")).status == 200
    assert signer.roundtrip(signer.request("PUT", KEPT, ANNOTATION, body=b"kept")).status == 200
    enabled = [("x-amz-bucket-object-lock-enabled", "true")]
    assert signer.roundtrip(signer.request("PUT", "/strangers-lock", (), enabled)).status == 200
    vouched = [
        ("content-md5", base64.b64encode(hashlib.md5(b"locked", usedforsecurity=False).digest()).decode()),
        *LOCK,
    ]
    assert signer.roundtrip(signer.request("PUT", LOCKED, (), vouched, b"locked")).status == 200
    created = signer.roundtrip(signer.request("POST", KEPT, [("uploads", "")])).body.decode()
    return Place(signer, created.partition("<UploadId>")[2].partition("<")[0], powerless(server, signer))


def powerless(server: orcas.Server, root: Signer) -> dict[str, Signer]:
    """Users without rights and with rights that are denied, another account, and keys that are no more."""
    iam = server.client("iam")

    def signer(key: dict[str, str]) -> Signer:
        return changed(root, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])

    def user(name: str, *statements: dict[str, str]) -> Signer:
        iam.create_user(UserName=name)
        if statements:
            document = {"Version": "2012-10-17", "Statement": statements}
            iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(document))
        return signer(iam.create_access_key(UserName=name)["AccessKey"])

    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    made = {
        "user without policies": user("nobody"),
        "user with a denial": user("denied", everything, everything | {"Effect": "Deny"}),
        "user of other buckets": user("elsewhere", everything | {"Resource": "arn:aws:s3:::elsewhere*"}),
        "user with a condition": user(
            "conditional", everything | {"Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}
        ),
        "disabled key": user("disabled", everything),
        "deleted key": user("deleted", everything),
        "key of a deleted user": user("gone", everything),
    }
    iam.update_access_key(UserName="disabled", AccessKeyId=made["disabled key"].access_key, Status="Inactive")
    iam.delete_access_key(UserName="deleted", AccessKeyId=made["deleted key"].access_key)
    iam.delete_access_key(UserName="gone", AccessKeyId=made["key of a deleted user"].access_key)
    iam.delete_user_policy(UserName="gone", PolicyName="own")
    iam.delete_user(UserName="gone")
    iam.close()
    transport = HttpTransport(server.endpoint)
    session = Session(transport, (server.access_key, server.secret_key), "us-east-1")
    account = session.admin("POST", "iam", {"action": "CreateAccount", "parameters": {"AccountName": "other"}})
    number = account["Account"]["AccountId"]
    order = {"action": "CreateAccessKey", "parameters": {}, "account": number}
    made["another account"] = signer(session.admin("POST", "iam", order)["AccessKey"])
    transport.close()
    return made


def test_every_operation_has_a_sample() -> None:
    assert set(SAMPLES) == set(IMPLEMENTED)


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_no_operation_is_open(place: Place, forge: Forge) -> None:
    before = place.state()
    for name, sample in SAMPLES.items():
        query = tuple((key, place.upload_id if value == "UPLOAD" else value) for key, value in sample.query)
        request = forge(place.signer, dataclasses.replace(sample, query=query))
        answer = place.signer.roundtrip(request, sample.method)
        assert answer.status in (400, 403), f"{name}: {answer}"
        assert place.signer.secret_key.encode() not in answer.body
        # The signature that the server computed would be valid. It may show hashes of what it was sent.
        canonical = (answer.error if answer.body else {}).get("CanonicalRequest", "").encode()
        given = [*re.findall(rb"[0-9a-f]{64}", request), hashlib.sha256(canonical).hexdigest().encode()]
        for digest in re.findall(rb"[0-9a-f]{64}", answer.body):
            assert digest in given, f"{name} tells a digest that the client does not have"
    assert place.state() == before


WAYS: dict[str, Forge] = {
    "signed": lambda signer, sample: signed(signer, sample),
    "presigned": lambda signer, sample: presigned(signer, hoisted(sample)),
}
POWERLESS = (
    "user without policies",
    "user with a denial",
    "user of other buckets",
    "user with a condition",
    "disabled key",
    "deleted key",
    "key of a deleted user",
    "another account",
)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("who", POWERLESS)
def test_no_operation_is_open_to_who_may_not(place: Place, who: str, way: Forge) -> None:
    assert set(POWERLESS) == set(place.powerless)
    signer, before = place.powerless[who], place.state()
    for name, sample in SAMPLES.items():
        # An account has buckets of its own.
        if who == "another account" and name in {"ListBuckets", "CreateBucket"}:
            continue
        query = tuple((key, place.upload_id if value == "UPLOAD" else value) for key, value in sample.query)
        answer = signer.roundtrip(way(signer, dataclasses.replace(sample, query=query)), sample.method)
        if name == "DeleteObjects" and "key" not in who:
            # Each key is answered for itself.
            assert b"<Deleted>" not in answer.body
            assert re.findall(rb"<Code>([^<]*)", answer.body) == [b"AccessDenied"], f"{name}: {answer}"
            continue
        assert answer.status == 403, f"{name}: {answer}"
        if sample.method != "HEAD":
            code = "InvalidAccessKeyId" if "key" in who else "AccessDenied"
            assert answer.error["Code"] == code, f"{name}: {answer}"
    assert place.state() == before


@pytest.mark.parametrize("who", ["user without policies", "another account"])
def test_a_denial_does_not_say_what_exists(place: Place, who: str) -> None:
    """Buckets, keys, versions and uploads that exist answer as those that do not."""
    signer = place.powerless[who]

    def answer_of(sample: Sample, upload: str) -> tuple[int, bytes]:
        query = tuple((key, upload if value == "UPLOAD" else value) for key, value in sample.query)
        answer = signer.roundtrip(signed(signer, dataclasses.replace(sample, query=query)), sample.method)
        names = re.sub(rb"<(RequestId|HostId)>[^<]*", b"", answer.body)
        for part in (sample.path.split("/", 2)[-1], sample.path, sample.path.split("/")[1]):
            names = names.replace(part.encode(), b"*")
        return answer.status, names

    for name, sample in SAMPLES.items():
        if name in {"ListBuckets", "CreateBucket"}:
            continue
        there = answer_of(sample, place.upload_id)
        bucket, _, key = sample.path[1:].partition("/")
        others = [dataclasses.replace(sample, path=f"/absent-{bucket}" + (f"/{key}" if key else ""))]
        if key:
            others.append(dataclasses.replace(sample, path=f"/{bucket}/absent"))
            others.append(dataclasses.replace(sample, query=(*sample.query, ("versionId", "0" * 32))))
        for other in others:
            if who == "another account" and other.path.startswith("/absent-"):
                # As on S3: the name of a bucket is no secret between accounts.
                continue
            told = answer_of(other, "0" * 32)
            if ("versionId", "0" * 32) in other.query:
                # The action of a version has a name of its own, which the refusal names.
                assert told[0] == there[0], f"{name}: {told} for {other}, {there} for what exists"
            else:
                assert told == there, f"{name}: {told} for {other}, {there} for what exists"


def test_the_samples_are_good(place: Place) -> None:
    """With the right key each is accepted: the refusals above are about the key."""
    for name, sample in SAMPLES.items():
        if sample.method not in ("GET", "HEAD"):
            continue
        query = tuple((key, place.upload_id if value == "UPLOAD" else value) for key, value in sample.query)
        good = dataclasses.replace(sample, query=query)
        assert place.signer.roundtrip(signed(place.signer, good), sample.method).status == 200, name
        assert place.signer.roundtrip(presigned(place.signer, hoisted(good)), sample.method).status == 200, name


NO_BUCKET, NO_PAGE, DENIED = (400, "InvalidBucketName"), (404, ""), (403, "AccessDenied")


# What the listener takes for a path of the application, the application does as well, and nothing else.
@pytest.mark.parametrize(
    ("path", "answer"),
    [("/_orcas/redoc", NO_PAGE), ("/_orcas/admin", NO_PAGE), ("/_orcas/", NO_PAGE), ("/_orcas/health", NO_PAGE),
     ("/_orcas/../edge/kept", NO_PAGE), ("/_orcas/%2e%2e/edge/kept", NO_PAGE), ("/_orcas/x/../health/live", NO_PAGE),
     ("/_orcas/./health/live", NO_PAGE), ("/_orcas%2Fadmin/stats", NO_BUCKET), ("/_orcas%2fhealth/live", NO_BUCKET),
     ("//_orcas/health/live", NO_BUCKET), ("/x/../_orcas/health/live", NO_BUCKET), ("/_orcas", DENIED),
     ("/%5forcas/health/live", DENIED), ("/_ORCAS/health/live", DENIED), ("/edge/../_orcas/health/live", DENIED),
     ("/edge/%2e%2e/_orcas/admin/stats", DENIED), ("/docs", DENIED), ("/openapi.json", DENIED), ("/metrics", DENIED),
     ("/debug", DENIED), ("/minio/health/live", DENIED)],
)  # fmt: skip
def test_nothing_else_is_open(place: Place, path: str, answer: tuple[int, str]) -> None:
    said = place.signer.roundtrip(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert (said.status, said.code) == answer
    assert b"kept" not in said.body.replace(path.encode(), b"")


@pytest.mark.parametrize(
    "path", ["a%2F..%2Fb", "..%2F..%2Fstrangers%2Fkept", "%2e%2e/_orcas/admin/stats", "../x", "a//b"]
)
def test_keys_are_taken_literally(place: Place, path: str) -> None:
    wire = Wire(f"http://{place.signer.host}:{place.signer.port}", place.signer.identity)
    assert wire("PUT", f"/{BUCKET}/{path}", body=path.encode()).status == 200
    assert wire("GET", f"/{BUCKET}/{path}").body == path.encode()
    listed = wire("GET", f"/{BUCKET}", "list-type=2").document()
    assert unquote(path) in {key.text for key in listed.iter("Key")}


def test_health_says_nothing_but_health(place: Place) -> None:
    for check in ("live", "ready"):
        answer = place.signer.roundtrip(f"GET /_orcas/health/{check} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert answer.status == 200
        assert place.signer.access_key.encode() not in answer.body
        assert b"/" not in answer.body
