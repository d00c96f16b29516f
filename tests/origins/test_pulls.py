"""Buckets with an origin: the first read of an object fetches it, and later ones find it here."""

from __future__ import annotations

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.servers.tampering import Answer
from tests.fixtures.targets import MIB, Target, content, keys_of, read, refusal
from tests.fixtures.waiting import wait_until
from tests.origins.conftest import Pair, admin, in_flight, samples

MISSING = (404, "NoSuchKey")
# HeadObject has no document, so boto3 names the status.
HEAD_MISSING = (404, "404")


def test_an_object_is_fetched_once_with_all_that_it_has(pair: Pair) -> None:
    key = "folder/ä b+%"
    pair.put(
        key, b"hello", ContentType="text/x-hello", CacheControl="max-age=60", Metadata={"who": "me"}, Tagging="a=1&b=2"
    )
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": key}
    assert keys_of(client, pair.bucket) == []
    assert read(client, pair.bucket, key) == b"hello"
    asked = len(pair.proxy.requests)
    found = client.head_object(**named)
    there = pair.there.client().head_object(**named)
    kept = ("ETag", "ContentType", "CacheControl", "Metadata", "ContentLength")
    assert [found[name] for name in kept] == [there[name] for name in kept]
    tags = client.get_object_tagging(**named)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"a": "1", "b": "2"}
    assert read(client, pair.bucket, key) == b"hello"
    assert keys_of(client, pair.bucket) == [key]
    # The origin was asked no more, and may have changed meanwhile.
    assert len(pair.proxy.requests) == asked
    pair.put(key, b"another")
    assert read(client, pair.bucket, key) == b"hello"
    assert pair.fetches() == {"stored": 1}


def test_a_read_that_fetches_counts_once(pair: Pair) -> None:
    pair.put("counted", b"hello")

    def reads() -> list[float]:
        done = samples(pair.here)
        labels = [(("operation", "GetObject"), ("result", result)) for result in ("2xx", "4xx")]
        return [done.get(("orcas_requests_total", named), 0) for named in labels]

    before = reads()
    assert read(pair.here.client(), pair.bucket, "counted") == b"hello"
    assert wait_until(lambda: reads() == [before[0] + 1, before[1]]), (before, reads())
    assert in_flight(pair.here) == 0


def test_heads_and_ranges_fetch_too(pair: Pair) -> None:
    body = content(3 * MIB)
    client = pair.here.client()
    for key in ("head", "range", "last", "none"):
        pair.put(key, body)
    assert client.head_object(Bucket=pair.bucket, Key="head")["ContentLength"] == len(body)
    assert read(client, pair.bucket, "range", Range="bytes=1000000-2000000") == body[1_000_000:2_000_001]
    assert read(client, pair.bucket, "last", Range="bytes=-10") == body[-10:]
    # The condition is judged when the object is here.
    etag = client.head_object(Bucket=pair.bucket, Key="head")["ETag"]
    assert refusal(client.get_object, Bucket=pair.bucket, Key="none", IfNoneMatch=etag) == (304, "304")
    for key in ("head", "range", "last", "none"):
        assert read(client, pair.bucket, key) == body
        assert pair.asked(key) == ["HEAD", "GET"]


def test_an_object_in_parts_keeps_its_etag(pair: Pair) -> None:
    client, named = pair.there.client(), {"Bucket": pair.bucket, "Key": "parts"}
    identifier = client.create_multipart_upload(**named)["UploadId"]
    bodies = (content(5 * MIB), content(6 * MIB, 1), b"end")
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(**named, UploadId=identifier, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate(bodies, 1)
    ]
    client.complete_multipart_upload(**named, UploadId=identifier, MultipartUpload={"Parts": parts})
    here = pair.here.client()
    found = here.get_object(**named)
    assert found["ETag"] == client.head_object(**named)["ETag"]
    assert found["Body"].read() == b"".join(bodies)
    assert "Uploads" not in here.list_multipart_uploads(Bucket=pair.bucket)


