"""Downloads: an object as its ETag says that it is, part by part if it was uploaded so, compared with what S3 knows of it.

A connection that breaks continues behind the last byte. What is written nowhere else is verified when all of it is there,
so that a file gets its name only then. Must not know where bytes go.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import re
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from orcas.errors import UnavailableError
from orcas.tools.imports.pool import PAUSES_SECONDS, each
from orcas.tools.imports.requests import ChangedError, ObjectError, Side, StoppedError, is_md5, length_of, path_of
from orcas.tools.imports.server import ASKING, IN_PARTS, checksum_of, is_random
from orcas.tools.objects import Listed
from orcas.tools.transfers.places import Place

_RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/[0-9]{1,19}", re.ASCII)

# Bytes, and where in the object they begin.
Sink = Callable[[int, bytes], None]


class _Digest(Protocol):
    """As those of `hashlib`."""

    def update(self, data: bytes, /) -> None:
        """Take the next bytes."""

    def digest(self) -> bytes:
        """The digest of all bytes so far."""


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """Take the next bytes."""
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        """The digest of all bytes so far, as S3 has it."""
        return self._value.to_bytes(4)


# Those that Python has. S3 knows the MD5 of nearly every object as well.
_DIGESTS: Final[dict[str, Callable[[], _Digest]]] = {
    "crc32": _Crc32, "sha1": lambda: hashlib.sha1(usedforsecurity=False), "sha256": hashlib.sha256,
}  # fmt: skip


@dataclass
class _Span:
    """The part of an object that is read, or everything. `at`: the next byte; `first` is known once an answer has come."""

    number: int | None
    first: int | None = None
    at: int = 0
    end: int = 0
    # Whether the ETag is no MD5.
    is_random: bool = False
    checksum: _Digest | None = None
    expected: bytes = b""
    md5: _Digest = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))

    def begin(self, given: dict[str, str]) -> None:
        """Take from the headers of an answer which bytes it has, and what verifies them."""
        self.first = self.at = 0
        self.end = length_of(given)
        if self.number is not None and (found := _RANGE.fullmatch(given.get("content-range", ""))):
            self.first = self.at = int(found[1])
            self.end = int(found[2]) + 1
        self.is_random = is_random(given)
        known = checksum_of(given)
        # In the answer with a part, the checksum of the whole object is of no use.
        if known is not None and known.algorithm in _DIGESTS and known.is_whole == (self.number is None):
            with contextlib.suppress(ValueError):
                self.expected = base64.b64decode(known.value, validate=True)
                self.checksum = _DIGESTS[known.algorithm]()

    def take(self, piece: bytes) -> None:
        """The next bytes."""
        self.at += len(piece)
        self.md5.update(piece)
        if self.checksum is not None:
            self.checksum.update(piece)


class Download:
    """An object on its way to `sink`. With `threads`, several parts are read at a time, so that bytes come in any
    order."""

    def __init__(
        self,
        side: Side,
        place: Place,
        entry: Listed,
        sink: Sink,
        stop: threading.Event,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self._side = side
        self._path = path_of(place.bucket, entry.key)
        self._entry = entry
        self._sink = sink
        self._stop = stop
        self._threads = threads
        # When it was stored, as the header says it.
        self.modified = ""

    def run(self) -> bool:
        """Read it; whether S3 knew something to verify its bytes with.

        Raises:
            ObjectError: it cannot be read, or has other bytes than it must have.
            ChangedError: another object took its place.
        """
        etag = self._entry.etag
        if IN_PARTS.fullmatch(etag):
            try:
                return self._in_parts(int(etag.rpartition("-")[2]))
            except ObjectError as error:
                # Its parts are not numbered from 1 on without a gap.
                if error.status != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
        span = self._span(None)
        self._check_length([span])
        if not is_md5(etag) or span.is_random:
            return span.checksum is not None
        if span.md5.digest().hex() != etag:
            raise _damaged()
        return True

    def _in_parts(self, count: int) -> bool:
        numbers = range(1, count + 1)
        spans = [*map(self._span, numbers)] if self._threads is None else each(self._threads, self._span, numbers)
        self._check_length(spans)
        if any(span.is_random for span in spans):
            return all(span.checksum is not None for span in spans)
        whole = hashlib.md5(b"".join(span.md5.digest() for span in spans), usedforsecurity=False).hexdigest()
        if f"{whole}-{count}" != self._entry.etag:
            raise _damaged()
        return True

    def _check_length(self, spans: list[_Span]) -> None:
        at = 0
        for span in spans:
            if span.first != at:
                raise _damaged()
            at = span.end
        if at != self._entry.size:
            raise _damaged()

    def _span(self, number: int | None) -> _Span:
        """Read the part with this number, or everything."""
        span, failures = _Span(number), 0
        while span.first is None or span.at < span.end:
            before = span.at
            try:
                self._read(span)
            except (ObjectError, UnavailableError) as error:
                failures = 0 if span.at > before else failures + 1
                if isinstance(error, ObjectError) and error.status == http.client.PRECONDITION_FAILED:
                    raise ChangedError from None
                gone = isinstance(error, ObjectError) and not error.is_transient
                if gone or failures > len(PAUSES_SECONDS):
                    raise
                self._stop.wait(PAUSES_SECONDS[failures - 1])
        if span.checksum is not None and span.checksum.digest() != span.expected:
            raise _damaged()
        return span

    def _read(self, span: _Span) -> None:
        """Read what is left of a span, at once if the connection holds."""
        query = {"partNumber": f"{span.number}"} if span.number is not None and span.first is None else {}
        asking = [(b"if-match", f'"{self._entry.etag}"'.encode()), *ASKING]
        if span.first is not None:
            asking.append((b"range", b"bytes=%d-%d" % (span.at, span.end - 1)))
        with self._side.opened("GET", self._path, query, headers=asking) as answer:
            if span.first is None:
                span.begin(answer.headers)
                self.modified = answer.headers.get("last-modified", "")
            for piece in self._side.pieces(answer):
                if self._stop.is_set():
                    raise StoppedError
                self._sink(span.at, piece)
                span.take(piece)


def _damaged() -> ObjectError:
    return ObjectError("its bytes do not match its length, its ETag or its checksum", code="BadDigest")
