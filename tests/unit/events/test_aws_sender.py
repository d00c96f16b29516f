"""Senders to services of AWS: signed requests, and what counts as taken."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.events.aws import ACCESS_KEY, ARNS, SECRET_KEY, calls, table_of, taking
from tests.fixtures.events.receivers import Answers, Receiver, receiving, toml

from orcas.targets.delivery import Delivery, message_of
from orcas.targets.file import read_targets
from orcas.targets.kinds import Format
from orcas.targets.senders import open_senders
from orcas.targets.sending import Failure, Message, Sender

RECORD: dict[str, Any] = {
    "eventVersion": "2.3", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventTime": "2026-01-02T03:04:05.678Z",
    "eventName": "ObjectCreated:Put", "userIdentity": {"principalId": "alice"},
    "requestParameters": {"sourceIPAddress": "0.0.0.0"},
    "responseElements": {"x-amz-request-id": "00000000000000AB", "x-amz-id-2": "host"},
    "s3": {
        "s3SchemaVersion": "1.0", "configurationId": "mine",
        "bucket": {"name": "photos", "ownerIdentity": {"principalId": "owner"}, "arn": "arn:aws:s3:::photos"},
        "object": {"key": "a+%C3%A9", "size": 3, "eTag": "e", "versionId": "v", "sequencer": "0A"},
    },
}  # fmt: skip
KINDS = list(ARNS)


def delivery(name: str = "ObjectCreated:Put", **of_object: object) -> Delivery:
    """An event of the object `a é`."""
    subject = RECORD["s3"] | {"object": of_object or RECORD["s3"]["object"]}
    message = json.dumps({"Records": [RECORD | {"eventName": name, "s3": subject}]}).encode()
    return {"id": "1", "time_ms": 0, "bucket": "photos", "key": "a é", "message": message, "is_test": False}


def message(kind: str, event: Delivery | None = None) -> Message:
    form: Format = "eventbridge" if kind == "eventbridge" else "s3"
    return message_of(form, event or delivery())


@contextlib.contextmanager
def sending(
    tmp_path: Path, kind: str, answers: Answers = taking, **values: object
) -> Iterator[tuple[Sender, Receiver]]:
    with receiving(answers) as receiver:
        path = tmp_path / "targets.toml"
        path.write_text(toml({"mine": table_of(kind, receiver, **values)}))
        (target,) = read_targets(path).values()
        (sender,) = open_senders(target, 1)
        with contextlib.closing(sender):
            yield sender, receiver


def failure_of(tmp_path: Path, kind: str, answers: Answers, **values: object) -> Failure:
    with sending(tmp_path, kind, answers, **values) as (sender, _):
        failure = sender.send(message(kind))
    assert failure is not None
    assert not any(secret in failure.reason for secret in (ACCESS_KEY, SECRET_KEY))
    return failure


@pytest.mark.parametrize("kind", KINDS)
def test_the_request_is_that_of_a_client(tmp_path: Path, kind: str) -> None:
    with sending(tmp_path, kind) as (sender, receiver):
        # The connection is kept.
        assert [sender.send(message(kind)) for _ in range(2)] == [None, None]
        url = receiver.url.partition("/hook")[0]
    call, _ = calls(receiver)
    parameters = call.parameters
    match kind:
        case "sqs":
            assert parameters["QueueUrl"] == f"{url}/123456789012/jobs"
        case "sns":
            assert (parameters["TopicArn"], parameters["Subject"]) == (ARNS["sns"], "Amazon S3 Notification")
        case "lambda":
            named = {name: parameters[name] for name in ("FunctionName", "Qualifier", "InvocationType")}
            assert named == {"FunctionName": "resize", "Qualifier": "live", "InvocationType": "Event"}
        case "eventbridge":
            assert parameters["Entries"][0]["EventBusName"] == ARNS["eventbridge"]
            return
    assert call.event == {"Records": [RECORD]}


def on_bus(tmp_path: Path, event: Delivery, **values: object) -> dict[str, Any]:
    """What arrives at EventBridge."""
    with sending(tmp_path, "eventbridge", **values) as (sender, receiver):
        assert sender.send(message("eventbridge", event)) is None
    (call,) = calls(receiver)
    return call.event


def test_an_event_at_eventbridge_is_that_of_s3(tmp_path: Path) -> None:
    event = on_bus(tmp_path, delivery())
    assert event == {
        "EventBusName": ARNS["eventbridge"], "Source": "aws.s3", "Time": 1_767_323_045,
        "Resources": ["arn:aws:s3:::photos"], "DetailType": "Object Created",
        "Detail": {
            "version": "0", "bucket": {"name": "photos"},
            "object": {"key": "a é", "size": 3, "etag": "e", "version-id": "v", "sequencer": "0A"},
            "request-id": "00000000000000AB", "requester": "alice", "source-ip-address": "0.0.0.0",
            "reason": "PutObject",
        },
    }  # fmt: skip
    assert on_bus(tmp_path, delivery(), source="orcas.s3")["Source"] == "orcas.s3"


@pytest.mark.parametrize(
    ("name", "kind", "reason", "deletion"),
    [
        ("ObjectCreated:CompleteMultipartUpload", "Object Created", "CompleteMultipartUpload", None),
        ("ObjectRemoved:Delete", "Object Deleted", "DeleteObject", "Permanently Deleted"),
        ("ObjectRemoved:DeleteMarkerCreated", "Object Deleted", "DeleteObject", "Delete Marker Created"),
        ("LifecycleExpiration:Delete", "Object Deleted", "Lifecycle Expiration", "Permanently Deleted"),
        ("ObjectTagging:Put", "Object Tags Added", None, None),
        ("ObjectTagging:Delete", "Object Tags Deleted", None, None),
    ],
)
def test_events_have_the_names_of_eventbridge(name: str, kind: str, reason: str | None, deletion: str | None) -> None:
    event = json.loads(message("eventbridge", delivery(name, key="a", sequencer="0A")).body)
    detail = json.loads(event["Detail"])
    assert (event["DetailType"], detail.get("reason"), detail.get("deletion-type")) == (kind, reason, deletion)
    assert detail["object"] == {"key": "a é", "sequencer": "0A"}


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        (
            "sqs", (400, b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"There is none"}'),
            "HTTP status 400: QueueDoesNotExist: There is none",
        ),
        (
            "sns",
            (404, b"<ErrorResponse><Error><Code>NotFound</Code><Message>Topic does\n not exist</Message>"),
            "HTTP status 404: NotFound: Topic does not exist",
        ),
        ("lambda", (404, b'{"Type":"User","Message":"Function not found"}'), "HTTP status 404: Function not found"),
        (
            "eventbridge",
            (200, b'{"FailedEntryCount":1,"Entries":[{"ErrorCode":"NotAuthorized","ErrorMessage":"No."}]}'),
            "EventBridge did not say that it took the event: NotAuthorized: No.",
        ),
        ("sqs", (403, f'{{"__type":"x#SignatureDoesNotMatch","message":"{ACCESS_KEY}/2026"}}'.encode()),
         "HTTP status 403: SignatureDoesNotMatch: ACCESS_KEY/2026"),
        # Something else answers there.
        ("sqs", (200, b"ok"), "SQS did not say that it took the event"),
        ("sqs", (200, b'{"MessageId":""}'), "SQS did not say that it took the event"),
        ("sqs", (200, b"[]"), "SQS did not say that it took the event"),
        ("sns", (200, b"<html/>"), "SNS did not say that it took the event"),
        ("eventbridge", (200, b"{}"), "EventBridge did not say that it took the event"),
        ("lambda", 503, "HTTP status 503"),
    ],
)  # fmt: skip
def test_a_failure_says_why(tmp_path: Path, kind: str, answer: int | tuple[int, bytes], reason: str) -> None:
    failure = failure_of(tmp_path, kind, lambda _: answer)
    assert (failure.reason, failure.final) == (reason, False)


@pytest.mark.parametrize("kind", KINDS)
def test_another_secret_is_noticed(tmp_path: Path, kind: str) -> None:
    """The stand-in checks signatures."""
    assert "the signature is another one" in failure_of(tmp_path, kind, taking, secret_key="of-another").reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_no_service_takes_is_not_sent(tmp_path: Path, kind: str) -> None:
    with sending(tmp_path, kind) as (sender, receiver):
        largest = Message("1", "photos", "k", b'{"Detail":"' + b"x" * (262_144 - 13) + b'"}', "application/json")
        assert sender.send(largest) is None
        failure = sender.send(Message("1", "photos", "k", largest.body + b" ", "application/json"))
    assert failure is not None
    assert failure.final
    assert failure.reason.startswith("the message has 262145 bytes, and ")
    assert len(receiver.received) == 1


def test_a_service_that_finds_it_too_large_gets_it_once(tmp_path: Path) -> None:
    assert failure_of(tmp_path, "lambda", lambda _: 413).final


def test_a_service_at_a_private_address_must_be_marked(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "sqs", taking, private=False)
    assert failure.reason == "127.0.0.1 has no public address, and the target is not marked private"
