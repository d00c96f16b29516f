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
    """Where a body goes."""

    def lend(self, limit: int) -> memoryview:
        """Memory for a read of at most `limit` bytes."""

    def filled(self, count: int) -> bool:
        """Take what was read; whether more may be."""

    def rest(self) -> None:
        """Take the memory back that was lent: nothing came."""


class Inflow(asyncio.BufferedProtocol):
    """The transport's protocol while a body comes in; all but the body is passed on to the connection."""

    def __init__(self, connection: LimitedProtocol, exchange: Exchange, sink: Sink) -> None:
        self._connection = connection
        self.exchange = exchange
        self._sink = sink
        self._lent = 0
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        """What the next read fills."""
        memory = self._sink.lend(self.exchange.missing)
        self._lent = len(memory)
        return memory

    def rest(self) -> None:
        """Give memory back that was asked for and not filled."""
        if self._lent:
            self._lent = 0
            self._sink.rest()

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        exchange = self.exchange
        exchange.received += nbytes
        if nbytes == self._lent:
            # The transport tries to read on at once, and may find nothing.
            self._connection.loop.call_soon(self.rest)
        self._lent = 0
        admitted = self._sink.filled(nbytes)
        if not exchange.missing:
            self._connection.body_poured(exchange)
        elif not admitted:
            self._connection.flow.pause_reading()
            exchange.wake()
