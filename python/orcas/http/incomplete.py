"""Limits the memory of incomplete small bodies, by ending some of them.

No body waits here. If all together exceed the limit, bodies of the client that holds most are ended, beginning with the one
that has received nothing for the longest time. So a client that stalls takes nothing from others, however many connections
it has. Must not know what is stored.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

# The share of the budget for bodies that those of strangers may hold: of clients whose signature comes after the head.
STRANGERS_SHARE: Final = 8
# The share of the limit that is freed at once: finding the largest client takes time proportional to their number.
_FREED_SHARE: Final = 16


class Body(Protocol):
    """An incomplete body."""

    @property
    def client(self) -> Hashable:
        """The client that sends it."""

    def shed(self) -> None:
        """End it: the client gets 503 `SlowDown`."""


class IncompleteBodies:
    """The small bodies of a server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        # Bytes of each body, by client. The body that grew last is at the end.
        self._clients: dict[Hashable, dict[Body, int]] = {}
        self._held: dict[Hashable, int] = {}

    @property
    def total(self) -> int:
        """Bytes in memory."""
        return self._total

    def grow(self, body: Body, count: int) -> None:
        """`count` more bytes of `body` have arrived. This may end bodies, `body` included."""
        client = body.client
        bodies = self._clients.setdefault(client, {})
        bodies[body] = bodies.pop(body, 0) + count
        self._held[client] = self._held.get(client, 0) + count
        self._total += count
        if self._total > self._limit:
            self._make_room(self._limit - self._limit // _FREED_SHARE)

    def forget(self, body: Body) -> None:
        """`body` is complete or was ended."""
        client = body.client
        bodies = self._clients.get(client, {})
        count = bodies.pop(body, 0)
        self._total -= count
        if bodies:
            self._held[client] -= count
        elif client in self._clients:
            del self._clients[client], self._held[client]

    def _make_room(self, limit: int) -> None:
        while self._total > limit:
            largest = max(self._held, key=self._held.__getitem__)
            body = next(iter(self._clients[largest]))
            self.forget(body)
            body.shed()
