"""The action setup-orcas: its shell, run as a runner of GitHub runs it, with files in place of the runner's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fixtures.sources import ROOT
from tests.fixtures.waiting import wait_until

from orcas.settings.config import child_environment

ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/setup-orcas/action.yml").read_text(encoding="utf-8"))
# In place of `python3 -m venv`: pip installs nothing, and the command is that of the tests.
FAKE_PYTHON = f"""#!/bin/bash
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" >"%s/installed"\\n' "$RUNNER_TEMP" >"$3/bin/python"
printf '#!/bin/sh\\nexec {sys.executable} -m orcas "$@"\\n' >"$3/bin/orcas"
chmod +x "$3/bin/python" "$3/bin/orcas"
"""


@dataclass
class Runner:
    """A job: its variables and files, and what its steps have printed."""

    temp: Path
    variables: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def use(self, **inputs: str) -> bool:
        """A step with the action; whether it succeeded."""
        given = {name: each["default"] for name, each in ACTION["inputs"].items()} | inputs
        for step in ACTION["runs"]["steps"]:
            assert step["shell"] == "bash"
            negated, name = re.fullmatch(r"\$\{\{ (!?)inputs\.(\w+) \}\}", step["if"]).groups()  # type: ignore[union-attr]
            if bool(given[name]) is bool(negated):
                continue
            names = {key: re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value) for key, value in step["env"].items()}
            if not self.run(step["run"], **{key: given[found[1]] for key, found in names.items() if found}):
                return False
        return True

    def run(self, script: str, **variables: str) -> bool:
        """A step with a script; the next ones have the variables that it wrote."""
        files = {name: self.temp / name for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        for path in files.values():
            path.write_text("")
        (self.temp / "script.sh").write_text(script)
        paths = {name: str(path) for name, path in files.items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(self.temp / "script.sh")], check=False, text=True,
            env=self.variables | variables | paths, cwd=self.temp, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=120,
        )  # fmt: skip
        self.printed += done.stdout
        self.outputs |= pairs(files["GITHUB_OUTPUT"])
        self.variables |= pairs(files["GITHUB_ENV"])
        added = files["GITHUB_PATH"].read_text().splitlines()
        self.variables["PATH"] = os.pathsep.join([*reversed(added), self.variables["PATH"]])
        return done.returncode == 0


def pairs(path: Path) -> dict[str, str]:
    """Lines `NAME=VALUE`."""
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    python = tmp_path / "system" / "python3"
    python.parent.mkdir()
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    kept = {name: value for name, value in child_environment().items() if not name.startswith(("AWS_", "GITHUB_"))}
    path = os.pathsep.join((str(python.parent), "/usr/bin", "/bin"))
    return Runner(tmp_path, kept | {"PATH": path, "HOME": str(tmp_path), "RUNNER_TEMP": str(tmp_path)})


def test_later_steps_find_the_server_until_the_last_one_ends_it(runner: Runner) -> None:
    assert runner.use(package="orcas-s3[tls]>=0.1; echo", buckets="photos,others:public"), runner.printed
    assert (runner.temp / "installed").read_text().splitlines()[-1] == "orcas-s3[tls]>=0.1; echo"
    assert runner.outputs["endpoint"] == runner.variables["AWS_ENDPOINT_URL"]
    assert f"::add-mask::{runner.variables['AWS_SECRET_ACCESS_KEY']}\n" in runner.printed
    listing = "import boto3; print(*(each['Name'] for each in boto3.client('s3').list_buckets()['Buckets']))"
    assert runner.run(f'{sys.executable} -c "{listing}"'), runner.printed
    assert runner.printed.splitlines()[-1] == "others photos"
    assert runner.run("orcas cp script.sh s3://photos/a && orcas ls s3://photos/a"), runner.printed
    assert runner.use(end="success"), runner.printed
    assert '"level"' not in runner.printed
    assert "The log of Orcas" not in runner.printed
    assert not runner.run(f"curl --silent {runner.outputs['endpoint']}")
    # A job may start another one.
    assert runner.use(arguments=f"--data {runner.temp / 'store'} --port 0"), runner.printed
    assert runner.use(end="cancelled"), runner.printed


def test_the_log_is_shown_when_the_job_has_failed(runner: Runner) -> None:
    assert runner.use(), runner.printed
    assert not runner.run("orcas ls s3://absent")
    assert runner.use(end="failure"), runner.printed
    assert "::group::The log of Orcas\n" in runner.printed
    assert "NoSuchBucket" in runner.printed.partition("::group::")[2]
    assert wait_until(lambda: not runner.run(f"curl --silent {runner.outputs['endpoint']}"))


def test_a_server_that_does_not_start_fails_the_job_with_its_log(runner: Runner) -> None:
    assert not runner.use(arguments="--memory --port 99999")
    assert "99999" in runner.printed.partition("::error::")[0]
    assert runner.use(end="failure"), runner.printed
