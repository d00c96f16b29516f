"""The store in which requests are compared, and the two servers over copies of it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.fixtures.servers.hosts import IDENTITY, serving
from tests.fixtures.signing import Identity
from tests.fixtures.uploads import begin

import orcas
from orcas.tools.session import HttpTransport, Session

from .bodies import CONTENTS

DOMAIN: Final = "s3.test"
WEBSITES: Final = "web.test"
# Plain, with versions, with Object Lock, with access control lists, open to everybody and a website, empty, and with an
# origin.
BUCKETS: Final = ("plain", "versioned", "locked", "listed", "public", "empty", "pulled")
_SETTINGS: Final[dict[str, str]] = {"domains": DOMAIN, "website_host": WEBSITES, "durability": "unsafe-none"}
_ROOT: Final = {"root_access_key": IDENTITY.access_key, "root_secret_key": IDENTITY.secret_key}
_OBJECTS: Final = (
    ("k", CONTENTS[1]), ("a/b", CONTENTS[2]), ("é", CONTENTS[3]), ("index.html", b"<p>"), ("big", CONTENTS[5])
)  # fmt: skip
_EVERYTHING: Final = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
_LITTLE: Final = [
    {"Effect": "Allow", "Action": "s3:GetObject*", "Resource": "arn:aws:s3:::plain/a*"},
    {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:PutObject"], "Resource": "arn:aws:s3:::versioned*"},
]


@dataclass(frozen=True)
class Scene:
    """A store that no server has open, and who may sign requests."""

    data: Path
    identities: dict[str, Identity]
    owner: str
    # Objects and uploads that were there before the first request, by name of the element that shows them.
    versions: list[tuple[str, str, str]]
    uploads: list[tuple[str, str, str]]


@contextlib.contextmanager
def prepared(data: Path) -> Iterator[Scene]:
    """A new store, and the origin of one of its buckets, which it needs as long as somebody serves it."""
    with orcas.Server(memory=True) as origin:
        source = origin.client()
        source.create_bucket(Bucket="source")
        for key, content in _OBJECTS:
            source.put_object(Bucket="source", Key=key, Body=content, Metadata={"m": "there"})
        yield _prepare(data, origin)


def _prepare(data: Path, origin: orcas.Server) -> Scene:
    with orcas.Server(data, **_SETTINGS, **_ROOT) as server:
        s3 = server.client()
        identities = {"root": Identity(server.access_key, server.secret_key, server.region), **_users(server)}
        uploads = _fill(s3)
        order = {"bucket": "pulled", "url": origin.endpoint, "source": "source", "private": True, "timeout_sec": 60}
        keys = {"access_key": origin.access_key, "secret_key": origin.secret_key}
        with contextlib.closing(
            Session(HttpTransport(server.endpoint), tuple(_ROOT.values()), server.region)
        ) as session:
            session.admin("PUT", "origins", {**order, **keys})
        versions = [
            ("versioned", each["Key"], each["VersionId"])
            for kind in ("Versions", "DeleteMarkers")
            for each in s3.list_object_versions(Bucket="versioned")[kind]
        ]
        return Scene(data, identities, s3.list_buckets()["Owner"]["ID"], versions, uploads)


def _users(server: orcas.Server) -> dict[str, Identity]:
    """One who may do everything, one who may do a little, one who may do nothing, and a session of the first."""
    iam, found = server.client("iam"), {}
    for name, statements in (("ann", _EVERYTHING), ("ben", _LITTLE), ("cem", None)):
        iam.create_user(UserName=name)
        if statements is not None:
            document = json.dumps({"Version": "2012-10-17", "Statement": statements})
            iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        found[name] = Identity(key["AccessKeyId"], key["SecretAccessKey"], server.region)
    keys = {"aws_access_key_id": found["ann"].access_key, "aws_secret_access_key": found["ann"].secret_key}
    session = server.client("sts", **keys).get_session_token()["Credentials"]
    found["session"] = Identity(
        session["AccessKeyId"], session["SecretAccessKey"], server.region, session_token=session["SessionToken"]
    )
    return found


def _fill(s3: Any) -> list[tuple[str, str, str]]:
    for bucket in BUCKETS:
        s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=bucket == "locked")
        s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    for bucket in BUCKETS[:-1]:
        for key, content in zip(
            ("k", "a/b", "é", "index.html", "big"), (*CONTENTS[1:4], b"<p>", CONTENTS[5]), strict=True
        ):
            s3.put_object(Bucket=bucket, Key=key, Body=content, Metadata={"m": "1"}, ContentType="text/x-k")
        s3.put_object(Bucket=bucket, Key="a b+c%2F", Body=b"strange", Tagging="stage=raw", StorageClass="GLACIER")
        s3.put_object_annotation(Bucket=bucket, Key="k", AnnotationName="x", AnnotationPayload=b"text")
    s3.put_object(Bucket="versioned", Key="k", Body=b"newer")
    s3.delete_object(Bucket="versioned", Key="a/b")
    s3.put_object_legal_hold(Bucket="locked", Key="k", LegalHold={"Status": "ON"})
    s3.put_bucket_ownership_controls(
        Bucket="listed", OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    )
    s3.put_bucket_acl(Bucket="listed", ACL="public-read")
    s3.put_object_acl(Bucket="listed", Key="k", ACL="public-read")
    everybody = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"]}
    everybody["Resource"] = ["arn:aws:s3:::public", "arn:aws:s3:::public/*"]
    s3.put_bucket_policy(Bucket="public", Policy=json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
    pages = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "k"}}
    s3.put_bucket_website(Bucket="public", WebsiteConfiguration=pages)
    s3.put_object(Bucket="public", Key="away", Body=b"", WebsiteRedirectLocation="/k")
    rule = {"AllowedOrigins": ["http://*.example"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-amz-*"]}
    for bucket in ("plain", "public"):
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    uploads = []
    for bucket in ("plain", "versioned"):
        upload = begin(s3, bucket, "up")
        upload.put(1, CONTENTS[1])
        upload.put(3, CONTENTS[2])
        uploads.append((bucket, "up", upload.id))
    return uploads


@contextlib.contextmanager
def both(scene: Scene, place: Path) -> Iterator[tuple[str, str]]:
    """The addresses of two servers, each over a copy of the store: `orcas serve`, and the application under uvicorn."""
    with contextlib.ExitStack() as stack:
        for name in ("served", "uvicorn"):
            shutil.copytree(scene.data, place / name / "store")
            stack.callback(shutil.rmtree, place / name)
        first = stack.enter_context(orcas.Server(place / "served" / "store", **_SETTINGS, **_ROOT))
        host = stack.enter_context(serving("uvicorn", place / "uvicorn", **_SETTINGS))
        yield first.endpoint, host.wire.endpoint
