"""Entries, tabs and buttons are what the visitor may do; from a refusal there is a way back, and its advice helps."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from tests.console.visitors import BASE, Visitor, visitor_of
from tests.fixtures.targets import Target

from orcas.console.documents.policies import IDENTITY, build

SERVER: Final = {
    "/health": "orcas:GetHealth", "/settings": "orcas:GetSettings", "/live": "orcas:GetHistory",
    "/requests": "orcas:GetRequests", "/log": "orcas:GetLog", "/events": "orcas:ListTargets",
    "/replication": "orcas:ListReplication", "/tasks": "orcas:ListTasks",
    "/disk": "orcas:GetDisk", "/usage": "orcas:GetUsage", "/keyring": "orcas:ListKeys",
    "/users/audit": "orcas:GetAuditLog", "/users/accounts": "orcas:ListAccounts",
}  # fmt: skip
ADMINISTRATOR: Final = "arn:aws:iam::aws:policy/AdministratorAccess"


def entries(page: str) -> list[str]:
    """The paths in the navigation."""
    navigation = page[page.index('<nav id="nav"') : page.index("</nav>")]
    return [html.unescape(path) for path in re.findall(rf'href="{BASE}([^"]*)"', navigation)]


def tabs(page: str) -> list[str]:
    """What the tabs of a bucket are called."""
    found = page[page.index('<nav class="tabs"') :]
    return re.findall(r">([^<]+)</a>", found[: found.index("</nav>")])


@pytest.fixture
def user(target: Target, iam: Any, name: str) -> Iterator[Callable[..., Visitor]]:
    """Signs in as a user with these statements and managed policies."""
    made: list[Visitor] = []

    def sign_in(*statements: dict[str, Any], managed: str = "") -> Visitor:
        iam.create_user(UserName=name)
        if statements:
            document = json.dumps({"Statement": list(statements)})
            iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document)
        if managed:
            iam.attach_user_policy(UserName=name, PolicyArn=managed)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        made.append(visitor_of(target, signed_in=False))
        assert made[-1].sign_in(key["AccessKeyId"], key["SecretAccessKey"]).status_code == 303
        return made[-1]

    yield sign_in
    for visitor in made:
        visitor.close()


def test_who_may_do_nothing_is_offered_nothing(user: Callable[..., Visitor], bucket: str) -> None:
    visitor = user()
    assert entries(visitor.page("/")) == ["/"]
    for path in SERVER:
        assert visitor.get(path).status_code == 403, path


def test_an_administrator_sees_the_server(user: Callable[..., Visitor], visitor: Visitor, bucket: str) -> None:
    administrator = user(managed=ADMINISTRATOR)
    offered = entries(administrator.page("/"))
    assert set(offered) == set(entries(visitor.page("/"))) - {"/users/root-key"}
    for path in SERVER:
        answer = administrator.get(path)
        # A store in memory has no keyring.
        assert answer.status_code in (200, 409), f"{path}: {answer.text}"
        assert path in offered
    assert set(tabs(administrator.page(f"/b/{bucket}"))) >= {"Objects", "Snapshots", "Settings", "Remove"}
    assert "The snapshot first was taken." in administrator.done(f"/b/{bucket}/snapshots", {"name": "first"})
    assert "No quota." in administrator.page(f"/b/{bucket}/settings/quota")
    assert "Run now" in administrator.page("/tasks")


@pytest.mark.parametrize("path", SERVER)
def test_one_page_of_the_server_is_one_action(user: Callable[..., Visitor], path: str) -> None:
    """A Deny takes it away from whoever may do everything."""
    visitor = user({"Effect": "Deny", "Action": SERVER[path], "Resource": "*"}, managed=ADMINISTRATOR)
    offered = entries(visitor.page("/"))
    assert path not in offered
    assert set(SERVER) - set(offered) == {path}
    refused = visitor.get(path)
    assert refused.status_code == 403
    assert "A policy forbids this" in refused.text


def test_who_sees_the_server_changes_nothing_there(user: Callable[..., Visitor]) -> None:
    visitor = user({"Effect": "Allow", "Action": ["orcas:Get*", "orcas:List*"], "Resource": "*"})
    assert set(SERVER) <= set(entries(visitor.page("/")))
    assert "Run now" not in visitor.page("/tasks")
    assert "was not begun" in visitor.done("/tasks/start", {"job": "gc"})


@pytest.mark.parametrize(("names", "offered"), [("*", True), ("dev-*", False)])
def test_what_makes_something_is_for_whoever_may_make_any_name(
    user: Callable[..., Visitor], iam: Any, names: str, offered: bool
) -> None:
    account = iam.get_user()["User"]["Arn"].split(":")[4]
    kinds = ("user", "group", "role", "policy")
    visitor = user(
        {"Effect": "Allow", "Action": ["iam:List*", "s3:ListAllMyBuckets"], "Resource": "*"},
        {
            "Effect": "Allow", "Action": ["iam:Create*", "s3:CreateBucket"],
            "Resource": [f"arn:aws:s3:::{names}", *(f"arn:aws:iam::{account}:{kind}/{names}" for kind in kinds)],
        },
    )  # fmt: skip
    assert ("New bucket" in visitor.page("/")) is offered
    for path, button in (
        ("users", "Make the user"), ("groups", "Make the group"), ("roles", "Make the role"),
        ("policies", "Make the policy"),
    ):  # fmt: skip
        assert (button in visitor.page(f"/users/{path}")) is offered, path


def test_the_root_of_another_account_manages_its_users(visitor: Visitor, target: Target, name: str) -> None:
    page = visitor.done("/users/accounts", {"name": name, "with_key": "yes"})
    key, secret = (re.findall(rf'id="{part}-key">([^<]+)<', page)[0] for part in ("access", "secret"))
    root = visitor_of(target, signed_in=False)
    assert root.sign_in(key, secret).status_code == 303
    offered = entries(root.page("/"))
    assert {"/users/users", "/users/policies", "/users/may", "/buckets/new"} <= set(offered)
    assert not set(SERVER) & set(offered)
    root.done("/users/users", {"name": "own"})
    asked = {"who": "own", "action": "s3:GetObject", "resource": "some/key"}
    assert "No: nothing allows it." in root.get("/users/may", params=asked).text
    root.close()


def test_from_a_refusal_there_is_a_way_back(user: Callable[..., Visitor], s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="home/anna/a.txt", Body=b"a")
    lists = {
        "Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {"StringLike": {"s3:prefix": "home/anna/*"}},
    }  # fmt: skip
    visitor = user(lists)
    assert "go to the buckets" in visitor.get(f"/b/{bucket}").text
    visitor.page(f"/b/{bucket}?prefix=home/anna/")
    refused = visitor.get(f"/b/{bucket}?prefix=home/")
    assert refused.status_code == 403
    (back,) = re.findall(rf'href="{BASE}([^"]+)">Back to', refused.text)
    assert "a.txt" in visitor.page(html.unescape(back))


def test_advice_is_true(user: Callable[..., Visitor], visitor: Visitor, s3: Any, bucket: str, name: str) -> None:
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    locked = s3.put_object(Bucket=name, Key="k", Body=b"k")["VersionId"]
    s3.put_object_legal_hold(Bucket=name, Key="k", VersionId=locked, LegalHold={"Status": "ON"})
    said = visitor.done(f"/b/{name}/object/delete?key=k&version={locked}")
    assert "It is locked" in said
    assert "Ask whoever" not in said
    begun = visitor.post(f"/b/{bucket}/settings/policy", {"do": "template", "template": "public-read"}).text
    text = html.unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", begun, re.DOTALL)[0])
    said = visitor.post(f"/b/{bucket}/settings/policy", {"do": "save", "document": text}).text
    assert "The public access block is one of the settings of the bucket." in said
    assert "Ask whoever" not in said
    nobody = user()
    for path, advice in (
        (f"/b/{bucket}", "Ask whoever manages the users"),
        ("/users/root-key", "sign in with the root key"),
    ):
        refused = nobody.get(path)
        assert refused.status_code == 403
        assert advice in refused.text


def test_an_object_offers_what_the_lists_of_its_visitor_allow(
    user: Callable[..., Visitor], visitor_with: Callable[..., Visitor], s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="home/anna/k", Body=b"k")
    path = f"/b/{bucket}/object?key=home/anna/k"
    here = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/home/anna/*"]
    below = {"StringLike": {"s3:prefix": "home/anna/*"}}
    anna = user(
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:DeleteObjectVersion"], "Resource": here},
        {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:ListBucketVersions"], "Resource": here, "Condition": below},
    )
    page = anna.page(path)
    assert "History" in page
    # These look at the whole bucket.
    assert "Same content" not in page
    assert "Remove" not in tabs(anna.page(f"/b/{bucket}?prefix=home/anna/"))
    # Nor do the folders above lead to a refusal.
    for below in (path, f"/b/{bucket}?prefix=home/anna/"):
        page = anna.page(below)
        assert "Folder above" not in page
        assert f'/b/{bucket}?prefix=home%2F"' not in page
        assert f'href="{BASE}/b/{bucket}"' not in page.partition('class="crumbs"')[2].partition("</p>")[0]
    # Here the whole bucket may be listed, but no versions.
    reader = visitor_with("s3:GetObject", "s3:ListBucket")
    page = reader.page(path)
    assert "History" not in page
    assert "Same content" in page


def test_the_reader_of_a_folder_stays_in_it_and_moves_nothing(
    user: Callable[..., Visitor], visitor: Visitor, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="logs/k", Body=b"k")
    reader = user(*json.loads(build(IDENTITY["read"], bucket, "logs/"))["Statement"])
    chosen = {"key": "logs%2Fk", "prefix": "logs%2F"}
    for whose, offered in ((visitor, True), (reader, False)):
        pages = [whose.page(f"/b/{bucket}{path}") for path in ("?prefix=logs/", "/object?key=logs/k")]
        pages.append(whose.post(f"/b/{bucket}/confirm-copy", chosen).text)
        assert all("Copy" in page for page in pages)
        assert [" or move" in page for page in pages] == [offered] * 3
        assert ['value="move"' in page for page in pages] == [False, offered, offered]
    # Other tabs lead back to where the reader was.
    for page in (pages[0], reader.page(f"/b/{bucket}/settings")):
        (objects,) = re.findall(rf'href="{BASE}([^"]+)"[^>]*>Objects</a>', page)
        assert ">k</bdi>" in reader.page(html.unescape(objects))


def test_forms_are_for_whoever_may_send_them(
    visitor: Visitor, visitor_with: Callable[..., Visitor], s3: Any, bucket: str
) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old, new = (s3.put_object(Bucket=bucket, Key="k", Body=body)["VersionId"] for body in (b"a", b"b"))
    compare = f"/b/{bucket}/versions/compare?key=k&old={old}&new={new}"
    reader = visitor_with("s3:ListAllMyBuckets", "s3:GetObjectVersion", "s3:DeleteBucket", "s3:ListBucket")
    for path, button in (
        ("/", "New bucket"), (compare, "Restore the older version"), (f"/b/{bucket}/remove", "Empty the bucket"),
    ):  # fmt: skip
        assert button in visitor.page(path)
        assert button not in reader.page(path)
    assert "Delete the bucket" in reader.page(f"/b/{bucket}/remove")


def test_a_refused_bucket_asks_for_a_folder(user: Callable[..., Visitor], s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="home/anna/a.txt", Body=b"a")
    visitor = user(
        {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"},
        {
            "Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}",
            "Condition": {"StringLike": {"s3:prefix": "home/anna/*"}},
        },
    )  # fmt: skip
    assert visitor.lists(bucket)
    refused = visitor.get(f"/b/{bucket}").text
    assert f'name="bucket" value="{bucket}"' in refused
    assert "Open the folder" in refused
    for folder in ("home/anna/", "home/anna"):
        assert "a.txt" in visitor.page(f"/open?bucket={bucket}&prefix={folder}")
    assert "Open the folder" not in visitor.get(f"/b/{bucket}/object?key=home/anna/a.txt").text
