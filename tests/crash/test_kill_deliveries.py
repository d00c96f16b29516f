"""A server that is killed while events are delivered: every event arrives, in order for a key, some more than once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.events.aws import ARNS, calls, table_of, taking
from tests.fixtures.events.receivers import SECRET, Received, Receiver, receiving, toml
from tests.fixtures.waiting import wait_until

import orcas

pytestmark = pytest.mark.crash

KEYS, KILLS, WRITES = 4, 3, 30


def serve(tmp_path: Path) -> orcas.Server:
    return orcas.Server(data=tmp_path / "store", event_targets_file=str(tmp_path / "targets.toml"))


def sequencers(receiver: Receiver) -> dict[str, list[int]]:
    """For each key, its events as they came."""
    found: dict[str, list[int]] = {}
    if receiver.received and "x-amz-date" in receiver.received[0].headers:
        messages = [call.event for call in calls(receiver)]
    else:
        messages = [json.loads(received.body) for received in list(receiver.received)]
    for message in messages:
        (record,) = message["Records"]
        found.setdefault(record["s3"]["object"]["key"], []).append(int(record["s3"]["object"]["sequencer"], 16))
    return found


def delivered(receiver: Receiver) -> int:
    """How many different events came."""
    return sum(len(set(numbers)) for numbers in sequencers(receiver).values())


def configure(s3: Any, arn: str) -> None:
    s3.create_bucket(Bucket="photos")
    function = {"LambdaFunctionArn": arn, "Events": ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(
        Bucket="photos", NotificationConfiguration={"LambdaFunctionConfigurations": [function]}
    )


@pytest.mark.parametrize("kind", ["webhook", "lambda"])
def test_events_outlast_the_death_of_the_process(tmp_path: Path, kind: str) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.randrange(1 << 32)))
    rng, written, lacking = random.Random(seed), 0, 0

    def answer(received: Received) -> int | tuple[int, bytes]:
        """Some requests fail, and some are under way when the server dies."""
        if rng.random() < 0.03:
            return 503
        return 200 if kind == "webhook" else taking(received)

    with receiving(answer) as receiver:
        table: dict[str, object] = {"url": receiver.url, "secret": SECRET, "private": True, "attempts": 20}
        arn = "arn:aws:lambda:us-east-1::function:hook"
        if kind != "webhook":
            table, arn = table_of(kind, receiver, attempts=20), ARNS[kind]
        (tmp_path / "targets.toml").write_text(toml({"hook": table}))
        for _ in range(KILLS):
            with serve(tmp_path) as server:
                s3 = server.client()
                if not written:
                    configure(s3, arn)
                for _ in range(WRITES):
                    s3.put_object(Bucket="photos", Key=f"k{rng.randrange(KEYS)}", Body=b"x")
                    written += 1
                time.sleep(rng.random() * 0.05)
                os.kill(server.pid, signal.SIGKILL)
            lacking += written - delivered(receiver)
        with serve(tmp_path):
            assert wait_until(lambda: delivered(receiver) >= written, 60), f"CRASH_SEED={seed}"
    assert lacking > 0, f"nothing was under way when the server died: CRASH_SEED={seed}"
    for key, numbers in sequencers(receiver).items():
        # What comes for the first time is newer than everything before it.
        first_times = list(dict.fromkeys(numbers))
        assert first_times == sorted(first_times), f"{key}, CRASH_SEED={seed}"
    assert delivered(receiver) == written, f"CRASH_SEED={seed}"
