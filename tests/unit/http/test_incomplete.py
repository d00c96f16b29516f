"""Incomplete small bodies as Python counts them: which are ended, and that they may say so themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from orcas._core import IncompleteBodies, IncompleteBody

LIMIT = 1600


@dataclass
class Bodies:
    all: IncompleteBodies = field(default_factory=lambda: IncompleteBodies(LIMIT))
    ended: list[str] = field(default_factory=list)

    def body(self, name: str, client: str) -> IncompleteBody:
        def shed() -> None:
            self.ended.append(name)
            # As the request does when it notices this.
            body.forget()

        body = self.all.body(client, shed)
        return body


def test_one_that_exceeds_the_limit_alone_is_ended() -> None:
    bodies = Bodies()
    body = bodies.body("one", "testclient")
    body.grow(LIMIT)
    assert bodies.ended == []
    body.grow(1)
    assert bodies.ended == ["one"]
    assert bodies.all.total == 0


def test_addresses_of_one_network_are_one_client() -> None:
    bodies = Bodies()
    first, second = bodies.body("first", "fe80::1%eth0"), bodies.body("second", "fe80::2%eth1")
    other = bodies.body("other", "192.0.2.1")
    other.grow(700)
    first.grow(450)
    second.grow(451)
    assert bodies.ended == ["first"]
    other.forget()
    second.forget()
    assert bodies.all.total == 0
