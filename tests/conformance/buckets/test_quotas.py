"""Quotas of buckets and owners, as clients meet them and operators set them."""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import MIB, Target, content, keys_of, refusal, running
from tests.fixtures.wire import Signer

import orcas
from orcas.tools.session import HttpTransport, Session

BUCKET = "limited"
EXCEEDED = (403, "QuotaExceeded")


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with running(None) as target:
        yield target


@pytest.fixture
def client(target: Target) -> Iterator[Any]:
    """A client, and `BUCKET` for this test."""
    client = target.client()
    client.create_bucket(Bucket=BUCKET)
    yield client
    for version in client.list_object_versions(Bucket=BUCKET).get("Versions", []):
        client.delete_object(Bucket=BUCKET, Key=version["Key"], VersionId=version["VersionId"])
    for marker in client.list_object_versions(Bucket=BUCKET).get("DeleteMarkers", []):
        client.delete_object(Bucket=BUCKET, Key=marker["Key"], VersionId=marker["VersionId"])
    for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    client.delete_bucket(Bucket=BUCKET)


def order(target: Target, **quota: Any) -> None:
    server = target.server
    session = Session(HttpTransport(server.endpoint), (server.access_key, server.secret_key), server.region)
    session.admin("PUT", "quotas", quota)
    session.close()


def limit(target: Target, **quota: int) -> None:
    order(target, bucket=BUCKET, **quota)


def test_whatever_adds_something_is_refused_beyond_the_quota(target: Target, client: Any) -> None:
    client.put_object(Bucket=BUCKET, Key="a", Body=content(600))
    limit(target, bytes=1000)
    # An upload without a body collected in memory, a copy, an append, a part and a form.
    put = {"Bucket": BUCKET, "Key": "b"}
    assert refusal(client.put_object, **put, Body=content(401)) == EXCEEDED
    assert refusal(client.put_object, **put, Body=content(MIB)) == EXCEEDED
    assert refusal(client.copy_object, **put, CopySource={"Bucket": BUCKET, "Key": "a"}) == EXCEEDED
    assert refusal(client.put_object, Bucket=BUCKET, Key="a", Body=content(401), WriteOffsetBytes=600) == EXCEEDED
    upload = client.create_multipart_upload(**put)["UploadId"]
    part = {**put, "UploadId": upload, "PartNumber": 1}
    assert refusal(client.upload_part, **part, Body=content(401)) == EXCEEDED
    assert refusal(client.upload_part_copy, **part, CopySource={"Bucket": BUCKET, "Key": "a"}) == EXCEEDED
    assert keys_of(client, BUCKET) == ["a"]
    # What fits is taken, and an upload is completed within what its parts have taken.
    etag = client.upload_part(**part, Body=content(400))["ETag"]
    assert refusal(client.put_object, Bucket=BUCKET, Key="c", Body=b"x") == EXCEEDED
    client.complete_multipart_upload(
        **put, UploadId=upload, MultipartUpload={"Parts": [{"ETag": etag, "PartNumber": 1}]}
    )
    client.put_object(Bucket=BUCKET, Key="a", Body=content(600, 1))
    assert refusal(client.put_object, Bucket=BUCKET, Key="a", Body=content(601)) == EXCEEDED
    client.delete_object(Bucket=BUCKET, Key="b")
    client.put_object(Bucket=BUCKET, Key="a", Body=content(1000))
    limit(target)
    client.put_object(Bucket=BUCKET, Key="a", Body=content(5000))


def test_what_cannot_fit_is_refused_before_it_is_sent(target: Target, client: Any) -> None:
    """The answer comes while some of the body is still missing, so it was never stored."""
    client.put_object(Bucket=BUCKET, Key="a", Body=content(MIB))
    limit(target, bytes=2 * MIB)
    client.put_object(Bucket=BUCKET, Key="b", Body=content(1))
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="c")["UploadId"]
    signer = Signer.of(target.server)

    def begins(key: str, query: Sequence[tuple[str, str]] = (), headers: Sequence[tuple[str, str]] = ()) -> str:
        head = signer.sign("PUT", f"/{BUCKET}/{key}", query, headers).head([("content-length", str(MIB + 1))])
        with signer.connect() as connection:
            connection.send(head)
            # The server looks at a refusal when more arrives.
            for _ in range(15):
                connection.send(content(64 * 1024))
                if select.select([connection.sock], [], [], 0.1)[0]:
                    return connection.response("PUT").code
        return "received"

    assert begins("new") == begins("b") == "QuotaExceeded"
    assert begins("c", query=[("partNumber", "1"), ("uploadId", upload)]) == "QuotaExceeded"
    assert begins("a", headers=[("x-amz-write-offset-bytes", str(MIB))]) == "QuotaExceeded"
    # What takes the place of as much is received: an object, and a part.
    client.put_object(Bucket=BUCKET, Key="a", Body=content(MIB + 1))
    part = {"Bucket": BUCKET, "Key": "c", "UploadId": upload, "PartNumber": 1}
    client.upload_part(**part, Body=content(MIB - 2))
    assert refusal(client.upload_part, **part, Body=content(MIB - 1)) == EXCEEDED
    client.upload_part(**part, Body=content(MIB - 2, 1))
    limit(target)


