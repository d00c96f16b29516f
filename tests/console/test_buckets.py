"""The list of buckets and the form for a new one, as HTTP: what depends on who has signed in."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.console.visitors import Visitor


def test_requests_of_the_buckets_of_a_page_by_day(visitor: Visitor, s3: Any, bucket: str) -> None:
    other = f"{bucket}-x"
    s3.create_bucket(Bucket=other)
    for name, count in ((bucket, 3), (other, 5)):
        for number in range(count):
            s3.put_object(Bucket=name, Key=f"k{number}")
    found = visitor.get(f"/requests-by-day?first={bucket}&last={bucket}").json()
    assert list(found["buckets"]) == [bucket]
    assert len(found["days"]) == len(found["buckets"][bucket]) == 14
    assert dt.date.fromisoformat(found["days"][-1]) - dt.date.fromisoformat(found["days"][0]) == dt.timedelta(days=13)
    assert sum(found["buckets"][bucket]) == 3
    assert list(visitor.get(f"/requests-by-day?first={bucket}&last={other}").json()["buckets"]) == [bucket, other]


def test_the_list_counts_earlier_versions_too(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for size in (3072, 2048):
        s3.put_object(Bucket=bucket, Key="k", Body=bytes(range(256)) * (size // 256))
    row = visitor.page(f"/?prefix={bucket}").partition(f'<tr data-bucket="{bucket}">')[2].partition("</tr>")[0]
    cells = re.findall(r'<td class="num">(.*?)</td>', row, re.DOTALL)
    counts = [" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in cells]
    assert counts == ["1 1 earlier version", "2 KiB 5 KiB with earlier versions"]


def test_the_menu_is_grouped_by_who_needs_it(visitor: Visitor) -> None:
    menu = visitor.page("/").partition('<nav id="nav"')[2].partition("</nav>")[0]
    assert re.findall(r"<h2>(.*?)</h2>", menu) == ["Files", "People and rights", "Operation", "Owner"]
    assert menu.count(">Buckets</a>") == menu.count(">Users</a>") == menu.count(">Disk</a>") == 1


def test_requests_by_day_are_for_root_alone(visitor_with: Callable[..., Visitor], bucket: str) -> None:
    found = visitor_with("s3:*").get(f"/requests-by-day?first={bucket}&last={bucket}")
    assert found.status_code == 200
    assert found.json()["buckets"] is None


def test_a_new_bucket_has_the_chosen_durability(visitor: Visitor, s3: Any) -> None:
    name = f"t-{uuid.uuid4().hex}"
    visitor.done("/buckets/new", {"name": name, "durability": "buffered"})
    assert s3.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPHeaders"]["x-amz-orcas-durability"] == "buffered"
    refused = visitor.post("/buckets/new", {"name": name, "durability": "odd", "versioning": "yes"})
    assert refused.status_code == 400
    assert "no such durability" in refused.text
    assert f'value="{name}"' in refused.text
    assert 'name="versioning" type="checkbox" value="yes" checked' in refused.text


@pytest.mark.parametrize(
    ("actions", "offered"),
    [
        (("s3:*",), False),
        (("s3:*", "orcas:PutBucketSettings"), True),
    ],
)
def test_durability_is_offered_to_whom_may_set_it(
    visitor_with: Callable[..., Visitor], actions: tuple[str, ...], offered: bool
) -> None:
    visitor, name = visitor_with(*actions), f"t-{uuid.uuid4().hex}"
    assert ('name="durability"' in visitor.page("/buckets/new")) is offered
    page = visitor.done("/buckets/new", {"name": name, "durability": "interval"})
    assert ("durability was not set" in page) is not offered


def test_who_may_not_list_buckets_opens_one_by_its_name(
    visitor_with: Callable[..., Visitor], s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="home/anna/a.txt")
    visitor = visitor_with("s3:ListBucket")
    landing = visitor.page("/")
    assert "may not list the buckets" in landing
    assert "home/anna/a.txt" not in landing
    assert "home%2Fanna%2Fa.txt" in visitor.page(f"/open?bucket={bucket}&prefix=home/anna/")
    assert "home%2F" in visitor.page(f"/open?bucket=%20{bucket}%20")
    for name in ("", "a/b", "%2F%2Fevil.invalid"):
        again = visitor.get(f"/open?bucket={name}&prefix=kept")
        assert again.status_code == 400
        assert "Type the name of a bucket" in again.text
        assert 'value="kept"' in again.text
    assert visitor.get("/open?bucket=absent-bucket", follow_redirects=True).status_code == 404


def test_who_may_do_nothing_is_told_so(visitor_with: Callable[..., Visitor], bucket: str) -> None:
    visitor = visitor_with()
    assert "ask whoever gave you the key" in visitor.page("/")
    refused = visitor.get(f"/open?bucket={bucket}", follow_redirects=True)
    assert refused.status_code == 403
    assert "Your key may not do this." in refused.text
