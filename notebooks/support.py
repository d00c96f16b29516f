"""What the measuring notebooks share: a server watched from outside, loads through boto3, and the line under each figure.

CPU time and memory are what the kernel counts (Linux). Sizes of a pass come from `NOTEBOOK_QUICK`: with `1` a notebook only
shows that it runs. `NOTEBOOK_DIRECTORY` is a place on the disk that is to be measured.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from botocore.config import Config

import orcas

QUICK = os.environ.get("NOTEBOOK_QUICK") == "1"
MIB = 1 << 20


def size(full: int, quick: int) -> int:
    """`full`, or `quick` in a small pass."""
    return quick if QUICK else full


class Watched:
    """A server over a directory of its own, which goes with it; `settings` are those of `orcas.Server`."""

    def __init__(self, **settings: object) -> None:
        # Not in memory, which some systems use for temporary files.
        self._directory = tempfile.TemporaryDirectory(
            dir=os.environ.get("NOTEBOOK_DIRECTORY"), prefix="orcas-notebook-", ignore_cleanup_errors=True
        )
        self.data = Path(self._directory.name) / "data"
        self.server = orcas.Server(self.data, **{"scrub_bytes_per_sec": 0, **settings})
        self.s3 = self.client()

    def client(self, connections: int = 1, **config: Any) -> Any:
        """A boto3 client that says each failure once, instead of hiding it behind another try."""
        return self.server.client(
            config=Config(max_pool_connections=connections, retries={"total_max_attempts": 1}, **config)
        )

    def cpu_ms(self) -> float:
        """CPU time of all threads of the server so far."""
        # The clock of another process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
        return time.clock_gettime_ns((~self.server.pid << 3) | 2) / 1e6

    def settle(self) -> None:
        """Wait until the server is at rest: what it does after its answers counts too."""
        before = self.cpu_ms()
        for _ in range(50):
            time.sleep(0.1)
            now = self.cpu_ms()
            if now - before < 4:
                return
            before = now

    def memory_mib(self, what: str = "VmRSS") -> float:
        """Resident memory, or its peak (`VmHWM`)."""
        lines = Path(f"/proc/{self.server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024

    def forget_peak(self) -> None:
        """Begin a new peak of memory."""
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")

    def stop(self) -> None:
        """End the server and remove its store."""
        self.server.stop()
        self._directory.cleanup()


def in_threads(count: int, jobs: Iterable[Callable[[], object]]) -> tuple[float, list[float]]:
    """Run jobs on `count` threads, each as soon as one is free. Seconds in all, and milliseconds of each job."""
    waiting = iter(jobs)
    taking = threading.Lock()
    taken: list[float] = []
    failed: list[BaseException] = []

    def work() -> None:
        while not failed:
            with taking:
                job = next(waiting, None)
            if job is None:
                return
            began = time.perf_counter()
            try:
                job()
            except BaseException as error:
                failed.append(error)
                return
            taken.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=work) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failed:
        raise failed[0]
    return seconds, taken


def in_turn(arms: Iterable[Any], rounds: int, seed: int = 1) -> Iterable[tuple[int, Any]]:
    """Every arm once in each round, in an order that changes: a machine is not the same from one minute to the next."""
    arms = list(arms)
    order = random.Random(seed)
    for number in range(rounds):
        for arm in order.sample(arms, len(arms)):
            yield number, arm


def p95(samples: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(samples, n=20)[18] if len(samples) > 1 else samples[0]


def spread(samples: list[float], digits: int = 2) -> str:
    """Median, least and most."""
    return f"{statistics.median(samples):.{digits}f} ({min(samples):.{digits}f}–{max(samples):.{digits}f})"


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def stamp(conditions: str) -> str:
    """Machine, commit and versions with the conditions of a measurement: belongs under every figure."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    commit = _said("git", "rev-parse", "--short", "HEAD") + ("-dirty" if _said("git", "status", "--porcelain") else "")
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("orcas-s3", "boto3", "uvicorn"))
    return (
        f"{cpus[0].split(': ')[1] if cpus else platform.processor()}, {os.cpu_count()} CPUs, {platform.system()}"
        f" {platform.release()}, load {os.getloadavg()[0]:.1f}; commit {commit or 'unknown'}; Python"
        f" {platform.python_version()} {versions}\n{conditions}"
        f"{' — A QUICK PASS, NOT A MEASUREMENT' if QUICK else ''}"
    )


def bars(titles: dict[str, dict[str, list[float]]], labels: list[str], under: str, *, log: bool = False) -> None:
    """One plot for each title: groups of bars, `labels` below, the stamp at the foot."""
    if not importlib.util.find_spec("matplotlib"):
        print("No plot: `pip install matplotlib` brings it.")
        return
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(titles), figsize=(6 * len(titles), 5.5), squeeze=False)
    for axes, (title, series) in zip(places[0], titles.items(), strict=True):
        width = 0.8 / len(series)
        for number, (label, values) in enumerate(series.items()):
            axes.bar([place + number * width for place in range(len(values))], values, width, label=label)
        axes.set(title=title, yscale="log" if log else "linear")
        axes.set_xticks([place + 0.4 - width / 2 for place in range(len(labels))], labels)
        axes.legend(fontsize=8)
    figure.text(0.01, 0.01, under, fontsize=7)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    pyplot.show()
