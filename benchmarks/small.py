"""Small objects: the server's CPU time for a GET and a durable PUT, and the latency of a PUT beside large uploads."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import load
from figures import Figure, Plan, ratios
from load import Address
from processes import UNSCRUBBED, Bare, Orcas, Process, scratch

_BODY_BYTES = 1024
_CONNECTIONS = 16
_OBJECTS = 1000
_UPLOAD_BYTES = 1 << 30
_QUICK_UPLOAD_BYTES = 64 << 20
_ALONE_SECONDS_MAX = 10.0


def unique(number: int, length: int = _BODY_BYTES) -> bytes:
    """A body that no other number has; `length` is a multiple of 8."""
    return number.to_bytes(8, "big") * (length // 8)


def make_bucket(orcas: Orcas, name: str, **settings: str) -> None:
    """CreateBucket; `settings` are those of the bucket, as `ref_level="off"`."""
    headers = {f"x-amz-orcas-{setting.replace('_', '-')}": value for setting, value in settings.items()}
    request = orcas.signer().request("PUT", f"/{name}", headers={"content-length": "0", **headers})
    load.exchange(orcas.address, request)


def answer_like(orcas: Orcas, request: bytes) -> dict[str, Any]:
    """An answer of the bare application that has the length of that of Orcas; uvicorn adds the date to both."""
    answer = load.exchange(orcas.address, request)
    headers = [(name, value) for name, value in answer.headers.items() if name != "date"]
    return {"headers": headers, "size": len(answer.body)}


def cpu_per_request(process: Process, requests: list[bytes]) -> float:
    """Microseconds of the server's CPU time, including work after its answers."""
    process.settle()
    before = process.cpu_ns()
    load.run(process.address, requests, _CONNECTIONS)
    process.settle()
    return (process.cpu_ns() - before) / len(requests) / 1000


def cpu(plan: Plan) -> list[Figure]:
    """Figures get-cpu and put-cpu."""
    rounds, count = plan.size(9, 3), plan.size(4000, 500)
    microseconds: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        signer = orcas.signer()
        load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)], _CONNECTIONS)
        answers = {
            "PUT": answer_like(orcas, signer.put("/small/probe", unique(0))),
            "GET": answer_like(orcas, signer.get("/small/probe")),
        }
        with Bare(answers) as bare:
            written = _OBJECTS
            for warm in [True] + [False] * rounds:
                signer = orcas.signer()
                gets = [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)]
                puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(written, written + count)]
                written += count
                for method, requests in (("GET", gets), ("PUT", puts)):
                    for name, process in (("orcas", orcas), ("bare", bare)):
                        used = cpu_per_request(process, requests)
                        if not warm:
                            microseconds.setdefault((method, name), []).append(used)
    made = []
    for method, name, goal in (("GET", "get-cpu", 1.8), ("PUT", "put-cpu", 3.0)):
        ours, theirs = microseconds[method, "orcas"], microseconds[method, "bare"]
        what = f"server CPU of a signed 1 KiB {method}, 16 connections ÷ bare uvicorn"
        detail = {"microseconds": {"orcas": ours, "bare": theirs}, "requests": count, "durability": "sync"}
        made.append(Figure(name, what, ratios(ours, theirs), goal, detail=detail))
    return made


def thousands(plan: Plan) -> list[Figure]:
    """Figures list-1000 and delete-1000: of 1,000 keys."""
    rounds, pages, deletes = plan.size(9, 3), plan.size(100, 10), plan.size(8, 1)
    list_ms: list[float] = []
    delete_us: list[float] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        signer = orcas.signer()
        for bucket in ("page", "deleted"):
            make_bucket(orcas, bucket)
        load.run(orcas.address, [signer.put(f"/page/{n:016x}", unique(n)) for n in range(_OBJECTS)])
        for number in range(-1, rounds):
            signer = orcas.signer()
            listed = cpu_per_request(orcas, [signer.get("/page", {"list-type": "2", "max-keys": "1000"})] * pages)
            first = (number + 2) * _OBJECTS * deletes
            names = [f"{n:016x}" for n in range(first, first + _OBJECTS * deletes)]
            load.run(orcas.address, [signer.put(f"/deleted/{name}", unique(int(name, 16))) for name in names])
            of_thousands = [names[at : at + _OBJECTS] for at in range(0, len(names), _OBJECTS)]
            deleted = cpu_per_request(orcas, [signer.delete_all("deleted", keys) for keys in of_thousands])
            if number >= 0:
                list_ms.append(listed / 1000)
                delete_us.append(deleted / _OBJECTS)
    return [
        Figure("list-1000", "server CPU of a page of 1,000 keys", list_ms, 0.5, unit="ms"),
        Figure("delete-1000", "server CPU of a key of a durable DeleteObjects of 1,000", delete_us, 6.0, unit="µs"),
    ]


