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
# # Pooling
#
# *Does it pay to reuse buffers and connections instead of making new ones for each request?*
#
# The article *How Go's sync.Pool saves the performance of concurrent HTTP* (in Chinese; translated), from which Orcas
# started, measured object pools in services in Go: the first table is from its chapter 1, the second from 3.2, 4.1,
# 4.3 and 4.4. The *S3 performance test report* (likewise) has a pool of SQLite connections.
#
# > | `ab -n 100000 -c 100`, JSON | Requests a second | Average latency | Allocated, B/op | GC pauses |
# > |---|---|---|---|---|
# > | without a pool | 12,430 | 8.1 ms | 1,024 | 2.3 ms |
# > | pool of buffers | 25,760 | 3.9 ms | 192 | 0.8 ms |
# >
# > | Elsewhere in it | Without | With |
# > |---|---|---|
# > | `make([]byte, 1024)` | 125 ns, 1,024 B | 18 ns, 0 B |
# > | Gin, buffers: memory allocated, collections | 156.3 MB, 89 | 42.1 MB, 31 |
# > | contexts of requests: requests a second, average latency | 12,400, 8.1 ms | 18,700, 5.3 ms |
# > | connections to a database, `wrk`: requests a second, p99, errors | 1,240, 89 ms, 0.3 % | 4,680, 23 ms, 0 % |
# >
# > SQLite connections, 25 open and 10 idle at most (second report): no more "query db failed" under load.
#
# Below is the same for Orcas, whose setting `ORCAS_POOLING_ENABLED` is for both pools: buffers of 1 KiB to 4 MiB, and
# read connections of the index.

# %%
import datetime as dt
import gc
import itertools
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import boto3
from botocore.config import Config
from support import DIRECTORY, MIB, QUICK, REPOSITORY, in_threads, in_turn, interval, plot, size, spread, stamp

import in_process
import load
import pooling
from figures import Plan
from orcas.bench.compare import ratio
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Orcas
from signing import Signer

KIB = 1 << 10
place = tempfile.TemporaryDirectory(dir=DIRECTORY, prefix="orcas-notebook-")
data = Path(place.name)

# %% [markdown]
# ## What a request asks of the allocator
#
# Bytes that Rust allocates for a request, from the signed head to the last byte of the answer and until the index has it,
# without HTTP and without Python; then a buffer by itself: taken, filled, and dropped by the same thread (*take*) or by
# another (*pass*). SQLite's memory is not included. This needs cargo, and compiles the suite the first time.

# %%
# Kind of request of the suite, as it is called here.
COUNTED = {
    "put-1k": "PUT\n1 KiB", "get-1k": "GET\n1 KiB", "head-1k": "HEAD", "put-64k": "PUT\n64 KiB", "get-64k": "GET\n64 KiB",
    "put-10m": "PUT\n10 MiB", "get-10m": "GET\n10 MiB", "list-1000": "LIST\nof 1000",
}  # fmt: skip
ROUNDS_COUNTED = 2
counted = {}
if not QUICK and shutil.which("cargo"):
    plan = Plan(False, data / "counted", REPOSITORY)
    counted = {cell["kind"]: cell for cell in pooling.in_rust(plan, ROUNDS_COUNTED)}
else:
    print("Not measured: a quick pass does not compile." if QUICK else "Not measured: there is no cargo.")

under_counted = stamp(
    f"Rust's allocations, all threads; {ROUNDS_COUNTED} rounds, medians; no HTTP, no Python",
    durability="sync; take and pass store nothing",
    concurrency="1 request at a time",
)


def middle(kind, way, what):
    return statistics.median(counted[kind][way][what])


if counted:
    print(
        f"{'':12}{'bytes allocated, on':>20}{'off':>12}{'on ÷ off':>10}{'allocations, on':>18}{'off':>8}{'µs, on':>12}{'off':>12}"
    )
    for kind in counted:
        on, off = (
            [middle(kind, way, what) for what in ("bytes", "allocations", "microseconds")] for way in ("on", "off")
        )
        print(
            f"{kind:12}{on[0]:20,.0f}{off[0]:12,.0f}{on[0] / off[0]:10.3f}{on[1]:18.1f}{off[1]:8.1f}{on[2]:12.2f}{off[2]:12.2f}"
        )
    print(under_counted)

