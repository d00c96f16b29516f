"""Compares two commits on this machine, alternating in every round: `python benchmarks/compare.py [BASE [HEAD]]`.

Needs Orcas with the extra `bench`, and cargo. HEAD defaults to the working tree, BASE to `trees.earlier`. Exits with 3
and the reason if nothing was compared because BASE does not exist, cannot be built or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import instructions
import limits
import load
import trees
from comparison import Comparison, table
from figures import Plan
from processes import UNSCRUBBED, Orcas, scratch
from run import circumstances
from small import cpu_per_request, make_bucket, unique

# Objects of each size. They are read in an order in which neither memory nor the index has them.
_KEYS, _QUICK_KEYS, _STRIDE = 10_000, 1000, 7919
_MIDDLE_BYTES = 64 << 10
_LARGE_BYTES = 10 << 20
_BUFFER_BYTES = 1 << 20
# Exit codes.
_HEAD_FAILS = 1
_WRONG = 2
_NOTHING_COMPARED = 3
_Made = TypeVar("_Made")


class SideError(Exception):
    """One of the two commits cannot be built, or its server fails."""

    def __init__(self, side: Side, error: Exception) -> None:
        super().__init__(f"{side.name} ({trees.describe(side.tree)[:12]}) fails: {error}")
        self.side = side


@contextmanager
def _answerable(side: Side) -> Iterator[None]:
    """Attribute every failure to this side."""
    try:
        yield
    except (subprocess.CalledProcessError, RuntimeError, OSError, load.UnexpectedResponseError) as error:
        raise SideError(side, error) from error


@dataclass(frozen=True)
class Side:
    """One of the two commits, its checkout, and the cargo profile with which it is built there."""

    name: str
    tree: Path
    profile: str
    # The installed package was already built from this checkout.
    installed: bool = False

    def package(self) -> Path | None:
        """The directory of the Python package without its dependencies; None if it is installed."""
        if self.installed:
            return None
        target = trees.REPOSITORY / "target" / "compare" / f"{self.name}-package"
        trees.package(self.tree, self.profile, target)
        return target

    def suites(self) -> dict[str, Path]:
        """The executables of its Criterion suites."""
        sources = sorted((self.tree / "rust_core" / "benches").glob("*.rs"))
        names = [source.stem for source in sources if "use criterion" in source.read_text()]
        return trees.benches(self.tree, names, self.profile)

    def has_paths(self) -> bool:
        """Whether the commit has the benchmark whose instructions are counted."""
        return (self.tree / "rust_core" / "benches" / f"{instructions.BENCH}.rs").exists()

    def paths(self) -> Path:
        """The executable of that benchmark."""
        return trees.benches(self.tree, [instructions.BENCH], self.profile)[instructions.BENCH]


class Subject:
    """A server of one side, and the requests that measure it. Costs are per request."""

    def __init__(self, package: Path | None, data: Path, keys: int) -> None:
        # The side's package takes precedence over the installed one; both sides use the same dependencies.
        self._orcas = Orcas(data, settings=UNSCRUBBED | ({"PYTHONPATH": str(package)} if package else {}))
        self._keys, self._written, self._uploaded = keys, 0, 0
        self._buffer = bytearray(_BUFFER_BYTES)

    def __enter__(self) -> Subject:
        with ExitStack() as stack:
            stack.push(self)
            for bucket in ("small", "middle", "new", "large"):
                make_bucket(self._orcas, bucket)
            signer, numbers = self._orcas.signer(), range(self._keys)
            load.run(self._orcas.address, (signer.put(f"/small/{n:016x}", unique(n)) for n in numbers))
            middle = (signer.put(f"/middle/{n:016x}", unique(n, _MIDDLE_BYTES)) for n in numbers)
            load.run(self._orcas.address, middle)
            self._upload()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._orcas.stop()

    def get(self, bucket: str, *, presigned: bool = False) -> float:
        """GET of each object of a bucket: microseconds of CPU."""
        signer = self._orcas.signer()
        sign = partial(signer.presigned, "GET") if presigned else signer.get
        numbers = (n * _STRIDE % self._keys for n in range(self._keys))
        return cpu_per_request(self._orcas, [sign(f"/{bucket}/{n:016x}") for n in numbers])

    def put_small(self, *, presigned: bool = False) -> float:
        """PUT of 1 KiB with a new key that no other is like: microseconds of CPU."""
        signer, numbers = self._orcas.signer(), range(self._written, self._written + self._keys)
        self._written += self._keys
        sign = partial(signer.presigned, "PUT") if presigned else signer.put
        return cpu_per_request(self._orcas, [sign(f"/new/{n:016x}", unique(n)) for n in numbers])

    def list_page(self) -> float:
        """A page of 1,000 keys: microseconds of CPU."""
        page = self._orcas.signer().get("/small", {"list-type": "2", "max-keys": "1000"})
        return cpu_per_request(self._orcas, [page] * (self._keys // 100))

    def get_large(self) -> float:
        """GET of 10 MiB: microseconds of CPU."""
        request = self._orcas.signer().get("/large/0")

        def download() -> None:
            with load.connect(self._orcas.address) as connected:
                load.download(connected, request, self._buffer)

        return self._cpu(download)

    def put_large(self) -> float:
        """PUT of 10 MiB that no other is like: microseconds of CPU."""
        return self._cpu(self._upload)

    def _cpu(self, once: Callable[[], None]) -> float:
        calls = self._keys // 1000
        self._orcas.settle()
        before = self._orcas.cpu_ns()
        for _ in range(calls):
            once()
        self._orcas.settle()
        return (self._orcas.cpu_ns() - before) / calls / 1000

    def _upload(self) -> None:
        # A key of its own: what it would replace is reclaimed at some later time, and caches are cleared then.
        head = self._orcas.signer().put_head(f"/large/{self._uploaded}", _LARGE_BYTES)
        self._uploaded += 1
        load.upload(self._orcas.address, head, _LARGE_BYTES)


_ASKED: dict[str, Callable[[Subject], float]] = {
    "get-1kib-cpu": lambda subject: subject.get("small"),
    "put-1kib-cpu": Subject.put_small,
    "get-64kib-cpu": lambda subject: subject.get("middle"),
    "presigned-get-1kib-cpu": lambda subject: subject.get("small", presigned=True),
    "presigned-put-1kib-cpu": lambda subject: subject.put_small(presigned=True),
    "presigned-get-64kib-cpu": lambda subject: subject.get("middle", presigned=True),
    "list-1000-cpu": Subject.list_page,
    "get-10mib-cpu": Subject.get_large,
    "put-10mib-cpu": Subject.put_large,
}


def _in_turn(sides: tuple[Side, Side], round_number: int) -> tuple[Side, ...]:
    """The order of both sides alternates between rounds."""
    return sides if round_number % 2 == 0 else sides[::-1]


def _of_each(sides: tuple[Side, Side], make: Callable[[Side], _Made]) -> dict[str, _Made]:
    """By the name of the side. HEAD is built first: failures of both count for it, and BASE reuses its dependencies."""
    made: dict[str, _Made] = {}
    for side in reversed(sides):
        with _answerable(side):
            made[side.name] = make(side)
    return made


def servers(sides: tuple[Side, Side], plan: Plan, rounds: int) -> list[Comparison]:
    """The server's CPU time for each of `_ASKED`."""
    packages = _of_each(sides, Side.package)
    costs: dict[str, dict[str, list[float]]] = {name: {side.name: [] for side in sides} for name in _ASKED}
    with scratch(plan.directory) as directory, ExitStack() as stack:

        def start(side: Side) -> Subject:
            subject = Subject(packages[side.name], directory / side.name, plan.size(_KEYS, _QUICK_KEYS))
            return stack.enter_context(subject)

        subjects = _of_each(sides, start)
        # The round before the first one makes files and fills caches.
        for round_number in range(-1, rounds):
            for name, ask in _ASKED.items():
                for side in _in_turn(sides, round_number):
                    with _answerable(side):
                        cost = ask(subjects[side.name])
                    if round_number >= 0:
                        costs[name][side.name].append(cost)
    return [Comparison(name, "µs", cost["base"], cost["head"]) for name, cost in costs.items()]


