"""Straightforward header formatting in Python: f-strings, str and email.utils.

For comparison with the Rust functions of the same names. Sizes in bytes, times in milliseconds since 1970.
"""

from __future__ import annotations

import base64
import datetime as dt
from email.utils import formatdate

Headers = list[tuple[bytes, bytes]]


def format_etag(md5: bytes, parts: int) -> bytes:
    """The value of an ETag."""
    text = f'"{md5.hex()}-{parts}"' if parts else f'"{md5.hex()}"'
    return text.encode()


def format_content_length(length: int) -> bytes:
    """The value of a Content-Length."""
    return str(length).encode()


def format_last_modified(modified_ms: int) -> bytes:
    """The value of a Last-Modified."""
    return formatdate(modified_ms // 1000, usegmt=True).encode()


def format_content_range(first: int, last: int, size: int) -> bytes:
    """The value of a Content-Range."""
    return f"bytes {first}-{last}/{size}".encode()


def format_list_time(modified_ms: int) -> str:
    """A time as lists show it."""
    at = dt.datetime.fromtimestamp(modified_ms // 1000, dt.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{modified_ms % 1000:03}Z"


def object_headers(md5: bytes, parts: int, length: int, modified_ms: int, content_type: str) -> Headers:
    """The five headers of an object."""
    return [
        (b"etag", format_etag(md5, parts)),
        (b"last-modified", format_last_modified(modified_ms)),
        (b"accept-ranges", b"bytes"),
        (b"content-length", format_content_length(length)),
        (b"content-type", content_type.encode()),
    ]


def checksum_headers(algorithm: str, digest: bytes, kind: str) -> Headers:
    """The two headers of a checksum."""
    return [
        (f"x-amz-checksum-{algorithm}".encode(), base64.b64encode(digest)),
        (b"x-amz-checksum-type", kind.encode()),
    ]


def request_headers(request_id: str, host_id: str) -> Headers:
    """The two headers that name a request."""
    return [(b"x-amz-request-id", request_id.encode()), (b"x-amz-id-2", host_id.encode())]


def joined(headers: Headers) -> bytes:
    """The headers as lines with line ends."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)
