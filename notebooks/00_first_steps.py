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
# # First steps
#
# This notebook starts a server of its own, in memory, which ends with the notebook. `pip install ".[notebooks]"`
# installs what the notebooks need. To keep data, use `orcas.Server("some/directory")`, or run `orcas serve` and do not
# start a server here.

# %%
import time

import orcas

server = orcas.Server(memory=True)
s3 = server.client()
server.endpoint

# %% [markdown]
# Buckets and objects, as with any S3 server.

# %%
s3.create_bucket(Bucket="lab")
s3.put_object(Bucket="lab", Key="notes/today.txt", Body=b"it works", Metadata={"author": "me"})
answer = s3.get_object(Bucket="lab", Key="notes/today.txt")
answer["Body"].read(), answer["Metadata"], answer["ETag"]

# %% [markdown]
# Write only if nobody else has written the key before: conditions are decided in the same step that orders the writes.

# %%
try:
    s3.put_object(Bucket="lab", Key="notes/today.txt", Body=b"mine", IfNoneMatch="*")
except s3.exceptions.ClientError as refusal:
    print(refusal.response["Error"]["Code"])

# %% [markdown]
# Rename an object without copying it, even one that was uploaded in parts.

# %%
s3.rename_object(Bucket="lab", Key="notes/kept.txt", RenameSource="notes/today.txt")
[entry["Key"] for entry in s3.list_objects_v2(Bucket="lab")["Contents"]]

# %% [markdown]
# The time of a request as this client sees it, most of which is boto3's own work. This is one client, one connection,
# and a store in memory; `benchmarks/run.py` measures the server.

# %%
COUNT = 200
began = time.perf_counter()
for number in range(COUNT):
    s3.put_object(Bucket="lab", Key=f"many/{number:04}", Body=b"x" * 1024)
put_ms = (time.perf_counter() - began) / COUNT * 1000
began = time.perf_counter()
for number in range(COUNT):
    s3.get_object(Bucket="lab", Key=f"many/{number:04}")["Body"].read()
get_ms = (time.perf_counter() - began) / COUNT * 1000
print(f"put {put_ms:.2f} ms, get {get_ms:.2f} ms, durability unsafe-none, 1 connection")

# %%
server.stop()