@pytest.mark.parametrize("numbers", [(2, 5), (1, 3)])
def test_an_object_whose_parts_have_gaps_is_fetched_whole(pair: Pair, numbers: tuple[int, ...]) -> None:
    client, named = pair.there.client(), {"Bucket": pair.bucket, "Key": "parts"}
    identifier = client.create_multipart_upload(**named)["UploadId"]
    bodies = dict(zip(numbers, (content(5 * MIB), b"end"), strict=True))
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(**named, UploadId=identifier, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in bodies.items()
    ]
    client.complete_multipart_upload(**named, UploadId=identifier, MultipartUpload={"Parts": parts})
    here = pair.here.client()
    assert here.get_object(**named)["Body"].read() == b"".join(bodies.values())
    assert "Uploads" not in here.list_multipart_uploads(Bucket=pair.bucket)


@pytest.mark.parametrize("count", ["abc", "-1", "1" * 5_000, ""])
def test_an_origin_that_does_not_count_its_tags(pair: Pair, count: str) -> None:
    pair.put("tagged", b"x", Tagging="a=b")
    pair.put("plain", b"y")

    def tamper(_method: str, _path: str, answer: Answer) -> None:
        answer.without("x-amz-tagging-count")
        answer.headers.append(("x-amz-tagging-count", count))

    pair.tamper = tamper
    here = pair.here.client()
    assert here.get_object(Bucket=pair.bucket, Key="tagged")["TagCount"] == 1
    assert "TagCount" not in here.get_object(Bucket=pair.bucket, Key="plain")


def test_what_the_origin_lacks_is_missing_and_only_reads_fetch(pair: Pair) -> None:
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "none"}
    assert refusal(client.get_object, **named) == MISSING
    assert refusal(client.head_object, **named) == HEAD_MISSING
    assert pair.fetches() == {"missing": 2}
    pair.put("some", b"x")
    some = {"Bucket": pair.bucket, "Key": "some"}
    assert refusal(client.get_object_tagging, **some) == MISSING
    assert refusal(client.copy_object, Bucket=pair.bucket, Key="copy", CopySource=some) == MISSING
    client.delete_object(**some)
    assert pair.asked("some") == []
    # Another bucket of the server has no origin.
    other = f"o-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=other)
    assert refusal(client.get_object, Bucket=other, Key="some") == MISSING


def test_what_was_deleted_in_a_bucket_with_versions_stays_deleted(pair: Pair) -> None:
    client, named = pair.here.client(), {"Bucket": pair.bucket, "Key": "k"}
    client.put_bucket_versioning(Bucket=pair.bucket, VersioningConfiguration={"Status": "Enabled"})
    pair.put("k", b"x")
    version = client.get_object(**named)["VersionId"]
    marker = client.delete_object(**named)["VersionId"]
    asked = len(pair.proxy.requests)
    assert refusal(client.get_object, **named) == MISSING
    assert refusal(client.head_object, **named) == HEAD_MISSING
    assert read(client, pair.bucket, "k", VersionId=version) == b"x"
    client.delete_object(**named, VersionId=version)
    assert refusal(client.get_object, **named, VersionId=version) == (404, "NoSuchVersion")
    assert len(pair.proxy.requests) == asked
    # Without the marker there is nothing that says that it was deleted.
    client.delete_object(**named, VersionId=marker)
    assert read(client, pair.bucket, "k") == b"x"


def test_a_write_that_finds_nothing_is_answered_here(pair: Pair) -> None:
    """Its body has arrived, so nobody else could answer it."""
    parts = {"Parts": [{"PartNumber": 1, "ETag": "0" * 32}]}
    named = {"Bucket": pair.bucket, "Key": "k", "UploadId": "0" * 32}
    complete = pair.here.client().complete_multipart_upload
    assert refusal(complete, **named, MultipartUpload=parts) == (404, "NoSuchUpload")


def test_misses_of_a_key_are_joined(pair: Pair) -> None:
    pair.put("k", b"x" * 1000)
    release = threading.Event()

    def tamper(*_: object) -> None:
        release.wait(60)

    pair.tamper = tamper
    client, readers = pair.here.client(), 8
    with ThreadPoolExecutor(readers) as pool:
        reads = [pool.submit(read, client, pair.bucket, "k") for _ in range(readers)]
        # The page of metrics is no request of S3.
        assert wait_until(lambda: in_flight(pair.here) == readers)
        release.set()
        assert [one.result() for one in reads] == [b"x" * 1000] * readers
    assert pair.asked("k") == ["HEAD", "GET"]
    assert pair.fetches() == {"stored": 1}


