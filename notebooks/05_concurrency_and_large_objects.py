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
# How one server behaves when many ask at once, and what a large object costs. It begins with the report that Orcas set out
# from (in Chinese; translated), on another machine in November 2025.
#
# > | Object | Uploads in flight | Operations a second | MB/s | Average latency |
# > |---|---|---|---|---|
# > | 10 MB | 10 | 106 | 1,063 | 9.41 ms |
# > | 10 MB | 50 | 164 | 1,643 | 6.09 ms |
# > | 10 MB | 100 | 213 | 2,126 | 4.70 ms |
#
# > *"Performance grows almost linearly with concurrency; average latency falls as concurrency rises."*

# %% [markdown]
# ## What these numbers were worth
#
# - The latencies are seconds divided by operations, not what anybody waited: 100 uploads in flight at 213 a second wait
#   470 ms each, not 4.70 ms. So "latency falls with concurrency" says only that throughput rises.
# - 2.1 GB/s of uploads is about four times what one core can hash with MD5, which S3 needs for an entity tag. The bodies were
#   identical, and nothing says that the bytes were on a disk.
# - Client and server were one process, without a socket.
#
# Below bodies are new, requests are signed, an upload is on the disk when it is answered, and latency is the time from call
# to answer. Latency at N in flight on few cores is N times the work: what is worth knowing is whether throughput holds.

# %%
import hashlib
import io
import os
import statistics

from boto3.s3.transfer import TransferConfig
from support import MIB, Watched, bars, in_threads, in_turn, p95, size, spread, stamp

LENGTH = size(10 * MIB, MIB)
IN_FLIGHT = (1, 4) if size(0, 1) else (1, 2, 5, 10, 20)
ROUNDS, UPLOADS = size(3, 1), size(20, 4)

watched = Watched()
s3 = watched.client(max(IN_FLIGHT), request_checksum_calculation="when_required")
s3.create_bucket(Bucket="large")

# %% [markdown]
# ## Uploads and downloads of 10 MiB
#
# The client's own work is part of it: boto3 hashes a body that it signs. *Server CPU* is what the server used for each.

# %%
arms = [(kind, count) for kind in ("PUT", "GET") for count in IN_FLIGHT]
rates = {arm: [] for arm in arms}
latencies = {arm: [] for arm in arms}
cpu = {arm: [] for arm in arms}
s3.put_object(Bucket="large", Key="read", Body=os.urandom(LENGTH))


def upload(key, body):
    s3.put_object(Bucket="large", Key=key, Body=body)


def download():
    body = s3.get_object(Bucket="large", Key="read")["Body"]
    assert sum(len(piece) for piece in body.iter_chunks(MIB)) == LENGTH


for number, (kind, count) in in_turn(arms, ROUNDS):
    if kind == "PUT":
        todo = [(f"{count}/{number}/{turn}", os.urandom(LENGTH)) for turn in range(UPLOADS)]
        jobs = [(lambda job=job: upload(*job)) for job in todo]
    else:
        jobs = [download] * UPLOADS
    watched.settle()
    used = watched.cpu_ms()
    seconds, taken = in_threads(count, jobs)
    watched.settle()
    rates[kind, count].append(UPLOADS * LENGTH / MIB / seconds)
    latencies[kind, count] += taken
    cpu[kind, count].append((watched.cpu_ms() - used) / UPLOADS)

under = stamp(f"durability sync, {LENGTH / MIB:g} MiB, boto3 from this process; {ROUNDS} rounds of {UPLOADS} requests an arm")
print(f"{'':18}{'MiB/s':>26}{'median ms':>11}{'p95 ms':>9}{'server CPU ms':>22}")
for arm in arms:
    kind, count = arm
    taken = latencies[arm]
    print(
        f"{kind} {count:3} in flight {spread(rates[arm], 0):>26}{statistics.median(taken):11.1f}{p95(taken):9.1f}"
        f"{spread(cpu[arm], 1):>22}"
    )
print(under)

# %%
REPORT = {10: 1063, 50: 1643, 100: 2126}
bars(
    {
        "MB/s of the report's uploads (identical bytes, no socket, no disk)": {"report": list(map(float, REPORT.values()))},
    },
    [f"{count} in flight" for count in REPORT],
    under,
)
bars(
    {
        f"MiB/s of {kind}": {"Orcas through boto3": [statistics.median(rates[kind, count]) for count in IN_FLIGHT]}
        for kind in ("PUT", "GET")
    },
    [f"{count}" for count in IN_FLIGHT],
    under,
)

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
# Parts of an upload travel side by side, and a reader may ask for any range.

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
