"""minio-py, a client for S3 that shares nothing with botocore."""

from __future__ import annotations

import io
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.clients.conftest import Web
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, package
from tests.fixtures.keys import ARN, MASTER_KEY, create_key
from tests.fixtures.targets import MIB, Target, content, running

minio = package("minio")
commonconfig = package("minio.commonconfig")
credentials = package("minio.credentials")
deleteobjects = package("minio.deleteobjects")
retention = package("minio.retention")
sse = package("minio.sse")
versioning = package("minio.versioningconfig")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def client_of(target: Target, **others: Any) -> Any:
    server = target.server
    settings = {"access_key": server.access_key, "secret_key": server.secret_key} | others
    return minio.Minio(urlsplit(server.endpoint).netloc, secure=False, region=server.region, **settings)


@pytest.fixture
def client(target: Target) -> Any:
    return client_of(target)


def body(client: Any, bucket: str, key: str, **options: Any) -> bytes:
    answer = client.get_object(bucket, key, **options)
    try:
        data: bytes = answer.read()
        return data
    finally:
        answer.close()
        answer.release_conn()


@pytest.mark.parametrize("key", AWKWARD)
def test_objects(client: Any, bucket: str, key: str, tmp_path: Path) -> None:
    for size in (0, 300, 12 * MIB + 1):
        data = content(size)
        client.put_object(bucket, key, io.BytesIO(data), size, part_size=5 * MIB, metadata={"m": "1"})
        assert body(client, bucket, key) == data
    assert body(client, bucket, key, offset=7, length=10) == data[7:17]
    # The client does not know the length and sends parts until the stream ends.
    client.put_object(bucket, key, io.BytesIO(data), -1, part_size=5 * MIB)
    client.fget_object(bucket, key, str(tmp_path / "file"))
    client.fput_object(bucket, "file", str(tmp_path / "file"), content_type="x/y")
    assert client.stat_object(bucket, "file").content_type == "x/y"
    assert client.stat_object(bucket, "file").size == len(data)
    client.copy_object(bucket, "copy", commonconfig.CopySource(bucket, key))
    assert body(client, bucket, "copy") == data


def test_composed_objects(client: Any, bucket: str) -> None:
    for number in range(3):
        client.put_object(bucket, f"part {number}", io.BytesIO(content(6 * MIB, number)), 6 * MIB)
    sources = [commonconfig.ComposeSource(bucket, f"part {number}") for number in range(3)]
    client.compose_object(bucket, "whole", sources)
    assert body(client, bucket, "whole") == b"".join(content(6 * MIB, number) for number in range(3))


def test_listings_and_deletions(client: Any, listed: str, bucket: str) -> None:
    assert [entry.object_name for entry in client.list_objects(listed)] == ["page/"]
    assert sum(1 for _ in client.list_objects(listed, recursive=True)) == MANY
    for key in AWKWARD:
        client.put_object(bucket, key, io.BytesIO(b""), 0)
    assert {entry.object_name for entry in client.list_objects(bucket, recursive=True)} == set(AWKWARD)
    doomed = [deleteobjects.DeleteObject(key) for key in AWKWARD]
    assert list(client.remove_objects(bucket, doomed)) == []
    assert list(client.list_objects(bucket, recursive=True)) == []
    client.remove_bucket(bucket)
    assert not client.bucket_exists(bucket)


def test_versions(client: Any, bucket: str) -> None:
    client.set_bucket_versioning(bucket, versioning.VersioningConfig(commonconfig.ENABLED))
    first = client.put_object(bucket, "k", io.BytesIO(b"1"), 1).version_id
    client.put_object(bucket, "k", io.BytesIO(b"22"), 2)
    client.remove_object(bucket, "k")
    found = list(client.list_objects(bucket, include_version=True))
    # The client lists versions first, then delete markers.
    assert [(entry.is_delete_marker, entry.size) for entry in found] == [(False, 2), (False, 1), (True, None)]
    assert body(client, bucket, "k", version_id=first) == b"1"


def test_tags(client: Any, bucket: str) -> None:
    tags = commonconfig.Tags.new_object_tags()
    tags["a b"] = "1+2"
    client.put_object(bucket, "k", io.BytesIO(b"x"), 1, tags=tags)
    assert client.get_object_tags(bucket, "k") == tags
    client.delete_object_tags(bucket, "k")
    assert client.get_object_tags(bucket, "k") is None
    named = commonconfig.Tags.new_bucket_tags()
    named["b"] = "2"
    client.set_bucket_tags(bucket, named)
    assert client.get_bucket_tags(bucket) == named


