"""PutBucketLogging: records in the format of S3, as objects of the target bucket."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.serving import SECRET_KEY, Running, serving

NAME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}-[0-9]{2}-[0-9]{2}-[0-9A-F]{16}"
FIELD = re.compile(r'\[[^\]]*\]|"[^"]*"|\S+')


def enable(s3: Any, source: str, target: str, **more: Any) -> None:
    logging = {"TargetBucket": target, "TargetPrefix": "logs/", **more}
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus={"LoggingEnabled": logging})


def delivered(s3: Any, target: str, count: int = 1) -> dict[str, list[list[str]]]:
    """The records of each log object, as fields, once there are as many records."""
    found: dict[str, list[list[str]]] = {}
    for _ in range(300):
        keys = {entry["Key"] for entry in s3.list_objects_v2(Bucket=target).get("Contents", [])}
        for key in keys - set(found):
            body = s3.get_object(Bucket=target, Key=key)["Body"].read().decode()
            found[key] = [FIELD.findall(line) for line in body.splitlines()]
        if sum(map(len, found.values())) >= count:
            break
        time.sleep(0.05)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with serving(tmp_path, level="info", form="json", ORCAS_LOG_DELIVERY_SEC="1") as running:
        s3 = running.client()
        for bucket in ("source", "target"):
            s3.create_bucket(Bucket=bucket)
        yield running


def test_requests_to_a_logged_bucket_become_records_in_the_target(server: Running) -> None:
    s3 = server.client()
    enable(s3, "source", "target")
    put = s3.put_object(Bucket="source", Key="a b", Body=b"12345")
    s3.get_object(Bucket="source", Key="a b", Range="bytes=0-1")["Body"].read()
    with pytest.raises(ClientError):
        s3.get_object(Bucket="source", Key="missing")
    objects = delivered(s3, "target", 4)
    owner = s3.list_buckets()["Owner"]["ID"]
    assert all(re.fullmatch(f"logs/{NAME}", key) for key in objects)
    records = [record for records in objects.values() for record in records]
    by_operation = {(record[6], record[9]): record for record in records}
    stored, read, missing = (
        by_operation[kind]
        for kind in (("REST.PUT.OBJECT", "200"), ("REST.GET.OBJECT", "206"), ("REST.GET.OBJECT", "404"))
    )
    assert ("REST.PUT.LOGGING_STATUS", "200") in by_operation
    assert {len(record) for record in records} == {26}
    assert stored[:2] == [owner, "source"]
    assert re.fullmatch(r"\[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} \+0000\]", stored[2])
    assert stored[3:6] == ["127.0.0.1", owner, put["ResponseMetadata"]["RequestId"]]
    assert stored[7:9] == ["a%2520b", '"PUT /source/a%20b HTTP/1.1"']
    assert read[10:13] == ["-", "2", "5"]
    assert missing[10] == "NoSuchKey"
    assert stored[19:22] == ["SigV4", "-", "AuthHeader"]
    assert stored[22] == server.url.removeprefix("http://")
    assert stored[18] == put["ResponseMetadata"]["HostId"]


def test_presigned_urls_are_logged_without_their_signatures(server: Running) -> None:
    s3 = server.client()
    enable(s3, "source", "target")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "source", "Key": "k"})
    _, _, query = url.partition("?")
    signature = query.rpartition("=")[2]
    # Names are decoded before they are verified.
    query = query.replace("X-Amz-Signature", "X-Amz-%53ignature")
    sent = {"Host": server.wire.netloc, "Referer": url}
    assert server.wire.send("GET", "/source/k?" + query, sent).status == 404
    records = [record for records in delivered(s3, "target", 2).values() for record in records]
    line = next(record for record in records if record[6] == "REST.GET.OBJECT")
    assert "X-Amz-%53ignature=REDACTED" in line[8]
    assert line[15] == f'"{server.url}/source/k"'
    assert signature not in str(records)
    assert line[21] == "QueryString"
    assert SECRET_KEY not in str(records)


@pytest.mark.parametrize("source", ["EventTime", "DeliveryTime"])
def test_keys_can_be_partitioned(server: Running, source: str) -> None:
    s3 = server.client()
    enable(s3, "source", "target", TargetObjectKeyFormat={"PartitionedPrefix": {"PartitionDateSource": source}})
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.head_bucket(Bucket="source")
    (key, *_) = delivered(s3, "target")
    assert re.fullmatch(f"logs/{owner}/us-east-1/source/[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}/{NAME}", key)
    assert ("-00-00-00-" in key) is (source == "EventTime")


def test_what_is_written_is_read_and_can_be_turned_off(server: Running) -> None:
    s3 = server.client()
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")
    format_ = {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}
    enable(s3, "source", "target", TargetObjectKeyFormat=format_)
    expected = {"TargetBucket": "target", "TargetPrefix": "logs/", "TargetObjectKeyFormat": format_}
    assert s3.get_bucket_logging(Bucket="source")["LoggingEnabled"] == expected
    s3.put_bucket_logging(Bucket="source", BucketLoggingStatus={})
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")
    s3.head_bucket(Bucket="source")
    # Longer than records wait.
    time.sleep(2.5)
    records = [record for found in delivered(s3, "target", 2).values() for record in found]
    assert "REST.HEAD.BUCKET" not in {record[6] for record in records}


def test_a_target_must_exist_and_take_no_grants(server: Running) -> None:
    s3 = server.client()
    with pytest.raises(ClientError) as refused:
        enable(s3, "source", "missing")
    assert refused.value.response["Error"]["Code"] == "InvalidTargetBucketForLogging"
    grant = {"Grantee": {"Type": "CanonicalUser", "ID": "0" * 64}, "Permission": "READ"}
    with pytest.raises(ClientError) as refused:
        enable(s3, "source", "target", TargetGrants=[grant])
    assert refused.value.response["Error"]["Code"] == "AccessControlListNotSupported"
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")


def test_records_are_delivered_when_the_server_stops(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_LOG_DELIVERY_SEC="3600") as server:
        s3 = server.client()
        for bucket in ("source", "target", "gone"):
            s3.create_bucket(Bucket=bucket)
        enable(s3, "source", "target")
        s3.head_bucket(Bucket="source")
        # Larger than what is collected in memory.
        for number in range(300):
            s3.list_objects_v2(Bucket="source", Prefix=f"{number}" * 100)
        enable(s3, "gone", "gone")
        s3.head_bucket(Bucket="gone")
        s3.delete_bucket(Bucket="gone")
        assert s3.list_objects_v2(Bucket="target")["KeyCount"] == 0
        assert server.stop() == 0
        # The bucket that was its own target is gone.
        (said,) = [line for line in server.lines() if line["message"].startswith("Log records of bucket")]
        assert "gone could not be delivered to gone: NoSuchBucket" in said["message"]
    with serving(tmp_path, level="info", form="json") as server:
        (records,) = delivered(server.client(), "target").values()
        assert len(records) == 302


def test_nobody_can_forge_a_record(server: Running) -> None:
    s3 = server.client()
    enable(s3, "source", "target")
    forged = "%5B%0Aowner%20source%20%5B01/Jan/2026:00:00:00%20+0000%5D%20forged%20+0000%5D"
    sent = {"Host": server.wire.netloc, "User-Agent": 'x" y "', "Referer": "a b"}
    assert server.wire.send("GET", f"/source/k?versionId={forged}", sent).status == 403
    records = [record for found in delivered(s3, "target", 2).values() for record in found]
    assert len(records) == 2
    assert {len(record) for record in records} == {26}
