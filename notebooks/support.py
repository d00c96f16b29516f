"""What the measuring notebooks share: a server watched from outside, loads through boto3, and the line under each figure.

CPU time and memory are what the kernel counts (Linux). Sizes of a pass come from `NOTEBOOK_QUICK`: with `1` a notebook only
shows that it runs. `NOTEBOOK_DIRECTORY` is a place on the disk that is to be measured.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import importlib.util
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from botocore.config import Config

import orcas
from orcas.bench.compare import Ratio

QUICK = os.environ.get("NOTEBOOK_QUICK") == "1"
MIB = 1 << 20
REPOSITORY = Path(__file__).resolve().parents[1]
# The place of a store on the disk that is to be measured; None: where temporary files are.
DIRECTORY = os.environ.get("NOTEBOOK_DIRECTORY")
# Whose modules notebooks import by their names, as the benchmarks do among themselves.
sys.path.append(str(REPOSITORY / "benchmarks"))


def size(full: int, quick: int) -> int:
    """`full`, or `quick` in a small pass."""
    return quick if QUICK else full


class Watched:
    """A server over a directory of its own, which goes with it; `settings` are those of `orcas.Server`."""

    def __init__(self, **settings: object) -> None:
        # Not in memory, which some systems use for temporary files.
        self._directory = tempfile.TemporaryDirectory(
            dir=DIRECTORY, prefix="orcas-notebook-", ignore_cleanup_errors=True
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


def stamp(conditions: str, *, durability: str, concurrency: str) -> str:
    """Moment, machine, commit and versions with the conditions of a measurement: belongs under every figure."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    git = ("git", "-C", str(REPOSITORY))
    # Rendered notebooks are what comes of a commit, not a part of it.
    changed = _said(*git, "status", "--porcelain", "--", ".", ":(exclude)docs/notebooks")
    commit = _said(*git, "rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("orcas-s3", "boto3", "uvicorn"))
    return (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC; {cpus[0].split(': ')[1] if cpus else platform.processor()},"
        f" {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f};"
        f" commit {commit or 'unknown'}; Python {platform.python_version()} {versions}\n"
        f"durability: {durability}; concurrency: {concurrency}\n{conditions}"
        f"{' — A QUICK PASS, NOT A MEASUREMENT' if QUICK else ''}"
    )


def bars(
    titles: dict[str, dict[str, list[Any]]],
    labels: list[str],
    under: str,
    *,
    log: bool = False,
    stacked: bool = False,
) -> None:
    """One plot for each title: groups of bars, `labels` below, the stamp at the foot.

    Args:
        titles: for each plot and each label of its legend a value a group. None is left out; a `Ratio` shows its interval,
            and its plot where 1 is.
        labels: of the groups.
        under: what `stamp` said.
        log: whether values stand on a logarithmic axis.
        stacked: whether a group is one bar of pieces.
    """
    if not importlib.util.find_spec("matplotlib"):
        print("No plot: `pip install matplotlib` brings it.")
        return
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(titles), figsize=(7 * len(titles), 5.5), squeeze=False)
    for axes, (title, series) in zip(places[0], titles.items(), strict=True):
        width = 0.8 if stacked else 0.8 / len(series)
        tops = [0.0] * len(labels)
        for number, (label, values) in enumerate(series.items()):
            shown = [(at, value) for at, value in enumerate(values) if value is not None]
            heights = [value.ratio if isinstance(value, Ratio) else value for _, value in shown]
            middles = [at + 0.4 if stacked else at + (number + 0.5) * width for at, _ in shown]
            bottoms = [tops[at] if stacked else 0 for at, _ in shown]
            axes.bar(middles, heights, width, bottom=bottoms, label=label, yerr=_spans(shown), capsize=2)
            for (at, _), height in zip(shown, heights, strict=True):
                tops[at] += height
        if any(isinstance(value, Ratio) for values in series.values() for value in values):
            axes.axhline(1, color="black", linewidth=0.8)
        axes.set(title=title, yscale="log" if log else "linear")
        if stacked:
            axes.set_ylim(0, 1.05 * max(tops))
        axes.set_xticks([place + 0.4 for place in range(len(labels))], labels)
        axes.legend(fontsize=8)
    # What fits below the plots, in characters.
    lines = [line for long in under.splitlines() for line in textwrap.wrap(long, 125 * len(titles))]
    figure.text(0.01, 0.01, "\n".join(lines), fontsize=7)
    figure.tight_layout(rect=(0, 0.03 + 0.025 * len(lines), 1, 1))
    pyplot.show()


def _spans(shown: list[tuple[int, Any]]) -> list[list[float]] | None:
    """How far the interval of each ratio reaches below and above it; None where there is none to show."""
    if QUICK or not any(isinstance(value, Ratio) and value.low is not None for _, value in shown):
        return None
    ends = [
        (value.ratio - value.low, value.high - value.ratio) if isinstance(value, Ratio) and value.low else (0.0, 0.0)
        for _, value in shown
    ]
    return [[low for low, _ in ends], [high for _, high in ends]]


def interval(found: Ratio, digits: int = 3) -> str:
    """A ratio and its 95 % interval, which means nothing in a small pass."""
    span = "" if QUICK or found.low is None else f" ({found.low:.{digits}f}–{found.high:.{digits}f})"
    return f"{found.ratio:.{digits}f}{span}"