# %%
CLAIMED_BYTES = {"JSON": 192 / 1024, "Gin": 42.1 / 156.3}
plot(
    {
        "Bytes allocated for a request | with pool ÷ without": {
            "article": [*CLAIMED_BYTES.values(), *(None for _ in COUNTED)],
            "Orcas, Rust": [
                *(None for _ in CLAIMED_BYTES),
                *(middle(kind, "on", "bytes") / middle(kind, "off", "bytes") if counted else None for kind in COUNTED),
            ],
        }
    },
    [*CLAIMED_BYTES, *COUNTED.values()],
    under_counted,
)

# %% [markdown]
# ## Requests a second
#
# Three servers, each over a store of its own. *LIST of 1* is there for the connection: the page is tiny, so the cost of
# a connection to the index becomes visible. *Server CPU* is that of all threads, with the work after the answers; a
# *page fault* is 4 KiB of fresh memory that the kernel has filled with zeros. A server idles while the others have
# their turn, so the cleanup shown further below runs in between, as it would under any load that pauses.

# %%
ARMS = {"on": "true", "on again": "true", "off": "false"}
servers = {
    arm: Orcas(data / arm.replace(" ", "-"), settings=UNSCRUBBED | {"ORCAS_POOLING_ENABLED": value})
    for arm, value in ARMS.items()
}
LARGE = size(10, 1)
# Bytes of the body, or keys of a page; connections; requests of a slice over raw sockets and through boto3, where not all is asked.
KINDS = {
    "PUT\n1 KiB": (KIB, 16, size(1000, 12), size(80, 4)),
    "GET\n1 KiB": (KIB, 16, size(1500, 12), size(80, 4)),
    "PUT\n64 KiB": (64 * KIB, 16, size(150, 8), 0),
    "GET\n64 KiB": (64 * KIB, 16, size(800, 8), 0),
    f"PUT\n{LARGE} MiB": (LARGE * MIB, 4, size(6, 2), size(4, 1)),
    f"GET\n{LARGE} MiB": (LARGE * MIB, 4, size(16, 2), size(12, 1)),
    "LIST\nof 1000": (1000, 16, size(150, 4), size(3, 1)),
    "LIST\nof 1": (1, 16, size(1000, 12), 0),
}
VIAS = ("raw sockets", "boto3")
# The first is not counted.
ROUNDS = size(5, 1)
UNCOUNTED = size(1, 0)
# A server that used next to no CPU for so long is at rest.
REST_SECONDS = 0.02 if QUICK else 0.05
STORED = {length: max(counts) for kind, (length, _, *counts) in KINDS.items() if kind.startswith("GET")}
new = itertools.count()


def client(orcas):
    return boto3.client(
        "s3",
        endpoint_url=orcas.url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=16),
    )


clients = {arm: client(orcas) for arm, orcas in servers.items()}
for orcas in servers.values():
    pooling.fill(orcas)
    for length, many in STORED.items():
        load.run(
            orcas.address, [orcas.signer().put(f"/pooling/{length}/{n}", os.urandom(length)) for n in range(many)], 4
        )


def raw(arm, kind):
    """A slice over raw sockets, ready to be run."""
    length, connections, count, _ = KINDS[kind]
    signer = servers[arm].signer()
    made = {
        "PUT": lambda n: signer.put(f"/pooling/new/{next(new)}", os.urandom(length)),
        "GET": lambda n: signer.get(f"/pooling/{length}/{n}"),
        "LIST": lambda n: signer.get("/listed", {"list-type": "2", "max-keys": str(length)}),
    }[kind.split("\n")[0]]
    todo = [made(n) for n in range(count)]
    return count, lambda: load.run(servers[arm].address, todo, connections)