def _upload(address: Address, head: bytes, length: int) -> None:
    load.upload(address, head, length)


def _p99_ms(took_ns: list[int]) -> float:
    return statistics.quantiles(took_ns, n=100)[98] / 1e6


class _SmallPuts:
    """PUTs of new keys, one after the other."""

    def __init__(self, orcas: Orcas) -> None:
        self._orcas = orcas
        self._number = 0

    def run(self, go_on: Any) -> list[int]:
        """Batches of 50 requests on one connection, while `go_on()`."""
        took: list[int] = []
        while go_on():
            signer = self._orcas.signer()
            batch = [signer.put(f"/small/{self._number + n:016x}", unique(self._number + n)) for n in range(50)]
            self._number += len(batch)
            took += load.run(self._orcas.address, batch, connections=1)
        return took


@contextlib.contextmanager
def _uploads(orcas: Orcas, count: int, length: int, round_number: int) -> Iterator[Callable[[], bool]]:
    """Upload large objects in other processes. Yields whether they still do."""
    signer = orcas.signer()
    heads = [signer.put_head(f"/small/large-{round_number}-{n}", length) for n in range(count)]
    context = multiprocessing.get_context("fork")
    uploads = [context.Process(target=_upload, args=(orcas.address, head, length)) for head in heads]
    for upload in uploads:
        upload.start()
    yield lambda: any(upload.is_alive() for upload in uploads)
    for upload in uploads:
        upload.join()
        if upload.exitcode != 0:
            raise RuntimeError("an upload failed")


def puts_beside_uploads(plan: Plan) -> list[Figure]:
    """Figure put-p99."""
    rounds, length = plan.size(3, 1), plan.size(_UPLOAD_BYTES, _QUICK_UPLOAD_BYTES)
    alone_ms, beside_ms, counts, rates = [], [], [], []
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        puts = _SmallPuts(orcas)
        for round_number in range(rounds):
            orcas.settle()
            started = time.monotonic()
            with _uploads(orcas, 2, length, round_number) as go_on:
                beside = puts.run(go_on)
                seconds = time.monotonic() - started
            orcas.settle()
            end = time.monotonic() + min(seconds, _ALONE_SECONDS_MAX)
            alone = puts.run(lambda end=end: time.monotonic() < end)
            beside_ms.append(_p99_ms(beside))
            alone_ms.append(_p99_ms(alone))
            counts.append((len(alone), len(beside)))
            rates.append(2 * length / seconds / (1 << 20))
    what = "p99 of a durable 1 KiB PUT beside two 1 GiB uploads ÷ alone"
    detail = {"alone_ms": alone_ms, "beside_ms": beside_ms, "requests": counts, "uploads_mib_a_second": rates}
    detail |= {"upload_bytes": length, "durability": "sync", "connections": 1}
    return [Figure("put-p99", what, ratios(beside_ms, alone_ms), 5.0, detail=detail)]


def gets_beside_uploads(plan: Plan) -> list[Figure]:
    """Figures get-p99, and get-p99-elsewhere of a server on the same machine that has nothing else to do."""
    rounds, length = plan.size(7, 1), plan.size(_UPLOAD_BYTES, _QUICK_UPLOAD_BYTES) // 4
    p99_ms: dict[str, list[float]] = {"alone": [], "beside": [], "elsewhere": []}
    with scratch(plan.directory) as directory, contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(Orcas(directory / name, settings=UNSCRUBBED)) for name in ("beside", "elsewhere")
        }
        for orcas in servers.values():
            make_bucket(orcas, "small")
            signer = orcas.signer()
            load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)])

        def gets(name: str) -> list[int]:
            signer = servers[name].signer()
            return load.run(servers[name].address, [signer.get(f"/small/{n:016x}") for n in range(_OBJECTS // 4)], 1)

        for round_number in range(rounds):
            servers["beside"].settle()
            p99_ms["alone"].append(_p99_ms([took for _ in range(20) for took in gets("beside")]))
            found: dict[str, list[int]] = {name: [] for name in servers}
            with _uploads(servers["beside"], 8, length, round_number) as go_on:
                while go_on():
                    for name, took in found.items():
                        took += gets(name)
            for name, took in found.items():
                p99_ms[name].append(_p99_ms(took))
    what = "p99 of a 1 KiB GET beside eight 256 MiB uploads"
    detail = {"p99_ms": p99_ms, "upload_bytes": length, "durability": "sync", "connections": 1}
    return [
        Figure("get-p99", f"{what} ÷ alone", ratios(p99_ms["beside"], p99_ms["alone"]), 3.0, detail=detail),
        Figure(
            "get-p99-elsewhere",
            f"{what} to another server of the same machine ÷ alone",
            ratios(p99_ms["elsewhere"], p99_ms["alone"]),
        ),
    ]
