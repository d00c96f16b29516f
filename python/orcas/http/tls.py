"""Connections with TLS: accepted here, and handed on when their handshake is done.

A connection that has sent nothing costs a descriptor. The first byte tells whether the client speaks TLS; one that speaks
plain HTTP gets an answer that says so. Time and number of handshakes under way are bounded: of too many, the oldest ends,
because one that is meant to end does within milliseconds. Must not know HTTP beyond its refusals, or certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from orcas.http import refusals
from orcas.http.refusals import COUNTS
from orcas.telemetry.reports import address

if TYPE_CHECKING:
    from orcas.http.protocol import LimitedProtocol

HANDSHAKES_MAX: Final = 1024
# Connections that are accepted in one turn of the event loop.
_ACCEPTS: Final = 16
# Until the next attempt when there are no descriptors or no memory for another connection.
_PAUSE_SECONDS: Final = 1.0
# Between two looks whether a closing connection has sent everything.
_FLUSH_SECONDS: Final = 0.25
# Decrypted and encrypted bytes that wait for the client or the application. uvloop would keep 256 and 512 KiB.
_BUFFER_BYTES: Final = 64 * 1024

# The type of the record that a client sends first, and the code under which metrics count handshakes that failed.
_TLS_HANDSHAKE: Final = b"\x16"
_FAILED: Final = "TLSHandshakeFailed"

log = logging.getLogger("orcas.http")


class TlsObject(ssl.SSLObject):
    """A connection whose client may say its end before it has received everything.

    uvloop would end the connection then: it is told that there is nothing to read at the moment.
    """

    ended = False
    on_end: Callable[[], object] | None = None

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - the name in the standard library
        """As of the standard library, until the client has said its end."""
        found = super().read(len, buffer)
        if found:
            return found
        if not self.ended:
            self.ended = True
            if self.on_end is not None:
                asyncio.get_running_loop().call_soon(self.on_end)
        raise ssl.SSLWantReadError


class TlsTransport:
    """A transport that closes as one without TLS does: when everything is sent.

    That of uvloop waits for the end that the client says in return, which most clients say only when they use the
    connection again.
    """

    def __init__(self, transport: asyncio.Transport, descriptor: socket.socket) -> None:
        self._transport = transport
        self._socket = descriptor
        self.write = transport.write
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def close(self) -> None:
        """Send what is left, and the end; then close."""
        self._transport.close()
        self._finish()

    def write_eof(self) -> None:
        """Send what is left, and the end. What the client still sends is received and dropped."""
        self._transport.close()

    def _finish(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._finish)
        else:
            # As if the client had said its end. What waits in the buffers of the socket is still sent.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)


class _Handshake(asyncio.Protocol):
    """The protocol of a transport until its handshake is done."""

    def __init__(self, protocol: LimitedProtocol, descriptor: socket.socket) -> None:
        self._protocol = protocol
        self._socket = descriptor

    def connection_made(self, transport: Any) -> None:
        """The handshake is done."""
        transport.set_read_buffer_limits(_BUFFER_BYTES)
        transport.set_write_buffer_limits(_BUFFER_BYTES)
        transport.set_protocol(self._protocol)
        closing, tls = TlsTransport(transport, self._socket), transport.get_extra_info("ssl_object")
        self._protocol.connection_made(closing)  # type: ignore[arg-type]

        def end() -> None:
            if not self._protocol.eof_received():
                closing.close()

        tls.on_end = end
        if tls.ended:
            end()


class TlsListener:
    """A listening socket. Has what uvicorn asks of a server."""

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        new_protocol: Callable[[], LimitedProtocol],
        *,
        handshake_sec: float,
        flush_sec: float,
    ) -> None:
        """`context` is asked for each connection. `flush_sec`: how long a closing connection may take to send the rest."""
        self._listener = listener
        self._context = context
        self._new_protocol = new_protocol
        self._handshake_sec = handshake_sec
        self._flush_sec = flush_sec
        self._loop = asyncio.get_running_loop()
        # In the order of their beginnings.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._resuming: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        """Listen.

        Raises:
            OSError: another socket does.
        """
        self._listener.setblocking(False)
        self._listener.listen(backlog)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more, and give up handshakes."""
        self._loop.remove_reader(self._listener)
        if self._resuming is not None:
            self._resuming.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                descriptor, client = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("No connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(self._listener)
                self._resuming = self._loop.call_later(
                    _PAUSE_SECONDS, self._loop.add_reader, self._listener, self._accept
                )
                return
            descriptor.setblocking(False)
            if len(self._handshakes) >= HANDSHAKES_MAX:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
                self._report(client, "there were too many others")
            handshake = self._loop.create_task(self._greet(descriptor, client))
            self._handshakes[handshake] = None
            handshake.add_done_callback(functools.partial(self._end, descriptor))

    async def _greet(self, descriptor: socket.socket, client: Any) -> None:
        """Hand the connection on, or end it."""
        try:
            async with asyncio.timeout(self._handshake_sec):
                await self._begin(descriptor)
        except TimeoutError:
            descriptor.close()
            self._report(client, f"it took more than {self._handshake_sec:g} s")
        except OSError as error:
            descriptor.close()
            self._report(client, getattr(error, "reason", None) or error.strerror or type(error).__name__)

    def _end(self, descriptor: socket.socket, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)
        # One that was cancelled may not even have begun. If a transport has the descriptor, this is left to the transport.
        if handshake.cancelled():
            descriptor.close()

    async def _begin(self, descriptor: socket.socket) -> None:
        first = await self._first_byte(descriptor)
        protocol = self._new_protocol()
        if first == _TLS_HANDSHAKE:
            context = self._context()
            context.sslobject_class = TlsObject
            await self._loop.connect_accepted_socket(
                lambda: _Handshake(protocol, descriptor), descriptor, ssl=context,
                ssl_handshake_timeout=self._handshake_sec, ssl_shutdown_timeout=self._flush_sec,
            )  # fmt: skip
        elif first:
            protocol.refusal = refusals.NO_TLS
            await self._loop.connect_accepted_socket(lambda: protocol, descriptor)
        else:
            descriptor.close()

    async def _first_byte(self, descriptor: socket.socket) -> bytes:
        """The first byte that the client sends, which stays in the socket; none if it leaves."""
        with contextlib.suppress(BlockingIOError):
            return descriptor.recv(1, socket.MSG_PEEK)
        readable = self._loop.create_future()
        self._loop.add_reader(descriptor, _settle, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(descriptor)
        return descriptor.recv(1, socket.MSG_PEEK)

    def _report(self, client: Any, cause: str) -> None:
        COUNTS[_FAILED] += 1
        fields = {"client": address(client[:2]), "cause": cause}
        log.info("A TLS handshake failed", extra={"orcas": fields})


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
