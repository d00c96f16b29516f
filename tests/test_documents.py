"""The documents and the code: lines and links, and that the walkthrough names every thread and lock that there is."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fixtures.sources import PACKAGE, PAGES, PYTHON, ROOT, RUST, relative, without_tests

from orcas.settings.clients import client_environment
from orcas.settings.config import SETTINGS, Settings

LINE_LENGTH_MAX = 120
ROW_LENGTH_MAX = 300


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_lines_of_documents_are_short(path: Path) -> None:
    """Rows of tables cannot be wrapped, and neither can code."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for line in text.splitlines():
        limit = ROW_LENGTH_MAX if line.startswith("|") else LINE_LENGTH_MAX
        assert len(line) <= limit or line.startswith("    ") or " " not in line, line


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_commands_are_marked_as_commands(path: Path) -> None:
    """The site's button copies commands without their prompts only from blocks of `console`."""
    assert not re.search(r"^ *```(?!console)\w*\n *[$] ", path.read_text(encoding="utf-8"), re.MULTILINE)


def without_code(path: Path) -> str:
    """Code has no links and no titles."""
    return re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@functools.cache
def anchors(path: Path) -> set[str]:
    """The names of the sections of a page, as hosts of git and the site make them."""
    titles = re.findall(r"^#+ (.+)$", without_code(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [*PAGES, *(ROOT / "examples").rglob("*.md")], ids=relative)
def test_links_between_documented_pages_hold(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(<?([^)#:\s>]*)#?([^)\s>:]*)>?\)", without_code(path)):
        page = path.parent / target if target else path
        assert page.exists(), f"{relative(path)} links to {target}"
        if anchor and page.suffix == ".md":
            assert anchor in anchors(page.resolve()), f"{relative(path)} links to {target}#{anchor}"


# Pages to look things up in, and records.
REFERENCE = {
    "CHANGELOG.md", "docs/architecture.md", "docs/benchmarks/figures.md", "docs/cli.md", "docs/configuration.md",
    "docs/format.md", "docs/glossary.md", "docs/messages.md", "docs/metrics.md", "docs/operations/log-engine.md",
    "docs/operations/log.md", "docs/performance/figures.md", "docs/python-api.md", "docs/reliability/planted.md",
    "docs/walkthrough.md",
}  # fmt: skip
WORDS_MAX = 1500
HOW_TO_WORDS_MAX = 600


def menu(entries: list[Any]) -> list[str]:
    """The pages of the site, from first to last."""
    values = [value for entry in entries for value in (entry.values() if isinstance(entry, dict) else [entry])]
    return [page for value in values for page in (menu(value) if isinstance(value, list) else [value])]


MENU = menu(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])


def test_every_page_is_in_the_menu_once() -> None:
    assert len(MENU) == len(set(MENU))
    pages = {relative(path) for path in PAGES if path.parent.name != "adr" or path.name == "README.md"}
    assert set(MENU) == pages | {"examples/README.md"}


@pytest.mark.parametrize("page", MENU)
def test_a_page_of_the_site_is_short_and_leads_on(page: str) -> None:
    text = re.sub(r"<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.search(r"\nNext: \[.+\]\(.+\)\n$", text), "the last line is no link to the next page"
    if page not in REFERENCE:
        assert len(text.rpartition("\nNext:")[0].split()) <= (
            HOW_TO_WORDS_MAX if page.startswith("docs/how-to/") else WORDS_MAX
        )


@pytest.mark.parametrize("page", MENU)
def test_words_for_the_search_are_where_the_site_finds_them(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"`[^`\n]+`", "", text)
    assert text.count("<!-- search") == len(re.findall(r"^#+ .+\n\n<!-- search:\s[^<>]+\s-->\n\n", text, re.MULTILINE))


def test_figures_beside_other_servers_are_the_same_on_both_pages() -> None:
    found = [
        re.findall(r"^\| .+ \|$", text[text.index("| Operations a second |") :].partition("\n\n")[0], re.MULTILINE)
        for text in ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/performance.md"))
    ]
    assert len(found[0]) > 4
    assert found[0] == found[1]


def test_variables_of_clients_in_documents_are_those_of_orcas_env() -> None:
    """Commands to copy would otherwise run with an empty variable."""
    known = set(client_environment("", "", "", ""))
    for path in PAGES:
        used = set(re.findall(r"\$\{?(AWS_\w+)", path.read_text(encoding="utf-8")))
        assert used <= known, relative(path)


# Where paths in documents begin.
PLACES = (PACKAGE, ROOT / "rust_core", ROOT / "rust_core" / "crates", ROOT)


def test_the_functions_of_the_walkthrough_exist() -> None:
    text = (ROOT / "docs" / "walkthrough" / "requests.md").read_text()
    rows = re.findall(r"^\| `([\w/.]+)` \| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    assert len(rows) > 20
    for name, functions in rows:
        (path,) = (place / name for place in PLACES if (place / name).is_file())
        for function in re.findall(r"\w+", functions):
            assert re.search(rf"\b(fn|def) {function}\b", path.read_text(encoding="utf-8")), f"{function} in {name}"


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_files_that_documents_name_exist(path: Path) -> None:
    for name in re.findall(r"`((?:[\w-]+/)+[\w.-]+\.(?:rs|py))\b", path.read_text(encoding="utf-8")):
        assert any((place / name).is_file() for place in PLACES), name


# What a server does not run: the load of `orcas bench`, and the simulated disk.
UNSERVED = {"load", "index_testing", "fs_testing"}


def rust_locks() -> set[tuple[str, str]]:
    """The files and names of all fields and statics that hold a lock, in the code that serves requests."""
    # A parameter has the shape of a field, but borrows the lock.
    lock = re.compile(r"^ *(?:pub(?:\(.*?\))? )?(?:static )?(\w+): (?!&)[^=\n]*?\b(?:Mutex|RwLock|Kept)<", re.MULTILINE)
    wrapper = re.compile(r"struct (\w+)\((?:pub(?:\(.*?\))? )?(?:Mutex|RwLock)<")
    found = set()
    for path in RUST:
        parts = set(path.relative_to(ROOT).parts)
        # The locks of checks and salvage are not taken by requests.
        if {"tests", "fsck", "salvage", *UNSERVED} & parts or path.stem.endswith("tests"):
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
    started = r"(?:\bname=|\bthread_name_prefix=|\bspawn\(|\.name\(|\bstart\(threads, )"
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


# Rows of docs/limits.md, and the constants and settings that their numbers are from, in order.
LIMITS = {
    "object": ["decide/src/limits.rs:OBJECT_SIZE_MAX"],
    "one PutObject, UploadPart, form or copy": ["decide/src/limits.rs:PUT_SIZE_MAX"],
    "part, except the last one": ["decide/src/limits.rs:PART_SIZE_MIN"],
    "parts of an object, appends included": ["decide/src/limits.rs:OBJECT_PARTS_MAX"],
    "key": ["s3/src/requests/target.rs:KEY_LEN_MAX"],
    "user metadata, names and values": ["s3/src/objects/metadata.rs:USER_METADATA_LEN_MAX"],
    "Content-Type and other stored headers together, not of S3": ["s3/src/objects/metadata.rs:SYSTEM_METADATA_LEN_MAX"],
    "tags of an object": ["s3/src/objects/tags.rs:TAGS_MAX"],
    "annotations of a version": [
        "record/src/annotations.rs:ANNOTATIONS_MAX",
        "s3/src/objects/annotations.rs:TEXT_LEN_MAX",
    ],
    "head of a request": ["max_head_size", "front/src/connections/connection.rs:HEADERS_MAX"],
    "keys of one DeleteObjects": ["s3/src/xml/requests.rs:DELETE_LEN_MAX"],
    "entries of one page of a list": ["s3/src/requests/query.rs:PAGE_LEN_MAX"],
    "XML document of a request": ["s3/src/xml/mod.rs:DOCUMENT_LEN_MAX"],
    "fields of an HTML form before its file": ["s3/src/form/mod.rs:FORM_DATA_LEN_MAX"],
    "validity of a presigned URL": ["sigv4/src/lib.rs:PRESIGN_EXPIRES_S_MAX"],
    "buckets": ["decide/src/limits.rs:BUCKETS_MAX"],
    "snapshots of all buckets": ["decide/src/limits.rs:SNAPSHOTS_MAX"],
    "one configuration of a bucket": [
        "s3/src/configuration/documents.rs:CONFIGURATION_LEN_MAX",
        "record/src/document.rs:DOCUMENT_MAX",
    ],
    "all configurations of all buckets": ["decide/src/limits.rs:DOCUMENTS_LEN_MAX"],
    "rules of a bucket: lifecycle": ["s3/src/configuration/lifecycle/mod.rs:RULES_MAX"],
    "rules of a bucket: CORS, notifications": ["s3/src/configuration/cors.rs:RULES_MAX"],
    "keys of the keyring": ["seal/src/keyring/key.rs:KEYS_MAX"],
    "objects in one `orcas move`": ["move_objects_max"],
    "streams of events at a time": ["events_listeners_max"],
    "targets of events": ["targets/file.py:TARGETS_MAX"],
    "jobs of the admin API at a time": ["admin/jobs.py:JOBS_MAX"],
    "body of a request to the admin API": ["admin/guard.py:BODY_MAX"],
    "request bodies in progress": ["body_budget"],
    "writes that the index does not have yet": [
        "engine/src/commit/queue.rs:LAG_BYTES_MAX",
        "engine/src/commit/queue.rs:LAG_RECORDS_MAX",
    ],
}


def number_of(name: str) -> int:
    """The value of a constant in a file, or the default of a setting."""
    if ":" not in name:
        return int(getattr(Settings(data=Path("/nowhere")), name))
    place, constant = name.split(":")
    path = PACKAGE / place if place.endswith(".py") else ROOT / "rust_core" / "crates" / place
    found = re.search(rf"\b{constant}: \w+ = ([\d_ *<]+);?$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, name
    product, _, shift = found[1].partition("<<")
    return math.prod(map(int, product.split("*"))) << int(shift or 0)


def sizes_in(cell: str) -> set[int]:
    """The numbers in a cell of a table, those with a unit in bytes."""
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
    found = re.findall(r"\b(\d[\d,]*)(?: ([KMGT]iB))?", cell)
    return {int(number.replace(",", "")) * units.get(unit, 1) for number, unit in found}


def test_sizes_and_limits_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE))
    for row, names in LIMITS.items():
        assert {number_of(name) for name in names} <= sizes_in(rows[row]), row


def test_chunks_of_a_store_may_be_as_large_as_those_of_a_bucket() -> None:
    assert SETTINGS["chunk_size"].high == number_of("base/src/block.rs:CHUNK_LENGTH_MAX")
