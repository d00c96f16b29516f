"""The objects of a warehouse: requests that root signs, to the application of S3 in this process.

So they are decided, counted, and made durable as any other; only copies of several objects at once, which S3 has not, are
asked of the engine. What the caller may do is decided before. Must not know tables.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote
from xml.sax.saxutils import escape

from orcas.control.identities.names import account_number
from orcas.engine import Refusal, sign
from orcas.http.extensions import RESPONSE
from orcas.http.signing import UNSIGNED, encode_query
from orcas.tables.failures import UNAVAILABLE, TableError, invalid
from orcas.tables.names import bucket_of

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from orcas.engine import Core

    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bytes of an object that is read into memory.
OBJECT_MAX: Final = 64 * 1024 * 1024
# Keys of a page of a list, of an order to delete, and of one to copy.
PAGE: Final = 1000
_HOST: Final = b"localhost"
_CLIENT: Final = ("127.0.0.1", 0)
_INVALID: Final = 400
_MISSING: Final = 404
_NOT_MET: Final = (409, 412)


class Signing(Protocol):
    """Root: its id and its keys."""

    @property
    def owner(self) -> str:
        """The canonical id."""

    @property
    def access_key(self) -> str:
        """The access key."""

    @property
    def secret_key(self) -> str:
        """Its secret."""


class ChangedError(Exception):
    """A condition did not hold."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: its bytes, what the condition of a swap names, and its time as the header says it."""

    body: bytes
    etag: str
    modified: str


@dataclass(frozen=True, slots=True)
class Written:
    """What was stored: the ETag of the object and its version, `null` where the bucket keeps none."""

    etag: str
    version: str


