"""ListObjects and ListObjectsV2, compared with a listing computed here."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pytest
from tests.fixtures.checksums import etag
from tests.fixtures.targets import Target, put_keys, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

WORDS = [
    "a",
    "b",
    "ab",
    "a/",
    "a/b",
    "//",
    "b/c/",
    "é",
    "日",
    "z",
    "~",
    "!",
    " ",
    "a+b",
    "&<>\"'",
    "%2F",
    "🐋",
    "\ufffd",
]


def keys_of_a_busy_bucket() -> list[str]:
    chance = random.Random(7)
    keys = {"".join(chance.choices(WORDS, k=chance.randint(1, 6))) for _ in range(400)}
    keys |= {
        f"photos/{year}/{month:02}/{day:02}.jpg" for year in (2023, 2024) for month in range(1, 7) for day in (1, 2)
    }
    return sorted(keys, key=str.encode)


@dataclass
class Page:
    keys: list[str]
    prefixes: list[str]
    truncated: bool
    last: str | None


def expected(keys: list[str], prefix: str, delimiter: str, after: str, limit: int) -> Page:
    """One page as the API documents it: entries in byte order, each prefix once, both counted."""
    found: dict[str, bool] = {}
    for key in keys:
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix) :]
        cut = rest.find(delimiter) if delimiter else -1
        entry, grouped = (prefix + rest[: cut + len(delimiter)], True) if cut >= 0 else (key, False)
        # A prefix comes after the marker unless it was itself the last entry of the previous page.
        if entry.encode() > after.encode() and not (grouped and after.startswith(entry)):
            found[entry] = grouped
    ordered = sorted(found, key=str.encode)
    page = ordered[:limit]
    return Page(
        [entry for entry in page if not found[entry]],
        [entry for entry in page if found[entry]],
        len(ordered) > limit > 0,
        page[-1] if page else None,
    )


KEYS = keys_of_a_busy_bucket()
PREFIXES = ["", "a", "a/", "photos/", "photos/2024/", "photos/2024/0", "b/c/", "é", "none", "photos/2024/01/01.jpg"]
DELIMITERS = ["", "/", "//", "a", "é", "/b", "none"]
LIMITS = [1, 7, 1000]


@pytest.fixture(scope="module")
def busy(targets: Any) -> Any:
    """The same keys in a bucket of each store."""
    filled: dict[int, str] = {}

    def fill(target: Target) -> str:
        if id(target) not in filled:
            client, name = target.client(), f"busy-{random.SystemRandom().randrange(1 << 60)}"
            client.create_bucket(Bucket=name)
            put_keys(target, name, KEYS)
            filled[id(target)] = name
        return filled[id(target)]

    return fill


def seen(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    keys = [entry["Key"] for entry in answer.get("Contents", [])]
    return keys, [entry["Prefix"] for entry in answer.get("CommonPrefixes", [])]


@pytest.mark.parametrize(("prefix", "delimiter"), list(itertools.product(PREFIXES, DELIMITERS)))
def test_pages_of_the_second_version(target: Target, busy: Any, prefix: str, delimiter: str) -> None:
    client, bucket = target.client(), busy(target)
    for limit in LIMITS if (prefix, delimiter) != ("", "") else [7, 1000]:
        after, token = "", {}
        while True:
            want = expected(KEYS, prefix, delimiter, after, limit)
            got = client.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter=delimiter, MaxKeys=limit, **token)
            assert seen(got) == (want.keys, want.prefixes), (prefix, delimiter, limit, after)
            assert got["KeyCount"] == len(want.keys) + len(want.prefixes)
            assert (got["IsTruncated"], got["MaxKeys"]) == (want.truncated, limit)
            if not got["IsTruncated"]:
                assert "NextContinuationToken" not in got
                break
            assert want.last is not None
            after, token = want.last, {"ContinuationToken": got["NextContinuationToken"]}


@pytest.mark.parametrize("delimiter", ["", "/", "a"])
@pytest.mark.parametrize("prefix", ["", "photos/", "a"])
def test_pages_of_the_first_version(target: Target, busy: Any, prefix: str, delimiter: str) -> None:
    client, bucket = target.client(), busy(target)
    for limit in (7, 1000):
        marker = ""
        while True:
            want = expected(KEYS, prefix, delimiter, marker, limit)
            got = client.list_objects(Bucket=bucket, Prefix=prefix, Delimiter=delimiter, MaxKeys=limit, Marker=marker)
            assert seen(got) == (want.keys, want.prefixes), (prefix, delimiter, limit, marker)
            assert got["IsTruncated"] == want.truncated
            if not got["IsTruncated"]:
                break
            assert want.last is not None
            if delimiter:
                assert got["NextMarker"] == want.last
            marker = want.last


@pytest.mark.parametrize(
    "after", ["", "a", "a/", "photos/2024/02", "photos/2024/02/01.jpg", "photos0", "🐋", "\U0010ffff"]
)
@pytest.mark.parametrize("delimiter", ["", "/"])
def test_start_after_any_text(target: Target, busy: Any, after: str, delimiter: str) -> None:
    client, bucket = target.client(), busy(target)
    for prefix in ("", "photos/"):
        got = client.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter=delimiter, StartAfter=after)
        keys, prefixes = seen(got)
        if delimiter == "" or not any(after.startswith(entry) for entry in prefixes):
            want = expected(KEYS, prefix, delimiter, after, 1000)
            assert (keys, prefixes) == (want.keys, want.prefixes)
        if after:
            assert got["StartAfter"] == after


def test_no_keys_asked_for(target: Target, busy: Any) -> None:
    client, bucket = target.client(), busy(target)
    for call in (client.list_objects_v2, client.list_objects):
        answer = call(Bucket=bucket, MaxKeys=0)
        assert seen(answer) == ([], [])
        assert (answer["IsTruncated"], answer["MaxKeys"]) == (False, 0)


def test_more_than_a_thousand_is_a_thousand(target: Target, busy: Any) -> None:
    answer = target.client().list_objects_v2(Bucket=busy(target), MaxKeys=5000)
    assert answer["MaxKeys"] == 1000


def test_bad_numbers_and_tokens(wire: Wire, target: Target, busy: Any) -> None:
    bucket = busy(target)
    for query in ("max-keys=-1", "max-keys=x", "max-keys=1e3", "list-type=2&max-keys=-1", "encoding-type=base64"):
        answer = wire("GET", f"/{bucket}", query)
        assert (answer.status, answer.code) == (400, "InvalidArgument"), query
    for token in ("x", "%00", "AAAA"):
        answer = wire("GET", f"/{bucket}", f"list-type=2&continuation-token={token}")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), token


def test_a_token_of_another_listing_is_harmless(target: Target, busy: Any) -> None:
    client, bucket = target.client(), busy(target)
    token = client.list_objects_v2(Bucket=bucket, MaxKeys=5)["NextContinuationToken"]
    keys, _ = seen(client.list_objects_v2(Bucket=bucket, Prefix="photos/", ContinuationToken=token))
    assert keys == expected(KEYS, "photos/", "", "", 1000).keys


def test_a_marker_below_a_common_prefix_is_behind_all_of_it(s3: Any, bucket: str) -> None:
    uploads = {}
    for key in ("d/a/1", "d/a/2", "d/b", "d/c/1"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
        uploads[key] = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    asked = {"Bucket": bucket, "Prefix": "d/", "Delimiter": "/"}
    for answer, entries in (
        (s3.list_objects(**asked, Marker="d/a/1"), "Contents"),
        (s3.list_object_versions(**asked, KeyMarker="d/a/1"), "Versions"),
        (s3.list_multipart_uploads(**asked, KeyMarker="d/a/1"), "Uploads"),
    ):
        assert [entry["Key"] for entry in answer[entries]] == ["d/b"], entries
        assert [entry["Prefix"] for entry in answer["CommonPrefixes"]] == ["d/c/"], entries
    # ListObjectsV2 continues behind the key.
    answer = s3.list_objects_v2(**asked, StartAfter="d/a/1")
    assert [entry["Prefix"] for entry in answer["CommonPrefixes"]] == ["d/a/", "d/c/"]


def test_start_after_is_not_repeated_beside_a_token(s3: Any, bucket: str) -> None:
    for key in "abc":
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    first = s3.list_objects_v2(Bucket=bucket, StartAfter="a", MaxKeys=1)
    assert first["StartAfter"] == "a"
    token = first["NextContinuationToken"]
    second = s3.list_objects_v2(Bucket=bucket, StartAfter="a", ContinuationToken=token)
    assert ([entry["Key"] for entry in second["Contents"]], "StartAfter" in second) == (["c"], False)


def test_entries_and_echoes(target: Target, busy: Any) -> None:
    client, bucket = target.client(), busy(target)
    answer = client.list_objects_v2(Bucket=bucket, Prefix="photos/2024/", Delimiter="/", MaxKeys=9, FetchOwner=True)
    assert (answer["Name"], answer["Prefix"], answer["Delimiter"], answer["MaxKeys"]) == (
        bucket,
        "photos/2024/",
        "/",
        9,
    )
    answer = client.list_objects_v2(Bucket=bucket, Prefix="photos/2024/01", FetchOwner=True)
    for entry in answer["Contents"]:
        data = entry["Key"].encode()
        assert (entry["Size"], entry["ETag"], entry["StorageClass"]) == (len(data), etag(data), "STANDARD")
        assert entry["Owner"]["ID"]
        assert entry["LastModified"] == client.head_object(Bucket=bucket, Key=entry["Key"])["LastModified"].replace(
            microsecond=entry["LastModified"].microsecond
        )
    assert "Owner" not in client.list_objects_v2(Bucket=bucket, Prefix="photos/")["Contents"][0]
    assert client.list_objects(Bucket=bucket, Prefix="photos/")["Contents"][0]["Owner"]["ID"]


def test_encoding_type_url(wire: Wire, target: Target, busy: Any) -> None:
    bucket = busy(target)
    for version in ("list-type=2&", ""):
        document = wire("GET", f"/{bucket}", f"{version}encoding-type=url&delimiter=%2F").document()
        assert document.findtext("EncodingType") == "url"
        keys = [element.findtext("Key") or "" for element in document.findall("Contents")]
        prefixes = [element.findtext("Prefix") or "" for element in document.findall("CommonPrefixes")]
        want = expected(KEYS, "", "/", "", 1000)
        assert [unquote(key.replace("+", " ")) for key in keys] == want.keys
        assert [unquote(entry.replace("+", " ")) for entry in prefixes] == want.prefixes
        assert all(text.isascii() and " " not in text for text in keys + prefixes)


def test_a_listing_follows_every_write(s3: Any, bucket: str) -> None:
    present: set[str] = set()
    chance = random.Random(3)
    for turn in range(60):
        key = f"{chance.choice('abc')}/{chance.randrange(12)}"
        if key in present and chance.random() < 0.6:
            s3.delete_object(Bucket=bucket, Key=key)
            present.discard(key)
        else:
            s3.put_object(Bucket=bucket, Key=key, Body=b"x" * turn)
            present.add(key)
        prefix = chance.choice(["", "a/", "b"])
        want = expected(sorted(present), prefix, "/", "", 1000)
        assert seen(s3.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter="/")) == (want.keys, want.prefixes)


def test_an_empty_bucket(s3: Any, bucket: str) -> None:
    answer = s3.list_objects_v2(Bucket=bucket)
    assert (seen(answer), answer["KeyCount"], answer["IsTruncated"]) == (([], []), 0, False)
    assert refusal(s3.list_objects_v2, Bucket=bucket, ContinuationToken="nonsense") == (400, "InvalidArgument")


def test_the_first_continuation_token_may_be_empty(s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"")
    token, seen = "", []
    while token is not None:
        page = s3.list_objects_v2(Bucket=bucket, ContinuationToken=token, MaxKeys=2)
        assert page["ContinuationToken"] == token
        seen += [entry["Key"] for entry in page["Contents"]]
        token = page.get("NextContinuationToken")
    assert seen == [f"k{number}" for number in range(5)]
    assert s3.list_objects_v2(Bucket=bucket, ContinuationToken="", StartAfter="k3")["KeyCount"] == 1
    assert bucket in [entry["Name"] for entry in s3.list_buckets(ContinuationToken="", Prefix=bucket)["Buckets"]]
