"""Snapshots, forks and moves of a prefix over HTTP: what a client waits for them in a bucket with many objects."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import load
from figures import Figure, Plan, ratios
from index import Filler
from processes import UNSCRUBBED, Orcas, scratch
from small import make_bucket, unique
from versions import KEYS, make_versioned_bucket, measure_pages, page_of

_SETTINGS = UNSCRUBBED | {"ORCAS_LIFECYCLE_INTERVAL_SEC": "0"}


def _ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def forks(plan: Plan) -> list[Figure]:
    """Figures snapshot, fork and fork-write."""
    return _forks(plan, make_bucket, "")


def versioned_forks(plan: Plan) -> list[Figure]:
    """Figures snapshot-versions, fork-versions and fork-write-versions."""
    return _forks(plan, make_versioned_bucket, "-versions")


def _forks(plan: Plan, make: Callable[[Orcas, str], None], suffix: str) -> list[Figure]:
    rounds, objects = plan.size(15, 2), plan.size(1_000_000, 5_000)
    times: dict[str, list[float]] = {"snapshot": [], "fork": [], "fork-write": []}
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            make(orcas, "large")
        Filler(plan, data).run("large", objects)
        with Orcas(data, settings=_SETTINGS) as orcas:
            # The admin API is loaded at its first use.
            orcas.admin("GET", "buckets/large/snapshots")
            orcas.settle()
            for number in range(rounds):
                name, body = f"fork-{number}", unique(number)
                # A change in between, so that each snapshot is a layer of its own.
                load.exchange(orcas.address, orcas.signer().put(f"/large/new-{number}", body))
                times["snapshot"].append(
                    _ms(lambda name=name: orcas.admin("POST", "buckets/large/snapshots", {"name": name}))
                )
                order = {"name": name, "snapshot": name}
                times["fork"].append(_ms(lambda order=order: orcas.admin("POST", "buckets/large/fork", order)))
                put = orcas.signer().put(f"/{name}/first", body)
                times["fork-write"].append(_ms(lambda put=put: load.exchange(orcas.address, put)))
    detail = {"objects": objects, "durability": "sync", "versioning": bool(suffix)}
    whats = {
        "snapshot": ("snapshot of the bucket, over HTTP", 50.0),
        "fork": ("fork of this snapshot, over HTTP", 50.0),
        "fork-write": ("first 1 KiB PUT into the fork", 5.0),
    }
    return [
        Figure(name + suffix, what, times[name], goal, unit="ms", detail=detail) for name, (what, goal) in whats.items()
    ]


def versioned_lists(plan: Plan) -> list[Figure]:
    """Figure snapshot-list."""
    times, changed = plan.size(200, 20), 100
    milliseconds: dict[str, list[float]] = {"plain": [], "layered": []}
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            for bucket in milliseconds:
                make_versioned_bucket(orcas, bucket)
        filler = Filler(plan, data)
        for bucket in milliseconds:
            filler.run(bucket, KEYS, "--size", "16", "--times", str(times))
        with Orcas(data, settings=_SETTINGS) as orcas:
            page = load.exchange(orcas.address, page_of(orcas, "plain")).body
            keys = re.findall(rb"<Key>([^<]*)</Key>", page)
            orcas.admin("POST", "buckets/layered/snapshots", {"name": "before"})
            for number in range(changed):
                key = keys[number * len(keys) // changed].decode()
                for bucket in milliseconds:
                    load.exchange(orcas.address, orcas.signer().put(f"/{bucket}/{key}", unique(number)))
            orcas.settle()
            measure_pages(plan, orcas, milliseconds)
    what = f"server CPU of a page of {KEYS} keys, {times} versions each, with a snapshot ÷ without"
    detail = {"milliseconds": milliseconds, "changed since": changed}
    return [Figure("snapshot-list", what, ratios(milliseconds["layered"], milliseconds["plain"]), detail=detail)]


def deleted_versions(plan: Plan) -> list[Figure]:
    """Figures deleted-get and deleted-delete."""
    rounds, versions = plan.size(3, 1), plan.size(20_000, 2_000)
    times: dict[str, list[float]] = {"first": [], "later": [], "delete": []}
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=_SETTINGS) as orcas:
        make_versioned_bucket(orcas, "deleted")
        orcas.admin("GET", "buckets/deleted/snapshots")
        for number in range(rounds):
            key = f"key-{number}"
            signer = orcas.signer()
            load.run(orcas.address, [signer.put(f"/deleted/{key}", unique(n)) for n in range(versions + 1)])
            orcas.admin("POST", "buckets/deleted/snapshots", {"name": key})
            newest = _version_ids(orcas, "deleted", key)[:versions]
            for at in range(0, versions, KEYS):
                request = orcas.signer().delete_versions("deleted", key, newest[at : at + KEYS])
                times["delete"].append(_ms(lambda request=request: load.exchange(orcas.address, request)))
            get = orcas.signer().get(f"/deleted/{key}")
            times["first"].append(_ms(lambda get=get: load.exchange(orcas.address, get)))
            times["later"].append(_ms(lambda get=get: load.exchange(orcas.address, get)))
    what = f"{versions} versions deleted by their ids above a snapshot"
    detail = {"versions": versions, "durability": "sync", "milliseconds": times}
    return [
        Figure("deleted-get", f"first GET of a key, {what}", times["first"], 50.0, unit="ms", detail=detail),
        Figure("deleted-delete", f"each DeleteObjects of 1,000 of {what}", times["delete"], 300.0, unit="ms"),
    ]


def _version_ids(orcas: Orcas, bucket: str, key: str) -> list[str]:
    """All versions of a key, newest first."""
    ids: list[str] = []
    marker: dict[str, str] = {}
    while True:
        request = orcas.signer().get(f"/{bucket}", {"versions": "", "prefix": key, **marker})
        page = load.exchange(orcas.address, request).body.decode()
        ids += re.findall(r"<VersionId>([^<]*)</VersionId>", page)
        if "<IsTruncated>true" not in page:
            return ids
        marker = {"key-marker": key, "version-id-marker": ids[-1]}


def moves(plan: Plan) -> list[Figure]:
    """Figure prefix-move."""
    rounds, objects = plan.size(9, 2), plan.size(100_000, 2_000)
    seconds: list[float] = []
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            make_bucket(orcas, "moved")
        Filler(plan, data).run("moved", objects)
        with Orcas(data, settings=_SETTINGS) as orcas:
            orcas.admin("GET", "buckets/moved/snapshots")
            places = [{"bucket": "moved", "prefix": prefix} for prefix in ("data/", "elsewhere/")]
            for number in range(rounds):
                orcas.settle()
                source, target = places[number % 2], places[1 - number % 2]
                began = time.perf_counter()
                moved = orcas.admin("POST", "move", {"source": source, "target": target, "overwrite": False})
                seconds.append(time.perf_counter() - began)
                if moved["objects"] != objects:
                    raise RuntimeError(f"{objects} objects should have moved: {moved}")
    what = "move of a prefix, over HTTP, until its answer"
    return [Figure("prefix-move", what, seconds, 1.0, unit="s", detail={"objects": objects, "durability": "sync"})]
