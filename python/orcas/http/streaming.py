"""A large body on its way in, past the parser: the socket is read into memory of whoever takes the body.

Invariants: a read is never longer than what is left of the body, so what follows it stays in the socket; nothing is read
but into memory that the sink has lent; whoever stops it finds the connection as it was. Knows how much is to come and
nothing of what it is.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Sink(Protocol):
    """Where a body goes."""

    def lend(self, limit: int) -> memoryview:
        """Memory for a read of at most `limit` bytes."""

    def filled(self, count: int) -> bool:
        """Take what was read; whether more may be."""

    def rest(self) -> None:
        """Take the memory back that was lent: nothing came."""


class Body(Protocol):
    """What is to come, and who counts it."""

    @property
    def missing(self) -> int:
        """Bytes that have not come."""

    def bytes_streamed(self, count: int, *, admitted: bool) -> None:
        """`count` bytes have come; `admitted`: the sink takes more at once."""


class Connection(Protocol):
    """Whose socket it is: what happens to it besides reading is passed on."""

    loop: asyncio.AbstractEventLoop

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `asyncio.Protocol`, like what follows."""

    def pause_writing(self) -> None:
        """The transport has enough."""

    def resume_writing(self) -> None:
        """It has room again."""


class StreamProtocol(asyncio.BufferedProtocol):
    """The transport's protocol while a body comes in."""

    def __init__(self, connection: Connection, body: Body, sink: Sink) -> None:
        self.body = body
        self._loop = connection.loop
        self._sink = sink
        self._lent = 0
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        """What the next read fills."""
        memory = self._sink.lend(self.body.missing)
        self._lent = len(memory)
        return memory

    def rest(self) -> None:
        """Give memory back that was asked for and not filled."""
        if self._lent:
            self._lent = 0
            self._sink.rest()

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        if nbytes == self._lent:
            # The transport tries to read on at once, and may find nothing.
            self._loop.call_soon(self.rest)
        self._lent = 0
        self.body.bytes_streamed(nbytes, admitted=self._sink.filled(nbytes))
