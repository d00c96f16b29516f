"""Versions: the cost of a new version beside an overwrite, and of a page of current keys beside long histories."""

from __future__ import annotations

import hashlib

import load
from figures import Figure, Plan, ratios
from index import Filler
from processes import Orcas, scratch
from small import cpu_per_request, make_bucket, unique

# Keys of a page.
KEYS = 1000
_ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def make_versioned_bucket(orcas: Orcas, name: str) -> None:
    make_bucket(orcas, name)
    headers = {"content-length": str(len(_ENABLED))}
    digest = hashlib.sha256(_ENABLED).hexdigest()
    load.exchange(
        orcas.address, orcas.signer().request("PUT", f"/{name}", {"versioning": ""}, headers, digest) + _ENABLED
    )


def puts(plan: Plan) -> list[Figure]:
    """Figure version-put."""
    rounds, count = plan.size(25, 3), plan.size(4000, 500)
    microseconds: dict[str, list[float]] = {"plain": [], "versioned": []}
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "plain")
        make_versioned_bucket(orcas, "versioned")
        written = 0
        for round_number in range(-1, rounds):
            # Reclamation of what one bucket left may run while the other is measured.
            for bucket, found in sorted(microseconds.items(), reverse=round_number % 2 == 0):
                signer = orcas.signer()
                numbers = range(written, written + count)
                used = cpu_per_request(orcas, [signer.put(f"/{bucket}/{n % KEYS:016x}", unique(n)) for n in numbers])
                written += count
                if round_number >= 0:
                    found.append(used)
    what = "server CPU of a durable 1 KiB PUT of a new version ÷ an overwrite, 16 connections"
    detail = {"microseconds": microseconds, "requests": count, "durability": "sync"}
    return [Figure("version-put", what, ratios(microseconds["versioned"], microseconds["plain"]), 1.15, detail=detail)]


def page_of(orcas: Orcas, bucket: str) -> bytes:
    """A request for all keys of a bucket."""
    return orcas.signer().get(f"/{bucket}", {"list-type": "2", "max-keys": str(KEYS)})


def measure_pages(plan: Plan, orcas: Orcas, milliseconds: dict[str, list[float]]) -> None:
    """Adds the CPU time of a page of each bucket, in interleaved rounds."""
    for warm in [True] + [False] * plan.size(15, 3):
        for bucket, found in milliseconds.items():
            page = page_of(orcas, bucket)
            if warm and load.exchange(orcas.address, page).body.count(b"<Key>") != KEYS:
                raise RuntimeError(f"a page of {bucket} is not whole")
            used = cpu_per_request(orcas, [page] * 50)
            if not warm:
                found.append(used / 1000)


def lists(plan: Plan) -> list[Figure]:
    """Figure version-list."""
    times = plan.size(1000, 20)
    milliseconds: dict[str, list[float]] = {"once": [], "often": []}
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            for bucket in milliseconds:
                make_versioned_bucket(orcas, bucket)
        filler = Filler(plan, data)
        filler.run("once", KEYS, "--size", "16")
        said = filler.run("often", KEYS, "--size", "16", "--times", str(times))
        with Orcas(data) as orcas:
            measure_pages(plan, orcas, milliseconds)
    what = f"server CPU of a page of 1,000 keys with {times} versions each ÷ with 1"
    detail = {"milliseconds": milliseconds, "filled": said}
    return [Figure("version-list", what, ratios(milliseconds["often"], milliseconds["once"]), 1.2, detail=detail)]
