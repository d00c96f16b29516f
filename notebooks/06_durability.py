# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Durability: what each mode costs, and what it risks
#
# The reports that Orcas started from do not say what had happened to a write when it was answered. Nothing makes two
# numbers differ more: an answer from memory takes microseconds, an answer from the disk as long as the disk takes.
# Orcas has four modes, for the server or for a bucket (`x-amz-orcas-durability`):
#
# | Mode | An acknowledged write | May be lost |
# |---|---|---|
# | `sync` | is on the disk; writes under way share one flush | nothing |
# | `interval` | is in the page cache; a flush follows within 50 ms | on power loss: the interval |
# | `buffered` | is in memory; flushed by time, size or count | on power loss or a killed process: one window |
# | `unsafe-none` | is visible | everything |

# %%
import os
import statistics

import orcas
from support import Watched, bars, in_threads, in_turn, p95, size, spread, stamp

MODES = ("sync", "interval", "buffered", "unsafe-none")
CONNECTIONS = (1, 16)
ROUNDS, REQUESTS, LENGTH = size(5, 1), size(300, 10), 1024

# %% [markdown]
# ## What each mode costs
#
# One server for each mode, measured in turn; 1 KiB objects, new bytes and keys.

# %%
servers = {mode: Watched(durability=mode) for mode in MODES}
clients = {mode: watched.client(max(CONNECTIONS)) for mode, watched in servers.items()}
for s3 in clients.values():
    s3.create_bucket(Bucket="modes")
arms = [(mode, connections) for mode in MODES for connections in CONNECTIONS]
rates = {arm: [] for arm in arms}
latencies = {arm: [] for arm in arms}
cpu = {arm: [] for arm in arms}
for number, (mode, connections) in in_turn(arms, ROUNDS):
    watched, s3 = servers[mode], clients[mode]
    todo = [(f"{connections}/{number}/{turn}", os.urandom(LENGTH)) for turn in range(REQUESTS)]
    watched.settle()
    used = watched.cpu_ms()
    seconds, taken = in_threads(
        connections,
        ((lambda key=key, body=body, s3=s3: s3.put_object(Bucket="modes", Key=key, Body=body)) for key, body in todo),
    )
    watched.settle()
    rates[mode, connections].append(REQUESTS / seconds)
    latencies[mode, connections] += taken
    cpu[mode, connections].append((watched.cpu_ms() - used) / REQUESTS)

under = stamp(
    f"PUTs of {LENGTH} bytes, new bytes, boto3 from this process; {ROUNDS} rounds of {REQUESTS} requests an arm",
    durability="as below each group",
    concurrency="threads and connections as the legend says",
)
print(f"{'':28}{'PUTs a second':>24}{'median ms':>11}{'p95 ms':>9}{'server CPU ms':>22}")
for mode, connections in arms:
    taken = latencies[mode, connections]
    print(
        f"{mode:12} {connections:3} at once   {spread(rates[mode, connections], 0):>24}{statistics.median(taken):11.2f}"
        f"{p95(taken):9.2f}{spread(cpu[mode, connections]):>22}"
    )
print(under)

# %%
bars(
    {
        "PUTs a second": {
            f"{connections} at once": [statistics.median(rates[mode, connections]) for mode in MODES]
            for connections in CONNECTIONS
        },
        "Median latency, ms": {
            f"{connections} at once": [statistics.median(latencies[mode, connections]) for mode in MODES]
            for connections in CONNECTIONS
        },
    },
    list(MODES),
    under,
)
for watched in servers.values():
    watched.stop()

# %% [markdown]
# ## What each mode risks
#
# A killed process, for example by the kernel when memory is short: each server is killed with SIGKILL in the middle of
# uploads, restarted on the same store, and asked for everything that it had acknowledged. A power cut cannot be shown
# in a notebook; the crash tests of Orcas simulate it (`docs/reliability.md`).

# %%
for mode in MODES if size(1, 0) else ("sync", "buffered"):
    watched = Watched(durability=mode, write_buffer_window_sec=10)
    watched.s3.create_bucket(Bucket="modes")
    acknowledged = []
    for number in range(size(400, 30)):
        watched.s3.put_object(Bucket="modes", Key=f"{number:05}", Body=os.urandom(LENGTH))
        acknowledged.append(f"{number:05}")
    watched.server.kill()
    again = orcas.Server(watched.data, durability=mode)
    pages = again.client().get_paginator("list_objects_v2").paginate(Bucket="modes")
    found = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
    lost = [key for key in acknowledged if key not in found]
    print(f"{mode:12} {len(acknowledged):4} acknowledged, {len(lost):4} lost when the process was killed")
    # What is there is a prefix of what was acknowledged, whatever the mode.
    assert lost == acknowledged[len(acknowledged) - len(lost) :]
    assert not lost or mode == "buffered", mode
    again.stop()
    watched.stop()
