"""What the page of an object changes but its content, and folders that everybody may read."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
from tests.console.test_objects import in_query, versioned
from tests.console.visitors import Visitor
from tests.fixtures.targets import refusal


def test_content_type_and_metadata_are_changed(visitor: Visitor, s3: Any, bucket: str) -> None:
    key = "line\nend"
    s3.put_object(
        Bucket=bucket, Key=key, Body=b"body", ContentType="text/plain", CacheControl="no-cache", Metadata={"a": "1"},
        Tagging="t=u",
    )  # fmt: skip
    place = f"/b/{bucket}/object"
    page = visitor.page(f"{place}?key={in_query(key)}")
    etag = html.unescape(re.findall(r'name="etag" value="([^"]+)"', page)[0])
    form = {"etag": etag, "content-type": "text/html", "cache-control": "no-cache", "metadata": "b=2\r\nc=x=y"}
    assert "were changed" in visitor.done(f"{place}/metadata?key={in_query(key)}", form)
    found = s3.get_object(Bucket=bucket, Key=key)
    assert (found["ContentType"], found["CacheControl"], found["Metadata"]) == (
        "text/html", "no-cache", {"b": "2", "c": "x=y"},
    )  # fmt: skip
    assert found["Body"].read() == b"body"
    assert s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] == [{"Key": "t", "Value": "u"}]
    for wrong in ({"metadata": "nothing"}, {"metadata": "a b=c"}, {"content-type": "é"}, {"etag": '"other"'}):
        assert "Nothing was changed" in visitor.done(f"{place}/metadata?key={in_query(key)}", form | wrong)
    assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {"b": "2", "c": "x=y"}


def test_a_retention_is_ended_with_a_word_alone(visitor: Visitor, s3: Any, name: str) -> None:
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    version = s3.put_object(Bucket=name, Key="k", Body=b"k")["VersionId"]
    assert "Retention and legal hold" in visitor.page(f"/b/{name}/object?key=k")
    until = (dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    place = f"/b/{name}/object/lock?key=k"
    assert "retention was changed" in visitor.done(place, {"mode": "GOVERNANCE", "until": until})
    kept = s3.get_object_retention(Bucket=name, Key="k")["Retention"]
    assert (kept["Mode"], kept["RetainUntilDate"].strftime("%Y-%m-%dT%H:%M")) == ("GOVERNANCE", until)
    assert "say until when" in visitor.done(place, {"mode": "GOVERNANCE", "until": ""})
    assert "retention was not changed" in visitor.done(place, {"mode": ""})
    gone = f"/b/{name}/object/delete?key=k&version={version}"
    assert "Nothing was deleted" in visitor.done(gone, {"word": "yes"})
    assert "retention was changed" in visitor.done(place, {"mode": "", "bypass": "bypass"})
    visitor.done(place, {"mode": "GOVERNANCE", "until": until})
    assert "version was deleted" in visitor.done(gone, {"word": "bypass"})


def test_a_legal_hold_is_put_and_ended(visitor: Visitor, s3: Any, name: str, bucket: str) -> None:
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=name, Key="k", Body=b"k")
    for status, following in (("ON", "End the legal hold"), ("OFF", "Put a legal hold on it")):
        page = visitor.done(f"/b/{name}/object/lock?key=k", {"hold": status})
        assert s3.get_object_legal_hold(Bucket=name, Key="k")["LegalHold"]["Status"] == status
        assert following in page
    s3.put_object(Bucket=bucket, Key="k", Body=b"k")
    assert "legal hold" not in visitor.page(f"/b/{bucket}/object?key=k")


def test_an_object_has_its_key_as_heading_and_few_buttons(visitor: Visitor, s3: Any, bucket: str) -> None:
    versioned(s3, bucket)
    s3.put_object(Bucket=bucket, Key="a/b.txt", Body=b"k")
    page = visitor.page(f"/b/{bucket}/object?key=a/b.txt")
    assert re.findall("<h1>(.*?)</h1>", page) == ['<bdi class="key">b.txt</bdi>']
    bar = page.partition('<div class="actions">')[2].partition('<div class="beside">')[0]
    said = re.findall(r">\s*([^<>]+?)\s*</(?:a|button)>", bar)
    assert said == ["Download", "Share", "History", "Copy or move", "Delete"]


def test_a_folder_is_made_public_and_private_again(visitor: Visitor, s3: Any, bucket: str) -> None:
    for key in ("pub/a b.txt", "private"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"read")
    other = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteBucket", "Resource": f"arn:aws:s3:::{bucket}"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": other}))
    assert "Make it public" in visitor.page(f"/b/{bucket}/publish?prefix=pub/")
    page = visitor.done(f"/b/{bucket}/publish", {"prefix": "pub%2F"})
    link = html.unescape(re.findall(r'<pre id="link"[^>]*>([^<]+)<', page)[0])
    assert httpx.get(f"{link}a%20b.txt", trust_env=False).content == b"read"
    assert httpx.get(f"{visitor.url}/{bucket}/private", trust_env=False).status_code == 403
    block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert block == {
        "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False,
    }  # fmt: skip
    visitor.done(f"/b/{bucket}/publish", {"prefix": "pub%2F", "end": "yes"})
    assert httpx.get(f"{link}a%20b.txt", trust_env=False).status_code == 403
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"] == [other]
    assert "stands for others" in visitor.page(f"/b/{bucket}/publish?prefix=a*/")
    assert "is not public" in visitor.done(f"/b/{bucket}/publish", {"prefix": "a%2A%2F"})


def test_who_may_not_lock_is_not_asked(visitor_with: Callable[..., Visitor], s3: Any, name: str) -> None:
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=name, Key="k", Body=b"k")
    page = visitor_with("s3:GetObject", "s3:PutObjectRetention").page(f"/b/{name}/object?key=k")
    assert "Save the retention" in page
    assert 'name="bypass"' not in page
    assert "legal hold on it" not in page
    assert "Change the content type" not in page
    assert "Retention and" not in visitor_with("s3:GetObject").page(f"/b/{name}/object?key=k")
    assert refusal(s3.get_object_retention, Bucket=name, Key="k")
