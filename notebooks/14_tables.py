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
# # Tables, and branches of a whole warehouse
#
# A server that is also an Iceberg catalog, in one cell; then what one does with tables: fill them, change their columns,
# go back in time. At the end a branch: something is tried on all tables at once, thrown away, tried again, and kept.
# `pip install "orcas-s3[notebooks]"` installs what this needs. [What the catalog does](../tables.md) has its own page.

# %%
import contextlib
import os
import subprocess
import sys

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import DoubleType

import orcas

running = contextlib.ExitStack()
server = running.enter_context(orcas.Server(memory=True, warehouse="lake"))
# The keys and the address, for the commands below.
running.enter_context(server.env())


def opened(warehouse):
    url = f"{server.endpoint}/_orcas/iceberg"
    keys = f"{server.access_key}:{server.secret_key}"
    tokens = {"oauth2-server-uri": f"{url}/v1/oauth/tokens"}
    return RestCatalog(warehouse, uri=url, warehouse=warehouse, credential=keys, **tokens)


lake = opened("lake")
lake.create_namespace("weather")
lake.list_namespaces()

# %% [markdown]
# ## Load

# %%
days = pa.table({"city": ["Oslo", "Rome", "Lima"] * 1000, "celsius": [4.5, 14.0, 19.5] * 1000})
table = lake.create_table("weather.days", schema=days.schema)
table.append(days)
lake.create_table("weather.cities", schema=pa.schema({"city": pa.string(), "country": pa.string()})).append(
    pa.table({"city": ["Oslo", "Rome", "Lima"], "country": ["NO", "IT", "PE"]})
)
table.scan(row_filter="city = 'Oslo'").to_arrow().num_rows

# %% [markdown]
# ## Another column
#
# No file is written again: what is there has no value in it.

# %%
with table.update_schema() as change:
    change.add_column("rain", DoubleType())
table.append(pa.table({"city": ["Bergen"], "celsius": [8.0], "rain": [31.5]}))
table.scan().to_arrow().group_by("city").aggregate([("celsius", "mean"), ("rain", "sum")]).to_pandas()

# %% [markdown]
# ## Back in time

# %%
first = table.snapshots()[0].snapshot_id
table.delete("city = 'Lima'")
table.scan().to_arrow().num_rows, table.scan(snapshot_id=first).to_arrow().num_rows

# %% [markdown]
# ## A branch, to break something in
#
# `orcas table branch create` makes one of all tables, in milliseconds, for any number of files. It is opened as a
# warehouse of its own, with the same names.


# %%
def branch(*words):
    line = [sys.executable, "-m", "orcas", "table", "branch", *words, "--endpoint", server.endpoint]
    # Jupyter asks programs for colors, which a page of text does not show.
    plain = os.environ | {"FORCE_COLOR": ""}
    print(subprocess.run(line, capture_output=True, text=True, check=True, env=plain).stdout)


branch("create", "lake@trial")
trial = opened("lake@trial")
trial.load_table("weather.days").overwrite(days.slice(0, 1))
trial.drop_table("weather.cities")
trial.list_tables("weather"), lake.list_tables("weather")

# %%
branch("diff", "lake@trial")

# %% [markdown]
# That was a mistake. It goes with the branch, and the warehouse never had it.

# %%
branch("drop", "lake@trial")
lake.load_table("weather.days").scan().to_arrow().num_rows

# %% [markdown]
# ## Another one, to keep
#
# Both tables change in the branch; a merge makes them change in the warehouse at the same moment.

# %%
branch("create", "lake@bergen")
bergen = opened("lake@bergen")
bergen.load_table("weather.cities").append(pa.table({"city": ["Bergen"], "country": ["NO"]}))
bergen.load_table("weather.days").append(pa.table({"city": ["Bergen"], "celsius": [9.0], "rain": [12.0]}))
lake.load_table("weather.cities").scan().to_arrow().num_rows

# %%
branch("merge", "lake@bergen")
branch("drop", "lake@bergen")
[lake.load_table(name).scan(row_filter="city = 'Bergen'").to_arrow().num_rows for name in ("weather.cities", "weather.days")]

# %%
running.close()
