"""Which differences there may be between the answers of two servers, and why."""

from __future__ import annotations

import re
from typing import Final

from .comparing import Reply

_CODE: Final = re.compile(rb"<Error><Code>([^<]*)</Code>")
# What the listener answers to what is no request.
_NO_REQUEST: Final = {b"BadRequest", b"InvalidURI", b"RequestHeaderSectionTooLarge"}
_METHODS: Final = {b"GET", b"HEAD", b"PUT", b"POST", b"DELETE", b"OPTIONS", b"PATCH"}


def is_expected(raw: bytes, first: Reply | bytes, second: Reply | bytes) -> bool:
    """Whether the answers of the listener and of uvicorn to a request may differ so."""
    if _is_refused(first) and _is_refused_by_uvicorn(second):
        return True
    return _fail(first, second) and (_has_strange_method(raw) or _has_strange_target(raw, first))


def _is_refused(reply: Reply | bytes) -> bool:
    """Whether the listener refuses to parse it."""
    if not isinstance(reply, Reply) or reply.number not in (400, 431):
        return False
    # A request has both ids.
    if reply.header("connection") != b"close" or reply.header("x-amz-id-2") is not None:
        return False
    found = _CODE.search(reply.body)
    return not reply.body or (found is not None and found[1] in _NO_REQUEST)


def _is_refused_by_uvicorn(reply: Reply | bytes) -> bool:
    """The same by uvicorn, which knows no documents of S3."""
    said = b"Invalid HTTP request received."
    # Nothing of it follows a HEAD.
    return (
        isinstance(reply, Reply) and reply.body in (said, b"") and reply.header("content-length") == b"%d" % len(said)
    )


def _fail(first: Reply | bytes, second: Reply | bytes) -> bool:
    return all(isinstance(reply, Reply) and reply.number >= 400 for reply in (first, second))


def _has_strange_method(raw: bytes) -> bool:
    """llhttp knows a list of methods, those of WebDAV and UPnP among them; hyper takes any, and the listener only letters.
    S3 has none of them, so that all are refused, with the one error or the other."""
    return raw.lstrip(b"\r\n").partition(b" ")[0] not in _METHODS


def _has_strange_target(raw: bytes, first: Reply | bytes) -> bool:
    """hyper refuses characters that a target may not have (RFC 3986), which llhttp lets through."""
    return _is_refused(first) and re.search(rb'[<>`"]', raw.lstrip(b"\r\n").partition(b"\r\n")[0]) is not None