def through_boto3(arm, kind):
    length, connections, _, count = KINDS[kind]
    s3 = clients[arm]
    bodies = [os.urandom(length) for _ in range(count)] if kind.startswith("PUT") else []
    call = {
        "PUT": lambda n: s3.put_object(Bucket="pooling", Key=f"new/{next(new)}", Body=bodies[n]),
        "GET": lambda n: s3.get_object(Bucket="pooling", Key=f"{length}/{n}")["Body"].read(),
        "LIST": lambda n: s3.list_objects_v2(Bucket="listed", MaxKeys=length),
    }[kind.split("\n")[0]]
    return count, lambda: in_threads(connections, [(lambda n=n: call(n)) for n in range(count)])


SLICE_OF = {"raw sockets": raw, "boto3": through_boto3}
ASKED = [(kind, via) for kind, (*_, count) in KINDS.items() for via in VIAS if count or via == "raw sockets"]
cells = [(*asked, arm) for asked in ASKED for arm in ARMS]
rates, cpu_us, faults = ({cell: [] for cell in cells} for _ in range(3))
for number, cell in in_turn(cells, ROUNDS):
    kind, via, arm = cell
    orcas = servers[arm]
    count, run = SLICE_OF[via](arm, kind)
    used, given, began = orcas.cpu_ns(), orcas.page_faults(), time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    orcas.settle(REST_SECONDS)
    if number >= UNCOUNTED:
        rates[cell].append(count / seconds)
        cpu_us[cell].append((orcas.cpu_ns() - used) / count / 1000)
        faults[cell].append((orcas.page_faults() - given) / count)

# %%
under = stamp(
    f"signed, new bytes in PUTs, GETs from the page cache; {ROUNDS - UNCOUNTED} rounds, all arms in turn in each;"
    " lines at ratios: 95 % interval",
    durability="sync",
    concurrency=f"16 connections, with {LARGE} MiB 4; one client process",
)


def compared(figures, kind, via, arm="on", beside="off"):
    return ratio(figures[kind, via, arm], figures[kind, via, beside]) if (kind, via) in ASKED else None


print(f"{'requests a second':28}{'on':>26}{'off':>26}   {'on ÷ off (95 %)':24}on again ÷ on (95 %)")
for kind, via in ASKED:
    print(
        f"{kind.replace(chr(10), ' '):14} {via:13}"
        + "".join(f"{spread(rates[kind, via, arm], 0):>26}" for arm in ("on", "off"))
        + f"   {interval(compared(rates, kind, via)):24}{interval(compared(rates, kind, via, 'on again', 'on'))}"
    )
print(
    f"\n{'server, each request':28}{'CPU µs, on':>12}{'off':>10}   {'on ÷ off (95 %)':24}{'page faults, on':>16}{'off':>10}"
)
for kind, via in ASKED:
    on, off = (statistics.median(cpu_us[kind, via, arm]) for arm in ("on", "off"))
    pages = [statistics.median(faults[kind, via, arm]) for arm in ("on", "off")]
    print(
        f"{kind.replace(chr(10), ' '):14} {via:13}{on:12,.0f}{off:10,.0f}   {interval(compared(cpu_us, kind, via)):24}"
        f"{pages[0]:16.1f}{pages[1]:10.1f}"
    )
print(under)

# %%
CLAIMED_RATE = {
    "buffers": 25_760 / 12_430,
    "con-\ntexts": 18_700 / 12_400,
    "data-\nbase": 4_680 / 1_240,
}
no_claim = [None for _ in CLAIMED_RATE]
plot(
    {
        "Requests a second | with pool ÷ without": {
            "article": [*CLAIMED_RATE.values(), *(None for _ in KINDS)],
            **{f"Orcas, {via}": [*no_claim, *(compared(rates, kind, via) for kind in KINDS)] for via in VIAS},
            **{
                f"on again ÷ on, {via}": [*no_claim, *(compared(rates, kind, via, "on again", "on") for kind in KINDS)]
                for via in VIAS
            },
        },
        "Server CPU of a request (no number in the article) | with pool ÷ without": {
            **{f"Orcas, {via}": [*no_claim, *(compared(cpu_us, kind, via) for kind in KINDS)] for via in VIAS},
            **{
                f"on again ÷ on, {via}": [*no_claim, *(compared(cpu_us, kind, via, "on again", "on") for kind in KINDS)]
                for via in VIAS
            },
        },
    },
    [*CLAIMED_RATE, *KINDS],
    under,
)

