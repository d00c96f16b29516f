"""What TLS costs: processor time of the server for a GET of 1 KiB on a kept connection, with TLS and without, and for a
handshake. `python benchmarks/tls.py [--requests N] [--rounds N]`

Two servers, one of them with TLS, get the same requests in turn. Only the time of their processes is measured, so the
cost of this client does not count.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import orcas
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with orcas.Server(memory=True) as plain, orcas.Server(memory=True, tls_self_signed=True) as secure:
        clients = Client(plain), Client(secure)
        kept: list[list[float]] = [[], []]
        new: list[list[float]] = [[], []]
        for _ in range(given.rounds):
            for client, costs, starts in zip(clients, kept, new, strict=True):
                costs.append(client.requests(given.requests))
                starts.append(client.connections(given.requests // 20))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{ssl.OPENSSL_VERSION}, load {load}, {time.strftime('%Y-%m-%d %H:%M')}")
    for name, costs in (("GET of 1 KiB, kept connection", kept), ("new connection and GET", new)):
        without, with_tls = (statistics.median(found) for found in costs)
        ratios = sorted(b / a for a, b in zip(*costs, strict=True))
        print(
            f"{name}: {without:.1f} µs plain, {with_tls:.1f} µs with TLS, "
            f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
    handshake = statistics.median(new[1]) - statistics.median(kept[1])
    print(
        f"handshake (P-256, TLS 1.3): {handshake:.0f} µs of the server, {1e6 / handshake:.0f} a second on one processor"
    )


if __name__ == "__main__":
    main()
