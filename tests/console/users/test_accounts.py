"""Accounts and the root key over the console. Keys of roots are for root alone."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.console.visitors import Visitor, shown, visitor_of
from tests.fixtures.targets import Target, refusal, running


@pytest.fixture
def user(iam: Any, name: str) -> tuple[str, str]:
    """The key of a user with all rights."""
    iam.create_user(UserName=name)
    iam.attach_user_policy(UserName=name, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


@pytest.fixture
def signed_in(target: Target) -> Iterator[Callable[[str, str], Visitor]]:
    """Signs in with a key."""
    made: list[Visitor] = []

    def sign_in(access_key: str, secret_key: str) -> Visitor:
        made.append(visitor_of(target, signed_in=False))
        assert made[-1].sign_in(access_key, secret_key).status_code == 303
        return made[-1]

    yield sign_in
    for visitor in made:
        visitor.close()


def test_an_administrator_gets_no_key_of_a_root(
    signed_in: Callable[[str, str], Visitor], user: tuple[str, str], visitor: Visitor
) -> None:
    administrator = signed_in(*user)
    for answer in (
        administrator.get("/users/root-key"),
        administrator.post("/users/root-key", {"confirm": user[0]}),
        administrator.post("/users/accounts/key", {"number": "1"}),
    ):
        assert answer.status_code == 403
        assert "No policy gives this to anybody" in answer.text
    name = f"made-{uuid.uuid4().hex[:8]}"
    page = administrator.page("/users/accounts")
    assert "Make the account" in page
    assert "key of its root" not in page
    assert name in administrator.done("/users/accounts", {"name": name})
    lines = re.sub(r"<[^>]+>", " ", visitor.page("/users/audit?action=CreateAccount"))
    assert re.search(rf"user/n-\w+\s+\S+\s+CreateAccount\s+AccountName:\s+{name}", lines)


def test_an_account_is_made_and_its_root_signs_in(
    visitor: Visitor, signed_in: Callable[[str, str], Visitor], bucket: str
) -> None:
    name = f"research-{uuid.uuid4().hex[:8]}"
    made = visitor.done("/users/accounts", {"name": name, "with_key": "yes"})
    assert f"The account {name} was made" in made
    key, secret = shown(made, "access-key"), shown(made, "secret-key")
    page = visitor.page("/users/accounts")
    assert name in page
    assert secret not in page
    theirs = signed_in(key, secret)
    assert not theirs.lists(bucket)
    # It is root of its account, and not of the store.
    assert theirs.get("/users/users").status_code == 200
    assert theirs.get("/users/accounts").status_code == 403


def test_an_account_without_a_key_gets_one_later(visitor: Visitor, signed_in: Callable[[str, str], Visitor]) -> None:
    name = f"quiet-{uuid.uuid4().hex[:8]}"
    said = visitor.done("/users/accounts", {"name": name})
    found = re.search(rf"The account {name} was made, with the number ([0-9]{{12}})", said)
    assert found is not None
    made = visitor.done("/users/accounts/key", {"number": found[1]})
    assert signed_in(shown(made, "access-key"), shown(made, "secret-key")).is_signed_in


def test_what_is_no_account_is_refused_with_its_reason(visitor: Visitor) -> None:
    name = f"twice-{uuid.uuid4().hex[:8]}"
    visitor.done("/users/accounts", {"name": name})
    again = visitor.post("/users/accounts", {"name": name, "with_key": "yes"})
    assert again.status_code == 409
    assert "Nothing was made." in again.text
    assert "already exists" in again.text
    hostile = visitor.post("/users/accounts", {"name": "<script>alert(1)</script>"})
    assert hostile.status_code == 400
    assert "<script>alert" not in hostile.text
    for number in ("0" * 12, "../x", ""):
        answer = visitor.post("/users/accounts/key", {"number": number})
        assert answer.status_code in (400, 404), answer.text
        assert "No key was made." in answer.text


def test_the_root_key_is_replaced_and_the_session_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, root_access_key=None, root_secret_key=None) as target:
        visitor, other = visitor_of(target), visitor_of(target)
        former, old = target.server.access_key, target.server.secret_key
        wrong = visitor.post("/users/root-key", {"confirm": "another"})
        assert wrong.status_code == 400
        assert "Nothing was changed" in wrong.text
        made = visitor.done("/users/root-key", {"confirm": former})
        key, secret = shown(made, "access-key"), shown(made, "secret-key")
        assert key != former
        assert "goes on with the new one" in made
        # A reload loses nothing.
        assert shown(visitor.page(f"/users/new-key?key={key}"), "secret-key") == secret
        # The session goes on, and its pages do not have the secret; all others end.
        page = visitor.page("/users/root-key")
        assert key in page
        assert secret not in page
        assert other.get("/").headers["location"].startswith("/_orcas/console/sign-in")
        assert refusal(target.client().list_buckets) == (403, "InvalidAccessKeyId")
        # Sent again, it does nothing.
        assert visitor.post("/users/root-key", {"confirm": former}).status_code == 400
        third = visitor_of(target, signed_in=False)
        assert third.sign_in(former, old).status_code == 403
        assert third.sign_in(key, secret).status_code == 303
        for each in (visitor, other, third):
            each.close()
