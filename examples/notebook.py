# %% [markdown]
"""A server for a notebook: made in one cell, used in the others, gone with the kernel, whatever happens.

Run it with `python notebook.py`, or open it as a notebook: each `# %%` begins a cell (VS Code, PyCharm, Jupyter with
jupytext). `orcas.Server("some/directory")` keeps what is stored for the next time.
"""

# %% A server for the whole notebook. It ends with `cleanup.close()`, and by itself when the kernel does.
import contextlib
import subprocess
import sys

import boto3

import orcas

cleanup = contextlib.ExitStack()
server = cleanup.enter_context(orcas.Server(memory=True))
cleanup.enter_context(server.env())
print(server)

# %% AWS_* variables are set meanwhile, so everything that reads them talks to this server: boto3 without arguments…
s3 = boto3.client("s3")
s3.create_bucket(Bucket="lab")
for run in range(3):
    s3.put_object(Bucket="lab", Key=f"run={run}/result.csv", Body=f"run,score\n{run},{run * 10}\n".encode())

# %% … and programs that the notebook starts.
PROGRAM = """
import boto3
for entry in boto3.client("s3").list_objects_v2(Bucket="lab")["Contents"]:
    print("a child process sees", entry["Key"])
"""
done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
print(done.stdout, end="")

# %% Where one cell is enough, `with` says how long the server lives. In Jupyter, `async with` does it without blocking.
with orcas.Server(memory=True) as scratch:
    print("another server, empty:", scratch.client().list_buckets()["Buckets"])

# %% At the end of the notebook.
cleanup.close()
print(server)
