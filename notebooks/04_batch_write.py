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
# Small objects that arrive together share a commit. The notebook begins with a report that Orcas started from, which
# measured a write buffer on another machine in November 2025 (in Chinese; translated; operations per second).
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

# %% [markdown]
# ## What these numbers were worth
#
# - Client and server were one process (Go's `httptest` without a socket); authentication is said to be included, but
#   signatures are not mentioned. A PUT of Orcas over HTTP pays for parsing, a signature and a socket on both sides.
# - With the buffer, an answer meant *in memory*, for up to ten seconds. Without it, an answer meant a file and a
#   database transaction. So the two sides did not promise the same. Orcas has that buffer too
#   (`ORCAS_DURABILITY=buffered`), but its default promises the disk (`sync`), and there sharing a commit gains most:
#   one sync for all waiting writes.
# - The 64 KB rows reach 1.3 GB/s with a checksum of every byte on one machine; the bytes of the objects were the same each
#   time.
# - In Orcas, an object is not a file of its own even without batch writes: it is one append to the log. So "off" is
#   many times faster than in the report, and the ratio to it is smaller for that reason.
#
# Below every PUT has new bytes and a new key, is signed, and goes through boto3 over a socket. boto3 itself takes more CPU
# than the server; `benchmarks/run.py --only batch` measures the same through the engine alone, and `--only batch-server`
# over raw sockets.

# %%
import os
import statistics

from support import MIB, Watched, bars, in_threads, in_turn, p95, size, spread, stamp

SIZES = {"1 KiB": 1 << 10, "4 KiB": 4 << 10, "64 KiB": 64 << 10}
CONNECTIONS = (1, 10) if size(0, 1) else (1, 10, 50, 100)
MODES = ("buffered", "sync")
ROUNDS, REQUESTS = size(3, 1), size(300, 12)

servers = {
    (mode, batch): Watched(durability=mode, batch_write_enabled=batch) for mode in MODES for batch in (True, False)
}
for watched in servers.values():
    watched.s3.create_bucket(Bucket="batch")

# %% [markdown]
# ## On and off, in both modes
#
# All servers are measured in turn within each round. *Server CPU* is that of the whole server process for each PUT.

# %%
cells = [(mode, name, connections) for mode in MODES for name in SIZES for connections in CONNECTIONS]
rates = {(*cell, batch): [] for cell in cells for batch in (True, False)}
latencies = {arm: [] for arm in rates}
cpu = {arm: [] for arm in rates}
clients = {key: watched.client(max(CONNECTIONS)) for key, watched in servers.items()}

for number, (mode, name, connections, batch) in in_turn(rates, ROUNDS):
    watched, s3 = servers[mode, batch], clients[mode, batch]

    def put(key, body, s3=s3):
        s3.put_object(Bucket="batch", Key=key, Body=body)

    todo = [(f"{name}/{connections}/{number}/{turn}", os.urandom(SIZES[name])) for turn in range(REQUESTS)]
    watched.settle()
    used = watched.cpu_ms()
    seconds, taken = in_threads(connections, ((lambda job=job: put(*job)) for job in todo))
    watched.settle()
    arm = (mode, name, connections, batch)
    rates[arm].append(REQUESTS / seconds)
    latencies[arm] += taken
    cpu[arm].append((watched.cpu_ms() - used) / REQUESTS)

# %%
CLAIMED = {
    "1 KiB": {1: 4.3, 10: 6.9, 50: 9.4, 100: 5.9},
    "4 KiB": {1: 3.6, 10: 14.3, 50: 14.2, 100: 23.2},
    "64 KiB": {1: 1.7, 10: 3.2, 50: 6.1, 100: 7.8},
}
under = stamp(
    f"boto3 from this process, signed, new bytes; {ROUNDS} rounds of {REQUESTS} requests an arm",
    durability="as each plot says",
    concurrency="threads and connections as below each group",
)
print(
    f"{'':28}{'PUTs a second, on':>22}{'off':>22}{'on ÷ off':>10}{'report':>8}{'p95 on':>8}{'off':>7}{'CPU on':>8}{'off':>6}"
)
for mode, name, connections in cells:
    on, off = ((mode, name, connections, batch) for batch in (True, False))
    ratio = statistics.median(a / b for a, b in zip(rates[on], rates[off], strict=True))
    print(
        f"{mode:9} {name:7} {connections:3} at once {spread(rates[on], 0):>22}{spread(rates[off], 0):>22}{ratio:10.2f}"
        f"{CLAIMED[name][connections]:8.1f}{p95(latencies[on]):8.1f}{p95(latencies[off]):7.1f}"
        f"{statistics.median(cpu[on]):8.2f}{statistics.median(cpu[off]):6.2f}"
    )
print("latencies and CPU in milliseconds\n" + under)

# %%
bars(
    {
        f"{mode}: PUTs a second, batch writes on ÷ off": {
            "report": [CLAIMED[name][connections] for name in SIZES for connections in CONNECTIONS],
            "Orcas through boto3": [
                statistics.median(rates[mode, name, connections, True])
                / statistics.median(rates[mode, name, connections, False])
                for name in SIZES
                for connections in CONNECTIONS
            ],
        }
        for mode in MODES
    },
    [f"{name}\n{connections}" for name in SIZES for connections in CONNECTIONS],
    under,
)

# %% [markdown]
# Nothing was lost: every object is present, and its size is counted.

# %%
for (mode, _), watched in servers.items():
    pages = watched.s3.get_paginator("list_objects_v2").paginate(Bucket="batch")
    found = [entry["Size"] for page in pages for entry in page.get("Contents", [])]
    assert len(found) == ROUNDS * REQUESTS * len(SIZES) * len(CONNECTIONS), mode
    print(f"{mode:9} {len(found):,} objects, {sum(found) / MIB:,.1f} MiB")
    watched.stop()
