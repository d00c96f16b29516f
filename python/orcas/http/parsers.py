"""Parsers of HTTP/1.1: for a new connection, and for the body of a request whose head was parsed before.

Must not know requests: the callbacks do.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

import httptools

from orcas.settings.config import KIB

# Each header costs objects, however short it is.
HEADERS_MAX: Final = 256
# A parser cannot be stopped within one call, so it gets no more than this at once, unless all of it is one body. A pipeline
# may exceed its limit by as many requests as fit into this.
FEED_BYTES: Final = 8 * KIB
CHUNK_FRAMING: Final = 20  # of a chunk without extensions: sixteen digits and two line ends
# Headers that say where a request ends, or for which host it is.
FRAMING: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))
# A target in absolute form: its host and port, and what follows. Its scheme says nothing about the connection. User
# information would be a way to show another host than the real one (RFC 9110, section 4.2.4).
_ABSOLUTE: Final = re.compile(
    rb"https?://((?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{0,5})?)((?:[/?].*)?)", re.IGNORECASE
)


class Callbacks(Protocol):
    """What a parser calls, in the order of the bytes."""

    def on_message_begin(self) -> None:
        """A request begins."""

    def on_url(self, url: bytes) -> None:
        """A piece of its target."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""

    def on_headers_complete(self) -> None:
        """Its head ends."""

    def on_chunk_header(self) -> None:
        """A chunk of its body begins."""

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""

    def on_message_complete(self) -> None:
        """It ends."""


def new_parser(callbacks: Callbacks) -> httptools.HttpRequestParser:
    """A parser to which bytes after a request with `Connection: close` are no error: they are ignored."""
    parser = httptools.HttpRequestParser(callbacks)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def parser_of_body(callbacks: Callbacks, length: int | None) -> httptools.HttpRequestParser:
    """A parser that expects a body of `length` bytes (None: a chunked body), and then further requests."""
    parser = new_parser(_AfterFirstHead(callbacks))
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    parser.feed_data(b"PUT / HTTP/1.1\r\n%b\r\n\r\n" % framing)
    return parser


def origin_form(url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The path and query of a target in absolute form; empty if it is in another form.

    Its host takes the place of the value of Host, which does not count then (RFC 9112, section 3.2.2).
    """
    form = _ABSOLUTE.fullmatch(url)
    if form is None:
        return b""
    host, rest = form.groups()
    headers[:] = [(name, host if name == b"host" else value) for name, value in headers]
    return rest if rest.startswith(b"/") else b"/" + rest


class _AfterFirstHead:
    """Passes on all callbacks except those of the first head, which is a substitute for the real one."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._hidden = True
        self.on_chunk_header = callbacks.on_chunk_header
        self.on_body = callbacks.on_body
        self.on_message_complete = callbacks.on_message_complete

    def on_message_begin(self) -> None:
        """As in `Callbacks`, like what follows."""
        if not self._hidden:
            self._callbacks.on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        if not self._hidden:
            self._callbacks.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if not self._hidden:
            self._callbacks.on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head ends: from now on everything is passed on."""
        if not self._hidden:
            self._callbacks.on_headers_complete()
        self._hidden = False
