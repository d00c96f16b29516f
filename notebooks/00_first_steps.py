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
# # First steps, and recipes to keep
#
# A server in one cell, and then what a data scientist does with it: pandas, Polars, DuckDB, s3fs, loading data for
# training, and versions and snapshots of data sets. Run it from the top: later recipes read what earlier ones wrote.
# `pip install "orcas-s3[notebooks]"` installs what they need.
#
# This server is in memory and ends with the notebook. To keep data, use `orcas.Server("some/directory")`. If a server is
# running already, do not start one here: `eval "$(orcas env)"` before Jupyter sets the same variables as `server.env()`.

# %%
import contextlib
import io
import random
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas as pd
import polars as pl
from pyarrow import dataset, fs

import orcas
from orcas.buckets import create_snapshot, fork, list_snapshots, restore_snapshot

running = contextlib.ExitStack()
server = running.enter_context(orcas.Server(memory=True))
# AWS_ENDPOINT_URL_S3, keys and region, for everything below and for programs that the notebook starts.
variables = running.enter_context(server.env())
s3 = server.client()
s3.create_bucket(Bucket="lab")
server.endpoint

# %% [markdown]
# ## Objects, with boto3

# %%
s3.put_object(Bucket="lab", Key="notes/today.txt", Body=b"it works", Metadata={"author": "me"})
answer = s3.get_object(Bucket="lab", Key="notes/today.txt")
answer["Body"].read(), answer["Metadata"], answer["ETag"]

# %% [markdown]
# Write only if nobody else has written the key before: a lock, or a result that is computed once. Conditions are decided
# in the same step that orders the writes.

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
# ## pandas
#
# Over PyArrow's file system, which reads the keys and the address from the variables. Parquet reads only the columns that
# are asked for.

