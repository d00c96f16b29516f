"""Test code that uses S3: Orcas's pytest plugin runs a real server in memory, without mocks, accounts or network access.

Run it with `pytest test_with_plugin.py` or `python test_with_plugin.py`. All tests share one server; each has a bucket of
its own. Installing Orcas is all that it takes: pytest finds `s3`, `orcas_bucket` and `orcas_control`, and clients in tests
that use one of them find the server.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from orcas.testing import Control


# The code under test. It does not know Orcas.
def archive(bucket: str, name: str, text: str) -> str:
    """Store a report and return its key."""
    key = f"reports/{name}.txt"
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
    return key


def test_a_report_is_archived(s3: Any, orcas_bucket: str) -> None:
    key = archive(orcas_bucket, "may", "All is well.")
    assert s3.get_object(Bucket=orcas_bucket, Key=key)["Body"].read() == b"All is well."


def test_a_later_report_replaces_an_earlier_one(s3: Any, orcas_bucket: str) -> None:
    archive(orcas_bucket, "may", "Draft")
    archive(orcas_bucket, "may", "Final")
    listed = s3.list_objects_v2(Bucket=orcas_bucket)["Contents"]
    assert [(entry["Key"], entry["Size"]) for entry in listed] == [("reports/may.txt", 5)]


def test_a_bucket_that_is_not_there_is_an_error(s3: Any) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        archive("missing", "may", "All is well.")


def test_a_report_outlasts_a_busy_server(s3: Any, orcas_bucket: str, orcas_control: Control) -> None:
    orcas_control.record()
    with orcas_control.fault("error", operation="PutObject", code="SlowDown", times=2):
        key = archive(orcas_bucket, "may", "All is well.")
    assert [request.status for request in orcas_control.requests("PutObject")] == [503, 503, 200]
    assert s3.head_object(Bucket=orcas_bucket, Key=key)["ContentLength"] == 12


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v", "-p", "no:cacheprovider"]))
