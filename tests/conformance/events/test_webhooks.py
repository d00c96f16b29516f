"""Events delivered to webhooks by a live server: signed, in order, again after failures, and dead letters."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.events.receivers import SECRET, Received, Receiver, receiving
from tests.fixtures.targets import Target, running
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.conformance

CREATED = ["s3:ObjectCreated:*"]
FUNCTION = "arn:aws:lambda:us-east-1::function:hook"


def described(url: str, **values: object) -> str:
    """A file of targets with one target, `hook`."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"private": True, "attempts": 1, **values}.items()]
    return "\n".join(["[hook]", f"url = {json.dumps(url)}", f'secret = "whsec_{SECRET}"', *lines])


@contextlib.contextmanager
def notifying(
    tmp_path: Path, receiver: Receiver, *, prefix: str = "", **values: object
) -> Iterator[tuple[Target, Any]]:
    """A server with the target `hook`, to which the bucket `photos` sends created objects."""
    file = tmp_path / "targets.toml"
    file.write_text(described(receiver.url, **values))
    with running(tmp_path / "store", event_targets_file=str(file)) as target:
        s3 = target.client()
        if "photos" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
            s3.create_bucket(Bucket="photos")
            rules = {"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}}
            # A function, which gets no test message.
            function = {"Id": "mine", "LambdaFunctionArn": FUNCTION, "Events": CREATED} | rules
            s3.put_bucket_notification_configuration(
                Bucket="photos", NotificationConfiguration={"LambdaFunctionConfigurations": [function]}
            )
        yield target, s3


def state(tmp_path: Path) -> dict[str, Any]:
    (only,) = document("events", "targets", "--data", tmp_path / "store")["targets"]
    found: dict[str, Any] = only
    return found


def letters(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document("events", "dead", "hook", "--data", tmp_path / "store")["dead"]
    return found


def test_an_event_is_delivered_once_signed_and_in_order(tmp_path: Path) -> None:
    with receiving() as receiver, notifying(tmp_path, receiver, prefix="in/") as (_, s3):
        for number in range(20):
            s3.put_object(Bucket="photos", Key="in/k", Body=b"x" * number)
            s3.put_object(Bucket="photos", Key="out/k", Body=b"y")
        assert wait_until(lambda: len(receiver.received) == 20)
        assert all(one.is_signed() for one in receiver.received)
        sizes = [json.loads(one.body)["Records"][0]["s3"]["object"]["size"] for one in receiver.received]
        assert sizes == list(range(20))
        assert len({one.headers["webhook-id"] for one in receiver.received}) == 20
        first = receiver.received[0]
        assert (first.path, first.headers["content-type"]) == ("/hook?a=b", "application/json")
        (record,) = json.loads(first.body)["Records"]
        assert (record["eventName"], record["s3"]["configurationId"]) == ("ObjectCreated:Put", "mine")
        (stored,) = s3.get_bucket_notification_configuration(Bucket="photos")["LambdaFunctionConfigurations"]
        assert stored["Id"] == "mine"
        assert (state(tmp_path)["delivered"], state(tmp_path)["dead"]) == (20, 0)


def test_a_receiver_gets_the_authorization_that_it_asks_for(tmp_path: Path) -> None:
    with receiving() as receiver, notifying(tmp_path, receiver, authorization="Bearer of-the-receiver") as (_, s3):
        s3.put_object(Bucket="photos", Key="k", Body=b"x")
        assert wait_until(lambda: len(receiver.received) == 1)
        assert receiver.received[0].is_signed()
        assert receiver.received[0].headers["authorization"] == "Bearer of-the-receiver"


def test_topics_and_queues_get_a_test_message_once(tmp_path: Path) -> None:
    failures = iter([500])
    with receiving(lambda _: next(failures, 200)) as receiver, notifying(tmp_path, receiver, attempts=9) as (_, s3):

        def configure(**lists: list[dict[str, Any]]) -> str:
            answer = s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration=lists)
            return str(answer["ResponseMetadata"]["RequestId"])

        queue = {"QueueArn": "arn:aws:sqs:us-east-1::hook", "Events": CREATED}
        topic = {"TopicArn": "arn:aws:sns:us-east-1::hook", "Events": ["s3:ObjectRemoved:*"]}
        requests = [configure(QueueConfigurations=[queue])]
        # The next one would take the place of a configuration whose message was not sent yet.
        assert wait_until(lambda: len(receiver.received) == 1)
        requests.append(configure(QueueConfigurations=[queue], TopicConfigurations=[topic]))
        assert wait_until(lambda: len(receiver.received) == 2)
        # Neither an empty document nor a function is tested, and the failure is not repeated.
        configure()
        configure(LambdaFunctionConfigurations=[{"LambdaFunctionArn": FUNCTION, "Events": CREATED}])
        s3.put_object(Bucket="photos", Key="k", Body=b"x")
        assert wait_until(lambda: len(receiver.received) == 3)
        assert receiver.received[2].key == "k"
        assert (state(tmp_path)["delivered"], state(tmp_path)["dead"]) == (1, 0)
    for one, request in zip(receiver.received, requests, strict=False):
        assert one.is_signed()
        message = json.loads(one.body)
        assert abs(time.time() - datetime.fromisoformat(message.pop("Time")).timestamp()) < 60
        assert len(message.pop("HostId")) > 8
        assert message == {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "photos", "RequestId": request}


def test_cloud_events(tmp_path: Path) -> None:
    with receiving() as receiver, notifying(tmp_path, receiver, format="cloudevents") as (_, s3):
        s3.put_object(Bucket="photos", Key="a b", Body=b"x")
        assert wait_until(lambda: bool(receiver.received))
    (one,) = receiver.received
    event = json.loads(one.body)
    assert one.headers["content-type"] == "application/cloudevents+json"
    assert (event["specversion"], event["id"]) == ("1.0", one.headers["webhook-id"])
    assert (event["type"], event["subject"]) == ("com.amazonaws.s3.ObjectCreated:Put", "a b")
    assert event["source"] == "aws:s3.us-east-1.photos"
    assert event["data"]["s3"]["object"]["key"] == "a+b"


def test_what_fails_is_tried_again_before_later_events_of_the_key(tmp_path: Path) -> None:
    failures = iter([500, 503])
    with receiving(lambda _: next(failures, 200)) as receiver, notifying(tmp_path, receiver, attempts=5) as (_, s3):
        for body in (b"1", b"22"):
            s3.put_object(Bucket="photos", Key="k", Body=body)
        assert wait_until(lambda: len(receiver.received) == 4)
    ids = [one.headers["webhook-id"] for one in receiver.received]
    assert (len(set(ids[:3])), len(set(ids))) == (1, 2)


def says(status: int) -> Callable[[Received], int]:
    return lambda _: status


@pytest.mark.parametrize(
    ("answers", "values", "reason"),
    [
        (says(500), {}, "HTTP status 500"),
        (says(302), {}, "HTTP status 302"),
        (says(410), {"attempts": 9}, "HTTP status 410"),
        (lambda _: None, {"timeout_sec": 1}, "no answer within 1 s"),
        (says(200), {"private": False}, "127.0.0.1 has no public address, and the target is not marked private"),
    ],
    ids=["failing", "redirecting", "gone", "hanging", "private"],
)
def test_what_is_not_taken_becomes_a_dead_letter(
    tmp_path: Path, answers: Callable[[Received], int | None], values: dict[str, Any], reason: str
) -> None:
    with receiving(answers, location="/other") as receiver, notifying(tmp_path, receiver, **values) as (_, s3):
        s3.put_object(Bucket="photos", Key="k", Body=b"x")
        path = tmp_path / "store" / "webhooks" / "hook.dead"
        assert wait_until(path.exists)
        (letter,) = letters(tmp_path)
        assert (letter["key"], letter["attempts"], letter["reason"]) == ("k", 1, reason)
        assert len(receiver.received) == (0 if "private" in values else 1)
        if "private" in values:
            return
        receiver.answers = says(200)

        def resent() -> bool:
            # On a busy machine, an answer may take longer than a target of one second waits.
            command("events", "resend", "hook", "--data", tmp_path / "store")
            return wait_until(lambda: letters(tmp_path) == [], 10)

        assert wait_until(resent)
        assert receiver.received[-1].headers["webhook-id"] == letter["id"]


def test_dead_letters_outlast_a_restart_and_can_be_discarded(tmp_path: Path) -> None:
    with receiving(says(500)) as receiver:
        with notifying(tmp_path, receiver) as (_, s3):
            s3.put_object(Bucket="photos", Key="k", Body=b"x")
            assert wait_until((tmp_path / "store" / "webhooks" / "hook.dead").exists)
        with notifying(tmp_path, receiver):
            assert [letter["key"] for letter in letters(tmp_path)] == ["k"]
            command("events", "discard", "hook", "--data", tmp_path / "store")
            assert letters(tmp_path) == []
    assert len(receiver.received) == 1


def test_what_was_not_taken_before_a_restart_is_delivered_after_it(tmp_path: Path) -> None:
    with receiving(says(503)) as receiver:
        with notifying(tmp_path, receiver, attempts=20) as (_, s3):
            for number in range(5):
                s3.put_object(Bucket="photos", Key=f"k{number}", Body=b"x")
            assert wait_until(lambda: bool(receiver.received))
        receiver.answers = says(200)
        with notifying(tmp_path, receiver, attempts=20) as (_, s3):
            s3.put_object(Bucket="photos", Key="later", Body=b"x")
            taken = {"later", *(f"k{number}" for number in range(5))}
            assert wait_until(lambda: set(receiver.keys()) == taken and state(tmp_path)["delivered"] >= 6)


def test_a_removed_notification_sends_nothing_more(tmp_path: Path) -> None:
    with receiving() as receiver, notifying(tmp_path, receiver) as (_, s3):
        s3.put_object(Bucket="photos", Key="before", Body=b"x")
        assert wait_until(lambda: receiver.keys() == ["before"])
        s3.put_bucket_notification_configuration(Bucket="photos", NotificationConfiguration={})
        s3.put_object(Bucket="photos", Key="after", Body=b"x")
        time.sleep(0.5)
        assert receiver.keys() == ["before"]
