"""Deliberate defects of the Python side, each until the tests that must notice it have: `run.py [NAME]…`.

A defect is a file in `defects/`: a sentence that says what it breaks, texts to replace in a copy of `python/orcas`, and
the tests each of which must fail with that copy and pass without. Those of the engine stand in `planted.rs`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

DEFECTS = Path(__file__).parent / "defects"
_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCE = _REPOSITORY / "python" / "orcas"
# pytest's exit statuses.
_PASSED, _FAILED = 0, 1
_TEST_SECONDS_MAX = 120


class DefectError(Exception):
    """A defect cannot be planted, or is not caught."""


@dataclass(frozen=True)
class Defect:
    """One file of `defects/`."""

    name: str
    breaks: str
    # Path below python/orcas, what stands there exactly once, and what takes its place.
    replacements: tuple[tuple[str, str, str], ...]
    # Ids as pytest takes them.
    tests: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Defect:
        """The defect that a file describes."""
        document = tomllib.loads(path.read_text())
        replacements = tuple((r["file"], r["old"], r["new"]) for r in document["replace"])
        return cls(path.stem, document["breaks"], replacements, tuple(document["tests"]))

    def plant(self, package: Path) -> None:
        """Break the copy of the package in `package`.

        Raises:
            DefectError: the text to replace is not there, or more than once.
        """
        for name, old, new in self.replacements:
            path = package / name
            text = path.read_text()
            if text.count(old) != 1:
                raise DefectError(f"{self.name}: what it replaces stands {text.count(old)} times in {name}, not once")
            path.write_text(text.replace(old, new))


def defects() -> list[Defect]:
    """All of them, by name."""
    return [Defect.read(path) for path in sorted(DEFECTS.glob("*.toml"))]


def copy_package(parent: Path) -> Path:
    """A copy of the package's sources in `parent`, with the extension that is installed."""
    package = parent / "orcas"
    shutil.copytree(_SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    extension = importlib.util.find_spec("orcas._core")
    if extension is None or extension.origin is None:
        raise DefectError("orcas is not installed: run `make install` first")
    (package / Path(extension.origin).name).symlink_to(extension.origin)
    return package


def run_tests(parent: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests with the package in `parent`: pytest's status, and what it said."""
    environment = os.environ | {"PYTHONPATH": str(parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "full or not full",
        f"--timeout={_TEST_SECONDS_MAX}",
        *tests,
    ]
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check(defect: Defect) -> None:
    """Plant one defect and see every one of its tests fail, and pass without it.

    Raises:
        DefectError: one does not.
    """
    with tempfile.TemporaryDirectory(prefix="orcas-planted-") as name:
        parent = Path(name)
        package = copy_package(parent)
        status, said = run_tests(parent, defect.tests)
        if status != _PASSED:
            raise DefectError(f"{defect.name}: its tests do not pass without it:\n{said}")
        defect.plant(package)
        for test in defect.tests:
            status, said = run_tests(parent, (test,))
            if status != _FAILED:
                raise DefectError(f"{defect.name} is not caught by {test}:\n{said}")


def main() -> int:
    """Check the defects named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    known = defects()
    if unknown := set(names) - {defect.name for defect in known}:
        parser.error(f"no such defect: {', '.join(sorted(unknown))}")
    missed = 0
    for defect in known:
        if not names or defect.name in names:
            try:
                check(defect)
            except DefectError as error:
                missed += 1
                sys.stdout.write(f"{error}\n")
            else:
                sys.stdout.write(f"{defect.name}: caught ({defect.breaks})\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
