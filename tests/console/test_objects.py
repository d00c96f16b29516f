"""Buckets and objects through the pages, as HTTP."""

from __future__ import annotations

import html
import io
import json
import re
import uuid
import zipfile
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.console.visitors import BASE, Visitor, asked
from tests.fixtures.targets import Target

# Keys that a page may show wrong, change on their way through a form, or be broken by.
STRANGE = (
    "plain.txt", "a b/c+d&e=f?g#h%20.txt", "<script>alert(1)</script>", '"onmouseover="alert(1)', "'; DROP TABLE--",
    "../../etc", "line\nend\r\nkey", "tab\tkey", "bell\x07\x1b[31mred", "right\u202eto left.exe", "zero\u200bwidth",
    "schlüssel/日本語/🐋", "trailing space ", "//double//slash//", "back\\slash", "{{ 7 * 7 }}", "x" * 1000,
    "\u2028line separator", ".", "a/./b",
)  # fmt: skip


def in_query(text: str) -> str:
    return quote(text, safe="")


def rows(page: str) -> list[str]:
    """The keys that a page of objects offers, decoded."""
    return [html.unescape(value) for value in re.findall(r'name="key" value="([^"]*)"', page)]


def versioned(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def test_a_bucket_is_created_with_its_settings(visitor: Visitor, s3: Any) -> None:
    name = f"t-{uuid.uuid4().hex}"
    page = visitor.done("/buckets/new", {"name": name, "lock": "yes", "quota": "3", "unit": "GiB"})
    assert f"The bucket {name} was created." in page
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    assert s3.get_object_lock_configuration(Bucket=name)["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled"
    assert visitor.get(f"/glances?bucket={name}").json() == {name: ["versions", "lock"]}
    other = f"t-{uuid.uuid4().hex}"
    visitor.done("/buckets/new", {"name": other, "versioning": "yes"})
    assert s3.get_bucket_versioning(Bucket=other)["Status"] == "Enabled"


@pytest.mark.parametrize(
    ("form", "said"), [({"name": "No"}, "not valid"), ({"name": "ok-name", "quota": "-1"}, "whole number")]
)
def test_a_bucket_that_cannot_be_is_explained(visitor: Visitor, form: dict[str, str], said: str) -> None:
    answer = visitor.post("/buckets/new", form)
    assert answer.status_code == 400
    assert said in answer.text


def test_a_bucket_is_emptied_and_deleted_only_with_its_name(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    for key in STRANGE:
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
        s3.put_object(Bucket=bucket, Key=key, Body=b"2")
    s3.create_multipart_upload(Bucket=bucket, Key="unfinished")
    assert "type the name" in visitor.done(f"/b/{bucket}/empty", {"confirm": "other"})
    assert "not empty" in visitor.done(f"/b/{bucket}/delete", {"confirm": bucket}).lower()
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 2 * len(STRANGE)
    batch = visitor.post(f"/b/{bucket}/empty", {"confirm": bucket}, accept="application/json").json()
    assert (batch["done"], batch["failed"], batch["place"]) == (2 * len(STRANGE), [], "")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert "type the name" in visitor.done(f"/b/{bucket}/delete", {"confirm": ""})
    assert "was deleted" in visitor.done(f"/b/{bucket}/delete", {"confirm": bucket})
    assert bucket not in visitor.page("/")


def test_every_strange_key_is_listed_opened_and_deleted(visitor: Visitor, s3: Any, bucket: str) -> None:
    for key in STRANGE:
        s3.put_object(Bucket=bucket, Key=f"f/{key}", Body=key.encode(), ContentType="text/plain")
    found: list[str] = []
    folders = ["f/"]
    while folders:
        page = visitor.page(f"/b/{bucket}?prefix={in_query(folders[0])}")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\u200b]", page)
        found += [requested for value in rows(page) if (requested := httpx.URL(f"http://x/?k={value}").params["k"])]
        below = re.findall(r'name="folder" value="([^"]*)"', page)
        folders = folders[1:] + [httpx.URL(f"http://x/?k={value}").params["k"] for value in below]
    assert sorted(found) == sorted(f"f/{key}" for key in STRANGE)
    for key in STRANGE:
        page = visitor.page(f"/b/{bucket}/object?key={in_query('f/' + key)}")
        assert f"{len(key.encode()):,} bytes" in page
        assert "<script>alert" not in page
    page = visitor.done(f"/b/{bucket}/delete-objects", {"key": [quote(f"f/{key}", safe="") for key in STRANGE]})
    assert f"{len(STRANGE)} objects deleted." in page
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_folder_has_pages_and_is_sorted_as_a_whole(visitor: Visitor, s3: Any, bucket: str) -> None:
    for number in range(205):
        s3.put_object(Bucket=bucket, Key=f"n/{number:03}", Body=b"x" * (number // 4))
    page = visitor.page(f"/b/{bucket}?prefix=n/&sort=size&down=yes")
    assert len(rows(page)) == 200
    following = html.unescape(re.findall(r'id="next-page" href="([^"]+)"', page)[0]).removeprefix(BASE)
    assert len(rows(visitor.page(following))) == 5
    assert rows(visitor.page(f"/b/{bucket}?prefix=n/20")) == [f"n%2F{number}" for number in range(200, 205)]
    # The largest are the last by name, which another page of the list has.
    assert rows(page)[0] == "n%2F204"
    assert rows(visitor.page(following))[-1] in ("n%2F000", "n%2F001", "n%2F002", "n%2F003")


def test_a_file_is_found_by_a_part_of_its_name(visitor: Visitor, s3: Any, bucket: str) -> None:
    for key in ("2024/reports/Annual.pdf", "2025/notes.txt", "annual"):
        s3.put_object(Bucket=bucket, Key=key)
    assert rows(visitor.page(f"/b/{bucket}?find=ANNUAL")) == ["2024%2Freports%2FAnnual.pdf", "annual"]
    assert rows(visitor.page(f"/b/{bucket}?find=annual&prefix=2024/")) == ["2024%2Freports%2FAnnual.pdf"]


def test_objects_with_the_same_content_are_found(visitor: Visitor, s3: Any, bucket: str) -> None:
    for key, body in (("a.txt", b"same"), ("b/copy.txt", b"same"), ("c.txt", b"another")):
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    page = visitor.page(f"/b/{bucket}/object?key=a.txt")
    link = html.unescape(re.findall(r'href="([^"]+)">Same content', page)[0]).removeprefix(BASE)
    found = visitor.page(link)
    assert rows(found) == ["a.txt", "b%2Fcopy.txt"]
    assert "2 of 3 keys" in found
    assert rows(visitor.page(f"/b/{bucket}?same=%3Cscript%3E")) == []


def test_a_deletion_can_be_undone_where_versions_are_kept(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    for key in STRANGE:
        s3.put_object(Bucket=bucket, Key=f"f/{key}")
    s3.put_object(Bucket=bucket, Key="other")
    assert "you can undo this" in visitor.post(f"/b/{bucket}/confirm-delete", {"folder": "f%2F"}).text
    page = visitor.done(f"/b/{bucket}/delete-objects", {"folder": "f%2F", "prefix": ""})
    assert "Undo the deletion" in page
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["other"]
    page = visitor.done(f"/b/{bucket}/undo", {"prefix": ""})
    assert f"{len(STRANGE)} objects restored." in page
    assert len(s3.list_objects_v2(Bucket=bucket)["Contents"]) == len(STRANGE) + 1
    assert "Undo the deletion" not in visitor.page(f"/b/{bucket}")


def test_details_show_what_is_known_of_an_object(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(
        Bucket=bucket, Key="k", Body=b"text", ContentType="text/plain", CacheControl="no-cache", Tagging="team=red",
        Metadata={"author": "<b>me</b>"}, ChecksumAlgorithm="SHA256",
    )  # fmt: skip
    page = visitor.page(f"/b/{bucket}/object?key=k")
    for shown in ("text/plain", "no-cache", "SHA256", "Checksum type", "team", "&lt;b&gt;me&lt;/b&gt;", "4 bytes"):
        assert shown in page, shown
    page = visitor.done(f"/b/{bucket}/object/tags?key=k", {"tags": "a=1\r\nb=2=3\r\n"})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [
        {"Key": "a", "Value": "1"},
        {"Key": "b", "Value": "2=3"},
    ]
    assert "NAME=VALUE" in visitor.done(f"/b/{bucket}/object/tags?key=k", {"tags": "nothing"})


def test_details_show_the_parts_of_an_upload(visitor: Visitor, s3: Any, bucket: str) -> None:
    kind = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "COMPOSITE"}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", **kind)["UploadId"]
    place, parts = {"Bucket": bucket, "Key": "k", "UploadId": upload}, []
    for number, body in ((1, bytes(5 << 20)), (2, b"end")):
        answer = s3.upload_part(**place, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]})
    s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    page = visitor.page(f"/b/{bucket}/object?key=k")
    assert "<dt>Parts</dt><dd>2</dd>" in page
    row = r'<td class="num">2</td><td class="num">5,242,880</td><td class="num">3</td>\s*<td><code>([^<]+)</code>'
    assert re.findall(row, page) == [parts[1]["ChecksumCRC32"]]
    s3.put_object(Bucket=bucket, Key="one", Body=b"1")
    assert "<dt>Parts</dt>" not in visitor.page(f"/b/{bucket}/object?key=one")


def test_an_object_is_copied_moved_and_never_replaced_by_chance(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="from", Body=b"1")
    s3.put_object(Bucket=bucket, Key="there", Body=b"2")
    copy = f"/b/{bucket}/object/copy?key=from"
    visitor.done(copy, {"bucket": bucket, "target": "copy", "how": "copy"})
    assert "there is an object of that key" in visitor.done(copy, {"bucket": bucket, "target": "there", "how": "move"})
    assert s3.get_object(Bucket=bucket, Key="there")["Body"].read() == b"2"
    visitor.done(copy, {"bucket": bucket, "target": "there", "how": "move", "replace": "yes"})
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["copy", "there"]
    assert s3.get_object(Bucket=bucket, Key="there")["Body"].read() == b"1"


def test_a_folder_is_renamed_at_once(visitor: Visitor, s3: Any, bucket: str) -> None:
    for key in ("old/1", "old/sub/2"):
        s3.put_object(Bucket=bucket, Key=key)
    assert "2 objects moved" in visitor.done(f"/b/{bucket}/move-folder", {"prefix": "old%2F", "target": "new"})
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["new/1", "new/sub/2"]


def test_a_download_is_an_attachment(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key='d/na"me é.html', Body=b"<script>1</script>", ContentType="text/html")
    answer = visitor.get(f"/b/{bucket}/object/download?key={in_query('d/na' + chr(34) + 'me é.html')}")
    assert answer.status_code == 303
    file = httpx.get(visitor.url + answer.headers["location"], trust_env=False)
    assert file.content == b"<script>1</script>"
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''na_me%20%C3%A9.html"


@pytest.mark.parametrize(
    ("first", "last", "name"),
    [
        ("0", "0", "0-0"),
        ("100000", "299999", "100000-299999"),
        ("299990", "", "299990-299999"),
        ("5", "999999", "5-299999"),
    ],
)
def test_a_part_of_an_object_is_downloaded(
    visitor: Visitor, s3: Any, bucket: str, first: str, last: str, name: str
) -> None:
    body, key = b"0123456789" * 30_000, "d/line\nend\r\n é.html"
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType="text/html")
    answer = visitor.post(f"/b/{bucket}/object/range?key={in_query(key)}", {"first": first, "last": last})
    assert answer.status_code == 200
    assert answer.content == body[int(first) : int(last) + 1 if last else None]
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["content-type"] == "application/octet-stream"
    given = answer.headers["content-disposition"]
    assert given == f"attachment; filename*=UTF-8''line_end__%20%C3%A9.html.bytes-{name}"


def test_a_part_of_a_version_is_downloaded(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"newer")
    answer = visitor.post(f"/b/{bucket}/object/range?key=k&version={old}", {"first": "1", "last": ""})
    assert answer.content == b"ld"


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("4", "", "4 bytes, from 0 on"),
        ("3", "1", "comes before the last"),
        ("x", "", "as numbers"),
        ("0", "-1", "as numbers"),
    ],
)
def test_a_part_that_is_not_there_is_explained(
    visitor: Visitor, s3: Any, bucket: str, first: str, last: str, said: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"text")
    page = visitor.done(f"/b/{bucket}/object/range?key=k", {"first": first, "last": last})
    assert "Nothing was downloaded" in page
    assert said in page
    assert visitor.post(f"/b/{bucket}/object/range?key=absent", {"first": "0"}).status_code == 404


