"""Requests, policies and expected decisions, written shortly."""

from __future__ import annotations

from typing import Any, NamedTuple

from .reference import Json

ALLOWED = "allowed"
DENIED = "explicitDeny"
NOT_ALLOWED = "implicitDeny"


class Case(NamedTuple):
    page: str
    what: str
    request: Json
    decision: str


def user(name: str = "Ana", account: str = "111122223333") -> Json:
    arn = f"arn:aws:iam::{account}:user/{name}"
    return {"arn": arn, "name": name.rpartition("/")[2], "kind": "user", "account": account, "tags": {}}


def session(role: str, name: str, account: str = "111122223333") -> Json:
    arn, identity = f"arn:aws:sts::{account}:assumed-role/{role}/{name}", f"arn:aws:iam::{account}:role/{role}"
    return {"arn": arn, "identity": identity, "kind": "role", "account": account, "tags": {}}


def root(account: str = "111122223333") -> Json:
    return {"arn": f"arn:aws:iam::{account}:root", "kind": "root", "account": account, "tags": {}}


ANONYMOUS: Json = {"arn": None, "kind": "anonymous", "account": None, "tags": {}}


def policy(*statements: Json, version: str | None = "2012-10-17") -> Json:
    return {"Statement": list(statements)} | ({"Version": version} if version else {})


def allow(action: Any = "*", resource: Any = "*", **more: Any) -> Json:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: Any = "*", resource: Any = "*", **more: Any) -> Json:
    return {"Effect": "Deny", "Action": action, "Resource": resource, **more}


def ask(
    action: str,
    resource: str = "*",
    *,
    by: Json | None = None,
    owner: str | None = "111122223333",
    identity: list[Json] | None = None,
    bucket: Json | None = None,
    boundary: Json | None = None,
    passed: Json | None = None,
    context: dict[str, list[str]] | None = None,
) -> Json:
    """A request; `bucket` is the policy of the resource, `passed` that of the session."""
    return {
        "principal": by or user(),
        "identity": identity or [],
        "boundary": boundary,
        "session": passed,
        "resource_policy": bucket,
        "resource_account": owner,
        "action": action,
        "resource": resource,
        "context": context or {},
    }
