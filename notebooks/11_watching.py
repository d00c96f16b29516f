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
# *If I switch on metrics, traces, the access log or events, how much slower does my server get? And what do those take
# who look at it: Prometheus, and programs that follow events?*
#
# The report *Phase 8.2: performance benchmarks* (31 October 2025, in Chinese; translated), from which Orcas started,
# lists what should be watched, and estimates what a request pays for it, in its section *Expected performance in
# production*:
#
# > | Part of a request | Estimate |
# > |---|---|
# > | check of the API key | ~100 ns |
# > | usage statistics | ~200 ns |
# > | cost of the request | ~50 ns |
# > | all local work | ~2 µs, 0.0004 % of 500 ms |
#
# Below is what was measured here: first what a request pays, then what those take who look, and then the report's
# single calls.

# %%
import json
import shutil
import statistics

from support import QUICK, REPOSITORY, interval, plot, spread, stamp, working_directory

import streams
import watching
from figures import Figure, Plan
from orcas.bench.compare import ratio

# On or off: name of the figure.
WHAT = {"metrics": "metrics", "traces": "traces of 1 %", "events": "events", "access": "access log"}
METHODS = ("GET", "PUT")
with working_directory() as place:
    plan = Plan(QUICK, place, REPOSITORY)
    cost = {figure.name: figure for figure in watching.cost(plan)}


def used(name, method):
    """Microseconds of the server's CPU for a request, one number a round, with it on and off."""
    return cost[f"{name}-{method.lower()}-cpu"].detail["microseconds"]


def on_to_off(name, method):
    return ratio(used(name, method)["on"], used(name, method)["off"])


rounds = len(cost["metrics-get-cpu"].values)
under = stamp(
    f"{rounds} rounds of {cost['metrics-get-cpu'].detail['requests']} requests of 1 KiB, raw sockets; lines: 95 % interval",
    durability="sync",
    concurrency="16 connections",
)
print(f"{'server CPU of a request, µs':32}{'on':>26}{'off':>26}{'on ÷ off (95 %)':>24}   what was shown")
for name, what in WHAT.items():
    for method in METHODS:
        found = on_to_off(name, method)
        if QUICK or found.low is None:
            verdict = "nothing: a quick pass"
        elif found.low <= 1 <= found.high:
            verdict = f"no difference; at most {found.high - 1:.0%}"
        else:
            verdict = f"{found.ratio - 1:+.0%}"
        shown = "".join(f"{spread(used(name, method)[side], 1):>26}" for side in ("on", "off"))
        print(f"{what:14}{method:18}{shown}{interval(found):>24}   {verdict}")
print(under)

# %%
plot(
    {
        "Server CPU of a request of 1 KiB (no number in the report) | on ÷ off": {
            method: [on_to_off(name, method) for name in WHAT] for method in METHODS
        }
    },
    list(WHAT.values()),
    under,
)

# %% [markdown]
# ## Those who look
#
# The page that Prometheus asks for, of a store in which every bucket has series of its own; and open streams of events:
# what an event costs for each stream that it goes to, and what each stream takes of the server's memory. To compare them,
# each is a share of one processor under a load that the row names.

# %%
SCRAPE_SECONDS, EVENTS_A_SECOND = 15, 100
with working_directory() as place:
    plan = Plan(QUICK, place, REPOSITORY)
    (page,) = watching.page(plan)
    memory, cpu = streams.listeners(plan)
under_listeners = stamp(
    f"{len(page.values)} rounds of pages, {len(cpu.values)} of listeners; {page.what}, {page.detail['bytes']:,} bytes;"
    f" {cpu.detail['listeners']} listeners, {cpu.detail['events']} events; lines: from the least to the most of the rounds",
    durability="page: unsafe-none; listeners: sync",
    concurrency="1 connection asks for pages and 1 writes; listeners as they say",
)
for figure in (page, cpu, memory):
    print(f"{figure.what:64}{spread(figure.values):>32} {figure.unit:4} goal {figure.goal_text()}")
