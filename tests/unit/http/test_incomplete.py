"""Incomplete small bodies: what they hold together, and which of them are ended when that is too much."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from orcas.http.extensions import client_of
from orcas.http.incomplete import IncompleteBodies

LIMIT = 1600


@dataclass(eq=False)
class Body:
    client: str
    incomplete: IncompleteBodies
    ended: list[Body] = field(default_factory=list)

    def shed(self) -> None:
        self.ended.append(self)
        # As the request does when it notices this.
        self.incomplete.forget(self)


def test_those_silent_longest_are_ended_of_the_client_that_holds_most() -> None:
    incomplete, ended = IncompleteBodies(LIMIT), []
    patient = Body("other", incomplete, ended)
    incomplete.grow(patient, 600)
    stalled = [Body("one", incomplete, ended) for _ in range(10)]
    for body in stalled:
        incomplete.grow(body, 100)
    assert ended == []
    incomplete.grow(stalled[0], 1)
    assert ended == [stalled[1], stalled[2]], "the first has just grown; and a sixteenth is freed"
    incomplete.forget(patient)
    assert incomplete.total == 801


def test_one_that_exceeds_the_limit_alone_is_ended() -> None:
    incomplete, ended = IncompleteBodies(LIMIT), []
    body = Body("one", incomplete, ended)
    incomplete.grow(body, LIMIT)
    assert ended == []
    incomplete.grow(body, 1)
    assert ended == [body]
    assert incomplete.total == 0


def test_what_is_held_never_exceeds_the_limit_and_comes_back() -> None:
    draw = random.Random(1)
    incomplete, ended = IncompleteBodies(LIMIT), []
    bodies = [Body(str(number % 7), incomplete, ended) for number in range(100)]
    for _ in range(5_000):
        body = draw.choice(bodies)
        if draw.random() < 0.8:
            incomplete.grow(body, draw.randrange(200))
        else:
            incomplete.forget(body)
        assert 0 <= incomplete.total <= LIMIT
    assert ended
    for body in bodies:
        incomplete.forget(body)
    assert incomplete.total == 0
    assert incomplete._clients == incomplete._held == {}


def test_addresses_of_one_network_are_one_client() -> None:
    def client(host: str | None) -> str:
        return client_of({"client": host and (host, 1)})

    assert client("192.0.2.1") != client("192.0.2.2")
    assert client("2001:db8:0:1::1") == client("2001:db8:0:1:ffff::2") != client("2001:db8:0:2::1")
    assert client("fe80::1%eth0") == client("fe80::2%eth1")
    assert client(None) == ""
