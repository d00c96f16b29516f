"""The programs in examples/, each run as after copying it: alone, in an empty directory, without settings."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orcas.settings.config import SETTINGS, child_environment, variable_name

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
# Enough while other tests run; alone, none takes five seconds.
SECONDS_MAX = 60

# The output of each, as a regular expression per line.
PRINTED = {
    "backup_and_restore.py": [
        r"first backup: (\d{7,}) of \1 bytes copied",
        r"second backup: \d{3,5} of \d{7,} bytes copied",
        r"left in the store: \['2\.jpg'\]",
        r"restored: 2 objects, as of the second backup, ready for orcas\.Server\('restored'\)",
    ],
    "csv_table.py": [
        r"stored 3000 rows, 46908 bytes",
        *(rf"{city}: 1000 days, 11\.50 °C on average" for city in ("Oslo", "Rome", "Lima")),
        r"last row: 2999,Lima,11\.5",
    ],
    "large_upload.py": [
        r"stored: 41943040 bytes in 5 parts",
        r"checksum: [\w+/]{43}=-5 COMPOSITE",
        r"downloaded file is the same: True",
        r"changed part: BadDigest",
        r"uploads left: 0",
    ],
    "mounted_app.py": [
        r"own route: hello from my own application",
        r"store: ok",
        r"buckets: \['photos'\]",
        r"object: sand",
    ],
    "notebook.py": [
        r"<orcas\.Server http://127\.0\.0\.1:\d+ pid=\d+>",
        *(rf"a child process sees run={run}/result\.csv" for run in range(3)),
        r"<orcas\.Server stopped>",
    ],
    "presigned.py": [
        r"upload: 200",
        r"upload as another type: 403",
        r"download: 200 Greetings from outside\.",
        r"with another key in the URL: 403",
        r"without a signature: 403",
    ],
    "quick_start.py": [
        r"read: It was a dark and stormy night\. \{'author': 'me'\}",
        *(rf"listed: drafts/chapter-{number}\.txt 6000 bytes" for number in range(3)),
        r"refused: PreconditionFailed",
        r"deleted: 3 objects",
    ],
}
TEXTS = {".cs", ".go", ".java", ".md", ".mjs", ".py", ".rst"}
# The rest of the output of pytest depends on its plugins.
TESTS_PASSED = {"test_with_plugin.py": 4}


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a copy of `program` in `directory`. It must leave nothing there, nor in the directory of temporary files."""
    work, temporary = directory / "work", directory / "tmp"
    for path in (work, temporary):
        path.mkdir()
    shutil.copy(EXAMPLES / program, work)
    # It belongs to this test run, which has its own options.
    variables = {name: value for name, value in child_environment().items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, program], cwd=work, env={**variables, "TMPDIR": str(temporary)},
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    # pytest and its plugins leave directories there.
    assert [path.name for path in work.iterdir() if not path.name.startswith((".", "__pycache__"))] == [program]
    assert list(temporary.iterdir()) == []
    return done


@pytest.mark.parametrize("program", sorted(PRINTED))
def test_an_example_does_what_it_says(program: str, tmp_path: Path) -> None:
    printed = run(program, tmp_path).stdout.splitlines()
    assert len(printed) == len(PRINTED[program]), printed
    for line, pattern in zip(printed, PRINTED[program], strict=True):
        assert re.fullmatch(pattern, line), (pattern, printed)


@pytest.mark.parametrize("program", sorted(TESTS_PASSED))
def test_an_example_of_tests_passes(program: str, tmp_path: Path) -> None:
    last = run(program, tmp_path).stdout.splitlines()[-1]
    assert re.search(rf" {TESTS_PASSED[program]} passed in ", last), last


def test_every_example_is_run_here_and_listed() -> None:
    assert sorted([*PRINTED, *TESTS_PASSED]) == PROGRAMS
    listed = re.findall(r"^\| \[(\w+\.py)\]\((\w+\.py)\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [(name, name) for name in PROGRAMS]


def test_examples_set_variables_that_exist() -> None:
    known = {variable_name(name) for name in SETTINGS}
    texts = [path.read_text() for path in EXAMPLES.rglob("*") if path.suffix in TEXTS]
    named = {name for text in texts for name in re.findall(r"\bORCAS_[A-Z_]+\b", text)}
    assert {"ORCAS_BUCKETS", "ORCAS_ROOT_SECRET_KEY"} <= named <= known


def test_containers_are_of_the_image_that_the_documents_build() -> None:
    document = (EXAMPLES.parent / "docs" / "deployment" / "containers.md").read_text()
    for module in (
        "testcontainers/src/testcontainers/community/orcas/__init__.py",
        "pytest_databases/src/pytest_databases/docker/orcas.py",
    ):
        image = re.search(r'"([\w-]+):latest"', (EXAMPLES / module).read_text())
        assert image is not None
        assert f" --tag {image[1]} ." in document


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_says_first_how_to_run_it(program: str) -> None:
    said = ast.get_docstring(ast.parse((EXAMPLES / program).read_text(encoding="utf-8")))
    assert said is not None
    assert f"`python {program}`" in said
