# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What watching costs
#
# What metrics, traces, the access log and events add to a request. The report that Orcas started from (October 2025, in
# Chinese; translated) lists what should be watched, and measures nothing of it.
#
# > | Metrics for Prometheus | What they show |
# > |---|---|
# > | `crypto_encryption_duration_seconds`, `crypto_cache_hit_rate` | latency of encryption, hits of the cache |
# > | `serialization_duration_seconds` | latency of serialisation |
# > | `http_requests_total`, `http_request_duration_seconds` | throughput |
# >
# > *Key figures: P50, P95 and P99 latency, hit rates, throughput, CPU. Estimate for one request: check of the API key
# > ~100 ns, usage statistics ~200 ns, cost ~50 ns; about 2 µs of local work in all, 0.0004 % of 500 ms.*

# %% [markdown]
# ## What these numbers were worth
#
# - They are estimates: the report has no benchmark of a check, of the statistics or of a metric.
# - A share of 0.0004 % compares the server's work with 500 ms of waiting for another server. What counts for a server is
#   the share of its own CPU time.
# - The list has no cost for the watching itself: for counting each request, for writing its line, and for the page that
#   Prometheus asks for.
#
# Below, servers that differ in one setting get the same signed requests over 16 connections, in turn within each round,
# and their CPU time is compared. This is `benchmarks/run.py --only watching --only metrics-page --only events-listeners`.

# %%
import shutil
import statistics
import tempfile
from pathlib import Path

from support import DIRECTORY, QUICK, REPOSITORY, bars, interval, spread, stamp

import streams
import watching
from figures import Plan
from orcas.bench.compare import ratio

place = tempfile.TemporaryDirectory(dir=DIRECTORY, prefix="orcas-notebook-")
plan = Plan(QUICK, Path(place.name), REPOSITORY)

# %% [markdown]
# ## A request of 1 KiB
#
# *Metrics* on ÷ off; *traces* of one request in 100, sent to a receiver ÷ none; *events* with the journal that streams and
# notifications are made from ÷ without it, and no listener; *access log* with a line for each request ÷ without. Metrics
# are on where they are not what is compared.

# %%
cost = {figure.name: figure for figure in watching.cost(plan)}
WHAT = {"metrics": "metrics", "traces": "traces of 1 %", "events": "events", "access": "access log"}
METHODS = ("GET", "PUT")


def on_to_off(name, method):
    used = cost[f"{name}-{method.lower()}-cpu"].detail["microseconds"]
    return ratio(used["on"], used["off"])


rounds = len(cost["metrics-get-cpu"].values)
under = stamp(
    f"{rounds} rounds of {cost['metrics-get-cpu'].detail['requests']} requests of 1 KiB, raw sockets; bars: 95 % interval",
    durability="sync",
    concurrency="16 connections",
)
print(f"{'server CPU of a request, µs':32}{'on':>28}{'off':>28}   on ÷ off (95 %)")
for name, what in WHAT.items():
    for method in METHODS:
        used = cost[f"{name}-{method.lower()}-cpu"].detail["microseconds"]
        shown = "".join(f"{spread(used[side], 1):>28}" for side in ("on", "off"))
        print(f"{what:14}{method:18}{shown}   {interval(on_to_off(name, method))}")
print(under)

# %%
bars(
    {
        "Server CPU of a request of 1 KiB, on ÷ off (no number in the report)": {
            method: [on_to_off(name, method) for name in WHAT] for method in METHODS
        }
    },
    list(WHAT.values()),
    under,
)

# %% [markdown]
# ## The report's estimates
#
# The Criterion suite `usage`, which needs cargo and compiles the first time. A signature is what the check of a key of S3
# is; the report's service compares a token.

# %%
if QUICK or not shutil.which("cargo"):
    print("Not measured: a quick pass does not compile." if QUICK else "Not measured: there is no cargo.")
else:
    measured = watching.calls(plan)
    print(f"{'nanoseconds of a call in Rust':64}{'report':>8}{'Orcas':>28}")
    for figure, (_, what, report_ns, _) in zip(measured, watching.CALLS.values(), strict=True):
        print(f"{what:64}{report_ns or '':>8}{spread(figure.values, 1):>28}")
    print(stamp(f"{len(measured[0].values)} rounds, medians", durability="none: nothing is stored", concurrency="1 thread"))

# %% [markdown]
# ## A scrape, and many listeners
#
# The page that Prometheus asks for, of a store in which every bucket has series of its own. Then streams of events: what
# each takes of the server's memory, and what an event costs for each stream that it goes to.

# %%
(page,) = watching.page(plan)
memory, cpu = streams.listeners(plan)
under_listeners = stamp(
    f"{len(page.values)} rounds of pages, {len(cpu.values)} of listeners; {page.what}, {page.detail['bytes']:,} bytes;"
    f" {cpu.detail['listeners']} listeners, {cpu.detail['events']} events",
    durability="page: unsafe-none; listeners: sync",
    concurrency="1 connection asks for pages and 1 writes; listeners as they say",
)
for figure in (page, memory, cpu):
    print(f"{figure.what:64}{spread(figure.values):>32} {figure.unit:4} goal {figure.goal_text()}")
print(under_listeners)

# %%
bars(
    {
        figure.what: {figure.unit: [statistics.median(figure.values)], "goal": [figure.goal]}
        for figure in (page, memory, cpu)
    },
    ["Orcas"],
    under_listeners,
)
place.cleanup()
