"""Test messages to targets of all kinds: in their format, with the true outcome, and past the queue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fixtures.events.aws import ARNS, call_of, table_of, taking
from tests.fixtures.events.receivers import SECRET, Received, receiving, toml

from orcas.targets.delivery import Deliveries
from orcas.targets.file import read_targets

FORMATS = ("s3", "cloudevents", "minio")


class NoJournal:
    """A test message does not come from there."""

    def deliveries(self, target: str, after: str | None, /) -> None:
        raise AssertionError(f"{target} is asked about from {after} on")


def said(kind: str, received: Received) -> str:
    """The event that came."""
    if kind == "eventbridge":
        return str(call_of(received).event["Detail"]["Event"])
    message = call_of(received).event if kind in ARNS else json.loads(received.body)
    return str((message["data"] if kind == "cloudevents" else message)["Event"])


def deliveries_to(directory: Path, table: dict[str, object]) -> Deliveries:
    file = directory / "targets.toml"
    file.write_text(toml({"one": table}), encoding="utf-8")
    return Deliveries(NoJournal(), read_targets(file), directory)


@pytest.mark.parametrize("kind", [*FORMATS, *ARNS])
def test_a_test_message_says_what_came_of_it(tmp_path: Path, kind: str) -> None:
    with receiving(taking if kind in ARNS else lambda _: 200) as receiver:
        hook = {"type": "webhook", "url": receiver.url, "secret": SECRET, "private": True, "format": kind}
        deliveries = deliveries_to(tmp_path, table_of(kind, receiver) if kind in ARNS else hook)
        assert deliveries.test("one") is None
        assert said(kind, receiver.received[0]) == "s3:TestEvent"
        receiver.answers = lambda _: (500, b"{}")
        failure = deliveries.test("one")
        assert failure is not None
        assert "HTTP status 500" in failure.reason
        (state,) = deliveries.describe()
        assert (state["delivered"], state["failed_attempts"], state["dead"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("client", "table"),
    [
        ("aiokafka", {"type": "kafka", "brokers": ["127.0.0.1:9"], "topic": "t"}),
        ("nats", {"type": "nats", "servers": ["nats://127.0.0.1:9"], "subject": "s"}),
    ],
)
def test_a_broker_that_nobody_reaches_is_no_success(tmp_path: Path, client: str, table: dict[str, object]) -> None:
    pytest.importorskip(client)
    failure = deliveries_to(tmp_path, {**table, "private": True, "timeout_sec": 5}).test("one")
    assert failure is not None
    assert failure.reason
