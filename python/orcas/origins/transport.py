"""Connections to an origin: to addresses that were checked, for one fetch at a time, which can be ended from outside.

Redirects are not followed, because nothing here follows any. Must not know what is asked for.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult

from orcas.control.origins import Origin
from orcas.targets.addresses import connect
from orcas.tools.session import Body, Headers, HttpTransport, Response

_OK: Final = (200, 206)
# How often an object is read in one fetch, and bytes of what is asked beside it.
_READS_MAX: Final = 2
_DOCUMENTS_MAX: Final = 16 << 20


class TooLargeError(Exception):
    """The object is larger than the limit of its bucket."""


class CheckedTransport(HttpTransport):
    """A transport to addresses that are checked. `private`: they need not be public. `timeout_sec`: of silence."""

    def __init__(self, url: str, context: ssl.SSLContext | None, *, private: bool, timeout_sec: int) -> None:
        super().__init__(url, context=context)
        self.aborted = False
        self._private = private
        self._timeout_sec = timeout_sec

    def abort(self) -> None:
        """End what is under way, from another thread than that which waits for it."""
        self.aborted = True
        for connection in list(self._open):
            # The thread that waits closes it: its number must not become that of another file meanwhile.
            if isinstance(connection, _Connection) and connection.live is not None:
                with contextlib.suppress(OSError):
                    connection.live.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> http.client.HTTPConnection:
        connection = _Connection(self._parts, self._context, self._private, self._timeout_sec)
        self._open.add(connection)
        return connection


class OriginTransport(CheckedTransport):
    """A transport to an origin. `moved` is when something of it arrived last, of the monotonic clock."""

    def __init__(self, origin: Origin, context: ssl.SSLContext | None) -> None:
        super().__init__(origin.url, context, private=origin.private, timeout_sec=origin.timeout_sec)
        self.begin()
        self._origin = origin
        # Of this fetch, whichever threads it uses.
        self._kept: list[http.client.HTTPConnection] = []

    def begin(self) -> None:
        """Called before each fetch."""
        self.moved = time.monotonic()
        self._received = 0

    @property
    def _idle(self) -> list[http.client.HTTPConnection]:
        return self._kept

    @contextlib.contextmanager
    def exchange(
        self, method: str, raw_path: str, query: str, headers: Headers, body: bytes | Body
    ) -> Iterator[Response]:
        """As of `HttpTransport`.

        Raises:
            TooLargeError: the answer has, or describes, an object above the limit. Documents have a query, and may be
                larger than the smallest objects.
        """
        with super().exchange(method, raw_path, query, headers, body) as answer:
            self.moved = time.monotonic()
            length = answer.headers.get("content-length", "")
            if (
                answer.status in _OK
                and not query
                and length.isdecimal()
                and int(length) > self._origin.object_bytes_max
            ):
                raise TooLargeError
            answer.pieces = self._watched(answer.pieces)
            yield answer

    def _watched(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.moved = time.monotonic()
            self._received += len(piece)
            # However many parts an object is said to have.
            if self._received > _READS_MAX * self._origin.object_bytes_max + _DOCUMENTS_MAX:
                raise TooLargeError
            yield piece


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked, also if it connects again."""

    def __init__(self, url: SplitResult, context: ssl.SSLContext | None, private: bool, timeout_sec: int) -> None:
        self._url = url
        self._private = private
        self._context = context
        # Also when an answer says that the connection ends with it: then `sock` is None while the answer is read.
        self.live: socket.socket | None = None
        super().__init__(self._url.hostname or "", self._url.port, timeout=timeout_sec)

    def connect(self) -> None:
        """Open the socket."""
        timeout = float(self.timeout or 0)
        self.sock = connect(self._url, private=self._private, left=lambda: timeout, context=self._context)
        self.sock.settimeout(timeout)
        self.live = self.sock
