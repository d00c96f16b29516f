"""Streams of events: parsing in Rust, the time from a commit to its event, and what many listeners cost."""

from __future__ import annotations

import multiprocessing
import queue
import selectors
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

import boto3

import criterion
import load
from figures import Figure, Plan
from orcas import events
from orcas.process.descriptors import allow_files
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Orcas, scratch
from signing import REGION
from small import make_bucket, unique

# Group of the Criterion suite `events` that parses, and half of what the report has.
SSE_GROUP = "server-sent events"
_SSE_GOALS_NS = {"large": 227.0, "middle": 144.5, "small": 97.0}
_STREAM = "1 MiB of Orcas"
_STREAM_BYTES = 1 << 20
_RATE = 1000
_WRITERS = 16
_LISTENERS = 1000
_EVENT = b"event: s3\n"
_PIECE_BYTES = 1 << 18
_DEADLINE_SECONDS = 120


def parsing(plan: Plan) -> list[Figure]:
    """Figures sse-large-ns to sse-rate."""
    taken: dict[str, list[float]] = {}
    for _ in range(plan.size(9, 1)):
        with scratch(plan.directory) as directory:
            _, medians = criterion.run(plan, directory, "events", SSE_GROUP)
            for (_, name), median in medians.items():
                taken.setdefault(name, []).append(median)
    figures = [
        Figure(f"sse-{name}-ns", f"a {name} server-sent event parsed in Rust", taken[name], goal, unit="ns")
        for name, goal in _SSE_GOALS_NS.items()
    ]
    rates = [_STREAM_BYTES / nanoseconds for nanoseconds in taken[_STREAM]]
    what = "bytes of a stream of Orcas, parsed in one piece"
    return [*figures, Figure("sse-rate", what, rates, 1.0, at_least=True, unit="GB/s")]


def latency(plan: Plan) -> list[Figure]:
    """Figures events-p50 and events-p99."""
    rounds, count = plan.size(9, 1), plan.size(5 * _RATE, 100)
    waited: list[list[float]] = []
    rates: list[float] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "events")
        for number in range(rounds + 1):
            came, answered = followed(orcas, orcas, number, count)
            took = [max(0.0, came[key] - at) * 1000 for key, at in answered.items()]
            # The first round fills caches.
            if number:
                waited.append(took)
                rates.append(count / (max(answered.values()) - min(answered.values())))
    detail = {"puts_a_second": rates, "puts": count, "connections": _WRITERS, "durability": "sync"}
    return [
        Figure(
            f"events-p{percent}",
            f"time from the answer to a PUT until a listener has its event, {_RATE} a second",
            [statistics.quantiles(took, n=100)[percent - 1] for took in waited],
            goal,
            unit="ms",
            detail=detail,
        )
        for percent, goal in ((50, 5.0), (99, 25.0))
    ]


