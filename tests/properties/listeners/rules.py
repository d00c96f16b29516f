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
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n")


def is_expected(raw: bytes, what: list[str], first: Replies, second: Replies) -> bool:
    """Whether the answers of the listener in Rust and of another one to a request may differ so."""
    if _is_refused(first) and (_is_refused(second) or _is_refused_by_uvicorn(second)):
        return True
    if what == ["number of answers"]:
        return _is_refused_behind(first, second)
    if not _fail(first, second):
        return _is_cut_short(raw, first, second)
    return _has_strange_method(raw) or _has_strange_target(raw, first)


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


def _is_refused_behind(first: Replies, second: Replies) -> bool:
    """What follows a request, and is not a whole head, is refused by llhttp at its first wrong byte. hyper waits for the
    end of the head, and here the connection ends before."""
    return len(second) == len(first) + 1 and _is_refused(second[len(first) :])


def _fail(first: Replies, second: Replies) -> bool:
    replies = [*first[:1], *second[:1]]
    return len(replies) == 2 and all(isinstance(reply, Reply) and reply.number >= 400 for reply in replies)


def _has_strange_method(raw: bytes) -> bool:
    """llhttp knows a list of methods, those of WebDAV and UPnP among them; hyper takes any, and the listener only letters.
    S3 has none of them, so that all are refused, with the one error or the other."""
    return raw.lstrip(b"\r\n").partition(b" ")[0] not in _METHODS


def _has_strange_target(raw: bytes, first: Replies) -> bool:
    """hyper refuses characters that a target may not have (RFC 3986), which llhttp lets through."""
    return _is_refused(first) and re.search(rb'[<>`"]', raw.lstrip(b"\r\n").partition(b"\r\n")[0]) is not None


def _is_cut_short(raw: bytes, first: Replies, second: Replies) -> bool:
    """A refusal by the application has its document when the rest of the body has come, or a second later. It is cut off if
    the client ends its body before."""
    head, _, body = raw.partition(b"\r\n\r\n")
    length = _LENGTH.search(head + b"\r\n")
    if length is None or len(body) >= int(length[1]) or len(first) != 1 or len(second) != 1:
        return False
    begun, whole = first[0], second[0]
    return isinstance(begun, bytes) and isinstance(whole, Reply) and begun[9:12] == whole.status[9:12] >= b"400"
