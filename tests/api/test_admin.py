"""The admin API: who may use it, its answers, and that nobody else reaches the store."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.fixtures.signing import UNSIGNED, Identity, presigned_url, signed_headers

from orcas.admin.pins import PINS_MAX
from orcas.admin.tools import MOUNT
from orcas.engine import Core
from orcas.serving.app import OpenStore, Orcas
from orcas.settings.config import resolve

URL = "http://localhost:9000"
ROOT = Identity("somebody", "somebodys-secret", "us-east-1")
STRANGER = Identity("stranger", "somebodys-secret", "us-east-1")
WRONG = Identity("somebody", "another-secret-key", "us-east-1")
LATE = Identity("somebody", "somebodys-secret", "us-east-1", clock_offset=-dt.timedelta(hours=1))
OTHER_SERVICE = Identity("somebody", "somebodys-secret", "us-east-1", service="ec2")

Answered = tuple[int, dict[str, Any]]
Signed = tuple[str, str, dict[str, str], bytes]


class Client:
    """Sends requests to the application, signed or not."""

    def __init__(self, app: Orcas) -> None:
        self.app = app
        self.received = 0

    async def send(self, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> Answered:
        status, answered, content = await self.exchange(method, target, headers, body)
        if status == 200 and answered[b"content-type"] == b"application/octet-stream":
            # A file for a standby.
            return status, {"bytes": content}
        assert answered[b"content-type"] == b"application/json"
        return status, json.loads(content)

    async def exchange(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """The answer to any request, also one of S3."""
        path, _, query = target.partition("?")
        given = {"host": "localhost:9000", **{name.lower(): value for name, value in headers.items()}}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": None, "server": None,
        }  # fmt: skip
        answer: list[Any] = []

        async def receive() -> dict[str, Any]:
            self.received += 1
            if self.received > 1:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": body, "more_body": False}

        async def reply(message: Any) -> None:
            answer.append(message)

        self.received = 0
        await self.app(scope, receive, reply)
        content = b"".join(message.get("body", b"") for message in answer[1:])
        return answer[0]["status"], dict(answer[0]["headers"]), content

    async def ask(self, method: str, path: str, order: Any = None, identity: Identity = ROOT) -> Answered:
        return await self.send(*self.signed(method, path, order, identity))

    def signed(self, method: str, path: str, order: Any = None, identity: Identity = ROOT) -> Signed:
        body = b"" if order is None else json.dumps(order).encode()
        target = f"{MOUNT}/{path}"
        nonce = {"x-amz-orcas-nonce": secrets.token_hex(8)}
        headers = signed_headers(identity, method, URL + target, {"content-type": "application/json", **nonce}, body)
        return method, target, headers, body

    async def finished(self, answered: Answered) -> dict[str, Any]:
        status, job = answered
        assert status == 202, job
        for _ in range(200):
            if job["state"] != "running":
                return job
            await asyncio.sleep(0.05)
            _, job = await self.ask("GET", f"jobs/{job['id']}")
        raise AssertionError(job)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    keys = {"root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key}
    app = Orcas(resolve({"data": str(tmp_path / "data"), **keys}, ambient=False).settings)
    async with app.router.lifespan_context(app):
        yield Client(app)


ROUTES = [
    ("GET", "stats"), ("GET", "scrub"), ("POST", "gc"), ("POST", "compact"), ("POST", "lifecycle/run"),
    ("POST", "check"), ("POST", "move"), ("GET", "jobs/x"), ("DELETE", "jobs/x"), ("POST", "backup-pins"),
    ("PUT", "backup-pins/x"), ("DELETE", "backup-pins/x"), ("GET", "nothing"), ("GET", ""),
]  # fmt: skip


class Untouched:
    """A core whose keys may be used, but not its store."""

    def __init__(self, core: Core) -> None:
        self.authenticate_admin = core.authenticate_admin

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked before the verdict")


def untouched(store: OpenStore) -> OpenStore:
    """The same with an untouched core."""
    assert store.parts is not None
    core: Any = Untouched(store.parts.core)
    return replace(store, parts=replace(store.parts, core=core))


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_nobody_but_root_gets_past_the_door(client: Client, method: str, path: str) -> None:
    store = client.app.store
    assert store is not None
    client.app.store = untouched(store)
    target = f"{MOUNT}/{path}"
    url = URL + target
    good = signed_headers(ROOT, method, url, {})
    forged = [
        {},
        {"authorization": "Basic c29tZWJvZHk6c2VjcmV0"},
        {"authorization": "AWS4-HMAC-SHA256 nonsense"},
        signed_headers(WRONG, method, url, {}),
        signed_headers(STRANGER, method, url, {}),
        signed_headers(LATE, method, url, {}),
        signed_headers(OTHER_SERVICE, method, url, {}),
        signed_headers(ROOT, "PATCH", url, {}),
        signed_headers(ROOT, method, URL + "/_orcas/admin/elsewhere", {}),
        signed_headers(ROOT, method, url, {}, payload=UNSIGNED),
        signed_headers(ROOT, method, url, {}, payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        good | {"x-amz-meta-more": "unsigned"},
    ]
    for headers in forged:
        status, answer = await client.send(method, target, headers, b"{}")
        assert status == 403, headers
        assert set(answer["error"]) == {"code", "message"}
        # Nothing of the body was read.
        assert client.received == 0
    presigned = presigned_url(ROOT, method, url).removeprefix(URL)
    assert (await client.send(method, presigned, {}))[0] == 403
    # The head is right, but the body is a different one.
    assert (await client.send(method, target, good, b"{}"))[0] == 403
    client.app.store = store


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/_orcas/%61dmin/stats", 403),
        ("/_orcas/admin%2Fstats", 403),
        ("/_orcas/admin/../admin/stats", 403),
        ("/_orcas//admin/stats", 404),
        ("/_orcas/health/../admin/stats", 404),
    ],
)
async def test_no_spelling_leads_around_the_door(client: Client, path: str, status: int) -> None:
    assert (await client.send("GET", path, {}))[0] == status


async def test_what_is_asked_is_answered(client: Client) -> None:
    status, stats = await client.ask("GET", "stats")
    assert status == 200
    assert stats["buckets"] == []
    assert (await client.ask("GET", "scrub"))[0] == 200
    assert (await client.ask("GET", "nothing"))[0] == 404
    assert (await client.ask("PUT", "stats"))[0] == 405
    for kind in ("gc", "compact"):
        job = await client.finished(await client.ask("POST", kind))
        assert (job["kind"], job["state"], job["error"]) == (kind, "done", None)
        assert job["result"]["blobs"] == 0
    checked = await client.finished(await client.ask("POST", "check", {"threads": 1, "bytes_per_sec": 1 << 30}))
    assert checked["result"]["clean"]
    assert (await client.ask("DELETE", f"jobs/{checked['id']}"))[0] == 200
    assert (await client.ask("GET", f"jobs/{checked['id']}"))[0] == 404


@pytest.mark.parametrize(
    "order", [{"threads": 0}, {"threads": 65}, {"threads": "many"}, {"bytes_per_sec": -1}, {"more": 1}, []]
)
async def test_orders_that_are_none_are_refused(client: Client, order: Any) -> None:
    status, answer = await client.ask("POST", "check", order)
    assert status == 400
    assert answer["error"]["code"] == "InvalidRequest"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"threads": 65}, "threads must be a number of at most 64, not 65."),
        ({"threads": "many"}, "threads must be a whole number, not 'many'."),
        ({"bytes_per_sec": -1}, "bytes_per_sec must be a number of at least 0, not -1."),
    ],
)
async def test_a_number_that_is_out_of_range_is_named_with_it(client: Client, order: Any, message: str) -> None:
    _, answer = await client.ask("POST", "check", order)
    assert answer["error"]["message"] == message


async def test_a_move_is_answered_or_refused(client: Client) -> None:
    place = {"bucket": "none", "prefix": "a/"}
    status, answer = await client.ask("POST", "move", {"source": place, "target": {**place, "prefix": "b/"}})
    assert (status, answer["error"]["code"]) == (404, "NoSuchBucket")
    for order in ({}, {"source": place}, {"source": place, "target": {**place, "prefix": "x" * 1025}}, {"more": 1}):
        status, answer = await client.ask("POST", "move", order)
        assert (status, answer["error"]["code"]) == (400, "InvalidRequest")


async def test_holds_are_taken_renewed_let_go_and_bounded(client: Client) -> None:
    taken = [await client.ask("POST", "backup-pins") for _ in range(PINS_MAX)]
    assert {status for status, _ in taken} == {201}
    names = [file["name"] for file in taken[0][1]["files"]]
    assert {"store.keys", "store.keys.copy"} < set(names)
    assert any(name.startswith("log/") for name in names)
    assert (await client.ask("POST", "backup-pins"))[0] == 503
    pin = taken[0][1]["id"]
    assert (await client.ask("PUT", f"backup-pins/{pin}"))[0] == 200
    assert (await client.ask("DELETE", f"backup-pins/{pin}"))[0] == 200
    assert (await client.ask("PUT", f"backup-pins/{pin}"))[0] == 404
    assert (await client.ask("POST", "backup-pins"))[0] == 201


async def test_a_captured_order_does_not_take_effect_again(client: Client) -> None:
    captured = client.signed("POST", "backup-pins")
    status, pin = await client.send(*captured)
    assert status == 201
    for _ in range(2):
        status, answer = await client.send(*captured)
        assert (status, answer["error"]["code"]) == (409, "RequestReplayed")
    # Nor with the same signature spelled differently, nor after its body was changed.
    method, target, headers, body = captured
    spaced = {name: value.replace(", ", ",   ") for name, value in headers.items()}
    assert (await client.send(method, target, spaced, body))[0] == 409
    assert (await client.send(method, target, headers, b"{}"))[0] == 409
    renewal = client.signed("PUT", f"backup-pins/{pin['id']}")
    assert [(await client.send(*renewal))[0] for _ in range(2)] == [200, 409]
    release = client.signed("DELETE", f"backup-pins/{pin['id']}")
    assert [(await client.send(*release))[0] for _ in range(2)] == [200, 409]
    # Reads may be repeated: they change nothing, and pollers sign the same request within a second.
    look = client.signed("GET", "stats")
    assert [(await client.send(*look))[0] for _ in range(3)] == [200] * 3


async def test_an_order_from_before_the_start_is_refused(client: Client) -> None:
    early = replace(ROOT, clock_offset=-dt.timedelta(minutes=2))
    status, answer = await client.ask("POST", "gc", identity=early)
    assert (status, answer["error"]["code"]) == (409, "RequestReplayed")
    assert (await client.ask("GET", "stats", identity=early))[0] == 200


async def test_a_body_that_is_too_long_is_not_taken(client: Client) -> None:
    body = b" " * (65 * 1024)
    headers = signed_headers(ROOT, "POST", f"{URL}{MOUNT}/check", {}, payload=hashlib.sha256(body).hexdigest())
    assert (await client.send("POST", f"{MOUNT}/check", headers, body))[0] == 413
