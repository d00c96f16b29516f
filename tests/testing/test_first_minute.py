"""What a newcomer finds: buckets that the start creates, keys that clients have already, and a demo."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from tests.fixtures.commands import command

import orcas
from orcas.settings.config import ConfigurationError, child_environment, environment, resolve

NONE = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_SESSION_TOKEN": None}
PAIR = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest"}


def test_buckets_that_the_start_creates(tmp_path: Path) -> None:
    for buckets in ("uploads, logs", ["logs", "more"]):
        with orcas.Server(tmp_path / "store", buckets=buckets) as server:
            found = [entry["Name"] for entry in server.client().list_buckets()["Buckets"]]
    assert found == ["logs", "more", "uploads"]
    with pytest.raises(
        orcas.ConfigurationError, match="No_Bucket of ORCAS_BUCKETS cannot be created: InvalidBucketName"
    ):
        orcas.Server(tmp_path / "store", buckets="No_Bucket")


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
def test_buckets_exist_in_any_region(region: str, tmp_path: Path) -> None:
    for _ in range(2):
        with orcas.Server(tmp_path / "store", buckets="uploads", region=region) as server:
            server.client().put_object(Bucket="uploads", Key="k", Body=b"x")


def test_the_keys_of_dev_are_those_of_clients_if_there_are_any() -> None:
    def pair(**variables: str | None) -> tuple[str | None, str | None]:
        with environment({**NONE, **variables}):
            settings = resolve({"dev": True, "memory": True}).settings
        return settings.root_access_key, settings.root_secret_key

    assert pair(**PAIR) == ("test", "testtest")
    published = pair()
    assert published[0] == "orcas-dev-access-key"
    assert pair(**PAIR, AWS_SESSION_TOKEN="t") == published
    assert pair(AWS_ACCESS_KEY_ID="test") == published
    # As suites of moto and LocalStack have them.
    assert pair(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test") == ("test", "test")
    with environment({**PAIR, "ORCAS_ROOT_ACCESS_KEY": "mine", "ORCAS_ROOT_SECRET_KEY": "my-secret"}):
        assert resolve({"dev": True, "memory": True}).settings.root_access_key == "mine"
    with environment(PAIR):
        assert resolve({"memory": True}).settings.root_access_key is None
        with pytest.raises(ConfigurationError, match="loopback"):
            resolve({"dev": True, "memory": True, "host": "0.0.0.0"})


def test_a_server_with_the_keys_of_clients() -> None:
    environ = {**child_environment(), **PAIR, "ORCAS_BUCKETS": "photos"}
    arguments = [sys.executable, "-m", "orcas", "serve", "--memory", "--dev", "--port", "0"]
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "testtest", "region_name": "us-east-1"}
        s3 = boto3.client("s3", endpoint_url=url, **keys)
        assert [entry["Name"] for entry in s3.list_buckets()["Buckets"]] == ["photos"]
        server.terminate()
        _, said = server.communicate()
    assert "The keys are those that clients have, access key test" in said
    assert "testtest" not in said


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"AWS_ACCESS_KEY_ID": "t"}, "AWS_ACCESS_KEY_ID is not 3 to 128 letters"),
        ({"AWS_SECRET_ACCESS_KEY": "tëst"}, "AWS_SECRET_ACCESS_KEY is not 1 to 128 visible"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"),
        ({"AWS_SESSION_TOKEN": "t"}, "AWS_SESSION_TOKEN says that they are temporary"),
    ],
)
def test_keys_of_clients_that_are_not_taken_are_named(variables: dict[str, str], reason: str) -> None:
    arguments = [sys.executable, "-m", "orcas", "serve", "--memory", "--dev", "--port", "0"]
    environ = {**child_environment(), **PAIR, "AWS_SESSION_TOKEN": "", **variables}
    with subprocess.Popen(arguments, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("orcas ready")
        server.terminate()
        _, said = server.communicate()
    assert "The keys are those of --dev" in said
    assert f"The keys in the variables of AWS's clients are not used: {reason}" in said


def test_a_demo_to_look_at(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as server:
        assert command("demo", "--data", tmp_path / "store").startswith("bucket demo created")
        s3 = server.client()
        keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket="demo")["Contents"]]
        assert len(keys) == 16
        versions = s3.list_object_versions(Bucket="demo", Prefix="reports/")
        assert (len(versions["Versions"]), len(versions["DeleteMarkers"])) == (4, 1)
        table = s3.get_object(Bucket="demo", Key="tables/daily.csv")["Body"].read().decode()
        assert len(list(csv.DictReader(table.splitlines()))) == 365
        image = s3.get_object(Bucket="demo", Key="pictures/waves.png")
        assert image["ContentType"] == "image/png"
        assert image["Body"].read(8) == b"\x89PNG\r\n\x1a\n"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
