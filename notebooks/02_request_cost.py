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
# # What a request costs
#
# *What does a request cost the server, what does my client add to it, and where does the time go?*
#
# The report *S3 HTTP headers: measured results of the optimisation* (in Chinese; translated), from which Orcas
# started, measured operations of a Go server before and after its header formatting was made faster. The table is
# from its section 2.
#
# > | Operation | Before | After | Allocations after |
# > |---|---|---|---|
# > | GetObject | 1.729 ms | 1.586 ms | 1,134 |
# > | HeadObject | 0.315 ms | 0.304 ms | 285 |
# > | PutObject | 6.004 ms | 5.780 ms | 24,355 |
# > | ListObjects | 0.838 ms | 0.797 ms | 754 |
#
# Below is the same table for Orcas, and then what the report lacks: the server's CPU, the client's, and the threads.

# %%
import datetime as dt
import os
import statistics
import tempfile
import time
from pathlib import Path

import boto3
from botocore.config import Config
from support import DIRECTORY, in_turn, interval, plot, size, spread, stamp

import in_process
import load
from orcas.bench.compare import ratio
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Bare, Orcas
from signing import Signer
from small import answer_like, make_bucket

OPERATIONS = ("GET", "PUT", "HEAD", "LIST of 100")
OBJECTS, LENGTH = size(1000, 120), 1024
ROUNDS, COUNT = size(6, 2), size(600, 20)
CONNECTIONS = 16
# A server that used next to no CPU for so long is at rest.
REST_SECONDS = 0.1


def body(fresh):
    """1 KiB that nobody has sent yet, or always the same."""
    return os.urandom(LENGTH) if fresh else bytes(LENGTH)


def requests(signer, operation, count, *, fresh=True, first=0):
    """As bytes, signed, with the headers that boto3 sends."""
    checked = {"x-amz-checksum-mode": "ENABLED"}
    made = {
        "GET": lambda n: signer.get(f"/cost/{n % OBJECTS:06}"),
        "PUT": lambda n: signer.put(f"/cost/new-{first + n:08}", body(fresh)),
        "HEAD": lambda n: signer.request("HEAD", f"/cost/{n % OBJECTS:06}", headers=checked),
        "LIST of 100": lambda _: signer.get("/cost", {"list-type": "2", "max-keys": "100"}),
    }[operation]
    return [made(n) for n in range(count)]


def filling(signer, *, fresh):
    return [signer.put(f"/cost/{n:06}", body(fresh)) for n in range(OBJECTS)]


# %% [markdown]
# ## In one process, and over a socket
#
# *In one process* is the application without uvicorn and without a client, `unsafe-none`. Signatures are checked here
# too, because that cannot be turned off. *Raw socket* and *boto3* are one client on one connection to `orcas serve`,
# `sync`. All are medians of the time of a request.

# %%
place = tempfile.TemporaryDirectory(dir=DIRECTORY, prefix="orcas-notebook-")
data = Path(place.name)
orcas = Orcas(data / "served", settings=UNSCRUBBED)
make_bucket(orcas, "cost")
load.run(orcas.address, filling(orcas.signer(), fresh=True))
s3 = boto3.client(
    "s3",
    endpoint_url=orcas.url,
    aws_access_key_id=ACCESS_KEY,
    aws_secret_access_key=SECRET_KEY,
    region_name="us-east-1",
    config=Config(retries={"total_max_attempts": 1}),
)
CALLS = {
    "GET": lambda n: s3.get_object(Bucket="cost", Key=f"{n % OBJECTS:06}")["Body"].read(),
    "PUT": lambda n: s3.put_object(Bucket="cost", Key=f"boto3-{n:08}", Body=body(True)),
    "HEAD": lambda n: s3.head_object(Bucket="cost", Key=f"{n % OBJECTS:06}"),
    "LIST of 100": lambda _: s3.list_objects_v2(Bucket="cost", MaxKeys=100),
}
written = 0


def one_process(operation, number):
    """A store of its own each time: it holds what a benchmark would have put there."""
    signer = Signer(ACCESS_KEY, SECRET_KEY, in_process.HOST, dt.datetime.now(dt.UTC))
    made = signer.request("PUT", "/cost", headers={"content-length": "0"})
    todo = requests(signer, operation, COUNT, fresh=False)
    store = data / f"here-{operation[:4]}-{number}"
    return in_process.seconds_each(store, "unsafe-none", [[made, *filling(signer, fresh=False)], todo])[1]


def raw_socket(operation, number):
    global written
    todo = requests(orcas.signer(), operation, COUNT, first=written)
    written += COUNT
    return [ns / 1e9 for ns in load.run(orcas.address, todo, connections=1)]


