"""What rules would remove, counted by the console, is what the server then removes."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.settings.test_settings import document
from tests.console.visitors import BASE, Visitor, visitor_of
from tests.fixtures.targets import Target, running

from orcas.testing import Control

DAYS = 10
SOON = {"Status": "Enabled", "Expiration": {"Days": 3}}
RULES: list[dict[str, Any]] = [
    {
        "ID": "tmp", "Filter": {"Prefix": "tmp/"}, **SOON,
        "NoncurrentVersionExpiration": {"NoncurrentDays": 3, "NewerNoncurrentVersions": 1},
    },
    {"ID": "tags", "Filter": {"Tag": {"Key": "keep", "Value": "no"}}, **SOON},
    {"ID": "off", "Filter": {"Prefix": ""}, **SOON, "Status": "Disabled"},
    {"ID": "late", "Filter": {"Prefix": ""}, "Status": "Enabled", "Expiration": {"Days": 30}},
    {
        "ID": "uploads", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
    },
]  # fmt: skip


@pytest.fixture
def own() -> Iterator[Target]:
    """A server whose clock this test sets."""
    with running(None) as target:
        yield target


def counted(visitor: Visitor, bucket: str, text: str) -> tuple[list[list[str]], int]:
    """Count to the end, as the script of the page does: the rows, and the steps."""
    begun = visitor.post(f"/b/{bucket}/settings/lifecycle/count", {"do": "text", "document": text})
    assert begun.status_code == 303, begun.text
    for step in range(1, 100):
        page = visitor.page(begun.headers["location"].removeprefix(BASE))
        if "Counted." in page:
            rows = re.findall(r"<tr>(<td class=\"key\">.*?)</tr>", page)
            return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows], step
    raise AssertionError("the count does not end")


def in_a_month(text: str) -> str:
    """The same rules with days that have not passed."""
    return re.sub(r"(<\w*Days\w*>)[0-9]+<", r"\g<1>30<", text)


def fill(s3: Any, bucket: str) -> None:
    """Versions, markers, tags and uploads, more than a page of a list has."""
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for at in range(260):
        s3.put_object(Bucket=bucket, Key=f"tmp/{at} ü+%", Body=b"x" * 10)
    for at in range(4):
        s3.put_object(Bucket=bucket, Key="tmp/many", Body=b"y" * at)
    s3.delete_object(Bucket=bucket, Key="tmp/many")
    s3.delete_object(Bucket=bucket, Key="tmp/never-there")
    s3.put_object(Bucket=bucket, Key="tagged", Body=b"t", Tagging="keep=no")
    s3.put_object(Bucket=bucket, Key="tagged-not", Body=b"t", Tagging="keep=yes")
    for key in ("tmp/upload", "other"):
        s3.create_multipart_upload(Bucket=bucket, Key=key)


def listed(s3: Any, bucket: str) -> dict[str, dict[tuple[str, str], bool]]:
    """Versions, markers and uploads, and whether each is the newest."""
    found: dict[str, dict[tuple[str, str], bool]] = {"Versions": {}, "DeleteMarkers": {}}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for kind, entries in found.items():
            entries.update({(each["Key"], each["VersionId"]): each["IsLatest"] for each in page.get(kind, [])})
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found | {"Uploads": {(each["Key"], each["UploadId"]): True for each in uploads}}


def test_a_count_is_what_the_server_removes(own: Target) -> None:
    s3, bucket, visitor = own.client(), "counted", visitor_of(own)
    with Control(own.server) as control:
        control.advance(dt.timedelta(days=-DAYS), lifecycle=False)
        fill(s3, bucket)
        control.advance(dt.timedelta(days=DAYS), lifecycle=False)
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
        text = document(visitor.page(f"/b/{bucket}/settings/lifecycle"))
        assert counted(visitor, bucket, in_a_month(text))[0] == []
        rows, _ = counted(visitor, bucket, text)
        found = {row[0]: row[1:] for row in rows}
        assert found == {
            "tmp": ["260", "3", "1", "0", "2.54 KiB"], "tags": ["1", "0", "0", "0", "1 B"],
            "uploads": ["0", "0", "0", "1", "0 B"],
        }  # fmt: skip
        before = listed(s3, bucket)
        control.advance(dt.timedelta(0))
    after = listed(s3, bucket)
    gone = {kind: {entry: before[kind][entry] for entry in before[kind].keys() - after[kind].keys()} for kind in before}
    hidden = [entry for entry, newest in before["Versions"].items() if newest and after["Versions"].get(entry) is False]
    totals = Counter[str]()
    for row in rows:
        totals += Counter(dict(zip(("current", "noncurrent", "marker", "upload"), map(int, row[1:5]), strict=True)))
    assert totals == {
        "current": len(hidden), "noncurrent": len(gone["Versions"]), "marker": len(gone["DeleteMarkers"]),
        "upload": len(gone["Uploads"]),
    }  # fmt: skip
    visitor.close()


def test_the_rules_of_a_form_are_counted_before_they_are_saved(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    path = f"/b/{bucket}/settings/lifecycle/count"
    rule = {"rule.0.enabled": "on", "rule.0.date": "2020-01-01", "rule.0.id": "past"}
    shown = visitor.done(path, {"do": "count", **rule})
    assert '<td class="key">past</td><td class="num">1</td>' in shown
    assert "Counted. Versions and uploads looked at: 1." in shown
    rule["rule.0.date"] = "2100-01-01"
    assert "Nothing would be removed today." in visitor.done(path, {"do": "count", **rule})
    assert visitor.get(f"{path}?of=another").status_code == 404
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


@pytest.mark.parametrize(
    "form",
    [
        {"do": "text", "document": "<Other/>"},
        {"do": "text", "document": ""},
        {"do": "count", "rule.0.enabled": "on", "rule.0.days": "soon"},
    ],
)
def test_what_cannot_be_counted_is_refused(visitor: Visitor, bucket: str, form: dict[str, str]) -> None:
    refused = visitor.post(f"/b/{bucket}/settings/lifecycle/count", form)
    assert refused.status_code == 400
    assert "The rules cannot be counted" in refused.text
