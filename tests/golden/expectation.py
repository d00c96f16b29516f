"""The expected contents of a store, given by its manifest, and the checks of them.

A manifest is JSON: `buckets` by name, each with `settings`, `location`, `objects` by key, open `uploads`; `completed`
multipart uploads, whose completion must be answered again; `unanswered`, the keys whose writes a crash interrupted; and
`versions`, the result of `versions_of` for the buckets with versioning; `kinds`, if the store has them, what
`tests.golden.kinds` says of other buckets; and `master_key`, that of the keyring.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.checksums import ALGORITHMS, checksum, sha256
from tests.fixtures.targets import Target, read
from tests.golden import kinds

# Shorter objects have one block, which every read verifies.
RANGE_MIN: Final = 65_536
SETTINGS: Final = "x-amz-orcas-"
# Fields of GetObject besides the length and the time.
FIELDS: Final = (
    "ETag", "ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl", "ExpiresString",
    "Metadata", *(f"Checksum{name}" for name in ALGORITHMS), "ChecksumType", "ServerSideEncryption",
)  # fmt: skip


def settings_of(target: Target, bucket: str) -> dict[str, str]:
    """The settings that HeadBucket shows."""
    headers = target.wire("HEAD", f"/{bucket}").headers
    return {name.removeprefix(SETTINGS): value for name, value in headers.items() if name.startswith(SETTINGS)}


def modified(answer: dict[str, Any]) -> str:
    """The modification time of an object, in seconds."""
    return str(answer["LastModified"].isoformat())


def verify(target: Target, manifest: dict[str, Any]) -> None:
    """Check that the store of `target` holds exactly what `manifest` says."""
    client = target.client()
    others = manifest["kinds"]["buckets"] if "kinds" in manifest else []
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == sorted([*manifest["buckets"], *others])
    for name, bucket in manifest["buckets"].items():
        assert settings_of(target, name) == bucket["settings"], name
        if tags := bucket.get("tags"):
            found_tags = client.get_bucket_tagging(Bucket=name)["TagSet"]
            assert sorted(found_tags, key=str) == sorted(tags, key=str), name
        assert client.get_bucket_location(Bucket=name)["LocationConstraint"] == bucket["location"], name
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=name)
        listed = {one["Key"]: (one["Size"], one["ETag"]) for page in pages for one in page.get("Contents", [])}
        # Unacknowledged writes may have happened, but only completely.
        found = {key: said for key, said in listed.items() if key not in manifest["unanswered"]}
        expected = {key: (one["size"], one["fields"]["ETag"]) for key, one in bucket["objects"].items()}
        assert found == expected, name
        for key, one in bucket["objects"].items():
            verify_object(client, name, key, one)
        verify_uploads(client, name, bucket["uploads"])
    for name, versions in manifest["versions"].items():
        assert versions_of(client, name) == versions, name
    for completed in manifest["completed"]:
        assert complete(client, completed)["ETag"] == completed["etag"], "a repeated completion has the same answer"
    if "replication" in manifest:
        found_rules = client.get_bucket_replication(Bucket="replicated")["ReplicationConfiguration"]
        assert found_rules == manifest["replication"]
    if others:
        assert kinds.described(target) == manifest["kinds"]
        kinds.check_content(manifest["kinds"])


def versions_of(client: Any, bucket: str) -> list[dict[str, Any]]:
    """Every version and delete marker of a bucket, with its attributes that can change."""
    found: list[dict[str, Any]] = []
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2}):
        markers = page.get("DeleteMarkers", [])
        found += [{"key": one["Key"], "id": one["VersionId"], "latest": one["IsLatest"]} for one in markers]
        for one in page.get("Versions", []):
            place = {"Bucket": bucket, "Key": one["Key"], "VersionId": one["VersionId"]}
            answer = client.get_object(**place)
            assert answer["VersionId"] == one["VersionId"]
            said = {
                "key": one["Key"], "id": one["VersionId"], "latest": one["IsLatest"], "etag": one["ETag"],
                "modified": modified(one), "sha256": sha256(answer["Body"].read()), "class": one["StorageClass"],
                "tags": client.get_object_tagging(**place)["TagSet"], "hold": answer.get("ObjectLockLegalHoldStatus"),
                "mode": answer.get("ObjectLockMode"), "redirect": answer.get("WebsiteRedirectLocation"),
            }  # fmt: skip
            if until := answer.get("ObjectLockRetainUntilDate"):
                said["until"] = str(until.isoformat())
            found.append(said)
    return sorted(found, key=lambda one: (one["key"], one["id"]))


def verify_object(client: Any, bucket: str, key: str, expected: dict[str, Any]) -> None:
    """Everything that GET returns for an object: whole, a range, and by part number."""
    answer = client.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    body = answer["Body"].read()
    found = {field: answer[field] for field in FIELDS if answer.get(field)}
    assert found == expected["fields"], (bucket, key)
    assert (len(body), sha256(body)) == (expected["size"], expected["sha256"]), (bucket, key)
    assert modified(answer) == expected["modified"], (bucket, key)
    if len(body) > RANGE_MIN:
        assert read(client, bucket, key, Range=f"bytes={len(body) // 2}-") == body[len(body) // 2 :], (bucket, key)
    at = 0
    for number, size in enumerate(expected["parts"], 1):
        part = client.head_object(Bucket=bucket, Key=key, PartNumber=number)
        assert (part["PartsCount"], part["ContentLength"]) == (len(expected["parts"]), size), (bucket, key)
        assert read(client, bucket, key, PartNumber=number) == body[at : at + size], (bucket, key)
        at += size


def verify_uploads(client: Any, bucket: str, expected: list[dict[str, Any]]) -> None:
    """The open uploads and their parts."""
    listed = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert [(upload["Key"], upload["UploadId"]) for upload in listed] == [(one["key"], one["id"]) for one in expected]
    for upload in expected:
        parts = client.list_parts(Bucket=bucket, Key=upload["key"], UploadId=upload["id"]).get("Parts", [])
        found = [{"number": part["PartNumber"], "size": part["Size"], "etag": part["ETag"]} for part in parts]
        assert found == upload["parts"], (bucket, upload["key"])


def complete(client: Any, upload: dict[str, Any]) -> Any:
    """Completes an upload with the parts in `upload`."""
    place = {"Bucket": upload["bucket"], "Key": upload["key"], "UploadId": upload["id"]}
    checksums: dict[int, dict[str, str]] = {}
    # An upload that is already completed has no parts.
    with contextlib.suppress(client.exceptions.NoSuchUpload):
        for part in client.list_parts(**place).get("Parts", []):
            checksums[part["PartNumber"]] = {name: part[name] for name in part if name.startswith("Checksum")}
    named = [
        {"PartNumber": part["number"], "ETag": part["etag"], **checksums.get(part["number"], {})}
        for part in upload["parts"]
    ]
    return client.complete_multipart_upload(**place, MultipartUpload={"Parts": named})


def change(target: Target, manifest: dict[str, Any]) -> None:
    """Writes to the store, and updates `manifest`."""
    client = target.client()
    for name, bucket in manifest["buckets"].items():
        if name in manifest["versions"]:
            continue
        for upload in bucket["uploads"]:
            number = 1 + max((part["number"] for part in upload["parts"]), default=0)
            body = f"one more part of {upload['key']}".encode()
            place = {"Bucket": name, "Key": upload["key"], "UploadId": upload["id"]}
            algorithm = upload["algorithm"]
            named = {f"Checksum{algorithm}": checksum(algorithm, body)} if algorithm else {}
            tag = client.upload_part(**place, PartNumber=number, Body=body, **named)
            upload["parts"].append({"number": number, "size": len(body), "etag": tag["ETag"]})
        for key in list(bucket["objects"])[::3]:
            client.delete_object(Bucket=name, Key=key)
            with pytest.raises(ClientError):
                client.head_object(Bucket=name, Key=key)
            del bucket["objects"][key]
        for key, expected in list(bucket["objects"].items())[::2]:
            client.copy_object(Bucket=name, Key=f"{key}.copy", CopySource={"Bucket": name, "Key": key})
            age = modified(client.head_object(Bucket=name, Key=f"{key}.copy"))
            # A copy was not uploaded in parts, so fields about parts differ.
            if not expected["parts"]:
                bucket["objects"][f"{key}.copy"] = {**expected, "modified": age}
            else:
                client.delete_object(Bucket=name, Key=f"{key}.copy")
