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
# # Peers
#
# *How fast is Orcas beside the server that I use now?*
#
# The only comparison in the reports that Orcas started from is that of a Go server with itself, its S3 service and
# the file layer below it: in the *S3 performance test report* (14 November 2025, in Chinese; translated), section
# *Compared with VFS*.
#
# > | What | Operations a second |
# > |---|---|
# > | file layer, one thread | 12,974 |
# > | file layer, 3 at once | 6,325 |
# > | S3, one thread, 1 KB, batch writes on | 18,660 |
# > | S3, 100 at once, 4 KB, batch writes on | 47,236 |
# >
# > *"S3 includes the cost of HTTP, authentication and the API; with batch writes it reaches and even exceeds the file layer
# > directly, which proves that batch writes work."*
#
# Below, the servers that `pip` and `go install` bring get the same signed requests over the same sockets, in turn within
# each round, and every byte that comes back is compared (`orcas bench`). Orcas is there twice: `sync`, which is its
# default, and `unsafe-none`, which promises as little as a server in memory does. **Compare only servers that promise the
# same**: what an answer to a PUT means stands beside each name.

# %%
import contextlib
import os
import statistics
import time
from urllib.parse import unquote, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from support import Watched, in_turn, interval, plot, size, spread, stamp, working_directory

import peers
from orcas.bench.compare import ratio
from side_by_side import Peer, bench, failures, rates

KEYS = ("NOTEBOOKACCESSKEY001", "notebook/secret/key/of/no/value/00000000")
OURS = {f"Orcas, {mode}": mode for mode in ("sync", "unsafe-none")}
BASE = "Orcas, sync"


