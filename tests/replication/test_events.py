"""Events of copies that failed, at the targets that the notifications of the bucket name: once for each server process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fixtures.events.receivers import SECRET, Receiver, receiving, toml
from tests.fixtures.servers.tampering import Answer, tampering
from tests.fixtures.targets import Target, running
from tests.fixtures.waiting import wait_until
from tests.replication.conftest import add_target, admin, routes, versioned

BUCKET = "photos"
FUNCTION = "arn:aws:lambda:us-east-1::function:hook"


def refuses(method: str, path: str, answer: Answer) -> None:
    if method == "PUT" and path.startswith(f"/{BUCKET}/") and not path.endswith("good"):
        answer.status, answer.body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        answer.headers = [("content-length", str(len(answer.body)))]


@contextlib.contextmanager
def notifying(data: Path, receiver: Receiver) -> Iterator[Target]:
    """A server whose target `hook` is the receiver."""
    file = data / "targets.toml"
    file.write_text(toml({"hook": {"url": receiver.url, "secret": SECRET, "private": True}}))
    with running(data / "store", event_targets_file=str(file)) as here:
        yield here


def configure(here: Target, event: str, prefix: str) -> None:
    rules = {"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}}
    function = {"Id": "mine", "LambdaFunctionArn": FUNCTION, "Events": [event], **rules}
    here.client().put_bucket_notification_configuration(
        Bucket=BUCKET, NotificationConfiguration={"LambdaFunctionConfigurations": [function]}
    )


def test_a_webhook_hears_of_a_copy_that_failed(tmp_path: Path, servers: tuple[Target, Target]) -> None:
    there = servers[1]
    versioned(there.client(), BUCKET)
    with tampering(there.server.endpoint, refuses) as proxy, receiving() as receiver:
        with notifying(tmp_path, receiver) as here:
            client = here.client()
            versioned(client, BUCKET)
            add_target(here, "backup", proxy.url, there)
            configure(here, "s3:Replication:*", "a/")
            admin(here, "POST", "replication/rules", {"bucket": BUCKET, "target": "backup", "to": BUCKET})
            assert wait_until(lambda: bool(routes(here, BUCKET)))
            for key in ("a/good", "b/bad"):
                client.put_object(Bucket=BUCKET, Key=key, Body=b"x")
            put = client.put_object(Bucket=BUCKET, Key="a/bad é", Body=b"12345")
            (rule,) = client.get_bucket_replication(Bucket=BUCKET)["ReplicationConfiguration"]["Rules"]
            stored = client.head_object(Bucket=BUCKET, Key="a/bad é")["LastModified"]
            assert wait_until(lambda: len(receiver.received) == 1)
            # All have been looked at.
            assert wait_until(lambda: len(routes(here, BUCKET)[0]["exceptions"]) == 2)
        (first,) = receiver.received
        assert first.is_signed()
        (record,) = json.loads(first.body)["Records"]
        found: dict[str, Any] = record["s3"]["object"]
        assert record["eventName"] == "Replication:OperationFailedReplication"
        assert record["s3"]["configurationId"] == "mine"
        assert record["userIdentity"] == {"principalId": "s3.amazonaws.com"}
        expected = ("a/bad+%C3%A9", 5, put["ETag"].strip('"'), put["VersionId"])
        assert (found["key"], found["size"], found["eTag"], found["versionId"]) == expected
        data = record["replicationEventData"]
        assert data.pop("requestTime").startswith(f"{stored:%Y-%m-%dT%H:%M:%S}.")
        assert data == {
            "replicationRuleId": rule["ID"], "destinationBucket": f"arn:aws:s3:::backup/{BUCKET}",
            "s3Operation": "OBJECT_PUT", "failureReason": "AccessDenied",
        }  # fmt: skip
        with notifying(tmp_path, receiver):
            assert wait_until(lambda: len(receiver.received) == 2)
        again = receiver.received[1]
        assert (again.headers["webhook-id"], again.key) == (first.headers["webhook-id"], first.key)
