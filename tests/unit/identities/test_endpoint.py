"""The application of IAM's query protocol, without a store: what it receives before anybody has signed it."""

from __future__ import annotations

import asyncio
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
    ("headers", "query", "expected"),
    [
        ([FORM], b"", True),
        ([(FORM[0], b"APPLICATION/X-WWW-FORM-URLENCODED")], b"", True),
        ([FORM], b"delete", False),
        ([(FORM[0], b"multipart/form-data; boundary=x")], b"", False),
        ([], b"", False),
    ],
)
def test_which_requests_are_of_the_query_protocol(headers: Any, query: bytes, expected: bool) -> None:
    assert is_query({"headers": headers, "query_string": query}) is expected


async def test_bodies_that_do_not_end_take_a_bounded_part() -> None:
    """Of one client sixteen, of all 128; when they end, others have their place."""
    app, going = endpoint(), asyncio.Event()

    async def receive() -> Any:
        await going.wait()
        return {"type": "http.disconnect"}

    async def call(client: str) -> Sent:
        sent = Sent()
        await app(scope_of(client), receive, sent)
        return sent

    waiting = [asyncio.create_task(call("192.0.2.1")) for _ in range(16)]
    await asyncio.sleep(0)
    assert b"<Code>Throttling</Code>" in (await call("192.0.2.1")).body
    waiting += [asyncio.create_task(call(f"192.0.2.{2 + number // 16}")) for number in range(112)]
    await asyncio.sleep(0)
    assert (await call("198.51.100.1")).status == 400
    going.set()
    assert {sent.status for sent in await asyncio.gather(*waiting)} == {0}
    assert (await call("198.51.100.1")).status == 0


async def test_a_long_body_is_refused_before_its_end() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * (BODY_MAX // 2 + 1), "more_body": True}

    sent = Sent()
    await endpoint()(scope_of("192.0.2.1"), receive, sent)
    assert sent.status == 413
    assert b"RequestEntityTooLarge" in sent.body
