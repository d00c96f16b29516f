"""A standby under load: how long after its answer a PUT is there, what it costs the server, and how soon it is promoted."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import load
from figures import Figure, Plan
from orcas.settings.config import child_environment
from processes import ACCESS_KEY, KEYS, SECRET_KEY, UNSCRUBBED, Orcas, Process, scratch
from small import make_bucket
from streams import Writer

_RATE = 2000
_LENGTH = 4096
# Of so many keys one is looked for.
_LOOKED_FOR = 20
_DEADLINE_SECONDS = 60


class _Standby(Process):
    """`orcas standby` of a server, in a directory."""

    def __init__(self, of: Orcas, data: Path) -> None:
        super().__init__(
            [sys.executable, "-m", "orcas", "standby", "--from", of.url, "--data", str(data), "--port", "0"],
            "orcas ready",
            environment=KEYS | {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
        )


def lag(plan: Plan) -> list[Figure]:
    """Figures standby-lag-p50, standby-lag-p99, standby-server-cpu and standby-promote."""
    rounds, count = plan.size(5, 1), plan.size(10 * _RATE, _RATE)
    waited: list[list[float]] = []
    cpu, promoted, rates = [], [], []
    for number in range(rounds):
        with scratch(plan.directory) as directory:
            with Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
                make_bucket(orcas, "events")
                alone, _ = _written(orcas, None, f"{number}/alone", count)
                with _Standby(orcas, directory / "copy") as copy:
                    followed, took = _written(orcas, copy, f"{number}/followed", count)
            waited.append(took)
            cpu.append(followed / alone)
            rates.append(float(_RATE))
            began = time.monotonic()
            _run("promote", "--data", str(directory / "copy"))
            with Orcas(directory / "copy", settings=UNSCRUBBED):
                promoted.append(time.monotonic() - began)
    detail = {"puts": count, "puts_a_second": rates, "bytes": _LENGTH}
    lags = [
        Figure(
            f"standby-lag-p{percent}",
            f"time from the answer to a PUT of 4 KiB until a standby has it, {_RATE} a second",
            [statistics.quantiles(took, n=100)[percent - 1] for took in waited],
            goal,
            unit="s",
            detail=detail,
        )
        for percent, goal in ((50, None), (99, 1.0))
    ]
    what = f"server CPU of {_RATE} PUTs of 4 KiB a second, with a standby ÷ without"
    return [
        *lags,
        Figure("standby-server-cpu", what, cpu, detail=detail),
        Figure("standby-promote", "from `orcas promote` to a server that is ready", promoted, 5.0, unit="s"),
    ]


def _written(orcas: Orcas, copy: Process | None, prefix: str, count: int) -> tuple[float, list[float]]:
    """CPU nanoseconds of the server for PUTs at a constant rate, and seconds until the copy had some of them."""
    keys = [f"{prefix}/{n:08x}" for n in range(count)]
    looked_for = keys[::_LOOKED_FOR]
    came: dict[str, float] = {}

    def look(standby: Process) -> None:
        signer = standby.signer()
        deadline = time.monotonic() + _DEADLINE_SECONDS
        with load.connect(standby.address) as connection:
            for key in looked_for:
                while time.monotonic() < deadline:
                    connection.send(signer.get(f"/events/{key}"))
                    head, _ = connection.read()
                    if head.startswith(b"HTTP/1.1 200"):
                        came[key] = time.monotonic()
                        break
                    time.sleep(0.002)

    with Writer(orcas, keys, _RATE, _LENGTH) as writer:
        orcas.settle()
        looking = threading.Thread(target=look, args=(copy,))
        before = orcas.cpu_ns()
        if copy is not None:
            looking.start()
        answered = writer.answered()
        if copy is not None:
            looking.join()
        spent = orcas.cpu_ns() - before
    if copy is not None and len(came) != len(looked_for):
        raise RuntimeError("the standby did not get every object")
    return spent, [max(0.0, at - answered[key]) for key, at in came.items()]


def _run(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "orcas", *words], env=child_environment(), check=True, stdout=subprocess.DEVNULL
    )
