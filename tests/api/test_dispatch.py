"""The dispatcher and the completion bridge: cancellation, disconnects, bodies in pieces, failures of Python itself."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import random
import zlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from orcas.s3.store import ClientDisconnectedError, DamagedObjectError, Store

from .conftest import App

if TYPE_CHECKING:
    from orcas.engine import Core, Request

KIB = 1024
MIB = 1024 * KIB


@pytest.mark.parametrize("size", [0, 1000, 64 * KIB, 64 * KIB + 1, 5 * MIB])
@pytest.mark.parametrize("pieces", [1, 7, 60])
async def test_bodies_arrive_in_any_number_of_pieces(app: App, size: int, pieces: int) -> None:
    content = os.urandom(size)
    assert (await app.call("PUT", "/bucket/k", content, pieces=pieces)).status == 200
    got = await app.call("GET", "/bucket/k")
    assert (got.status, got.body, got.headers["content-length"]) == (200, content, str(size))


@pytest.mark.parametrize("size", [1000, 5 * MIB])
async def test_a_client_that_goes_away_stores_nothing(app: App, size: int) -> None:
    for kept in (1, 3):
        exchange = app.exchange("PUT", "/bucket/k", os.urandom(size), pieces=5)
        exchange.incoming[kept:] = [{"type": "http.disconnect"}]
        await app.run(exchange)
        assert exchange.status == 0
        assert (await app.call("GET", "/bucket/k")).status == 404


@pytest.mark.parametrize("size", [5, 1000, 64 * KIB, 5 * MIB])
async def test_chunked_bodies_with_trailers(app: App, size: int) -> None:
    content = os.urandom(size)

    def framed(crc: int) -> bytes:
        parts = [content[at : at + 70_000] for at in range(0, size, 70_000)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        value = base64.b64encode(crc.to_bytes(4, "big"))
        return chunks + b"0\r\nx-amz-checksum-crc32:" + value + b"\r\n\r\n"

    headers = {
        "content-encoding": "gzip,aws-chunked",
        "x-amz-decoded-content-length": str(size),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    right, wrong = framed(zlib.crc32(content)), framed(zlib.crc32(content) ^ 1)
    refused = await app.call("PUT", "/bucket/k", wrong, pieces=9, headers=headers, trailing=True)
    assert (refused.status, b"<Code>BadDigest</Code>" in refused.body) == (400, True)
    assert (await app.call("GET", "/bucket/k")).status == 404
    short = await app.call("PUT", "/bucket/k", right[:-40], pieces=9, headers=headers, trailing=True)
    assert short.status == 400
    assert (await app.call("GET", "/bucket/k")).status == 404
    stored = await app.call("PUT", "/bucket/k", right, pieces=9, headers=headers, trailing=True)
    assert stored.status == 200
    got = await app.call("GET", "/bucket/k")
    assert (got.body, got.headers["content-encoding"]) == (content, "gzip")


async def test_keys_of_customers_are_for_connections_that_keep_secrets(app: App) -> None:
    prefix, key = "server-side-encryption-customer", bytes(32)
    md5 = hashlib.md5(key, usedforsecurity=False).digest()
    values = {"algorithm": "AES256", "key": base64.b64encode(key).decode(), "key-md5": base64.b64encode(md5).decode()}
    headers = {f"x-amz-{prefix}-{name}": value for name, value in values.items()}
    of_source = {f"x-amz-copy-source-{prefix}-{name}": value for name, value in values.items()}
    must = b"must be made over a secure connection"
    refused = await app.call("PUT", "/bucket/k", b"body", headers=headers, secure=False)
    assert (refused.status, b"<Code>InvalidRequest</Code>" in refused.body, must in refused.body) == (400, True, True)
    assert (await app.call("PUT", "/bucket/k", b"body", headers=headers)).status == 200
    for method, more in (("GET", headers), ("HEAD", headers), ("PUT", of_source | {"x-amz-copy-source": "bucket/k"})):
        assert (await app.call(method, "/bucket/k", headers=more, secure=False)).status == 400
    assert (await app.call("GET", "/bucket/k", headers=headers)).body == b"body"
    # Whatever needs no such key passes.
    assert (await app.call("PUT", "/bucket/plain", b"body", secure=False)).status == 200


async def test_a_body_is_not_received_before_the_verdict(app: App) -> None:
    refused = await app.call("PUT", "/missing/k", b"x" * 1000, pieces=2)
    assert (refused.status, refused.received, refused.closes) == (404, 0, True)


async def test_a_download_stops_when_the_client_goes_away(app: App) -> None:
    content = os.urandom(20 * MIB)
    await app.call("PUT", "/bucket/k", content, pieces=64)
    exchange = app.exchange("GET", "/bucket/k")

    async def leave(message: dict[str, Any]) -> None:
        if len(exchange.body) > MIB and exchange.incoming[-1]["type"] == "http.request":
            exchange.incoming.append({"type": "http.disconnect"})
            waiting.set()
        await asyncio.sleep(0)

    # The client's `receive` waits forever after its last message, so this event wakes it.
    waiting = asyncio.Event()
    receive = exchange.receive

    async def receive_or_wait() -> dict[str, Any]:
        if exchange.received == len(exchange.incoming):
            await waiting.wait()
        return await receive()

    exchange.on_send = leave
    await app.dispatcher(exchange.scope, receive_or_wait, exchange.send)
    assert MIB < len(exchange.body) < len(content)
    assert content.startswith(exchange.body)


class SlowCore:
    """A core whose only request is answered when nobody waits for it any more."""

    def __init__(self) -> None:
        self.completed: list[tuple[int, object]] = []
        self.reader, self.writer = os.pipe()
        self.slot = -1
        self.started = asyncio.Event()

    def fileno(self) -> int:
        return self.reader

    def start(self, request: object, body: bytes, slot: int) -> None:
        self.slot = slot
        self.started.set()

    def drain(self) -> list[tuple[int, object]]:
        os.read(self.reader, 1)
        completed, self.completed = self.completed, []
        return completed

    def abandon(self) -> None:
        self.completed.append((self.slot, "too late"))
        os.write(self.writer, b"1")


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_request_that_takes_long_is_abandoned_when_nobody_waits_for_it(leaves: bool) -> None:
    core = SlowCore()
    store = Store(cast("Core", core), MIB)
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    running = asyncio.ensure_future(store.run_in_pieces(cast("Request", core), receive))
    await core.started.wait()
    if leaves:
        left.set()
    else:
        running.cancel()
    with pytest.raises(ClientDisconnectedError if leaves else asyncio.CancelledError):
        await running
    # Its slot is free once the core has noticed.
    while store._free != [core.slot]:
        await asyncio.sleep(0)
    store.close()
    os.close(core.reader)
    os.close(core.writer)


async def test_a_copy_that_is_hashed_is_answered_like_any_other(app: App) -> None:
    content = os.urandom(5 * MIB)
    await app.call("PUT", "/bucket/k", content, pieces=7)
    headers = {"x-amz-copy-source": "bucket/k", "x-amz-checksum-algorithm": "SHA256"}
    copied = await app.call("PUT", "/bucket/copy", headers=headers)
    digest = base64.b64encode(hashlib.sha256(content).digest())
    assert (copied.status, b"<ChecksumSHA256>" + digest in copied.body) == (200, True)
    assert (await app.call("GET", "/bucket/copy")).body == content


async def test_a_cancel_storm_never_crosses_answers(app: App) -> None:
    bodies = {n: f"content of {n} ".encode() * (1 + n * 40) for n in range(64)}
    for n, body in bodies.items():
        await app.call("PUT", f"/bucket/k{n}", body)
    chance = random.Random(7)

    async def one(n: int) -> None:
        if n % 3:
            got = await app.call("GET", f"/bucket/k{n}")
            assert got.body == bodies[n]
        else:
            put = await app.call("PUT", f"/bucket/k{n}", bodies[n], pieces=3)
            assert put.status == 200

    for _ in range(20):
        tasks = [asyncio.ensure_future(one(chance.choice(list(bodies)))) for _ in range(100)]
        for task in chance.sample(tasks, 50):
            asyncio.get_running_loop().call_later(chance.random() * 0.01, task.cancel)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), result
    for n, body in bodies.items():
        assert (await app.call("GET", f"/bucket/k{n}")).body == body
    store: Store = app.dispatcher._store
    assert sorted(store._free) == list(range(len(store._waiting)))


async def test_more_bodies_than_memory_wait_for_each_other(app: App) -> None:
    contents = [os.urandom(3 * MIB) for _ in range(12)]
    puts = [app.call("PUT", f"/bucket/k{n}", content, pieces=30) for n, content in enumerate(contents)]
    assert [put.status for put in await asyncio.gather(*puts)] == [200] * 12
    gets = await asyncio.gather(*(app.call("GET", f"/bucket/k{n}") for n in range(12)))
    assert [get.body for get in gets] == contents


async def test_announced_bodies_of_which_nothing_comes_hold_up_nobody(app: App) -> None:
    silent = [app.exchange("PUT", f"/bucket/k{n}", bytes((n % 2) * 5 * MIB or 60_000)) for n in range(400)]
    for exchange in silent:
        exchange.incoming.clear()
    waiting = [asyncio.create_task(app.run(exchange)) for exchange in silent]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(20):
        for size in (1000, 5 * MIB):
            assert (await app.call("PUT", "/bucket/k", os.urandom(size), pieces=7)).status == 200
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert all(task.cancelled() for task in waiting)


async def test_a_failing_handler_answers_and_closes(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("expected by this test")

    monkeypatch.setattr(app.dispatcher._store, "run", fail)
    failed = await app.call("GET", "/bucket/k")
    assert (failed.status, failed.closes) == (500, True)
    assert b"<Code>InternalError</Code>" in failed.body
    assert b"expected by this test" not in failed.body
    # On a loaded machine, asyncio and the server also log what took long.
    (line,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert (line.levelname, line.getMessage()) == ("ERROR", "Request failed")
    assert "expected by this test" in caplog.text, "the traceback"
    fields: dict[str, object] = line.orcas()  # type: ignore[attr-defined]
    assert fields["request_id"] == failed.headers["x-amz-request-id"]
    assert (fields["operation"], fields["bucket"], fields["key"]) == ("GetObject", "bucket", "k")


async def test_a_damaged_piece_breaks_the_response_off(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(MIB)
    await app.call("PUT", "/bucket/k", content, pieces=4)
    store = app.dispatcher._store
    real = store.next_piece
    calls = 0

    async def damaged(download: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise DamagedObjectError("expected by this test")
        return await real(download)

    monkeypatch.setattr(store, "next_piece", damaged)
    exchange = app.exchange("GET", "/bucket/k")
    with pytest.raises(DamagedObjectError):
        await app.run(exchange)
    assert 0 < len(exchange.body) < len(content)


async def test_closing_with_commits_pending_answers_them(app: App) -> None:
    puts = [asyncio.ensure_future(app.call("PUT", f"/bucket/k{n}", b"x" * 500)) for n in range(200)]
    await asyncio.sleep(0.005)
    await asyncio.to_thread(app.core.close)
    statuses = {put.status for put in await asyncio.wait_for(asyncio.gather(*puts), 10)}
    assert statuses <= {200, 503}
    late = await app.call("PUT", "/bucket/late", b"x")
    assert (late.status, b"<Code>ServiceUnavailable</Code>" in late.body) == (503, True)
