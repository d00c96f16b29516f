"""The console: what its pages take, how long they hold the event loop, and what an open one costs other requests."""

from __future__ import annotations

import contextlib
import html
import importlib.util
import itertools
import json
import re
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGUSR1
from typing import Any, Self
from urllib.parse import urlencode

import load
from figures import Figure, Plan, ratios
from processes import ACCESS_KEY, KEYS, SECRET_KEY, UNSCRUBBED, Orcas, Process, scratch
from small import make_bucket, unique

_BASE = "/_orcas/console"
_CONNECTIONS = 16
_OBJECTS = 1000
_BUCKETS = 20
# Keys that are signed at a time: a signature is valid for 15 minutes.
_BATCH = 20_000
_PATHS = (
    "/", "/b/keys", "/b/keys?prefix=flat/", "/b/keys/settings", "/health", "/live", "/requests", "/log", "/events",
    "/tasks", "/disk", "/usage", "/settings", "/licences", "/users/users", "/users/policies", "/users/accounts",
    "/users/audit",
)  # fmt: skip
_PAINTED = """() => new Promise(done => new PerformanceObserver(
    list => done(Math.max(...list.getEntries().map(entry => entry.startTime)))
).observe({type: "largest-contentful-paint", buffered: true}))"""
_LOADED = """() => performance.getEntries().filter(entry => "transferSize" in entry).map(entry => entry.transferSize)"""


class _Visitor:
    """A browser, as far as HTTP goes: signed in with the root key, on one connection."""

    def __init__(self, process: Process) -> None:
        self._host = "{}:{}".format(*process.address)
        self._connection = load.connect(process.address)
        form = urlencode({"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}).encode()
        head = (
            f"POST {_BASE}/sign-in HTTP/1.1\r\nhost: {self._host}\r\norigin: http://{self._host}\r\n"
            f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(form)}\r\n\r\n"
        )
        self._connection.send(head.encode() + form)
        answer = self._connection.response("POST")
        if answer.status != 303:
            raise RuntimeError(f"signing in was answered with {answer.status}: {answer.body.decode()}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, more: str = "") -> tuple[float, bytes, bytes]:
        """Milliseconds until the answer was there, its head and its body. `path` is below the console.

        Raises:
            RuntimeError: it is no page.
        """
        request = f"GET {_BASE}{path} HTTP/1.1\r\nhost: {self._host}\r\ncookie: {self.cookie}\r\n{more}\r\n".encode()
        began = time.perf_counter()
        self._connection.send(request)
        head, body = self._connection.read()
        took = (time.perf_counter() - began) * 1000
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path} was answered with {head.decode()}")
        return took, head, body

    def median(self, path: str, count: int) -> float:
        """Milliseconds of a page, the median of so many."""
        return statistics.median(self.get(path)[0] for _ in range(count))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.sock.close()


def _buckets(orcas: Orcas) -> None:
    """Some buckets with an object each."""
    for number in range(_BUCKETS):
        make_bucket(orcas, f"bucket-{number}")
    signer = orcas.signer()
    load.run(orcas.address, [signer.put(f"/bucket-{n}/k", unique(n)) for n in range(_BUCKETS)], _CONNECTIONS)


def _fill(orcas: Orcas, keys: int) -> None:
    """The bucket `keys`, of whose keys half are in one folder and the others in folders of 1,000."""
    make_bucket(orcas, "keys")
    for first in range(0, keys, _BATCH):
        signer, numbers = orcas.signer(), range(first, min(first + _BATCH, keys))
        paths = (f"flat/{n:07}" if n < keys // 2 else f"tree/{n // 1000:04}/{n:07}" for n in numbers)
        puts = (signer.put(f"/keys/{path}", unique(n, 8)) for n, path in zip(numbers, paths, strict=True))
        load.run(orcas.address, puts, _CONNECTIONS)


def first(plan: Plan) -> list[Figure]:
    """Figures console-first, console-first-kib and console-first-requests: the page after signing in."""
    rounds, count = plan.size(15, 3), plan.size(20, 2)
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        _buckets(orcas)
        with _Visitor(orcas) as visitor:
            took = [visitor.median("/", count) for _ in range(rounds + 1)][1:]
            answers = [visitor.get("/")]
            found = re.findall(r'(?:href|src)="([^"]+)" nonce=', answers[0][2].decode())
            answers += [visitor.get(html.unescape(path).removeprefix(_BASE)) for path in found]
    size = sum(len(head) + len(body) for _, head, body in answers) / 1024
    detail = {"buckets": _BUCKETS, "files": found}
    return [
        Figure("console-first", "time of the first page after signing in", took, 50, unit="ms", detail=detail),
        Figure("console-first-kib", "size of that page with its files", [size], 150, unit="KiB", detail=detail),
        Figure("console-first-requests", "requests for that page", [float(len(answers))], 12, detail=detail),
    ]


def folders(plan: Plan) -> list[Figure]:
    """Figures console-folder-root, -flat, -jump and -tree: pages of a large bucket."""
    rounds, count, keys = plan.size(15, 3), plan.size(10, 2), plan.size(1_000_000, 4000)
    pages = {
        "root": ("the top of", "/b/keys"),
        "flat": ("the folder with half of", "/b/keys?prefix=flat/"),
        "jump": ("a jump into this folder of", f"/b/keys?prefix=flat/{str(keys // 4).zfill(7)[:4]}"),
        "tree": ("the folder with the folders of", "/b/keys?prefix=tree/"),
    }
    took: dict[str, list[float]] = {name: [] for name in pages}
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "data", durability="unsafe-none", settings=UNSCRUBBED) as orcas,
    ):
        began = time.monotonic()
        _fill(orcas, keys)
        detail = {"keys": keys, "seconds to store them": round(time.monotonic() - began, 1)}
        orcas.settle()
        with _Visitor(orcas) as visitor:
            for number in range(rounds + 1):
                for name, (_, path) in pages.items():
                    spent = visitor.median(path, count)
                    if number:
                        took[name].append(spent)
    return [
        Figure(f"console-folder-{name}", f"time of a page: {what} a bucket of {keys:,} keys", took[name], 60, unit="ms",
               detail=detail)
        for name, (what, _) in pages.items()
    ]  # fmt: skip


