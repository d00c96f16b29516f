"""Events delivered to services of AWS by a live server, which their ARNs name; the services are a stand-in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.events.aws import ACCESS_KEY, ARNS, SECRET_KEY, calls, table_of, taking
from tests.fixtures.events.receivers import Receiver, receiving, toml
from tests.fixtures.serving import Running, serving
from tests.fixtures.sources import ROOT
from tests.fixtures.waiting import wait_until

from orcas.settings.config import environment

pytestmark = pytest.mark.conformance

PAGE = ROOT / "docs" / "events" / "aws.md"
CREATED = ["s3:ObjectCreated:*"]
QUEUE = {"QueueArn": ARNS["sqs"], "Events": CREATED}


@contextlib.contextmanager
def notifying(directory: Path, text: str) -> Iterator[tuple[Running, Any]]:
    """A server with this file of targets, and the bucket `photos`."""
    (directory / "targets.toml").write_text(text)
    variables = {"ORCAS_EVENT_TARGETS_FILE": str(directory / "targets.toml")}
    with serving(directory, level="info", form="json", **variables) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="photos")
        yield server, s3


def configure(s3: Any, **configurations: Any) -> None:
    s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration=configurations)


def sent(receiver: Receiver, service: str) -> list[dict[str, Any]]:
    """What came to a service."""
    return [call.event for call in calls(receiver) if call.service == service]


def names(receiver: Receiver, service: str) -> list[str]:
    """The names of the events that came to a service, and of test messages."""
    events = sent(receiver, service)
    return [event["Event"] if "Event" in event else event["Records"][0]["eventName"] for event in events]


def test_events_go_where_arns_lead(tmp_path: Path) -> None:
    with receiving(taking) as receiver:
        tables = {f"my-{kind}": table_of(kind, receiver) for kind in ARNS}
        with notifying(tmp_path, toml(tables)) as (_, s3):
            topic = {"TopicArn": ARNS["sns"], "Events": ["s3:ObjectRemoved:*"]}
            function = {"LambdaFunctionArn": ARNS["lambda"], "Events": ["s3:ObjectTagging:*"]}
            wanted = {
                "QueueConfigurations": [QUEUE], "TopicConfigurations": [topic],
                "LambdaFunctionConfigurations": [function], "EventBridgeConfiguration": {},
            }  # fmt: skip
            configure(s3, **wanted)
            shown = s3.get_bucket_notification_configuration(Bucket="photos")
            assert shown.keys() - {"ResponseMetadata"} == wanted.keys()
            assert shown["EventBridgeConfiguration"] == {}
            assert wait_until(lambda: len(receiver.received) == 2)
            s3.put_object(Bucket="photos", Key="a b", Body=b"x")
            s3.put_object_tagging(Bucket="photos", Key="a b", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
            s3.delete_object(Bucket="photos", Key="a b")
            assert wait_until(lambda: len(receiver.received) == 8)
    assert names(receiver, "sqs") == ["s3:TestEvent", "ObjectCreated:Put"]
    assert names(receiver, "sns") == ["s3:TestEvent", "ObjectRemoved:Delete"]
    assert names(receiver, "lambda") == ["ObjectTagging:Put"]
    bus = sent(receiver, "events")
    assert [event["DetailType"] for event in bus] == ["Object Created", "Object Tags Added", "Object Deleted"]
    assert {event["Detail"]["object"]["key"] for event in bus} == {"a b"}
    assert sent(receiver, "sqs")[1]["Records"][0]["s3"]["object"]["key"] == "a+b"


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:sqs:us-east-1:123456789012:other",
        "arn:aws:sqs:us-east-1:210987654321:jobs",
        "arn:aws:sqs:us-east-1::mine",
        "arn:aws:sqs:us-east-1:123456789012:jobs.fifo",
    ],
    ids=["another queue", "another account", "the name of the target", "fifo"],
)
def test_an_arn_that_leads_nowhere_is_refused(s3_of: Any, arn: str) -> None:
    with pytest.raises(ClientError) as refused:
        configure(s3_of, QueueConfigurations=[QUEUE | {"QueueArn": arn}])
    error = refused.value.response["Error"]
    assert (error["Code"], error["ArgumentName"]) == ("InvalidArgument", arn)
    assert error["Message"] == "Unable to validate the following destination configurations"


@pytest.fixture(scope="module")
def s3_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a server that knows one queue, to which nothing is sent."""
    receiver = Receiver("http://127.0.0.1:9/hook")
    text = toml({"mine": table_of("sqs", receiver)})
    with notifying(tmp_path_factory.mktemp("refusals"), text) as (_, s3):
        yield s3


