"""The same workloads through boto3: right counts, and the cost of both sides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.conftest import KEYS, Fake
from tests.bench.test_bench import flip

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "boto3_load.py"
LOAD = """
connections = 4
count = 60
keys = 8
size = { "10000B" = 1, "20KiB" = 1 }
"""


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words],
        env=variables or None,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.mark.full
@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_operation_and_the_cost_of_both_sides(tmp_path: Path, processes: str) -> None:
    load = tmp_path / "load.toml"
    load.write_text(LOAD + "mix = { put = 9, get = 9, head = 4, list = 2, delete = 2, copy = 3, multipart = 1 }")
    done = run("--workload", load, "--data", tmp_path, "--processes", processes, "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout).values()
    assert (result["done"], result["errors"], result["wrong"]) == (60, {}, 0)
    assert {"put", "get", "head"} <= set(result["operations"])
    assert sum(found["done"] for found in result["operations"].values()) == 60
    assert result["client_cpu_us_per_operation"] > 0
    if sys.platform == "linux":
        assert result["server_cpu_us_per_operation"] > 0


def test_wrong_bytes_and_refusals_are_told(fake: Fake, tmp_path: Path) -> None:
    load = tmp_path / "load.toml"
    load.write_text(LOAD + "mix = { get = 1 }")
    fake.twist = flip
    done = run(fake.url, "--workload", load, **KEYS)
    assert done.returncode == 1, done.stderr
    assert "WRONG, 60 times" in done.stdout
    fake.twist = lambda method, path, status, body: (507, b"") if method == "PUT" and "/o/" in path else (status, body)
    done = run(fake.url, "--workload", load, **KEYS)
    assert (done.returncode, done.stdout) == (1, "")
    assert "An object could not be put" in done.stderr
