"""The suite of docs/how-to/go.md, as that page runs it, with the modules that `go_suite/` pins."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.clients import Command, executable

PAGE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "go.md"
MODULES: Final = Path(__file__).parents[1] / "go_suite"
GO: Final = executable("go", "install Go")

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]


def test_the_suite_passes_in_orcas_run(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (suite,) = re.findall(r"^```go\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name in ("go.mod", "go.sum"):
        shutil.copy(MODULES / name, tmp_path)
    (tmp_path / "reports_test.go").write_text(suite)
    if subprocess.run([GO, "mod", "download"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("the AWS SDK for Go cannot be had")
    caches = json.loads(subprocess.check_output([GO, "env", "-json", "GOMODCACHE", "GOCACHE"]))
    places = f"{Path(sys.executable).parent}:{Path(GO).parent}:/usr/local/bin:/usr/bin:/bin"
    variables = {**caches, "PATH": places, "CGO_ENABLED": "0"}
    assert Command(("gofmt", "-l"), tmp_path, variables).text(".") == ""
    (line,) = re.findall(r"^\$ (orcas run .*) \./\.\.\.$", text, re.MULTILINE)
    for given in (line, line.replace("orcas run ", "orcas run --tls ")):
        words = (*given.split(), "-count=1", "-v", "-gcflags=all=-N -l")
        said = Command(words, tmp_path, variables, seconds=800).text("./...")
        passed = re.findall(r"^--- PASS: (\w+)", said, re.MULTILINE)
        assert sorted(passed) == sorted(re.findall(r"^func (Test\w+)", suite, re.MULTILINE)), said
