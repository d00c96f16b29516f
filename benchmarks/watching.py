"""What watching a server costs: the CPU time of a request with metrics, with events and with the access log, and the
time of a page.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

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
    ("events", ("metrics", "silent"), 1.03, "events"),
    ("access", ("access", "metrics"), 1.05, "the access log"),
)


def cost(plan: Plan) -> list[Figure]:
    """Figures metrics-METHOD-cpu, events-METHOD-cpu and access-METHOD-cpu: on ÷ off."""
    rounds, count = plan.size(9, 1), plan.size(4000, 200)
    used: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory:
        arms = {
            "off": {"ORCAS_METRICS": "false"},
            "metrics": {"ORCAS_METRICS": "true"},
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