# %% [markdown]
# ## Pauses
#
# Rust has no garbage collector: a buffer is free when its last owner drops it. The control plane is Python, which counts
# references, and has a collector for cycles only. Bodies, pieces and pages are not among the objects that it looks at.
# So for Orcas, the article's column is the time that this collector takes. It is measured with the application in this
# process, as `orcas serve` runs it (objects created before the first request are frozen), with a clock around each
# collection.

# %%
PAUSED = {"GET of 64 KiB": size(2000, 50), "PUT of 64 KiB": size(500, 20)}


def paused(pooled, kind, number):
    """Milliseconds of each collection, and of all requests."""
    signer = Signer(ACCESS_KEY, SECRET_KEY, in_process.HOST, dt.datetime.now(dt.UTC))
    made = [
        signer.request("PUT", "/pauses", headers={"content-length": "0"}),
        *(signer.put(f"/pauses/{n}", os.urandom(64 * KIB)) for n in range(20)),
    ]
    todo = [
        signer.get(f"/pauses/{n % 20}")
        if kind.startswith("GET")
        else signer.put(f"/pauses/new-{n}", os.urandom(64 * KIB))
        for n in range(PAUSED[kind])
    ]
    began, pauses = 0, []

    def watch(phase, _):
        nonlocal began
        if phase == "start":
            began = time.perf_counter_ns()
        else:
            pauses.append((time.perf_counter_ns() - began) / 1e6)

    gc.collect()
    gc.freeze()
    gc.callbacks.append(watch)
    store = data / f"pauses-{pooled}-{kind[:3]}-{number}"
    try:
        taken = in_process.seconds_each(store, "sync", [made, todo], pooling_enabled=pooled)[1]
        of_requests = len(pauses)
        gc.collect()
        assert len(pauses) > of_requests, "the watch sees collections"
    finally:
        gc.callbacks.remove(watch)
        gc.unfreeze()
    return pauses[:of_requests], sum(taken) * 1000


pauses_ms, requests_ms = {}, {}
for number, (kind, pooled) in in_turn([(kind, pooled) for kind in PAUSED for pooled in (True, False)], size(3, 1)):
    found, took = paused(pooled, kind, number)
    pauses_ms.setdefault((kind, pooled), []).extend(found)
    requests_ms[kind, pooled] = requests_ms.get((kind, pooled), 0) + took

print(f"{'':30}{'collections':>12}{'longest, ms':>14}{'all, ms':>10}{'of the time':>13}")
print(f"{'article: without, with':30}{'':>12}{'2.3, 0.8 ms, of which kind is not told':>38}")
for (kind, pooled), found in sorted(pauses_ms.items(), reverse=True):
    print(
        f"{kind + (', on' if pooled else ', off'):30}{len(found):12}{max(found, default=0):14.2f}{sum(found):10.2f}"
        f"{sum(found) / requests_ms[kind, pooled]:12.2%}"
    )
print(
    stamp(
        f"in this process, signed, no HTTP; {size(3, 1)} rounds of {' and '.join(str(n) for n in PAUSED.values())} requests",
        durability="sync",
        concurrency="1 request at a time",
    )
)

# %% [markdown]
# ## The counters
#
# `orcas stats --json` counts under `pools`. Here for a server that has just started, under a mixed load (GETs of 64 KiB and
# 10 MiB, PUTs of 64 KiB, lists of 1,000), when it is at rest, and after the periodic cleanup: every few seconds, the
# memory that was not needed since the last cleanup is freed and returned to the operating system, so an idle server has
# nothing left after two cleanups.