def test_locks(client: Any, bucket: str) -> None:
    name = f"{bucket}-l"
    client.make_bucket(name, object_lock=True)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    kept = retention.Retention(commonconfig.GOVERNANCE, until)
    # Without TLS, the client sends no Content-MD5, and S3 refuses locked uploads without one.
    with pytest.raises(minio.error.S3Error, match="Content-MD5"):
        client.put_object(name, "k", io.BytesIO(b"x"), 1, retention=kept)
    version = client.put_object(name, "k", io.BytesIO(b"x"), 1).version_id
    client.set_object_retention(name, "k", kept)
    client.enable_object_legal_hold(name, "k")
    assert client.is_object_legal_hold_enabled(name, "k")
    assert client.get_object_retention(name, "k").mode == commonconfig.GOVERNANCE
    with pytest.raises(minio.error.S3Error, match="AccessDenied"):
        client.remove_object(name, "k", version_id=version)
    client.disable_object_legal_hold(name, "k")


def test_presigned_addresses(client: Any, bucket: str) -> None:
    client.put_object(bucket, "a b+ü", io.BytesIO(b"content"), 7)
    with urllib.request.urlopen(client.presigned_get_object(bucket, "a b+ü"), timeout=30) as response:
        assert response.read() == b"content"
    put = urllib.request.Request(client.presigned_put_object(bucket, "up"), data=b"sent", method="PUT")
    with urllib.request.urlopen(put, timeout=30):
        assert body(client, bucket, "up") == b"sent"


def test_errors(target: Target, client: Any, bucket: str) -> None:
    def code(call: Any, *arguments: Any) -> str:
        with pytest.raises(minio.error.S3Error) as caught:
            call(*arguments)
        return str(caught.value.code)

    assert code(client.get_object, bucket, "none") == "NoSuchKey"
    assert code(client.stat_object, bucket, "none") == "NoSuchKey"
    assert code(client.get_object, f"{bucket}-none", "k") == "NoSuchBucket"
    assert code(client.get_bucket_policy, bucket) == "NoSuchBucketPolicy"
    assert code(client_of(target, secret_key=WRONG_SECRET).stat_object, bucket, "k") in {
        "SignatureDoesNotMatch", "AccessDenied",
    }  # fmt: skip
    assert code(client_of(target, secret_key=WRONG_SECRET).get_object, bucket, "k") == "SignatureDoesNotMatch"


def test_notifications(client: Any, bucket: str) -> None:
    heard = threading.Event()

    def change() -> None:
        # The client begins to listen only when it is asked for an event.
        while not heard.wait(0.1):
            for key in ("in/a.txt", "in/b.jpg", "out/c.txt"):
                client.put_object(bucket, key, io.BytesIO(b"1"), 1)
            client.remove_object(bucket, "in/a.txt")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with client.listen_bucket_notification(bucket, prefix="in/", suffix=".txt") as events:
            records = [next(events)["Records"][0] for _ in range(4)]
    finally:
        heard.set()
        thread.join()
    assert {record["eventName"] for record in records} == {"s3:ObjectCreated:Put", "s3:ObjectRemoved:Delete"}
    assert {record["s3"]["object"]["key"] for record in records} == {"in/a.txt"}
    unknown = client.listen_bucket_notification(bucket, events=("s3:X",))
    with pytest.raises(minio.error.S3Error) as refused, unknown as events:
        next(events)
    assert refused.value.code == "InvalidArgument"


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server with a keyring."""
    with running(tmp_path_factory.mktemp("sealing") / "store", master_key=MASTER_KEY) as target:
        yield target


@pytest.mark.parametrize("size", [300, 12 * MIB + 1])
def test_encryption(sealing: Target, size: int) -> None:
    client, s3, bucket = client_of(sealing), sealing.client(), f"e-{size}"
    client.make_bucket(bucket)
    named, data, customer = create_key(sealing, f"of-{size}"), content(size), sse.SseCustomerKey(bytes(range(32)))
    ways = {"managed": sse.SseS3(), "named": sse.SseKMS(named, {"project": "blue"}), "customer": customer}
    for key, way in ways.items():
        client.put_object(bucket, key, io.BytesIO(data), size, part_size=5 * MIB, sse=way)
    assert body(client, bucket, "managed") == data
    assert body(client, bucket, "named") == data
    assert body(client, bucket, "customer", ssec=customer) == data
    assert s3.head_object(Bucket=bucket, Key="managed")["ServerSideEncryption"] == "AES256"
    head = s3.head_object(Bucket=bucket, Key="named")
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", ARN + named)
    assert client.stat_object(bucket, "customer", ssec=customer).size == size
    with pytest.raises(minio.error.S3Error):
        client.get_object(bucket, "customer", ssec=sse.SseCustomerKey(bytes(32)))
    source = commonconfig.CopySource(bucket, "customer", ssec=customer)
    client.copy_object(bucket, "copy", source, sse=sse.SseS3())
    assert body(client, bucket, "copy") == data


def test_a_web_identity(web: Web) -> None:
    """Its requests to STS have their parameters in the query, and no body."""
    endpoint = web.server.endpoint
    provider = credentials.WebIdentityProvider(
        jwt_provider_func=lambda: {"access_token": web.token.read_text(), "expires_in": 900}, sts_endpoint=endpoint,
        role_arn=web.role, role_session_name="web",
    )  # fmt: skip
    client = minio.Minio(urlsplit(endpoint).netloc, credentials=provider)
    assert [bucket.name for bucket in client.list_buckets()] == ["photos"]