# %%
lake = fs.S3FileSystem(endpoint_override=server.endpoint, region=server.region)
weather = pd.DataFrame(
    {"city": ["Oslo", "Rome", "Lima"] * 1000, "day": [n // 3 for n in range(3000)], "celsius": [4.5, 14.0, 19.5] * 1000}
)
weather.to_parquet("lab/weather.parquet", filesystem=lake)
pd.read_parquet("lab/weather.parquet", filesystem=lake, columns=["city", "celsius"]).groupby("city").mean()

# %% [markdown]
# CSV goes through an open file, or through boto3:

# %%
with lake.open_output_stream("lab/weather.csv") as file:
    weather.to_csv(file, index=False)
body = s3.get_object(Bucket="lab", Key="weather.csv")["Body"].read()
pd.read_csv(io.BytesIO(body)).tail(2)

# %% [markdown]
# ## Polars
#
# A plan over objects reads the row groups and columns that it needs, and nothing else.

# %%
options = {
    "aws_endpoint_url": server.endpoint,
    "aws_access_key_id": server.access_key,
    "aws_secret_access_key": server.secret_key,
    "aws_region": server.region,
    "aws_allow_http": "true",
}
for year in (2024, 2025, 2026):
    rows = pl.DataFrame({"day": range(365), "sold": [(day * 7919 + year) % 100 for day in range(365)]})
    rows.write_parquet(f"s3://lab/sales/year={year}/data.parquet", storage_options=options)
plan = pl.scan_parquet("s3://lab/sales/", storage_options=options, hive_partitioning=True)
plan.filter(pl.col("year") > 2024).group_by("year").agg(pl.col("sold").sum()).sort("year").collect()

# %% [markdown]
# ## DuckDB
#
# SQL over the same files, through PyArrow's data set: no extension to download, and only the columns of the query are
# read. `sales` is the Python variable.

# %%
sales = dataset.dataset("lab/sales", filesystem=lake, partitioning="hive")
duckdb.sql("SELECT year, count(*) AS days, max(sold) AS most FROM sales GROUP BY year ORDER BY year").df()

# %% [markdown]
# A result goes back as Parquet:

# %%
best = duckdb.sql("SELECT * FROM sales ORDER BY sold DESC, year, day LIMIT 100").to_arrow_table()
dataset.write_dataset(best, "lab/best", filesystem=lake, format="parquet")
[info.path for info in lake.get_file_info(fs.FileSelector("lab/best"))]

# %% [markdown]
# ## s3fs
#
# What reads `s3://` through fsspec (pandas, dask, zarr, xarray) takes the variables, too. s3fs pins an older botocore than
# the newest boto3, so it is not part of the extra: install it into an environment of its own, or beside a boto3 that it
# allows (`pip install s3fs boto3`).

# %%
try:
    import s3fs
except ImportError:
    print("Not run: s3fs is not installed here.")
else:
    files = s3fs.S3FileSystem()
    print(files.ls("lab/sales"), files.du("lab/weather.csv"))
    pd.DataFrame({"n": range(5)}).to_csv("s3://lab/numbers.csv", index=False)
    print(pd.read_csv("s3://lab/numbers.csv")["n"].sum())

# %% [markdown]
# ## Loading data for training
#
# A data set in the shape that PyTorch expects, with nothing of PyTorch: records of one size in a few shards, each read
# by its range, so shuffling costs nothing. `torch.utils.data.DataLoader(Records("lab", "train/"), batch_size=32,
# num_workers=4)` takes any object with these two methods (not run here); the client is made where it is first used, so
# each worker has its own.

# %%
RECORD_BYTES, SHARDS, RECORDS = 256, 4, 1000
for shard in range(SHARDS):
    numbers = range(shard, SHARDS * RECORDS, SHARDS)
    content = b"".join(n.to_bytes(8, "big") * (RECORD_BYTES // 8) for n in numbers)
    s3.put_object(Bucket="lab", Key=f"train/{shard}.bin", Body=content)


class Records:
    """Record `n` is in shard `n % SHARDS`, at place `n // SHARDS`."""

    def __init__(self, bucket, prefix):
        self.bucket, self.prefix, self.client = bucket, prefix, None

    def __len__(self):
        return SHARDS * RECORDS

    def __getitem__(self, n):
        import boto3

        if self.client is None:
            self.client = boto3.client("s3")
        first = n // SHARDS * RECORD_BYTES
        key, part = f"{self.prefix}{n % SHARDS}.bin", f"bytes={first}-{first + RECORD_BYTES - 1}"
        return self.client.get_object(Bucket=self.bucket, Key=key, Range=part)["Body"].read()


def batches(records, batch_size, threads=8, seed=0):
    """Batches in a random order; each is read while the last one is used."""
    order = random.Random(seed).sample(range(len(records)), len(records))
    wanted = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
    # The client, before there are threads.
    records[0]
    with ThreadPoolExecutor(threads) as pool:
        ahead = [pool.submit(records.__getitem__, n) for n in wanted[0]]
        for following in [*wanted[1:], []]:
            batch, ahead = ahead, [pool.submit(records.__getitem__, n) for n in following]
            yield [future.result() for future in batch]


records = Records("lab", "train/")
seen = [int.from_bytes(record[:8], "big") for batch in batches(records, 32) for record in batch]
len(seen), sorted(seen) == list(range(len(records))), seen[:5]

# %% [markdown]
# ## Versions of a data set
#
# With versioning, nothing is overwritten: note the version that an experiment used, and read it again at any time.

# %%
s3.create_bucket(Bucket="data-sets")
s3.put_bucket_versioning(Bucket="data-sets", VersioningConfiguration={"Status": "Enabled"})
used = s3.put_object(Bucket="data-sets", Key="labels.csv", Body=b"id,label\n1,cat\n")["VersionId"]
s3.put_object(Bucket="data-sets", Key="labels.csv", Body=b"id,label\n1,dog\n")
for version in (None, used):
    named = {} if version is None else {"VersionId": version}
    print(s3.get_object(Bucket="data-sets", Key="labels.csv", **named)["Body"].read())

# %% [markdown]
# ## Snapshots and forks
#
# A snapshot keeps a whole bucket under a name, in the same short time for any number of objects. A fork is a bucket with
# what another bucket, or one of its snapshots, has: nothing is copied, and what is changed in it is changed nowhere else.

# %%
create_snapshot(s3, "data-sets", "as-published")
fork(s3, "data-sets", "experiment", snapshot="as-published")
s3.put_object(Bucket="experiment", Key="labels.csv", Body=b"id,label\n1,bird\n")
s3.delete_object(Bucket="data-sets", Key="labels.csv")
restore_snapshot(s3, "data-sets", "as-published")
for bucket in ("data-sets", "experiment"):
    print(bucket, s3.get_object(Bucket=bucket, Key="labels.csv")["Body"].read())
[snapshot.name for snapshot in list_snapshots(s3, "data-sets")]

# %%
running.close()

# %% [markdown]
# `docs/how-to/use-with.md` has more programs that read and write S3. The notebooks from 01 on measure.