def followed(
    orcas: Orcas, heard: Orcas, number: int, count: int, rate: int = _RATE, length: int = 1024
) -> tuple[dict[str, float], dict[str, float]]:
    """When each event came from `heard` and when each PUT was answered, by key, on the clock that all processes share."""
    client = boto3.client(
        "s3",
        endpoint_url=heard.url,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    came: dict[str, float] = {}
    first, complete = threading.Event(), threading.Event()
    listener = events.listen(client, buckets=["events"], prefix=f"{number}/")

    def follow() -> None:
        for event in listener:
            came.setdefault(str(event.key), time.monotonic())
            first.set()
            if len(came) == count + 1:
                complete.set()

    following = threading.Thread(target=follow)
    with Writer(orcas, [f"{number}/{n:08x}" for n in range(count)], rate, length) as writer:
        with listener:
            following.start()
            deadline = time.monotonic() + _DEADLINE_SECONDS
            # A stream begins with new events, so it may not be open before one has come.
            while not first.wait(0.2) and time.monotonic() < deadline:
                load.exchange(orcas.address, orcas.signer().put(f"/events/{number}/first", unique(number)))
            answered = writer.answered()
            arrived = complete.wait(_DEADLINE_SECONDS)
        following.join()
    if not arrived:
        raise RuntimeError("not every event came")
    return came, answered


class Writer:
    """A process that writes keys of the bucket `events` at a constant rate, in PUTs a second.

    It is forked before there are threads, and waits until it is asked.
    """

    def __init__(self, orcas: Orcas, keys: list[str], rate: int = _RATE, length: int = 1024) -> None:
        signer = orcas.signer()
        requests = [(key, signer.put(f"/events/{key}", unique(n, length))) for n, key in enumerate(keys)]
        context = multiprocessing.get_context("fork")
        self._answers: Any = context.Queue()
        self._go = context.Event()
        self._process = context.Process(target=_write, args=(orcas.address, requests, rate, self._go, self._answers))
        self._count = len(keys)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.join(1)
        self._process.kill()

    def answered(self) -> dict[str, float]:
        """Write, and say when each key was answered.

        Raises:
            RuntimeError: not every write succeeded in time.
        """
        self._go.set()
        try:
            times: dict[str, float] = self._answers.get(timeout=_DEADLINE_SECONDS)
        except queue.Empty:
            times = {}
        if len(times) != self._count:
            raise RuntimeError(f"{len(times)} of {self._count} PUTs were answered")
        return times


def _write(address: load.Address, requests: list[tuple[str, bytes]], rate: int, go: Any, answers: Any) -> None:
    answered: dict[str, float] = {}
    go.wait(_DEADLINE_SECONDS)
    start = time.monotonic() + 0.2

    def work(first: int) -> None:
        with load.connect(address) as connection:
            for at in range(first, len(requests), _WRITERS):
                time.sleep(max(0.0, start + at / rate - time.monotonic()))
                key, request = requests[at]
                connection.send(request)
                head, _ = connection.read()
                if head.startswith(b"HTTP/1.1 200"):
                    answered[key] = time.monotonic()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(answered)


def listeners(plan: Plan) -> list[Figure]:
    """Figures listener-memory and listener-cpu."""
    allow_files()
    rounds, count, puts = plan.size(5, 1), plan.size(_LISTENERS, 10), plan.size(200, 20)
    memory, cpu = [], []
    with scratch(plan.directory) as directory:
        for number in range(rounds):
            # A new server each time: memory that was returned to the allocator would hide what a stream takes.
            with Orcas(directory / str(number), settings=UNSCRUBBED) as orcas:
                make_bucket(orcas, "events")
                _spent(orcas, [], "warm", puts)
                alone, before = _spent(orcas, [], "alone", puts), orcas.rss_mib()
                opened = [load.connect(orcas.address) for _ in range(count)]
                try:
                    for connection in opened:
                        connection.send(orcas.signer().get("/_orcas/events"))
                    orcas.settle()
                    memory.append((orcas.rss_mib() - before) * 1024 / count)
                    followed = _spent(orcas, opened, "followed", puts)
                finally:
                    for connection in opened:
                        connection.sock.close()
                cpu.append((followed - alone) / 1000 / (puts * count))
    detail = {"listeners": count, "events": puts, "durability": "sync"}
    return [
        Figure("listener-memory", f"memory of each of {count} listeners", memory, 64, unit="KiB", detail=detail),
        Figure(
            "listener-cpu", f"server CPU of an event for each of {count} listeners", cpu, 20, unit="µs", detail=detail
        ),
    ]


def _spent(orcas: Orcas, opened: Sequence[load.Connection], name: str, puts: int) -> int:
    """Nanoseconds of the server for PUTs one after the other, whose events all of `opened` receive."""
    signer = orcas.signer()
    requests = [signer.put(f"/events/{name}-{n:08x}", unique(n)) for n in range(puts)]
    orcas.settle()
    before = orcas.cpu_ns()
    writing = threading.Thread(target=load.run, args=(orcas.address, requests, 1))
    writing.start()
    _drain(opened, puts * len(opened))
    writing.join()
    orcas.settle()
    return orcas.cpu_ns() - before


def _drain(opened: Sequence[load.Connection], expected: int) -> None:
    """Read until so many events have come.

    Raises:
        RuntimeError: they did not come in time, or a stream ended.
    """
    ends = {connection.sock: b"" for connection in opened}
    came, deadline = 0, time.monotonic() + _DEADLINE_SECONDS
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.sock, selectors.EVENT_READ, connection.sock)
        while came < expected:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{came} of {expected} events came")
            for key, _ in selector.select(1):
                piece = key.data.recv(_PIECE_BYTES)
                if not piece:
                    raise RuntimeError("a stream ended")
                seen = ends[key.data] + piece
                came += seen.count(_EVENT)
                # Shorter than the line, which is therefore never counted twice.
                ends[key.data] = seen[1 - len(_EVENT) :]
