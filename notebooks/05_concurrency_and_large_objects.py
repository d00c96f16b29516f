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
# # Concurrency and large objects
#
# *What happens when many clients upload large files at once?*
#
# The *S3 performance test report* (14 November 2025, in Chinese; translated), from which Orcas started, measured that
# on another machine. The table is the one on large files in its section *Batch writes compared*.
#
# > | Object | Uploads in flight | Operations a second | MB/s | Average latency |
# > |---|---|---|---|---|
# > | 10 MB | 10 | 106 | 1,063 | 9.41 ms |
# > | 10 MB | 50 | 164 | 1,643 | 6.09 ms |
# > | 10 MB | 100 | 213 | 2,126 | 4.70 ms |
#
# > *"Performance grows almost linearly with concurrency; average latency falls as concurrency rises."*
#
# Below is the same for Orcas: *as the report* puts the same bytes each time to a server that promises nothing
# (`unsafe-none`); the other puts new bytes, which are on disk before the answer.

# %%
import hashlib
import io
import os
import statistics

from boto3.s3.transfer import TransferConfig
from support import MIB, Watched, in_threads, in_turn, p95, plot, size, spread, stamp

LENGTH = size(10 * MIB, MIB)
IN_FLIGHT = (1, 4) if size(0, 1) else (1, 2, 5, 10, 50)
ROUNDS, REQUESTS = size(3, 1), size(20, 4)
UNSIGNED = {"request_checksum_calculation": "when_required"}

watched, careless = Watched(), Watched(durability="unsafe-none")
s3 = watched.client(max(IN_FLIGHT), **UNSIGNED)
careless_s3 = careless.client(max(IN_FLIGHT), **UNSIGNED)
for each in (s3, careless_s3):
    each.create_bucket(Bucket="large")

# %% [markdown]
# ## Uploads and downloads of 10 MiB
#
# The client's own work is part of it: boto3 hashes a body that it signs. *Server CPU* is what the server used for each.

# %%
KINDS = ("PUT", "PUT as the report", "GET")
arms = [(kind, count) for kind in KINDS for count in IN_FLIGHT]
rates = {arm: [] for arm in arms}
latencies = {arm: [] for arm in arms}
cpu = {arm: [] for arm in arms}
same = os.urandom(LENGTH)
for each in (s3, careless_s3):
    each.put_object(Bucket="large", Key="read", Body=same)


def upload(key, body, s3=s3):
    s3.put_object(Bucket="large", Key=key, Body=body)


def download():
    body = s3.get_object(Bucket="large", Key="read")["Body"]
    assert sum(len(piece) for piece in body.iter_chunks(MIB)) == LENGTH


def jobs_of(kind, keys):
    """One job for each key."""
    if kind == "PUT":
        todo = [(key, os.urandom(LENGTH)) for key in keys]
        return [(lambda job=job: upload(*job)) for job in todo]
    if kind == "GET":
        return [download for _ in keys]
    return [(lambda key=key: upload(key, same, careless_s3)) for key in keys]


for number, (kind, count) in in_turn(arms, ROUNDS):
    server = careless if kind == "PUT as the report" else watched
    # At least as many as may be in flight.
    jobs = jobs_of(kind, [f"{count}/{number}/{turn}" for turn in range(max(count, REQUESTS))])
    server.settle()
    used = server.cpu_ms()
    seconds, taken = in_threads(count, jobs)
    server.settle()
    rates[kind, count].append(len(jobs) * LENGTH / MIB / seconds)
    latencies[kind, count] += taken
    cpu[kind, count].append((server.cpu_ms() - used) / len(jobs))

under = stamp(
    f"{LENGTH / MIB:g} MiB, boto3 from this process, signed; {ROUNDS} rounds of at least {REQUESTS} requests an arm, in turn",
    durability="sync, new bytes; as the report: unsafe-none, the same bytes each time",
    concurrency="threads and connections as each row says",
)
print(f"{'':32}{'MiB/s':>26}{'median ms':>11}{'p95 ms':>9}{'seconds ÷ requests, ms':>24}{'server CPU ms':>22}")
for arm in arms:
    kind, count = arm
    taken = latencies[arm]
    print(
        f"{kind:18}{count:4} in flight{spread(rates[arm], 0):>26}{statistics.median(taken):11.1f}{p95(taken):9.1f}"
        f"{LENGTH / MIB / statistics.median(rates[arm]) * 1000:24.1f}{spread(cpu[arm], 1):>22}"
    )
