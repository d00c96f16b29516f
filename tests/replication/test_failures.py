"""Targets that fail, refuse, lie or are away: what is not copied waits or is an exception, and nothing storms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fixtures.servers.tampering import Answer
from tests.fixtures.targets import keys_of
from tests.fixtures.waiting import wait_until
from tests.replication.conftest import Pair, admin, contents, status_of


def status(code: int, name: str) -> Callable[[str, str, Answer], None]:
    def change(method: str, _path: str, answer: Answer) -> None:
        answer.status, answer.body = code, b"" if method == "HEAD" else f"<Error><Code>{name}</Code></Error>".encode()
        answer.headers = [("content-length", str(len(answer.body)))]

    return change


def cut(_method: str, _path: str, answer: Answer) -> None:
    answer.headers, answer.cut = [("content-length", "9")], True


@pytest.mark.parametrize("case", [status(500, "InternalError"), status(503, "SlowDown"), status(429, "SlowDown"), cut])
def test_a_target_that_fails_gets_few_requests_and_everything_afterwards(
    pair: Pair, case: Callable[[str, str, Answer], None]
) -> None:
    pair.replicate()
    pair.tamper = case
    for number in range(100):
        pair.put(f"k{number:03}")
    assert wait_until(lambda: bool(pair.route()["failing"]))
    assert wait_until(lambda: sum(pair.route()["failures"].values()) > 2)
    assert status_of(pair.here, pair.bucket, "k099") == "PENDING"
    # At most one for each thread, then one at a time.
    assert len(pair.sent()) <= 4 + sum(pair.route()["failures"].values())
    pair.tamper = lambda *_: None
    assert pair.settled()
    assert pair.route()["exceptions"] == []
    assert contents(pair.there.client(), pair.bucket) == contents(pair.here.client(), pair.bucket)
    assert status_of(pair.here, pair.bucket, "k099") == "COMPLETED"


def refuses(*keys: str) -> Callable[[str, str, Answer], None]:
    def change(method: str, path: str, answer: Answer) -> None:
        if method == "PUT" and path.rpartition("/")[2] in keys:
            status(403, "AccessDenied")(method, path, answer)

    return change


def lies(method: str, path: str, answer: Answer) -> None:
    if method == "PUT" and path.endswith("/bad"):
        answer.without("etag")
        answer.headers.append(("etag", f'"{"0" * 32}"'))


def answers(code: int, name: str) -> Callable[[str, str, Answer], None]:
    def change(method: str, path: str, answer: Answer) -> None:
        if method == "PUT" and path.endswith("/bad"):
            status(code, name)(method, path, answer)

    return change


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (refuses("bad"), "AccessDenied"),
        (lies, "OtherETag"),
        (answers(412, "PreconditionFailed"), "PreconditionFailed"),
        (answers(409, "OperationAborted"), "OperationAborted"),
        (answers(405, "MethodNotAllowed"), "MethodNotAllowed"),
    ],
)
def test_what_is_refused_is_an_exception_and_the_rest_goes_on(
    pair: Pair, case: Callable[[str, str, Answer], None], code: str
) -> None:
    pair.replicate()
    pair.tamper = case
    for key in ("a", "bad", "c"):
        pair.put(key)
    assert pair.settled()
    (problem,) = pair.route()["exceptions"]
    assert (problem["key"], problem["code"], problem["tries"]) == ("bad", code, 1)
    assert pair.route()["failures"] == {code: 1}
    assert [status_of(pair.here, pair.bucket, key) for key in ("a", "bad", "c")] == ["COMPLETED", "FAILED", "COMPLETED"]
    # It is tried again when somebody says so, or later.
    pair.tamper = lambda *_: None
    assert admin(pair.here, "POST", "replication/retry", {"bucket": pair.bucket}) == {"retried": 1}
    assert wait_until(lambda: not pair.route()["exceptions"])
    assert wait_until(lambda: status_of(pair.here, pair.bucket, "bad") == "COMPLETED")
    assert keys_of(pair.there.client(), pair.bucket) == ["a", "bad", "c"]


def test_a_later_state_replaces_an_exception(pair: Pair) -> None:
    pair.replicate()
    pair.tamper = refuses("k")
    pair.put("k", b"1")
    assert pair.settled()
    assert len(pair.route()["exceptions"]) == 1
    pair.tamper = lambda *_: None
    pair.put("k", b"2")
    assert pair.settled()
    assert pair.route()["exceptions"] == []
    assert contents(pair.there.client(), pair.bucket)["k"][0] == b"2"


def test_keys_that_a_proxy_may_resolve_are_exceptions(pair: Pair) -> None:
    pair.replicate()
    pair.put("a/../b")
    pair.put("b")
    assert pair.settled()
    assert [problem["code"] for problem in pair.route()["exceptions"]] == ["UnsafeKey"]
    assert keys_of(pair.there.client(), pair.bucket) == ["b"]


def test_both_sides_are_compared(pair: Pair) -> None:
    pair.replicate(markers=True)
    for key in ("changed", "lost", "same", "said", "tagged"):
        pair.put(key, Metadata={"a": "1"}, Tagging="t=1")
    assert pair.settled()

    def verify(*, metadata: bool) -> list[tuple[str, str]]:
        page = admin(
            pair.here, "POST", "replication/verify", {"bucket": pair.bucket, "after": "", "metadata": metadata}
        )
        assert page["done"]
        return [(it["key"], it["differs"]) for it in page["differences"]]

    assert verify(metadata=True) == []
    client = pair.there.client()
    client.put_object(Bucket=pair.bucket, Key="changed", Body=b"other")
    client.put_object(Bucket=pair.bucket, Key="more", Body=b"other")
    client.put_object(Bucket=pair.bucket, Key="said", Body=b"x", Metadata={"a": "2"}, Tagging="t=1")
    client.put_object_tagging(Bucket=pair.bucket, Key="tagged", Tagging={"TagSet": []})
    client.delete_object(Bucket=pair.bucket, Key="lost")
    of_content = [("changed", "content"), ("lost", "missing"), ("more", "only there")]
    assert verify(metadata=False) == of_content
    assert verify(metadata=True) == [*of_content, ("said", "metadata"), ("tagged", "tags")]
