"""Access control lists of buckets and objects over the console: who is given what, changes, and refusals."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from tests.console.visitors import Visitor

from orcas.tools.session import session_of

EVERYBODY = "Everybody, also without a key"


@pytest.fixture
def listed(s3: Any) -> str:
    """A bucket whose lists count, and which may be opened to everybody."""
    name = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name, ObjectOwnership="ObjectWriter")
    s3.delete_public_access_block(Bucket=name)
    return name


def test_the_list_of_a_bucket_is_shown_and_replaced(visitor: Visitor, s3: Any, listed: str) -> None:
    path = f"/b/{listed}/settings/acl"
    shown = visitor.page(path)
    assert "The owner" in shown
    assert s3.get_bucket_acl(Bucket=listed)["Owner"]["ID"] in shown
    assert EVERYBODY not in shown
    opened = visitor.done(path, {"acl": "public-read"})
    assert "Access control list: saved." in opened
    assert EVERYBODY in opened
    assert "list the objects" in opened
    assert '<span class="badge">public</span>' in opened
    assert [grant["Permission"] for grant in s3.get_bucket_acl(Bucket=listed)["Grants"]] == ["READ", "FULL_CONTROL"]
    assert "2 grants" in visitor.page(f"/b/{listed}/settings")
    assert EVERYBODY not in visitor.done(path, {"acl": "private"})
    assert "The delivery of access logs" in visitor.done(path, {"acl": "log-delivery-write"})


def test_the_list_of_an_object_and_a_version(visitor: Visitor, s3: Any, listed: str) -> None:
    key = 'a "b"\n<c>\u202e'
    s3.put_bucket_versioning(Bucket=listed, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=listed, Key=key)["VersionId"]
    s3.put_object(Bucket=listed, Key=key)
    path = f"/b/{listed}/object/acl?key={quote(key, safe='')}"
    assert path.replace("&", "&amp;") in visitor.page(f"/b/{listed}/object?key={quote(key, safe='')}")
    opened = visitor.done(f"{path}&version={old}", {"acl": "public-read"})
    assert EVERYBODY in opened
    assert "read the object" in opened
    assert EVERYBODY not in visitor.page(path)
    assert len(s3.get_object_acl(Bucket=listed, Key=key, VersionId=old)["Grants"]) == 2


def test_where_lists_are_disabled_the_page_says_what_to_do(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k")
    for path in (f"/b/{bucket}/settings/acl", f"/b/{bucket}/object/acl?key=k"):
        shown = visitor.page(path)
        assert "lists are disabled" in shown
        assert f'/b/{bucket}/settings/policy"' in shown
        assert f'/b/{bucket}/settings/ownership"' in shown
        assert 'name="acl"' not in shown
        refused = visitor.post(path, {"acl": "public-read"})
        assert refused.status_code == 400
        assert "Write a policy instead, or choose another object ownership first." in refused.text
    assert "Disabled: policies alone decide." in visitor.page(f"/b/{bucket}/settings")


def test_refusals_say_what_to_change(visitor: Visitor, s3: Any, listed: str) -> None:
    path = f"/b/{listed}/settings/acl"
    unknown = visitor.post(path, {"acl": "odd"})
    assert unknown.status_code == 400
    assert "Nothing was changed. The canned ACL is unknown" in unknown.text
    blocked = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)
    s3.put_public_access_block(Bucket=listed, PublicAccessBlockConfiguration=blocked)
    refused = visitor.post(path, {"acl": "public-read"})
    assert refused.status_code == 403
    assert "Change the public access block first." in refused.text
    assert '<option value="public-read" selected>' in refused.text
    assert visitor.get(f"/b/{listed}/object/acl?key=absent").status_code == 404


def test_a_list_is_for_whom_may_see_it(visitor_with: Callable[..., Visitor], listed: str) -> None:
    reader = visitor_with("s3:ListAllMyBuckets", "s3:GetBucketAcl")
    path = f"/b/{listed}/settings/acl"
    assert "The owner" in reader.page(path)
    refused = reader.post(path, {"acl": "public-read"})
    assert refused.status_code == 403
    assert "Your key may not do this." in refused.text
    assert visitor_with("s3:ListAllMyBuckets").get(path).status_code == 403


def test_another_account_is_named(visitor: Visitor, s3: Any, listed: str) -> None:
    order = {"action": "CreateAccount", "parameters": {"AccountName": f"n-{uuid.uuid4().hex[:12]}"}}
    with session_of(s3) as session:
        account = session.admin("POST", "iam", order)["Account"]
    s3.put_bucket_acl(Bucket=listed, GrantWrite=f'id="{account["CanonicalId"]}"')
    shown = visitor.page(f"/b/{listed}/settings/acl")
    assert f"{order['parameters']['AccountName']}, account {account['CanonicalId']}" in shown
    assert "store and delete objects" in shown
