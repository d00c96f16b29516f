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
# *What do I pay for an answer that means "it is on the disk", and what do I lose if I do not?*
#
# The reports that Orcas started from do not say what had happened to a write when it was answered, so there is no table
# to stand beside. Orcas has four modes, for the server or for a bucket (`x-amz-orcas-durability`):
#
# | Mode | An acknowledged write | May be lost |
# |---|---|---|
# | `sync` | is on the disk; writes under way share one flush | nothing |
# | `interval` | is in the page cache; a flush follows within 50 ms | on power loss: the interval and a flush |
# | `buffered` | is in memory; flushed by time, size or count | on power loss or a killed process: one window |
# | `unsafe-none` | is visible | everything |
#
# ## What each mode costs
#
# One server for each mode, in turn in every round; 1 KiB objects, new bytes and keys. The load is that of `orcas bench`,
# which is made in Rust and takes little of the machine. *Processor of the load* says how much of one processor it took:
# near 100 % it would be what is measured.

# %%
import os

import orcas
from support import Watched, in_threads, in_turn, interval, plot, size, spread, stamp

from orcas.bench.compare import ratio
from side_by_side import Peer, bench, failures, rates

MODES = ("sync", "interval", "buffered", "unsafe-none")
CONNECTIONS = (1, 16, 64) if size(1, 0) else (1, 16)
ROUNDS, SECONDS, LENGTH = size(5, 1), size(8, 1) / 10, 1024

servers = {mode: Watched(durability=mode) for mode in MODES}
peers = {
    mode: Peer(watched.server.endpoint, watched.server.access_key, watched.server.secret_key)
    for mode, watched in servers.items()
}
measured = bench(
    peers,
    f"mix = {{ put = 1 }}\nsize = {LENGTH}\nseconds = {SECONDS}\nwarmup_seconds = {size(2, 0) / 10}\n"
    + "".join(f'[[case]]\nname = "{count}"\nconnections = {count}\n' for count in CONNECTIONS),
    ROUNDS,
)
for watched in servers.values():
    watched.stop()


def of_rounds(mode, count, *path):
    """One figure of every round."""
    found = []
    for entry in measured[str(count)][mode]["rounds"]:
        for name in path:
            entry = entry[name]
        found.append(entry)
    return found


under = stamp(
    f"PUTs of {LENGTH} bytes, new bytes, signed, orcas bench over sockets; {ROUNDS} rounds of {SECONDS:g} s an arm, in turn;"
    " lines: 95 % interval, or the least and the most of the rounds",
    durability="as each row says",
    concurrency="connections as the rows and the legends say",
)
print(f"{'':26}{'PUTs a second':>26}{'÷ sync (95 %)':>20}{'p50 ms':>8}{'p99 ms':>8}{'server CPU µs':>20}{'load':>7}")
for count in CONNECTIONS:
    for mode in MODES:
        result = measured[str(count)][mode]
        to_sync = interval(ratio(rates(result), rates(measured[str(count)]["sync"])), 2)
        latency = result["total"]["operations"]["put"]["latency_ms"]
        print(
            f"{mode:12}{count:4} at once  {spread(rates(result), 0):>26}{to_sync:>20}{latency['p50']:8.2f}{latency['p99']:8.2f}"
            f"{spread(of_rounds(mode, count, 'server_cpu_us_per_operation'), 0):>20}{result['client_busy']:7.0%}"
        )
        print("".join(f"    {what}\n" for what in failures(result)), end="")
print(under)

# %%
plot(
    {
        "PUTs a second | PUTs/s": {
            f"Orcas, {mode}": [rates(measured[str(count)][mode]) for count in CONNECTIONS] for mode in MODES
        },
        "Latency of a PUT, median of each round | ms": {
            f"Orcas, {mode}": [
                of_rounds(mode, count, "operations", "put", "latency_ms", "p50") for count in CONNECTIONS
            ]
            for mode in MODES
        },
    },
    [f"{count} at once" for count in CONNECTIONS],
    under,
    log=True,
)

# %% [markdown]
# ## Through boto3
#
# A Python program with threads sees less of it: boto3 takes more CPU for a call than the server does, and the
# interpreter's lock lets one thread work at a time. So 16 at once may be slower than one, whatever the mode.

# %%
BOTO3_CONNECTIONS, BOTO3_ROUNDS, REQUESTS = (1, 16), size(3, 1), size(150, 10)
servers = {mode: Watched(durability=mode) for mode in MODES}
clients = {mode: watched.client(max(BOTO3_CONNECTIONS)) for mode, watched in servers.items()}
for s3 in clients.values():
    s3.create_bucket(Bucket="modes")
boto3_rates = {(mode, connections): [] for mode in MODES for connections in BOTO3_CONNECTIONS}
for number, (mode, connections) in in_turn(boto3_rates, BOTO3_ROUNDS):
    s3 = clients[mode]
    todo = [(f"{connections}/{number}/{turn}", os.urandom(LENGTH)) for turn in range(REQUESTS)]
    servers[mode].settle()
    seconds, _ = in_threads(
        connections,
        ((lambda key=key, body=body, s3=s3: s3.put_object(Bucket="modes", Key=key, Body=body)) for key, body in todo),
    )
    boto3_rates[mode, connections].append(REQUESTS / seconds)
for watched in servers.values():
    watched.stop()

under_boto3 = stamp(
    f"PUTs of {LENGTH} bytes, new bytes, boto3 from this process; {BOTO3_ROUNDS} rounds of {REQUESTS} requests an arm, in turn;"
    " lines: from the least to the most of the rounds",
    durability="as each row says",
    concurrency="threads and connections as the rows say",
)
print(f"{'PUTs a second':16}" + "".join(f"{f'{connections} at once':>26}" for connections in BOTO3_CONNECTIONS))
for mode in MODES:
    print(f"{mode:16}" + "".join(f"{spread(boto3_rates[mode, count], 0):>26}" for count in BOTO3_CONNECTIONS))
print(under_boto3)

# %%
plot(
    {
        "PUTs a second through boto3 | PUTs/s": {
            f"Orcas, {mode}": [boto3_rates[mode, count] for count in BOTO3_CONNECTIONS] for mode in MODES
        }
    },
    [f"{count} at once" for count in BOTO3_CONNECTIONS],
    under_boto3,
)

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
