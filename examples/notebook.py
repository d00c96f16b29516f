# %% [markdown]
"""A server for a notebook: started in one cell, used in the others, and stopped with the kernel at the latest.

Run it with `python notebook.py`, or open it as a notebook: each `# %%` starts a cell (VS Code, PyCharm, or Jupyter with
jupytext). Use `orcas.Server("some/directory")` to keep the objects.
"""

# %% A server for the whole notebook. It stops at `cleanup.close()`, or when the kernel stops. In a single cell, use
# `with orcas.Server(memory=True) as server, server.env():` instead.
import contextlib
import subprocess
import sys

import boto3

import orcas

cleanup = contextlib.ExitStack()
server = cleanup.enter_context(orcas.Server(memory=True))
cleanup.enter_context(server.env())
print(server)

# %% The AWS_* variables now point at this server. boto3 reads them…
s3 = boto3.client("s3")
s3.create_bucket(Bucket="lab")
for run in range(3):
    s3.put_object(Bucket="lab", Key=f"run={run}/result.csv", Body=f"run,score\n{run},{run * 10}\n".encode())

# %% … and so do programs that the notebook starts.
PROGRAM = """
import boto3
for entry in boto3.client("s3").list_objects_v2(Bucket="lab")["Contents"]:
    print("a child process sees", entry["Key"])
"""
done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
print(done.stdout, end="")

# %% At the end of the notebook.
cleanup.close()
print(server)
