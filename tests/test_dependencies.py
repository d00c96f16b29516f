"""Other people's crates and packages: deny.toml and .ci/floors.txt, applied without cargo-deny."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
POLICY = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
LICENCES = set(POLICY["licenses"]["allow"])
LOCKED: list[dict[str, Any]] = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]


def requirements(path: Path) -> dict[str, Requirement]:
    """The requirements of a file of pip, by their names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return by_name(line for line in lines if line and not line.startswith("#"))


def by_name(lines: Iterable[str]) -> dict[str, Requirement]:
    return {canonicalize_name(found.name): found for found in map(Requirement, lines)}


def lowest(requirement: Requirement) -> Version:
    """The lowest version that a requirement with a lower bound or a pin allows."""
    return max(Version(found.version.rstrip(".*")) for found in requirement.specifier if found.operator in {">=", "=="})


FLOORS = requirements(ROOT / ".ci" / "floors.txt")


def host() -> str:
    said = subprocess.run(["rustc", "-vV"], capture_output=True, check=True, text=True).stdout
    return said.partition("\nhost: ")[2].split()[0]


def is_allowed(licence: str) -> bool:
    """Whether an SPDX expression leaves a choice of allowed licences. If it has an AND, all that it names must be."""
    named = [name.strip(" ()") for name in re.split(r" OR | AND |/", licence)]
    return (all if " AND " in licence else any)(name in LICENCES for name in named)


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("Unlicense/GPL-2.0-only", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("", False),
    ],
)
def test_licences_are_understood(licence: str, *, allowed: bool) -> None:
    assert is_allowed(licence) is allowed


def test_every_crate_is_from_the_registry_or_from_here() -> None:
    foreign = [package for package in LOCKED if not package["name"].startswith("orcas_")]
    assert len(foreign) > 50
    assert {package.get("source") for package in foreign} == {CRATES_IO}
    assert all(package["checksum"] for package in foreign)


def test_no_other_crate_is_there_twice() -> None:
    versions: dict[str, set[str]] = collections.defaultdict(set)
    for package in LOCKED:
        versions[package["name"]].add(package["version"])
    skipped = dict(entry["crate"].split("@") for entry in POLICY["bans"]["skip"])
    assert {name for name, found in versions.items() if len(found) > 1} == set(skipped)
    assert max(map(len, versions.values())) == 2
    for name, older in skipped.items():
        assert any(version.startswith(f"{older}.") for version in versions[name]), name


def test_no_crate_has_a_version_with_a_known_fault() -> None:
    floors = dict((e if isinstance(e, str) else e["crate"]).split("@<") for e in POLICY["bans"]["deny"])
    used = {package["name"]: package["version"] for package in LOCKED}
    assert {"bytes", "pyo3", "quick-xml"} <= set(floors) & set(used)
    for package in LOCKED:
        floor = floors.get(package["name"])
        assert floor is None or Version(package["version"]) >= Version(floor), package["name"]


def test_licences_of_all_crates_are_allowed() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host()]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    licences = {package["name"]: package["license"] or "" for package in json.loads(said)["packages"]}
    assert len(licences) > 50
    assert {name: licence for name, licence in licences.items() if not is_allowed(licence)} == {}


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-async.txt"])
def test_no_python_package_is_pinned_below_a_known_fault(file: str) -> None:
    pinned = requirements(ROOT / ".ci" / file)
    assert set(pinned) & set(FLOORS)
    assert [name for name in pinned if name in FLOORS and lowest(pinned[name]) < lowest(FLOORS[name])] == []


def test_no_requirement_allows_a_version_with_a_known_fault() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for lines in (project["dependencies"], *project["optional-dependencies"].values()):
        for name, requirement in by_name(lines).items():
            assert name not in FLOORS or lowest(requirement) >= lowest(FLOORS[name]), name