print(under)

# %%
REPORT_MB = {10: 1063, 50: 1643, 100: 2126}
REPORT_MS = {10: 9.41, 50: 6.09, 100: 4.70}
SHOWN = (*IN_FLIGHT, *(count for count in REPORT_MB if count not in IN_FLIGHT))


def shown(values):
    return [values.get(count) for count in SHOWN]


plot(
    {
        "Uploads of 10 MB (report) and 10 MiB (Orcas) | MB/s, MiB/s": {
            "report": [REPORT_MB.get(count) for count in SHOWN],
            **{
                f"Orcas through boto3, {kind}": shown({count: rates[kind, count] for count in IN_FLIGHT})
                for kind in KINDS[:2]
            },
        },
        "Downloads of 10 MiB | MiB/s": {
            "Orcas through boto3": shown({count: rates["GET", count] for count in IN_FLIGHT}),
        },
    },
    [f"{count} in flight" for count in SHOWN],
    under,
)
plot(
    {
        "Time of an upload | ms": {
            "report: seconds ÷ uploads": [REPORT_MS.get(count) for count in SHOWN],
            **{
                f"Orcas through boto3, {kind}: call to answer": shown(
                    {count: latencies[kind, count] for count in IN_FLIGHT}
                )
                for kind in KINDS[:2]
            },
        },
    },
    [f"{count} in flight" for count in SHOWN],
    under,
    log=True,
)
careless.stop()

# %% [markdown]
# ## The same bytes again
#
# The report's clients sent the same bytes each time. Content that is stored is not stored again, and not hashed again for
# its entity tag.

# %%
known = os.urandom(LENGTH)
s3.put_object(Bucket="large", Key="known", Body=known)
new, again = [], []
for number in range(size(20, 3)):
    fresh = os.urandom(LENGTH)
    new += in_threads(1, [lambda fresh=fresh, number=number: upload(f"new/{number}", fresh)])[1]
    again += in_threads(1, [lambda number=number: upload(f"again/{number}", known)])[1]
print(f"new bytes {spread(new, 1)} ms, the same bytes again {spread(again, 1)} ms")
tags = {s3.head_object(Bucket="large", Key=f"again/{number}")["ETag"] for number in range(size(20, 3))}
assert tags == {f'"{hashlib.md5(known).hexdigest()}"'}

# %% [markdown]
# ## In parts, and parts of it
#
# Parts of an upload are sent in parallel, and a reader may ask for any range.

# %%
whole = os.urandom(size(256, 16) * MIB)
config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)
seconds, _ = in_threads(1, [lambda: s3.upload_fileobj(io.BytesIO(whole), "large", "parts", Config=config)])
print(f"upload_fileobj in parts of 8 MiB: {len(whole) / MIB / seconds:.0f} MiB/s")
ranges = [(first, first + MIB - 1) for first in range(MIB // 2, len(whole) - MIB, size(8, 4) * MIB)]
for first, last in ranges:
    piece = s3.get_object(Bucket="large", Key="parts", Range=f"bytes={first}-{last}")["Body"].read()
    assert piece == whole[first : last + 1]
print(f"{len(ranges)} ranges of 1 MiB read and compared")

# %%
watched.stop()

# %% [markdown]
# ## How it is measured, and doubts
#
# - Both ways go over a socket and are signed. Latency is the time from call to answer. At N in flight on few cores, it is
#   N times the work: the question is whether throughput holds.
# - The report's latencies are seconds divided by operations, not the time that any client waited: 100 uploads in flight
#   at 213 per second wait 470 ms each, not 4.70 ms. So "latency falls with concurrency" says only that throughput rises.
# - 2.1 GB/s of uploads is about four times what one core can hash with MD5, which S3 needs for an entity tag. The
#   bodies were identical, and nothing indicates that the bytes were on a disk.
# - Client and server were one process there, without a socket.
