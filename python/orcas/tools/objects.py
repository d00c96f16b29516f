"""The few S3 requests that commands make: buckets, keys page by page, objects with what is known of them.

Keys are bytes: listings use `encoding-type=url`, because XML cannot contain every key.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from orcas.errors import OrcasError, UnavailableError
from orcas.tools.session import RefusedError, Response, Session, no_bucket

# Any: not all servers have that of the documentation.
_NAMESPACE: Final = "{*}"
_DOCUMENT_MAX: Final = 16 << 20
# Codes of errors about the key with which a request is signed.
_WRONG_KEY: Final = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch"})
# Of a size that may be true.
_DIGITS_MAX: Final = 19
USER: Final = "x-amz-meta-"
# Headers of an object that say something about it, beside its size and times.
KEPT: Final = (
    "content-type", "content-encoding", "content-disposition", "content-language", "cache-control", "expires",
)  # fmt: skip


@dataclass(frozen=True)
class Listed:
    """An object as a page of its bucket shows it."""

    key: bytes
    size: int
    etag: str


@dataclass(frozen=True)
class Version(Listed):
    """A version of an object, or a delete marker, which has neither size nor ETag."""

    id: str
    is_marker: bool


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
    return [_text(found, "Name") for found in bucket_entries(session)]


def bucket_entries(session: Session) -> Iterator[ET.Element]:
    """All buckets as S3 lists them, in the order of their names."""
    token = ""
    while True:
        query = f"continuation-token={quote(token, safe='')}&max-buckets=1000" if token else "max-buckets=1000"
        document = _document(session, "/", query)
        yield from document.iterfind(f"{_NAMESPACE}Buckets/{_NAMESPACE}Bucket")
        token = _text(document, "ContinuationToken")
        if not token:
            return


def bucket_owner(session: Session, bucket: str) -> str | None:
    """The canonical id of the account of a bucket; None if there is no such bucket."""
    try:
        document = _document(session, f"/{quote(bucket, safe='')}", "acl")
    except RefusedError as error:
        # 400: no bucket can have this name.
        if error.status in (400, 404):
            return None
        raise
    return document.findtext(f"{_NAMESPACE}Owner/{_NAMESPACE}ID")


def bucket_policy(session: Session, bucket: str) -> str | None:
    """The policy of a bucket, if it has one."""
    with session.request("GET", f"/{quote(bucket, safe='')}", "policy") as answer:
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise _refused(session, answer, f"The policy of the bucket {bucket}")
        return answer.read(_DOCUMENT_MAX).decode()


def listed(session: Session, bucket: str, prefix: bytes = b"") -> Iterator[Listed]:
    """Every object of a bucket whose key begins with `prefix`, in the order of the keys.

    Raises:
        RefusedError: there is no such bucket.
    """
    for document in pages(session, bucket, prefix):
        for entry in document.iterfind(f"{_NAMESPACE}Contents"):
            yield Listed(key_of(document, entry), _size(session, entry), _text(entry, "ETag").strip('"'))


def pages(session: Session, bucket: str, prefix: bytes = b"", delimiter: str = "") -> Iterator[ET.Element]:
    """The pages of ListObjectsV2; `key_of` knows their keys.

    Raises:
        RefusedError: there is no such bucket.
    """
    token = ""
    while True:
        # In the order in which they are signed.
        query = f"continuation-token={quote(token, safe='')}&" if token else ""
        query += f"delimiter={quote(delimiter, safe='')}&" if delimiter else ""
        query += f"encoding-type=url&list-type=2&max-keys=1000&prefix={quote(prefix, safe='')}"
        document = _document(session, f"/{quote(bucket, safe='')}", query)
        yield document
        token = _text(document, "NextContinuationToken")
        if not token:
            return


def listed_versions(session: Session, bucket: str, prefix: bytes = b"") -> Iterator[Version]:
    """Every version and delete marker, in the order of the keys, those of one key from the newest to the oldest.

    Raises:
        RefusedError: there is no such bucket.
        UnavailableError: the server lists them in another order, from which that of a key cannot be told, or no sizes.
    """
    key, key_marker, id_marker = b"", b"", ""
    while True:
        # In the order in which they are signed.
        query = f"encoding-type=url&key-marker={quote(key_marker, safe='')}&" if key_marker else "encoding-type=url&"
        query += f"max-keys=1000&prefix={quote(prefix, safe='')}"
        query += f"&version-id-marker={quote(id_marker, safe='')}" if id_marker else ""
        document = _document(session, f"/{quote(bucket, safe='')}", f"{query}&versions=")
        for entry in document:
            kind = entry.tag.rpartition("}")[2]
            if kind in ("Version", "DeleteMarker"):
                before, key = key, key_of(document, entry)
                if key < before or (_text(entry, "IsLatest") == "true") != (key != before):
                    raise UnavailableError(
                        f"The server at {session.transport.host} does not list the versions of {bucket} in order: "
                        "leave out --versions."
                    )
                size = _size(session, entry) if kind == "Version" else 0
                yield Version(
                    key, size, _text(entry, "ETag").strip('"'), _text(entry, "VersionId"), kind == "DeleteMarker"
                )
        key_marker, id_marker = key_of(document, document, "NextKeyMarker"), _text(document, "NextVersionIdMarker")
        if _text(document, "IsTruncated") != "true":
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
            code, message = refusal(answer)
            raise RefusedError(
                answer.status,
                f"{bucket}/{key.decode(errors='replace')} cannot be read ({message}): `orcas fsck` says what is lost.",
                code,
            )
        headers = answer.headers
        size = _number(session, headers.get("content-length", ""))
        try:
            modified = email.utils.parsedate_to_datetime(headers.get("last-modified", "")).timestamp()
        except (ValueError, OverflowError):
            raise _no_s3(session) from None
        yield Opened(
            answer, size, headers.get("etag", "").strip('"'), modified,
            {name: headers[name] for name in KEPT if name in headers},
            {name.removeprefix(USER): value for name, value in headers.items() if name.startswith(USER)},
        )  # fmt: skip


def _document(session: Session, path: str, query: str) -> ET.Element:
    with session.request("GET", path, query) as answer:
        if answer.status != 200:
            name = path.strip("/")
            if answer.status == 404:
                raise no_bucket(name)
            what = f"The bucket {name}" if name else f"The list of buckets of {session.transport.host}"
            raise _refused(session, answer, what)
        body = answer.read(_DOCUMENT_MAX)
    try:
        return ET.fromstring(body)  # noqa: S314 - the operator's own server; expat bounds the growth of entities
    # The others: encodings that expat does not know.
    except (ET.ParseError, LookupError, ValueError):
        raise _no_s3(session) from None


def _no_s3(session: Session) -> UnavailableError:
    return UnavailableError(
        f"The server at {session.transport.host} does not speak S3: name the address of an S3 server."
    )


def _refused(session: Session, answer: Response, what: str) -> RefusedError:
    code, message = refusal(answer)
    if code in _WRONG_KEY:
        return RefusedError(
            answer.status, f"{what} cannot be read ({message}): check the key{session.key_owner}.", code
        )
    if answer.status == http.client.FORBIDDEN and code in ("", "AccessDenied"):
        return RefusedError(answer.status, f"{what} cannot be read ({message}): ask for a policy that allows it.", code)
    return RefusedError(answer.status, f"{what} cannot be read ({message}): see the log of the server.", code)


def refusal(answer: Response) -> tuple[str, str]:
    """Code and message of an error document, the message without the full stop; the status if there is none."""
    code = message = ""
    with contextlib.suppress(ET.ParseError, LookupError, ValueError, OrcasError):
        document = ET.fromstring(answer.read(1 << 20))  # noqa: S314 - as above
        code, message = document.findtext("Code") or "", document.findtext("Message") or ""
    return code, (message or f"status {answer.status}").rstrip(".")


def key_of(document: ET.Element, entry: ET.Element, name: str = "Key") -> bytes:
    """The key of an entry of a list. A few servers do not encode keys although they were asked to."""
    key = _text(entry, name)
    return unquote_to_bytes(key.replace("+", " ")) if _text(document, "EncodingType") == "url" else key.encode()


def _size(session: Session, entry: ET.Element) -> int:
    return _number(session, _text(entry, "Size"))


def _number(session: Session, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise _no_s3(session)
    return int(text)


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{_NAMESPACE}{name}") or ""
