"""The modules for testcontainers and pytest-databases in examples/: their own tests, with processes for containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.clients import package
from tests.fixtures.sources import ROOT

from orcas.settings.config import child_environment

package("testcontainers")
package("pytest_databases")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

EXAMPLES = ROOT / "examples"
TESTS = ["-m", "pytest", "-p", "pytester", "--import-mode=importlib", "-c", os.devnull, "--rootdir=."]
EXAMPLE = "import fake_docker, runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
DOCTEST = "import fake_docker, doctest, testcontainers.community.orcas as m; print(doctest.testmod(m))"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ([*TESTS, str(EXAMPLES / "testcontainers" / "tests")], " 2 passed in "),
        ([*TESTS, str(EXAMPLES / "pytest_databases" / "tests")], " 4 passed in "),
        (["-c", EXAMPLE, str(EXAMPLES / "testcontainers/docs/modules/orcas_example.py")], "test1.txt: Hello from test1.txt"),
        (["-c", DOCTEST], "TestResults(failed=0, attempted=3)"),
    ],
    ids=["testcontainers", "pytest-databases", "example", "doctest"],
)  # fmt: skip
def test_they_do_what_they_say(words: list[str], printed: str, containers: Path) -> None:
    variables = {
        "FAKE_DOCKER": str(containers),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_PLUGINS": "fake_docker",
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=containers.parent, env={**child_environment(), **variables},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert printed in done.stdout, done.stdout + done.stderr
