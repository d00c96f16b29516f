"""Flow control of one connection: pauses of reading and writing, each asked of the transport once. Must not know HTTP."""

from __future__ import annotations

import asyncio


class FlowControl:
    """Whether the transport of a connection reads, and whether its buffer takes more."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._read_paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.write_paused = False

    async def drain(self) -> None:
        """Wait until the transport takes more."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """The buffer has room again."""
        self.write_paused = False
        self._writable.set()