def test_many_objects_are_downloaded_as_a_zip(visitor: Visitor, s3: Any, bucket: str) -> None:
    content = {
        "f/a.txt": b"a",
        "f/sub/b.bin": bytes(range(256)) * 40_000,
        "f/../up": b"up",
        "f/A.TXT": b"A",
        "f/sub/": b"",
    }
    for key, body in content.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    s3.put_object(Bucket=bucket, Key="one", Body=b"1")
    answer = visitor.post(f"/b/{bucket}/zip", {"prefix": "", "folder": "f%2F", "key": "one"})
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {
        "one": b"1", "f/A.TXT": b"A", "f/a.txt (2)": b"a", "f/sub/b.bin": content["f/sub/b.bin"], "f/_/up": b"up",
    }  # fmt: skip


def test_a_zip_of_what_is_not_there_is_an_error_and_no_file(visitor: Visitor, bucket: str) -> None:
    assert visitor.post(f"/b/{bucket}/zip", {"key": "absent"}).status_code == 404
    assert "choose objects" in visitor.done(f"/b/{bucket}/zip", {"prefix": ""})


@pytest.mark.parametrize(
    ("key", "body", "kind", "shown"),
    [
        ("a.txt", b"some <b>text</b>", "text/plain", "some &lt;b&gt;text&lt;/b&gt;"),
        ("a.json", b'{"a":[1,2]}', "application/json", "&#34;a&#34;: ["),
        ("a.csv", b"name;size\nx;1\ny;2\n", "text/csv", '<th scope="col"><bdi class="key">size</bdi></th>'),
        ("a.png", b"\x89PNG", "text/html", "response-content-type=image%2Fpng"),
        ("a.svg", b"<svg onload=alert(1)/>", "image/svg+xml", '<img class="preview"'),
        ("a.mp3", b"ID3", "audio/mpeg", "<audio controls"),
        ("a.webm", b"film", "video/webm", "<video class"),
        ("a.pdf", b"%PDF", "text/html", "response-content-type=application%2Fpdf"),
        ("a.html", b"<script>alert(1)</script>", "text/html", '<iframe class="preview" sandbox loading'),
        ("a.bin", b"\x00\x01", "application/octet-stream", "There is no preview of this kind"),
        ("empty", b"", "text/plain", "The object is empty"),
        ("a.parquet", b"PAR1", "application/octet-stream", "no preview|pyarrow"),
        ("broken.json", b"{nope", "application/json", "{nope"),
    ],
)  # fmt: skip
def test_previews(visitor: Visitor, s3: Any, bucket: str, key: str, body: bytes, kind: str, shown: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=kind)
    page = visitor.page(f"/b/{bucket}/object?key={key}")
    assert any(text in page.replace("&amp;", "&") for text in shown.split("|")), page
    assert "<script>alert" not in page


