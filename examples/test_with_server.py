"""Test code that uses S3: pytest fixtures with a real server in memory, without mocks, accounts or network access.

Run it with `pytest test_with_server.py` or `python test_with_server.py`. All tests share one server, because starting
one takes about half a second. Each test gets its own bucket. Copy the three fixtures into your `conftest.py`.
"""

import sys
import uuid
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import ClientError

import orcas


@pytest.fixture(scope="session")
def server() -> Iterator[orcas.Server]:
    """One server for all tests. It stops with the test run, even if that is killed."""
    with orcas.Server(memory=True) as server:
        yield server


@pytest.fixture
def bucket(server: orcas.Server) -> str:
    """A new bucket."""
    name = f"test-{uuid.uuid4().hex}"
    server.client().create_bucket(Bucket=name)
    return name


@pytest.fixture
def aws(server: orcas.Server) -> Iterator[None]:
    """Point `boto3.client("s3")` at the server, in the code under test and in the programs that it starts."""
    with server.env():
        yield


# The code under test. It does not know Orcas.
def archive(bucket: str, name: str, text: str) -> str:
    """Store a report and return its key."""
    key = f"reports/{name}.txt"
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
    return key


def test_a_report_is_archived(aws: None, server: orcas.Server, bucket: str) -> None:
    key = archive(bucket, "may", "All is well.")
    assert server.client().get_object(Bucket=bucket, Key=key)["Body"].read() == b"All is well."


def test_a_later_report_replaces_an_earlier_one(aws: None, server: orcas.Server, bucket: str) -> None:
    archive(bucket, "may", "Draft")
    archive(bucket, "may", "Final")
    listed = server.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert [(entry["Key"], entry["Size"]) for entry in listed] == [("reports/may.txt", 5)]


def test_a_bucket_that_is_not_there_is_an_error(aws: None) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        archive("missing", "may", "All is well.")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v", "-p", "no:cacheprovider"]))
