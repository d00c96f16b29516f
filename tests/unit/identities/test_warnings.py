"""Warnings about policies that name what no bucket can be called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orcas.engine import check_policy


def warnings(kind: str = "identity", **statement: Any) -> list[str]:
    allow = {"Effect": "Allow", "Action": "s3:*", **statement}
    return check_policy(json.dumps({"Version": "2012-10-17", "Statement": allow}), kind)


@pytest.mark.parametrize(
    "arn", ["My_Bucket", "My_Bucket/*", "photos.", "a..b*", "ab/*", "-photos/2026/*", "photo_*", f"{'a' * 64}/*", "/*"]
)
def test_a_bucket_that_cannot_be_is_named(arn: str) -> None:
    arn = f"arn:aws:s3:::{arn}"
    said = f"names {arn}, and no bucket can have such a name."
    assert f"Statement 1 {said}" in warnings(Resource=arn)
    assert f"Statement Mine {said}" in warnings(Sid="Mine", Resource=["*", arn])


@pytest.mark.parametrize(
    "arn",
    [
        "photos",
        "photos/A_b/*",
        "photos*",
        "*.foo",
        "p?otos/*",
        "*",
        "${aws:username}",
        "my-${aws:username}/*",
        "a.b-c/*",
    ],
)
def test_a_bucket_that_can_be_is_not(arn: str) -> None:
    assert warnings(Resource=f"arn:aws:s3:::{arn}") == []


def test_other_resources_and_policies_without_any_are_not_looked_at() -> None:
    assert warnings(Resource=["*", "arn:aws:iam::000000000000:user/My_User"]) == []
    trust = {"Principal": {"AWS": "arn:aws:iam::000000000000:user/a"}, "Action": "sts:AssumeRole"}
    assert warnings("trust", **trust) == []