def search(plan: Plan) -> list[Figure]:
    """Figure console-search: a part of one name among many, each further page asked for as the script of the page does."""
    rounds, keys = plan.size(15, 3), plan.size(100_000, 4000)
    took, pages = list[float](), 0
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "data", durability="unsafe-none", settings=UNSCRUBBED) as orcas,
    ):
        _fill(orcas, keys)
        orcas.settle()
        with _Visitor(orcas) as visitor:
            for number in range(rounds + 1):
                path, spent, pages = f"/b/keys?find={keys - 1:07}", 0.0, 0
                while path:
                    milliseconds, _, body = visitor.get(path)
                    spent, pages, page = spent + milliseconds / 1000, pages + 1, body.decode()
                    further = re.search(r'id="next-page" data-goes-on href="([^"]+)"', page)
                    path = html.unescape(further[1]).removeprefix(_BASE) if further else ""
                if f"{keys - 1:07}" not in page.partition('id="listing"')[2]:
                    raise RuntimeError("the search did not find the last key")
                if number:
                    took.append(spent)
    title = f"a search for a part of one name among {keys:,} keys, by one action"
    return [Figure("console-search", title, took, 5, unit="s", detail={"keys": keys, "pages": pages})]


class _Probed(Orcas):
    """The same with a probe of its event loop."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "probe.json"
        command = [sys.executable, str(Path(__file__).with_name("probed.py")), str(directory / "data"), str(self._file)]
        Process.__init__(self, command, "orcas ready", environment=KEYS | UNSCRUBBED)

    def found(self) -> dict[str, float]:
        """What the probe has found since it was asked the last time, in milliseconds."""
        self._file.unlink(missing_ok=True)
        self._child.send_signal(SIGUSR1)
        while not self._file.exists():
            time.sleep(0.01)
        said: dict[str, float] = json.loads(self._file.read_text())
        return said


def loop(plan: Plan) -> list[Figure]:
    """Figures console-loop-used and console-loop-late: the longest block of the event loop while pages are served."""
    rounds, count, keys = plan.size(9, 2), plan.size(20, 2), plan.size(5000, 2000)
    used: list[dict[str, float]] = []
    late: list[dict[str, float]] = []
    idle: list[dict[str, float]] = []
    with scratch(plan.directory) as directory, _Probed(directory) as server:
        _fill(server, keys)
        with _Visitor(server) as visitor:
            for number in range(rounds + 1):
                server.settle(0.1)
                server.found()
                time.sleep(1)
                idle.append(server.found())
                found = {}
                for path in _PATHS:
                    for _ in range(count):
                        visitor.get(path)
                    found[path] = server.found()
                if number:
                    used.append({path: each["used_ms"] for path, each in found.items()})
                    late.append({path: each["late_ms"] for path, each in found.items()})
    pages = {"used_ms": used, "late_ms": late, "idle": idle[1:], "pages of each path": count}
    worst = [max(each.values()) for each in used]
    latest = [max(each.values()) for each in late]
    most = "processor time of the event loop's thread between two looks, 1 ms apart, while pages are served: the most"
    return [
        Figure("console-loop-used", most, worst, 2, unit="ms", detail=pages),
        Figure(
            "console-loop-late",
            "the event loop late by at most, with waits for a processor",
            latest,
            unit="ms",
            detail=pages,
        ),
    ]


@contextlib.contextmanager
def _live(visitor: _Visitor) -> Iterator[None]:
    """The live page is open: it refreshes itself as its script does."""
    closed, failed = threading.Event(), []

    def refresh() -> None:
        try:
            while True:
                _, _, body = visitor.get("/live", "x-orcas-refresh: yes\r\n")
                seconds = re.search(rb'data-refresh="([0-9.]+)"', body)
                if seconds is None:
                    raise RuntimeError("the live page does not refresh itself")
                if closed.wait(float(seconds[1])):
                    return
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            failed.append(error)

    thread = threading.Thread(target=refresh)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()
    if failed:
        raise failed[0]


def live(plan: Plan) -> list[Figure]:
    """Figure console-live-cpu: GETs of 1 KiB beside the live page, open ÷ closed."""
    rounds, seconds = plan.size(9, 1), plan.size(20, 2)
    taken: dict[bool, list[float]] = {True: [], False: []}
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "small")
        signer = orcas.signer()
        load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)], _CONNECTIONS)
        with _Visitor(orcas) as visitor:
            for number in range(rounds + 1):
                # The order alternates between rounds; the first round fills caches.
                for is_open in (True, False) if number % 2 else (False, True):
                    with _live(visitor) if is_open else contextlib.nullcontext():
                        spent = _cpu_of_gets(orcas, seconds)
                    if number:
                        taken[is_open].append(spent)
    what = f"server CPU of a signed 1 KiB GET, {_CONNECTIONS} connections, the live page of the console open ÷ closed"
    detail: dict[str, Any] = {"microseconds": {"open": taken[True], "closed": taken[False]}, "seconds": seconds}
    return [Figure("console-live-cpu", what, ratios(taken[True], taken[False]), 1.02, detail=detail)]


def _cpu_of_gets(orcas: Orcas, seconds: float) -> float:
    """Microseconds of the server's CPU time for each GET, over so many seconds."""
    signer = orcas.signer()
    gets = [signer.get(f"/small/{n:016x}") for n in range(_OBJECTS)]
    orcas.settle()
    before, ends = orcas.cpu_ns(), time.monotonic() + seconds
    took = load.run(
        orcas.address, itertools.takewhile(lambda _: time.monotonic() < ends, itertools.cycle(gets)), _CONNECTIONS
    )
    orcas.settle()
    return (orcas.cpu_ns() - before) / len(took) / 1000


