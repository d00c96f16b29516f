"""Metrics of what a live server does besides requests: encryption, events, documents, and content that it cannot read."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import botocore.exceptions
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.events.receivers import SECRET, Received, receiving
from tests.fixtures.serving import Running, serving
from tests.fixtures.waiting import wait_until

HOLD: Final = threading.Event()
STARTED: Final = time.time()


def answer(received: Received) -> int:
    """One key is refused, one waits for the test."""
    if received.key == "waits":
        HOLD.wait(30)
    return 500 if received.key == "refused" else 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("work")
    with receiving(answer) as receiver:
        targets = directory / "targets.toml"
        targets.write_text(f'[hook]\nurl = "{receiver.url}"\nsecret = "whsec_{SECRET}"\nprivate = true\nattempts = 1\n')
        settings = {
            "ORCAS_EVENT_TARGETS_FILE": str(targets), "ORCAS_SCRUB_BYTES_PER_SEC": "0",
            "ORCAS_MASTER_KEY": base64.b64encode(bytes(range(32))).decode(),
        }  # fmt: skip
        with serving(directory, level="info", form="json", **settings) as running:
            running.client().create_bucket(Bucket="bucket")
            yield running


def value(server: Running, name: str, **labels: str) -> float:
    """The sum of the samples with these labels."""
    text = server.wire("GET", "/_orcas/metrics", sign=False).body.decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_encryption_counts_bytes_by_algorithm_and_the_times_of_keys(server: Running) -> None:
    s3 = server.client()
    body = os.urandom(300_000)
    s3.put_object(Bucket="bucket", Key="sealed", Body=body, ServerSideEncryption="AES256")
    assert s3.get_object(Bucket="bucket", Key="sealed")["Body"].read() == body
    for operation in ("encrypt", "decrypt"):
        assert value(server, "orcas_encrypted_bytes_total", operation=operation) == len(body)
        assert value(server, "crypto_encryption_duration_seconds_count", operation=operation) >= 1
    assert value(server, "orcas_key_duration_seconds_count", operation="derive") == 1
    # One data key for one owner: unwrapped once, cached from then on.
    s3.put_object(Bucket="bucket", Key="sealed too", Body=body[:1000], ServerSideEncryption="AES256")
    assert value(server, "orcas_key_duration_seconds_count", operation="unwrap") == 1
    assert value(server, "crypto_cache_hit_rate") >= 0.5


def test_lists_and_documents_are_timed_and_objects_are_not(server: Running) -> None:
    s3 = server.client()
    before = {kind: documents(server, kind) for kind in ("serialize", "deserialize")}
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")
    s3.get_object(Bucket="bucket", Key="k")["Body"].read()
    assert {kind: documents(server, kind) for kind in before} == before
    s3.list_objects_v2(Bucket="bucket")
    s3.list_object_versions(Bucket="bucket")
    s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "k"}]})
    assert documents(server, "serialize") == before["serialize"] + 2
    assert documents(server, "deserialize") == before["deserialize"] + 1


def documents(server: Running, kind: str) -> float:
    return value(server, "serialization_duration_seconds_count", operation=kind)


def test_a_target_that_is_behind_shows_it_and_what_became_of_deliveries(server: Running) -> None:
    s3 = server.client()
    function = {"Id": "mine", "LambdaFunctionArn": "arn:aws:lambda:us-east-1::function:hook"}
    s3.create_bucket(Bucket="told")
    s3.put_bucket_notification_configuration(
        Bucket="told",
        NotificationConfiguration={"LambdaFunctionConfigurations": [{**function, "Events": ["s3:ObjectCreated:*"]}]},
    )
    for key in ("taken", "refused", "waits"):
        s3.put_object(Bucket="told", Key=key, Body=b"x")

    def results() -> list[float]:
        name = "orcas_event_deliveries_total"
        return [value(server, name, target="hook", result=result) for result in ("ok", "retried", "dead")]

    assert wait_until(lambda: results() == [1, 0, 1])
    # It is counted before it is written.
    assert wait_until(lambda: value(server, "orcas_event_dead_letters", target="hook") == 1)
    lag = value(server, "orcas_event_lag_seconds", target="hook")
    assert value(server, "orcas_event_lag_records", target="hook") >= 1
    assert 0 < lag < 60
    assert wait_until(lambda: value(server, "orcas_event_lag_seconds", target="hook") > lag)
    HOLD.set()
    assert wait_until(lambda: results() == [2, 0, 1])
    # Objects of another bucket are no events for it, and do not leave it behind.
    s3.put_object(Bucket="bucket", Key="untold", Body=b"x")
    assert wait_until(lambda: value(server, "orcas_event_lag_records", target="hook") == 0)
    assert value(server, "orcas_event_lag_seconds", target="hook") == 0
    assert value(server, "orcas_event_gaps_total", target="hook") == 0
    assert wait_until(lambda: value(server, "orcas_event_journal_lag_records") == 0)
    assert value(server, "orcas_event_journal_bytes") > 0
    assert value(server, "orcas_event_journal_failed") == 0


def test_a_response_that_breaks_off_at_damage_is_broken(server: Running, tmp_path_factory: Any) -> None:
    s3 = server.client()
    body = os.urandom(8 << 20)
    s3.put_object(Bucket="bucket", Key="damaged", Body=body)
    damage(server.stderr.parent, body[7 << 20 :][:100])
    with pytest.raises((botocore.exceptions.HTTPClientError, botocore.exceptions.IncompleteReadError)):
        s3.get_object(Bucket="bucket", Key="damaged")["Body"].read()
    name = "orcas_requests_total"
    assert wait_until(lambda: value(server, name, operation="GetObject", result="broken") == 1)
    assert value(server, name, operation="GetObject", result="incomplete") == 0


def damage(directory: Path, content: bytes) -> None:
    """Change a byte of this content on the disk."""
    for path in directory.glob("store/**/*"):
        if path.is_file() and (at := path.read_bytes().find(content)) >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([content[0] ^ 1]))
            return
    raise AssertionError("the content is not on the disk")


def test_the_process_says_when_it_started_and_what_it_takes(server: Running) -> None:
    assert STARTED - 2 < value(server, "process_start_time_seconds") < time.time() + 1
    assert 0 < value(server, "process_cpu_seconds_total") < time.time() - STARTED + 60
    assert value(server, "process_resident_memory_bytes") > 10 << 20
