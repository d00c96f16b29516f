"""The pytest plugin, in sessions of pytest as users have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from orcas.settings.config import child_environment

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def orcas_settings():
    return {"region": "eu-central-1"}
"""
SUITE = """
import subprocess
import sys

import boto3
import pytest

@pytest.mark.parametrize("number", range(6))
def test_buckets_are_new_and_empty(s3, orcas_bucket, number):
    assert "Contents" not in s3.list_objects_v2(Bucket=orcas_bucket)
    s3.put_object(Bucket=orcas_bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms")
    assert s3.meta.region_name == "eu-central-1"
    assert len(s3.list_buckets()["Buckets"]) == 1

@pytest.mark.parametrize("orcas_versioning", ["unversioned", "enabled", "suspended"], indirect=True)
def test_versions(s3, orcas_bucket, orcas_versioning):
    found = s3.get_bucket_versioning(Bucket=orcas_bucket).get("Status", "Unversioned")
    assert found.lower() == orcas_versioning

def test_other_programs(aws_env, orcas_bucket):
    script = "import boto3; boto3.client('s3').put_object(Bucket='%s', Key='k', Body=b'x')" % orcas_bucket
    subprocess.run([sys.executable, "-c", script], check=True)
    assert boto3.client("s3").head_object(Bucket=orcas_bucket, Key="k")["ContentLength"] == 1

def test_faults(s3, orcas_bucket, orcas_control):
    orcas_control.fault("error", operation="GetObject", code="AccessDenied")
    s3.create_bucket(Bucket="left-behind", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with pytest.raises(s3.exceptions.ClientError, match="AccessDenied"):
        s3.get_object(Bucket=orcas_bucket, Key="k")

def test_no_faults_are_left(s3, orcas_bucket):
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=orcas_bucket, Key="k")
    assert len(s3.list_buckets()["Buckets"]) == 1
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, env=child_environment(), check=False)


def test_a_suite_in_one_process(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "12 passed" in done.stdout, done.stdout


def test_a_suite_in_several_processes(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "3")
    assert "12 passed" in done.stdout, done.stdout


def test_the_plugin_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n\ndef test_none():\n    assert not {'orcas._core', 'boto3', 'fastapi'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert "1 passed" in done.stdout, done.stdout
