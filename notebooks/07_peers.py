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
# Orcas compared with other S3 servers. The notebook begins with the only comparison in the reports that Orcas started
# from, that of a Go server with itself: its S3 service and the file layer below it (in Chinese; translated).
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

# %% [markdown]
# ## What these numbers were worth
#
# - A service cannot be faster than the layer it calls; if it is, they did not do the same work. The service answered
#   from a buffer in memory that is written within ten seconds; the file layer had no such buffer.
# - Sizes of objects and concurrency are different in each row, and three at once are half as fast as one.
# - "HTTP" was Go's `httptest` without a socket. No other server was measured.
#
# Below every server gets the same signed requests over the same sockets, in turn within each round, and every byte that
# comes back is compared (`orcas bench --against`). Orcas is there twice: `sync`, which is its default, and `unsafe-none`,
# which promises as little as a server in memory does. A ratio to a server that stores nothing durably shows the cost of
# durability as much as the speed of either server.

# %% [markdown]
# ## Who is measured
#
# `NOTEBOOK_PEERS="name=http://ACCESS:SECRET@127.0.0.1:9000,…"` names servers that are already running. The part before
# `@` is percent-encoded; without it, the AWS variables are used. On each server, a bucket is created and removed again.
# A figure gives only the name of such a server: note its version, disk and settings yourself.
#
# With `pip install 'moto[s3]' flask flask-cors` (the extra `notebooks` has them) the server of moto is started and measured
# too. moto imitates AWS for tests: it is made to answer like S3, not to be fast. It is one process of Python threads, keeps
# everything in memory and, unless told otherwise, checks no signatures.

# %%
import atexit
import importlib.metadata
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import unquote, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from support import Watched, bars, in_turn, interval, size, spread, stamp

from orcas.bench.compare import Ratio

KEYS = ("NOTEBOOKACCESSKEY001", "notebook/secret/key/of/no/value/00000000")


