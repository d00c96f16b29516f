"""Keys are bytes: none is treated as a path or decoded twice, and each is a different object."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.targets import read, refusal
from tests.fixtures.wire import Wire, quote_key

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

# boto3 can send these, and XML 1.0 allows them.
KEYS = [
    "plain",
    "dir/file",
    "dir/",
    "/leading",
    "//",
    "a//b",
    "a///",
    "../escape",
    "a/../b",
    "a/./b",
    ".",
    "..",
    "./a",
    "a/..",
    "/../../etc/passwd",
    "%2e%2e/x",
    "%2F",
    "%",
    "%zz",
    "100%",
    "a%20b",
    "a b",
    " ",
    " lead and trail ",
    "a+b",
    "+",
    "a&b=c",
    "a?b",
    "a#b",
    "a;b",
    "a:b@c",
    "a=b",
    "year=2024/month=01",
    "quote'\"",
    "<tag>&amp;",
    "back\\slash",
    "{}[]|^`",
    "~tilde_-.",
    "*!'()$,",
    "uploads",
    "_orcas/health/live",
    "ünïcode",
    "u\u0308 decomposed",
    "日本語/ファイル",
    "🐋",
    "\u202eright-to-left",
    "\u200bzero-width",
    "\ufeffbom",
    "\x7fdelete",
    "\x85nel",
    "tab\there",
    "line\nbreak",
    "return\rhere",
    "trailing\n",
    "x" * 1024,
    "é" * 512,
]
# XML 1.0 cannot represent these; they are listed only with encoding-type=url.
CONTROL_KEYS = ["nul\x00byte", "\x01", "bell\x07", "esc\x1b[31m", "\x0bvt", "\x1funit", "nonchar\ufffe", "\uffff"]


def test_each_key_is_its_own_object(s3: Any, bucket: str) -> None:
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), Metadata={"number": str(KEYS.index(key))})
    for key in KEYS:
        assert read(s3, bucket, key) == key.encode(), repr(key)
        assert s3.head_object(Bucket=bucket, Key=key)["Metadata"]["number"] == str(KEYS.index(key)), repr(key)
    listed = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(KEYS, key=str.encode)
    first_version = [entry["Key"] for entry in s3.list_objects(Bucket=bucket)["Contents"]]
    assert first_version == listed
    for key in KEYS[::2]:
        s3.delete_object(Bucket=bucket, Key=key)
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in KEYS[1::2]]})
    assert [entry["Key"] for entry in answer["Deleted"]] == KEYS[1::2]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_control_characters_with_encoding_type_url(wire: Wire, s3: Any, bucket: str) -> None:
    for key in CONTROL_KEYS:
        answer = wire("PUT", f"/{bucket}/{quote_key(key)}", body=key.encode())
        assert answer.status == 200, (repr(key), answer.body)
    for key in CONTROL_KEYS:
        assert read(s3, bucket, key) == key.encode(), repr(key)
    listed = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, EncodingType="url")["Contents"]]
    assert [quote_key(key) for key in sorted(CONTROL_KEYS, key=str.encode)] == [
        entry.replace("%2F", "/") for entry in listed
    ]


def test_a_listing_holds_no_raw_control_characters(wire: Wire, bucket: str) -> None:
    # Without encoding-type=url, S3 writes references. An XML 1.0 parser reports an error, not a different key.
    wire("PUT", f"/{bucket}/a%01b", body=b"x")
    for query in ("", "list-type=2", "prefix=a%01", "list-type=2&prefix=a%01"):
        answer = wire("GET", f"/{bucket}", query)
        assert b"<Key>a&#x1;b</Key>" in answer.body, query
        assert b"\x01" not in answer.body


def test_keys_differ_by_every_byte(s3: Any, bucket: str) -> None:
    twins = ["a b", "a+b", "a%20b", "a%2Bb", "a%2520b", "A b", "a/b", "a//b", "a%2Fb", "ü", "u\u0308"]
    for key in twins:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert [read(s3, bucket, key).decode() for key in twins] == twins


@pytest.mark.parametrize("path", ["a%2fb", "a/b", "%61/b", "a%2Fb"])
def test_every_spelling_of_a_path_is_the_same_key(wire: Wire, bucket: str, path: str) -> None:
    put = wire("PUT", f"/{bucket}/{path}", body=b"x")
    assert put.status == 200, put.body
    assert wire("GET", f"/{bucket}/a/b").body == b"x"


@pytest.mark.parametrize("path", ["year=2024/a", "a@b:c", "a,b;c", "a+b", "(x)!*'"])
def test_reserved_characters_may_travel_raw(wire: Wire, s3: Any, bucket: str, path: str) -> None:
    put = wire("PUT", f"/{bucket}/{path}", body=b"x")
    assert put.status == 200, put.body
    assert read(s3, bucket, path) == b"x"


def test_the_longest_key(s3: Any, wire: Wire, bucket: str) -> None:
    assert refusal(s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"x") == (400, "KeyTooLongError")
    assert refusal(s3.put_object, Bucket=bucket, Key="é" * 512 + "x", Body=b"x") == (400, "KeyTooLongError")
    answer = wire("PUT", f"/{bucket}/{'%41' * 1024}", body=b"x")
    assert answer.status == 200
    assert read(s3, bucket, "A" * 1024) == b"x"


@pytest.mark.parametrize("path", ["%ff", "a%C3", "%ED%A0%80", "%C0%AF"])
def test_keys_must_be_utf8(wire: Wire, bucket: str, path: str) -> None:
    answer = wire("PUT", f"/{bucket}/{path}", body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidURI")
    assert wire("GET", f"/{bucket}", "list-type=2").document().findtext("KeyCount") == "0"


def test_what_lies_outside_of_the_data_directory_is_out_of_reach(wire: Wire, bucket: str) -> None:
    for path in (f"/{bucket}/../../../../etc/passwd", f"/{bucket}/%2e%2e/%2e%2e/etc/passwd", "/../etc/passwd"):
        answer = wire("GET", path)
        assert answer.status in {400, 404}, (path, answer.body)
