"""How fast lifecycle rules remove half of the objects of a bucket, and what a client that writes notices of it."""

from __future__ import annotations

import base64
import hashlib
import statistics
import time
import zlib
from collections.abc import Callable
from typing import Any

import load
from figures import Figure, Plan, ratios
from index import Filler
from processes import UNSCRUBBED, Orcas, scratch
from small import cpu_per_request, make_bucket, unique

_POLL_SECONDS = 0.05
_BESIDE_SECONDS_MAX = 20.0
# Keys are `data/` and scattered hexadecimal digits, so these are half of them, spread over the bucket's whole history.
_DUE = "01234567"
_RULES = "".join(
    f"<Rule><ID>{digit}</ID><Filter><Prefix>data/{digit}</Prefix></Filter><Status>Enabled</Status>"
    "<Expiration><Date>2001-01-01T00:00:00Z</Date></Expiration></Rule>"
    for digit in _DUE
)
_DOCUMENT = f"<LifecycleConfiguration>{_RULES}</LifecycleConfiguration>".encode()
_SETTINGS = UNSCRUBBED | {"ORCAS_LIFECYCLE_INTERVAL_SEC": "0"}


class _Run:
    """One run of all rules, watched over the admin API."""

    def __init__(self, orcas: Orcas) -> None:
        self._orcas = orcas
        self._looked = time.monotonic()
        self._job = orcas.admin("POST", "lifecycle/run")

    def goes_on(self) -> bool:
        """Whether it does, as of a moment ago."""
        if self._job["state"] == "running" and time.monotonic() - self._looked > _POLL_SECONDS:
            self._looked = time.monotonic()
            self._job = self._orcas.admin("GET", f"jobs/{self._job['id']}")
        return bool(self._job["state"] == "running")

    def wait(self) -> dict[str, Any]:
        """The job when it has ended."""
        while self.goes_on():
            time.sleep(_POLL_SECONDS)
        if self._job["state"] != "done":
            raise RuntimeError(f"the run did not end well: {self._job}")
        return self._job


def _put_rules(orcas: Orcas, bucket: str, document: bytes) -> None:
    checksum = base64.b64encode(zlib.crc32(document).to_bytes(4, "big")).decode()
    headers = {"content-length": str(len(document)), "x-amz-checksum-crc32": checksum}
    digest = hashlib.sha256(document).hexdigest()
    request = orcas.signer().request("PUT", f"/{bucket}", {"lifecycle": ""}, headers, digest)
    load.exchange(orcas.address, request + document)
    orcas.settle()


def _make_due(orcas: Orcas, bucket: str) -> None:
    """Give a bucket rules by which half of its objects have expired."""
    _put_rules(orcas, bucket, _DOCUMENT)


def _many_rules() -> bytes:
    """As many rules as a bucket may have, with as many tags each as an object may have."""
    shared = "".join(f"<Tag><Key>key-{n}</Key><Value>value</Value></Tag>" for n in range(9))
    rules = "".join(
        f"<Rule><ID>{n}</ID><Filter><And><Prefix/>{shared}<Tag><Key>own</Key><Value>{n}</Value></Tag></And></Filter>"
        "<Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>"
        for n in range(1000)
    )
    return f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>".encode()


def requests(plan: Plan) -> list[Figure]:
    """Figure rules-get-cpu."""
    rounds, count, objects = plan.size(9, 3), plan.size(4000, 500), 1000
    microseconds: dict[str, list[float]] = {"plain": [], "ruled": []}
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=_SETTINGS) as orcas:
        for bucket in microseconds:
            make_bucket(orcas, bucket)
            signer = orcas.signer()
            load.run(orcas.address, [signer.put(f"/{bucket}/{n:016x}", unique(n)) for n in range(objects)])
        _put_rules(orcas, "ruled", _many_rules())
        for warm in [True] + [False] * rounds:
            for bucket, found in microseconds.items():
                signer = orcas.signer()
                used = cpu_per_request(orcas, [signer.get(f"/{bucket}/{n % objects:016x}") for n in range(count)])
                if not warm:
                    found.append(used)
    what = "server CPU of a GET of 1 KiB, 1,000 lifecycle rules with ten tags each ÷ a bucket without rules"
    detail = {"microseconds": microseconds, "requests": count}
    return [Figure("rules-get-cpu", what, ratios(microseconds["ruled"], microseconds["plain"]), 1.1, detail=detail)]


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
    rounds, objects = plan.size(3, 1), plan.size(1_000_000, 5_000)
    rates: list[float] = []
    p99_ms: dict[str, list[float]] = {"alone": [], "beside": []}
    removed: list[int] = []
    for _ in range(rounds):
        with scratch(plan.directory) as directory:
            data = directory / "data"
            with Orcas(data) as orcas:
                for bucket in ("small", "idle", "busy"):
                    make_bucket(orcas, bucket)
            filler = Filler(plan, data)
            filler.run("idle", objects)
            filler.run("busy", objects)
            with Orcas(data, settings=_SETTINGS) as orcas:
                _make_due(orcas, "idle")
                job = _Run(orcas).wait()
                removed.append(job["result"]["versions"])
                rates.append(removed[-1] / job["seconds"])
                _make_due(orcas, "busy")
                ends = time.monotonic() + plan.size(10, 1)
                alone = _puts(orcas, 0, lambda ends=ends: time.monotonic() < ends)
                run, began = _Run(orcas), time.monotonic()
                beside = _puts(
                    orcas, len(alone), lambda run=run, began=began: (
                        time.monotonic() - began < _BESIDE_SECONDS_MAX and run.goes_on()
                    )
                )  # fmt: skip
                # What is left when the PUTs end goes fast.
                removed.append(run.wait()["result"]["versions"])
                p99_ms["alone"].append(_p99_ms(alone))
                p99_ms["beside"].append(_p99_ms(beside))
    if not all(0.4 < count / objects < 0.6 for count in removed):
        raise RuntimeError(f"about half of {objects} objects should have expired: {removed}")
    detail = {"p99_ms": p99_ms, "durability": "sync", "objects": objects, "removed": removed}
    what = "p99 of a 1 KiB PUT while rules remove half of a bucket's objects ÷ alone"
    return [
        Figure("expire-rate", "objects of 1 KiB that rules remove while nobody writes", rates, 50_000.0, at_least=True,
               unit="/s", detail=detail),
        Figure("expire-p99", what, ratios(p99_ms["beside"], p99_ms["alone"]), 2.0, detail=detail),
    ]  # fmt: skip
