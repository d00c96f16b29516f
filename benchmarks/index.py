"""A million objects: pages of a list, and the time until a server is ready when the index is behind or gone."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
from pathlib import Path

import load
from figures import Figure, Plan, ratios
from processes import Orcas, scratch
from small import cpu_per_request, make_bucket

_SMALL = 2000
_PAGES_A_ROUND = 10


class Filler:
    """The engine's tool that fills a store, in its release build."""

    def __init__(self, plan: Plan, data: Path) -> None:
        build = ["cargo", "build", "--quiet", "--release", "-p", "orcas_core", "--example", "fill"]
        subprocess.run(build, cwd=plan.repository, check=True)
        self._command = [str(plan.repository / "target/release/examples/fill"), "--data", str(data)]

    def run(self, bucket: str, objects: int, *options: str, dies: bool = False) -> str:
        """Fill, and return what the tool printed; `dies`: it is expected to kill itself."""
        command = [*self._command, "--bucket", bucket, "--objects", str(objects), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != (-signal.SIGKILL if dies else 0):
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}")
        return done.stdout.strip()


def _page_seconds(orcas: Orcas, bucket: str, query: dict[str, str], elements: tuple[bytes, int]) -> float:
    """The median of some pages that start at random places in the first part of the bucket."""
    signer = orcas.signer()
    requests = []
    for _ in range(_PAGES_A_ROUND):
        # Keys are scattered over all 64 bits, so that 1,000 entries follow in the smaller bucket too.
        start = {"start-after": f"data/{random.getrandbits(64) * 2 // 5:016x}/"} if "start" in query else {}
        fixed = {name: value for name, value in query.items() if name != "start"}
        requests.append(signer.get(f"/{bucket}", {"list-type": "2", "max-keys": "1000"} | fixed | start))
    page = load.exchange(orcas.address, requests[0]).body
    if page.count(elements[0]) != elements[1]:
        raise RuntimeError(f"a page of {bucket} holds {page.count(elements[0])} entries")
    return statistics.median(load.run(orcas.address, requests, connections=1)) / 1e9


def _compared(
    plan: Plan, orcas: Orcas, pages: dict[str, tuple[str, dict[str, str]]], elements: tuple[bytes, int]
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in pages}
    for warm in [True] + [False] * plan.size(15, 3):
        for name, (bucket, query) in pages.items():
            took = _page_seconds(orcas, bucket, query, elements)
            if not warm:
                seconds[name].append(took)
    return seconds


def million(plan: Plan) -> list[Figure]:
    """Figures list-1m, prefixes-1m, list-cpu, rest-memory, ready-lag, ready-rebuild and list-deleted, over one store."""
    objects = plan.size(1_000_000, 50_000)
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data) as orcas:
            for name in ("small", "large", "tiny"):
                make_bucket(orcas, name)
        filler = Filler(plan, data)
        filler.run("small", _SMALL)
        said = filler.run("large", objects)
        with Orcas(data) as orcas:
            made = _lists(plan, orcas)
            made.append(_list_cpu(plan, orcas))
        made.append(_at_rest(plan, data))
        made += _starts(plan, filler, data)
        made[0].detail |= {"objects": objects, "filled": said}
        made += _deleted(plan, filler, data, objects)
    return made


def _lists(plan: Plan, orcas: Orcas) -> list[Figure]:
    made = []
    for name, what, query, elements, goal in (
        ("list-1m", "page of 1,000 keys", {"start": "random"}, (b"<Key>", 1000), 1.3),
        (
            "prefixes-1m",
            "page of common prefixes",
            {"prefix": "data/", "delimiter": "/"},
            (b"<CommonPrefixes>", 1000),
            2.0,
        ),
    ):
        pages = {bucket: (bucket, query) for bucket in ("small", "large")}
        seconds = _compared(plan, orcas, pages, elements)
        whole = f"{what}, bucket of 1,000,000 objects ÷ bucket of 2,000"
        made.append(Figure(name, whole, ratios(seconds["large"], seconds["small"]), goal, detail={"seconds": seconds}))
    return made


def _list_cpu(plan: Plan, orcas: Orcas) -> Figure:
    milliseconds = []
    for warm in [True] + [False] * plan.size(9, 3):
        signer = orcas.signer()
        starts = [f"data/{random.getrandbits(64) * 2 // 5:016x}/" for _ in range(100)]
        pages = [signer.get("/large", {"list-type": "2", "max-keys": "1000", "start-after": start}) for start in starts]
        used = cpu_per_request(orcas, pages)
        if not warm:
            milliseconds.append(used / 1000)
    what = "server CPU of a page of 1,000 keys, bucket of 1,000,000 objects"
    return Figure("list-cpu", what, milliseconds, 1.5, unit="ms")


def _at_rest(plan: Plan, data: Path) -> Figure:
    """Resident memory of a server with a million objects, after requests of every kind."""
    memory = []
    for _ in range(plan.size(3, 1)):
        with Orcas(data) as orcas:
            signer = orcas.signer()
            pages = [signer.get("/large", {"list-type": "2", "max-keys": "1000"}) for _ in range(20)]
            puts = [signer.put(f"/small/rest-{number}", b"x" * 1024) for number in range(1000)]
            gets = [signer.get(f"/small/rest-{number}") for number in range(1000)]
            for requests in (pages, puts, gets):
                load.run(orcas.address, requests)
            orcas.settle()
            memory.append(orcas.rss_mib())
    return Figure("rest-memory", "resident memory at rest with 1,000,000 objects", memory, 150.0, unit="MiB")


def _starts(plan: Plan, filler: Filler, data: Path) -> list[Figure]:
    behind, rebuilt, said = [], [], []
    first = 0
    for _ in range(plan.size(3, 1)):
        # Tiny objects: the most records within the bytes that the index may be behind.
        said.append(filler.run("tiny", 10_000_000, "--size", "16", "--first", str(first), "--die-at-lag", dies=True))
        first += 1_000_000
        with Orcas(data) as orcas:
            behind.append(orcas.ready_seconds)
    for _ in range(plan.size(3, 1)):
        for suffix in ("", "-wal", "-shm"):
            (data / f"index.db{suffix}").unlink(missing_ok=True)
        with Orcas(data) as orcas:
            rebuilt.append(orcas.ready_seconds)
    what = "1,000,000 small objects, ready after"
    return [
        Figure("ready-lag", f"{what} kill -9 at the largest lag", behind, 3.0, unit="s", detail={"lag": said}),
        Figure("ready-rebuild", f"{what} the index was deleted", rebuilt, 30.0, unit="s"),
    ]


def _deleted(plan: Plan, filler: Filler, data: Path, objects: int) -> list[Figure]:
    """The page starts before many deleted objects; those that are left come after them."""
    filler.run("large", _SMALL, "--prefix", "later/")
    said = filler.run("large", objects, "--delete")
    with Orcas(data) as orcas:
        seconds = _compared(plan, orcas, {name: (name, {}) for name in ("small", "large")}, (b"<Key>", 1000))
    what = "page of 1,000 keys after 1,000,000 deletes ÷ bucket of 2,000"
    detail = {"seconds": seconds, "deleted": said}
    return [Figure("list-deleted", what, ratios(seconds["large"], seconds["small"]), 2.0, detail=detail)]
