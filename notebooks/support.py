"""What the measuring notebooks share: a server watched from outside, loads through boto3, and the line under each figure.

CPU time and memory are what the kernel counts (Linux). Sizes of a pass come from `NOTEBOOK_QUICK`: with `1` a notebook only
shows that it runs. `NOTEBOOK_DIRECTORY` is a place on the disk that is to be measured.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
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

from turns import in_threads, in_turn  # noqa: E402, F401 - notebooks have them from here


def size(full: int, quick: int) -> int:
    """`full`, or `quick` in a small pass."""
    return quick if QUICK else full


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """An empty directory on the disk that is measured, which goes at the end."""
    with tempfile.TemporaryDirectory(dir=DIRECTORY, prefix="orcas-notebook-", ignore_cleanup_errors=True) as name:
        yield Path(name)


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


# One colour for whoever appears in several notebooks, which colour-blind people can tell apart; others take what is left.
_COLOURS = {
    "report": "#8c8c8c",
    "Orcas": "#0072b2",
    "Orcas, sync": "#0072b2",
    "Orcas, interval": "#44aa99",
    "Orcas, buffered": "#56b4e9",
    "Orcas, unsafe-none": "#332288",
    "a file each": "#d55e00",
    "boto3": "#e69f00",
    "moto": "#aa4499",
    "MiniStack": "#cc79a7",
    "SeaweedFS": "#009e73",
    "versitygw": "#999933",
    "goal": "#000000",
}
_OTHERS = ("#0072b2", "#e69f00", "#009e73", "#aa4499", "#56b4e9", "#d55e00", "#332288", "#999933", "#cc79a7", "#44aa99")
# Read at half its size, a figure still has letters of six points.
_POINTS, _POINTS_BELOW, _WIDTH_INCHES, _BELOW_CHARACTERS, _LEGEND_CHARACTERS = 14, 12, 11, 118, 84


def _colours(labels: Iterable[str]) -> dict[str, str]:
    """The colour of each label: that of the longest name that it begins with, unless another label has it by then."""
    given: dict[str, str] = {}
    rest = []
    for label in labels:
        named = [_COLOURS[name] for name in sorted(_COLOURS, key=len, reverse=True) if label.startswith(name)]
        if named and named[0] not in given.values():
            given[label] = named[0]
        else:
            rest.append(label)
    for label in rest:
        free = [colour for colour in _OTHERS if colour not in given.values()]
        given[label] = free[0] if free else _OTHERS[len(given) % len(_OTHERS)]
    return given


def _columns(labels: Iterable[str]) -> int:
    """Of a legend that is no wider than its plot: what all of its columns take is that of the widest."""
    labels = list(labels)
    fits = max(1, _LEGEND_CHARACTERS // (max(map(len, labels), default=0) + 6))
    return 2 if len(labels) == 4 and fits == 3 else min(3, fits, max(1, len(labels)))


def _reach(value: Any) -> tuple[float, float, float]:
    """Where a value stands, and from where to where it reaches."""
    if isinstance(value, Ratio):
        known = value.low is not None and value.high is not None and not QUICK
        return (value.ratio, value.low, value.high) if known else (value.ratio,) * 3  # type: ignore[return-value]
    if isinstance(value, list):
        return statistics.median(value), min(value), max(value)
    return (float(value),) * 3


def plot(
    titles: dict[str, dict[str, list[Any]]],
    labels: list[str],
    under: str,
    *,
    log: bool = False,
    stacked: bool = False,
) -> None:
    """One plot below the other, each with a row for each label and the stamp at the foot.

    Ratios and logarithmic axes get dots, whose lines show the interval; amounts that begin at 0 get bars.

    Args:
        titles: for each plot, `title | what its axis shows, unit`, and in it for each series a value a row. A list of
            samples is shown as its median, from the least to the most; a `Ratio` with its interval; None is left out,
            and so is a row that no series has. A unit with `÷` makes a plot of ratios, with a line at 1.
        labels: of the rows.
        under: what `stamp` said.
        log: whether values stand on a logarithmic axis.
        stacked: whether a row is one bar of pieces.
    """
    if not importlib.util.find_spec("matplotlib"):
        print("No plot: `pip install matplotlib` brings it.")
        return
    from matplotlib import pyplot

    # Rows that somebody has, and series that have something.
    kept = {
        title: (
            [at for at in range(len(labels)) if any(values[at] is not None for values in series.values())],
            {name: values for name, values in series.items() if any(value is not None for value in values)},
        )
        for title, series in titles.items()
    }
    lines = [line for long in under.splitlines() for line in textwrap.wrap(long, _BELOW_CHARACTERS)]
    heights = [1.9 + len(rows) * max(0.42, 0.3 * (1 if stacked else len(series))) for rows, series in kept.values()]
    foot = 0.2 + 0.22 * len(lines)
    with pyplot.rc_context({"font.size": _POINTS, "axes.titlesize": _POINTS + 1}):
        figure = pyplot.figure(figsize=(_WIDTH_INCHES, sum(heights) + foot), layout="constrained")
        body, below = figure.subfigures(2, 1, height_ratios=[sum(heights), foot])
        places = body.subplots(len(kept), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, (rows, series)) in zip(places, kept.items(), strict=True):
            heading, _, unit = title.partition(" | ")
            ratios = "÷" in unit
            _draw(axes, rows, series, log=log, stacked=stacked, ratios=ratios)
            axes.set_title(
                "\n".join(textwrap.wrap(heading, 88)),
                loc="left",
                pad=12 + 22 * -(-len(series) // _columns(series)),
            )
            axes.set_xlabel(f"{unit} (logarithmic)" if log else unit)
            axes.set_yticks(range(len(rows)), [labels[at] for at in rows])
        below.text(0.01, 0.9, "\n".join(lines), fontsize=_POINTS_BELOW, va="top")
        pyplot.show()


def _draw(axes: Any, rows: list[int], series: dict[str, list[Any]], *, log: bool, stacked: bool, ratios: bool) -> None:
    """The series of one plot, its line at 1, its grid, and its legend above it."""
    colours, wide = _colours(series), 0.8 if stacked else 0.8 / max(1, len(series))
    ends = [0.0] * len(rows)
    for number, (name, values) in enumerate(series.items()):
        shown = [(at, _reach(values[row])) for at, row in enumerate(rows) if values[row] is not None]
        middles = [at if stacked else at - 0.4 + (number + 0.5) * wide for at, _ in shown]
        values_at = [value for _, (value, _, _) in shown]
        reach = [[value - low for _, (value, low, _) in shown], [high - value for _, (value, _, high) in shown]]
        look = {"color": colours[name], "label": name}
        if log or ratios:
            axes.errorbar(values_at, middles, xerr=reach, fmt="o", markersize=8, capsize=4, linewidth=2, **look)
        else:
            lefts = [ends[at] if stacked else 0.0 for at, _ in shown]
            axes.barh(middles, values_at, wide, left=lefts, xerr=None if stacked else reach, capsize=4, **look)
        for at, (value, _, _) in shown:
            ends[at] += value
    if log:
        from matplotlib.ticker import LogFormatter

        class Between(LogFormatter):  # type: ignore[misc]
            """Numbers between powers of ten, only where there are few of these."""

            def __call__(self, x: float, pos: Any = None) -> str:
                return f"{x:,.9g}" if super().__call__(x, pos) else ""

        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(Between(minor_thresholds=(1.5, 0.5)))
    axes.xaxis.set_major_formatter("{x:,.9g}")
    if ratios:
        axes.axvline(1, color="black", linewidth=1.2)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd")
    # Between rows, so that the eye does not take a dot for its neighbour's.
    for at in range(1, len(rows)):
        axes.axhline(at - 0.5, color="#eeeeee", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=_columns(series), frameon=False, fontsize=_POINTS - 2)


def interval(found: Ratio, digits: int = 3) -> str:
    """A ratio and its 95 % interval, which means nothing in a small pass."""
    span = "" if QUICK or found.low is None else f" ({found.low:.{digits}f}–{found.high:.{digits}f})"
    return f"{found.ratio:.{digits}f}{span}"
