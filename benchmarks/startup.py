"""What a newcomer waits for: the import, the help, a server that is ready, and the fixtures of a test suite."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import orcas
from figures import Figure, Plan
from orcas.testing import Control
from processes import Orcas, scratch
from small import make_bucket


def ready(plan: Plan) -> list[Figure]:
    """Figures ready, start-memory: a new process each time, with a store that was shut down cleanly."""
    seconds: list[float] = []
    memory: list[float] = []
    with scratch(plan.directory) as directory:
        with Orcas(directory / "data") as server:
            make_bucket(server, "small")
        for _ in range(plan.size(10, 3)):
            with Orcas(directory / "data") as server:
                seconds.append(server.ready_seconds)
                server.settle()
                memory.append(server.rss_mib())
    return [
        Figure("ready", "from `orcas serve` to its ready line", seconds, 0.5, unit="s"),
        Figure("start-memory", "resident memory of a server that is idle after its start", memory, 60, unit="MiB"),
    ]


def first_use(plan: Plan) -> list[Figure]:
    """Figures import, help, session-start, reset: what each run of a command or of a test suite begins with."""
    rounds = plan.size(20, 5)
    bare = [_seconds("-c", "pass") for _ in range(rounds)]
    imported = [_seconds("-c", "import orcas") - statistics.median(bare) for _ in range(rounds)]
    shown = [_seconds("-m", "orcas", "--help") for _ in range(rounds)]
    started: list[float] = []
    resets: list[float] = []
    for _ in range(plan.size(10, 3)):
        began = time.perf_counter()
        with orcas.Server(memory=True) as server, Control(server) as control:
            control.create_bucket("first")
            started.append(time.perf_counter() - began)
            s3 = server.client()
            for _ in range(10):
                s3.create_bucket(Bucket="bucket")
                for number in range(10):
                    s3.put_object(Bucket="bucket", Key=f"{number}", Body=b"x")
                resets.append(_taken(control.reset) * 1000)
            s3.close()
    return [
        Figure("import", "time that `import orcas` takes", [1000 * one for one in imported], 60, unit="ms"),
        Figure("help", "`orcas --help`", [1000 * one for one in shown], 250, unit="ms"),
        Figure("session-start", "`orcas.Server(memory=True)` until its first bucket is there", started, 0.7, unit="s"),
        Figure("reset", "`Control.reset` of a bucket with ten objects", resets, 5, unit="ms"),
    ]


def _seconds(*arguments: str) -> float:
    return _taken(lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL))


def _taken(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
