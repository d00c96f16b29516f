"""A small server that can be told to give wrong answers, and that records its requests."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}


@dataclass
class Fake:
    """Buckets and objects in memory. `twist` changes the status and body of an answer."""

    twist: Callable[[str, str, int, bytes], tuple[int, bytes]] = lambda _method, _path, status, body: (status, body)
    buckets: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    record: list[tuple[str, str, str]] = field(default_factory=list)
    name: str = ""
    url: str = ""

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        """Status and body."""
        parts = urlsplit(target)
        path, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        entry = (self.name, method, path)
        self.asked.append(entry)
        self.record.append(entry)
        bucket, _, key = path.partition("/")
        status, given = self._of_object(method, path, body) if key else self._of_bucket(method, bucket, query, body)
        return self.twist(method, path, status, given)

    def _of_bucket(self, method: str, bucket: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        inside = sorted(name for name in self.objects if name.startswith(f"{bucket}/"))
        if method == "PUT":
            self.buckets.add(bucket)
            return 200, b""
        if bucket not in self.buckets:
            return 404, b"<Error><Code>NoSuchBucket</Code></Error>"
        if method == "POST" and "delete" in query:
            for key in re.findall(rb"<Key>([^<]*)</Key>", body):
                self.objects.pop(f"{bucket}/{key.decode()}", None)
            return 200, b"<DeleteResult/>"
        if method == "DELETE":
            if inside:
                return 409, b"<Error><Code>BucketNotEmpty</Code><Message>It is not empty.</Message></Error>"
            self.buckets.remove(bucket)
            return 204, b""
        entries = "".join(
            f"<Contents><Key>{name.partition('/')[2]}</Key><Size>{len(self.objects[name])}</Size></Contents>"
            for name in inside
        )
        space = "http://s3.amazonaws.com/doc/2006-03-01/"
        document = f'<ListBucketResult xmlns="{space}">{entries}<IsTruncated>false</IsTruncated></ListBucketResult>'
        return 200, document.encode()

    def _of_object(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if method == "PUT":
            self.objects[path] = body
            return 200, b""
        if method == "DELETE":
            self.objects.pop(path, None)
            return 204, b""
        if path not in self.objects:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, self.objects[path]


@contextlib.contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """Serve it on a free port of the loopback address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20

        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, given = fake.answer(self.command, self.path, body)
            self.send_response(status)
            if status != 204:
                self.send_header("content-length", str(len(given)))
            self.end_headers()
            if self.command != "HEAD" and status != 204:
                self.wfile.write(given)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A correct server; a test may set its `twist`."""
    with serving(Fake()) as started:
        yield started