def test_a_cell_of_parquet_without_a_value_is_empty(visitor: Visitor, s3: Any, bucket: str) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pa.table({"name": ["screw", None], "price": [7, 0]}), file)
    s3.put_object(Bucket=bucket, Key="a.parquet", Body=file.getvalue())
    table = visitor.page(f"/b/{bucket}/object?key=a.parquet").partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", table, re.DOTALL)]
    assert cells == ["screw", "7", "", "0"]


@pytest.mark.parametrize(("key", "kind"), [("a.html", "text/html; charset=utf-8"), ("a.svg", "image/svg+xml")])
def test_what_is_framed_runs_and_loads_nothing(visitor: Visitor, s3: Any, bucket: str, key: str, kind: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"<script>alert(1)</script>")
    answer = visitor.get(f"/b/{bucket}/object/frame?key={key}")
    assert answer.headers["content-type"] == kind
    policy = [part.strip() for part in answer.headers["content-security-policy"].split(";")]
    assert policy[:2] == ["sandbox", "default-src 'none'"]
    assert "frame-ancestors 'self'" in policy
    assert not any(part.startswith(("script-src", "connect-src")) for part in policy)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_history_restores_any_version_and_compares_texts(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"one\ntwo\n", ContentType="text/plain")["VersionId"]
    second = s3.put_object(Bucket=bucket, Key="k", Body=b"one\n<i>three</i>\n")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k2", Body=b"another key")
    marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    page = visitor.page(f"/b/{bucket}/versions?key=k")
    assert all(version in page for version in (first, second, marker))
    checked = re.findall(r'name="(old|new)" value="([^"]+)" checked', page)
    assert sorted(checked) == [("new", second), ("old", first)]
    difference = visitor.page(f"/b/{bucket}/versions/compare?key=k&old={first}&new={second}")
    assert len(re.findall(r"<time datetime", difference)) == 2
    assert f'name="version" value="{first}"' in difference
    assert "-two" in difference
    assert "+&lt;i&gt;three&lt;/i&gt;" in difference
    visitor.done(f"/b/{bucket}/versions/restore?key=k", {"version": marker, "marker": "yes"})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"one\n<i>three</i>\n"
    visitor.done(f"/b/{bucket}/versions/restore?key=k", {"version": first})
    restored = s3.get_object(Bucket=bucket, Key="k")
    assert (restored["Body"].read(), restored["ContentType"]) == (b"one\ntwo\n", "text/plain")


