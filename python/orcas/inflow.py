"""A large body on its way in, past the parser: the socket is read into memory of whoever takes the body.

Invariants: a read is never longer than what is left of the body, so what follows it stays in the socket; nothing is read
but into memory that the sink has lent; whoever stops it finds the connection as it was. Knows how much is to come and
nothing of what it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from orcas.exchange import Exchange
    from orcas.protocol import LimitedProtocol


class Sink(Protocol):
    """Where a body goes. Before each piece it has admitted one."""

    def push(self, piece: bytes) -> None:
        """Take a piece that is here already."""

    def lend(self, limit: int) -> memoryview:
        """Memory for a read of at most `limit` bytes."""

    def filled(self, count: int) -> bool:
        """Take what was read; whether the next piece is admitted."""


class Inflow(asyncio.BufferedProtocol):
    """The transport's protocol while a body comes in; all but the body is passed on to the connection."""

    def __init__(self, connection: LimitedProtocol, exchange: Exchange, sink: Sink) -> None:
        self._connection = connection
        self.exchange = exchange
        self._sink = sink
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        """What the next read fills."""
        return self._sink.lend(self.exchange.missing)

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        exchange = self.exchange
        exchange.received += nbytes
        admitted = self._sink.filled(nbytes)
        if not exchange.missing:
            self._connection.body_poured(exchange)
        elif not admitted:
            self._connection.flow.pause_reading()
            exchange.wake()
