"""What TLS costs: processor time of the server for a GET of 1 KiB on a kept connection, with TLS and without, and for a
handshake.

Two servers, one of them with TLS, get the same requests in turn, one at a time. Only the time of their processes is
measured, so the cost of this client does not count.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import orcas
from figures import Figure, Plan, ratios
from orcas.bench.processes import cpu_seconds

_BODY = os.urandom(1024)
_WARM = 500


class Client:
    """One connection after the other to a server, and a request that is signed once."""

    def __init__(self, server: orcas.Server) -> None:
        parts = urlsplit(server.endpoint)
        self._place = parts.hostname, parts.port
        self._context = None if server.ca is None else ssl.create_default_context(cafile=server.ca)
        s3 = server.client()
        s3.create_bucket(Bucket="bench")
        s3.put_object(Bucket="bench", Key="k", Body=_BODY)
        url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": "bench", "Key": "k"}))
        self._request = f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        self.pid = server.pid

    def connect(self) -> socket.socket:
        """A connection, with TLS if the server has it."""
        plain = socket.create_connection(self._place)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_hostname="localhost")

    def get(self, connection: socket.socket) -> None:
        """One request and its response."""
        connection.sendall(self._request)
        received = connection.recv(65536)
        while not received.endswith(_BODY):
            received += connection.recv(65536)

    def requests(self, count: int) -> float:
        """Microseconds of the server for each request."""
        with self.connect() as connection:
            for _ in range(_WARM):
                self.get(connection)
            return self._cpu(count, lambda: self.get(connection))

    def connections(self, count: int) -> float:
        """The same for each new connection with one request."""

        def once() -> None:
            with self.connect() as connection:
                self.get(connection)

        return self._cpu(count, once)

    def _cpu(self, count: int, once: Callable[[], None]) -> float:
        before = cpu_seconds([self.pid]) or 0.0
        for _ in range(count):
            once()
        return ((cpu_seconds([self.pid]) or 0.0) - before) / count * 1e6


def cost(plan: Plan) -> list[Figure]:
    """Figures tls-get and tls-handshake."""
    rounds, count = plan.size(9, 3), plan.size(10_000, 200)
    kept: dict[str, list[float]] = {"plain": [], "tls": []}
    new: dict[str, list[float]] = {"plain": [], "tls": []}
    with orcas.Server(memory=True) as plain, orcas.Server(memory=True, tls_self_signed=True) as secure:
        clients = {"plain": Client(plain), "tls": Client(secure)}
        for _ in range(rounds):
            for name, client in clients.items():
                kept[name].append(client.requests(count))
                new[name].append(client.connections(count // 20))
    handshakes = [fresh - again for fresh, again in zip(new["tls"], kept["tls"], strict=True)]
    detail = {"kept_us": kept, "new_us": new, "requests": count, "openssl_of_client": ssl.OPENSSL_VERSION}
    what = "server CPU of a presigned 1 KiB GET, kept connection, TLS ÷ plain"
    return [
        Figure("tls-get", what, ratios(kept["tls"], kept["plain"]), 1.3, detail=detail),
        Figure("tls-handshake", "server CPU of a handshake: P-256, TLS 1.3", handshakes, unit="µs"),
    ]
