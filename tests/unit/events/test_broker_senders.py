"""Senders to brokers that hang, lie, or are not there; no broker is started."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.servers.answering import answering
from tests.fixtures.waiting import wait_until

from orcas.errors import ConfigurationError
from orcas.targets.file import read_targets
from orcas.targets.kinds import KafkaTarget, NatsTarget, Target, Tls
from orcas.targets.senders import check_client, open_senders
from orcas.targets.sending import Message, Sender

MESSAGE = Message("1", "photos", "k", b"{}", "application/json")
INFO = {"server_id": "x", "version": "2.15.0", "headers": True, "max_payload": 1_000_000, "proto": 1, "nonce": "n"}


def target(kind: str, port: int, **values: Any) -> Target:
    if kind == "kafka":
        return KafkaTarget(name="t", brokers=(f"127.0.0.1:{port}",), topic="t", private=True, timeout_sec=1)
    nats = NatsTarget(name="t", servers=(f"nats://127.0.0.1:{port}",), subject="t", private=True, timeout_sec=1)
    return replace(nats, **values)


@contextlib.contextmanager
def sending(target: Target) -> Iterator[Sender]:
    (sender,) = open_senders(target, 1)
    yield sender
    sender.close()
    assert wait_until(lambda: not any(thread.name == "orcas-target-t" for thread in threading.enumerate()), 5)


def read_on(connection: socket.socket) -> bytes:
    """All that comes until the other side ends."""
    found = b""
    while data := connection.recv(65_536):
        found += data
    return found


def hang(connection: socket.socket) -> None:
    read_on(connection)


@pytest.mark.parametrize("kind", ["kafka", "nats"])
def test_a_broker_that_says_nothing_is_given_up_in_time(kind: str) -> None:
    with answering(hang) as port, sending(target(kind, port)) as sender:
        began = time.monotonic()
        failure = sender.send(MESSAGE)
        assert failure is not None
        assert not failure.final
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", ["kafka", "nats"])
def test_a_sender_that_is_closed_ends_what_is_under_way(kind: str) -> None:
    with answering(hang) as port:
        hanging = replace(target(kind, port), timeout_sec=60)
        with sending(hanging) as sender:
            closer = threading.Timer(0.2, sender.close)
            closer.start()
            began = time.monotonic()
            assert sender.send(MESSAGE) is not None
            assert time.monotonic() - began < 30
            closer.join()
            failure = sender.send(MESSAGE)
            assert failure is not None
            assert failure.reason == "the sender is closed"


@pytest.mark.parametrize("kind", ["kafka", "nats"])
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INFO {}\r\n-ERR 'no'\r\n", b"\0" * 64])
def test_what_is_no_broker_fails(kind: str, answer: bytes) -> None:
    def answer_once(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.recv(10)

    with answering(answer_once) as port, sending(target(kind, port)) as sender:
        failure = sender.send(MESSAGE)
        assert failure is not None
        assert not failure.final


@pytest.mark.parametrize("acknowledged", [b"x", b"[]", b"{}", b'{"stream": "", "seq": 1}'])
def test_an_answer_that_is_none_of_a_stream_is_no_confirmation(acknowledged: bytes) -> None:
    def lie(connection: socket.socket) -> None:
        connection.sendall(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        buffer, inbox = b"", b""
        while data := connection.recv(65_536):
            buffer += data
            while b"\r\n" in buffer:
                line, buffer = buffer.split(b"\r\n", 1)
                if line == b"PING":
                    connection.sendall(b"PONG\r\n")
                elif line.startswith(b"SUB"):
                    inbox = line.split()[-1]
                elif line.startswith(b"HPUB"):
                    reply = line.split()[2]
                    connection.sendall(b"MSG %s %s %d\r\n%s\r\n" % (reply, inbox, len(acknowledged), acknowledged))

    with answering(lie) as port, sending(target("nats", port)) as sender:
        failure = sender.send(MESSAGE)
        assert failure is not None
        assert "no answer" not in failure.reason


@pytest.mark.parametrize(
    "values", [{"token": "a-secret-token"}, {"user": "me", "password": "a-secret-token"}], ids=["token", "password"]
)
def test_no_password_goes_to_a_server_without_tls(values: dict[str, str]) -> None:
    sent: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"INFO " + json.dumps(INFO | {"auth_required": True}).encode() + b"\r\n")
        sent.append(read_on(connection))

    with answering(serve) as port:
        secured = target("nats", port, servers=(f"tls://127.0.0.1:{port}",), tls=Tls(), **values)
        with sending(secured) as sender:
            failure = sender.send(MESSAGE)
    assert failure is not None
    assert "does not ask for TLS" in failure.reason
    assert b"secret" not in b"".join(sent)


def test_what_clients_log_is_at_debug_and_shows_no_message(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with caplog.at_level(logging.DEBUG), sending(target("kafka", port)) as sender:
        failure = sender.send(MESSAGE)
    assert failure is not None
    assert failure.reason.startswith("no broker can be reached (Unable connect to ")
    # pytest also catches what does not reach the handlers of the server.
    assert not logging.getLogger("aiokafka").propagate
    ours = [record for record in caplog.records if record.name == "orcas.targets"]
    assert {record.levelname for record in ours} == {"DEBUG"}


@pytest.mark.parametrize(("kind", "module"), [("kafka", "aiokafka"), ("nats", "nats")])
def test_a_client_that_is_not_installed_is_named(
    kind: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "targets.toml"
    where = 'brokers = ["b:9092"]\ntopic = "t"' if kind == "kafka" else 'servers = ["nats://b"]\nsubject = "t"'
    path.write_text(f'[queue]\ntype = "{kind}"\n{where}\n')
    (queue,) = read_targets(path).values()
    check_client(queue)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'orcas-s3\[{kind}\]'"):
        check_client(queue)
