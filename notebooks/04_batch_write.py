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
# # Batch writes
#
# *I store many small objects. How much faster is a server that writes them together than one that makes a file, a
# directory entry and a database transaction for each?*
#
# The *S3 performance test report* (14 November 2025, in Chinese; translated), from which Orcas started, measured that
# on another machine. The table joins those of its section *Batch writes compared*, in operations per second:
#
# > | Size | Requests in flight | Batch writes on | Batch writes off | on ÷ off |
# > |---|---|---|---|---|
# > | 1 KB | 1 | 18,660 | 4,339 | 4.3 |
# > | 1 KB | 10 | 31,373 | 4,551 | 6.9 |
# > | 1 KB | 50 | 29,131 | 3,089 | 9.4 |
# > | 1 KB | 100 | 9,272 | 1,570 | 5.9 |
# > | 4 KB | 1 | 13,901 | 3,837 | 3.6 |
# > | 4 KB | 10 | 41,611 | 2,901 | 14.3 |
# > | 4 KB | 50 | 36,420 | 2,569 | 14.2 |
# > | 4 KB | 100 | 47,236 | 2,032 | 23.2 |
# > | 64 KB | 1 | 4,775 | 2,799 | 1.7 |
# > | 64 KB | 10 | 12,643 | 3,968 | 3.2 |
# > | 64 KB | 50 | 21,381 | 3,524 | 6.1 |
# > | 64 KB | 100 | 20,438 | 2,622 | 7.8 |
#
# Below is the same table for Orcas, cell by cell. *On* is Orcas with batch writes. *Off* is the same application with
# the report's store behind it: a file, a directory entry and a transaction for each object (`benchmarks/file_each.py`).

# %%
import statistics

from support import MIB, QUICK, REPOSITORY, interval, plot, stamp, working_directory

import like_for_like
from figures import Plan
from orcas.bench.compare import ratio

with working_directory() as place:
    plan = Plan(QUICK, place, REPOSITORY)
    CELLS = like_for_like.cells(plan)
    rates = {
        (way.__name__, promise): way(plan, promise)
        for promise in like_for_like.PROMISES
        for way in (like_for_like.in_one_process, like_for_like.over_sockets, like_for_like.through_boto3)
    }
WAYS = {"in_one_process": "one process", "over_sockets": "over sockets", "through_boto3": "boto3"}
PROMISED = {
    "memory": "AS IN THE REPORT: on, an answer means memory (buffered); off, it means the page cache",
    "disk": "ON THE DISK: on, an answer means that it is synced (sync); off, file, entry and transaction are synced",
}


def gained(way, promise, cell, over="on", under="off"):
    """PUTs a second of one side ÷ the other."""
    found = rates[way, promise]
    return ratio(found[cell, over], found[cell, under])


def told(way, promise, cell):
    """On, off, and the ratio."""
    found = rates[way, promise]
    numbers = "".join(f"{statistics.median(found[cell, side]):9,.0f}" for side in ("on", "off"))
    return f"{numbers}{interval(gained(way, promise, cell), 1):>17}"


under = stamp(
    f"PUTs of new bytes and keys, signed, all sides in turn; {plan.size(3, 1)} rounds of 200 to 1,000 requests (one process),"
    f" {plan.size(3, 1) / 10:g} s (sockets: orcas bench) or {plan.size(80, 12)} requests (boto3). Lines: 95 % interval",
    durability="memory or disk, as each table and figure says",
    concurrency="requests in flight, or connections, as each row says",
)
for promise, what in PROMISED.items():
    print(what)
    print(f"{'':16}{'report':>24}" + "".join(f"{name + ', ÷ (95 %)':>35}" for name in WAYS.values()))
    print(f"{'':16}{'on':>9}{'off':>8}{'÷':>7}" + f"{'on':>9}{'off':>9}{'on ÷ off':>17}" * len(WAYS))
    for size, count in CELLS:
        on, off = like_for_like.REPORT[size, count]
        ours = "".join(told(way, promise, (size, count)) for way in WAYS)
        print(f"{size:7}{count:5} each{on:8,}{off:8,}{on / off:7.1f}{ours}")
    for way, name in WAYS.items():
        reached = [
            gained(way, promise, cell).ratio >= like_for_like.REPORT[cell][0] / like_for_like.REPORT[cell][1]
            for cell in CELLS
        ]
        print(f"{name}: the report's ratio is reached in {sum(reached)} of {len(reached)} cells")
    print()
print(under)

