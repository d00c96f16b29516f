"""CopyObject, RenameObject, and the move extension."""

from __future__ import annotations

import datetime as dt
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.checksums import checksum
from tests.fixtures.targets import KINDS, MIB, content, keys_of, read, refusal
from tests.fixtures.wire import Answer, Wire, quote_key

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]

SPECIAL = [
    "a b",
    "a+b",
    "a%20b",
    "a?b",
    "a#b&c=d",
    "ünï/🐋",
    "dir//x/",
    "../x",
    "?versionId=null",
    "a?versionId=1",
    "line\nbreak",
]


@pytest.fixture
def other(s3: Any) -> str:
    name = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    return name


def source(bucket: str, key: str) -> dict[str, str]:
    return {"Bucket": bucket, "Key": key}


@pytest.mark.parametrize("size", [0, 200, 300, 70_000, 9 * MIB])
def test_a_copy_has_the_bytes_and_the_metadata(s3: Any, bucket: str, other: str, size: int) -> None:
    data = content(size)
    tag = s3.put_object(Bucket=bucket, Key="a", Body=data, ContentType="x/y", Metadata={"m": "1"})["ETag"]
    for destination in (bucket, other):
        result = s3.copy_object(Bucket=destination, Key="b", CopySource=source(bucket, "a"))["CopyObjectResult"]
        assert result["ETag"] == tag
        assert result["LastModified"] <= dt.datetime.now(dt.UTC)
        got = s3.get_object(Bucket=destination, Key="b")
        assert (got["Body"].read(), got["ETag"], got["ContentType"], got["Metadata"]) == (data, tag, "x/y", {"m": "1"})
    s3.delete_object(Bucket=bucket, Key="a")
    assert read(s3, other, "b") == data


def test_metadata_directives(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", ContentType="x/y", CacheControl="no-store", Metadata={"m": "1"})
    copy = {"Bucket": bucket, "CopySource": source(bucket, "a"), "ContentType": "z/z", "Metadata": {"n": "2"}}
    s3.copy_object(Key="copied", MetadataDirective="COPY", **copy)
    s3.copy_object(Key="replaced", MetadataDirective="REPLACE", **copy)
    copied, replaced = (s3.head_object(Bucket=bucket, Key=key) for key in ("copied", "replaced"))
    assert (copied["ContentType"], copied["CacheControl"], copied["Metadata"]) == ("x/y", "no-store", {"m": "1"})
    assert (replaced["ContentType"], replaced["Metadata"]) == ("z/z", {"n": "2"})
    assert "CacheControl" not in replaced
    assert refusal(s3.copy_object, Key="bad", **(copy | {"MetadataDirective": "KEEP"})) == (400, "InvalidArgument")


def test_a_copy_onto_itself_must_change_something(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"m": "1"})
    itself = {"Bucket": bucket, "Key": "a", "CopySource": source(bucket, "a")}
    assert refusal(s3.copy_object, **itself) == (400, "InvalidRequest")
    s3.copy_object(MetadataDirective="REPLACE", Metadata={"m": "2"}, **itself)
    head = s3.head_object(Bucket=bucket, Key="a")
    assert head["Metadata"] == {"m": "2"}
    assert read(s3, bucket, "a") == b"x"
    # What is named counts as a change, also if it is the default.
    for storage_class in ("STANDARD", "STANDARD_IA", "STANDARD"):
        s3.copy_object(StorageClass=storage_class, **itself)
        head = s3.head_object(Bucket=bucket, Key="a")
        assert (head.get("StorageClass", "STANDARD"), head["Metadata"]) == (storage_class, {"m": "2"})
    s3.copy_object(WebsiteRedirectLocation="/b", **itself)
    assert refusal(s3.copy_object, **itself) == (400, "InvalidRequest")


