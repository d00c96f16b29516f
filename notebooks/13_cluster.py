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
# # The owner of a cluster
#
# *Which node should take the writes, and what does it cost when another one does?*
#
# The article *How Go's sync.Pool saves the performance of concurrent HTTP* (in Chinese; translated), from which Orcas
# started, has in its section 2.4 a primary that is elected "by the load of the nodes, the latency of the network, and a
# score of how complete their data are":
#
# > | Node | Load (%) | Latency (ms) | Completeness | Score |
# > |---|---|---|---|---|
# > | N1 | 65 | 8 | 98 % | 0.87 |
# > | N2 | 82 | 5 | 92 % | 0.81 |
# > | N3 | 43 | 12 | 99 % | 0.89 |
# >
# > *"N3 becomes the new primary, because of its low load and its high completeness."* The primary fails; if there is a
# > candidate, the nodes vote, the metadata name the new primary, and clients are redirected; if there is none, the store
# > becomes read-only.
#
# Its chapter 5 limits the requests that wait for a service (`http1MaxPendingRequests: 10`), and leaves a service alone for
# five minutes after three errors.
#
# The article has the scores, and no formula. Below is the one of Orcas, from the module that nodes use, and then what a
# change of the owner costs.

# %%
import statistics

from support import QUICK, REPOSITORY, plot, spread, stamp, working_directory

import cluster
from figures import Plan
from orcas.cluster.score import COPY_WEIGHT, LATENCY_WEIGHT, LATENCY_WORST_MS, LOAD_WEIGHT, Pace, bid_share, score

# %% [markdown]
# ## The formula
#
#     0.15 · (1 − load) + 0.25 · (1 − latency ÷ 80 ms) + 0.60 · completeness

# %%
# Node: load, latency in milliseconds, completeness, score of the article.
REPORT = {"N1": (0.65, 8, 0.98, 0.87), "N2": (0.82, 5, 0.92, 0.81), "N3": (0.43, 12, 0.99, 0.89)}
scores = {name: score(*given[:3]) for name, given in REPORT.items()}
print(f"{'':4}{'load':>6}{'latency':>10}{'complete':>10}{'article':>10}{'Orcas':>10}")
for name, (load, latency, copy, scored) in REPORT.items():
    print(f"{name:4}{load:6.0%}{latency:7} ms{copy:10.0%}{scored:10.2f}{scores[name]:10.4f}")
    assert round(scores[name], 2) == scored

# %% [markdown]
# Three scores with two digits leave room. Of the weighted means whose weights are twentieths, and in which the latency
# counts down evenly to zero at a multiple of 10 ms, these give all three. Orcas has the one in which completeness weighs
# least, because it does not distinguish nodes that may own the log.

# %%
found = [
    (load_weight / 20, latency_weight / 20, 1 - (load_weight + latency_weight) / 20, worst)
    for worst in range(10, 1001, 10)
    for load_weight in range(1, 19)
    for latency_weight in range(1, 20 - load_weight)
    if all(
        abs(
            load_weight / 20 * (1 - load)
            + latency_weight / 20 * (1 - latency / worst)
            + (20 - load_weight - latency_weight) / 20 * copy
            - scored
        )
        <= 0.005
        for load, latency, copy, scored in REPORT.values()
    )
]
for load_weight, latency_weight, copy_weight, worst in found:
    print(f"load {load_weight:.2f}, latency {latency_weight:.2f} to {worst} ms, completeness {copy_weight:.2f}")
chosen = (LOAD_WEIGHT, LATENCY_WEIGHT, COPY_WEIGHT, LATENCY_WORST_MS)
assert chosen in [tuple(round(each, 2) for each in weights) for weights in found]
under_score = stamp(
    "the formula alone: load, latency and completeness of the article",
    durability="nothing is stored",
    concurrency="none",
)
print(under_score)