def test_versions_count_and_deletions_are_never_refused(target: Target, client: Any) -> None:
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    limit(target, objects=3)
    first = client.put_object(Bucket=BUCKET, Key="a", Body=b"1")["VersionId"]
    client.put_object(Bucket=BUCKET, Key="a", Body=b"2")
    client.put_object(Bucket=BUCKET, Key="a", Body=b"3")
    assert refusal(client.put_object, Bucket=BUCKET, Key="a", Body=b"4") == EXCEEDED
    # A delete marker is a version too many, and is added all the same.
    client.delete_object(Bucket=BUCKET, Key="a")
    client.delete_object(Bucket=BUCKET, Key="a", VersionId=first)
    assert refusal(client.copy_object, Bucket=BUCKET, Key="b", CopySource=f"{BUCKET}/absent")[0] == 404
    assert refusal(client.put_object, Bucket=BUCKET, Key="a", Body=b"4") == EXCEEDED
    limit(target)


def test_clients_that_race_fill_a_quota_exactly(target: Target, client: Any) -> None:
    limit(target, bytes=1000)

    def put(at: int) -> bool:
        try:
            client.put_object(Bucket=BUCKET, Key=str(at), Body=content(100, at))
        except client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "QuotaExceeded"
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        stored = sum(pool.map(put, range(40)))
    assert stored == 10
    (row,) = [row for row in orcas.usage.report(client) if row["bucket"] == BUCKET]
    assert row["logical"] == 1000


def test_the_quota_of_an_owner_is_for_all_of_its_buckets(target: Target, client: Any) -> None:
    owner = client.list_buckets()["Owner"]["ID"]
    order(target, owner=owner, bytes=1000)
    client.create_bucket(Bucket="another")
    client.put_object(Bucket=BUCKET, Key="a", Body=content(600))
    assert refusal(client.put_object, Bucket="another", Key="a", Body=content(401)) == EXCEEDED
    client.put_object(Bucket="another", Key="a", Body=content(400))
    assert refusal(client.put_object, Bucket=BUCKET, Key="b", Body=b"x") == EXCEEDED
    client.delete_object(Bucket="another", Key="a")
    client.delete_bucket(Bucket="another")
    client.put_object(Bucket=BUCKET, Key="b", Body=content(400))
    order(target, owner=owner)
    client.put_object(Bucket=BUCKET, Key="b", Body=content(4000))


def test_the_command_sets_quotas_that_survive(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as target:
        client = target.client()
        client.create_bucket(Bucket=BUCKET)
        owner = client.list_buckets()["Owner"]["ID"]
        command("quota", "set", BUCKET, "--bytes", "1KiB", "--data", data)
        command("quota", "set", owner, "--owner", "--objects", "2", "--data", data)
        nobody = "0" * 64
        assert "No owner has this id" in command(
            "quota", "set", nobody, "--owner", "--bytes", "1", "--data", data, code=1
        )
        command("quota", "remove", nobody, "--owner", "--data", data)
    # An account without a bucket and without a key.
    other = document("account", "create", "other", "--data", data)["Account"]["CanonicalId"]
    command("quota", "set", other, "--owner", "--bytes", "1", "--data", data)
    found = {
        "buckets": [{"bucket": BUCKET, "bytes": 1024, "objects": None}],
        "owners": sorted(
            [{"owner": owner, "bytes": None, "objects": 2}, {"owner": other, "bytes": 1, "objects": None}],
            key=lambda quota: str(quota["owner"]),
        ),
    }
    assert document("quota", "list", "--data", data) == found
    with running(data) as target:
        client = target.client()
        assert refusal(client.put_object, Bucket=BUCKET, Key="a", Body=content(1025)) == EXCEEDED
        client.put_object(Bucket=BUCKET, Key="a", Body=content(1024))
        client.create_bucket(Bucket="other")
        client.put_object(Bucket="other", Key="a", Body=b"")
        assert refusal(client.put_object, Bucket="other", Key="b", Body=b"") == EXCEEDED
        command("quota", "remove", owner, "--owner", "--data", data)
        client.put_object(Bucket="other", Key="b", Body=b"")
        assert "1.0 KiB" in command("quota", "list", "--data", data)
        kept = (data / "quotas.json").read_bytes()
        (data / "quotas.json").write_text("{")
        copy = (data / "quotas.json.copy").read_bytes()
        (data / "quotas.json.copy").unlink()
        for again in (["list"], ["set", owner, "--owner", "--objects", "2"]):
            assert "quotas.json is damaged" in command("quota", *again, "--data", data, code=1)
        (data / "quotas.json").write_bytes(kept)
        (data / "quotas.json.copy").write_bytes(copy)
    # Backups have both kinds.
    command("quota", "set", owner, "--owner", "--bytes", "2GiB", "--data", data)
    command("backup", tmp_path / "backup", "--data", data)
    command("restore", tmp_path / "backup", "--data", tmp_path / "again")
    restored = {row["owner"]: row["bytes"] for row in document("quota", "list", "--data", tmp_path / "again")["owners"]}
    assert restored == {owner: 2 << 30, other: 1}
    (data / "quotas.json").write_text("{")
    (data / "quotas.json.copy").unlink()
    assert "restore it" in command("stats", "--data", data, code=69)
