"""What is copied: content, metadata, tags, locks, parts, delete markers; what is not; and that two servers come to rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fixtures.targets import MIB, content, keys_of, refusal
from tests.replication.conftest import Pair, add_target, admin, contents, status_of


def test_an_object_is_copied_with_all_that_is_said_of_it(pair: Pair) -> None:
    pair.replicate()
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    options: dict[str, Any] = {
        "Metadata": {"a": "1"}, "Tagging": "t=1&u=2", "ContentType": "text/plain", "CacheControl": "no-cache",
        "StorageClass": "STANDARD_IA", "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until,
        "ObjectLockLegalHoldStatus": "OFF", "ChecksumAlgorithm": "SHA256",
    }  # fmt: skip
    pair.put("dir/ü +%41", b"body", **options)
    assert pair.settled()
    assert contents(pair.there.client(), pair.bucket) == contents(pair.here.client(), pair.bucket)
    named = {"Bucket": pair.bucket, "Key": "dir/ü +%41"}
    mine, theirs = (target.client().head_object(**named) for target in (pair.here, pair.there))
    for name in ("ETag", "ContentType", "CacheControl", "StorageClass", "ObjectLockMode", "ObjectLockRetainUntilDate"):
        assert theirs[name] == mine[name], name
    assert (mine["ReplicationStatus"], theirs["ReplicationStatus"]) == ("COMPLETED", "REPLICA")
    # One request for one change.
    assert [method for method, _ in pair.sent()] == ["HEAD", "PUT"]
    pair.put("next")
    assert pair.settled()
    assert [method for method, _ in pair.sent()] == ["HEAD", "PUT", "PUT"]


def test_parts_keep_their_sizes_so_that_etags_agree(pair: Pair) -> None:
    pair.replicate()
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "parts"}
    upload = client.create_multipart_upload(**named)["UploadId"]
    parts = [
        client.upload_part(**named, UploadId=upload, PartNumber=number, Body=content(size, number))["ETag"]
        for number, size in ((1, 6 * MIB), (2, 5 * MIB), (3, 7))
    ]
    listed = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(parts, 1)]
    etag = client.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": listed})["ETag"]
    assert pair.settled()
    there = pair.there_has("parts")
    assert there is not None
    assert etag.endswith('-3"')
    assert there["ETag"] == etag


def test_changes_of_tags_and_locks_follow(pair: Pair) -> None:
    pair.replicate()
    pair.put("k", Tagging="a=1")
    assert pair.settled()
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "k"}
    client.put_object_tagging(**named, Tagging={"TagSet": [{"Key": "b", "Value": "2"}]})
    client.put_object_legal_hold(**named, LegalHold={"Status": "ON"})
    assert pair.settled()
    assert contents(pair.there.client(), pair.bucket) == contents(client, pair.bucket)
    assert pair.there.client().get_object_legal_hold(**named)["LegalHold"]["Status"] == "ON"
    # The content was sent once.
    assert len([path for method, path in pair.sent("PUT") if "?" not in path]) == 1
    client.delete_object_tagging(**named)
    assert pair.settled()
    assert pair.there.client().get_object_tagging(**named)["TagSet"] == []
    for target in (pair.here, pair.there):
        target.client().put_object_legal_hold(**named, LegalHold={"Status": "OFF"})


def test_a_copy_at_another_orcas_has_the_time_of_its_source(pair: Pair) -> None:
    time = "Fri, 02 Jan 2026 03:04:05 GMT"

    def date(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-amz-orcas-replica-time"] = time

    client, parts = pair.here.client(), {"Bucket": pair.bucket, "Key": "parts"}
    client.meta.events.register("before-call.s3", date)
    try:
        pair.put("whole")
        pair.put("large", content(2 * MIB))
    finally:
        client.meta.events.unregister("before-call.s3", date)
    upload = client.create_multipart_upload(**parts)["UploadId"]
    etag = client.upload_part(**parts, UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    client.meta.events.register("before-call.s3.CompleteMultipartUpload", date)
    try:
        listed = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        client.complete_multipart_upload(**parts, UploadId=upload, MultipartUpload=listed)
    finally:
        client.meta.events.unregister("before-call.s3.CompleteMultipartUpload", date)
    pair.replicate(existing=True)
    assert pair.settled()
    for key in ("whole", "large", "parts"):
        there = pair.there_has(key)
        assert there is not None, key
        assert there["ResponseMetadata"]["HTTPHeaders"]["last-modified"] == time, key


def test_content_that_another_orcas_has_already_is_not_sent(pair: Pair) -> None:
    body = content(3 * MIB, 1)
    pair.there.client().put_object(Bucket=pair.bucket, Key="has", Body=body, ChecksumAlgorithm="SHA256")
    pair.replicate()
    pair.put("known", body, ChecksumAlgorithm="SHA256", Metadata={"a": "1"}, Tagging="t=1")
    assert pair.settled()
    assert pair.sent("PUT") == []
    assert pair.route()["bytes"] == 0
    mine, theirs = (contents(target.client(), pair.bucket)["known"] for target in (pair.here, pair.there))
    assert theirs == mine
    assert status_of(pair.there, pair.bucket, "known") == "REPLICA"
    # What it does not have is sent, once.
    pair.put("other", content(3 * MIB, 2), ChecksumAlgorithm="SHA256")
    assert pair.settled()
    assert len(pair.sent("PUT")) == 1
    assert contents(pair.there.client(), pair.bucket)["other"] == contents(pair.here.client(), pair.bucket)["other"]


def test_annotations_follow_at_another_orcas(pair: Pair) -> None:
    def annotated(client: Any, key: str) -> dict[str, bytes]:
        named = {"Bucket": pair.bucket, "Key": key}
        entries = client.list_object_annotations(**named).get("Annotations", [])
        names = [entry["AnnotationName"] for entry in entries]
        return {
            name: client.get_object_annotation(**named, AnnotationName=name)["AnnotationPayload"].read()
            for name in names
        }

    pair.replicate()
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "k"}
    pair.put("k")
    for name in ("a", "b"):
        client.put_object_annotation(**named, AnnotationName=name, AnnotationPayload=name.encode())
    assert pair.settled()
    assert annotated(pair.there.client(), "k") == {"a": b"a", "b": b"b"}
    client.put_object_annotation(**named, AnnotationName="a", AnnotationPayload=b"other")
    client.delete_object_annotation(**named, AnnotationName="b")
    client.copy_object(Bucket=pair.bucket, Key="copy", CopySource=named)
    assert pair.settled()
    for key in ("k", "copy"):
        assert annotated(pair.there.client(), key) == annotated(client, key) == {"a": b"other"}
    assert len([path for method, path in pair.sent("PUT") if path.endswith("/k")]) == 1


@pytest.mark.parametrize("markers", [True, False])
def test_delete_markers_are_copied_if_the_rule_says_so_and_deletions_of_versions_never(
    pair: Pair, markers: bool
) -> None:
    pair.replicate(markers=markers)
    kept, version = pair.put("kept"), pair.put("deleted")
    assert pair.settled()
    client = pair.here.client()
    client.delete_object(Bucket=pair.bucket, Key="kept", VersionId=kept)
    client.delete_object(Bucket=pair.bucket, Key="deleted")
    assert pair.settled()
    expected = ["kept"] if markers else ["deleted", "kept"]
    assert keys_of(pair.there.client(), pair.bucket) == expected
    found = pair.there.client().list_object_versions(Bucket=pair.bucket, Prefix="deleted")
    assert (len(found.get("Versions", [])), len(found.get("DeleteMarkers", []))) == (1, int(markers))
    # What is deleted as a version comes back, and is no change that is copied.
    client.delete_object(Bucket=pair.bucket, Key="deleted", VersionId=version)
    assert pair.settled()
    assert keys_of(pair.there.client(), pair.bucket) == expected


def test_a_delete_marker_hides_nothing_that_was_not_copied_from_here(pair: Pair) -> None:
    pair.replicate(markers=True)
    pair.put("k", b"mine")
    assert pair.settled()
    pair.there.client().put_object(Bucket=pair.bucket, Key="k", Body=b"theirs")
    pair.here.client().delete_object(Bucket=pair.bucket, Key="k")
    assert pair.settled()
    assert contents(pair.there.client(), pair.bucket)["k"][0] == b"theirs"
    assert pair.route()["results"]["skipped"] == 1


def test_only_what_a_rule_is_about_is_copied_and_existing_objects_if_it_says_so(pair: Pair) -> None:
    for key in ("a/1", "b/1"):
        pair.put(key, content(10))
    pair.replicate(prefix="a/", existing=True)
    pair.put("a/2")
    pair.put("c/2")
    assert pair.settled()
    assert keys_of(pair.there.client(), pair.bucket) == ["a/1", "a/2"]
    assert [status_of(pair.here, pair.bucket, key) for key in ("a/1", "a/2", "b/1")] == ["COMPLETED", "COMPLETED", None]
    # Another rule without what exists: only what comes.
    pair.replicate(prefix="b/")
    pair.put("b/2")
    assert pair.settled()
    assert keys_of(pair.there.client(), pair.bucket) == ["a/1", "a/2", "b/2"]
    assert [status_of(pair.here, pair.bucket, key) for key in ("b/1", "b/2")] == [None, "COMPLETED"]


def test_what_the_target_has_already_is_not_sent_again(pair: Pair) -> None:
    pair.put("same", b"same")
    pair.there.client().put_object(Bucket=pair.bucket, Key="same", Body=b"same")
    pair.put("other", b"mine")
    pair.there.client().put_object(Bucket=pair.bucket, Key="other", Body=b"theirs")
    pair.replicate(existing=True)
    assert pair.settled()
    assert [path for _, path in pair.sent("PUT")] == [f"/{pair.bucket}/other"]
    assert contents(pair.there.client(), pair.bucket)["other"][0] == b"mine"


def test_rules_by_tags_follow_the_tags(pair: Pair) -> None:
    client = pair.here.client()
    rule: dict[str, Any] = {
        "ID": "r", "Priority": 1, "Status": "Enabled", "Filter": {"Tag": {"Key": "copy", "Value": "yes"}},
        "DeleteMarkerReplication": {"Status": "Disabled"},
        "Destination": {"Bucket": f"arn:aws:s3:::{pair.name}/{pair.bucket}", "StorageClass": "GLACIER_IR"},
    }  # fmt: skip
    configuration = {"Role": "arn:aws:iam::123456789012:role/r", "Rules": [rule]}
    client.put_bucket_replication(Bucket=pair.bucket, ReplicationConfiguration=configuration)
    assert client.get_bucket_replication(Bucket=pair.bucket)["ReplicationConfiguration"] == configuration
    pair.put("no")
    pair.put("yes", Tagging="copy=yes")
    assert pair.settled()
    assert keys_of(pair.there.client(), pair.bucket) == ["yes"]
    there = pair.there_has("yes")
    assert there is not None
    assert there["StorageClass"] == "GLACIER_IR"
    client.put_object_tagging(Bucket=pair.bucket, Key="no", Tagging={"TagSet": [{"Key": "copy", "Value": "yes"}]})
    assert pair.settled()
    assert keys_of(pair.there.client(), pair.bucket) == ["no", "yes"]


def test_two_servers_that_replicate_to_each_other_come_to_rest(pair: Pair) -> None:
    pair.replicate(markers=True)
    back = f"b-{pair.name}"
    add_target(pair.there, back, pair.here.server.endpoint, pair.here)
    admin(
        pair.there, "POST", "replication/rules",
        {"bucket": pair.bucket, "target": back, "to": pair.bucket, "markers": True},
    )  # fmt: skip
    reverse = Pair(pair.there, pair.here, pair.bucket, back, pair.proxy)
    pair.put("mine")
    reverse.put("theirs")
    pair.put("gone")
    for _ in range(2):
        assert pair.settled()
        assert reverse.settled()
    pair.here.client().delete_object(Bucket=pair.bucket, Key="gone")
    for _ in range(3):
        assert pair.settled()
        assert reverse.settled()
    assert contents(pair.here.client(), pair.bucket) == contents(pair.there.client(), pair.bucket)
    for target in (pair.here, pair.there):
        found = target.client().list_object_versions(Bucket=pair.bucket)
        assert sorted(entry["Key"] for entry in found["Versions"]) == ["gone", "mine", "theirs"]
        assert len(found["DeleteMarkers"]) == 1
    pair.there.client().delete_bucket_replication(Bucket=pair.bucket)
    admin(pair.there, "DELETE", f"replication/targets/{back}")


def test_a_copy_of_a_replica_is_none(pair: Pair) -> None:
    pair.replicate()
    pair.put("k")
    assert pair.settled()
    client = pair.there.client()
    client.copy_object(Bucket=pair.bucket, Key="other", CopySource={"Bucket": pair.bucket, "Key": "k"})
    assert (status_of(pair.there, pair.bucket, "k"), status_of(pair.there, pair.bucket, "other")) == ("REPLICA", None)


def test_versioning_cannot_be_suspended_and_is_needed(pair: Pair) -> None:
    pair.replicate()
    client = pair.here.client()
    # Object Lock keeps it as well, so another bucket shows it.
    plain = f"p-{pair.bucket}"[:63]
    client.create_bucket(Bucket=plain)
    configuration = client.get_bucket_replication(Bucket=pair.bucket)["ReplicationConfiguration"]
    put = {"Bucket": plain, "ReplicationConfiguration": configuration}
    assert refusal(client.put_bucket_replication, **put) == (400, "InvalidRequest")
    enabled, suspended = {"Status": "Enabled"}, {"Status": "Suspended"}
    client.put_bucket_versioning(Bucket=plain, VersioningConfiguration=enabled)
    client.put_bucket_replication(**put)
    change = {"Bucket": plain, "VersioningConfiguration": suspended}
    assert refusal(client.put_bucket_versioning, **change) == (409, "InvalidBucketState")
    client.delete_bucket_replication(Bucket=plain)
    client.put_bucket_versioning(**change)
    missing = {"Bucket": plain}
    assert refusal(client.get_bucket_replication, **missing) == (404, "ReplicationConfigurationNotFoundError")