def criterion(sides: tuple[Side, Side], plan: Plan, rounds: int) -> list[Comparison]:
    """The medians of the Criterion suites that both sides have, saved as the baselines `base` and `head`."""
    seconds = plan.size(5, 1) / 10
    options = ["--bench", "--noplot", "--quiet", "--warm-up-time", str(seconds), "--measurement-time", str(2 * seconds)]
    options += ["--sample-size", str(plan.size(50, 10))]
    costs: dict[str, dict[str, list[float]]] = {}
    suites = _of_each(sides, Side.suites)
    names = [name for name in suites["base"] if name in suites["head"]]
    home = trees.REPOSITORY / "target" / "compare" / "criterion"
    shutil.rmtree(home, ignore_errors=True)
    for round_number in range(rounds):
        for name in names:
            for side in _in_turn(sides, round_number):
                # Criterion's own comparison would end at the first figure that one side lacks, so both are only saved.
                command = [str(suites[side.name][name]), *options, "--save-baseline", side.name]
                with _answerable(side):
                    _suite(command, side.tree, home / name)
                for figure, cost in _medians(home / name, side.name).items():
                    costs.setdefault(f"{name}: {figure}", {}).setdefault(side.name, []).append(cost)
    both = {name: cost for name, cost in costs.items() if len(cost) == len(sides)}
    return [Comparison(name, "ns", cost["base"], cost["head"]) for name, cost in both.items()]


