"""The life of a multipart upload."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.checksums import content_md5, etag, multipart_etag
from tests.fixtures.targets import KINDS, MIB, Target, content, keys_of, read, refusal
from tests.fixtures.uploads import Upload, begin, listed_parts
from tests.fixtures.wire import Wire

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]


def test_parts_in_any_order_become_one_object(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k", ContentType="x/y", Metadata={"m": "1"}, CacheControl="no-store")
    bodies = {3: content(300), 1: content(5 * MIB), 2: content(5 * MIB + 1)}
    for number, body in bodies.items():
        assert upload.put(number, body) == etag(body)
    assert keys_of(s3, bucket) == []
    assert refusal(s3.get_object, Bucket=bucket, Key="k") == (404, "NoSuchKey")
    ordered = [bodies[number] for number in sorted(bodies)]
    done = upload.complete()
    assert (done["ETag"], done["Bucket"], done["Key"]) == (multipart_etag(ordered), bucket, "k")
    assert done["Location"].endswith(f"/{bucket}/k")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"".join(ordered)
    assert (got["ETag"], got["ContentType"], got["Metadata"]) == (multipart_etag(ordered), "x/y", {"m": "1"})
    assert got["CacheControl"] == "no-store"
    assert refusal(s3.list_parts, **upload.arguments) == (404, "NoSuchUpload")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_only_the_parts_named_count(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for number, body in ((2, content(5 * MIB)), (7, b"unused"), (10_000, b"last")):
        upload.put(number, body)
    del upload.tags[7]
    upload.complete()
    assert read(s3, bucket, "k") == content(5 * MIB) + b"last"


def test_a_part_sent_again_replaces_the_first(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    stale = upload.put(1, b"first")
    upload.put(1, b"second")
    assert refusal(upload.complete, parts=[(1, stale)]) == (400, "InvalidPart")
    assert [part["Size"] for part in s3.list_parts(**upload.arguments)["Parts"]] == [6]
    upload.complete()
    assert read(s3, bucket, "k") == b"second"


def test_completions_that_are_refused(s3: Any, wire: Wire, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    one, two = upload.put(1, content(5 * MIB)), upload.put(2, b"end")
    assert refusal(upload.complete, parts=[(2, two), (1, one)]) == (400, "InvalidPartOrder")
    assert refusal(upload.complete, parts=[(1, one), (1, one)]) == (400, "InvalidPartOrder")
    assert refusal(upload.complete, parts=[(1, two)]) == (400, "InvalidPart")
    assert refusal(upload.complete, parts=[(1, one), (3, two)]) == (400, "InvalidPart")
    assert refusal(upload.complete, parts=[]) == (400, "MalformedXML")
    for body in (
        b"",
        b"<CompleteMultipartUpload>",
        b"<Other/>",
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
        b"<CompleteMultipartUpload><Part><PartNumber>0</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
        b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
    ):
        answer = wire("POST", f"/{bucket}/k", f"uploadId={upload.id}", body=body)
        assert (answer.status, answer.code) in {
            (400, "MalformedXML"),
            (400, "InvalidArgument"),
            (400, "InvalidRequest"),
        }, body
    assert keys_of(s3, bucket) == []
    # The refusals did not change the upload.
    upload.complete()
    assert read(s3, bucket, "k") == content(5 * MIB) + b"end"


def test_parts_before_the_last_have_a_least_size(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, content(5 * MIB - 1))
    upload.put(2, b"end")
    assert refusal(upload.complete) == (400, "EntityTooSmall")
    upload.put(1, content(5 * MIB))
    upload.complete()


def test_unquoted_tags_are_tags(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    tag = upload.put(1, b"x")
    upload.complete(parts=[(1, tag.strip('"'))])
    assert read(s3, bucket, "k") == b"x"


def test_completing_twice_gives_the_same_answer(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"x")
    assert upload.complete()["ETag"] == upload.complete()["ETag"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"newer")
    # A retry that arrives late must not bring the older object back.
    upload.complete()
    assert read(s3, bucket, "k") == b"newer"
    assert refusal(upload.complete, parts=[(1, '"0"')])[0] in {400, 404}


def test_completions_that_race_give_one_object(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, content(5 * MIB))
    upload.put(2, b"end")
    with ThreadPoolExecutor(8) as pool:
        tags = {answer["ETag"] for answer in pool.map(lambda _: upload.complete(), range(8))}
    assert tags == {multipart_etag([content(5 * MIB), b"end"])}
    assert read(s3, bucket, "k") == content(5 * MIB) + b"end"


def test_an_aborted_upload_is_gone(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, content(70_000))
    assert s3.abort_multipart_upload(**upload.arguments)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refusal(upload.put, number=1, body=b"x") == (404, "NoSuchUpload")
    assert refusal(upload.complete, parts=[(1, etag(content(70_000)))]) == (404, "NoSuchUpload")
    assert refusal(s3.list_parts, **upload.arguments) == (404, "NoSuchUpload")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("ends", ["abort", "complete"])
def test_an_upload_that_has_ended_can_be_aborted(s3: Any, bucket: str, ends: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"x")
    if ends == "complete":
        upload.complete()
    for _ in range(3):
        assert s3.abort_multipart_upload(**upload.arguments)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert keys_of(s3, bucket) == (["k"] if ends == "complete" else [])
    # It was another object's.
    elsewhere = upload.arguments | {"Key": "other"}
    assert refusal(s3.abort_multipart_upload, **elsewhere) == (404, "NoSuchUpload")
    s3.create_bucket(Bucket=f"{bucket}-other")
    elsewhere = upload.arguments | {"Bucket": f"{bucket}-other"}
    assert refusal(s3.abort_multipart_upload, **elsewhere) == (404, "NoSuchUpload")


@pytest.mark.parametrize("ends", ["abort", "complete"])
def test_whoever_may_not_abort_learns_nothing_of_uploads_that_have_ended(
    target: Target, s3: Any, bucket: str, ends: str
) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"x")
    s3.abort_multipart_upload(**upload.arguments) if ends == "abort" else upload.complete()
    iam = target.server.client("iam")
    iam.create_user(UserName=bucket)
    statement = {"Effect": "Allow", "NotAction": "s3:AbortMultipartUpload", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=bucket, PolicyName="own", PolicyDocument=policy)
    key = iam.create_access_key(UserName=bucket)["AccessKey"]
    wire = target.wire.using(access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])
    for upload_id in (upload.id, "0" * 32):
        answer = wire("DELETE", f"/{bucket}/k", f"uploadId={upload_id}")
        assert (answer.status, answer.code) == (403, "AccessDenied")


@pytest.mark.parametrize("upload_id", ["x", "made-up", "0" * 32, "A" * 300, "ü", "../x", "%00"])
def test_uploads_that_never_were(s3: Any, bucket: str, upload_id: str) -> None:
    made_up = {"Bucket": bucket, "Key": "k", "UploadId": upload_id}
    assert refusal(s3.list_parts, **made_up) == (404, "NoSuchUpload")
    assert refusal(s3.upload_part, **made_up, PartNumber=1, Body=b"x") == (404, "NoSuchUpload")
    assert refusal(s3.abort_multipart_upload, **made_up) == (404, "NoSuchUpload")
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag(b"x")}]}
    assert refusal(s3.complete_multipart_upload, **made_up, MultipartUpload=parts) == (404, "NoSuchUpload")


def test_an_upload_belongs_to_its_key(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"x")
    elsewhere = upload.arguments | {"Key": "other"}
    assert refusal(s3.upload_part, **elsewhere, PartNumber=1, Body=b"y") == (404, "NoSuchUpload")
    assert refusal(s3.list_parts, **elsewhere) == (404, "NoSuchUpload")
    assert refusal(s3.abort_multipart_upload, **elsewhere) == (404, "NoSuchUpload")
    upload.complete()
    assert read(s3, bucket, "k") == b"x"


def test_part_numbers_have_bounds(wire: Wire, s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for number in ("0", "10001", "-1", "x", "", "1.5"):
        answer = wire("PUT", f"/{bucket}/k", f"partNumber={number}&uploadId={upload.id}", body=b"x")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), number
    for query, status, code in (
        ("partNumber=1", 400, "InvalidArgument"),
        (f"uploadId={upload.id}", 405, "MethodNotAllowed"),
    ):
        answer = wire("PUT", f"/{bucket}/k", query, body=b"x")
        assert (answer.status, answer.code) == (status, code), query
    assert "Parts" not in s3.list_parts(**upload.arguments)
    assert keys_of(s3, bucket) == []


def test_a_damaged_part_is_not_kept(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for size in (300, 70_000):
        wrong = {"PartNumber": 1, "Body": content(size), "ContentMD5": content_md5(b"other")}
        assert refusal(s3.upload_part, **upload.arguments, **wrong) == (400, "BadDigest")
    assert "Parts" not in s3.list_parts(**upload.arguments)


def test_parts_are_listed_in_pages(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    numbers = sorted(random.Random(1).sample(range(1, 10_001), 25))
    for number in numbers:
        upload.put(number, b"x" * number)
    answer = s3.list_parts(**upload.arguments)
    assert (answer["Bucket"], answer["Key"], answer["UploadId"], answer["IsTruncated"]) == (
        bucket,
        "k",
        upload.id,
        False,
    )
    assert answer["Initiator"]["ID"] == answer["Owner"]["ID"]
    assert answer["StorageClass"] == "STANDARD"
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in answer["Parts"]] == [
        (number, number, etag(b"x" * number)) for number in numbers
    ]
    for page in (1, 7, 25, 1000):
        assert listed_parts(s3, upload, page) == numbers
    after = s3.list_parts(**upload.arguments, PartNumberMarker=numbers[9])
    assert [part["PartNumber"] for part in after["Parts"]] == numbers[10:]
    assert "Parts" not in s3.list_parts(**upload.arguments, PartNumberMarker=numbers[-1])
    assert "Parts" not in s3.list_parts(**upload.arguments, MaxParts=0)


def uploads_of(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["Key"], entry["UploadId"]) for entry in answer.get("Uploads", [])]


def test_uploads_are_listed_in_pages(s3: Any, bucket: str) -> None:
    keys = ["a", "b/1", "b/2", "b/2", "b/2", "c d", "z", "é/x"]
    begun = [(upload.key, upload.id) for upload in (begin(s3, bucket, key) for key in keys)]
    answer = s3.list_multipart_uploads(Bucket=bucket)
    assert uploads_of(answer) == begun
    for entry in answer["Uploads"]:
        assert entry["StorageClass"] == "STANDARD"
        assert entry["Initiator"]["ID"] == entry["Owner"]["ID"]
        assert entry["Initiated"].year > 2000
    for page in (1, 2, 3, 1000):
        pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": page})
        assert [entry for answer in pages for entry in uploads_of(answer)] == begun
    assert uploads_of(s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")) == begun[1:5]
    # The last upload of the page is named also if no page follows.
    last = (answer["NextKeyMarker"], answer["NextUploadIdMarker"])
    assert (last, answer["IsTruncated"], "Prefix" in answer) == (begun[-1], False, False)
    empty = s3.list_multipart_uploads(Bucket=bucket, Prefix="none")
    assert (empty["NextKeyMarker"], empty["NextUploadIdMarker"], empty["Prefix"]) == ("", "", "none")
    grouped = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert uploads_of(grouped) == [begun[0], begun[5], begun[6]]
    assert [entry["Prefix"] for entry in grouped["CommonPrefixes"]] == ["b/", "é/"]
    assert uploads_of(s3.list_multipart_uploads(Bucket=bucket, KeyMarker="b/2")) == begun[5:]
    between = s3.list_multipart_uploads(Bucket=bucket, KeyMarker="b/2", UploadIdMarker=begun[2][1])
    assert uploads_of(between) == begun[3:]


def test_a_bucket_with_uploads_only(s3: Any, bucket: str) -> None:
    upload: Upload = begin(s3, bucket, "k")
    upload.put(1, b"x")
    assert keys_of(s3, bucket) == []
    # As on S3, an open upload does not prevent the deletion of its bucket.
    s3.delete_bucket(Bucket=bucket)
    assert refusal(upload.complete) == (404, "NoSuchBucket")
    s3.create_bucket(Bucket=bucket)
    assert refusal(upload.complete) == (404, "NoSuchUpload")


def test_reading_parts_of_the_object(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    bodies = [content(5 * MIB), content(5 * MIB + 7), b"end"]
    for number, body in enumerate(bodies, start=1):
        upload.put(number, body)
    upload.complete()
    offset = 0
    for number, body in enumerate(bodies, start=1):
        got = s3.get_object(Bucket=bucket, Key="k", PartNumber=number)
        assert got["Body"].read() == body
        total = sum(map(len, bodies))
        assert got["ContentRange"] == f"bytes {offset}-{offset + len(body) - 1}/{total}"
        assert got["PartsCount"] == 3
        head = s3.head_object(Bucket=bucket, Key="k", PartNumber=number)
        assert (head["ContentLength"], head["PartsCount"]) == (len(body), 3)
        offset += len(body)
    assert refusal(s3.get_object, Bucket=bucket, Key="k", PartNumber=4) == (416, "InvalidPartNumber")


def test_ranges_across_parts(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    bodies = [content(5 * MIB + 3), content(5 * MIB, seed=1), content(1000)]
    for number, body in enumerate(bodies, start=1):
        upload.put(number, body)
    upload.complete()
    whole = b"".join(bodies)
    edges = [0, len(bodies[0]), len(bodies[0]) + len(bodies[1]), len(whole)]
    for edge in edges:
        for first, last in ((edge - 1, edge), (edge, edge + 100), (edge - 70_000, edge + 70_000)):
            first, last = max(first, 0), min(last, len(whole) - 1)
            if first <= last:
                assert read(s3, bucket, "k", Range=f"bytes={first}-{last}") == whole[first : last + 1]


def test_a_part_of_nothing(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"")
    assert upload.complete()["ETag"] == multipart_etag([b""])
    assert read(s3, bucket, "k") == b""


def test_the_size_of_the_whole_may_be_promised(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    upload.put(1, b"12345")
    assert refusal(upload.complete, MpuObjectSize=6) == (400, "InvalidRequest")
    upload.complete(MpuObjectSize=5)
    assert read(s3, bucket, "k") == b"12345"
