"""Which differences there may be between the answers of two listeners, and why."""

from __future__ import annotations

import re
from typing import Final

from .comparing import Reply

Replies = list[Reply | bytes]

_CODE: Final = re.compile(rb"<Error><Code>([^<]*)</Code>")
# What listeners answer to what is no request.
_NO_REQUEST: Final = {b"BadRequest", b"InvalidURI", b"RequestHeaderSectionTooLarge"}
_METHODS: Final = {b"GET", b"HEAD", b"PUT", b"POST", b"DELETE", b"OPTIONS", b"PATCH"}


def is_expected(raw: bytes, first: Replies, second: Replies) -> bool:
    """Whether these answers of the listener in Rust and of another one to a request may differ."""
    if _is_refused(first) and (_is_refused(second) or _is_refused_by_uvicorn(second)):
        return True
    return _has_strange_method(raw, first, second)


def _is_refused(replies: Replies) -> bool:
    """Whether a listener refuses to parse it. What is wrong with several parts of a head has several reasons, and parsers
    look at the parts in different orders. The document follows even a HEAD if the parser has not come so far."""
    reply, *rest = replies or [b""]
    if not isinstance(reply, Reply) or reply.number not in (400, 431):
        return False
    # A request has both ids.
    if reply.header("connection") != b"close" or reply.header("x-amz-id-2") is not None:
        return False
    if not reply.body and not rest:
        return True
    found = _CODE.search(reply.body or (rest[0] if isinstance(rest[0], bytes) else b""))
    return found is not None and found[1] in _NO_REQUEST


def _is_refused_by_uvicorn(replies: Replies) -> bool:
    """The same by uvicorn, which knows no documents of S3."""
    return len(replies) == 1 and isinstance(replies[0], Reply) and replies[0].body == b"Invalid HTTP request received."


def _has_strange_method(raw: bytes, first: Replies, second: Replies) -> bool:
    """llhttp knows a list of methods, those of WebDAV and UPnP among them; hyper takes any, and the listener only letters.
    S3 has none of them, so that all are refused, with the one error or the other."""
    method = raw.lstrip(b"\r\n").partition(b" ")[0]
    replies = [*first[:1], *second[:1]]
    return method not in _METHODS and all(isinstance(reply, Reply) and reply.number >= 400 for reply in replies)