# Percent of one processor.
SHARES = {
    f"{page.what.removeprefix('time of ')},\nevery {SCRAPE_SECONDS} s": [
        value / 1e3 / SCRAPE_SECONDS * 100 for value in page.values
    ],
    f"1 listener,\n{EVENTS_A_SECOND} events a second": [value / 1e6 * EVENTS_A_SECOND * 100 for value in cpu.values],
    f"100 listeners,\n{EVENTS_A_SECOND} events a second": [value / 1e4 * EVENTS_A_SECOND * 100 for value in cpu.values],
}
for what, shares in SHARES.items():
    print(f"{what.replace(chr(10), ' '):64}{spread(shares, 3):>32} % of one processor")
print(under_listeners)

# %%
# Time that is less than the clock shows is no share.
plot(
    {
        "What those who look take of the server | % of one processor": {
            "Orcas": [[max(share, 1e-4) for share in shares] for shares in SHARES.values()]
        }
    },
    list(SHARES),
    under_listeners,
    log=True,
)

# %% [markdown]
# ## The report's estimates
#
# The same calls in Rust, measured by the Criterion suite `usage`, which needs cargo and compiles the first time. Without
# cargo, the figures come from the newest file of `benchmarks/results` that has them, and the line below says so. A
# signature is what the check of a key of S3 is; the report's service compares a token.

# %%
KEPT = REPOSITORY / "benchmarks" / "results" / "2026-11-26-epyc-2cpu-calls.json"
if not QUICK and shutil.which("cargo"):
    with working_directory() as place:
        measured = watching.calls(Plan(QUICK, place, REPOSITORY))
    where = f"{len(measured[0].values)} rounds of Criterion"
else:
    kept = json.loads(KEPT.read_text())
    by_name = {entry["name"]: entry for entry in kept["figures"]}
    measured = [
        Figure(name, what, by_name[name]["values"], goal, unit="ns") for name, what, _, goal in watching.CALLS.values()
    ]
    then = kept["circumstances"]
    where = f"NOT MEASURED NOW: from benchmarks/results/{KEPT.name}, of {then['at'][:10]}, commit {then['commit'][:7]}"
estimated = {name: report_ns for name, _, report_ns, _ in watching.CALLS.values()}
under_calls = stamp(
    f"{where}; medians, lines from the least to the most of the rounds",
    durability="none: nothing is stored",
    concurrency="1 thread",
)
print(f"{'nanoseconds of a call in Rust':64}{'report':>8}{'Orcas':>28}{'Orcas ÷ report':>16}")
for figure in measured:
    guess = estimated[figure.name]
    of_guess = f"{statistics.median(figure.values) / guess:.2f}" if guess else ""
    print(f"{figure.what:64}{guess or '':>8}{spread(figure.values, 1):>28}{of_guess:>16}")
print(under_calls)

# %%
plot(
    {
        "Time of a call | ns": {
            "report": [estimated[figure.name] for figure in measured],
            "Orcas": [figure.values for figure in measured],
        }
    },
    [figure.what.replace(", ", ",\n") for figure in measured],
    under_calls,
    log=True,
)

# %% [markdown]
# ## How it is measured, and doubts
#
# - Servers that differ in one setting get the same signed requests over 16 connections, in turn within each round, and
#   their CPU time is compared, with the work after the answers. *Traces* of one request in 100 are sent to a receiver;
#   *events* are the journal that streams and notifications are made from, without a listener; the *access log* has a line
#   for each request. Metrics are on where they are not what is compared. It is `benchmarks/run.py --only watching`,
#   `--only metrics-page` and `--only events-listeners`.
# - Two servers with the same settings differ by a few per cent for as long as they run. A difference of that size says
#   little, even where its interval excludes 1.
# - The report's numbers are estimates: it has no benchmark of a check, of the statistics or of a metric. A share of
#   0.0004 % compares the server's work with 500 ms of waiting for another server; what counts for a server is the share
#   of its own CPU time.
# - The report has no cost of the watching itself: of counting each request, of its line in the log, and of the page that
#   Prometheus asks for.
