"""Style rules that run as tests: what may import what, how long files may be, and what must be documented."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fixtures.sources import CRATES, PACKAGE, PYTHON, ROOT, RUST, SOURCES, relative, without_tests

from orcas.settings.config import OPTIONS, PREFIX, SETTINGS, Settings, variable_name

LINES_MAX = 800
FUNCTION_LINES_MAX = 70
MODULE_DOC_LINES_MAX = 8
TESTS_IN_FOLDER_MAX = 20
FILES_IN_FOLDER_MAX = 15

# A ratchet: longer files with their present lengths. Numbers go down, and new names need a reason.
LONGER: dict[str, int] = {}

# Doc comments that do not begin with their subject. A ratchet as well.
SUBJECTLESS_MAX = 420
SUBJECTLESS = re.compile(r"(It|The same|Those|What|Who)\b")

# Variables that only test suites read.
SUITE_VARIABLES = {
    "ORCAS_CRASH_SEED", "ORCAS_CRASH_STOP", "ORCAS_FLIPS", "ORCAS_LOG_URL", "ORCAS_PLANTED", "ORCAS_RACES_SEED",
    "ORCAS_SALVAGE", "ORCAS_SALVAGE_SEED", "ORCAS_SHARE",
}  # fmt: skip

CORE_USERS = {"cipher.py", "diagnostics.py", "engine.py", "events.py", "store.py", "tracing.py"}
ENVIRONMENT_USERS = {"config.py", "clients.py"}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def python_nodes() -> Iterator[tuple[Path, ast.AST]]:
    """All nodes of all files of the package, with their files."""
    for path in PYTHON:
        for node in ast.walk(tree_of(path)):
            yield path, node


def manifest(crate: Path) -> dict[str, Any]:
    return tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))


def documented_arrows() -> dict[str, set[str]]:
    """The dependencies of each crate, from docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    arrows: dict[str, set[str]] = {}
    for names, targets in re.findall(r"^([a-z0-9_, ]+?) +->(.*)$", text, re.MULTILINE):
        for name in names.split(", "):
            arrows.setdefault(name, set()).update(targets.split())
    return arrows


def test_crates_depend_on_each_other_as_documented() -> None:
    found = {
        crate.name: {name.removeprefix("orcas_") for name in manifest(crate)["dependencies"] if "orcas_" in name}
        for crate in CRATES[1:]
    }
    assert found == documented_arrows()


def test_sole_users_of_what_is_not_ours() -> None:
    users = {name: [c.name for c in CRATES if name in manifest(c)["dependencies"]] for name in ("pyo3", "rusqlite")}
    assert users == {"pyo3": ["rust_core"], "rusqlite": ["index", "index_testing"]}


def test_the_extension_initialises_nothing_lazily() -> None:
    """A thread that waits with the GIL for an initialisation that needs the GIL waits for ever; crates know no Python."""
    for path in (ROOT / "rust_core" / "src").rglob("*.rs"):
        found = re.search(r"\bLazyLock\b|\blazy_static\b|\bstatic \w+: *Once", text_of(path))
        assert found is None, f"{relative(path)}: {found[0] if found else ''} instead of a cell of PyO3"


def test_content_passes_one_module() -> None:
    calls = r"\.(?:(?:try_)?read_content|read_whole)\(|packs\s*\.(?:reserve|read|try_read)\(|ChunkWriter\b"
    engine = ROOT / "rust_core" / "crates" / "engine" / "src"
    found = {
        path.name for path in engine.rglob("*.rs") if "tests" not in path.parts and re.search(calls, text_of(path))
    }
    # Sealed content is written and read by a module of its own, which only `stored.rs` calls.
    assert found == {"sealing.rs", "stored.rs"}


def test_only_those_who_place_bytes_read_locations() -> None:
    users = set()
    for path in RUST:
        code = without_tests(text_of(path))
        if not ("tests" in path.parts or path.stem.endswith("tests")) and re.search(r"\bplacement\b|\bcodec\b", code):
            users.add(path.relative_to(ROOT / "rust_core").parts[1])
    assert users == {"record", "log", "chunks", "index"}


def test_crates_have_the_lints_of_the_workspace() -> None:
    for crate in CRATES:
        assert manifest(crate)["lints"] == {"workspace": True}, crate.name
        forbids = "#![forbid(unsafe_code)]" in text_of(crate / "src" / "lib.rs")
        assert forbids is not any("allow(unsafe_code" in text_of(path) for path in (crate / "src").rglob("*.rs"))


