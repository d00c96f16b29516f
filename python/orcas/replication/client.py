"""Requests to a target: to addresses that were checked, and no faster than its limit. Requests to this server itself."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator

from orcas.control.origins import ReplicationTarget
from orcas.control.root import Root
from orcas.origins.transport import CheckedTransport
from orcas.tools.session import Body, Headers, Response, Session, Transport


class TargetTransport(CheckedTransport):
    """A transport to a target, which sends no faster than the limit of the target."""

    def __init__(self, target: ReplicationTarget, context: ssl.SSLContext | None) -> None:
        super().__init__(target.url, context, private=target.private, timeout_sec=target.timeout_sec)
        self._bytes_per_sec = target.bytes_per_sec
        self._pace = threading.Lock()
        self._free_at = 0.0

    @contextlib.contextmanager
    def exchange(
        self, method: str, raw_path: str, query: str, headers: Headers, body: bytes | Body
    ) -> Iterator[Response]:
        """As of `HttpTransport`."""
        if self._bytes_per_sec:
            if isinstance(body, Body):
                body = Body(body.length, self._paced(body.pieces))
            else:
                self._wait(len(body))
        with super().exchange(method, raw_path, query, headers, body) as answer:
            yield answer

    def _paced(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._wait(len(piece))
            yield piece

    def _wait(self, size: int) -> None:
        """Wait for the turn of so many bytes."""
        with self._pace:
            now = time.monotonic()
            begins = max(now, self._free_at)
            self._free_at = begins + size / self._bytes_per_sec
        time.sleep(begins - now)


def session_of(target: ReplicationTarget) -> Session:
    """Requests to a target, signed with its key."""
    context = None
    if target.url.startswith("https:"):
        context = ssl.create_default_context(cadata=target.ca)
    return Session(TargetTransport(target, context), (target.access_key, target.secret_key), target.region)


class OwnSession(Session):
    """Requests to this server by root, whose key may be replaced meanwhile."""

    def __init__(self, transport: Transport, root: Root, region: str) -> None:
        super().__init__(transport, (root.access_key, root.secret_key), region)
        self._root = root

    @contextlib.contextmanager
    def request(
        self, method: str, raw_path: str, query: str = "", body: bytes | Body = b"", extra: Headers | None = None
    ) -> Iterator[Response]:
        """As of `Session`."""
        self._keys = self._root.access_key, self._root.secret_key
        with super().request(method, raw_path, query, body, extra) as answer:
            yield answer