def test_a_write_that_came_first_is_not_replaced(pair: Pair) -> None:
    client = pair.here.client()
    for key in ("small", "large"):
        pair.put(key, content(100 if key == "small" else 3 * MIB))
    begun, release = threading.Event(), threading.Event()

    def tamper(method: str, _path: str, _answer: Answer) -> None:
        if method == "GET":
            begun.set()
            release.wait(60)

    pair.tamper = tamper
    for key in ("small", "large"):
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, client, pair.bucket, key)
            assert begun.wait(60)
            client.put_object(Bucket=pair.bucket, Key=key, Body=b"own")
            release.set()
            assert reading.result() == b"own"
        begun.clear()
        release.clear()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=pair.bucket)


def as_user(target: Target, *statements: dict[str, Any]) -> Any:
    """A client of a new user with this policy."""
    iam, name = target.server.client("iam"), f"u-{uuid.uuid4().hex}"
    iam.create_user(UserName=name)
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return target.server.client(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])


def allow(action: str, resource: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": f"arn:aws:s3:::{resource}", **more}


def test_who_may_not_read_causes_no_request(pair: Pair) -> None:
    pair.put("k", b"x")
    pair.put("secret", b"x", Tagging="class=secret")
    objects, listing = f"{pair.bucket}/*", allow("s3:ListBucket", pair.bucket)
    forbidden = (403, "AccessDenied")
    named = {"Bucket": pair.bucket, "Key": "k"}
    for policy in (
        # Who may not list is not told what is missing, as on S3.
        [allow("s3:GetObject", objects)],
        [listing, allow("s3:PutObject", objects)],
        [listing, allow("s3:GetObject", f"{pair.bucket}/other/*")],
    ):
        assert refusal(as_user(pair.here, *policy).get_object, **named) == forbidden
        assert refusal(as_user(pair.here, *policy).head_object, **named) == (403, "403")
    assert pair.proxy.requests == []
    tagged = {"StringEquals": {"s3:ExistingObjectTag/class": "secret"}}
    deny = allow("s3:GetObject", objects, Condition=tagged) | {"Effect": "Deny"}
    client = as_user(pair.here, listing, allow("s3:GetObject", objects), deny)
    assert read(client, pair.bucket, "k") == b"x"
    # Only when the object is here is it known that it must not be read.
    assert refusal(client.get_object, Bucket=pair.bucket, Key="secret") == forbidden
    assert refusal(client.get_object, Bucket=pair.bucket, Key="secret") == forbidden


def test_another_bucket_of_the_same_name_has_no_origin(pair: Pair) -> None:
    client = pair.here.client()
    pair.put("k", b"x")
    client.delete_bucket(Bucket=pair.bucket)
    assert refusal(client.get_object, Bucket=pair.bucket, Key="k") == (404, "NoSuchBucket")
    client.create_bucket(Bucket=pair.bucket)
    assert refusal(client.get_object, Bucket=pair.bucket, Key="k") == MISSING
    assert pair.asked("k") == []
    pair.join()
    assert read(client, pair.bucket, "k") == b"x"


@pytest.mark.parametrize("addressing", ["presigned", "virtual"])
def test_every_way_to_read_fetches(pair: Pair, addressing: str) -> None:
    pair.put("k", b"x")
    client = pair.here.client(s3={"addressing_style": "virtual" if addressing == "virtual" else "path"})
    if addressing == "virtual":
        assert read(client, pair.bucket, "k") == b"x"
        return
    url = client.generate_presigned_url("get_object", Params={"Bucket": pair.bucket, "Key": "k"})
    wire = pair.here.wire
    answer = wire.send("GET", url.removeprefix(pair.here.server.endpoint), {"host": wire.netloc})
    assert (answer.status, answer.body) == (200, b"x")


def test_fetches_are_counted(pair: Pair) -> None:
    pair.put("k", b"x" * 100)
    read(pair.here.client(), pair.bucket, "k")
    refusal(pair.here.client().get_object, Bucket=pair.bucket, Key="none")
    found = samples(pair.here)
    bucket = ("bucket", pair.bucket)
    assert found["orcas_origin_stored_bytes_total", (bucket,)] == 100
    assert found["orcas_origin_fetches_total", (bucket, ("result", "stored"))] == 1
    assert found["orcas_origin_fetches_total", (bucket, ("result", "missing"))] == 1
    assert found["orcas_origin_fetches_total", (bucket, ("result", "slow"))] == 0
    shown = admin(pair.here, "GET", "origins")["origins"]
    assert pair.there.server.secret_key not in json.dumps(shown)
