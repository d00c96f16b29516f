"""Small bodies that have not come whole yet: what they hold in memory, and who is ended when that is too much.

Nobody waits here: what has come of a body is taken in, and if all of them together exceed the limit, those that have been
silent longest are ended, of the client whose bodies hold most. So one who stalls costs others nothing, from however many
connections. Knows bodies and clients, not what is stored.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

# So much of the limit is freed at once: looking for a client costs more the more there are.
_FREED_SHARE: Final = 16


class Body(Protocol):
    """A body on its way in, as `orcas.http.exchange` has it."""

    @property
    def client(self) -> Hashable:
        """Whose it is."""

    def shed(self) -> None:
        """End it: the client is told to try again."""


class Pending:
    """The small bodies of a server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        # Bytes of each body, by client; the one that grew last at the end.
        self._clients: dict[Hashable, dict[Body, int]] = {}
        self._held: dict[Hashable, int] = {}

    @property
    def total(self) -> int:
        """Bytes in memory."""
        return self._total

    def grow(self, body: Body, count: int) -> None:
        """`count` more bytes of `body` have come. May end bodies, this one too."""
        client = body.client
        bodies = self._clients.setdefault(client, {})
        bodies[body] = bodies.pop(body, 0) + count
        self._held[client] = self._held.get(client, 0) + count
        self._total += count
        if self._total > self._limit:
            self._make_room(self._limit - self._limit // _FREED_SHARE)

    def forget(self, body: Body) -> None:
        """It has come whole, or never will."""
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
