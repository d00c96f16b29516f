"""`examples/moto/orcas_for_moto.py`: a suite that was written for moto, run with Orcas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.sources import ROOT
from tests.testing.network import watched

SUITE = """
import os
import unittest

import boto3
import freezegun
import pytest
import requests
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "testing1"


def add_a_bucket(client=None):
    client = client or boto3.client("s3")
    client.create_bucket(Bucket="one")
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["one"]
    return client


@mock_aws
def test_a_function():
    add_a_bucket()
    with mock_aws():
        assert len(boto3.client("s3").list_buckets()["Buckets"]) == 1


@mock_aws()
class TestAClass:
    def test_a_method(self):
        add_a_bucket()


@mock_aws
class TestAClassThatIsPrepared:
    def setup_method(self):
        self.client = add_a_bucket()

    def test_a_method(self):
        self.helps()

    def test_another(self):
        self.helps()

    def helps(self):
        assert len(boto3.client("s3").list_buckets()["Buckets"]) == 1
        assert self.client.list_objects_v2(Bucket="one")["KeyCount"] == 0


def test_other_services():
    with mock_aws(), pytest.raises(ClientError, match="not sqs") as caught:
        boto3.client("sqs").list_queues()
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    # Without a mock.
    for service in ("s3", "sqs"):
        with pytest.raises(EndpointConnectionError, match="127.0.0.1:9"):
            getattr(boto3.client(service), "list_queues" if service == "sqs" else "list_buckets")()


@mock_aws
class ACase(unittest.TestCase):
    def setUp(self):
        self.client = add_a_bucket()

    def test_a_method(self):
        self.client.put_object(Bucket="one", Key="k", Body=b"x")

    def test_another(self):
        assert boto3.client("s3").list_objects_v2(Bucket="one")["KeyCount"] == 0


@pytest.fixture
def client():
    with mock_aws():
        yield boto3.client("s3")


def test_a_fixture(client):
    add_a_bucket(client)


def test_a_mock_that_is_started():
    mock = mock_aws()
    mock.start()
    add_a_bucket()
    mock.stop()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "testing1"


@freezegun.freeze_time("2012-01-14")
def test_frozen_time():
    with mock_aws():
        add_a_bucket()
    with mock_aws():
        add_a_bucket()


def test_a_server():
    server = ThreadedMotoServer(port=0)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    client = add_a_bucket(boto3.client("s3", endpoint_url=url, region_name="us-east-1"))
    requests.post(f"{url}/moto-api/reset")
    add_a_bucket(client)
    server.stop()
"""


def test_a_suite_for_moto_runs_with_orcas(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "orcas_for_moto", "-c", os.devnull, "--rootdir=."]
    with watched(tmp_path / "watch", PYTHONPATH=str(ROOT / "examples" / "moto")) as environ:
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
    assert " 11 passed in " in done.stdout, done.stdout + done.stderr
