"""`examples/moto/orcas_for_moto.py`: a suite that was written for moto, run with Orcas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.sources import ROOT
from tests.testing.network import watched

SUITE = """
import datetime as dt
import os
import unittest

import boto3
import freezegun
import pytest
import requests
import time_machine
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws, mock_s3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "testing1"

ONCE = Config(retries={"total_max_attempts": 1})
early = boto3.client("s3", config=ONCE)
of_theirs = {"aws_access_key_id": "any", "aws_secret_access_key": "key", "aws_session_token": "at all"}
in_europe = {"region_name": "eu-west-1", "endpoint_url": "https://s3.eu-west-1.amazonaws.com", "config": ONCE}
abroad = boto3.client("s3", **in_europe, **of_theirs)


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


@mock_s3
def test_clients_that_were_made_before_and_keys():
    abroad.create_bucket(Bucket="one", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    early.put_object(Bucket="one", Key="a b", Body=b"x")
    url = abroad.generate_presigned_url("get_object", Params={"Bucket": "one", "Key": "a b"})
    assert requests.get(url).content == b"x"
    varied = Config(use_dualstack_endpoint=True, s3={"addressing_style": "virtual"})
    found = boto3.Session(**of_theirs).resource("s3", config=varied).Object("one", "a b").get()
    assert found["Body"].read() == b"x"
    with pytest.raises(ClientError, match="not sqs"):
        boto3.client("sqs", **of_theirs).list_queues()


def test_clients_without_a_mock():
    for client in (early, abroad, boto3.client("s3", **in_europe)):
        with pytest.raises(EndpointConnectionError, match="127.0.0.1:9"):
            client.list_buckets()


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


PAST = dt.datetime(2012, 1, 14, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("frozen_at", [freezegun.freeze_time, time_machine.travel])
def test_frozen_time(frozen_at):
    with mock_aws(), frozen_at(PAST):
        client = add_a_bucket()
        client.put_object(Bucket="one", Key="k", Body=b"x")
        url = client.generate_presigned_url("get_object", Params={"Bucket": "one", "Key": "k"})
        assert requests.get(url).content == b"x"
    with frozen_at(PAST), mock_aws():
        client = add_a_bucket()
        client.put_object(Bucket="one", Key="k", Body=b"x")
    with mock_aws():
        add_a_bucket()


def modified(client):
    client.put_object(Bucket="one", Key="k", Body=b"x")
    return client.head_object(Bucket="one", Key="k")["LastModified"]


@mock_aws
def test_objects_have_the_dates_of_frozen_time():
    client = add_a_bucket()
    with freezegun.freeze_time(PAST) as frozen:
        first = modified(client)
        frozen.tick(dt.timedelta(days=3))
        assert dt.timedelta(days=3) <= modified(client) - first < dt.timedelta(days=3, minutes=5)
    assert PAST <= first < PAST + dt.timedelta(minutes=5)
    assert abs(modified(client) - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)


def test_a_server():
    server = ThreadedMotoServer(port=0)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    client = add_a_bucket(boto3.client("s3", endpoint_url=url, region_name="us-east-1"))
    requests.post(f"{url}/moto-api/reset")
    add_a_bucket(client)
    assert boto3.client("s3", endpoint_url=url, **of_theirs).list_objects_v2(Bucket="one")["KeyCount"] == 0
    server.stop()
"""


def test_a_suite_for_moto_runs_with_orcas(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "orcas_for_moto", "-c", os.devnull, "--rootdir=."]
    with watched(tmp_path / "watch", PYTHONPATH=str(ROOT / "examples" / "moto")) as environ:
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
    assert " 15 passed in " in done.stdout, done.stdout + done.stderr