def through_boto3(operation, number):
    taken = []
    for turn in range(COUNT // 4):
        began = time.perf_counter()
        CALLS[operation](number * COUNT + turn)
        taken.append(time.perf_counter() - began)
    return taken


VIAS = {"in one process": one_process, "raw socket": raw_socket, "boto3": through_boto3}
arms = [(operation, via) for operation in OPERATIONS for via in VIAS]
latency_ms = {arm: [] for arm in arms}
for number, (operation, via) in in_turn(arms, size(3, 1)):
    taken = VIAS[via](operation, number)
    latency_ms[operation, via].append(statistics.median(taken) * 1000)

REPORT_MS = {"GET": 1.586, "PUT": 5.780, "HEAD": 0.304, "LIST of 100": 0.797}
under_latency = stamp(
    f"signed, {LENGTH} bytes; {size(3, 1)} rounds of {COUNT} requests an arm (boto3: {COUNT // 4}), in turn; medians",
    durability="sync; in one process unsafe-none, the same bytes each time",
    concurrency="1 client, 1 connection",
)
print(f"{'':14}{'report':>10}" + "".join(f"{via + ', ms':>26}" for via in VIAS))
for operation in OPERATIONS:
    told = "".join(f"{spread(latency_ms[operation, via], 3):>26}" for via in VIAS)
    print(f"{operation:14}{REPORT_MS[operation]:10.3f}{told}")
print(under_latency)

# %%
plot(
    {
        "Time of an operation | ms": {
            "report (in one process, sizes unknown)": [REPORT_MS[operation] for operation in OPERATIONS],
            "Orcas in one process, no disk, same bytes": [
                latency_ms[operation, "in one process"] for operation in OPERATIONS
            ],
            **{
                f"Orcas, {via}, sync, new bytes": [latency_ms[operation, via] for operation in OPERATIONS]
                for via in ("raw socket", "boto3")
            },
        }
    },
    list(OPERATIONS),
    under_latency,
    log=True,
)

# %% [markdown]
# ## Beside bare uvicorn
#
# The least that a Python server can do: uvicorn with the settings that Orcas gives it, and an application that reads
# the same request and returns the same headers and as many bytes, without inspecting anything
# (`benchmarks/bare_uvicorn.py`). What a ratio has above 1 is the cost of the signature, the lookup, the checksums and,
# for PUT, the disk. `benchmarks/run.py --only cpu` measures the same for longer.

# %%
signer = orcas.signer()
like = {
    operation: answer_like(orcas, requests(signer, operation, 1)[0]) for operation in OPERATIONS if operation != "PUT"
}
like["PUT"] = answer_like(orcas, signer.put("/cost/probe", body(True)))
bare = Bare({method: like[method] for method in ("GET", "PUT", "HEAD")})
# A list is a GET as well, and bare uvicorn does not look at targets.
bare_list = Bare({"GET": like["LIST of 100"]})


def at(operation, which):
    if which == "orcas":
        return orcas
    return bare_list if operation.startswith("LIST") else bare


arms = [(operation, which) for operation in OPERATIONS for which in ("orcas", "bare")]
cpu_us = {arm: [] for arm in arms}
threads_us = {operation: {} for operation in OPERATIONS}
for number, (operation, which) in in_turn(arms, ROUNDS + 1):
    process = at(operation, which)
    todo = requests(orcas.signer(), operation, COUNT, first=written)
    written += COUNT
    process.settle(REST_SECONDS)
    before, threads = process.cpu_ns(), process.threads_ns()
    load.run(process.address, todo, CONNECTIONS)
    process.settle(REST_SECONDS)
    # The first round is not counted.
    if number:
        cpu_us[operation, which].append((process.cpu_ns() - before) / COUNT / 1000)
        if which == "orcas":
            for name, used in process.threads_ns().items():
                threads_us[operation].setdefault(name, []).append((used - threads.get(name, 0)) / COUNT / 1000)

under_cpu = stamp(
    f"signed, {LENGTH} bytes, new bytes, raw sockets; {ROUNDS} rounds of {COUNT} requests an arm, in turn; server CPU of all"
    " threads",
    durability="sync",
    concurrency=f"{CONNECTIONS} connections",
)
print(f"{'':14}{'Orcas, CPU µs':>24}{'bare uvicorn, CPU µs':>24}   Orcas ÷ bare (95 %)")
for operation in OPERATIONS:
    ours, theirs = cpu_us[operation, "orcas"], cpu_us[operation, "bare"]
    print(f"{operation:14}{spread(ours, 0):>24}{spread(theirs, 0):>24}   {interval(ratio(ours, theirs), 2)}")
print(under_cpu)

# %%
plot(
    {
        "Server CPU of a request | µs": {
            "Orcas": [cpu_us[operation, "orcas"] for operation in OPERATIONS],
            "bare uvicorn, the same bytes": [cpu_us[operation, "bare"] for operation in OPERATIONS],
        },
        "Server CPU of a request, with the 95 % interval | Orcas ÷ bare uvicorn": {
            "server CPU": [ratio(cpu_us[operation, "orcas"], cpu_us[operation, "bare"]) for operation in OPERATIONS],
        },
    },
    list(OPERATIONS),
    under_cpu,
)
for process in (bare, bare_list):
    process.stop()

# %% [markdown]
# ## By thread
#
# Python, uvicorn and what Rust does of a request before and after the engine run on the first thread, which is called `python`.
# `orcas-io` is the pool that reads for lists and large bodies, `orcas-commit` orders and writes, `orcas-apply` brings the index
# up to date after the answer. Threads below half a microsecond are combined into one row.

# %%
LEAST_US = 0.5
medians = {
    operation: {name: statistics.median(values) for name, values in threads_us[operation].items()}
    for operation in OPERATIONS
}
shown = sorted(
    {name for found in medians.values() for name, used in found.items() if used >= LEAST_US},
    key=lambda name: -max(found.get(name, 0.0) for found in medians.values()),
)
by_thread = {name: [medians[operation].get(name, 0.0) for operation in OPERATIONS] for name in shown}
by_thread["all others"] = [
    sum(used for name, used in medians[operation].items() if name not in shown) for operation in OPERATIONS
]
print(f"{'server CPU, µs':18}" + "".join(f"{operation:>14}" for operation in OPERATIONS))
for name, used in by_thread.items():
    print(f"{name:18}" + "".join(f"{value:14.1f}" for value in used))
print(under_cpu)

# %%
plot({"Server CPU of a request by thread | µs": by_thread}, list(OPERATIONS), under_cpu, stacked=True)

# %% [markdown]
# ## The client's part
#
# boto3 on one connection: the CPU time of this process beside that of the server. A Python program that sends one
# request after the other mostly waits for boto3.

# %%
client_us = {operation: [] for operation in OPERATIONS}
server_us = {operation: [] for operation in OPERATIONS}
turns = COUNT // 4
for number, operation in in_turn(OPERATIONS, ROUNDS):
    orcas.settle(REST_SECONDS)
    before, used = orcas.cpu_ns(), time.process_time_ns()
    for turn in range(turns):
        CALLS[operation]((1 << 20) + number * turns + turn)
    client_us[operation].append((time.process_time_ns() - used) / turns / 1000)
    orcas.settle(REST_SECONDS)
    server_us[operation].append((orcas.cpu_ns() - before) / turns / 1000)

under_client = stamp(
    f"signed, {LENGTH} bytes, new bytes, boto3 from this process; {ROUNDS} rounds of {turns} requests an operation, in turn",
    durability="sync",
    concurrency="1 client on 1 connection",
)
print(f"{'':14}{'boto3, CPU µs':>24}{'server, CPU µs':>24}{'boto3 ÷ server':>18}")
for operation in OPERATIONS:
    mine, theirs = client_us[operation], server_us[operation]
    print(f"{operation:14}{spread(mine, 0):>24}{spread(theirs, 0):>24}{ratio(mine, theirs).ratio:18.1f}")
print(under_client)

# %%
plot(
    {
        "CPU of a request | µs": {
            "server": [statistics.median(server_us[operation]) for operation in OPERATIONS],
            "boto3": [statistics.median(client_us[operation]) for operation in OPERATIONS],
        }
    },
    list(OPERATIONS),
    under_client,
    stacked=True,
)
orcas.stop()
place.cleanup()

# %% [markdown]
# ## How it is measured, and doubts
#
# - The first measurement is the report's way: requests to the application in this process, no socket, the same bytes each
#   time, nothing on a disk. The others are done under the conditions of users: over sockets, signed, new bytes, `sync`;
#   the server's CPU is what the kernel counts for its process, including the work that it does after its answers.
# - The report's times are those of Go's benchmark tool, not CPU time: with 12 operations at once ("default"), the time of
#   an operation says little about its cost. The sizes of the objects and of the list are not given.
# - Client, server and store were one process there, without a socket (the later report names `httptest`). So the
#   allocations are those of all three, and the client's work cannot be separated from the server's.
# - Nothing is said about signatures, about the content of the bodies, or about what a PUT would survive when it was
#   answered. The objects cannot have been small: a GET takes 1.6 ms, five times as long as a HEAD, and a PUT makes 24,355
#   allocations.
