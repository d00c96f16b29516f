"""Nothing leaves the house: whatever a developer's environment says, clients in tests reach Orcas, or nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.testing.network import DEVELOPER, watched
from tests.testing.test_run import PUT_AND_READ

SUITE = """
import os
import subprocess
import sys

import boto3
import pytest
from botocore.exceptions import ClientError

import orcas

early = boto3.session.Session()
made_before = early.client("s3", aws_access_key_id="k", aws_secret_access_key="s")


def upload(bucket):
    boto3.client("s3").put_object(Bucket=bucket, Key="k", Body=b"x")


@pytest.fixture(scope="session")
def client_of_theirs():
    return boto3.client("s3")


@pytest.fixture(scope="module")
def place(client_of_theirs):
    client_of_theirs.create_bucket(Bucket="place")
    yield "place"
    for entry in boto3.resource("s3").Bucket("place").objects.all():
        entry.delete()
    boto3.client("s3").delete_bucket(Bucket="place")


def test_code_under_test(orcas_bucket, s3):
    upload(orcas_bucket)
    assert s3.get_object(Bucket=orcas_bucket, Key="k")["Body"].read() == b"x"
    assert boto3.client("sts").get_caller_identity()["Arn"]
    assert boto3.client("iam").list_users()["Users"] == []


@pytest.mark.parametrize("service, call", [
    ("sqs", "list_queues"), ("dynamodb", "list_tables"), ("sns", "list_topics"), ("ec2", "describe_instances"),
    ("lambda", "list_functions"), ("route53", "list_hosted_zones"), ("cloudwatch", "list_metrics"),
])
def test_other_services(orcas_server, service, call):
    with pytest.raises(ClientError) as caught:
        getattr(boto3.client(service), call)()
    assert caught.value.response["Error"]["Code"] == "NotImplemented"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert "Orcas has S3, IAM and STS, not " in caught.value.response["Error"]["Message"]


def test_a_service_with_a_host_of_its_own(orcas_server):
    with pytest.raises(orcas.OrcasError, match="not sent"):
        boto3.client("s3control").list_jobs(AccountId="123456789012")


def test_clients_that_were_made_before(orcas_server):
    with pytest.raises(orcas.OrcasError, match="made before the test"):
        made_before.list_buckets()
    with pytest.raises(orcas.OrcasError, match="names that address"):
        boto3.client("s3", endpoint_url="https://s3.us-east-1.amazonaws.com").list_buckets()


def test_programs(orcas_bucket):
    script = f"import boto3; boto3.client('s3').put_object(Bucket='{orcas_bucket}', Key='k', Body=b'x')"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_a_fixture():
    assert os.environ["AWS_SECURITY_TOKEN"] == "stale"
    assert "AWS_ENDPOINT_URL" not in os.environ


def test_faults_do_not_reach_teardown(orcas_control, orcas_bucket):
    orcas_control.fault("drop-before")
    with pytest.raises(Exception, match="onnection"):
        upload(orcas_bucket)


def test_fixtures_that_last_longer(place, orcas_server):
    upload(place)
"""
SHORT = """
import boto3
import pytest

def test_code_under_test(orcas_bucket, s3):
    boto3.client("s3").put_object(Bucket=orcas_bucket, Key="k", Body=b"x")
    with pytest.raises(Exception, match="not sqs"):
        boto3.client("sqs").list_queues()

def test_faults_do_not_reach_teardown(orcas_control, orcas_bucket, s3):
    orcas_control.fault("error", code="AccessDenied")
    with pytest.raises(s3.exceptions.ClientError):
        s3.list_buckets()
"""
ALWAYS = """
import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

made_before = boto3.client("s3")

def test_without_a_fixture():
    assert boto3.client("s3").list_buckets()["Buckets"] == []
    with pytest.raises(EndpointConnectionError, match="127.0.0.1:9"):
        made_before.list_buckets()
"""
NEVER = """
import os

def test_with_a_fixture(s3, orcas_bucket):
    assert "AWS_ENDPOINT_URL" not in os.environ
    assert os.environ["AWS_SECURITY_TOKEN"] == "stale"

def test_when_asked(aws_env):
    assert os.environ["AWS_ENDPOINT_URL"] == aws_env["AWS_ENDPOINT_URL"]
    assert "AWS_SECURITY_TOKEN" not in os.environ
"""
REPLACED = """
import os
import pytest

@pytest.fixture
def s3():
    return "a client of theirs"

def test_with_a_fixture_of_the_same_name(s3):
    assert "AWS_ENDPOINT_URL" not in os.environ
"""


def pytest_over(directory: Path, suite: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=."]
    with watched(directory / "watch") as environ:
        return subprocess.run(
            [*command, *arguments, "test_suite.py"],
            capture_output=True,
            text=True,
            cwd=directory,
            env=environ,
            check=False,
        )


@pytest.mark.parametrize(
    ("suite", "option", "passed"),
    [
        pytest.param(SUITE, "", 14, marks=pytest.mark.full),
        (SHORT, "", 2),
        (ALWAYS, "always", 1),
        (NEVER, "never", 2),
        (REPLACED, "", 1),
    ],
    ids=["whole", "short", "always", "never", "replaced"],
)
def test_suites(tmp_path: Path, suite: str, option: str, passed: int) -> None:
    done = pytest_over(tmp_path, suite, *(("-o", f"orcas_aws={option}") if option else ()))
    assert f"{passed} passed in" in done.stdout, done.stdout + done.stderr


def test_an_option_that_is_none(tmp_path: Path) -> None:
    done = pytest_over(tmp_path, NEVER, "-o", "orcas_aws=sometimes")
    assert "orcas_aws = sometimes: write fixtures, always or never." in done.stderr


def test_the_watch_sees(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import socket; socket.getaddrinfo('s3.invalid', 80)"]
    with pytest.raises(AssertionError, match=r"socket.getaddrinfo s3.invalid"):  # noqa: SIM117
        with watched(tmp_path / "watch") as environ:
            subprocess.run(command, env=environ, stderr=subprocess.DEVNULL, check=False)


def test_orcas_run(tmp_path: Path) -> None:
    with watched(tmp_path / "watch") as environ:
        command = [
            sys.executable,
            "-m",
            "orcas",
            "run",
            "--bucket",
            "uploads",
            "--",
            sys.executable,
            "-c",
            PUT_AND_READ,
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'x' ['uploads']\n", "")


def test_orcas_env(tmp_path: Path) -> None:
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    with watched(tmp_path / "watch") as environ:
        script = f"eval \"$({sys.executable} -m orcas env --dev --port 9)\" && {sys.executable} -c '{show}'"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environ, check=False)
    left = json.loads(done.stdout)
    assert left["AWS_ENDPOINT_URL"] == left["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9"
    assert left["AWS_CONFIG_FILE"] == left["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
    assert not {name for name, value in DEVELOPER.items() if left.get(name) == value}


def test_clients_of_a_server(tmp_path: Path) -> None:
    script = (
        "import orcas\n"
        "with orcas.Server(memory=True) as server:\n"
        "    server.client().create_bucket(Bucket='photos')\n"
        "    print([bucket.name for bucket in server.resource().buckets.all()])\n"
    )
    with watched(tmp_path / "watch", AWS_DEFAULT_PROFILE="missing") as environ:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=False)
    assert done.stdout == "['photos']\n", done.stderr