# %%
plot(
    {
        "Score of a node | from 0 to 1": {
            "report": [scored for *_, scored in REPORT.values()],
            "Orcas": list(scores.values()),
        },
        "What it consists of | from 0 to 1": {
            "load": [LOAD_WEIGHT * (1 - load) for load, *_ in REPORT.values()],
            "latency": [LATENCY_WEIGHT * (1 - latency / LATENCY_WORST_MS) for _, latency, *_ in REPORT.values()],
            "completeness": [COPY_WEIGHT * copy for _, _, copy, _ in REPORT.values()],
        },
    },
    list(REPORT),
    under_score,
)

# %% [markdown]
# ## What follows from a score
#
# A node that has not read the log to its end cannot own it, so at that moment all candidates are complete, and load and
# latency decide. When the owner has been silent for a lease (6 s), each follower waits a little longer, the better ones
# less. No node counts votes: the first that writes itself into the log is the owner.
#
# | Article | Orcas |
# |---|---|
# | the primary is found to fail | the log has had no message of its owner for a lease |
# | is there a candidate? they vote | every follower that has all of the log is one; the log has one winner |
# | the metadata name the new primary | the head of the log, and the messages of the owner |
# | clients are redirected | any node passes a request on to the owner |
# | no candidate: read-only | writes get 503 with `Retry-After` until there is one |
# | breakers | one call at a time for all that wait, bounds on these, 503 at once after 0.8 of a lease |

# %%
LEASE_SECONDS, LONGEST = 6, 0.15
print(f"{'load':>6}{'latency':>10}{'score':>8}{'bids after the lease':>24}{'is given the log by an owner with':>38}")
for load, latency in [(0.1, 2), (0.9, 2), (0.1, 20), (0.1, 60), (0.9, 60), (1.0, 200)]:
    mine = score(load, latency, 1)
    earliest, latest = (LONGEST * LEASE_SECONDS * bid_share(mine, chance) for chance in (0, 1))
    below = mine / Pace().factor
    asked = f"a score of at most {below:.2f}" if below >= COPY_WEIGHT else "never: it is not good enough"
    print(f"{load:6.0%}{latency:7} ms{mine:8.2f}{f'{earliest:.2f} to {latest:.2f} s':>24}{asked:>38}")

# %% [markdown]
# ## What a change costs
#
# Two nodes on this machine, and a bucket of a third server for their log. A client writes all the time; then the owner is
# killed, or gives the log away.

# %%
with working_directory() as place:
    figures = {figure.name: figure for figure in cluster.of_a_bucket(Plan(QUICK, place, REPOSITORY))}
put = figures["cluster-put-objects"]
under = stamp(
    f"{len(put.values)} rounds; {put.detail['puts']:,} PUTs of 1 KiB a round; lines: from the least to the most",
    durability="sync: the log has a write before it is acknowledged",
    concurrency=f"PUTs {put.detail['connections']} connections; otherwise 1 client",
)
for figure in figures.values():
    print(f"{figure.what:100}{spread(figure.values)} {figure.unit}")
print(under)

# %%
SECONDS = {
    "owner killed": "cluster-killed-objects", "log moved on request": "cluster-moved-objects",
    "a node begins\nwith nothing: ready": "cluster-fresh-objects",
}  # fmt: skip
plot(
    {
        "Longest time without a write, and start of a node | s": {
            "Orcas": [figures[name].values for name in SECONDS.values()],
            "goal": [figures[name].goal for name in SECONDS.values()],
        }
    },
    list(SECONDS),
    under,
)
print(f"PUTs a second, median: {statistics.median(put.values):,.0f}")

# %% [markdown]
# ## How it is measured, and doubts
#
# - `benchmarks/run.py --only cluster` measures the same, and with a database as well.
# - Client, both nodes and the store of the log share the processors of one machine and one disk, so throughput is that of a
#   quarter of a cluster. A log that is further away makes takeovers longer by some round trips.
# - A kill is noticed after the lease. Most of the rest is the wait by the score and the opening of the store.
# - The load that stands under a figure says what else the machine did meanwhile. More than two makes everything slower.
# - The formula was chosen to give three scores. That it chooses well, nobody has measured.
