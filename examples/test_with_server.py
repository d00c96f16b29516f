"""Testing code that talks to S3: a pytest fixture with a real server in memory, no mocks, no account, no network.

Run it with `pytest test_with_server.py` or `python test_with_server.py`. One server serves all tests, since starting one
takes a good part of a second; each test gets a bucket of its own. Copy the three fixtures into a `conftest.py`.
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
    """A server for all tests. It ends with the test run, however that ends."""
    with orcas.Server(memory=True) as server:
        yield server


@pytest.fixture
def bucket(server: orcas.Server) -> str:
    """A bucket of this test's own."""
    name = f"test-{uuid.uuid4().hex}"
    server.client().create_bucket(Bucket=name)
    return name


@pytest.fixture
def aws(server: orcas.Server) -> Iterator[None]:
    """`boto3.client("s3")` in the code under test, and in programs that it starts, means this server."""
    with server.env():
        yield


# The code under test. It knows nothing of Orcas.
def archive(bucket: str, name: str, text: str) -> str:
    """Store a report; its key."""
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
