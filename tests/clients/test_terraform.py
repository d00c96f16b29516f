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
from tests.fixtures.targets import Target, refusal, running
from tests.replication.conftest import add_target, admin

pytestmark = pytest.mark.clients

_TERRAFORM: Final = executable("terraform", "install it, and a mirror of the aws provider")
_FILES: Final = Path(__file__).parent / "terraform"
_SECONDS: Final = 300
Terraform = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def terraform(request: pytest.FixtureRequest, target: Target, tmp_path: Path) -> Terraform:
    """Runs it in a directory with the file. Skips if there is no provider at hand: see `TF_CLI_CONFIG_FILE`."""
    shutil.copy(_FILES / request.param, tmp_path)
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


@pytest.mark.parametrize("terraform", ["replication.tf"], indirect=True)
def test_replication(terraform: Terraform, target: Target, bucket: str) -> None:
    client = target.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    with running(None) as there:
        add_target(target, "site", there.server.endpoint, there)
        try:
            for changed in ("false", "true"):
                variables = (f"-var=changed={changed}", f"-var=bucket={bucket}")
                done = terraform("apply", "-auto-approve", *variables)
                assert done.returncode == 0, done.stdout + done.stderr
                planned = terraform("plan", "-detailed-exitcode", *variables)
                assert planned.returncode == 0, planned.stdout + planned.stderr
            rules = client.get_bucket_replication(Bucket=bucket)["ReplicationConfiguration"]["Rules"]
            assert sorted(rule["ID"] for rule in rules) == ["all", "photos"]
            done = terraform("destroy", "-auto-approve", *variables)
            assert done.returncode == 0, done.stdout + done.stderr
            missing = refusal(client.get_bucket_replication, Bucket=bucket)
            assert missing == (404, "ReplicationConfigurationNotFoundError")
        finally:
            admin(target, "DELETE", "replication/targets/site")


@pytest.mark.parametrize("terraform", ["identities.tf"], indirect=True)
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
