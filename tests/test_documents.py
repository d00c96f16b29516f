"""The documents and the code: lines and links, and that the walkthrough names every thread and lock that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fixtures.sources import PACKAGE, PAGES, PYTHON, ROOT, RUST, relative, without_tests

from orcas.settings.clients import client_environment

LINE_LENGTH_MAX = 120
ROW_LENGTH_MAX = 300


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_lines_of_documents_are_short(path: Path) -> None:
    """Rows of tables cannot be wrapped, and neither can code."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for line in text.splitlines():
        limit = ROW_LENGTH_MAX if line.startswith("|") else LINE_LENGTH_MAX
        assert len(line) <= limit or line.startswith("    ") or " " not in line, line


def test_links_between_documented_pages_hold() -> None:
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        # Code has no links.
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:\s]+)[^)]*\)", text):
            assert (path.parent / target).exists(), f"{relative(path)} links to {target}"


def test_variables_of_clients_in_documents_are_those_of_orcas_env() -> None:
    """Commands to copy would otherwise run with an empty variable."""
    known = set(client_environment("", "", "", ""))
    for path in PAGES:
        used = set(re.findall(r"\$\{?(AWS_\w+)", path.read_text(encoding="utf-8")))
        assert used <= known, relative(path)


def test_the_functions_of_the_walkthrough_exist() -> None:
    rows = re.findall(r"^\| `([\w/.]+)` \| `(\w+)` \|", (ROOT / "docs" / "walkthrough.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    for name, function in rows:
        path = PACKAGE / name if name.endswith(".py") else ROOT / "rust_core" / "crates" / name
        assert re.search(rf"\b(fn|def) {function}\b", path.read_text(encoding="utf-8")), f"{function} in {name}"


# What a server does not run: the load of `orcas bench`, and the simulated disk.
UNSERVED = {"load", "index_testing", "sim"}


def rust_locks() -> set[tuple[str, str]]:
    """The files and names of all fields and statics that hold a lock, in the code that serves requests."""
    # A parameter has the shape of a field, but borrows the lock.
    lock = re.compile(r"^ *(?:pub(?:\(.*?\))? )?(?:static )?(\w+): (?!&)[^=\n]*?\b(?:Mutex|RwLock|Kept)<", re.MULTILINE)
    wrapper = re.compile(r"struct (\w+)\((?:pub(?:\(.*?\))? )?(?:Mutex|RwLock)<")
    found = set()
    for path in RUST:
        parts = set(path.relative_to(ROOT).parts)
        # The locks of checks and salvage are not taken by requests.
        if {"tests", "check", "salvage", *UNSERVED} & parts or path.stem.endswith("tests"):
            continue
        file = path.relative_to(ROOT / "rust_core").as_posix().removeprefix("crates/")
        code = without_tests(path.read_text(encoding="utf-8"))
        found |= {(file, name) for name in [*lock.findall(code), *wrapper.findall(code)]}
    return found


def test_every_lock_is_documented() -> None:
    found = rust_locks()
    assert len(found) > 50
    text = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    documented = set()
    for cell in re.findall(r"^\| (`\w+[:`].*?\.rs`\).*?) \|", text, re.MULTILINE):
        names, files = re.findall(r"`(?:\w+::)*(\w+)`", cell), re.findall(r"`([\w/]+\.rs)`", cell)
        documented |= {(file, name) for file in files for name in names}
    assert found - documented == set()
    assert documented - found == set()


def thread_names() -> set[str]:
    """The names of threads, but for those that have a part which differs: these are documented in capitals."""
    started = r"(?:\bname=|\bspawn\(|\.name\(|\bstart\(threads, )"
    found = set()
    for path in [*PYTHON, *RUST]:
        found |= set(re.findall(rf'{started}"(orcas-[a-z]+)"', without_tests(path.read_text(encoding="utf-8"))))
    return found


def test_every_thread_is_documented() -> None:
    found = thread_names()
    assert {"orcas-commit", "orcas-io", "orcas-lifecycle", "orcas-log"} <= found
    section = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8").partition("\n## Threads\n")[2]
    documented = re.findall(r"`(orcas-[a-z]+)(?:-N)?`", section.partition("\n## ")[0])
    assert found - set(documented) == set()
