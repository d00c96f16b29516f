"""Terraform with its aws provider: a plan after apply has no differences, and nothing is left after destroy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.clients import executable, variables_of
from tests.fixtures.targets import Target

pytestmark = pytest.mark.clients

_TERRAFORM: Final = executable("terraform", "install it, and a mirror of the aws provider")
_FILES: Final = Path(__file__).parent / "terraform"
_SECONDS: Final = 300
Terraform = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def terraform(target: Target, tmp_path: Path) -> Terraform:
    """Runs it in a directory with the file. Skips if there is no provider at hand: see `TF_CLI_CONFIG_FILE`."""
    shutil.copy(_FILES / "identities.tf", tmp_path)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ORCAS_"))}
    variables |= variables_of(target) | {"TF_IN_AUTOMATION": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_TERRAFORM, *words, "-no-color", "-input=false"], cwd=tmp_path, env=variables,
            capture_output=True, text=True, check=False, timeout=_SECONDS,
        )  # fmt: skip

    begun = run("init")
    if begun.returncode:
        pytest.skip(f"the aws provider is not at hand: {begun.stderr[-500:]}")
    return run


def test_identities(terraform: Terraform, target: Target) -> None:
    iam = target.server.client("iam")
    before = len(iam.list_users()["Users"])
    for changed in ("false", "true"):
        variable = f"-var=changed={changed}"
        done = terraform("apply", "-auto-approve", variable)
        assert done.returncode == 0, done.stdout + done.stderr
        # 2: there are differences.
        planned = terraform("plan", "-detailed-exitcode", variable)
        assert planned.returncode == 0, planned.stdout + planned.stderr
    assert iam.get_user(UserName="alice")["User"]["Tags"] == [{"Key": "team", "Value": "blue"}]
    done = terraform("destroy", "-auto-approve")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(iam.list_users()["Users"]) == before
    assert [role["RoleName"] for role in iam.list_roles()["Roles"]] == []
    iam.close()