def named():
    """The servers that NOTEBOOK_PEERS lists."""
    found = {}
    for entry in filter(None, os.environ.get("NOTEBOOK_PEERS", "").split(",")):
        name, _, url = entry.strip().partition("=")
        parts = urlsplit(url)
        keys = [unquote(key) for key in (parts.username, parts.password) if key]
        keys = keys or [os.environ.get(f"AWS_{which}", "") for which in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
        found[name] = Peer(f"http://{parts.hostname}:{parts.port or 80}", *keys)
    return found


running = contextlib.ExitStack()
place = running.enter_context(working_directory())
servers, kept, versions = {}, dict(OURS), []
for name, mode in OURS.items():
    watched = Watched(durability=mode, root_access_key=KEYS[0], root_secret_key=KEYS[1])
    running.callback(watched.stop)
    servers[name] = Peer(watched.server.endpoint, *KEYS)
for name, known in peers.KNOWN.items():
    version = known.version()
    if version is None:
        print(f"{name} is not installed: {known.install}")
        continue
    try:
        servers[name] = running.enter_context(peers.started(name, place / name, KEYS))
    except RuntimeError as error:
        print(f"{name} is not measured: {error}")
        continue
    kept[name] = known.durability
    versions.append(f"{name} {version}")
for name, peer in named().items():
    servers[name], kept[name] = peer, "not known here"


def client(name, secret=None):
    return boto3.client(
        "s3",
        endpoint_url=servers[name].url,
        aws_access_key_id=servers[name].access_key,
        aws_secret_access_key=secret or servers[name].secret_key,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def signatures(name):
    """Whether a server checks signatures: tested with a wrong secret, not assumed."""
    try:
        client(name, "a wrong secret").list_buckets()
    except ClientError as refusal:
        return f"checked ({refusal.response['Error']['Code']})"
    return "not checked"


print(f"{'server':24}{'signatures':36}what an answer to a PUT means")
for name in servers:
    print(f"{name:24}{signatures(name):36}{kept[name]}")
durability = "; ".join(f"{name}: {what}" for name, what in kept.items())

# %%
CONNECTIONS, SECONDS, ROUNDS = 10, size(4, 1) / 10, size(5, 1)
OPERATIONS = ("put", "get", "head", "list")
results = bench(
    servers,
    f"""
connections = {CONNECTIONS}
seconds = {SECONDS}
warmup_seconds = {size(2, 0) / 10}
keys = {size(200, 10)}
size = "1KiB"
list_page = 100
"""
    + "".join(f'[[case]]\nname = "{name}"\nmix = {{ {name} = 1 }}\n' for name in OPERATIONS),
    ROUNDS,
)
under = stamp(
    f"{ROUNDS} rounds of {SECONDS:g} s, 1 KiB, lists of 100 keys, signed, new bytes, every answer compared; lines: the rounds,"
    f" at ratios the 95 % interval. {', '.join(versions)}",
    durability=durability,
    concurrency=f"{CONNECTIONS} connections",
)


def to_orcas(operation, name):
    """Orcas with `sync` ÷ this server; None where nothing was right."""
    return ratio(rates(results[operation][BASE]), rates(results[operation][name]))


print(f"{'':8}{'':24}{'a second':>12}{'p50 ms':>10}{'p99 ms':>10}{'server CPU µs':>16}   {BASE} ÷ it (95 %)")
for operation in OPERATIONS:
    for name, result in results[operation].items():
        total = result["total"]
        found = total["operations"][operation]
        latency = found["latency_ms"] or {"p50": float("nan"), "p99": float("nan")}
        used, over = total["server_cpu_us_per_operation"], to_orcas(operation, name)
        print(
            f"{operation:8}{name:24}{found['operations_per_second']:12,.0f}{latency['p50']:10.2f}{latency['p99']:10.2f}"
            f"{'unknown' if used is None else f'{used:,.0f}':>16}   {interval(over, 2) if over and name != BASE else ''}"
        )
        print("".join(f"{'':8}{what}\n" for what in failures(result)), end="")
print(under)

# %%
plot(
    {
        "Operations a second | operations/s": {
            name: [rates(results[operation][name]) or None for operation in OPERATIONS] for name in servers
        },
        f"Operations a second, {BASE} ÷ the other server | {BASE} ÷ other": {
            name: [to_orcas(operation, name) for operation in OPERATIONS] for name in servers if name != BASE
        },
    },
    [operation.upper() for operation in OPERATIONS],
    under,
    log=True,
)

# %% [markdown]
# ## Through boto3
#
# One client that waits for each answer: what a script sees. boto3's own time is part of every figure.

# %%
COUNT, LISTED, BOTO3_ROUNDS = size(40, 5), size(100, 10), size(5, 1)
BUCKET = f"orcas-notebook-{os.urandom(4).hex()}"
clients = {name: client(name) for name in servers}
for s3 in clients.values():
    s3.create_bucket(Bucket=BUCKET)
    for number in range(LISTED):
        s3.put_object(Bucket=BUCKET, Key=f"read/{number:03}", Body=os.urandom(1024))

CALLS = {
    "put": lambda s3, key, n: s3.put_object(Bucket=BUCKET, Key=key, Body=os.urandom(1024)),
    "get": lambda s3, key, n: s3.get_object(Bucket=BUCKET, Key=f"read/{n % LISTED:03}")["Body"].read(),
    "head": lambda s3, key, n: s3.head_object(Bucket=BUCKET, Key=f"read/{n % LISTED:03}"),
    "list": lambda s3, key, n: s3.list_objects_v2(Bucket=BUCKET, Prefix="read/", MaxKeys=LISTED),
}
arms = [(operation, name) for operation in OPERATIONS for name in servers]
# The median of each round.
latency_ms = {arm: [] for arm in arms}
for number, (operation, name) in in_turn(arms, BOTO3_ROUNDS):
    taken = []
    for turn in range(COUNT):
        began = time.perf_counter()
        CALLS[operation](clients[name], f"new/{number}/{turn}", turn)
        taken.append((time.perf_counter() - began) * 1000)
    latency_ms[operation, name].append(statistics.median(taken))

under_boto3 = stamp(
    f"{BOTO3_ROUNDS} rounds of {COUNT} requests an arm in turn, 1 KiB, boto3 from this process; medians of rounds; lines:"
    f" from the least to the most of the rounds. {', '.join(versions)}",
    durability=durability,
    concurrency="1 client on 1 connection",
)
print(f"{'median (least–most), ms':26}" + "".join(f"{operation:>24}" for operation in OPERATIONS))
for name in servers:
    print(f"{name:26}" + "".join(f"{spread(latency_ms[operation, name]):>24}" for operation in OPERATIONS))
print(under_boto3)

# %%
plot(
    {
        "Time of a call of boto3 | ms": {
            name: [latency_ms[operation, name] for operation in OPERATIONS] for name in servers
        }
    },
    [operation.upper() for operation in OPERATIONS],
    under_boto3,
    log=True,
)
for s3 in clients.values():
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": entry["Key"]} for entry in page["Contents"]]})
    s3.delete_bucket(Bucket=BUCKET)
running.close()

# %% [markdown]
# ## Who is measured, and doubts
#
# - The servers above are started if they are installed (`benchmarks/peers.py` has the commands), on loopback addresses and
#   over empty directories on the same disk, and stopped at the end. `NOTEBOOK_PEERS="name=http://ACCESS:SECRET@127.0.0.1:9000,…"`
#   names others that are already running. The part before `@` is percent-encoded; without it, the AWS variables are used.
#   On each server, a bucket is created and removed again. Note version, disk and settings of such a server yourself.
# - SeaweedFS is a distributed store: here a master, a volume server, a filer and an S3 gateway share one process. That is
#   not what it is made for. versitygw hands objects to a file system and has no setting that syncs them. moto and
#   MiniStack imitate AWS for tests: they are made to answer like S3, not to be fast.
# - A ratio to a server that stores nothing durably shows the cost of durability as much as the speed of either server.
#   What a server has done with a body when it answers cannot be tested from outside; the column says what its documents
#   or its settings say.
# - All share the machine's processors with the load.
# - The report's service cannot be faster than the layer it calls; if it is, they did not do the same work. It answered from
#   a buffer in memory that is written within ten seconds; the file layer had no such buffer. Sizes and concurrency differ in
#   each row, three at once are half as fast as one, and "HTTP" was Go's `httptest` without a socket.
