"""Stalled uploads, unread downloads and streams of events, and how they affect other clients."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import load
from figures import Figure, Plan, ratios
from orcas.process.descriptors import allow_files
from processes import UNSCRUBBED, Orcas, scratch
from signing import Signer
from small import make_bucket
from versions import make_versioned_bucket

_STALLED = 1_000
# The bytes that a stalled upload declares, and those that it sends.
_STALLS = ((64 << 10, (64 << 10) - 1), (16 << 20, 400_000))
_UNREAD = 300
_UNREAD_BYTES = 64 << 20
_LISTENERS = 1_000
# Keys of one DeleteObjects, as many and as long as S3 allows.
_DELETED = 1_000
_KEY_BYTES = 1_024
# A probe starts whether or not the previous one has been answered.
_PROBE_SECONDS = 0.02
_KIB, _MIB = 1 << 10, 1 << 20
# More than one per cent of the requests, so that the 99th percentile shows it when all connections wait once.
_CONNECTIONS = {_KIB: 16, _MIB: 4}


def p99(seconds: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(seconds, n=100)[98]


def stalled_uploads(plan: Plan) -> list[Figure]:
    """Figures put-1kib-stalled and put-1mib-stalled."""
    rounds, count = plan.size(3, 1), plan.size(_STALLED, 100)
    names = {_KIB: "put-1kib-stalled", _MIB: "put-1mib-stalled"}
    requests = {_KIB: plan.size(1_000, 100), _MIB: plan.size(200, 20)}
    alone: dict[int, list[float]] = {size: [] for size in names}
    beside: dict[int, list[float]] = {size: [] for size in names}
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        for _ in range(rounds):
            for size in names:
                alone[size].append(p99(_puts(orcas, size, requests[size])))
            with _elsewhere(_stall, orcas, count):
                # The server has read what they sent; from now on they stall.
                orcas.settle()
                for size in names:
                    beside[size].append(p99(_puts(orcas, size, requests[size])))
            orcas.settle()
    made = []
    for size, name in names.items():
        what = f"p99 of a durable PUT of {size >> 10} KiB beside {count:,} stalled uploads ÷ alone"
        detail = {"alone_seconds": alone[size], "beside_seconds": beside[size], "requests": requests[size]}
        made.append(Figure(name, what, ratios(beside[size], alone[size]), 3.0, detail=detail))
    return made


def unread_downloads(plan: Plan) -> list[Figure]:
    """Figure connect-unread: from a new connection to its first byte, while many unread large downloads begin."""
    rounds, count, seconds = plan.size(5, 1), plan.size(_UNREAD, 30), plan.size(6, 2)
    alone: list[float] = []
    beside: list[float] = []
    worst: list[float] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        load.upload(orcas.address, orcas.signer().put_head("/small/large", _UNREAD_BYTES), _UNREAD_BYTES)
        load.run(orcas.address, [orcas.signer().put("/small/probe", os.urandom(_KIB))], connections=1)
        for _ in range(rounds):
            orcas.settle()
            alone.append(p99(_probe(orcas, seconds / 2)))
            with _elsewhere(_leave_unread, orcas, count):
                took = _probe(orcas, seconds)
            beside.append(p99(took))
            worst.append(max(took))
    what = f"p99 from a new connection to its first byte while {count} unread downloads begin"
    detail = {"alone_seconds": alone, "slowest_seconds": worst, "download_bytes": _UNREAD_BYTES}
    return [Figure("connect-unread", what, beside, 0.3, unit="s", detail=detail)]


def deletes_with_listeners(plan: Plan) -> list[Figure]:
    """Figure get-listeners: GETs of 1 KiB while many streams send the events of one DeleteObjects."""
    allow_files()
    rounds, count, seconds = plan.size(5, 1), plan.size(_LISTENERS, 20), plan.size(8, 1)
    alone: list[float] = []
    beside: list[float] = []
    worst: list[float] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        # In a bucket with versioning, the deletion of a key that does not exist is a change, too.
        make_versioned_bucket(orcas, "small")
        load.run(orcas.address, [orcas.signer().put("/small/probe", os.urandom(_KIB))], connections=1)
        for number in range(rounds):
            orcas.settle()
            alone.append(p99(_gets(orcas, seconds / 4)))
            keys = [f"{number:04}-{at:04}-".ljust(_KEY_BYTES, "k") for at in range(_DELETED)]
            with _elsewhere(_listen, orcas, count):
                orcas.settle()
                request = orcas.signer().delete_all("small", keys)
                deleting = threading.Thread(target=load.exchange, args=(orcas.address, request))
                deleting.start()
                took = _gets(orcas, seconds)
                deleting.join()
            beside.append(p99(took) * 1000)
            worst.append(max(took) * 1000)
    what = f"p99 of a GET of 1 KiB while {count:,} streams send the events of a DeleteObjects of {_DELETED:,} keys"
    detail = {"alone_ms": [took * 1000 for took in alone], "slowest_ms": worst, "key_bytes": _KEY_BYTES}
    return [Figure("get-listeners", what, beside, 50, unit="ms", detail=detail)]


def _gets(orcas: Orcas, seconds: float) -> list[float]:
    """GETs on one connection at a steady rate. The next one is late if the last one is, so its wait counts, too."""
    request, took = orcas.signer().get("/small/probe"), list[float]()
    started = time.perf_counter()
    with load.connect(orcas.address) as connection:
        while (due := started + len(took) * _PROBE_SECONDS) < started + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.send(request)
            connection.read()
            took.append(time.perf_counter() - due)
    return took


def _puts(orcas: Orcas, size: int, count: int) -> list[float]:
    signer = orcas.signer()
    requests = (signer.put(f"/small/{size}/{os.urandom(8).hex()}", os.urandom(size)) for _ in range(count))
    return [nanoseconds / 1e9 for nanoseconds in load.run(orcas.address, requests, _CONNECTIONS[size])]


def _probe(orcas: Orcas, seconds: float) -> list[float]:
    """New connections at a steady rate, half of them for an object, half for health: seconds to the first byte."""
    signer = orcas.signer()
    requests = [signer.get("/small/probe"), b"GET /_orcas/health/live HTTP/1.1\r\nhost: x\r\n\r\n"]
    took: list[float] = []
    started = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        begun = 0
        while (now := time.perf_counter()) < started + seconds or selector.get_map():
            if begun * _PROBE_SECONDS <= now - started < seconds:
                connection = _begin(orcas.address)
                selector.register(connection, selectors.EVENT_WRITE, (now, requests[begun % 2]))
                begun += 1
            for key, events in selector.select(_PROBE_SECONDS / 4):
                since, request = key.data
                connection = key.fileobj  # type: ignore[assignment]
                if events & selectors.EVENT_WRITE:
                    connection.sendall(request)
                    selector.modify(connection, selectors.EVENT_READ, key.data)
                else:
                    if not connection.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                        raise load.UnexpectedResponseError("a probe was refused")
                    took.append(time.perf_counter() - since)
                    selector.unregister(connection)
                    connection.close()
    return took


def _begin(address: load.Address) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    if connection.connect_ex(address) not in (0, errno.EINPROGRESS):
        raise load.UnexpectedResponseError("the server refuses connections")
    return connection


@contextlib.contextmanager
def _elsewhere(
    work: Callable[[load.Address, Signer, int, Callable[[], None]], None], orcas: Orcas, count: int
) -> Iterator[None]:
    """Let another process hold connections meanwhile. It holds them on entry, and ends on exit."""
    context = multiprocessing.get_context("fork")
    begun, end = context.Event(), context.Event()

    def hold() -> None:
        begun.set()
        end.wait(120)

    process = context.Process(target=work, args=(orcas.address, orcas.signer(), count, hold))
    process.start()
    try:
        if not begun.wait(60):
            raise RuntimeError("the other clients did not begin")
        yield
    finally:
        end.set()
        process.join(30)


def _stall(address: load.Address, signer: Signer, count: int, hold: Callable[[], None]) -> None:
    held = []
    for number in range(count):
        announced, sent = _STALLS[number % len(_STALLS)]
        connection = load.connect(address)
        connection.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.send(signer.put_head(f"/small/stalled/{number}", announced) + bytes(sent))
        held.append(connection)
    hold()


def _listen(address: load.Address, signer: Signer, count: int, hold: Callable[[], None]) -> None:
    """Read everything that streams of events send."""
    opened = [load.connect(address) for _ in range(count)]
    request = signer.get("/_orcas/events")
    for connection in opened:
        connection.send(request)
    reading = threading.Thread(target=_read_all, args=(opened,), daemon=True)
    reading.start()
    hold()


def _read_all(opened: list[load.Connection]) -> None:
    buffer = bytearray(1 << 18)
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.sock, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if not key.fileobj.recv_into(buffer):  # type: ignore[union-attr]
                    return


def _leave_unread(address: load.Address, signer: Signer, count: int, hold: Callable[[], None]) -> None:
    held = [load.connect(address) for _ in range(count)]
    request = signer.get("/small/large")
    for connection in held:
        connection.send(request)
    hold()