def test_conditions_on_the_source(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="a", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="a")["LastModified"]
    hour = dt.timedelta(hours=1)
    copy = {"Bucket": bucket, "CopySource": source(bucket, "a")}
    for number, conditions in enumerate(
        [
            {"CopySourceIfMatch": tag},
            {"CopySourceIfNoneMatch": '"other"'},
            {"CopySourceIfModifiedSince": modified - hour},
            {"CopySourceIfUnmodifiedSince": modified + hour},
            {"CopySourceIfMatch": tag, "CopySourceIfUnmodifiedSince": modified - hour},
        ]
    ):
        s3.copy_object(Key=f"good{number}", **copy, **conditions)
    for conditions in (
        {"CopySourceIfMatch": '"other"'},
        {"CopySourceIfNoneMatch": tag},
        {"CopySourceIfModifiedSince": modified + hour - hour},
        {"CopySourceIfUnmodifiedSince": modified - hour},
        {"CopySourceIfNoneMatch": tag, "CopySourceIfModifiedSince": modified - hour},
    ):
        assert refusal(s3.copy_object, Key="bad", **copy, **conditions) == (412, "PreconditionFailed"), conditions
    assert keys_of(s3, bucket) == ["a", *(f"good{number}" for number in range(5))]


def test_conditions_on_the_destination(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    tag = s3.put_object(Bucket=bucket, Key="b", Body=b"b")["ETag"]
    headers = {"x-amz-copy-source": f"/{bucket}/a"}
    for condition in ({"If-None-Match": "*"}, {"If-Match": '"other"'}):
        assert wire("PUT", f"/{bucket}/b", headers=headers | condition).code == "PreconditionFailed"
    assert read(s3, bucket, "b") == b"b"
    assert wire("PUT", f"/{bucket}/b", headers=headers | {"If-Match": tag}).status == 200
    assert wire("PUT", f"/{bucket}/c", headers=headers | {"If-None-Match": "*"}).status == 200
    assert read(s3, bucket, "b") == read(s3, bucket, "c") == b"a"


@pytest.mark.parametrize("key", SPECIAL)
def test_special_characters_in_the_source(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source(bucket, key))
    assert read(s3, bucket, "copy") == key.encode()


def test_spellings_of_the_source(wire: Wire, bucket: str) -> None:
    wire("PUT", f"/{bucket}/dir/a", body=b"x")
    for spelling in (f"{bucket}/dir/a", f"/{bucket}/dir/a", f"{bucket}%2Fdir%2Fa", f"/{bucket}/dir/a?versionId=null"):
        answer = wire("PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": spelling})
        assert answer.status == 200, (spelling, answer.body)
    for spelling in ("", "/", bucket, f"/{bucket}", f"/{bucket}/"):
        answer = wire("PUT", f"/{bucket}/bad", headers={"x-amz-copy-source": spelling})
        assert (answer.status, answer.code) == (400, "InvalidArgument"), spelling
    assert wire("GET", f"/{bucket}/bad").status == 404


def test_sources_that_are_not_there(s3: Any, bucket: str) -> None:
    missing = refusal(s3.copy_object, Bucket=bucket, Key="b", CopySource=source(bucket, "none"))
    assert missing == (404, "NoSuchKey")
    nowhere = refusal(s3.copy_object, Bucket=bucket, Key="b", CopySource=source(f"{bucket}x"[-63:], "none"))
    assert nowhere == (404, "NoSuchBucket")
    assert keys_of(s3, bucket) == []


