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
# # Instant upload
#
# *What does it cost to look for content that is already stored, and what does it save if there is some?*
#
# The *S3 performance test report* (14 November 2025, in Chinese; translated), from which Orcas started, measured the
# cost on another machine, in its section *Performance of instant upload*.
#
# > ### Cost of instant upload for files that cannot be shared
# >
# > | File size | Average latency, instant upload | Average latency, baseline | Time | CPU | Memory | Conclusion |
# > |---|---|---|---|---|---|---|
# > | 1 KB | 3.83 ms | 0.94 ms | +306.51 % | +2.996 ms | +40 KB | high cost |
# > | 10 KB | 0.79 ms | 0.83 ms | −5.86 % | −53.08 µs | +1 KB | faster |
# > | 100 KB | 1.20 ms | 0.95 ms | +25.82 % | +255.63 µs | 0 KB | acceptable |
# > | 1 MB | 3.40 ms | 2.38 ms | +42.78 % | +1.024 ms | −1 KB | acceptable |
# >
# > *Note: because of batch writing, instant upload may not be triggered fully in the test environment (data blocks are
# > packed together). The following data rests on theoretical analysis and on actual test results.*
# >
# > *How it works:* checksums (HdrCRC32, CRC32, MD5) tell whether the data exists; if so, its DataID is used again and
# > its blocks are not written. The main advantage is saved space rather than speed. Strongly recommended for repeated
# > files (backup, synchronisation); think of switching it off for small files (< 10 KB) that seldom repeat.
#
# Below are the same sizes for Orcas, with unique *and* repeated data.

# %%
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

import orcas
from support import QUICK, Watched, in_turn, p95, plot, spread, stamp