# %%
for promise, what in PROMISED.items():
    plot(
        {
            f"PUTs a second, batch writes ÷ a file each. {what.capitalize()} | on ÷ off": {
                "report": [like_for_like.REPORT[cell][0] / like_for_like.REPORT[cell][1] for cell in CELLS],
                "Orcas, one process": [gained("in_one_process", promise, cell) for cell in CELLS],
                "Orcas, over sockets": [gained("over_sockets", promise, cell) for cell in CELLS],
                "boto3": [gained("through_boto3", promise, cell) for cell in CELLS],
            }
        },
        [f"{size}, {count} at once" for size, count in CELLS],
        under,
        log=True,
    )

# %% [markdown]
# ## What bounds a cell
#
# A ratio can only be as large as the rest of a request lets it be: parsing, signature and, over sockets, two
# processes that share the machine's processors with the load. *Storing nothing* is the same application in one process
# that reads the body, computes its MD5 and answers: no store behind it can be faster. Where even that misses the report's
# ratio, the row says so; elsewhere the bound is the store, and *MiB/s* is what it writes. *One append* is Orcas with
# `ORCAS_BATCH_WRITE_ENABLED=false`: an object is not a file of its own there either, but one append to the log, so its
# ratio to batch writes is smaller than the report's.


# %%
def verdict(promise, cell):
    """Why a cell of one process does not have the report's ratio."""
    claimed = like_for_like.REPORT[cell][0] / like_for_like.REPORT[cell][1]
    if gained("in_one_process", promise, cell).ratio >= claimed:
        return "reached"
    most = gained("in_one_process", promise, cell, "nothing").ratio
    return f"storing nothing: {most:.1f}" if most < claimed else "the store"


print(
    f"{'one process':24}{'report, ÷':>10}{'on ÷ off':>10}{'storing nothing ÷ off':>23}{'on, MiB/s':>11}  {'bound':24}"
    f"{'over sockets, on ÷ one append':>32}"
)
for promise in PROMISED:
    for size, count in CELLS:
        cell = (size, count)
        claimed = like_for_like.REPORT[cell][0] / like_for_like.REPORT[cell][1]
        on = statistics.median(rates["in_one_process", promise][cell, "on"])
        print(
            f"{promise:8}{size:7}{count:4} each{claimed:10.1f}{gained('in_one_process', promise, cell).ratio:10.1f}"
            f"{gained('in_one_process', promise, cell, 'nothing').ratio:23.1f}"
            f"{on * like_for_like.SIZES[size] / MIB:11.0f}  {verdict(promise, cell):24}"
            f"{interval(gained('over_sockets', promise, cell, 'on', 'append'), 2):>32}"
        )
print(under)

# %%
plot(
    {
        f"PUTs a second in one process, {promise} | PUTs/s": {
            "storing nothing": [rates["in_one_process", promise][cell, "nothing"] for cell in CELLS],
            "Orcas, batch writes": [rates["in_one_process", promise][cell, "on"] for cell in CELLS],
            "a file each": [rates["in_one_process", promise][cell, "off"] for cell in CELLS],
        }
        for promise in PROMISED
    },
    [f"{size}, {count} at once" for size, count in CELLS],
    under,
    log=True,
)

# %% [markdown]
# ## How it is measured
#
# - *In one process* is the report's way: the client calls the server without a socket (Go's `httptest` there). Signatures
#   are checked here; the report says that authentication is included, and nothing of signatures.
# - *Over sockets* is `orcas bench`, whose load is made in Rust on one thread. *boto3* is this interpreter with as many
#   threads as requests in flight; its lock lets one of them work at a time, and each call takes more CPU than the server
#   does. So it shows what a Python program gains, which is less than the server could give.
# - Each PUT has new bytes and a new key. The report sent the same bytes each time.
# - *Off* follows the report: SQLite with a write-ahead log, immediate transactions, 25 connections that wait for a locked
#   database for up to 10 s. The report says nothing of syncs. In the first table nothing is synced on that side, and
#   SQLite syncs its checkpoints alone (`synchronous=NORMAL`); in the second, the file, its directory and each
#   transaction are (`synchronous=FULL`).
#
# ## Doubts
#
# - The first table keeps a flaw of the report: its two sides do not promise the same. On, an answer means memory, for up
#   to ten seconds. Off, it means the page cache, which outlives a killed process. The second table has no such flaw.
# - The store of files is written in Python, on threads beside the event loop; the report's was Go. What it spends in
#   Python makes off slower. Its system calls and SQLite are most of it, and both run without the interpreter's lock.
# - With many writers, off waits in SQLite's busy handler, which sleeps up to 100 ms at a time. The report's did too, which
#   is why its rate falls with the number of requests in flight.
# - The 64 KB rows of the report reach 1.3 GB/s with a checksum of every byte, on a machine with more and faster cores.
#
# `benchmarks/run.py --only batch` compares batch writes with one append in the engine alone, and `--only batch-server`
# over raw sockets; `docs/performance/batch.md` has the figures.
