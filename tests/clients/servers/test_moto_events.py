"""Events delivered to SQS, SNS and EventBridge of moto's server, which shares no code with Orcas."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.clients import package
from tests.fixtures.events.aws import ARNS
from tests.fixtures.events.receivers import toml
from tests.fixtures.targets import running
from tests.fixtures.waiting import wait_until

threaded = package("moto.moto_server.threaded_moto_server")
# Rules of EventBridge need it there.
package("jsonpath_ng")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

EVENTS = ["s3:ObjectCreated:*"]
KINDS = ("sqs", "sns", "eventbridge")


@pytest.fixture
def client() -> Iterator[Callable[[str], Any]]:
    """Clients of the services of moto's server."""
    server = threaded.ThreadedMotoServer(port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield lambda service: boto3.client(
            service, endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="any", aws_secret_access_key="key",
            region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
    finally:
        server.stop()


def test_events_come_through_each_service(client: Callable[[str], Any], tmp_path: Path) -> None:
    sqs, sns, events = client("sqs"), client("sns"), client("events")
    queues = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("jobs", "of-topic", "of-bus")}
    owner = ARNS["sqs"].removesuffix(":jobs")
    topic = sns.create_topic(Name="uploads")["TopicArn"]
    assert topic == ARNS["sns"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{owner}:of-topic")
    events.put_rule(Name="created", EventPattern=json.dumps({"source": ["aws.s3"], "detail-type": ["Object Created"]}))
    events.put_targets(Rule="created", Targets=[{"Id": "1", "Arn": f"{owner}:of-bus"}])
    common = {"endpoint": sqs.meta.endpoint_url, "private": True, "access_key": "any", "secret_key": "key"}
    text = toml({f"my-{kind}": {"type": kind, "arn": ARNS[kind], **common} for kind in KINDS})
    (tmp_path / "targets.toml").write_text(text)
    with running(None, event_targets_file=str(tmp_path / "targets.toml")) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="photos")
        wanted = {
            "QueueConfigurations": [{"QueueArn": ARNS["sqs"], "Events": EVENTS}],
            "TopicConfigurations": [{"TopicArn": ARNS["sns"], "Events": ["s3:ObjectRemoved:*"]}],
            "EventBridgeConfiguration": {},
        }
        s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration=wanted)
        s3.put_object(Bucket="photos", Key="a b", Body=b"x")
        s3.delete_object(Bucket="photos", Key="a b")
        found: dict[str, list[Any]] = {name: [] for name in queues}

        def received() -> bool:
            for name, url in queues.items():
                for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                    found[name].append(json.loads(message["Body"]))
            return [len(messages) for messages in found.values()] == [2, 2, 1]

        assert wait_until(received, 30), found
    names = sorted(event.get("Event") or event["Records"][0]["eventName"] for event in found["jobs"])
    assert names == ["ObjectCreated:Put", "s3:TestEvent"]
    assert {envelope["Subject"] for envelope in found["of-topic"]} == {"Amazon S3 Notification"}
    of_topic = [json.loads(envelope["Message"]) for envelope in found["of-topic"]]
    assert [event["Records"][0]["eventName"] for event in of_topic if "Records" in event] == ["ObjectRemoved:Delete"]
    (event,) = found["of-bus"]
    assert (event["source"], event["resources"]) == ("aws.s3", ["arn:aws:s3:::photos"])
    assert (event["detail"]["version"], event["detail"]["object"]["key"]) == ("0", "a b")