SIZES = {"1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10, "1 MiB": 1 << 20}
LEVELS = ("off", "full", "fast")
# Requests of each arm in each round, and rounds. p95 needs a few hundred requests to mean something.
REQUESTS = {"1 KiB": 100, "10 KiB": 100, "100 KiB": 60, "1 MiB": 30}
ROUNDS = 5
LARGE_BYTES = 256 << 20
DURABILITY = "sync"
if QUICK:
    REQUESTS, ROUNDS, LARGE_BYTES = dict.fromkeys(SIZES, 3), 1, 8 << 20

watched = Watched(durability=DURABILITY)
s3, data = watched.s3, watched.data

# %% [markdown]
# How the store is observed from outside, and a bucket with settings of its own.


# %%
def stats():
    """What `orcas stats` says."""
    command = [sys.executable, "-m", "orcas", "stats", "--data", str(data), "--json"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCAS_")}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=kept).stdout)


def by_bucket():
    return {bucket["name"]: bucket for bucket in stats()["buckets"]}


def make_bucket(name, **settings):
    """A bucket with settings of its own, such as `ref_level="off"`."""

    def add(params, **_):
        params["headers"] |= {f"x-amz-orcas-{key.replace('_', '-')}": value for key, value in settings.items()}

    s3.meta.events.register("before-call.s3.CreateBucket", add)
    s3.create_bucket(Bucket=name)
    s3.meta.events.unregister("before-call.s3.CreateBucket", add)


# %% [markdown]
# ## Four sizes, unique and repeated, OFF, FULL and FAST
#
# OFF looks nothing up. FULL looks up all content, FAST only if a filter over its beginning reports it as possibly
# known. Each variant has a bucket of its own. It also has a repeated body of its own, because content is shared among
# the buckets of an owner; this body is stored once before the clock starts.

# %%
arms = [(size, kind, level) for size in SIZES for kind in ("unique", "repeated") for level in LEVELS]
latencies_ms = {arm: [] for arm in arms}
server_cpu_ms = {arm: [] for arm in arms}
memory_mib = {arm: [] for arm in arms}
bodies = {arm: os.urandom(SIZES[arm[0]]) for arm in arms}


def bucket_of(arm):
    return "-".join(arm).lower().replace(" ", "")


for arm in arms:
    make_bucket(bucket_of(arm), ref_level=arm[2])
    if arm[1] == "repeated":
        s3.put_object(Bucket=bucket_of(arm), Key="first", Body=bodies[arm])

for number, arm in in_turn(arms, ROUNDS):
    size, kind, _ = arm
    count = REQUESTS[size]
    todo = [os.urandom(SIZES[size]) if kind == "unique" else bodies[arm] for _ in range(count)]
    watched.settle()
    watched.forget_peak()
    memory, used = watched.memory_mib(), watched.cpu_ms()
    for turn, body in enumerate(todo):
        began = time.perf_counter()
        s3.put_object(Bucket=bucket_of(arm), Key=f"{number}/{turn}", Body=body)
        latencies_ms[arm].append((time.perf_counter() - began) * 1000)
    watched.settle()
    server_cpu_ms[arm].append((watched.cpu_ms() - used) / count)
    memory_mib[arm].append(watched.memory_mib("VmHWM") - memory)

space = by_bucket()

# %% [markdown]
# *Memory* is the server's peak during the requests minus its memory before them, the largest of all rounds; *sent* is
# what was received, *stored* is what the contents of the bucket take. The last line is the space of the whole store on
# the disk, with its metadata, and with log files that are allocated ahead of what is written.

# %%
print(f"{'':27}{'latency ms':>15}{'server CPU ms':>22}{'memory':>9}{'sent':>12}{'stored':>12}")
print(f"{'':27}{'median':>8}{'p95':>7}{'median (min–max)':>22}{'MiB':>9}{'KiB':>12}{'KiB':>12}")
for arm in arms:
    size, kind, level = arm
    taken, cpu, bucket = latencies_ms[arm], server_cpu_ms[arm], space[bucket_of(arm)]
    print(
        f"{size:8} {kind:9} {level.upper():8} {statistics.median(taken):7.2f} {p95(taken):6.2f} {spread(cpu):>21}"
        f" {max(memory_mib[arm]):8.1f} {bucket['logical'] / 1024:11,.0f} {bucket['stored'] / 1024:11,.0f}"
    )
totals, files = stats()["totals"], stats()["files"]
on_disk = files["log_allocated"] + files["pack_allocated"] + files["index_bytes"] + files["index_wal_bytes"]
mib = [round(count / (1 << 20)) for count in (totals["logical"], totals["stored"], on_disk)]
print(f"all buckets: {mib[0]:,} MiB sent, {mib[1]:,} MiB stored, {mib[2]:,} MiB on the disk")

# %% [markdown]
# Repeated content is stored once under FULL and FAST, even for the smallest objects, and every time under OFF.

# %%
for arm in arms:
    size, kind, level = arm
    contents = 1 if kind == "repeated" and level != "off" else ROUNDS * REQUESTS[size] + (kind == "repeated")
    assert space[bucket_of(arm)]["stored"] == contents * SIZES[size], (arm, space[bucket_of(arm)])

# %% [markdown]
# ## Compared with the report
#
# Latencies of the two cannot be compared with each other: the report's machine was an Apple M4 Pro, client and server were
# one process, and nothing is said about what an acknowledged write would survive. Only the ratios between the variants
# within each can be compared. The lines at the bottom say where and how Orcas was measured.

# %%
REPORT_MS = {"1 KiB": (0.94, 3.83), "10 KiB": (0.83, 0.79), "100 KiB": (0.95, 1.20), "1 MiB": (2.38, 3.40)}
under = stamp(
    f"{ROUNDS} rounds of {REQUESTS} requests, boto3 from this process",
    durability=DURABILITY,
    concurrency="1 client on 1 connection",
)


def median_ms(size, kind, level):
    return statistics.median(latencies_ms[size, kind, level])


print(f"{'':8}{'report: instant ÷ baseline':>30}{'FULL ÷ OFF':>14}{'FAST ÷ OFF':>14}{'repeated, FULL ÷ OFF':>24}")
for size, (baseline, instant) in REPORT_MS.items():
    off = median_ms(size, "unique", "off")
    unique = "".join(f"{median_ms(size, 'unique', level) / off:14.2f}" for level in ("full", "fast"))
    again = median_ms(size, "repeated", "full") / median_ms(size, "repeated", "off")
    print(f"{size:8}{instant / baseline:30.2f}{unique}{again:24.2f}")
print(under)

# %%
plot(
    {
        "Latency of one upload (report: mean; Orcas: median) | ms": {
            "report, baseline": [REPORT_MS[size][0] for size in SIZES],
            "report, instant upload": [REPORT_MS[size][1] for size in SIZES],
            **{
                f"Orcas, {level.upper()}, unique": [median_ms(size, "unique", level) for size in SIZES]
                for level in LEVELS
            },
            "Orcas, FULL, repeated": [median_ms(size, "repeated", "full") for size in SIZES],
        },
        "Latency of one upload | with sharing ÷ without": {
            "report, instant ÷ baseline": [instant / baseline for baseline, instant in REPORT_MS.values()],
            **{
                f"Orcas, FULL ÷ OFF, {kind}": [median_ms(s, kind, "full") / median_ms(s, kind, "off") for s in SIZES]
                for kind in ("unique", "repeated")
            },
        },
        "Repeated data (no number in the report) | stored ÷ sent": {
            level.upper(): [
                space[bucket_of((size, "repeated", level))]["stored"]
                / space[bucket_of((size, "repeated", level))]["logical"]
                for size in SIZES
            ]
            for level in LEVELS
        },
    },
    list(SIZES),
    under,
)

# %% [markdown]
# ## Only the hash
#
# `orcas.instant.upload` hashes a file, names the hash to the server, and sends the bytes only if it has to. The first
# upload is an ordinary one; the second, to another bucket, sends none of the file.

# %%
file = data.parent / "large"
with file.open("wb") as out:
    for _ in range(LARGE_BYTES >> 20):
        out.write(os.urandom(1 << 20))

make_bucket("here")
make_bucket("there")
began = time.perf_counter()
first = orcas.instant.upload(s3, "here", "large", file)
ordinary = time.perf_counter() - began
began = time.perf_counter()
second = orcas.instant.upload(s3, "there", "large", file)
instant = time.perf_counter() - began
began = time.perf_counter()
with file.open("rb") as source:
    hashlib.file_digest(source, "sha256")
hashing = time.perf_counter() - began
assert (first.transferred, second.transferred) == (True, False)
assert first.etag == second.etag

print(f"{LARGE_BYTES >> 20} MiB: sent in {ordinary * 1000:.0f} ms, by its hash in {instant * 1000:.0f} ms, of which")
print(f"the client's own SHA-256 took about {hashing * 1000:.0f} ms and the server the rest.")

# %% [markdown]
# ## An edited file
#
# Large objects are stored in chunks. Cut at fixed places, one byte more at the start changes every chunk; cut where the
# content says (`x-amz-orcas-chunking: content-defined`), only the first ones change.

# %%
content = file.read_bytes()
inserted = b"a line more\n"
for chunking in ("fixed", "content-defined"):
    # Content of its own for each, for it is shared among buckets.
    edition = bytes(byte ^ (chunking == "fixed") for byte in range(256))
    before = content.translate(edition)
    make_bucket(chunking, chunking=chunking, chunk_size="262144" if QUICK else "1048576")
    s3.put_object(Bucket=chunking, Key="before", Body=before)
    watched.settle()
    had = by_bucket()[chunking]["stored"]
    s3.put_object(Bucket=chunking, Key="after", Body=inserted + before)
    watched.settle()
    new = by_bucket()[chunking]["stored"] - had
    print(f"{chunking:16} {len(inserted)} bytes inserted: {new / len(before):6.1%} of the file is stored anew")
    assert new < len(before) / 2 or chunking == "fixed"

# %%
watched.stop()

# %% [markdown]
# ## How it is measured, and doubts
#
# - All arms in turn within each round, over a real socket with boto3, signed, and on the disk before each answer.
#   `benchmarks/run.py --only sharing` is the exact measurement of the server alone; here boto3's own work is part of
#   every latency.
# - The report measured unique data alone. It has no number for the case that the feature is for: data that is stored
#   already.
# - By the report's own note batch writing kept sharing from being triggered: objects up to 64 KB were packed before
#   anybody looked for them. So at 1 KB and 10 KB, both columns of the table ran the same code path, and the difference
#   between them is noise.
# - The numbers look like noise: the same work costs +307 % at 1 KB and −6 % at 10 KB; memory is "+40 KB" and "−1 KB".
#   2.996 ms of CPU for the checksums of 1 KB is about a thousand times what they take.
# - Averages, without spread or number of runs, with client and server in one process (Go's `httptest`). What is called
#   CPU is nearly the difference of the latencies (2.996 and 2.89 ms at 1 KB), so it was hardly CPU time.
# - CRC32 and MD5 only show that content is probably equal. Orcas shares content only by a keyed 256-bit hash of all of
#   it, and creates an object from a hash only if the client proves that it has the bytes.
