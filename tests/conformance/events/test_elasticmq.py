"""Events delivered to ElasticMQ, a server that takes the place of SQS and shares no code with Orcas or botocore."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.events.aws import ARNS
from tests.fixtures.events.brokers import FETCHED, free_port, is_open
from tests.fixtures.events.receivers import toml
from tests.fixtures.keys import admin
from tests.fixtures.targets import running
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.full]

QUEUE = {"QueueArn": ARNS["sqs"], "Events": ["s3:ObjectCreated:*"]}


@contextlib.contextmanager
def elasticmq(directory: Path) -> Iterator[Any]:
    """A client of a server that has no queue yet."""
    if shutil.which("java") is None or not any((FETCHED / "elasticmq").glob("elasticmq*.jar")):
        pytest.skip("ElasticMQ is not below target/elasticmq: `CI=1 .ci/run test` fetches it if it can")
    port = free_port()
    configuration = {
        "rest-sqs": {"enabled": True, "bind-hostname": "127.0.0.1", "bind-port": port, "sqs-limits": "strict"},
        "rest-stats": {"enabled": False}, "node-address": {"host": "127.0.0.1", "port": port},
        "aws": {"region": "us-east-1", "accountId": "123456789012"},
    }  # fmt: skip
    # JSON is a part of its language.
    (directory / "one.conf").write_text(f'include classpath("application.conf")\n{json.dumps(configuration)[1:-1]}')
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dconfig.file={directory / 'one.conf'}"]
    start = ["java", *options, "-cp", str(FETCHED / "elasticmq" / "*"), "org.elasticmq.server.Main"]
    with (directory / "log").open("wb") as log, subprocess.Popen(start, stdout=log, stderr=log) as process:
        try:
            assert wait_until(lambda: is_open(port), 60), (directory / "log").read_text()
            yield boto3.client(
                "sqs", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", aws_access_key_id="any",
                aws_secret_access_key="key", config=Config(retries={"total_max_attempts": 1}),
            )  # fmt: skip
        finally:
            process.kill()


def test_events_come_into_a_queue_and_wait_until_there_is_one(tmp_path: Path) -> None:
    with elasticmq(tmp_path) as sqs:
        table: dict[str, object] = {
            "type": "sqs", "arn": ARNS["sqs"], "endpoint": sqs.meta.endpoint_url, "private": True, "attempts": 20,
            "access_key": "any", "secret_key": "key",
        }  # fmt: skip
        (tmp_path / "targets.toml").write_text(toml({"mine": table}))
        with running(None, event_targets_file=str(tmp_path / "targets.toml")) as target:
            s3 = target.client()
            s3.create_bucket(Bucket="photos")
            s3.put_bucket_notification_configuration(
                Bucket="photos", NotificationConfiguration={"QueueConfigurations": [QUEUE]}
            )
            s3.put_object(Bucket="photos", Key="k <é>", Body=b"x")
            # What was refused is tried again.
            assert wait_until(lambda: "QueueDoesNotExist" in failing(target))
            url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
            found: list[dict[str, Any]] = []

            def records() -> list[dict[str, Any]]:
                for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                    found.extend(json.loads(message["Body"]).get("Records", []))
                return found

            assert wait_until(records, 30)
    (record,) = found
    assert (record["eventName"], record["s3"]["object"]["key"]) == ("ObjectCreated:Put", "k+%3C%C3%A9%3E")


def failing(target: Any) -> str:
    """Why the last delivery failed."""
    (state,) = admin(target, "GET", "targets")["targets"]
    return str(state["failing"])
