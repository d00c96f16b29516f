"""Lists of objects as HTTP: what was deleted, earlier times, long searches, and what is done batch by batch."""

from __future__ import annotations

import html
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.console.test_objects import STRANGE, in_query, rows, versioned
from tests.console.visitors import BASE, Visitor


def put(s3: Any, bucket: str, keys: list[str], body: bytes = b"x") -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=body), keys))


def keys_of(s3: Any, bucket: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def in_batches(visitor: Visitor, path: str, form: dict[str, Any]) -> list[dict[str, Any]]:
    """What a script is answered until there is no next batch."""
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1]["place"]:
        at = {name: answers[-1][name] for name in ("done", "place")} if answers else {}
        answer = visitor.post(path, form | at, accept="application/json")
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    return answers


def body_of(s3: Any, bucket: str, key: str) -> bytes:
    body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def test_what_was_deleted_is_found_and_brought_back(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    for key in STRANGE:
        s3.put_object(Bucket=bucket, Key=f"f/{key}", Body=b"1")
        s3.delete_object(Bucket=bucket, Key=f"f/{key}")
    s3.put_object(Bucket=bucket, Key="f/kept", Body=b"old")
    s3.put_object(Bucket=bucket, Key="f/kept", Body=b"new")
    assert rows(visitor.page(f"/b/{bucket}?prefix=f/")) == ["f%2Fkept"]
    page = visitor.page(f"/b/{bucket}?prefix=f/&deleted=yes")
    # Some keys are in folders of their own.
    here = [key for key in STRANGE if "/" not in key]
    assert len(rows(page)) == len(here) + 1
    assert page.count(">deleted</span>") == len(here)
    assert page.count(">earlier version</span>") == len(here) + 1
    assert "Undelete" in page
    found = visitor.page(f"/b/{bucket}?find=plain&deleted=yes")
    # Each key, and its marker.
    assert f"2 of {2 * len(STRANGE) + 2} versions below" in found
    assert rows(found) == ["f%2Fplain.txt"]
    assert rows(visitor.page(f"/b/{bucket}?find=plain")) == []
    # Another session, long after the deletion.
    page = visitor.done(f"/b/{bucket}/restore-objects", {"key": in_query("f/plain.txt"), "prefix": "f%2F"})
    assert "1 object restored." in page
    assert body_of(s3, bucket, "f/plain.txt") == b"1"
    in_batches(visitor, f"/b/{bucket}/restore-objects", {"folder": "f%2F"})
    assert len(keys_of(s3, bucket)) == len(STRANGE) + 1
    assert body_of(s3, bucket, "f/kept") == b"new"


def test_a_key_that_was_deleted_twice_comes_back(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"k")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_object(Bucket=bucket, Key="k")
    # Below this marker there is nothing.
    s3.delete_object(Bucket=bucket, Key="never")
    visitor.done(f"/b/{bucket}/restore-objects", {"key": ["k", "never"]})
    assert keys_of(s3, bucket) == ["k"]
    assert "choose objects" in visitor.done(f"/b/{bucket}/restore-objects")


def test_what_came_back_otherwise_is_not_offered_for_undo(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    put(s3, bucket, ["a", "b", "c", "d"])
    written = s3.list_object_versions(Bucket=bucket, Prefix="c")["Versions"][0]["LastModified"]
    at = written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    page = visitor.done(f"/b/{bucket}/delete-objects", {"key": ["a", "b", "c", "d"]})
    assert "What you deleted last (4 objects)" in page
    page = visitor.done(f"/b/{bucket}/restore-objects", {"key": "a"})
    assert "What you deleted last (3 objects)" in page
    marker = s3.list_object_versions(Bucket=bucket, Prefix="b")["DeleteMarkers"][0]["VersionId"]
    visitor.done(f"/b/{bucket}/versions/restore?key=b", {"version": marker, "marker": "yes"})
    page = visitor.done(f"/b/{bucket}/restore-objects", {"key": "c", "at": at})
    assert "What you deleted last (1 object)" in page
    # Another session.
    marker = s3.list_object_versions(Bucket=bucket, Prefix="d")["DeleteMarkers"][0]["VersionId"]
    s3.delete_object(Bucket=bucket, Key="d", VersionId=marker)
    page = visitor.done(f"/b/{bucket}/undo")
    assert "0 objects restored." in page
    assert "What you deleted last" not in page
    assert "There is nothing to undo here" in visitor.done(f"/b/{bucket}/undo")
    assert keys_of(s3, bucket) == ["a", "b", "c", "d"]


def test_a_folder_as_it_was_at_a_time(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    for key in ("f/changed", "f/deleted", "f/sub/deep"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"then")
    marker = s3.delete_object(Bucket=bucket, Key="f/deleted")["VersionId"]
    for key in ("f/changed", "f/new", "f/sub/deep"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"now")
    page = visitor.page(f"/b/{bucket}?prefix=f/&deleted=yes")
    (before,) = (html.unescape(path) for path in re.findall(rf'href="{BASE}([^"]*before=[^"]*)"', page))
    page = visitor.page(before)
    assert rows(page) == ["f%2Fchanged", "f%2Fdeleted"]
    assert "f/sub/" in page
    at = re.findall(r'name="at" value="([^"]+)"', page)[0]
    assert rows(visitor.page(f"/b/{bucket}?prefix=f/&at=2001-01-01T00:00")) == []
    assert visitor.get(f"/b/{bucket}?at=yesterday").status_code == 400
    # A search looks at the same time: a marker, and what came later, are not there.
    for find, keys in (("f/d", ["f%2Fdeleted"]), ("new", []), ("deep", ["f%2Fsub%2Fdeep"])):
        assert rows(visitor.page(f"/b/{bucket}?find={find}&at={at}")) == keys
    then = s3.head_object(Bucket=bucket, Key="f/new")["ETag"].strip('"')
    assert rows(visitor.page(f"/b/{bucket}?same={then}&at={at}")) == []
    form = {"key": ["f%2Fchanged", "f%2Fdeleted"], "folder": "f%2Fsub%2F", "at": at, "prefix": "f%2F"}
    assert "3 objects restored." in visitor.done(f"/b/{bucket}/restore-objects", form)
    assert {key: body_of(s3, bucket, key) for key in keys_of(s3, bucket)} == {
        "f/changed": b"then", "f/deleted": b"then", "f/new": b"now", "f/sub/deep": b"then",
    }  # fmt: skip
    assert marker in visitor.page(f"/b/{bucket}/versions?key=f/deleted")


def test_a_page_of_an_earlier_time_ends_between_keys(visitor: Visitor, s3: Any, bucket: str) -> None:
    """A page of the list has a thousand versions, and ends within those of a key."""
    versioned(s3, bucket)
    put(s3, bucket, [f"k{number:03}" for number in range(350) for _ in range(3)])
    s3.put_object(Bucket=bucket, Key="last", Body=b"y")
    at = s3.head_object(Bucket=bucket, Key="last")["LastModified"].strftime("%Y-%m-%dT%H:%M:%S.999")
    found, path = list[str](), f"/b/{bucket}?at={at}"
    while path:
        page = visitor.page(path)
        found += rows(page)
        path = "".join(html.unescape(each) for each in re.findall(rf'id="next-page" href="{BASE}([^"]+)"', page))
    assert found == [*(f"k{number:03}" for number in range(350)), "last"]
    # The last key of the first page of versions is one of them.
    assert rows(visitor.page(f"/b/{bucket}?find=k33&at={at}")) == [f"k{number:03}" for number in range(330, 340)]


def test_a_search_adds_up(visitor: Visitor, s3: Any, bucket: str) -> None:
    put(s3, bucket, [f"d/{number:04}" for number in range(1300)])
    page = visitor.page(f"/b/{bucket}?find=d/0")
    assert "data-goes-on" in page
    first = rows(page)
    following = html.unescape(re.findall(r'data-goes-on href="([^"]+)"', page)[0]).removeprefix(BASE)
    page = visitor.page(following)
    assert "data-goes-on" not in page
    assert first + rows(page) == [f"d%2F{number:04}" for number in range(1000)]
    assert "1,000 of 1,300 keys below" in re.sub("<[^>]*>", "", page)
    assert rows(visitor.page(f"/b/{bucket}?find=1299")) == ["d%2F1299"]
    begins = visitor.get(f"/b/{bucket}?raw=d%252F&find=012&begins=yes")
    assert rows(visitor.page(begins.headers["location"].removeprefix(BASE))) == [f"d%2F012{end}" for end in range(10)]


def test_a_deletion_goes_batch_by_batch_and_is_undone(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    put(s3, bucket, ["one", "keep", *(f"f/{number:04}" for number in range(1200))], b"abc")
    form = {"key": "one", "folder": "f%2F", "prefix": ""}
    asked = visitor.post(f"/b/{bucket}/confirm-delete", form).text
    assert "Delete 1,201 objects, 3.52 KiB?" in re.sub(r"\s+", " ", asked)
    assert re.search(r"<a [^>]*autofocus[^>]*>Keep them", asked)
    answers = in_batches(visitor, f"/b/{bucket}/delete-objects", form)
    assert [answer["done"] for answer in answers] == [1, 1001, 1201]
    assert keys_of(s3, bucket) == ["keep"]
    assert "1,201 objects deleted." in visitor.page(answers[-1]["to"].removeprefix(BASE))
    assert "1,201 objects restored." in visitor.done(f"/b/{bucket}/undo")
    assert len(keys_of(s3, bucket)) == 1202


def test_several_objects_are_copied_and_moved(visitor: Visitor, s3: Any, bucket: str, name: str) -> None:
    s3.create_bucket(Bucket=name)
    for key in STRANGE:
        s3.put_object(Bucket=bucket, Key=f"f/{key}", Body=key.encode())
        s3.put_object(Bucket=bucket, Key=f"f/sub/{key}", Body=key.encode())
    form = {"key": [in_query(f"f/{key}") for key in STRANGE], "folder": "f%2Fsub%2F", "prefix": "f%2F"}
    assert f"Copy or move {2 * len(STRANGE)} objects" in visitor.post(f"/b/{bucket}/confirm-copy", form).text
    where = {"bucket": name, "into": "to", "how": "copy"}
    in_batches(visitor, f"/b/{bucket}/copy-objects", form | where)
    wanted = sorted([*(f"to/{key}" for key in STRANGE), *(f"to/sub/{key}" for key in STRANGE)])
    assert sorted(keys_of(s3, name)) == wanted
    again = in_batches(visitor, f"/b/{bucket}/copy-objects", form | where)
    assert "another object" in again[0]["failed"][0]
    # An earlier attempt, whose answer was lost, has done it.
    again = in_batches(visitor, f"/b/{bucket}/copy-objects", form | where | {"again": "yes", "how": "move"})
    assert again[-1]["failed"] == []
    assert keys_of(s3, bucket) == []
    assert body_of(s3, name, "to/line\nend\r\nkey") == b"line\nend\r\nkey"
    inside = {"folder": "to%2F", "prefix": "", "bucket": name, "into": "to/deeper/", "how": "move"}
    assert visitor.post(f"/b/{name}/copy-objects", inside).status_code == 400


def test_forms_keep_keys_with_line_ends(visitor: Visitor, s3: Any, bucket: str) -> None:
    key = "f\n/line\r\nend"
    s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    page = visitor.page(f"/b/{bucket}/object?key={in_query(key)}")
    assert f'name="target" type="text" value="{in_query(key)}"' in page
    moved = {"bucket": bucket, "target": in_query(key + "\n2"), "encoded": "yes", "how": "move"}
    visitor.done(f"/b/{bucket}/object/copy?key={in_query(key)}", moved)
    assert keys_of(s3, bucket) == [key + "\n2"]
    for path in ("object", "share", "versions"):
        assert visitor.get(f"/b/{bucket}/{path}?raw={in_query(in_query(key) + '%0A2')}").status_code == 200
    assert rows(visitor.page(f"/b/{bucket}?raw={in_query(in_query('f') + '%0A%2F')}&find=end"))


def test_a_limited_visitor_sees_no_switch(visitor_with: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k")
    page = visitor_with("s3:ListBucket", "s3:GetObject").page(f"/b/{bucket}")
    assert "Show deleted and versions" not in page
    assert "Let everybody read it" not in page
    assert 'id="choose-files"' not in page
    assert "Delete</button>" not in page
    undeletes = visitor_with("s3:ListBucket", "s3:ListBucketVersions")
    assert "Show deleted and versions" in undeletes.page(f"/b/{bucket}")
    assert "Undelete" not in undeletes.page(f"/b/{bucket}?deleted=yes")