def _suite(command: list[str], tree: Path, home: Path) -> None:
    """Runs a suite and hides its output: Criterion prints three lines of progress for each figure."""
    environment = os.environ | {"CRITERION_HOME": str(home)}
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr[-1000:].strip()}")


def _medians(home: Path, baseline: str) -> dict[str, float]:
    """The nanoseconds of each figure that a suite saved under this name."""
    medians = {}
    for found in sorted(home.glob(f"**/{baseline}/estimates.json")):
        named = json.loads((found.parent / "benchmark.json").read_text())
        medians[named["full_id"]] = json.loads(found.read_text())["median"]["point_estimate"]
    return medians


def counted(sides: tuple[Side, Side]) -> list[Comparison]:
    """Instructions of the paths that both sides have. They hardly vary, so one run is enough."""
    if not all(side.has_paths() for side in sides):
        print("Instructions are not compared: one of the commits has no benchmark for them.", file=sys.stderr)
        return []
    if shutil.which("valgrind") is None:
        print("Instructions are not compared: valgrind is not installed.", file=sys.stderr)
        return []
    executables = _of_each(sides, Side.paths)
    counts = _of_each(sides, lambda side: instructions.count(executables[side.name], side.tree))
    base, head = counts["base"], counts["head"]
    for difference in limits.unlike(base, head):
        print(f"Instructions are not comparable: {difference}", file=sys.stderr)
    both = [path for path in base.instructions if path in head.instructions]
    return [Comparison(path, "", [base.instructions[path]], [head.instructions[path]], counted=True) for path in both]


def main() -> int:
    """Build both, measure, print the tables, and write the JSON file if one is requested."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.installed and arguments.head:
        parser.error("--installed is a build of the working tree, not of HEAD")
    try:
        base = trees.worktree("base", arguments.base or trees.earlier())
    except RuntimeError as error:
        print(f"Not compared: {error}.", file=sys.stderr)
        return _WRONG if arguments.base else _NOTHING_COMPARED
    head = trees.worktree("head", arguments.head) if arguments.head else trees.REPOSITORY
    profile = arguments.cargo_profile
    sides = (Side("base", base, profile), Side("head", head, profile, installed=arguments.installed))
    try:
        document = _measured(sides, arguments)
    except SideError as error:
        print(f"Not compared: {error}.", file=sys.stderr)
        return _NOTHING_COMPARED if error.side.name == "base" else _HEAD_FAILS
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


def _measured(sides: tuple[Side, Side], arguments: argparse.Namespace) -> dict[str, Any]:
    """All requested measurements for the JSON file; prints the tables."""
    plan = Plan(arguments.quick, trees.REPOSITORY / "target" / "benchmarks", trees.REPOSITORY)
    commits = {side.name: trees.describe(side.tree) for side in sides}
    print(f"base {trees.git('log', '-1', '--format=%h %s', tree=sides[0].tree)}\nhead {commits['head']}", flush=True)
    document: dict[str, Any] = {"commits": commits, "circumstances": circumstances(plan, arguments.cargo_profile)}
    measurements: dict[str, Callable[[], list[Comparison]]] = {
        "servers": lambda: servers(sides, plan, arguments.rounds),
        "criterion": lambda: criterion(sides, plan, arguments.rounds),
        "instructions": lambda: counted(sides),
    }
    for name in arguments.only or measurements:
        compared = measurements[name]()
        document[name] = [one.document() for one in compared]
        if compared:
            print(f"\n{table(compared)}", flush=True)
    if arguments.quick:
        print("A quick pass shows that both run, not which is cheaper.")
    document["circumstances"]["load_after"] = os.getloadavg()
    return document


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Build two commits and measure them in turn on this machine.")
    parser.add_argument("base", nargs="?", help="the commit to compare with (default: that of the newest figures)")
    parser.add_argument("head", nargs="?", help="another commit (default: the working tree)")
    parser.add_argument("--only", action="append", choices=("servers", "criterion", "instructions"))
    parser.add_argument("--rounds", type=int, default=10, help="of servers and suites (default: 10)")
    parser.add_argument("--quick", action="store_true", help="a small pass that shows that everything runs")
    parser.add_argument("--cargo-profile", default="release", metavar="NAME", help="of both builds (default: release)")
    parser.add_argument(
        "--installed",
        action="store_true",
        help="the Orcas that this Python has installed is the working tree's in that profile: servers need no other build",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds and the circumstances there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
