"""Replication to servers that are not Orcas: what their API can hold arrives, and nothing is sent that only Orcas takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config
from tests.fixtures.servers.peers import known_peers
from tests.fixtures.targets import MIB, Target, content, keys_of, running
from tests.fixtures.waiting import wait_until
from tests.replication.conftest import admin, contents, routes, versioned

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

KEYS = ("a-key-of-copies", "a-secret-of-copies")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with known_peers(monkeypatch) as found:
        yield found


def replicate(here: Target, peer: Any, bucket: str, *, markers: bool) -> None:
    """By S3's own document, because not all of these buckets have versions."""
    target = {"name": "other", "url": peer.url, "access_key": peer.access_key, "secret_key": peer.secret_key}
    admin(here, "PUT", "replication/targets", {**target, "private": True})
    rule = {
        "ID": "r", "Priority": 1, "Status": "Enabled", "Filter": {"Prefix": ""},
        "DeleteMarkerReplication": {"Status": "Enabled" if markers else "Disabled"},
        "Destination": {"Bucket": f"arn:aws:s3:::other/{bucket}"},
    }  # fmt: skip
    here.client().put_bucket_replication(
        Bucket=bucket, ReplicationConfiguration={"Role": "arn:aws:iam::123456789012:role/r", "Rules": [rule]}
    )
    assert wait_until(lambda: bool(routes(here, bucket)))


def settled(here: Target, bucket: str) -> bool:
    until = admin(here, "GET", "replication")["sequence"]
    return wait_until(lambda: all(route["sequence"] >= until for route in routes(here, bucket)))


@pytest.mark.parametrize("name", ["moto", "SeaweedFS", "versitygw"])
@pytest.mark.parametrize("versions", [True, False])
def test_copies_arrive_at_another_server(name: str, versions: bool, tmp_path: Path, peers: Any) -> None:
    if peers.KNOWN[name].version() is None:
        pytest.skip(f"{name} is not installed: {peers.KNOWN[name].install}")
    bucket = "photos"
    with running(None) as here, peers.started(name, tmp_path / "place", KEYS) as peer:
        there = boto3.client(
            "s3", endpoint_url=peer.url, region_name="us-east-1", aws_access_key_id=peer.access_key,
            aws_secret_access_key=peer.secret_key, config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip
        there.create_bucket(Bucket=bucket)
        if versions:
            try:
                there.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
            except botocore.exceptions.ClientError as error:
                pytest.skip(f"{name} has no versions as it is started here: {error}")
        client = here.client()
        versioned(client, bucket)
        replicate(here, peer, bucket, markers=True)
        client.put_object(
            Bucket=bucket, Key="dir/ü", Body=b"body", Metadata={"a": "1"}, Tagging="t=1", ContentType="text/plain",
            ChecksumAlgorithm="SHA256",
        )  # fmt: skip
        client.put_object(Bucket=bucket, Key="large", Body=content(3 * MIB), ChecksumAlgorithm="SHA256")
        client.put_object(Bucket=bucket, Key="gone", Body=b"x")
        named = {"Bucket": bucket, "Key": "parts"}
        upload = client.create_multipart_upload(**named)["UploadId"]
        parts = [
            {"PartNumber": at, "ETag": client.upload_part(**named, UploadId=upload, PartNumber=at, Body=body)["ETag"]}
            for at, body in enumerate((content(5 * MIB), b"end"), 1)
        ]
        client.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": parts})
        assert settled(here, bucket)
        # An annotation is nothing that these servers have, and must not replace the object.
        client.put_object_annotation(Bucket=bucket, Key="large", AnnotationName="a", AnnotationPayload=b"text")
        client.put_object_tagging(Bucket=bucket, Key="dir/ü", Tagging={"TagSet": [{"Key": "u", "Value": "2"}]})
        client.delete_object(Bucket=bucket, Key="gone")
        assert settled(here, bucket)
        (route,) = routes(here, bucket)
        assert (route["exceptions"], route["failing"]) == ([], None)
        assert keys_of(there, bucket) == ["dir/ü", "large", "parts"]
        assert contents(there, bucket) == contents(client, bucket)
        for key in ("dir/ü", "large", "parts"):
            mine, theirs = (each.head_object(Bucket=bucket, Key=key) for each in (client, there))
            assert theirs["ETag"] == mine["ETag"], key
        assert there.head_object(Bucket=bucket, Key="dir/ü")["ContentType"] == "text/plain"
        page = admin(here, "POST", "replication/verify", {"bucket": bucket, "after": "", "metadata": True})
        assert page["differences"] == []
