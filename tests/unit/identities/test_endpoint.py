"""The application of IAM's query protocol, without a store: what it receives before anybody has signed it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from orcas.iam.endpoint import BODY_MAX, QueryEndpoint, is_query

FORM = (b"content-type", b"application/x-www-form-urlencoded; charset=utf-8")


def endpoint() -> QueryEndpoint:
    return QueryEndpoint(cast("Any", None), cast("Any", None))


def scope_of(client: str) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "headers": [FORM], "client": (client, 1), "query_string": b""}


class Sent:
    """What a client got."""

    def __init__(self) -> None:
        self.status, self.body = 0, b""

    async def __call__(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


@pytest.mark.parametrize(
    ("method", "headers", "query", "expected"),
    [
        ("POST", [FORM], b"", True),
        ("POST", [(FORM[0], b"APPLICATION/X-WWW-FORM-URLENCODED")], b"", True),
        ("POST", [FORM], b"delete", False),
        ("POST", [(FORM[0], b"multipart/form-data; boundary=x")], b"", False),
        ("POST", [], b"", False),
        ("POST", [], b"Action=GetCallerIdentity", True),
        ("GET", [], b"Version=2011-06-15&Action=GetCallerIdentity", True),
        ("GET", [], b"prefix=Action=x", False),
        ("GET", [FORM], b"", False),
        ("PUT", [], b"Action=GetCallerIdentity", False),
    ],
)
def test_which_requests_are_of_the_query_protocol(method: str, headers: Any, query: bytes, expected: bool) -> None:
    assert is_query({"method": method, "headers": headers, "query_string": query}) is expected


async def test_a_long_body_is_refused_before_its_end() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * (BODY_MAX // 2 + 1), "more_body": True}

    sent = Sent()
    await endpoint()(scope_of("192.0.2.1"), receive, sent)
    assert sent.status == 413
    assert b"RequestEntityTooLarge" in sent.body