def paint(plan: Plan) -> list[Figure]:
    """Figures console-paint, console-paint-kib and console-paint-requests: the first page in Chromium."""
    chromium = shutil.which("chromium")
    if importlib.util.find_spec("playwright") is None or chromium is None:
        print("console-paint: not measured without chromium and the extra console-test", file=sys.stderr)
        return []
    from playwright.sync_api import sync_playwright

    rounds = plan.size(15, 2)
    painted: list[float] = []
    loaded: list[list[int]] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        _buckets(orcas)
        with _Visitor(orcas) as visitor, sync_playwright() as playwright:
            name, _, value = visitor.cookie.partition("=")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
            for _ in range(rounds + 1):
                context = browser.new_context()
                context.add_cookies([{"name": name, "value": value, "url": orcas.url + _BASE}])
                page = context.new_page()
                page.goto(f"{orcas.url}{_BASE}/", wait_until="networkidle")
                painted.append(page.evaluate(_PAINTED))
                loaded.append(page.evaluate(_LOADED))
                context.close()
            browser.close()
    sizes = [sum(each) / 1024 for each in loaded]
    what = "largest contentful paint of the first page in Chromium, cache empty"
    return [
        Figure("console-paint", what, painted[1:], 500, unit="ms", detail={"buckets": _BUCKETS}),
        Figure("console-paint-kib", "bytes that Chromium loads for it", sizes[1:], 150, unit="KiB"),
        Figure("console-paint-requests", "its requests", [float(len(each)) for each in loaded[1:]], 12),
    ]
