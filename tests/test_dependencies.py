"""The crates of other people that Orcas is built from: where they come from, their licences, and which are there twice."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
WORKSPACES = [ROOT, ROOT / "rust_core" / "fuzz"]
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"

# Licences under which a crate may become a part of the extension.
LICENCES = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC",
    "MIT", "MIT-0", "NCSA", "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip

# Crates in two versions, with who needs the older one. A third version, or another crate, needs a reason.
TWICE = {
    "crypto-common": "crc-fast, through digest 0.10",
    "digest": "crc-fast",
    "getrandom": "ring",
    "rand": "shuttle, for tests",
    "rand_core": "shuttle, for tests",
    "syn": "macros",
    "windows-sys": "ring",
}


def locked(workspace: Path) -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = tomllib.loads((workspace / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    return packages


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


@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda path: path.name)
def test_every_crate_is_from_the_registry_or_from_here(workspace: Path) -> None:
    foreign = [package for package in locked(workspace) if not package["name"].startswith("orcas_")]
    assert len(foreign) > 50
    assert {package.get("source") for package in foreign} == {CRATES_IO}
    assert all(package["checksum"] for package in foreign)


def test_no_other_crate_is_there_twice() -> None:
    versions: dict[str, set[str]] = collections.defaultdict(set)
    for package in locked(ROOT):
        versions[package["name"]].add(package["version"])
    assert {name for name, found in versions.items() if len(found) > 1} == set(TWICE)
    assert max(map(len, versions.values())) == 2


@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda path: path.name)
def test_licences_of_all_crates_are_allowed(workspace: Path) -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host()]
    said = subprocess.run(command, cwd=workspace, capture_output=True, check=True).stdout
    licences = {package["name"]: package["license"] or "" for package in json.loads(said)["packages"]}
    assert len(licences) > 50
    assert {name: licence for name, licence in licences.items() if not is_allowed(licence)} == {}