# Rules for each file are one test with a loop: a test for each pair of rule and file took a minute of processor time.
def test_python_sole_users() -> None:
    for path, node in python_nodes():
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        if any(name == "orcas._core" or name.startswith("orcas._core.") for name in names):
            assert path.name in CORE_USERS, f"{relative(path)}: only {CORE_USERS} know the extension"
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "putenv"}:
            assert path.name in ENVIRONMENT_USERS, f"{relative(path)}: settings come from orcas.settings.config"


def python_module(path: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: set[str]) -> set[str]:
    """Which of `modules` a file imports, anywhere in it: also in functions, and for types alone."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} imports by a relative name"
            module = node.module or ""
            named = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else module for name in named} & modules
    return found


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """The names along a cycle, with the first one repeated at the end; empty if there is none."""
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


Module = tuple[str, ...]


def rust_module(path: Path) -> Module:
    """The path of the module of a file below the `src` of its crate; empty for `lib.rs`."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"lib", "mod"} else parts


def test_what_follows_tests_is_code() -> None:
    tests = (
        "mod tests;",
        "use super::a;",
        "use super::{\n    a,\n    b,\n};",
        "#[allow(dead_code)]\nmod tests {\n    fn f() {\n    }\n\n    use super::a;\n}",
        "// A comment;\nfn f() {}",
        "pub fn f(\n    a: u8,\n) -> u8\nwhere\n    u8: Copy,\n{\n    a\n}",
        "field: u8,",
    )
    for item in tests:
        for indentation in ("", "    "):
            hidden = "".join(f"{indentation}{line}\n" for line in ["#[cfg(test)]", *item.split("\n")])
            assert without_tests(f"first\n{hidden}last\n") == "first\nlast\n"


def paths_of_use(tree: str) -> list[str]:
    """The paths that a `use` names, with braces expanded and without `as` and the new name."""
    while found := re.search(r"([\w:]*)\{([^{}]*)\}", tree):
        inside = ", ".join(found[1] + path.strip() for path in found[2].split(",") if path.strip())
        tree = tree[: found.start()] + inside + tree[found.end() :]
    return [path.split(" as ")[0].strip() for path in tree.split(",")]


def rust_names(path: str, module: Module, modules: set[Module]) -> Module | None:
    """The path from the root of the crate that `path` means in `module`; None for other crates."""
    first, *rest = path.split("::")
    if first in {"crate", "$crate"}:
        return tuple(rest)
    if first == "self":
        return (*module, *rest)
    if first != "super":
        return (*module, first, *rest) if (*module, first) in modules else None
    while rest[0] == "super":
        module, rest = module[:-1], rest[1:]
    return (*module[:-1], *rest)


def rust_arrows(crate: Path) -> dict[Module, set[Module]]:
    """Which files of a crate import which, outside tests. Declaring a module or re-exporting its names is no import:
    the user of a re-exported name imports the file that defines it."""
    sources = {rust_module(path.relative_to(crate / "src")): path for path in (crate / "src").rglob("*.rs")}
    sources = {module: path for module, path in sources.items() if not any(part.startswith("test") for part in module)}
    modules, passed_on, taken = set(sources), {}, {module: list[Module]() for module in sources}
    for module, path in sources.items():
        source = re.sub(r"//.*", "", without_tests(text_of(path)))
        use = re.compile(r"^ *(pub(?:\(.*?\))? )?use ([^;]+);", re.MULTILINE)
        code = re.sub(r"\bmod \w+;", "", use.sub("", source))
        for public, tree in use.findall(source):
            for named in paths_of_use(tree):
                names = rust_names(named, module, modules)
                if names and public:
                    passed_on[*module, names[-1]] = names
                if names is not None and (not public or re.search(rf"\b{names[-1]}\b", code)):
                    taken[module].append(names)
        inline = [rust_names(path, module, modules) for path in re.findall(r"(?<![\w:])\w+(?:::\w+)+", code)]
        taken[module] += [names for names in inline if names]

    def home(names: Module, steps: int = 8) -> Module:
        for end in range(len(names), -1, -1):
            if end < len(names) and names[: end + 1] in passed_on and steps:
                return home(passed_on[names[: end + 1]] + names[end + 1 :], steps - 1)
            if names[:end] in modules:
                return names[:end]
        raise AssertionError(names)

    return {module: {home(names) for names in found} - {module} for module, found in taken.items()}


