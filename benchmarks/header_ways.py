"""Orcas with two ways to format the headers of responses: its own in Rust, and plain Python. For `headers.py` only.

It runs in its own process. One line of JSON on stdin names the data directory, one line on stdout gives the address.
`POST /_orcas/benchmark/WAY` chooses the formatter from then on: `rust`, `python`, or `python-fields`, with which
Python also formats LastModified and ETag of each entry of a list.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import functools
import json
import re
import sys
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from hosted import serve
from orcas.engine import Request, Response
from orcas.http.extensions import RESPONSE
from orcas.s3.dispatch import Dispatcher
from orcas.serving.app import Orcas
from orcas.settings.config import resolve
from plain_headers import (
    Headers,
    checksum_headers,
    format_content_length,
    format_etag,
    format_list_time,
    object_headers,
    request_headers,
)

_ENTRY = re.compile("<LastModified>([^<]*)</LastModified><ETag>&quot;([0-9a-f]{32})&quot;</ETag>")

Checksum = tuple[str, bytes, str]


class Known(Protocol):
    """The values of a response."""

    def headers(self) -> Headers:
        """The headers of the operation, in the order of the product."""

    def body(self) -> bytes:
        """The body."""


@dataclass(slots=True)
class Read:
    """The values of a GET or HEAD."""

    md5: bytes
    modified_ms: int
    length: int
    content_type: str
    checksum: Checksum
    content: bytes

    def headers(self) -> Headers:
        return object_headers(self.md5, 0, self.length, self.modified_ms, self.content_type) + checksum_headers(
            *self.checksum
        )

    def body(self) -> bytes:
        return self.content


@dataclass(slots=True)
class Uploaded:
    """The values of a PUT."""

    md5: bytes
    checksum: Checksum

    def headers(self) -> Headers:
        return [
            (b"etag", format_etag(self.md5, 0)),
            *checksum_headers(*self.checksum),
            (b"content-length", format_content_length(0)),
        ]

    def body(self) -> bytes:
        return b""


@dataclass(slots=True)
class Document:
    """The values of a list."""

    content: bytes
    region: str

    def headers(self) -> Headers:
        return [
            (b"x-amz-bucket-region", self.region.encode()),
            (b"content-type", b"application/xml"),
            (b"content-length", format_content_length(len(self.content))),
        ]

    def body(self) -> bytes:
        return self.content


@dataclass(slots=True)
class Entries(Document):
    """The values of a list whose entries are formatted again: the time and MD5 of each, and the text between them."""

    fields: list[tuple[int, bytes]]
    around: list[str]

    def body(self) -> bytes:
        parts = [self.around[0]]
        for (modified_ms, md5), behind in zip(self.fields, self.around[1:], strict=True):
            parts += (
                f"<LastModified>{format_list_time(modified_ms)}</LastModified>",
                f"<ETag>&quot;{md5.hex()}&quot;</ETag>",
                behind,
            )
        return "".join(parts).encode()


def learned(said: dict[str, str], body: bytes, *, fields: bool) -> Known:
    """Parse the values from what Rust formatted."""
    if "etag" not in said:
        region = said["x-amz-bucket-region"]
        if not fields:
            return Document(body, region)
        pieces = _ENTRY.split(body.decode())
        times = [round(dt.datetime.fromisoformat(text).timestamp() * 1000) for text in pieces[1::3]]
        return Entries(body, region, list(zip(times, map(bytes.fromhex, pieces[2::3]), strict=True)), pieces[::3])
    md5 = bytes.fromhex(said["etag"].strip('"'))
    checksum = ("crc32", base64.b64decode(said["x-amz-checksum-crc32"]), said["x-amz-checksum-type"])
    if "last-modified" not in said:
        return Uploaded(md5, checksum)
    modified_ms = round(parsedate_to_datetime(said["last-modified"]).timestamp() * 1000)
    return Read(md5, modified_ms, int(said["content-length"]), said["content-type"], checksum, body)


class PlainDispatcher:
    """Answers like `Dispatcher`, with headers made in Python from values that it learned from a target's first answer.

    It discards what Rust has formatted, but still pays for it.
    """

    def __init__(self, dispatcher: Dispatcher, *, fields: bool) -> None:
        self._accept = functools.partial(dispatcher._core.accept, mount_length=0)
        self._store = dispatcher._store
        self._fields = fields
        self._known: dict[str, dict[bytes, Known]] = {"GET": {}, "HEAD": {}, "PUT": {}}
        self._host_id = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        method, raw_path = scope["method"], scope["raw_path"]
        request = self._accept(scope)
        if not isinstance(request, Request):
            await send({"type": RESPONSE, "response": request})
            return
        response = await self._store.execute(request, receive)
        known = self._known[method].get(raw_path)
        if known is None:
            known = self._learn(method, raw_path, request, response)
        headers = known.headers() + request_headers(request.request_id, self._host_id)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": known.body()})

    def _learn(self, method: str, raw_path: bytes, request: Request, response: Response) -> Known:
        said = {name.decode(): value.decode() for name, value in response.headers}
        known = self._known[method][raw_path] = learned(said, response.body, fields=self._fields)
        self._host_id = said["x-amz-id-2"]
        made = known.headers() + request_headers(request.request_id, self._host_id)
        if (made, known.body()) != (response.headers, response.body):
            raise RuntimeError(f"plain Python says {made!r}, Rust {response.headers!r}, or the bodies differ")
        return known


def main() -> None:
    """Serve until a signal."""
    order = json.loads(sys.stdin.readline())
    app = Orcas(resolve({"data": order["data"]}).settings)
    ways: dict[str, Any] = {}

    async def choose(way: str) -> None:
        store = app.store
        assert store is not None
        if not ways:
            dispatcher = store.dispatch
            assert isinstance(dispatcher, Dispatcher)
            ways["rust"] = dispatcher
            ways["python"] = PlainDispatcher(dispatcher, fields=False)
            ways["python-fields"] = PlainDispatcher(dispatcher, fields=True)
        app.store = dataclasses.replace(store, dispatch=ways[way])

    # Under `/_orcas/`, which the application separates from S3 first, so no request pays for the choice.
    app.add_api_route("/_orcas/benchmark/{way}", choose, methods=["POST"])

    serve(app, "ways")


if __name__ == "__main__":
    main()
