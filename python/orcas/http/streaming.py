"""Reads a large body without the HTTP parser: the socket is read directly into memory of the body's receiver.

Invariants: a read is never longer than the rest of the body, so the next request stays in the socket; bytes are only read
into memory that the sink has lent; stopping leaves the connection as it was. Must not know HTTP or S3.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Sink(Protocol):
    """The receiver of a body."""

    def lend(self, limit: int) -> memoryview:
        """Memory for a read of at most `limit` bytes."""

    def filled(self, count: int) -> bool:
        """Take the `count` bytes that were read. Whether more may be read now."""

    def rest(self) -> None:
        """Take back the lent memory: nothing was read."""


class Body(Protocol):
    """The body that is read."""

    @property
    def missing(self) -> int:
        """Bytes that have not arrived."""

    def bytes_streamed(self, count: int, *, admitted: bool) -> None:
        """`count` bytes have arrived; `admitted`: more may be read now."""


class Connection(Protocol):
    """The owner of the socket. It gets all callbacks except those for reading."""

    loop: asyncio.AbstractEventLoop

    def connection_lost(self, exc: Exception | None) -> None:
        """As in `asyncio.Protocol`, like the methods below."""

    def pause_writing(self) -> None:
        """The transport's buffer is full."""

    def resume_writing(self) -> None:
        """The buffer has room again."""


class StreamProtocol(asyncio.BufferedProtocol):
    """The transport's protocol while a body is streamed."""

    def __init__(self, connection: Connection, body: Body, sink: Sink) -> None:
        self.body = body
        self._loop = connection.loop
        self._sink = sink
        self._lent = 0
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for the next read."""
        memory = self._sink.lend(self.body.missing)
        self._lent = len(memory)
        return memory

    def rest(self) -> None:
        """Return memory that was lent and not filled."""
        if self._lent:
            self._lent = 0
            self._sink.rest()

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` were read."""
        if nbytes == self._lent:
            # The transport will try to read again at once, and may find nothing.
            self._loop.call_soon(self.rest)
        self._lent = 0
        self.body.bytes_streamed(nbytes, admitted=self._sink.filled(nbytes))