def rings(arrows: dict[Module, set[Module]]) -> list[str]:
    """The largest sets of files that all reach each other."""

    def behind(start: Module) -> set[Module]:
        found, left = set[Module](), [start]
        while left:
            new = arrows[left.pop()] - found
            found |= new
            left += new
        return found

    reached = {module: behind(module) for module in arrows}
    return sorted(
        {
            " ".join(sorted("::".join(other) or "lib" for other in reached[module] if module in reached[other]))
            for module in arrows
            if module in reached[module]
        }
    )


def test_imports_of_rust_are_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\npub use c::Name;\n#[cfg(test)]\nmod tests;\n",
        "a.rs": "use std::sync::{Arc, atomic::{AtomicBool, Ordering}};\nuse super::b::{self as other, d::{D, e}};\n",
        "b/mod.rs": "pub mod d;\n// use crate::a::X;\n#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}\nfn f() {}\n",
        "b/d.rs": "fn f() -> crate::Name {\n    super::f()\n}\n",
        "c.rs": "#[cfg(test)]\nuse super::a::X;\nuse crate::{\n    a::Y,\n    b as other,\n};\n",
    }
    for name, source in files.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    arrows = rust_arrows(tmp_path)
    found = {"::".join(module): {"::".join(target) for target in targets} for module, targets in arrows.items()}
    assert found == {"": set(), "a": {"b", "b::d"}, "b": set(), "b::d": {"b", "c"}, "c": {"a", "b"}}
    assert rings(arrows) == ["a b::d c"]


def test_no_other_files_of_a_crate_import_each_other_in_a_circle() -> None:
    for crate in CRATES:
        arrows = rust_arrows(crate)
        assert len(arrows) > 1
        assert rings(arrows) == [], crate.name


def test_files_are_short() -> None:
    lines = {relative(path): len(text_of(path).splitlines()) for path in SOURCES}
    assert {name: found for name, found in lines.items() if found > LONGER.get(name, LINES_MAX)} == {}


def test_folders_are_small() -> None:
    """Their own files, without those that only say what the folder is."""
    suites = [path for crate in CRATES for path in (crate / "tests").rglob("*.rs")]
    files = Counter(path.parent for path in [*SOURCES, *suites] if path.name not in ("__init__.py", "mod.rs"))
    for folder, found in files.items():
        assert found <= (TESTS_IN_FOLDER_MAX if "tests" in folder.parts else FILES_IN_FOLDER_MAX), relative(folder)


def test_the_ratchet_holds_only_what_is_long() -> None:
    for name, lines in LONGER.items():
        assert (ROOT / name).is_file()
        assert lines > LINES_MAX


def test_python_functions_are_short() -> None:
    for path, node in python_nodes():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES_MAX, f"{relative(path)}: {node.name}"


def test_public_names_of_python_are_documented() -> None:
    for path in PYTHON:
        tree = tree_of(path)
        for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            overrides = isinstance(owner, ast.ClassDef) and owner.bases and path.name == "protocol.py"
            for node in owner.body:
                named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                if named and not node.name.startswith("_"):
                    assert ast.get_docstring(node) or overrides, f"{relative(path)}: {node.name} is undocumented"


def test_modules_say_what_they_own() -> None:
    for path in [*PYTHON, *RUST]:
        is_test = "tests" in path.parts or path.stem.startswith("test")
        if path.suffix == ".py":
            lines = (ast.get_docstring(tree_of(path)) or "").splitlines()
            limit = 20 if path.name in {"errors.py", "__init__.py"} else MODULE_DOC_LINES_MAX  # trees and examples
        else:
            lines = [line for line in text_of(path).splitlines() if line.startswith("//!")]
            limit = MODULE_DOC_LINES_MAX
            assert text_of(path).startswith("//!") or is_test, relative(path)
        assert is_test or 0 < len(lines) <= limit, relative(path)


def test_doc_comments_begin_with_their_subject() -> None:
    found: Counter[str] = Counter()
    for path in [*PYTHON, *RUST]:
        if "tests" in path.parts or path.stem == "tests":
            continue
        lines = [line.strip() for line in text_of(path).splitlines()]
        for before, line in zip(["", *lines], lines, strict=False):
            for mark in ("/// ", "//! ", '"""'):
                # Only the first line of a comment begins one.
                begins = line.startswith(mark) and (mark == '"""' or not before.startswith(mark.strip()))
                if begins and (word := SUBJECTLESS.match(line.removeprefix(mark))):
                    found[word[1]] += 1
    assert found["It"] + found["Those"] + found["The same"] <= 5, found
    assert found.total() <= SUBJECTLESS_MAX, f"{found}: name the subject, or lower the limit"


