"""How fast lifecycle rules remove objects while nobody else writes, and what a client that writes notices of it."""

from __future__ import annotations

import base64
import hashlib
import json
import statistics
import time
import zlib
from collections.abc import Callable
from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch
from small import make_bucket, unique

_CONNECTIONS = 16
# Requests that are signed and in memory at a time.
_BATCH = 1000
_POLL_SECONDS = 0.05
_BESIDE_SECONDS_MAX = 20.0
# Everything expired long ago.
_RULES = (
    b"<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Expiration><Date>2001-01-01T00:00:00Z</Date>"
    b"</Expiration></Rule></LifecycleConfiguration>"
)
_SETTINGS = UNSCRUBBED | {"ORCAS_LIFECYCLE_INTERVAL_SEC": "0"}


class _Run:
    """One run of all rules, watched over the admin API."""

    def __init__(self, orcas: Orcas) -> None:
        self._orcas = orcas
        self._looked = time.monotonic()
        self._job = self._ask("POST", "lifecycle/run")

    def goes_on(self) -> bool:
        """Whether it does, as of a moment ago."""
        if self._job["state"] == "running" and time.monotonic() - self._looked > _POLL_SECONDS:
            self._looked = time.monotonic()
            self._job = self._ask("GET", f"jobs/{self._job['id']}")
        return bool(self._job["state"] == "running")

    def wait(self) -> dict[str, Any]:
        """The job when it has ended."""
        while self.goes_on():
            time.sleep(_POLL_SECONDS)
        if self._job["state"] != "done":
            raise RuntimeError(f"the run did not end well: {self._job}")
        return self._job

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        request = self._orcas.signer().request(method, f"/_orcas/admin/{path}", None, {"content-length": "0"})
        said: dict[str, Any] = json.loads(load.exchange(self._orcas.address, request).body)
        return said


def _fill(orcas: Orcas, bucket: str, objects: int) -> None:
    """A bucket with so many objects of 1 KiB, which its rules expire."""
    make_bucket(orcas, bucket)
    for first in range(0, objects, _BATCH):
        signer = orcas.signer()
        numbers = range(first, min(first + _BATCH, objects))
        load.run(orcas.address, [signer.put(f"/{bucket}/{n:08x}", unique(n)) for n in numbers], _CONNECTIONS)
    checksum = base64.b64encode(zlib.crc32(_RULES).to_bytes(4, "big")).decode()
    headers = {"content-length": str(len(_RULES)), "x-amz-checksum-crc32": checksum}
    request = orcas.signer().request(
        "PUT", f"/{bucket}", {"lifecycle": ""}, headers, hashlib.sha256(_RULES).hexdigest()
    )
    load.exchange(orcas.address, request + _RULES)
    orcas.settle()


def _puts(orcas: Orcas, first: int, go_on: Callable[[], bool]) -> list[int]:
    """PUTs of new keys, one after the other, while `go_on()`. The nanoseconds that each took."""
    took: list[int] = []
    while go_on():
        signer = orcas.signer()
        numbers = range(first + len(took), first + len(took) + 50)
        took += load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in numbers], connections=1)
    return took


def _p99_ms(took_ns: list[int]) -> float:
    return statistics.quantiles(took_ns, n=100)[98] / 1e6


def expirations(plan: Plan) -> list[Figure]:
    """Figures expire-rate and expire-p99."""
    rounds, objects = plan.size(3, 1), plan.size(200_000, 5_000)
    rates: list[float] = []
    p99_ms: dict[str, list[float]] = {"alone": [], "beside": []}
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=_SETTINGS) as orcas:
        make_bucket(orcas, "small")
        written = 0
        for number in range(rounds):
            _fill(orcas, f"idle-{number}", objects)
            job = _Run(orcas).wait()
            if job["result"]["versions"] != objects:
                raise RuntimeError(f"{objects} objects should have expired: {job}")
            rates.append(objects / job["seconds"])
            _fill(orcas, f"busy-{number}", objects)
            ends = time.monotonic() + plan.size(10, 1)
            alone = _puts(orcas, written, lambda ends=ends: time.monotonic() < ends)
            written += len(alone)
            run, began = _Run(orcas), time.monotonic()
            beside = _puts(
                orcas, written, lambda run=run, began=began: (
                    time.monotonic() - began < _BESIDE_SECONDS_MAX and run.goes_on()
                )
            )  # fmt: skip
            written += len(beside)
            # What is left when the PUTs end goes fast.
            run.wait()
            p99_ms["alone"].append(_p99_ms(alone))
            p99_ms["beside"].append(_p99_ms(beside))
    detail = {"p99_ms": p99_ms, "durability": "sync", "objects": objects}
    what = "p99 of a 1 KiB PUT while rules remove objects ÷ alone"
    return [
        Figure("expire-rate", "objects of 1 KiB that rules remove while nobody writes", rates, 50_000.0, at_least=True,
               unit="/s", detail={"objects": objects}),
        Figure("expire-p99", what, ratios(p99_ms["beside"], p99_ms["alone"]), 2.0, detail=detail),
    ]  # fmt: skip