def test_snapshots_are_taken_looked_into_and_restored(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    taken = visitor.done(f"/b/{bucket}/snapshots", {"name": "then"})
    assert "was taken" in taken
    assert "gone for good" in asked(taken, '/snapshots/delete"')
    s3.put_object(Bucket=bucket, Key="k", Body=b"after")
    fork = f"t-{uuid.uuid4().hex}"
    visitor.done(f"/b/{bucket}/snapshots/fork", {"snapshot": "then", "name": fork})
    assert s3.get_object(Bucket=fork, Key="k")["Body"].read() == b"before"
    assert "type the name" in visitor.done(f"/b/{bucket}/snapshots/restore", {"snapshot": "then", "confirm": "x"})
    visitor.done(f"/b/{bucket}/snapshots/restore", {"snapshot": "then", "confirm": "then"})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"
    assert "was deleted" in visitor.done(f"/b/{bucket}/snapshots/delete", {"snapshot": "then"})


def test_a_shared_link_works_without_a_key(visitor: Visitor, s3: Any, bucket: str) -> None:
    key = "a b/ü'\"&.txt"
    s3.put_object(Bucket=bucket, Key=key, Body=b"shared")
    page = visitor.page(f"/b/{bucket}/share?key={in_query(key)}&seconds=86400")
    link = html.unescape(re.findall(r'<pre id="link"[^>]*>([^<]+)</pre>', page)[0])
    assert httpx.get(link, trust_env=False).content == b"shared"
    assert "X-Amz-Expires=86400" in link
    assert "data:image/svg+xml" in page
    for tool in ("curl --output", "aws s3 presign", "generate_presigned_url"):
        assert tool in page
    assert "X-Amz-Signature" not in visitor.page(f"/b/{bucket}/share?key={in_query(key)}&seconds=999999999")


@pytest.mark.parametrize(("host", "is_local"), [("127.0.0.1", True), ("[::1]:9000", True), ("s3.example.test", False)])
def test_a_link_with_an_address_of_this_computer_says_so(
    visitor: Visitor, s3: Any, bucket: str, host: str, *, is_local: bool
) -> None:
    s3.put_object(Bucket=bucket, Key="k")
    # The cookie has the port in its name.
    port = host.rpartition(":")[2]
    cookie = f"orcas-console-{port}" if port.isdecimal() else "orcas-console"
    headers = {"host": host, "cookie": f"{cookie}={visitor.http.cookies[visitor.cookie]}"}
    page = visitor.get(f"/b/{bucket}/share?key=k&seconds=3600", headers=headers).text
    assert f"http://{host}/{bucket}/k?" in page
    assert ("works on this computer alone" in page) == is_local


def test_errors_say_what_to_do(visitor: Visitor, bucket: str) -> None:
    for path in ("/b/no-such-bucket", f"/b/{bucket}/object?key=absent", "/no-such-page"):
        answer = visitor.get(path)
        assert answer.status_code == 404
        assert "There is no such" in answer.text


def test_a_page_has_no_rights_of_its_own(target: Target, s3: Any, bucket: str) -> None:
    """A user who may read one bucket sees it, and is told what else is refused."""
    iam = target.server.client("iam")
    name = f"u-{uuid.uuid4().hex[:12]}"
    iam.create_user(UserName=name)
    actions = ["s3:ListBucket", "s3:GetObject", "s3:ListAllMyBuckets"]
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/secret*"},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    s3.put_object(Bucket=bucket, Key="open", Body=b"readable", ContentType="text/plain")
    s3.put_object(Bucket=bucket, Key="secret", Body=b"hidden", ContentType="text/plain")
    user = Visitor(target.server.endpoint)
    assert user.sign_in(key["AccessKeyId"], key["SecretAccessKey"]).status_code == 303
    assert f"user/{name}" in user.page("/")
    assert "readable" in user.page(f"/b/{bucket}/object?key=open")
    refused = user.get(f"/b/{bucket}/object?key=secret")
    assert refused.status_code == 403
    assert "Your key may not do this" in refused.text
    page = user.done(f"/b/{bucket}/delete-objects", {"key": "open"})
    assert "not deleted" in page
    assert s3.head_object(Bucket=bucket, Key="open")
    # When the key is gone, so is the session.
    iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
    assert user.get("/").headers["location"].startswith(f"{BASE}/sign-in")
    user.close()