# %%
# `orcas stats` takes half a second to begin.
LOAD_SECONDS, CLEANED_SECONDS_MAX = size(4, 1), size(20, 0)
MOMENTS = ("before", "under load", "at rest", "cleaned")
for orcas in servers.values():
    orcas.stop()


def mixed(orcas, ended):
    signer = orcas.signer()
    for n in itertools.count():
        if ended.is_set():
            return
        yield signer.get(f"/pooling/{64 * KIB}/{n % 8}")
        yield signer.put(f"/pooling/mixed/{next(new)}", os.urandom(64 * KIB))
        if n % 8 == 0:
            yield signer.get(f"/pooling/{LARGE * MIB}/0")
            yield signer.get("/listed", {"list-type": "2", "max-keys": "1000"})


def seen(orcas):
    return {**orcas.pools(), "resident_mib": orcas.rss_mib()}


def filled(orcas):
    """Its counters under a load, and when it is at rest behind it."""
    ended = threading.Event()
    loading = threading.Thread(target=lambda: load.run(orcas.address, mixed(orcas, ended), 16))
    loading.start()
    time.sleep(LOAD_SECONDS)
    found = seen(orcas)
    ended.set()
    loading.join()
    orcas.settle(REST_SECONDS)
    return found, seen(orcas)


moments = {}
for arm in ("off", "on"):
    setting = {"ORCAS_POOLING_ENABLED": ARMS[arm]}
    servers[arm] = Orcas(data / arm, settings=UNSCRUBBED | setting)
    moments[arm, "before"] = seen(servers[arm])
    moments[arm, "under load"], moments[arm, "at rest"] = filled(servers[arm])
began, held = time.monotonic(), moments["on", "at rest"]["buffers"]["held_bytes"]
while held and time.monotonic() - began < CLEANED_SECONDS_MAX:
    time.sleep(0.5)
    held = servers["on"].pools()["buffers"]["held_bytes"]
cleaned_seconds = time.monotonic() - began
for arm in ("off", "on"):
    moments[arm, "cleaned"] = seen(servers[arm])
    servers[arm].stop()

under_counters = stamp(
    f"64 KiB GETs and PUTs, one in 9 a GET of {LARGE} MiB or a list of 1,000, for {LOAD_SECONDS} s; cleaned"
    f" {cleaned_seconds:.0f} s after the load",
    durability="sync",
    concurrency="16 connections",
)
print(
    f"{'':17}{'buffers: hits':>14}{'misses':>8}{'of takes':>9}{'returned':>10}{'discarded':>10}{'held MiB':>10}{'out MiB':>9}",
    end="",
)
print(f"{'connections: hits':>19}{'misses':>8}{'refused':>9}{'idle':>6}{'resident MiB':>14}")
for arm in ("on", "off"):
    for moment in MOMENTS:
        pools = moments[arm, moment]
        buffers, connections = pools["buffers"], pools["connections"]
        takes = buffers["hits"] + buffers["misses"]
        print(
            f"{arm:4}{moment:13}{buffers['hits']:14,}{buffers['misses']:8,}{buffers['hits'] / takes if takes else 0:9.1%}"
            f"{buffers['returned']:10,}{buffers['discarded']:10,}{buffers['held_bytes'] / MIB:10.2f}{buffers['out_bytes'] / MIB:9.2f}"
            f"{connections['hits']:19,}{connections['misses']:8,}{connections['refusals']:9}{connections['idle']:6}{pools['resident_mib']:14.0f}"
        )
print(under_counters)

# %%
plot(
    {
        "Memory of the pool of buffers | MiB": {
            name: [moments["on", moment]["buffers"][field] / MIB for moment in MOMENTS]
            for name, field in (("held, unused", "held_bytes"), ("in use", "out_bytes"))
        },
        "Resident memory of the server | MiB": {
            f"pooling {arm}": [moments[arm, moment]["resident_mib"] for moment in MOMENTS] for arm in ("on", "off")
        },
    },
    list(MOMENTS),
    under_counters,
)
place.cleanup()