def test_the_event_bus_needs_a_target(s3_of: Any) -> None:
    with pytest.raises(ClientError, match="need a target of the type eventbridge") as refused:
        configure(s3_of, EventBridgeConfiguration={})
    assert refused.value.response["Error"]["Code"] == "NotImplemented"


def test_what_a_service_refuses_becomes_a_dead_letter_without_credentials(tmp_path: Path) -> None:
    def refuse(_: Any) -> tuple[int, bytes]:
        text = f"{ACCESS_KEY} may not do sqs:SendMessage"
        return 403, f'{{"__type":"com.amazonaws.sqs#AccessDenied","message":"{text}"}}'.encode()

    data, reason = tmp_path / "store", "HTTP status 403: AccessDenied: ACCESS_KEY may not do sqs:SendMessage"
    with receiving(refuse) as receiver:
        text = toml({"mine": table_of("sqs", receiver, attempts=1)})
        with notifying(tmp_path, text) as (server, s3):
            configure(s3, QueueConfigurations=[QUEUE])
            s3.put_object(Bucket="photos", Key="k", Body=b"x")
            assert wait_until((data / "webhooks" / "mine.dead").exists)
            (state,) = document("events", "targets", "--data", data)["targets"]
            assert (state["type"], state["dead"], state["failing"]) == ("sqs", 1, reason)
            assert state["address"] == f"{ARNS['sqs']} at {receiver.url.split('/')[2]}"
            (letter,) = document("events", "dead", "mine", "--data", data)["dead"]
            assert (letter["key"], letter["reason"]) == ("k", reason)
            receiver.answers = taking
            command("events", "resend", "mine", "--data", data)
            assert wait_until(lambda: document("events", "dead", "mine", "--data", data)["count"] == 0)
            assert names(receiver, "sqs")[-1] == "ObjectCreated:Put"
            metrics = server.wire("GET", "/_orcas/metrics", sign=False).body.decode()
            shown = server.text() + str(state) + str(letter) + metrics
    assert reason in shown
    for result, count in (("ok", 1), ("dead", 1)):
        assert re.search(rf'^orcas_event_deliveries_total{{.*"mine".*"{result}"}} {count}$', metrics, re.MULTILINE)
    assert not re.search(f"{re.escape(SECRET_KEY)}|{ACCESS_KEY}", shown)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (table,), (program,) = (
        re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for language in ("toml", "python")
    )
    for name, value in (("events.key", ACCESS_KEY), ("events.secret", SECRET_KEY)):
        (tmp_path / name).write_text(f"{value}\n")
    with receiving(taking) as receiver:
        local, count = re.subn(
            r'"https://\w+\.us-east-1\.amazonaws\.com"',
            f'"{receiver.url.partition("/hook")[0]}"\nprivate = true',
            table,
        )
        assert count == 2
        (tmp_path / "targets.toml").write_text(local.replace("/etc/orcas/", f"{tmp_path}/"))
        variables = {"ORCAS_EVENT_TARGETS_FILE": str(tmp_path / "targets.toml")}
        with serving(tmp_path, level="info", form="json", **variables) as server:
            found = {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ACCESS_KEY_ID": server.keys[0]}
            found |= {"AWS_SECRET_ACCESS_KEY": server.keys[1], "AWS_REGION": "us-east-1"}
            with environment(found):
                boto3.DEFAULT_SESSION = None
                exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102 - the document's own code
            assert wait_until(lambda: len(receiver.received) == 3)
    assert sorted(names(receiver, "sqs")) == ["ObjectCreated:Put", "s3:TestEvent"]
    (event,) = sent(receiver, "events")
    assert (event["Source"], event["DetailType"]) == ("orcas.s3", "Object Created")
