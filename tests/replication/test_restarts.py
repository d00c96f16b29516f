"""Kills and restarts of either server, with a ledger outside: nothing is lost, and little is sent twice."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from tests.fixtures.serving import Running, serving
from tests.fixtures.targets import Target, running
from tests.fixtures.waiting import wait_until
from tests.replication.conftest import versioned

from orcas.tools.session import HttpTransport, Session

BUCKET = "ledger"
# Keys that are looked at in one turn: what is under way when a server is killed.
AT_ONCE = 64


def admin(server: Running, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
    session = Session(HttpTransport(server.url), server.keys, "us-east-1")
    with contextlib.closing(session):
        return session.admin(method, path, order)


def join(here: Running, there: Running | Target) -> None:
    versioned(here.client(), BUCKET)
    versioned(there.client(), BUCKET)
    if isinstance(there, Target):
        url, keys = there.server.endpoint, (there.server.access_key, there.server.secret_key)
    else:
        url, keys = there.url, there.keys
    target = {"name": "t", "url": url, "private": True, "access_key": keys[0], "secret_key": keys[1]}
    admin(here, "PUT", "replication/targets", target)
    admin(here, "POST", "replication/rules", {"bucket": BUCKET, "target": "t", "to": BUCKET, "markers": True})


class Ledger(threading.Thread):
    """Writes and deletes, and notes what was acknowledged: the last state of each key, and how many changes there were."""

    def __init__(self, server: Running, seed: int) -> None:
        super().__init__()
        self.server = server
        self.state: dict[str, bytes | None] = {}
        # The last request for these had no answer.
        self.unknown: set[str] = set()
        self.changes = 0
        self.stop = threading.Event()
        self._random = random.Random(seed)

    def run(self) -> None:
        client = self.server.client()
        while not self.stop.is_set():
            key = f"k{self._random.randrange(50)}"
            body = None if self._random.random() < 0.2 else self._random.randbytes(20)
            try:
                if body is None:
                    client.delete_object(Bucket=BUCKET, Key=key)
                else:
                    client.put_object(Bucket=BUCKET, Key=key, Body=body)
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                self.unknown.add(key)
                return
            self.state[key] = body
            self.unknown.discard(key)
            self.changes += 1


def is_settled(server: Running) -> bool:
    until = admin(server, "GET", "replication")["sequence"]

    def done() -> bool:
        routes = admin(server, "GET", "replication")["routes"]
        return len(routes) == 1 and routes[0]["sequence"] >= until and not routes[0]["exceptions"]

    return wait_until(done)


def bodies(client: Any) -> dict[str, bytes]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.full)])
def test_nothing_is_lost_when_either_server_is_killed(tmp_path: Path, kills: int) -> None:
    places = tmp_path / "here", tmp_path / "there"
    state: dict[str, bytes | None] = {}
    unknown: set[str] = set()
    changes = 0
    with contextlib.ExitStack() as stack:

        def begin(place: Path, port: str = "0") -> Running:
            place.mkdir(exist_ok=True)
            return stack.enter_context(serving(place, "--port", port, level="warning", form="json"))

        here, there = map(begin, places)
        join(here, there)
        for turn in range(kills):
            ledger = Ledger(here, turn)
            ledger.start()
            enough = random.Random(turn).randrange(20, 200)
            assert wait_until(lambda ledger=ledger, enough=enough: ledger.changes > enough)
            if turn % 2:
                here.process.kill()
                ledger.join()
                here.process.wait()
                here = begin(places[0])
            else:
                there.process.kill()
                there.process.wait()
                # It takes copies again at the same address, while others are written.
                there = begin(places[1], there.url.rpartition(":")[2])
                ledger.stop.set()
                ledger.join()
            state |= ledger.state
            unknown = (unknown - ledger.state.keys()) | ledger.unknown
            changes += ledger.changes
        assert is_settled(here)
        mine, theirs = bodies(here.client()), bodies(there.client())
        assert theirs == mine
        for key, body in state.items():
            assert key in unknown or mine.get(key) == body, key
        found = list(there.client().get_paginator("list_object_versions").paginate(Bucket=BUCKET))
    copies = sum(len(page.get("Versions", [])) + len(page.get("DeleteMarkers", [])) for page in found)
    assert copies <= changes + kills * (AT_ONCE + 1)


def test_a_target_that_was_away_gets_what_it_missed(tmp_path: Path) -> None:
    with serving(tmp_path, level="warning", form="json") as here:
        with running(tmp_path / "there") as there:
            join(here, there)
            here.client().put_object(Bucket=BUCKET, Key="before", Body=b"1")
            assert is_settled(here)
            port = int(there.server.endpoint.rpartition(":")[2])
        for number in range(200):
            here.client().put_object(Bucket=BUCKET, Key=f"k{number % 70}", Body=b"%d" % number)
        assert wait_until(lambda: bool(admin(here, "GET", "replication")["routes"][0]["failing"]))
        with running(tmp_path / "there", port=port) as there:
            assert is_settled(here)
            assert bodies(there.client()) == bodies(here.client())
