"""Single S3 requests of an import, for both sides: what is refused becomes the reason why one object was not imported.

Must not know in which order objects are copied, or what is done about a failure.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from orcas.errors import UnavailableError
from orcas.tools.objects import refusal
from orcas.tools.session import Body, Headers, Response, Session

# Bytes of an answer that is a document.
ANSWER_MAX: Final = 16 << 20
# The MD5 of the content, if the object is not encrypted in a way that makes it random.
_MD5: Final = re.compile(r"[0-9a-f]{32}")
# Digits of a length at most.
_DIGITS_MAX: Final = 20
# Codes of errors that go away.
_TRANSIENT: Final = frozenset({"BadDigest", "IncompleteBody", "RequestTimeout", "SlowDown"})
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
# The code of an error about a key that no server is asked for.
UNSAFE_KEY: Final = "UnsafeKey"


class ObjectError(Exception):
    """One object cannot be imported. `status` is that of HTTP, 0 if nobody refused it; `at_target`: the store did."""

    def __init__(self, reason: str, status: int = 0, code: str = "", *, at_target: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.at_target = at_target

    @property
    def is_busy(self) -> bool:
        """Whether the server takes no request like this now."""
        return self.status >= _SERVER_ERROR or self.status == _TOO_MANY

    @property
    def is_transient(self) -> bool:
        """Whether the same may succeed later."""
        return self.is_busy or self.code in _TRANSIENT


class ChangedError(ObjectError):
    """The object was replaced while it was read."""

    def __init__(self) -> None:
        super().__init__("it was replaced while it was read", code="SlowDown")


class StoppedError(Exception):
    """The import ends, and this object with it."""


class BrokenOffError(UnavailableError):
    """The source ended in the middle of a body. Raised while the body is sent, so it must not count as the target's."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} broke off in the middle of an object: run the command again.")


@dataclass
class Side:
    """One of the two servers."""

    session: Session
    is_target: bool

    @contextlib.contextmanager
    def opened(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | Body = b"",
        headers: Headers | None = None,
    ) -> Iterator[Response]:
        """A request that must succeed.

        Raises:
            ObjectError: it is refused.
            UnavailableError: there is no answer.
        """
        # In the order in which they are signed.
        text = urlencode(sorted((query or {}).items()), quote_via=quote, safe="")
        with self.session.request(method, path, text, body, headers) as answer:
            if answer.status >= http.client.MULTIPLE_CHOICES:
                raise self._refused(answer)
            yield answer

    def ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | Body = b"",
        headers: Headers | None = None,
    ) -> tuple[dict[str, str], bytes]:
        """The headers and the body of the answer to such a request."""
        with self.opened(method, path, query, body, headers) as answer:
            return answer.headers, answer.read(ANSWER_MAX)

    def document(self, path: str, query: dict[str, str], method: str = "GET", **rest: Any) -> ET.Element:
        """The document in the answer to such a request."""
        _, answer = self.ask(method, path, query, **rest)
        try:
            return ET.fromstring(answer)  # noqa: S314 - expat bounds the growth of entities
        # The others: encodings that expat does not know.
        except (ET.ParseError, LookupError, ValueError):
            raise ObjectError(f"{self._name} gave an answer that is not XML") from None

    def has(self, path: str, query: dict[str, str]) -> bool:
        """Whether there is such a document."""
        try:
            self.ask("GET", path, query)
        except ObjectError:
            return False
        return True

    def pieces(self, answer: Response) -> Iterator[bytes]:
        """The body of an answer, whose end is never mistaken for that of the other side."""
        try:
            yield from answer.pieces
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            raise BrokenOffError(self.session.transport.host) from error

    def _refused(self, answer: Response) -> ObjectError:
        code, message = refusal(answer)
        text = f"{code}: {message}" if code else message
        code = code or f"status {answer.status}"
        return ObjectError(f"{self._name} says {text}", answer.status, code, at_target=self.is_target)

    @property
    def _name(self) -> str:
        return self.session.transport.host if self.session.is_remote else "the store"


def length_of(given: dict[str, str]) -> int:
    """The length of an object, from the headers of an answer.

    Raises:
        ObjectError: it is not said, as by a proxy that changes the body.
    """
    length = given.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) <= _DIGITS_MAX):
        raise ObjectError("the source does not say how long it is")
    return int(length)


def path_of(bucket: str, key: bytes = b"") -> str:
    """The path of a bucket or an object in a request line."""
    return f"/{quote(bucket, safe='')}" + (f"/{quote(key, safe='/')}" if key else "")


def checked_path(bucket: str, key: bytes) -> str:
    """The path of an object on a server that may be any.

    Raises:
        ObjectError: a server that resolves paths, as a proxy does, would take the key for the path of something else.
    """
    text = key.decode("latin-1")
    # However often a server decodes it.
    while (decoded := unquote(text, "latin-1")) != text:
        text = decoded
    parts = (part.partition(";")[0].strip() for part in re.split(r"[/\\]", text))
    if any(part in (".", "..") for part in parts):
        raise ObjectError('its key has a part "." or "..", which a server may resolve', code=UNSAFE_KEY)
    return path_of(bucket, key)


def is_md5(etag: str) -> bool:
    """Whether an ETag may be the MD5 of the content."""
    return _MD5.fullmatch(etag) is not None