def test_a_copy_may_ask_for_another_checksum(s3: Any, bucket: str) -> None:
    data = content(70_000)
    s3.put_object(Bucket=bucket, Key="a", Body=data)
    answer = s3.copy_object(Bucket=bucket, Key="b", CopySource=source(bucket, "a"), ChecksumAlgorithm="SHA256")
    assert answer["CopyObjectResult"]["ChecksumSHA256"] == checksum("SHA256", data)
    head = s3.head_object(Bucket=bucket, Key="b", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == checksum("SHA256", data)


def rename(wire: Wire, bucket: str, old: str, new: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["x-amz-rename-source"] = "/" + quote_key(old)
    return wire("PUT", f"/{bucket}/{quote_key(new)}", "renameObject", headers=named)


def test_rename_through_boto3(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="old", Body=b"x", Metadata={"m": "1"}, ContentType="x/y")["ETag"]
    s3.rename_object(Bucket=bucket, Key="new", RenameSource="old")
    head = s3.head_object(Bucket=bucket, Key="new")
    assert (head["ETag"], head["Metadata"], head["ContentType"]) == (tag, {"m": "1"}, "x/y")
    assert keys_of(s3, bucket) == ["new"]


@pytest.mark.parametrize("size", [0, 300, 70_000, 5 * MIB])
def test_a_renamed_object_is_the_same(wire: Wire, s3: Any, bucket: str, size: int) -> None:
    data = content(size)
    s3.put_object(Bucket=bucket, Key="old", Body=data)
    before = s3.head_object(Bucket=bucket, Key="old")
    answer = rename(wire, bucket, "old", "dir/new")
    assert answer.status == 200, answer.body
    assert keys_of(s3, bucket) == ["dir/new"]
    assert read(s3, bucket, "dir/new") == data
    after = s3.head_object(Bucket=bucket, Key="dir/new")
    assert (after["ETag"], after["ContentLength"]) == (before["ETag"], before["ContentLength"])


@pytest.mark.parametrize("key", SPECIAL)
def test_special_characters_in_a_rename(wire: Wire, s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert rename(wire, bucket, key, f"{key}.new").status == 200
    assert keys_of(s3, bucket) == [f"{key}.new"]


def test_conditions_of_a_rename(wire: Wire, s3: Any, bucket: str) -> None:
    a = s3.put_object(Bucket=bucket, Key="a", Body=b"a")["ETag"]
    b = s3.put_object(Bucket=bucket, Key="b", Body=b"b")["ETag"]
    for conditions in (
        {"If_None_Match": "*"},
        {"If_Match": '"other"'},
        {"x_amz_rename_source_if_match": '"other"'},
        {"x_amz_rename_source_if_none_match": a},
    ):
        answer = rename(wire, bucket, "a", "b", **conditions)
        assert (answer.status, answer.code) == (412, "PreconditionFailed"), conditions
    assert keys_of(s3, bucket) == ["a", "b"]
    assert rename(wire, bucket, "none", "b").code == "NoSuchKey"
    assert rename(wire, bucket, "a", "b", If_Match=b, x_amz_rename_source_if_match=a).status == 200
    assert keys_of(s3, bucket) == ["b"]
    assert read(s3, bucket, "b") == b"a"


def test_a_rename_onto_itself_loses_nothing(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    for answer in (rename(wire, bucket, "a", "a"), move(wire, bucket, "a", bucket, "a")):
        assert (answer.status, answer.error["Code"]) == (400, "InvalidRequest")
        assert answer.error["Message"] == "The object has this name already: give it another one."
    assert read(s3, bucket, "a") == b"x"


def move(wire: Wire, bucket: str, key: str, from_bucket: str, from_key: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["x-amz-move-source"] = f"/{from_bucket}/{quote_key(from_key)}"
    return wire("PUT", f"/{bucket}/{quote_key(key)}", headers=named)


@pytest.mark.parametrize("size", [0, 300, 9 * MIB])
def test_a_move_within_and_across_buckets(wire: Wire, s3: Any, bucket: str, other: str, size: int) -> None:
    data = content(size)
    tag = s3.put_object(Bucket=bucket, Key="a", Body=data, Metadata={"m": "1"})["ETag"]
    within = move(wire, bucket, "b", bucket, "a")
    assert within.status == 200, within.body
    assert keys_of(s3, bucket) == ["b"]
    across = move(wire, other, "c d+e", bucket, "b")
    assert across.status == 200, across.body
    assert across.document().findtext("ETag") == tag
    assert keys_of(s3, bucket) == []
    got = s3.get_object(Bucket=other, Key="c d+e")
    assert (got["Body"].read(), got["ETag"], got["Metadata"]) == (data, tag, {"m": "1"})


def test_refused_moves_move_nothing(wire: Wire, s3: Any, bucket: str, other: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    s3.put_object(Bucket=other, Key="b", Body=b"b")
    assert move(wire, other, "b", bucket, "none").code == "NoSuchKey"
    assert move(wire, other, "b", f"{other}x"[-63:], "a").code == "NoSuchBucket"
    assert move(wire, other, "b", bucket, "a", If_None_Match="*").code == "PreconditionFailed"
    assert move(wire, other, "b", bucket, "a", If_Match='"x"').code == "PreconditionFailed"
    both = wire(
        "PUT", f"/{other}/c", headers={"x-amz-move-source": f"/{bucket}/a", "x-amz-copy-source": f"/{bucket}/a"}
    )
    assert both.status == 400
    assert (read(s3, bucket, "a"), read(s3, other, "b")) == (b"a", b"b")
    assert keys_of(s3, other) == ["b"]


@pytest.mark.parametrize("query", ["renameObject", ""])
def test_what_would_change_the_object_is_refused(wire: Wire, s3: Any, bucket: str, query: str) -> None:
    source = {"x-amz-rename-source": "a"} if query else {"x-amz-move-source": f"{bucket}/a"}
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"m": "1"}, ContentType="x/y")
    for name, value in (
        ("x-amz-meta-m", "2"),
        ("Cache-Control", "no-cache"),
        ("Content-Disposition", "inline"),
        ("Content-Encoding", "gzip"),
        ("Content-Language", "de"),
        ("Expires", "Thu, 01 Jan 2099 00:00:00 GMT"),
        ("x-amz-checksum-algorithm", "SHA256"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-storage-class", "GLACIER"),
    ):
        answer = wire("PUT", f"/{bucket}/b", query, headers=source | {name: value})
        assert (answer.status, answer.code) == (501, "NotImplemented"), name
        assert answer.error["Header"] == name.lower()
    answer = wire("PUT", f"/{bucket}/b", query, headers=source, body=b"new")
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer.body
    assert keys_of(s3, bucket) == ["a"]
    # Some clients send it with every request.
    assert wire("PUT", f"/{bucket}/b", query, headers=source | {"Content-Type": "text/plain"}).status == 200
    head = s3.head_object(Bucket=bucket, Key="b")
    assert (head["Metadata"], head["ContentType"]) == ({"m": "1"}, "x/y")


def test_of_many_movers_one_moves(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: move(wire, bucket, f"to{number:02}", bucket, "a"), range(16)))
    winners = [number for number, answer in enumerate(answers) if answer.status == 200]
    assert len(winners) == 1
    assert {answer.code for answer in answers if answer.status != 200} == {"NoSuchKey"}
    assert keys_of(s3, bucket) == [f"to{winners[0]:02}"]


def test_a_plus_in_a_source_is_a_space(wire: Wire, s3: Any, bucket: str) -> None:
    """As s5cmd encodes it; a plus itself comes as %2B, from s5cmd and boto3 alike."""
    s3.put_object(Bucket=bucket, Key="a b+c", Body=b"spaced")
    for header in ("x-amz-copy-source", "x-amz-move-source"):
        answer = wire("PUT", f"/{bucket}/{header}", headers={header: f"{bucket}/a+b%2Bc"})
        assert answer.status == 200, answer.body
        assert read(s3, bucket, header) == b"spaced"
    s3.put_object(Bucket=bucket, Key="d+e", Body=b"plus")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "d+e"})
    assert read(s3, bucket, "copy") == b"plus"
