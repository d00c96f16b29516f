"""A bounded load over raw sockets: requests that are ready as bytes, on a fixed number of keep-alive connections.

It sends and reads with the raw client of the tests.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.fixtures import wire
from tests.fixtures.wire import Answer, Connection, EndOfConnectionError, content_length

Address = tuple[str, int]
_TIMEOUT_SECONDS = 120
_PIECE_BYTES = 1 << 20


class UnexpectedResponseError(Exception):
    """The server did not answer, or its answer must not count as success."""


@dataclass
class _Exchange:
    """A connection and the request that it waits for."""

    connection: Connection
    method: str = ""
    sent_at: int = 0

    def begin(self, request: bytes) -> None:
        self.method = _method(request)
        self.sent_at = time.perf_counter_ns()
        self.connection.send(request)


def run(address: Address, requests: Iterable[bytes], connections: int = 16) -> list[int]:
    """Send every request, one at a time on each connection, and return the nanoseconds each took.

    Raises:
        UnexpectedResponseError: an answer was no success.
    """
    waiting = iter(requests)
    took: list[int] = []
    with selectors.DefaultSelector() as selector:
        opened = [_Exchange(connect(address)) for _ in range(connections)]
        try:
            for exchange in opened:
                if (request := next(waiting, None)) is not None:
                    exchange.begin(request)
                    selector.register(exchange.connection.sock, selectors.EVENT_READ, exchange)
            while selector.get_map():
                events = selector.select(_TIMEOUT_SECONDS)
                if not events:
                    raise UnexpectedResponseError("no answer in time")
                for key, _ in events:
                    exchange = key.data
                    _success(exchange.connection, exchange.method)
                    took.append(time.perf_counter_ns() - exchange.sent_at)
                    if (request := next(waiting, None)) is None:
                        selector.unregister(exchange.connection.sock)
                    else:
                        exchange.begin(request)
        finally:
            for exchange in opened:
                exchange.connection.sock.close()
    return took


def connect(address: Address) -> Connection:
    """A connection that sends small pieces immediately (TCP_NODELAY)."""
    connection = wire.connect(*address, timeout=_TIMEOUT_SECONDS)
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _method(request: bytes) -> str:
    return "HEAD" if request.startswith(b"HEAD ") else "GET"


def _success(connection: Connection, method: str) -> tuple[bytes, bytes]:
    """Head and body of the next response."""
    try:
        head, body = connection.read(method)
    except EndOfConnectionError as error:
        raise UnexpectedResponseError(str(error)) from error
    if not head.startswith(b"HTTP/1.1 2"):
        raise UnexpectedResponseError((head + b"\r\n\r\n" + body).decode(errors="replace"))
    return head, body


def answer(address: Address, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to one request on its own connection, as they came.

    Raises:
        UnexpectedResponseError: it was no success.
    """
    with connect(address) as connection:
        connection.send(request)
        return _success(connection, _method(request))


def exchange(address: Address, request: bytes) -> Answer:
    """One request on its own connection.

    Raises:
        UnexpectedResponseError: the answer was no success.
    """
    return Answer.of(*answer(address, request))


def download(connection: Connection, request: bytes, buffer: bytearray) -> int:
    """Send a GET on an open connection, read its body into nothing, and return the body's length.

    Raises:
        UnexpectedResponseError: the answer was no success.
    """
    connection.send(request)
    sock = connection.sock
    received = sock.recv_into(buffer)
    head_end = buffer.find(b"\r\n\r\n", 0, received)
    while head_end < 0:
        received += sock.recv_into(memoryview(buffer)[received:])
        head_end = buffer.find(b"\r\n\r\n", 0, received)
    head = bytes(buffer[:head_end])
    length = content_length(head)
    if not head.startswith(b"HTTP/1.1 200") or length is None:
        raise UnexpectedResponseError(bytes(buffer[:received]).decode(errors="replace"))
    left = length - (received - head_end - 4)
    while left:
        piece = sock.recv_into(buffer, min(left, len(buffer)))
        if not piece:
            raise UnexpectedResponseError(f"the connection was closed {left} bytes too early")
        left -= piece
    return length


def upload(address: Address, head: bytes, length: int) -> None:
    """Send one body of `length` new bytes as fast as the server accepts it.

    Raises:
        UnexpectedResponseError: the answer was no success.
    """
    piece = bytearray(os.urandom(_PIECE_BYTES))

    def pieces() -> Iterator[memoryview]:
        for offset in range(0, length, _PIECE_BYTES):
            piece[:8] = offset.to_bytes(8, "big")
            yield memoryview(piece)[: min(_PIECE_BYTES, length - offset)]

    send(address, head, pieces())


def send(address: Address, head: bytes, pieces: Iterable[bytes | memoryview]) -> None:
    """Send one request on a connection of its own, its body piece by piece.

    Raises:
        UnexpectedResponseError: the answer was no success.
    """
    with connect(address) as connection:
        connection.send(head)
        for piece in pieces:
            connection.send(piece)
        _success(connection, _method(head))
