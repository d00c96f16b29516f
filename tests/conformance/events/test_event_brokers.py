"""Events delivered to Kafka and NATS JetStream by a live server: in order, again after failures, and dead letters."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nkeys import PREFIX_BYTE_USER
from tests.fixtures.commands import command, document
from tests.fixtures.events.brokers import PASSWORD, SMALL, USER, Broker, Kafka, broker_of
from tests.fixtures.events.nats_accounts import Accounts, Pair
from tests.fixtures.events.receivers import toml
from tests.fixtures.serving import Running, serving
from tests.fixtures.waiting import wait_until

from orcas.targets.file import read_targets
from orcas.targets.senders import open_senders
from orcas.targets.sending import Message

pytestmark = [pytest.mark.conformance, pytest.mark.full]

BROKERS = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ("kafka", "nats")]


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_of(request.param, tmp_path_factory.mktemp(request.param)) as started:
        for place in ("events", "others"):
            started.create(place)
        started.create("small", largest=SMALL)
        yield started


@contextlib.contextmanager
def notifying(directory: Path, *, kind: str = "Topic", **tables: dict[str, object]) -> Iterator[tuple[Running, Any]]:
    """A server with these targets, each of which gets the events of the bucket of its name."""
    file = directory / "targets.toml"
    file.write_text(toml(tables))
    service = {"Topic": "sns", "LambdaFunction": "lambda"}[kind]
    with serving(directory, level="info", form="json", ORCAS_EVENT_TARGETS_FILE=str(file)) as server:
        s3 = server.client()
        have = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        for name in tables.keys() - have:
            s3.create_bucket(Bucket=name)
            function = "function:" if kind == "LambdaFunction" else ""
            arn = f"arn:aws:{service}:us-east-1::{function}{name}"
            rule = {f"{kind}Arn": arn, "Events": ["s3:ObjectCreated:*"]}
            s3.put_bucket_notification_configuration(
                Bucket=name, NotificationConfiguration={f"{kind}Configurations": [rule]}
            )
        try:
            yield server, s3
        finally:
            s3.close()
            assert server.stop() == 0


def function(directory: Path, **tables: dict[str, object]) -> contextlib.AbstractContextManager[tuple[Running, Any]]:
    """The same without test messages."""
    return notifying(directory, kind="LambdaFunction", **tables)


def states(directory: Path) -> dict[str, dict[str, Any]]:
    # Tests ask again and again, and a command is no small thing.
    time.sleep(0.1)
    found = document("events", "targets", "--data", directory / "store")["targets"]
    return {state["name"]: state for state in found}


def letters(directory: Path, name: str) -> list[dict[str, Any]]:
    time.sleep(0.1)
    found: list[dict[str, Any]] = document("events", "dead", name, "--data", directory / "store")["dead"]
    return found


def messages(server: Running) -> str:
    return "\n".join(str(line["message"]) for line in server.lines())


def test_events_come_once_and_in_order_for_a_key(broker: Broker, tmp_path: Path) -> None:
    tables = {
        "plain": broker.table("events"),
        "cloud": broker.table("others", format="cloudevents"),
    }
    with notifying(tmp_path, **tables) as (_, s3):
        for number in range(60):
            s3.put_object(Bucket="plain", Key=f"k{number % 3}", Body=b"x" * number)
        s3.put_object(Bucket="cloud", Key="a b", Body=b"x")
        assert wait_until(lambda: {one["delivered"] for one in states(tmp_path).values()} == {60, 1})
        assert states(tmp_path)["plain"]["type"] == broker.kind
    (test, *events) = sorted(broker.taken("events"), key=lambda one: b"TestEvent" not in one.body)
    assert json.loads(test.body)["Event"] == "s3:TestEvent"
    assert len({one.id for one in events}) == len(events) == 60
    assert {one.content_type for one in events} == {"application/json"}
    for number in range(3):
        of_key = [one.size for one in events if f'"key":"k{number}"'.encode() in one.body]
        assert of_key == list(range(number, 60, 3))
    if broker.kind == "kafka":
        assert {one.key for one in events} == {"plain/k0", "plain/k1", "plain/k2"}
    else:
        assert {one.key for one in events} == {"events.plain"}
    (cloud,) = broker.taken("others")
    event = json.loads(cloud.body)
    assert (event["id"], cloud.content_type) == (cloud.id, "application/cloudevents+json")
    assert (event["specversion"], event["subject"]) == ("1.0", "a b")


def test_a_broker_that_comes_and_goes_gets_everything_in_order(broker: Broker, tmp_path: Path) -> None:
    broker.stop()
    with function(tmp_path, away=broker.table("events", attempts=20, timeout_sec=2)) as (server, s3):
        assert wait_until(lambda: "The target away cannot be reached, and its events wait: no " in messages(server))
        assert "`orcas events targets`" in messages(server)
        for number in range(30):
            s3.put_object(Bucket="away", Key="k", Body=b"x" * number)
            if number == 9:
                broker.start()
                assert wait_until(lambda: states(tmp_path)["away"]["delivered"] == 10, 60)
            if number == 19:
                broker.stop()
        assert wait_until(lambda: "The target away does not take events" in messages(server))
        broker.start()
        assert wait_until(lambda: states(tmp_path)["away"]["delivered"] == 30, 60)
        assert "The target away takes events again" in messages(server)
        assert states(tmp_path)["away"]["dead"] == 0
    sizes = [one.size for one in broker.taken("events") if b'"name":"away"' in one.body]
    # An event that was confirmed when the broker went away may be there twice, one after the other.
    assert sorted(set(sizes)) == list(range(30))
    assert sizes == sorted(sizes)


def test_what_a_broker_does_not_take_becomes_a_dead_letter(broker: Broker, tmp_path: Path) -> None:
    tables: dict[str, dict[str, object]] = {
        "missing": broker.table("nowhere", attempts=1, timeout_sec=2),
        "small": broker.table("small", attempts=9),
        "public": broker.table("events", attempts=1, private=False),
    }
    secret = tmp_path / "password"
    secret.write_text("unknown to brokers\n")
    credentials: dict[str, object] = {"user": USER, "password_file": str(secret), "attempts": 1}
    if isinstance(broker, Kafka):
        credentials |= {"sasl": "SCRAM-SHA-512", "brokers": [f"127.0.0.1:{broker.auth_port}"]}
    tables["wrong"] = broker.table("events", **credentials)
    reasons = {
        "missing": "UnknownTopicOrPartition" if broker.kind == "kafka" else "no stream takes the subject nowhere",
        "small": "MessageSizeTooLarge" if broker.kind == "kafka" else "message size exceeds maximum allowed",
        "public": "127.0.0.1 is no public address, and the target is not marked private",
        "wrong": "uthentication failed" if broker.kind == "kafka" else "uthorization",
    }
    with function(tmp_path, **tables) as (server, s3):
        for name in tables:
            s3.put_object(Bucket=name, Key="k", Body=b"x")
        for name, reason in reasons.items():
            assert wait_until(lambda name=name: bool(letters(tmp_path, name))), name  # type: ignore[misc]
            (letter,) = letters(tmp_path, name)
            assert reason in letter["reason"], name
            assert (letter["attempts"], letter["key"]) == (1, "k")
        assert "unknown to brokers" not in server.text()
        (letter,) = letters(tmp_path, "missing")
        broker.create("nowhere")
        command("events", "resend", "missing", "--data", tmp_path / "store")
        assert wait_until(lambda: letters(tmp_path, "missing") == [])
        assert [one.id for one in broker.taken("nowhere")] == [letter["id"]]


def test_a_server_stops_while_a_broker_hangs(broker: Broker, tmp_path: Path) -> None:
    target = broker.table("events", timeout_sec=60)
    with function(tmp_path, hangs=target) as (server, s3):
        s3.put_object(Bucket="hangs", Key="k", Body=b"x")
        assert wait_until(lambda: states(tmp_path)["hangs"]["delivered"] == 1)
        with broker.paused():
            s3.put_object(Bucket="hangs", Key="k", Body=b"xx")
            time.sleep(0.5)
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 10
    with function(tmp_path, hangs=target):
        assert wait_until(lambda: states(tmp_path)["hangs"]["delivered"] == 1)
        assert letters(tmp_path, "hangs") == []


def attempted(directory: Path, table: dict[str, object]) -> str | None:
    """Why a message is not delivered to this target, if it is not."""
    path = directory / "one.toml"
    path.write_text(toml({"one": table}))
    (target,) = read_targets(path).values()
    (sender,) = open_senders(target, 1)
    try:
        failure = sender.send(Message("1", "photos", "k", b"{}", "application/json"))
    finally:
        sender.close()
    return None if failure is None else failure.reason


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
@pytest.mark.xdist_group("kafka")
def test_tls_and_passwords_of_kafka(broker: Kafka, tmp_path: Path) -> None:
    tls: dict[str, object] = {"brokers": [f"127.0.0.1:{broker.tls_port}"], "tls": True}
    broker.create("secure")
    assert attempted(tmp_path, broker.table("secure", ca_file=str(broker.certificate), **tls)) is None
    assert "certificate verify failed" in str(attempted(tmp_path, broker.table("secure", **tls)))
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        password: dict[str, object] = {"sasl": mechanism, "user": USER, "password": PASSWORD}
        table = broker.table("secure", brokers=[f"127.0.0.1:{broker.auth_port}"], **password)
        assert attempted(tmp_path, table) is None
    assert len(broker.taken("secure")) == 3


@pytest.mark.xdist_group("nats")
def test_tls_and_passwords_of_nats(tmp_path: Path) -> None:
    with broker_of("nats", tmp_path, tls=True) as broker:
        table = broker.table("t", servers=[f"tls://127.0.0.1:{broker.port}"])
        assert "certificate verify failed" in str(attempted(tmp_path, table))
        table |= {"ca_file": str(broker.certificate), "user": USER, "password": PASSWORD}
        # It gets in, and there is no stream.
        assert attempted(tmp_path, table) == "no stream takes the subject t.photos"
        assert "uthorization" in str(attempted(tmp_path, table | {"password": "another"}))
    with broker_of("nats", tmp_path) as broker:
        broker.create("events")
        assert attempted(tmp_path, broker.table("events", user=USER, password=PASSWORD, stream="EVENTS")) is None
        # The same id again: the stream keeps it once.
        assert attempted(tmp_path, broker.table("events", stream="EVENTS")) is None
        assert len(broker.taken("events")) == 1
        assert "stream" in str(attempted(tmp_path, broker.table("events", stream="OTHER")))


@pytest.mark.xdist_group("nats")
def test_credentials_of_nats(tmp_path: Path) -> None:
    accounts, others = Accounts(), Accounts()
    with broker_of("nats", tmp_path, accounts=accounts) as broker:
        broker.create("events")

        def failure(credentials: Path | None) -> str | None:
            values = {} if credentials is None else {"credentials_file": str(credentials)}
            return attempted(tmp_path, broker.table("events", **values))

        assert failure(accounts.credentials(tmp_path / "orcas.creds")) is None
        (taken,) = broker.taken("events")
        assert (taken.key, taken.body) == ("events.photos", b"{}")
        refused = {
            "none": None,
            "of another operator": others.credentials(tmp_path / "other.creds"),
            "signed by another account": accounts.credentials(tmp_path / "forged.creds", by=others.account),
            "with another seed": accounts.credentials(tmp_path / "seed.creds", seed=Pair(PREFIX_BYTE_USER).seed),
            "expired": accounts.credentials(tmp_path / "expired.creds", exp=int(time.time()) - 60),
        }
        for name, credentials in refused.items():
            assert "uthorization" in str(failure(credentials)), name
        assert len(broker.taken("events")) == 1
