"""Style rules that run as tests: who may know whom, how long things may be, and what must be documented."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from orcas.config import PREFIX, SETTINGS, Settings, variable_name

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "orcas"
CRATE = ROOT / "rust_core" / "src"

PYTHON = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
RUST = sorted(CRATE.rglob("*.rs"))
SOURCES = [*PYTHON, *TESTS, *RUST]

LINES_MAX = 500
FUNCTION_LINES_MAX = 70
MODULE_DOC_LINES_MAX = 8

# A ratchet: files that are longer, at the length they have. Numbers go down, and new names need a reason.
LONGER: dict[str, int] = {}

# Which module of the crate may name which. `python` joins them all; `log` and `index` never meet below `engine`.
RUST_ARROWS: dict[str, set[str]] = {
    "error": set(),
    "http": set(),
    "sync": set(),
    "planted": set(),
    "block": {"error"},
    "buffers": set(),
    "calendar": set(),
    "checksum": {"http"},
    "chunker": {"chunks"},
    "filter": set(),
    "fs": {"error", "sync", "planted"},
    "record": {"checksum", "error"},
    "decide": {"record", "checksum", "error"},
    "log": {"block", "buffers", "fs", "record", "checksum", "error", "sync", "planted"},
    "chunks": {"block", "fs", "record", "checksum", "error", "sync", "planted"},
    "index": {"record", "checksum", "error", "sync", "planted"},
    "s3": {"http", "block", "calendar", "checksum"},
    "sigv4": {"http", "calendar", "checksum"},
    "engine": {
        "log",
        "chunks",
        "chunker",
        "filter",
        "index",
        "decide",
        "block",
        "buffers",
        "fs",
        "record",
        "checksum",
        "error",
        "sync",
        "planted",
    },
    "load": {"http", "sigv4", "checksum"},
    "transfer": {"engine", "buffers", "decide", "s3", "sigv4", "http", "record", "checksum", "error"},
}

# What only these parts of the crate may name: the Python binding, SQLite, the file system.
# The files of the index are SQLite's, and so is its way to them.
RUST_SOLE_USERS = {
    "pyo3": {"python"},
    "rusqlite": {"index"},
    "std::fs": {"fs", "index"},
    "PathBuf::canonicalize": {"fs"},
}

# What only test suites read.
SUITE_VARIABLES = {
    "ORCAS_CRASH_SEED", "ORCAS_CRASH_STOP", "ORCAS_FLIPS", "ORCAS_PLANTED", "ORCAS_RACES_SEED", "ORCAS_SALVAGE",
    "ORCAS_SALVAGE_SEED",
}  # fmt: skip

CORE_USERS = {"edge.py", "store.py"}
ENVIRONMENT_USERS = {"config.py", "clients.py"}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rust_module(path: Path) -> str:
    """The module of the crate that a file belongs to: `log` for `log/writer.rs` and for `log.rs`."""
    return path.relative_to(CRATE).parts[0].removesuffix(".rs")


def rust_code(path: Path) -> str:
    """The file without comments and without its tests."""
    if path.stem.startswith("test") or path.stem.endswith("tests") or "tests" in path.parts:
        return ""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod ")[0]
    return re.sub(r"//[^\n]*", "", text)


def rust_names(code: str) -> set[str]:
    """Modules of the crate that the code names, `crate::{a, b}` included."""
    names = set(re.findall(r"\bcrate::([a-z0-9_]+)", code))
    for group in re.findall(r"\bcrate::\{([^;]*)\}\s*;", code):
        depth = 0
        for token in re.findall(r"[{},]|[a-zA-Z0-9_]+", "," + group):
            if token in "{}":
                depth += 1 if token == "{" else -1
            elif token != "," and depth == 0 and re.search(rf"(^|[,\s]){token}\s*(::|,|$)", group):
                names.add(token)
    return names


def test_the_name_scanner_sees_groups() -> None:
    assert rust_names("use crate::fs::File;\nuse crate::{error::{Error, Result}, log};") == {"fs", "error", "log"}


@pytest.mark.parametrize("path", RUST, ids=relative)
def test_rust_arrows(path: Path) -> None:
    module = rust_module(path)
    if module in {"lib", "python"}:
        return
    assert module in RUST_ARROWS, f"{module} is new: give it its arrows"
    named = {
        name for name in rust_names(rust_code(path)) if (CRATE / name).is_dir() or (CRATE / f"{name}.rs").is_file()
    }
    assert named - {module} <= RUST_ARROWS[module]


@pytest.mark.parametrize("path", RUST, ids=relative)
def test_sole_users(path: Path) -> None:
    for name, users in RUST_SOLE_USERS.items():
        if rust_module(path) not in users:
            assert not re.search(rf"\b{name}\b", rust_code(path)), f"only {users} may use {name}"


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_python_sole_users(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        if any(name == "orcas._core" or name.startswith("orcas._core.") for name in names):
            assert path.name in CORE_USERS, "only edge and store know the extension"
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "putenv"}:
            assert path.name in ENVIRONMENT_USERS, "settings come from orcas.config"


def python_module(path: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: set[str]) -> set[str]:
    """Which of `modules` a file imports, wherever in it and for whatever: also in functions and for types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} imports by a relative name"
            module = node.module or ""
            named = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else module for name in named} & modules
    return found


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Names along a cycle, the first one again at the end; empty where there is none."""
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for target in sorted(arrows[name]):
            if found := follow(target, [*way, name]):
                return found
        done.add(name)
        return []

    for name in arrows:
        if found := follow(name, []):
            return found
    return []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"d", "c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]


def test_no_files_import_each_other_in_a_circle() -> None:
    modules = {python_module(path): path for path in PYTHON}
    arrows = {name: imported(path, set(modules)) - {name} for name, path in modules.items()}
    assert sum(map(len, arrows.values())) > len(modules)
    assert circle(arrows) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(relative(path), LINES_MAX)


def test_the_ratchet_holds_only_what_is_long() -> None:
    for name, lines in LONGER.items():
        assert (ROOT / name).is_file()
        assert lines > LINES_MAX


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_python_functions_are_short_and_documented(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES_MAX, node.name
    for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        for node in owner.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith(
                "_"
            ):
                overrides = isinstance(owner, ast.ClassDef) and owner.bases and path.name == "protocol.py"
                assert ast.get_docstring(node) or overrides, f"{node.name} is public and undocumented"


@pytest.mark.parametrize("path", [*PYTHON, *RUST], ids=relative)
def test_modules_say_what_they_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        limit = 20 if path.name in {"errors.py", "__init__.py"} else MODULE_DOC_LINES_MAX  # trees and examples
    else:
        lines = [line for line in text.splitlines() if line.startswith("//!")]
        limit = MODULE_DOC_LINES_MAX
        assert text.startswith("//!") or path.stem.startswith("test") or "tests" in path.parts
    if "tests" not in path.parts and not path.stem.startswith("test"):
        assert 0 < len(lines) <= limit


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert not UNFINISHED.search(path.read_text(encoding="utf-8"))
    assert "unimplemented!(" not in path.read_text(encoding="utf-8").replace('"unimplemented!("', "")


def test_every_setting_is_documented_as_it_is() -> None:
    document = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(ORCAS_[A-Z0-9_]+)` \| (.*) \|$", document, re.MULTILINE))
    assert set(rows) == {variable_name(name) for name, setting in SETTINGS.items() if setting.variable}
    for field in dataclasses.fields(Settings):
        setting = SETTINGS[field.name]
        if not setting.variable:
            assert f"`--{field.name}`" in document
            continue
        default, bounds, meaning = rows[variable_name(field.name)].split(" | ")
        assert meaning == setting.doc
        if isinstance(field.default, (int, float, str)):
            shown = str(field.default).lower() if isinstance(field.default, bool) else f"{field.default:g}" if (
                isinstance(field.default, float)) else str(field.default)  # fmt: skip
            assert default == f"`{shown}`"
        if setting.low is not None:
            assert bounds == f"{setting.low} to {setting.high} {setting.unit}".strip()
        for choice in setting.choices:
            assert f"`{choice}`" in bounds


def test_no_other_setting_is_documented() -> None:
    known = {variable_name(name) for name, setting in SETTINGS.items() if setting.variable}
    known |= {f"{name}_FILE" for name in known if "ROOT" in name}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]*[A-Z0-9]\b", path.read_text(encoding="utf-8")))
        if path.name == "reliability.md":
            named -= SUITE_VARIABLES
        assert named <= known, relative(path)


def logged_messages() -> dict[str, str]:
    """What the server logs at INFO and above, and where: the formats of all calls on a logger named `log`."""
    found: dict[str, str] = {}
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "log"):
                continue
            if node.func.attr in {"info", "warning", "error", "exception", "critical", "log"}:
                message = node.args[1] if node.func.attr == "log" else node.args[0]
                texts = [part.value for part in ast.walk(message) if isinstance(part, ast.Constant)]
                found |= {text: relative(path) for text in texts if isinstance(text, str)}
    return found


def test_every_line_of_the_log_is_documented() -> None:
    def shape(text: str) -> str:
        """What is filled in stands in capitals in the document."""
        return re.sub(r"%[a-z]|\b[A-Z]{2,}\b", "%", text)

    document = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    lines = {shape(line) for _, line in re.findall(r"^\| (`+)(.+?)\1 \|", document, re.MULTILINE)}
    messages = logged_messages()
    assert len(messages) > 10
    for message, place in messages.items():
        assert shape(message) in lines, f"{place} logs {message!r}: say in docs/operations.md what it means"


def test_links_between_documented_pages_hold() -> None:
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        # What stands in code is no link.
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:\s]+)[^)]*\)", text):
            assert (path.parent / target).exists(), f"{relative(path)} links to {target}"


def test_the_documented_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bmake ([a-z]+)\b(?=[ `])", text)) <= targets
        for section in re.findall(r"\.ci/run ([a-z]+)", text):
            assert re.search(rf"^    {section}\)", script, re.MULTILINE)


def test_versions_agree() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    needed = cargo["workspace"]["package"]["rust-version"]
    assert f"cargo {needed} or later" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f">= {needed}" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    minor = re.search(r'UVICORN_MINOR: Final = "(.*)"', (PACKAGE / "serve.py").read_text(encoding="utf-8"))
    assert minor is not None
    assert f"uvicorn=={minor[1]}*" in project["dependencies"]


def test_every_public_name_exists() -> None:
    import orcas

    for name in orcas.__all__:
        assert getattr(orcas, name).__doc__