# %% [markdown]
# ## What pooling gives here, and why
#
# - *Bytes.* A request with a body of 64 KiB or more, or a page, allocates little besides the body or page, so next to
#   nothing is left: less than in the article. A HEAD, and a GET or PUT of 1 KiB, keep most of theirs: the typed
#   request, the lines of its answer, and what outlives them in the cache of objects and in the overlay of the index.
# - *Rate.* No collector is relieved, because there is none where the bytes are. Memory is returned when its last owner
#   drops it, and glibc hands it out again from a per-thread cache, which is itself a pool for 1 KiB. The output below
#   compares the cost of a buffer with that of the request that needs it. Most of that is HTTP and Python, then the
#   signature and the checksums, and for PUTs the disk (notebooks 02 and 06). Where *on ÷ off* lies within *on again ÷
#   on*, there is no difference to be seen.
# - *Large bodies.* glibc takes large blocks from the kernel and gives them back, by thresholds that it moves. Each
#   page that comes back is a fault and 4 KiB of zeros. That is what the pool can save, and its cleanup is what gives memory
#   back afterwards: what glibc holds by itself stays resident.
# - *Connections.* Opening a connection to SQLite means opening files and reading the schema, which takes longer than
#   reading a short page. So here a pool pays off, as with the article's database, and for the same reason. A GET of an
#   object that the cache knows asks for none. Nothing failed without the pool: the limit on open connections stays, and
#   a request that finds all in use waits.

# %%
print(f"{'of the server, each request':40}{'saved by the pool, µs':>22}{'CPU without it, µs':>20}{'share':>8}")
for kind, buffer in (("GET\n1 KiB", "take-1k"), ("PUT\n1 KiB", "pass-1k"), ("GET\n64 KiB", "take-64k")):
    if counted:
        saved = middle(buffer, "off", "microseconds") - middle(buffer, "on", "microseconds")
        spent = statistics.median(cpu_us[kind, "raw sockets", "off"])
        print(
            f"{kind.replace(chr(10), ' ') + f': a buffer ({buffer})':40}{saved:22.2f}{spent:20.0f}{saved / spent:8.2%}"
        )
on, off = (statistics.median(cpu_us["LIST\nof 1", "raw sockets", arm]) for arm in ("on", "off"))
print(f"{'LIST of 1: a connection':40}{off - on:22.0f}{off:20.0f}{1 - on / off:8.0%}")
print(f"{'article: a buffer of 1 KiB':40}{0.125 - 0.018:22.2f}{1e6 / 12_430:18.0f} a{0.107 * 12_430 / 1e6:8.2%}")
print("a: a second divided by the rate, on a machine that is not told\n" + under)

# %% [markdown]
# ## How it is measured, and doubts
#
# - Servers with both settings answer the same signed requests, with new bytes in each PUT, over sockets, `sync`. *On
#   again* is a second server with pooling: its ratio to the first shows what this measurement cannot distinguish from 1.
#   `benchmarks/run.py --only pooling` and `--only pooling-server` measure the same for longer.
# - The article contradicts itself. 12,430 requests a second are one in 80 µs, 25,760 one in 39 µs. What the pool saved of
#   these 41 µs is, by its own second table, 107 ns. The rest comes from something that the article does not mention.
# - Latency is not a second finding: with 100 requests in flight, it is 100 divided by the rate in every row of `ab`.
# - `ab` opens a connection for every request unless it is told not to; what that costs is the same on both sides. There
#   was one run of each; neither the spread nor the machine is given.
# - `_ = make([]byte, 1024)` as printed allocates nothing: Go's compiler keeps on the stack what does not escape from
#   the function, and the benchmark reports 0 B/op. If the slice is made to escape, it allocates 1,024 B, and a pool
#   does save time.
# - The article does not say which pause is meant (longest, average, sum), or what else the endpoint does. The collector
#   empties a pool in Go, so fewer collections keep the pool full: the gain is the collector's.
# - "Connections, with a pool" is a client of a database server: what is saved is TCP and a login. For a file of SQLite,
#   the report gives no rate. It says only that errors went away, together with WAL and a timeout of ten seconds.
