"""A bounded load over raw sockets: requests that are ready as bytes, a fixed number of keep-alive connections."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Address = tuple[str, int]
_TIMEOUT_SECONDS = 120
_PIECE_BYTES = 1 << 20


class UnexpectedResponseError(Exception):
    """The server answered with something that must not be counted as success."""


@dataclass
class Response:
    """Status, headers with lower-case names, body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class _Connection:
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    # Bytes of the whole response, once its head is there.
    expected: int = 0
    # The answer is to a HEAD: no body follows, whatever its length says.
    headless: bool = False
    sent_at: int = 0


def run(address: Address, requests: Iterable[bytes], connections: int = 16) -> list[int]:
    """Send every request, one at a time on each connection, and return the nanoseconds each took.

    Raises:
        UnexpectedResponseError: an answer was no success.
    """
    waiting = iter(requests)
    took: list[int] = []
    with selectors.DefaultSelector() as selector:
        opened = [_Connection(connect(address)) for _ in range(connections)]
        try:
            open_count = 0
            for connection in opened:
                if _send_next(connection, waiting):
                    selector.register(connection.socket, selectors.EVENT_READ, connection)
                    open_count += 1
            while open_count:
                events = selector.select(_TIMEOUT_SECONDS)
                if not events:
                    raise UnexpectedResponseError("no answer in time")
                for key, _ in events:
                    connection = key.data
                    if not _receive(connection):
                        continue
                    took.append(time.perf_counter_ns() - connection.sent_at)
                    if not _send_next(connection, waiting):
                        selector.unregister(connection.socket)
                        open_count -= 1
        finally:
            for connection in opened:
                connection.socket.close()
    return took


def connect(address: Address) -> socket.socket:
    """A connection that sends at once what it is given."""
    connected = socket.create_connection(address, timeout=_TIMEOUT_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _send_next(connection: _Connection, waiting: Iterator[bytes]) -> bool:
    request = next(waiting, None)
    if request is None:
        return False
    connection.received.clear()
    connection.expected = 0
    connection.headless = request.startswith(b"HEAD ")
    connection.sent_at = time.perf_counter_ns()
    connection.socket.sendall(request)
    return True


def _receive(connection: _Connection) -> bool:
    """Take what is there; true when the response is complete."""
    piece = connection.socket.recv(_PIECE_BYTES)
    if not piece:
        raise UnexpectedResponseError(f"the connection was closed after {bytes(connection.received[:200])!r}")
    connection.received += piece
    if not connection.expected:
        end = connection.received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(connection.received[:end])
        if not head.startswith(b"HTTP/1.1 2"):
            raise UnexpectedResponseError(bytes(connection.received).decode(errors="replace"))
        connection.expected = end + 4 + (0 if connection.headless else _content_length(head))
    return len(connection.received) >= connection.expected


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    return int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


def answer(address: Address, request: bytes) -> bytes:
    """The answer to one request on its own connection, as it came.

    Raises:
        UnexpectedResponseError: it was no success.
    """
    with connect(address) as connected:
        connection = _Connection(connected)
        _send_next(connection, iter([request]))
        while not _receive(connection):
            pass
        return bytes(connection.received)


def exchange(address: Address, request: bytes) -> Response:
    """One request on its own connection.

    Raises:
        UnexpectedResponseError: the answer was no success.
    """
    head, body = answer(address, request).split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    headers = [(name.lower(), value.strip()) for name, value in (line.split(b":", 1) for line in lines[1:])]
    return Response(int(lines[0].split()[1]), headers, body)


def download(connected: socket.socket, request: bytes, buffer: bytearray) -> int:
    """Send a GET on an open connection, read its body into nothing, and return the body's length."""
    connected.sendall(request)
    received = connected.recv_into(buffer)
    head_end = buffer.find(b"\r\n\r\n", 0, received)
    while head_end < 0:
        received += connected.recv_into(memoryview(buffer)[received:])
        head_end = buffer.find(b"\r\n\r\n", 0, received)
    head = bytes(buffer[:head_end])
    if not head.startswith(b"HTTP/1.1 200"):
        raise UnexpectedResponseError(bytes(buffer[:received]).decode(errors="replace"))
    length = _content_length(head)
    left = length - (received - head_end - 4)
    while left:
        piece = connected.recv_into(buffer, min(left, len(buffer)))
        if not piece:
            raise UnexpectedResponseError(f"the connection was closed {left} bytes too early")
        left -= piece
    return length


def upload(address: Address, head: bytes, length: int) -> None:
    """Send one body of `length` bytes that nobody sent before, as fast as the server takes it.

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
    with connect(address) as connected:
        connection = _Connection(connected)
        connected.sendall(head)
        for piece in pieces:
            connected.sendall(piece)
        while not _receive(connection):
            pass
