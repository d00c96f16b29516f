"""The space that deletions return, what that costs concurrent writers, and the cost of checking the whole store."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, allocated_bytes, scratch, tool
from small import make_bucket

_MIB = 1 << 20
_GIB = 1 << 30
_BODY_BYTES = 16 << 10
_CONNECTIONS = 16
# How many signed requests are in memory at a time.
_BATCH = 1000
# Background reclamation leaves alone files that are more than half live; these wait for an explicit compaction.
_DEAD_SHARE = 0.45
_POLL_SECONDS = 0.1
_BESIDE_SECONDS_MAX = 20.0


def _key(number: int) -> str:
    return f"{number:08x}"


def _puts(orcas: Orcas, bucket: str, numbers: range) -> list[bytes]:
    signer = orcas.signer()
    return [signer.put(f"/{bucket}/{_key(number)}", os.urandom(_BODY_BYTES)) for number in numbers]


def _fill(orcas: Orcas, bucket: str, numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, _BATCH):
        batch = range(first, min(first + _BATCH, numbers.stop))
        load.run(orcas.address, _puts(orcas, bucket, batch), _CONNECTIONS)


def _delete(orcas: Orcas, bucket: str, numbers: list[int]) -> None:
    """The keys in an order that is unrelated to their location."""
    random.Random(len(numbers)).shuffle(numbers)
    for first in range(0, len(numbers), _BATCH):
        keys = [_key(number) for number in numbers[first : first + _BATCH]]
        load.exchange(orcas.address, orcas.signer().delete_all(bucket, keys))


def freed(plan: Plan) -> list[Figure]:
    """Figures space-served and space-stopped: the size of a store after most of it was deleted."""
    rounds, objects = plan.size(3, 1), plan.size(200_000, 5_000)
    ratio: dict[str, list[float]] = {"served": [], "stopped": []}
    detail: dict[str, list[Any]] = {"live_mib": [], "before_mib": [], "compacted": [], "files": []}
    for _ in range(rounds):
        with scratch(plan.directory) as directory:
            data = directory / "data"
            with Orcas(data) as orcas:
                make_bucket(orcas, "small")
                _fill(orcas, "small", range(objects))
                detail["before_mib"].append(allocated_bytes(data) / _MIB)
                _delete(orcas, "small", [number for number in range(objects) if number % 10])
                detail["compacted"].append(tool(data, "compact"))
                live = _live_bytes(data, objects // 10)
                ratio["served"].append(allocated_bytes(data) / live)
                detail["files"].append(tool(data, "stats")["files"])
            ratio["stopped"].append(allocated_bytes(data) / live)
            detail["live_mib"].append(live / _MIB)
    what = "space after 90 % of 200,000 objects of 16 KiB are deleted and `orcas compact` ÷ live bytes"
    detail["objects"] = [objects]
    return [
        Figure("space-served", f"{what}, server running", ratio["served"], 1.15, detail=detail),
        Figure("space-stopped", f"{what}, server stopped", ratio["stopped"], 1.15),
    ]


def _live_bytes(data: Path, objects: int) -> int:
    bucket = tool(data, "stats", "--bucket", "small")["buckets"][0]
    if bucket["objects"] != objects or bucket["stored"] != objects * _BODY_BYTES:
        raise RuntimeError(f"{objects} objects of {_BODY_BYTES} bytes should be left: {bucket}")
    return objects * _BODY_BYTES


def beside_compaction(plan: Plan) -> list[Figure]:
    """Figures compact-puts and compact-rate: each round compacts new dead bytes."""
    rounds, objects, puts = plan.size(3, 1), plan.size(120_000, 20_000), plan.size(60_000, 4_000)
    rates: dict[str, list[float]] = {"alone": [], "beside": []}
    reclaimed: list[float] = []
    jobs: list[Any] = []
    written = 0
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        data = directory / "data"
        for number in range(rounds):
            bucket = f"round-{number}"
            make_bucket(orcas, bucket)
            _fill(orcas, bucket, range(objects))
            _delete(orcas, bucket, [n for n in range(objects) if int(n * _DEAD_SHARE) != int((n + 1) * _DEAD_SHARE)])
            orcas.settle()
            # Prepared requests take the same memory with and without the compaction.
            ready = _puts(orcas, bucket, range(objects + written, objects + written + puts))
            written += puts
            # Fewer alone; those beside the compaction should last about as long as it does.
            some = len(ready) // 4
            rates["alone"].append(_rate(orcas, ready[:some], None)[0])
            orcas.settle()
            before = allocated_bytes(data)
            job = _Compaction(orcas)
            job.await_rewriting()
            rate, done = _rate(orcas, ready[some:], job)
            ended = job.wait()
            rates["beside"].append(rate)
            given_back = before + done * _BODY_BYTES - allocated_bytes(data)
            reclaimed.append(given_back / ended["seconds"] / 1e6)
            jobs.append(ended)
            ready.clear()
    detail = {"puts_a_second": rates, "durability": "sync", "connections": _CONNECTIONS, "jobs": jobs}
    what = "16 KiB PUTs a second beside a compaction ÷ without one"
    return [
        Figure("compact-puts", what, ratios(rates["beside"], rates["alone"]), 0.6, at_least=True, detail=detail),
        Figure("compact-rate", "given back by that compaction", reclaimed, 50.0, at_least=True, unit="MB/s"),
    ]


class _Compaction:
    """A compaction by the server, watched over the admin API."""

    def __init__(self, orcas: Orcas) -> None:
        self._orcas = orcas
        self._looked = time.monotonic()
        self._job = self._ask("POST", "compact")

    def runs(self) -> bool:
        """Whether it was still running a moment ago."""
        if self._job["state"] == "running" and time.monotonic() - self._looked > _POLL_SECONDS:
            self._looked = time.monotonic()
            self._job = self._ask("GET", f"jobs/{self._job['id']}")
        return bool(self._job["state"] == "running")

    def await_rewriting(self) -> None:
        """Return when it moves bytes, after it has found and condemned the dead ones."""
        already = self._moved()
        while self.runs() and self._moved() == already:
            time.sleep(_POLL_SECONDS / 10)
        if not self.runs():
            raise RuntimeError(f"the compaction ended before anything was put beside it: {self._job}")

    def _moved(self) -> int:
        return int(self._job["progress"]["total"]["moved_bytes"])

    def wait(self) -> dict[str, Any]:
        """Wait for the end of the job, and return it."""
        while self.runs():
            time.sleep(_POLL_SECONDS)
        if self._job["state"] != "done":
            raise RuntimeError(f"the compaction did not end well: {self._job}")
        return self._job

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        request = self._orcas.signer().request(method, f"/_orcas/admin/{path}", None, {"content-length": "0"})
        said: dict[str, Any] = json.loads(load.exchange(self._orcas.address, request).body)
        return said


def _rate(orcas: Orcas, ready: list[bytes], compaction: _Compaction | None) -> tuple[float, int]:
    """Requests per second while there are requests and the compaction runs, and their number."""
    sent = 0
    started = time.perf_counter()

    def requests() -> Iterator[bytes]:
        nonlocal sent
        for request in ready:
            if time.perf_counter() - started > _BESIDE_SECONDS_MAX or not (compaction is None or compaction.runs()):
                return
            sent += 1
            yield request

    load.run(orcas.address, requests(), _CONNECTIONS)
    return sent / (time.perf_counter() - started), sent


def check(plan: Plan) -> list[Figure]:
    """Figure fsck: a whole store is verified, and read by cat, both from the disk."""
    rounds, length = plan.size(3, 1), 256 * _MIB if plan.quick else plan.check_gib * _GIB
    seconds: dict[str, list[float]] = {"fsck": [], "cat": []}
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            make_bucket(orcas, "large")
            make_bucket(orcas, "small")
            # A tenth of the bytes is in small objects.
            _fill(orcas, "small", range(length // 10 // _BODY_BYTES))
            left = length - length // 10
            while left > 0:
                size = min(left, _GIB)
                load.upload(orcas.address, orcas.signer().put_head(f"/large/{left}", size), size)
                left -= size
        files = sorted(path for path in data.rglob("*") if path.is_file())
        for number in range(rounds):
            # The order alternates between rounds.
            for name in seconds if number % 2 else reversed(seconds):
                _forget(files)
                started = time.perf_counter()
                if name == "fsck":
                    _checked(data)
                else:
                    subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)  # noqa: S607 - any cat will do
                seconds[name].append(time.perf_counter() - started)
        read = sum(path.stat().st_size for path in files)
    what = f"fsck of a store of {length / _GIB:.3g} GiB ÷ cat of its files, both from the disk"
    detail = {"seconds": seconds, "bytes": read, "page_cache": "dropped before each", "threads": 2}
    return [Figure("fsck", what, ratios(seconds["fsck"], seconds["cat"]), 1.5, detail=detail)]


def _checked(data: Path) -> None:
    report = tool(data, "fsck")
    if not report["clean"] or report["findings_total"]:
        raise RuntimeError(f"a store that nothing happened to has findings: {report}")


def _forget(files: list[Path]) -> None:
    """Drop the page cache of these files, and of no others."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
