"""Instruction counts of hot paths: `python benchmarks/instructions.py [--accept] [--against COMMIT] [--json FILE]`.

Needs cargo and valgrind. Fails when a path costs more instructions than benchmarks/instructions.toml allows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import limits
import trees
from limits import Counts, Limits

_LIMITS = Path(__file__).with_name("instructions.toml")
_TOLERANCE_PERCENT = 2.0
# The dependencies as the tests build them, so that CI has them already. Our crates as in a release, without the
# assertions of the tests, and each in one codegen unit: the division into several changes with unrelated code.
_PROFILE = "ci"
_CRATE = {"opt-level": "3", "codegen-units": "1", "debug-assertions": "false", "overflow-checks": "false"}
BENCH = "instructions"


def main() -> int:
    """Count, compare, and print what to do."""
    arguments = _parser().parse_args()
    if shutil.which("valgrind") is None:
        print("Instructions cannot be counted: valgrind is not installed.", file=sys.stderr)
        return 2
    counts = _count_tree(trees.REPOSITORY)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"commit": trees.describe(trees.REPOSITORY), **vars(counts)}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.against:
        base = _count_tree(trees.worktree("base", arguments.against))
        return _report(Limits(_TOLERANCE_PERCENT, base), counts, arguments.against)
    known = limits.read(_LIMITS.read_text()) if _LIMITS.exists() else None
    if arguments.accept:
        tolerance = known.tolerance_percent if known else _TOLERANCE_PERCENT
        _LIMITS.write_text(limits.write(Limits(tolerance, counts)))
        print(f"{_LIMITS.name} has these counts now.")
        return 0
    if known is None:
        print(f"There are no limits: {limits.ACCEPT}", file=sys.stderr)
        return 2
    differences = limits.unlike(known.expected, counts)
    if differences:
        print(f"Not comparable, so nothing is judged: {'; '.join(differences)}.")
        print("Two commits are compared with the same tools by `python benchmarks/instructions.py --against COMMIT`.")
        return 0
    return _report(known, counts, _LIMITS.name)


def count(executable: Path, tree: Path) -> Counts:
    """Runs the benchmark of a checkout under callgrind."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "counts"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        # If two options have the same pattern, callgrind keeps only one.
        command += ["--toggle-collect=instructions::measured", "--dump-after=*::measured", str(executable)]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{executable.name} under callgrind ended with {done.returncode}: {done.stderr}")
        features, paths = limits.parse_paths(done.stdout)
        # One file for each return of `measured`, and a last one without a number for the rest.
        files = sorted(Path(name).glob("counts.*"), key=lambda file: int(file.suffix[1:]))
        totals = [
            int(found) for file in files for found in re.findall(r"^totals: (\d+)", file.read_text(), re.MULTILINE)
        ]
    return Counts(_circumstances(features), limits.per_call(paths, totals))


def _count_tree(tree: Path) -> Counts:
    options = []
    for crate in trees.crates(tree):
        for name, value in _CRATE.items():
            options += ["--config", f"profile.{_PROFILE}.package.{crate}.{name}={value}"]
    # Incremental builds cut a crate as it was edited.
    return count(trees.benches(tree, [BENCH], _PROFILE, *options, CARGO_INCREMENTAL="0")[BENCH], tree)


def _circumstances(features: str) -> dict[str, str]:
    def said(*command: str) -> str:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    return {
        "rustc": f"{said('rustc', '--version')} {os.environ.get('RUSTFLAGS', '')}".strip(),
        "processor": f"{platform.machine()} {features}".strip(),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": said("valgrind", "--version"),
    }


def _report(known: Limits, counts: Counts, what: str) -> int:
    deviations = limits.judge(known, counts)
    for path, found in counts.instructions.items():
        expected = known.expected.instructions.get(path)
        change = f"{100 * (found / expected - 1):+.2f} %" if expected else "new"
        print(f"{path:<28} {found:>14,.1f} {change:>10}")
    for deviation in deviations:
        print(f"{'TOO MANY' if deviation.failed else 'fewer'}: {deviation}")
    if any(deviation.failed for deviation in deviations):
        print(f"More than {known.tolerance_percent:g} % above {what}. If the change is worth it: {limits.ACCEPT}")
        return 1
    print(f"No path costs more than {what} allows." + (f" Keep what was gained: {limits.ACCEPT}" if deviations else ""))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Count the instructions of hot paths and hold them to their limits.")
    parser.add_argument("--accept", action="store_true", help="write what is counted to instructions.toml")
    parser.add_argument("--against", metavar="COMMIT", help="compare with what a commit costs, built and counted here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
