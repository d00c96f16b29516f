"""Copies at another server: how late they are, how fast what exists goes over, and what rules cost a PUT."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import load
from figures import Figure, Plan, ratios
from imports import environment, quiet
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Orcas, scratch
from small import cpu_per_request, make_bucket, unique
from streams import followed
from versions import make_versioned_bucket

_RATE, _LENGTH = 500, 4096
_OBJECTS, _SYNCED = 20_000, 5_000
_LOOK_SECONDS, _DEADLINE_SECONDS = 0.05, 600


def lag(plan: Plan) -> list[Figure]:
    """Figure replication-lag."""
    rounds, count = plan.size(7, 1), plan.size(10 * _RATE, 100)
    late: list[float] = []
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "here", settings=UNSCRUBBED) as here,
        Orcas(directory / "there", settings=UNSCRUBBED) as there,
    ):
        _join(here, there, "events", "events")
        for number in range(rounds + 1):
            came, answered = followed(here, there, number, count, _RATE, _LENGTH)
            took = [max(0.0, came[key] - at) * 1000 for key, at in answered.items()]
            # The first round fills caches.
            if number:
                late.append(statistics.quantiles(took, n=100)[98])
    what = f"p99 of the time from the answer to a PUT of 4 KiB until its copy is an event there, {_RATE} a second"
    return [Figure("replication-lag", what, late, 2000, unit="ms", detail={"puts": count})]


def rate(plan: Plan) -> list[Figure]:
    """Figure replication-rate."""
    rounds, objects, synced = plan.size(3, 1), plan.size(_OBJECTS, 200), plan.size(_SYNCED, 100)
    took: dict[str, list[float]] = {"replication": [], "sync": []}
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "here", settings=UNSCRUBBED) as here,
        Orcas(directory / "there", settings=UNSCRUBBED) as there,
    ):
        for bucket, count in (("many", objects), ("few", synced)):
            make_versioned_bucket(here, bucket)
            signer = here.signer()
            load.run(here.address, (signer.put(f"/{bucket}/{n:016x}", unique(n)) for n in range(count)))
        _target(here, there)
        for number in range(rounds):
            to = f"copied-{number}"
            make_versioned_bucket(there, to)
            make_bucket(there, f"synced-{number}")
            begun = time.perf_counter()
            _rule(here, "many", to, existing=True)
            _wait(here, to)
            took["replication"].append((time.perf_counter() - begun) / objects)
            load.exchange(here.address, here.signer().request("DELETE", "/many", {"replication": ""}))
            files = directory / "files"
            begun = time.perf_counter()
            for places in (
                ["s3://few", str(files), *quiet(here)],
                [str(files), f"s3://synced-{number}", *quiet(there)],
            ):
                subprocess.run([sys.executable, "-m", "awscli", "s3", "sync", *places], env=environment(), check=True)
            took["sync"].append((time.perf_counter() - begun) / synced)
            shutil.rmtree(files)
    times = {name: [seconds * 1e6 for seconds in values] for name, values in took.items()}
    what = f"rate of copies of {objects:,} objects of 1 KiB ÷ `aws s3 sync` of {synced:,} to a directory and from it"
    return [Figure("replication-rate", what, ratios(took["sync"], took["replication"]), 5, True, detail=times)]


def puts(plan: Plan) -> list[Figure]:
    """Figures replication-put, replication-put-other and replication-put-beside. Nothing is copied: the target is gone."""
    rounds, count = plan.size(15, 3), plan.size(4000, 500)
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "here", settings=UNSCRUBBED) as here,
        Orcas(directory / "alone", settings=UNSCRUBBED) as alone,
    ):
        servers = {"alone": alone, "plain": here, "matched": here, "other": here}
        for bucket, server in servers.items():
            make_versioned_bucket(server, bucket)
        with Orcas(directory / "there") as there:
            _target(here, there)
            for bucket, prefix in (("matched", ""), ("other", "another/")):
                make_versioned_bucket(there, bucket)
                _rule(here, bucket, bucket, prefix=prefix)
        microseconds: dict[str, list[float]] = {bucket: [] for bucket in servers}
        copying: dict[str, list[float]] = {bucket: [] for bucket in servers}
        for number in range(-1, rounds):
            for bucket in servers if number % 2 else reversed(servers):
                server, first = servers[bucket], (number + 1) * count
                signer = server.signer()
                requests = [signer.put(f"/{bucket}/{n:016x}", unique(n)) for n in range(first, first + count)]
                server.settle()
                before = _python_ns(server)
                used = cpu_per_request(server, requests)
                if number >= 0:
                    microseconds[bucket].append(used)
                    copying[bucket].append((_python_ns(server) - before) / count / 1000)
    return [
        Figure(
            name,
            f"server CPU of a 1 KiB PUT in a bucket {what}, copies apart",
            ratios(microseconds[bucket], microseconds[without]),
            goal,
            detail={"microseconds": microseconds, "threads of Python": copying},
        )
        for name, what, bucket, without, goal in (
            ("replication-put-other", "with a rule that does not match ÷ without", "other", "plain", 1.01),
            ("replication-put", "with a rule that matches ÷ without", "matched", "plain", 1.05),
            ("replication-put-beside", "beside those ÷ at a server without rules", "plain", "alone", 1.01),
        )
    ]


def _python_ns(server: Orcas) -> int:
    """CPU time of the threads of Python, which are called as the process is: those of replication are among them."""
    threads = Path(f"/proc/{server.pid}/task")
    name = (threads / str(server.pid) / "comm").read_text()
    python = (thread for thread in threads.iterdir() if (thread / "comm").read_text() == name)
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in python)


def _target(here: Orcas, there: Orcas) -> None:
    key = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    here.admin("PUT", "replication/targets", {"name": "there", "url": there.url, "private": True, **key})


def _rule(here: Orcas, bucket: str, to: str, **order: object) -> None:
    here.admin("POST", "replication/rules", {"bucket": bucket, "target": "there", "to": to, **order})


def _join(here: Orcas, there: Orcas, bucket: str, to: str) -> None:
    make_versioned_bucket(here, bucket)
    make_versioned_bucket(there, to)
    _target(here, there)
    _rule(here, bucket, to)


def _wait(here: Orcas, to: str) -> None:
    """Until everything that existed is copied.

    Raises:
        RuntimeError: it is not in time.
    """
    until = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < until:
        routes = [route for route in here.admin("GET", "replication")["routes"] if route["to"] == to]
        if routes and routes[0]["walk"] is not None and routes[0]["walk"]["done"]:
            return
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError("not everything was copied")