@dataclass(frozen=True, slots=True)
class Copy:
    """An object that is copied: its key and ETag, the key of the copy, and the ETag of the object that the copy takes the
    place of, if there may be one."""

    source: str
    etag: str
    key: str
    replaces: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: keys, where the next one begins, and the times of the keys in ISO 8601."""

    keys: list[str]
    next: str | None
    times: list[str]


class Objects:
    """The objects of all warehouses, by whose names buckets are called. `app`, `root` and `core`, that of the open store,
    are called for each request."""

    def __init__(
        self, app: Callable[[], Application], root: Callable[[], Signing], core: Callable[[], Core], region: str
    ) -> None:
        self._app, self._root, self._core, self._region = app, root, core, region

    async def create_bucket(self, bucket: str, tag: str | None = None) -> bool:
        """Create a bucket of root's, which has this tag from the beginning. False: there is one.

        Raises:
            TableError: it cannot be created.
        """
        tags = "" if tag is None else f"<Tags><Tag><Key>{tag}</Key><Value></Value></Tag></Tags>"
        body = f"<CreateBucketConfiguration>{tags}</CreateBucketConfiguration>".encode()
        answer = await self._ask("PUT", bucket, body=body if tags else b"")
        if answer.code == "BucketAlreadyOwnedByYou":
            return False
        answer.check()
        return True

    async def remove_tags(self, bucket: str) -> None:
        """Remove the tags of a bucket.

        Raises:
            TableError: they cannot be removed.
        """
        (await self._ask("DELETE", bucket, query={"tagging": ""})).check()

    async def delete_bucket(self, bucket: str) -> bool:
        """Delete a bucket of root's. False: something is in it.

        Raises:
            TableError: it cannot be deleted.
        """
        answer = await self._ask("DELETE", bucket)
        if answer.code == "BucketNotEmpty":
            return False
        answer.check()
        return True

    async def get(self, bucket: str, key: str) -> Stored | None:
        """An object, or None if there is none.

        Raises:
            TableError: it cannot be read, or is too large.
        """
        answer = await self._ask("GET", bucket, key)
        if answer.status == _MISSING:
            return None
        answer.check()
        etag, modified = (answer.headers.get(name, b"").decode() for name in (b"etag", b"last-modified"))
        return Stored(answer.body, etag, modified)

    async def put(self, bucket: str, key: str, body: bytes, *, etag: str | None = None) -> Written:
        """Store an object in place of the one with this ETag; without one, there must be none.

        Raises:
            ChangedError: it is another one, or there is one.
            TableError: it cannot be stored.
        """
        condition = (b"if-none-match", b"*") if etag is None else (b"if-match", etag.encode())
        headers = [condition, (b"content-type", b"application/json")]
        answer = await self._ask("PUT", bucket, key, headers=headers, body=body)
        # With If-Match, an object that is gone is not found.
        if answer.status in _NOT_MET or (etag is not None and answer.code == "NoSuchKey"):
            raise ChangedError
        answer.check()
        return Written(answer.headers[b"etag"].decode(), answer.headers.get(b"x-amz-version-id", b"null").decode())

    async def delete(self, bucket: str, key: str, etag: str) -> None:
        """Delete the object with this ETag.

        Raises:
            ChangedError: it is another one, or there is none.
        """
        answer = await self._ask("DELETE", bucket, key, headers=[(b"if-match", etag.encode())])
        if answer.status in _NOT_MET or answer.status == _MISSING:
            raise ChangedError
        answer.check()

    async def forget(self, bucket: str, key: str, version: str) -> None:
        """Remove a version for good.

        Raises:
            TableError: it cannot be removed.
        """
        (await self._ask("DELETE", bucket, key, query={"versionId": version})).check()

    async def rename(self, bucket: str, source: str, target: str, etag: str) -> None:
        """Give the object with this ETag another key, which none may have.

        Raises:
            ChangedError: it is another one, or there is one at the target.
        """
        headers = [
            (b"x-amz-rename-source", quote(f"/{bucket_of(bucket)}/{source}").encode()),
            (b"x-amz-rename-source-if-match", etag.encode()), (b"if-none-match", b"*"),
        ]  # fmt: skip
        answer = await self._ask("PUT", bucket, target, query={"renameObject": ""}, headers=headers)
        if answer.code == "InvalidBucketState":
            raise TableError(
                406,
                "UnsupportedOperationException",
                f"Tables are renamed in buckets without versioning, and {bucket} has it.",
            )
        if answer.status in _NOT_MET or answer.status == _MISSING:
            raise ChangedError
        answer.check()

    async def page(self, bucket: str, prefix: str, *, delimiter: str = "", after: str = "", limit: int = PAGE) -> Page:
        """Keys with a prefix; with a delimiter, those without it behind the prefix.

        Args:
            bucket: whose.
            prefix: of the keys.
            delimiter: as of S3.
            after: the `next` of the page before.
            limit: the most keys.
        """
        return (await self._list(bucket, prefix, delimiter=delimiter, after=after, limit=limit))[1]

    async def etags(self, bucket: str, prefix: str) -> dict[str, str]:
        """The ETags of all objects with a prefix, by key."""
        found: dict[str, str] = {}
        page = Page([], "", [])
        while page.next is not None:
            answer, page = await self._list(bucket, prefix, after=page.next)
            found |= {each.findtext("Key") or "": each.findtext("ETag") or "" for each in answer.iter("Contents")}
        return found

    async def copy(self, source: str, bucket: str, copies: Sequence[Copy]) -> None:
        """Copy objects of a bucket into another one, or within it: all of them at once, or none.

        Raises:
            ChangedError: one is not as it was.
            TableError: they cannot be stored.
        """
        rows = [(each.source, each.etag, each.key, each.replaces) for each in copies]
        try:
            await asyncio.to_thread(self._core().copy_objects, bucket_of(source), bucket_of(bucket), rows)
        except Refusal as refusal:
            status, code, message = refusal.args
            if status in _NOT_MET or code == "NoSuchKey":
                raise ChangedError from None
            raise invalid(message) if status == _INVALID else _failed(code) from None

    async def has_locks(self, bucket: str) -> bool:
        """Whether objects of a bucket can be locked."""
        answer = await self._ask("GET", bucket, query={"object-lock": ""})
        if answer.code == "ObjectLockConfigurationNotFoundError":
            return False
        answer.check()
        return True

    async def encryption(self, bucket: str) -> bytes:
        """How what is stored in a bucket is encrypted by default: the document of S3."""
        answer = await self._ask("GET", bucket, query={"encryption": ""})
        if answer.code == "ServerSideEncryptionConfigurationNotFoundError":
            return b""
        answer.check()
        return answer.body

    async def delete_all(self, bucket: str, prefix: str) -> None:
        """Delete all objects with a prefix."""
        while keys := (await self.page(bucket, prefix)).keys:
            named = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
            body = f"<Delete><Quiet>true</Quiet>{named}</Delete>".encode()
            md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest())
            answer = await self._ask("POST", bucket, query={"delete": ""}, headers=[(b"content-md5", md5)], body=body)
            answer.check()
            failed = answer.xml().find("Error")
            if failed is not None:
                raise _failed(failed.findtext("Code") or "InternalError")

    async def _list(
        self, bucket: str, prefix: str, *, delimiter: str = "", after: str = "", limit: int = PAGE
    ) -> tuple[ET.Element, Page]:
        query = {"list-type": "2", "prefix": prefix, "max-keys": str(limit)}
        query |= {"delimiter": delimiter} if delimiter else {}
        query |= {"continuation-token": after} if after else {}
        answer = await self._ask("GET", bucket, query=query)
        answer.check()
        found = answer.xml()
        listed = list(found.iter("Contents"))
        keys, times = ([each.findtext(name) or "" for each in listed] for name in ("Key", "LastModified"))
        return found, Page(keys, found.findtext("NextContinuationToken"), times)

    async def _ask(
        self,
        method: str,
        bucket: str,
        key: str = "",
        *,
        query: dict[str, str] | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
        body: bytes = b"",
    ) -> _Answer:
        raw = f"/{quote(bucket_of(bucket), safe='')}/{quote(key, safe='/~')}".encode()
        text = encode_query(query or {}).encode()
        root = self._root()
        # A warehouse is root's: in the bucket of another account, the rights of this one decide nothing.
        owner = (b"x-amz-expected-bucket-owner", account_number(root.owner).encode())
        sent = [(b"host", _HOST), (b"content-length", b"%d" % len(body)), owner, *(headers or [])]
        keys = root.access_key, root.secret_key
        signed = sign(method, raw, text, sent, UNSIGNED, keys, self._region, int(time.time()))
        sent += [(name.encode(), value.encode()) for name, value in signed]
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": raw.decode(), "raw_path": raw, "query_string": text, "root_path": "", "headers": sent,
            "client": _CLIENT, "server": None, "extensions": {RESPONSE: {}},
        }  # fmt: skip
        answer = _Answer()
        waiting: list[bytes] = [body]

        async def receive() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            # Nobody disconnects.
            return await answer.never()

        await self._app()(scope, receive, answer.take)
        return answer


class _Answer:
    """Collects an answer."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def take(self, message: Message) -> None:
        """A message of the application."""
        if message["type"] == RESPONSE:
            response = message["response"]
            self._begin(response.status, response.headers)
            self.body = response.body
        elif message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
        else:
            self.body += message.get("body", b"")

    async def never(self) -> Message:
        """What a client sends that only waits."""
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    def _begin(self, status: int, headers: Any) -> None:
        self.status, self.headers = status, dict(headers)
        if int(self.headers.get(b"content-length", b"0")) > OBJECT_MAX:
            raise TableError(400, "BadRequestException", f"A metadata file has at most {OBJECT_MAX} bytes.")

    @property
    def code(self) -> str | None:
        """The code of an error."""
        return self.xml().findtext("Code") if self.status >= 300 and self.body else None

    def xml(self) -> ET.Element:
        """The document, without namespaces."""
        root = ET.fromstring(self.body)  # noqa: S314 - of this server itself
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    def check(self) -> None:
        """Raise TableError for an error."""
        if self.status == _INVALID:
            raise invalid(f"The store answered {self.code}.")
        if self.status >= 300:
            raise _failed(self.code or f"status {self.status}")


def _failed(code: str) -> TableError:
    # Root is denied the buckets of other accounts alone, because it names their owner.
    if code in ("NoSuchBucket", "AccessDenied"):
        return TableError(404, "NoSuchWarehouseException", "There is no such warehouse.")
    if code == "SlowDown":
        return TableError(503, "SlowDownException", "The store answered SlowDown: try again.")
    return TableError(503, UNAVAILABLE, f"The store answered {code}: its log says why.")
