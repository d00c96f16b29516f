"""Bringing objects over from another server: `orcas import`, beside `aws s3 sync` through a directory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import load
from figures import Figure, Plan, ratios
from orcas.settings.config import child_environment
from processes import ACCESS_KEY, SECRET_KEY, Orcas, scratch, tool
from small import make_bucket, unique

_OBJECTS, _SYNCED, _KILLS = 100_000, 5_000, 10
_AWS = (sys.executable, "-m", "awscli")


def rate(plan: Plan) -> list[Figure]:
    """Figure import-rate, and import-killed: an import that is killed again and again."""
    rounds, objects, synced = plan.size(3, 1), plan.size(_OBJECTS, 200), plan.size(_SYNCED, 100)
    took: dict[str, list[float]] = {"import": [], "sync": []}
    wrong: list[float] = []
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "source") as source,
        Orcas(directory / "target") as target,
    ):
        for bucket, count in (("many", objects), ("few", synced)):
            make_bucket(source, bucket)
            signer = source.signer()
            load.run(source.address, (signer.put(f"/{bucket}/{n:016x}", unique(n)) for n in range(count)))
        for number in range(rounds):
            make_bucket(target, f"imported-{number}")
            make_bucket(target, f"synced-{number}")
            begun = time.perf_counter()
            _run(_importing(source, target, f"imported-{number}"))
            took["import"].append((time.perf_counter() - begun) / objects)
            files = directory / "files"
            begun = time.perf_counter()
            _run([*_AWS, "s3", "sync", "s3://few", str(files), *quiet(source)])
            _run([*_AWS, "s3", "sync", str(files), f"s3://synced-{number}", *quiet(target)])
            took["sync"].append((time.perf_counter() - begun) / synced)
            shutil.rmtree(files)
            wrong.append(abs(_count(directory / "target", f"imported-{number}") - objects))
        make_bucket(target, "killed")
        kills = plan.size(_KILLS, 2)
        seconds = took["import"][-1] * objects
        chance = random.Random(1)
        for _ in range(kills):
            with subprocess.Popen(_importing(source, target, "killed"), env=environment()) as process:
                time.sleep(seconds * chance.uniform(0.5, 1.5) / kills)
                process.kill()
        _run(_importing(source, target, "killed"))
        wrong.append(abs(_count(directory / "target", "killed") - objects))
    times = {name: [seconds * 1e6 for seconds in values] for name, values in took.items()}
    what = f"rate of an import of {objects:,} objects of 1 KiB ÷ `aws s3 sync` of {synced:,} to a directory and from it"
    return [
        Figure("import-rate", what, ratios(took["sync"], took["import"]), 5, True, detail={"microseconds": times}),
        Figure("import-killed", f"objects lost or doubled by an import killed {kills} times, and by others", wrong, 0),
    ]


def _importing(source: Orcas, target: Orcas, bucket: str) -> list[str]:
    return [sys.executable, "-m", "orcas", "import", f"{source.url}/many", bucket, "--endpoint", target.url]


def quiet(server: Orcas) -> list[str]:
    """Options of `aws s3` for a server."""
    return ["--only-show-errors", "--endpoint-url", server.url]


def environment() -> dict[str, str]:
    """The variables of commands that copy."""
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    aws = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": os.devnull}
    return child_environment() | keys | {f"SOURCE_{name}": value for name, value in keys.items()} | aws


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)


def _count(data: Path, bucket: str) -> int:
    entries: list[dict[str, int]] = tool(data, "stats", "--bucket", bucket)["buckets"]
    return entries[0]["objects"]
