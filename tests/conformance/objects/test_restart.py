"""What was acknowledged exists after the server was stopped, and after it was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.checksums import checksum, etag, multipart_etag
from tests.fixtures.targets import MIB, SIZES, content, keys_of, read, refusal, running
from tests.fixtures.uploads import Upload, begin, listed_parts

import orcas

pytestmark = pytest.mark.conformance

ENDINGS: list[Callable[[orcas.Server], None]] = [orcas.Server.stop, orcas.Server.kill]
ending = pytest.mark.parametrize("end", ENDINGS, ids=["stopped", "killed"])


@ending
def test_objects_and_buckets(tmp_path: Path, end: Callable[[orcas.Server], None]) -> None:
    with running(tmp_path / "store") as first:
        s3 = first.client()
        s3.create_bucket(Bucket="kept", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        s3.create_bucket(Bucket="dropped")
        for size in SIZES:
            s3.put_object(
                Bucket="kept", Key=f"k{size:09}", Body=content(size), Metadata={"m": str(size)}, ContentType="x/y"
            )
        s3.put_object(Bucket="kept", Key="deleted", Body=b"x")
        s3.delete_object(Bucket="kept", Key="deleted")
        s3.put_object(Bucket="kept", Key="a", Body=content(70_000))
        s3.put_object(Bucket="kept", Key="a", Body=b"replaced")
        s3.copy_object(Bucket="kept", Key="copy", CopySource={"Bucket": "kept", "Key": f"k{SIZES[-1]:09}"})
        s3.rename_object(Bucket="kept", Key="renamed", RenameSource="a")
        s3.delete_bucket(Bucket="dropped")
        keys = (first.server.access_key, first.server.secret_key)
        created = s3.list_buckets()["Buckets"]
        listed = s3.list_objects_v2(Bucket="kept")["Contents"]
        end(first.server)
    with running(tmp_path / "store") as second:
        s3 = second.client()
        assert (second.server.access_key, second.server.secret_key) == keys
        assert s3.list_buckets()["Buckets"] == created
        assert s3.get_bucket_location(Bucket="kept")["LocationConstraint"] == "eu-west-1"
        assert s3.list_objects_v2(Bucket="kept")["Contents"] == listed
        for size in SIZES:
            got = s3.get_object(Bucket="kept", Key=f"k{size:09}")
            assert got["Body"].read() == content(size)
            assert (got["ETag"], got["Metadata"], got["ContentType"]) == (etag(content(size)), {"m": str(size)}, "x/y")
        assert read(s3, "kept", "renamed") == b"replaced"
        assert read(s3, "kept", "copy") == content(SIZES[-1])
        assert refusal(s3.get_object, Bucket="kept", Key="deleted") == (404, "NoSuchKey")
        assert refusal(s3.head_bucket, Bucket="dropped") == (404, "404")
        assert refusal(s3.put_object, Bucket="kept", Key="renamed", Body=b"", IfNoneMatch="*")[0] == 412


@ending
def test_an_upload_goes_on(tmp_path: Path, end: Callable[[orcas.Server], None]) -> None:
    bodies = [content(5 * MIB), content(5 * MIB + 1, seed=1), b"end"]
    with running(tmp_path / "store") as first:
        s3 = first.client()
        s3.create_bucket(Bucket="bkt")
        upload = begin(s3, "bkt", "k", Metadata={"m": "1"}, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
        for number, body in enumerate(bodies[:2], start=1):
            upload.put(number, body, ChecksumCRC32=checksum("CRC32", body))
        gone = begin(s3, "bkt", "gone")
        gone.put(1, b"x")
        s3.abort_multipart_upload(**gone.arguments)
        done = begin(s3, "bkt", "done")
        done.put(1, b"x")
        answer = done.complete()
        end(first.server)
    with running(tmp_path / "store") as second:
        s3 = second.client()
        assert [entry["Key"] for entry in s3.list_multipart_uploads(Bucket="bkt")["Uploads"]] == ["k"]
        again = Upload(s3, "bkt", "k", upload.id, upload.tags)
        assert listed_parts(s3, again, 1) == [1, 2]
        again.put(3, bodies[2], ChecksumCRC32=checksum("CRC32", bodies[2]))
        whole = checksum("CRC32", b"".join(bodies))
        completed = again.complete(ChecksumCRC32=whole, ChecksumType="FULL_OBJECT")
        assert (completed["ETag"], completed["ChecksumCRC32"]) == (multipart_etag(bodies), whole)
        got = s3.get_object(Bucket="bkt", Key="k")
        assert (got["Body"].read(), got["Metadata"]) == (b"".join(bodies), {"m": "1"})
        assert refusal(s3.list_parts, **gone.arguments) == (404, "NoSuchUpload")
        # The answer to a completion survives the server, for a client that did not receive it.
        retried = Upload(s3, "bkt", "done", done.id, done.tags).complete()
        assert retried["ETag"] == answer["ETag"]
        assert keys_of(s3, "bkt") == ["done", "k"]


def test_a_store_in_memory_is_gone(tmp_path: Path) -> None:
    with running(None) as first:
        first.client().create_bucket(Bucket="bkt")
    with running(None) as second:
        assert second.client().list_buckets()["Buckets"] == []


def test_a_store_belongs_to_one_server(tmp_path: Path) -> None:
    with running(tmp_path / "store") as first:
        first.client().create_bucket(Bucket="bkt")
        with pytest.raises(orcas.UnavailableError):
            orcas.Server(tmp_path / "store")
        assert [entry["Name"] for entry in first.client().list_buckets()["Buckets"]] == ["bkt"]