def named():
    """Name to URL and keys, as the variable has them."""
    found = {}
    for entry in filter(None, os.environ.get("NOTEBOOK_PEERS", "").split(",")):
        name, _, url = entry.strip().partition("=")
        parts = urlsplit(url)
        keys = tuple(unquote(key) for key in (parts.username, parts.password) if key)
        environment = (os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", ""))
        found[name] = (f"http://{parts.hostname}:{parts.port or 80}", keys or environment)
    return found


def start_moto():
    """The server of moto on a free port, for as long as this process lives."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(child.kill)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return f"http://127.0.0.1:{port}", child
    raise RuntimeError("moto did not start")


DURABILITIES = ("sync", "unsafe-none")
ours = {
    f"Orcas, {mode}": Watched(durability=mode, root_access_key=KEYS[0], root_secret_key=KEYS[1])
    for mode in DURABILITIES
}
peers, versions, moto = named(), [], None
if all(importlib.util.find_spec(module) for module in ("moto", "flask", "flask_cors")):
    url, moto = start_moto()
    peers["moto"] = (url, KEYS)
    versions.append(f"moto {importlib.metadata.version('moto')}")
else:
    print("moto is not installed.")
if not peers:
    print("No peer: only the two of Orcas are measured.")
servers = {name: (watched.server.endpoint, KEYS) for name, watched in ours.items()} | peers


def client(name, secret=None):
    url, (access_key, right) = servers[name]
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret or right,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


# %% [markdown]
# Whether a server checks signatures is tested with a wrong secret, not assumed. What it has done with a body when it
# answers cannot be tested from outside.

# %%
checks = {}
for name in servers:
    try:
        client(name, "a wrong secret").list_buckets()
        checks[name] = "accepts a wrong signature"
    except ClientError as refusal:
        checks[name] = f"refuses a wrong signature ({refusal.response['Error']['Code']})"
kept = {name: "in memory, never on a disk" if name == "moto" else "not known here" for name in peers}
kept |= {f"Orcas, {mode}": mode for mode in DURABILITIES}
for name in servers:
    print(f"{name:24}{checks[name]:56}durability: {kept[name]}")
durability = "; ".join(["Orcas as named", *(f"{name}: {kept[name]}" for name in peers)])

# %% [markdown]
# ## The same load
#
# `orcas bench PEER --against ORCAS --against ORCAS`: a closed loop over raw sockets, its load in Rust. Failed and wrong
# answers do not count; they are listed below the table. *Server CPU* is that of the processes that listen on the port.

# %%
CONNECTIONS, SECONDS, ROUNDS = 10, size(4, 1) / 10, size(5, 1)
OPERATIONS = ("put", "get", "head", "list")
WORKLOAD = f"""
description = "each operation by itself on 1 KiB objects, {CONNECTIONS} connections; lists of 100 keys"
connections = {CONNECTIONS}
seconds = {SECONDS}
warmup_seconds = {size(2, 0) / 10}
keys = {size(200, 10)}
size = "1KiB"
list_page = 100
""" + "".join(f'[[case]]\nname = "{name}"\nmix = {{ {name} = 1 }}\n' for name in OPERATIONS)


def bench(first, others):
    """The document of `orcas bench`. Keys of a peer travel in the environment, where no list of processes shows them."""
    url, (access_key, secret_key) = servers[first]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as workload:
        workload.write(WORKLOAD)
        workload.flush()
        command = [sys.executable, "-m", "orcas", "bench", url, "--workload", workload.name]
        command += ["--rounds", str(ROUNDS), "--json", "--against-access-key", KEYS[0], "--against-secret-key", KEYS[1]]
        command += [word for other in others for word in ("--against", servers[other][0])]
        variables = os.environ | {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=variables | {"AWS_REGION": "us-east-1"})
    # 1: something failed or was wrong, which the document tells.
    assert done.returncode in (0, 1), done.returncode
    return json.loads(done.stdout)


results = {}
for name in peers or list(ours)[:1]:
    others = [other for other in ours if other != name]
    document = bench(name, others)
    for case in document["cases"]:
        for which, result in zip([name, *others], case["servers"], strict=True):
            results.setdefault((name, case["name"]), {})[which] = result
        for which, comparison in zip(others, case["comparisons"], strict=True):
            results[name, case["name"]][which]["ratios"] = comparison["ratios"]


def to_peer(result):
    """Operations a second divided by the peer's; None for the peer itself, and where nothing was right."""
    found = result.get("ratios", {}).get("operations_per_second")
    return None if found is None else Ratio(**found)


under = stamp(
    f"{ROUNDS} rounds of {SECONDS:g} s, 1 KiB, signed, new bytes, every answer compared; bars at ratios: 95 % interval."
    f" {' '.join(versions)}",
    durability=durability,
    concurrency=f"{CONNECTIONS} connections",
)
print(f"{'':8}{'':24}{'a second':>12}{'p50 ms':>10}{'p99 ms':>10}{'server CPU µs':>16}   a second ÷ peer's (95 %)")
for (name, operation), sides in results.items():
    for which, result in sides.items():
        total = result["total"]
        found = total["operations"][operation]
        latency = found["latency_ms"] or {"p50": float("nan"), "p99": float("nan")}
        used, rate = total["server_cpu_us_per_operation"], to_peer(result)
        print(
            f"{operation:8}{which:24}{found['operations_per_second']:12,.0f}{latency['p50']:10.2f}{latency['p99']:10.2f}"
            f"{'unknown' if used is None else f'{used:,.0f}':>16}   {interval(rate, 2) if rate else ''}"
        )
        for what, count in found["errors"].items():
            print(f"{'':8}{count} times failed: {what}")
        for what in total["wrong_examples"][:3]:
            print(f"{'':8}wrong: {what}")
print(under)

# %%
for name in peers:
    rates = {
        operation: {
            which: result["total"]["operations_per_second"] or None
            for which, result in results[name, operation].items()
        }
        for operation in OPERATIONS
    }
    bars(
        {
            "Operations a second (logarithmic)": {
                which: [rates[operation][which] for operation in OPERATIONS] for which in (name, *ours)
            },
            f"Operations a second, Orcas ÷ {name} (logarithmic)": {
                which: [to_peer(results[name, operation][which]) for operation in OPERATIONS] for which in ours
            },
        },
        [operation.upper() for operation in OPERATIONS],
        under,
        log=True,
    )

# %% [markdown]
# ## Through boto3
#
# One client that waits for each answer: what a script sees. boto3's own time is part of every bar.

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
latency_ms = {arm: [] for arm in arms}
for number, (operation, name) in in_turn(arms, BOTO3_ROUNDS):
    for turn in range(COUNT):
        began = time.perf_counter()
        CALLS[operation](clients[name], f"new/{number}/{turn}", turn)
        latency_ms[operation, name].append((time.perf_counter() - began) * 1000)

under_boto3 = stamp(
    f"{BOTO3_ROUNDS} rounds of {COUNT} requests an arm in turn, 1 KiB, boto3 from this process; medians. {' '.join(versions)}",
    durability=durability,
    concurrency="1 client on 1 connection",
)
print(f"{'median (least–most), ms':26}" + "".join(f"{operation:>24}" for operation in OPERATIONS))
for name in servers:
    print(f"{name:26}" + "".join(f"{spread(latency_ms[operation, name]):>24}" for operation in OPERATIONS))
print(under_boto3)

# %%
bars(
    {
        "Milliseconds of a call of boto3 (logarithmic)": {
            name: [statistics.median(latency_ms[operation, name]) for operation in OPERATIONS] for name in servers
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
for watched in ours.values():
    watched.stop()
if moto is not None:
    moto.kill()
    moto.wait()
