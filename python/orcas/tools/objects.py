"""The few S3 requests that an export makes: buckets, keys page by page, and objects with what is known of them.

Keys are bytes: listings use `encoding-type=url`, because XML cannot contain every key.
"""

from __future__ import annotations

import contextlib
import email.utils
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from orcas.errors import UnavailableError
from orcas.tools.session import RefusedError, Response, Session, no_bucket

_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_DOCUMENT_MAX: Final = 16 << 20
_USER: Final = "x-amz-meta-"
# Headers of an object that say something about it, beside its size and times.
_KEPT: Final = (
    "content-type", "content-encoding", "content-disposition", "content-language", "cache-control", "expires",
)  # fmt: skip


@dataclass(frozen=True)
class Listed:
    """An object as a page of its bucket shows it."""

    key: bytes
    size: int
    etag: str


@dataclass
class Opened:
    """An object that is being read."""

    answer: Response
    size: int
    etag: str
    modified: float
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


def buckets(session: Session) -> list[str]:
    """Names of all buckets, in order."""
    names: list[str] = []
    token = ""
    while True:
        query = f"continuation-token={quote(token, safe='')}&max-buckets=1000" if token else "max-buckets=1000"
        document = _document(session, "/", query)
        names += [
            found.text or "" for found in document.iterfind(f"{_NAMESPACE}Buckets/{_NAMESPACE}Bucket/{_NAMESPACE}Name")
        ]
        token = _text(document, "ContinuationToken")
        if not token:
            return names


def listed(session: Session, bucket: str, prefix: bytes = b"") -> Iterator[Listed]:
    """Every object of a bucket whose key begins with `prefix`, in the order of the keys.

    Raises:
        RefusedError: there is no such bucket.
    """
    token = ""
    while True:
        # In the order in which they are signed.
        query = f"continuation-token={quote(token, safe='')}&" if token else ""
        query += f"encoding-type=url&list-type=2&max-keys=1000&prefix={quote(prefix, safe='')}"
        document = _document(session, f"/{quote(bucket, safe='')}", query)
        for entry in document.iterfind(f"{_NAMESPACE}Contents"):
            key = unquote_to_bytes(_text(entry, "Key").replace("+", " "))
            yield Listed(key, int(_text(entry, "Size")), _text(entry, "ETag").strip('"'))
        token = _text(document, "NextContinuationToken")
        if not token:
            return


@contextlib.contextmanager
def opened(session: Session, bucket: str, key: bytes) -> Iterator[Opened | None]:
    """An object; None when there is none any more.

    Raises:
        RefusedError: it cannot be read.
    """
    with session.request("GET", f"/{quote(bucket, safe='')}/{quote(key, safe='')}") as answer:
        if answer.status == 404:
            yield None
            return
        if answer.status != 200:
            raise RefusedError(
                answer.status,
                f"{bucket}/{key.decode(errors='replace')} cannot be read ({reason(answer)}): "
                "`orcas fsck` says what is lost.",
            )
        headers = answer.headers
        modified = email.utils.parsedate_to_datetime(headers["last-modified"]).timestamp()
        yield Opened(
            answer, int(headers["content-length"]), headers.get("etag", "").strip('"'), modified,
            {name: headers[name] for name in _KEPT if name in headers},
            {name.removeprefix(_USER): value for name, value in headers.items() if name.startswith(_USER)},
        )  # fmt: skip


def _document(session: Session, path: str, query: str) -> ET.Element:
    with session.request("GET", path, query) as answer:
        if answer.status != 200:
            name = path.strip("/")
            if answer.status == 404:
                raise no_bucket(name)
            what = f"The bucket {name}" if name else f"The list of buckets of {session.transport.host}"
            raise RefusedError(answer.status, f"{what} cannot be read ({reason(answer)}): see the log of the server.")
        body = answer.read(_DOCUMENT_MAX)
    try:
        return ET.fromstring(body)  # noqa: S314 - the operator's own server; expat bounds the growth of entities
    except ET.ParseError:
        raise UnavailableError(
            f"The server at {session.transport.host} does not speak S3: name the address of Orcas."
        ) from None


def reason(answer: Response) -> str:
    """The message of an error document, without the full stop; the status if there is none."""
    try:
        document = ET.fromstring(answer.read(1 << 20))  # noqa: S314 - as above
    except ET.ParseError:
        return f"status {answer.status}"
    message = document.findtext("Message") or f"status {answer.status}"
    return message.rstrip(".")


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{_NAMESPACE}{name}") or ""
