"""What watching a server costs: the CPU time of a request with metrics, with traces, with events and with the access
log; the time of a page; and single calls in Rust.
"""

from __future__ import annotations

import contextlib
import http.server
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import criterion
import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch
from small import cpu_per_request, make_bucket, unique

_CONNECTIONS = 16
_OBJECTS = 1000
_BUCKETS = 1000
# Name of the figure, server with and server without, goal, what is switched on.
_COSTS = (
    ("metrics", ("metrics", "off"), 1.01, "metrics"),
    ("traces", ("traced", "metrics"), 1.02, "traces of 1 %"),
    ("events", ("metrics", "silent"), 1.03, "events"),
    ("access", ("access", "metrics"), 1.05, "the access log"),
)
# Function of the Criterion suite `usage`: name of the figure, what it is, the report's nanoseconds, goal.
CALLS = {
    "key/lookup": ("key-lookup-ns", "an access key looked up among 1,000", 100, 60.0),
    "key/signature": ("key-signature-ns", "the signature of a GET verified, its key looked up", None, None),
    "usage": ("usage-ns", "a request counted for its owner, access key and bucket", 200, 60.0),
    "cost": ("cost-ns", "the cost of a row of a report", 50, 20.0),
}


class _Receiver(http.server.BaseHTTPRequestHandler):
    """Takes spans and drops them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def _receiver() -> Iterator[str]:
    """The URL of a receiver of traces in this process, whose work the server does not pay."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        server.shutdown()


def calls(plan: Plan) -> list[Figure]:
    """Figures key-lookup-ns to cost-ns."""
    taken: dict[str, list[float]] = {}
    for _ in range(plan.size(5, 1)):
        with scratch(plan.directory) as directory:
            _, medians = criterion.run(plan, directory, "usage")
            for (group, function), median in medians.items():
                taken.setdefault("/".join(filter(None, (group, function))), []).append(median)
    return [Figure(name, what, taken[call], goal, unit="ns") for call, (name, what, _, goal) in CALLS.items()]


def cost(plan: Plan) -> list[Figure]:
    """Figures metrics-METHOD-cpu, traces-METHOD-cpu, events-METHOD-cpu and access-METHOD-cpu: on ÷ off."""
    rounds, count = plan.size(9, 1), plan.size(4000, 200)
    used: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, _receiver() as receiver:
        arms = {
            "off": {"ORCAS_METRICS": "false"},
            "metrics": {"ORCAS_METRICS": "true"},
            "traced": {"ORCAS_TRACES_ENDPOINT": receiver, "ORCAS_TRACES_RATIO": "0.01"},
            "silent": {"ORCAS_METRICS": "true", "ORCAS_EVENTS_ENABLED": "false"},
            "access": {"ORCAS_METRICS": "true", "ORCAS_ACCESS_LOG": str(directory / "access.log")},
        }
        with contextlib.ExitStack() as stack:
            servers = {
                name: stack.enter_context(Orcas(directory / name, settings=UNSCRUBBED | more))
                for name, more in arms.items()
            }
            for orcas in servers.values():
                make_bucket(orcas, "small")
                puts = [orcas.signer().put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)]
                load.run(orcas.address, puts, _CONNECTIONS)
            written = _OBJECTS
            for number in range(rounds + 1):
                # The order alternates between rounds; the first round fills caches.
                for method in ("GET", "PUT"):
                    for name in servers if number % 2 else reversed(servers):
                        orcas, signer = servers[name], servers[name].signer()
                        gets = [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)]
                        puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(written, written + count)]
                        spent = cpu_per_request(orcas, gets if method == "GET" else puts)
                        if number:
                            used.setdefault((name, method), []).append(spent)
                written += count
    made = []
    for name, (arm, base), goal, what in _COSTS:
        for method in ("GET", "PUT"):
            on, off = used[arm, method], used[base, method]
            detail: dict[str, Any] = {"microseconds": {"on": on, "off": off}, "requests": count, "durability": "sync"}
            text = f"server CPU of a signed 1 KiB {method}, {_CONNECTIONS} connections, {what} on ÷ off"
            made.append(Figure(f"{name}-{method.lower()}-cpu", text, ratios(on, off), goal, detail=detail))
    return made


def page(plan: Plan) -> list[Figure]:
    """Figure metrics-page: the page of a store with a thousand buckets."""
    rounds, buckets = plan.size(9, 1), plan.size(_BUCKETS, 20)
    pages = []
    with scratch(plan.directory) as directory:
        settings = UNSCRUBBED | {"ORCAS_METRICS_BUCKETS": str(buckets)}
        with Orcas(directory / "data", durability="unsafe-none", settings=settings) as orcas:
            for number in range(buckets):
                make_bucket(orcas, f"bucket-{number}")
            signer = orcas.signer()
            load.run(orcas.address, [signer.put(f"/bucket-{n}/k", unique(n)) for n in range(buckets)], _CONNECTIONS)
            request = b"GET /_orcas/metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\n\r\n"
            connection = load.connect(orcas.address)
            for _ in range(rounds + 1):
                took = []
                for _ in range(plan.size(20, 2)):
                    began = time.perf_counter()
                    connection.send(request)
                    _, body = connection.read()
                    took.append((time.perf_counter() - began) * 1000)
                pages.append(statistics.median(took))
                if body.count(b"orcas_bucket_bytes{") != buckets:
                    raise RuntimeError("a page does not have all buckets")
    what = f"time of a page of metrics of {buckets} buckets"
    return [Figure("metrics-page", what, pages[1:], 10, unit="ms", detail={"bytes": len(body)})]
