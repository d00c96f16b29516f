"""A server in memory, and visitors of its console."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.console.visitors import Visitor, visitor_of
from tests.fixtures.targets import Target


@pytest.fixture(scope="session")
def target(targets: Callable[[str], Target]) -> Target:
    return targets("memory")


@pytest.fixture
def stranger(target: Target) -> Iterator[Visitor]:
    """A visitor who has not signed in."""
    visitor = visitor_of(target, signed_in=False)
    yield visitor
    visitor.close()


@pytest.fixture
def visitor(target: Target) -> Iterator[Visitor]:
    """A visitor who has signed in with the root key."""
    visitor = visitor_of(target)
    yield visitor
    visitor.close()


@pytest.fixture
def iam(target: Target) -> Iterator[Any]:
    """A client of IAM with the root key."""
    client = target.server.client("iam")
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A name of this test's own."""
    return f"n-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def visitor_with(target: Target, iam: Any) -> Iterator[Callable[..., Visitor]]:
    """Signs in as a new user who may do these actions on everything."""
    made: list[Visitor] = []

    def sign_in(*actions: str) -> Visitor:
        user = f"v-{uuid.uuid4().hex[:12]}"
        iam.create_user(UserName=user)
        if actions:
            statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            iam.put_user_policy(UserName=user, PolicyName="p", PolicyDocument=json.dumps({"Statement": [statement]}))
        key = iam.create_access_key(UserName=user)["AccessKey"]
        visitor = visitor_of(target, signed_in=False)
        assert visitor.sign_in(key["AccessKeyId"], key["SecretAccessKey"]).status_code == 303
        made.append(visitor)
        return visitor

    yield sign_in
    for visitor in made:
        visitor.close()