def test_nothing_is_left_unfinished() -> None:
    for path in SOURCES:
        assert not UNFINISHED.search(text_of(path)), relative(path)
        assert "unimplemented!(" not in text_of(path).replace('"unimplemented!("', ""), relative(path)


def test_every_setting_is_documented_as_it_is() -> None:
    document = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(ORCAS_[A-Z0-9_]+)` \| (.*) \|$", document, re.MULTILINE))
    assert set(rows) == {variable_name(name) for name, setting in SETTINGS.items() if setting.variable}
    for field in dataclasses.fields(Settings):
        setting = SETTINGS[field.name]
        if not setting.variable:
            option = OPTIONS.get(field.name, field.name).replace("_", "-")
            assert re.search(rf"`(orcas \w+ )?--{option}\b", document), option
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
    known |= {f"{variable_name(name)}_FILE" for name, setting in SETTINGS.items() if setting.secret}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]*[A-Z0-9]\b", text_of(path)))
        if "reliability" in {path.stem, path.parent.name}:
            named -= SUITE_VARIABLES
        assert named <= known, relative(path)


def logged_messages() -> dict[str, str]:
    """The messages that the server logs at INFO and above, and where: the formats of all calls on a logger `log`."""
    found: dict[str, str] = {}
    for path in PYTHON:
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "log"):
                continue
            if node.func.attr in {"info", "warning", "error", "exception", "critical", "log"}:
                message = node.args[1] if node.func.attr == "log" else node.args[0]
                texts = [part.value for part in ast.walk(message) if isinstance(part, ast.Constant)]
                found |= {text: relative(path) for text in texts if isinstance(text, str)}
    for path in RUST:
        code = without_tests(text_of(path))
        found |= dict.fromkeys(
            re.findall(r'tracing::(?:info|warn|error)!\([^;]*?"([^"]+)"\s*,?\s*\)', code), relative(path)
        )
    return found


def test_every_line_of_the_log_is_documented() -> None:
    def shape(text: str) -> str:
        """In the document, placeholders are in capitals."""
        return re.sub(r"%[a-z]|\b[A-Z]{2,}\b", "%", text)

    document = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "operations").glob("log*.md"))
    lines = {shape(line) for _, line in re.findall(r"^\| (`+)(.+?)\1 \|", document, re.MULTILINE)}
    messages = logged_messages()
    assert len(messages) > 10
    for message, place in messages.items():
        assert shape(message) in lines, f"{place} logs {message!r}: say in docs/operations/log.md what it means"


def test_every_target_of_the_makefile_does_something() -> None:
    text = text_of(ROOT / "Makefile")
    named = {name for line in re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE) for name in line.split()}
    rules = set(re.findall(r"^([a-z-]+):[^=\n]*## .+\n\t", text, re.MULTILINE))
    assert named == rules, (
        "a name without a rule does nothing, and a rule without a name may take a file for its result"
    )
    script = text_of(ROOT / ".ci" / "run")
    for sections in re.findall(r"^\t.*bash \.ci/run (.+)$", text, re.MULTILINE):
        for name in set(sections.split()) - {"full"}:
            assert re.search(rf"^    ([a-z-]+ \| )*{name}( \| [a-z-]+)*\)", script, re.MULTILINE), name


def test_the_minutes_of_a_test_run_are_said_in_one_way() -> None:
    texts = [text_of(ROOT / name) for name in ("README.md", "CONTRIBUTING.md", "Makefile", ".ci/run")]
    found = [re.findall(r"\b\d+ minutes(?: on two processors)?", text) for text in texts]
    assert found == [found[0]] * len(texts)
    assert len(found[0]) == 1


def test_the_documented_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = text_of(path)
        assert set(re.findall(r"\bmake ([a-z]+)\b(?=[ `])", text)) <= targets
        for section in re.findall(r"\.ci/run ([a-z]+)", text):
            assert re.search(rf"^    {section}\)", script, re.MULTILINE)


def test_versions_agree() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    needed = cargo["workspace"]["package"]["rust-version"]
    assert f"cargo {needed} or later" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f">= {needed}" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_public_name_exists() -> None:
    import orcas

    for name in orcas.__all__:
        assert getattr(orcas, name).__doc__
