"""The bucket of a store that objects are imported into.

Invariant: an object appears whole and verified or not at all. One that is sent in one request has a digest with it, which
the store compares; one that is sent in parts is completed only when the digests of its parts are known to be right.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from orcas.errors import OrcasError, UnavailableError
from orcas.tools.imports.requests import ObjectError, Side, StoppedError, is_md5, path_of
from orcas.tools.objects import Listed, Version, listed_versions
from orcas.tools.session import Body, Headers, Session

# Nothing is replaced.
_ONLY_NEW: Final[Headers] = [(b"if-none-match", b"*")]
# The ETag in the source of an object whose ETag here is another one.
MARK: Final = "x-amz-meta-orcas-imported-etag"


@dataclass(frozen=True)
class Part:
    """A part that was uploaded. `md5` is that of its bytes; `checksum` its element in the list of parts."""

    md5: bytes
    etag: str
    checksum: str = ""


class Target:
    """A bucket, what is put before every key, and an event that ends everything. `only_new`: objects replace none."""

    def __init__(
        self, session: Session, bucket: str, prefix: bytes, stop: threading.Event, *, only_new: bool = False
    ) -> None:
        self.side = Side(session, is_target=True)
        self.bucket = bucket
        self.prefix = prefix
        self._stop = stop
        self._condition = _ONLY_NEW if only_new else []

    def check(self) -> None:
        """Called between the pieces of what takes long.

        Raises:
            StoppedError: the import has been stopped.
        """
        if self._stop.is_set():
            raise StoppedError

    def exists(self) -> bool:
        """Whether there is such a bucket."""
        try:
            self.side.ask("HEAD", path_of(self.bucket))
        except ObjectError:
            return False
        return True

    def create(self, headers: Headers | None = None) -> None:
        """Create the bucket if there is none, by a request with these headers.

        Raises:
            OrcasError: it cannot be created.
        """
        if not self.exists():
            try:
                self.side.ask("PUT", path_of(self.bucket), headers=headers)
            except ObjectError as error:
                raise OrcasError(f"The bucket {self.bucket} cannot be created ({error}): name another one.") from None

    def versioning(self) -> str:
        """Enabled, Suspended, or nothing."""
        return versioning_of(self.side, self.bucket)

    def set_versioning(self, status: str) -> None:
        """Change it."""
        document = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
        self.side.ask("PUT", path_of(self.bucket), {"versioning": ""}, document.encode())

    def has(self, name: str) -> bool:
        """Whether the bucket has the document with this name, as a query has it."""
        return self.side.has(path_of(self.bucket), {name: ""})

    def set_document(self, name: str, document: bytes) -> None:
        """Give it one."""
        digest = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest())
        self.side.ask("PUT", path_of(self.bucket), {name: ""}, document, [(b"content-md5", digest)])

    def path(self, key: bytes) -> str:
        """The path of an object, by its key in the source."""
        return path_of(self.bucket, self.prefix + key)

    def imported_etag(self, there: Listed) -> str:
        """The ETag that an object of this bucket had in its source, if it was noted."""
        version = {"versionId": there.id} if isinstance(there, Version) else {}
        try:
            return self.side.ask("HEAD", path_of(self.bucket, there.key), version)[0].get(MARK, "")
        except ObjectError as error:
            # Deleted since it was listed.
            if error.status != http.client.NOT_FOUND:
                raise
            return ""

    def versions_of(self, key: bytes) -> list[Version]:
        """The versions of an object, by its key in the source, from the oldest on."""
        whole = self.prefix + key
        there = listed_versions(self.side.session, self.bucket, whole)
        return list(takewhile(lambda version: version.key == whole, there))[::-1]

    def description_of(self, there: Version) -> tuple[dict[str, str], Callable[[], list[tuple[str, str]]]]:
        """The headers of a version of this bucket, and what gives its tags in order."""
        path, version = path_of(self.bucket, there.key), {"versionId": there.id}

        def tags() -> list[tuple[str, str]]:
            found = self.side.document(path, {"tagging": "", **version}).iterfind(".//{*}Tag")
            return sorted((tag.findtext("{*}Key") or "", tag.findtext("{*}Value") or "") for tag in found)

        return self.side.ask("HEAD", path, version)[0], tags

    def put(self, key: bytes, body: bytes | Body, headers: Headers, etag: str = "") -> None:
        """Store an object. `etag`: the MD5 of its content, if it is known; the store compares it."""
        self.put_object(key, body, headers, etag)

    def put_object(self, key: bytes, body: bytes | Body, headers: Headers, etag: str) -> dict[str, str]:
        """Store an object, as `put` does. Returns the headers of the answer."""
        digest = [(b"content-md5", base64.b64encode(bytes.fromhex(etag)))] if etag else []
        if isinstance(body, Body):
            body = _watched(body, lambda _: self.check())
        return self.side.ask("PUT", self.path(key), None, body, [*headers, *digest, *self._condition])[0]

    def delete(self, key: bytes) -> None:
        """Delete an object; in a bucket with versions this adds a delete marker."""
        self.side.ask("DELETE", self.path(key))

    @contextlib.contextmanager
    def upload(self, key: bytes, headers: Headers) -> Iterator[Upload]:
        """An upload in parts, which is aborted unless it is completed in the block."""
        made = self.side.document(self.path(key), {"uploads": ""}, "POST", headers=headers)
        identifier = made.findtext("{*}UploadId")
        assert identifier is not None
        upload = Upload(self.side, self.path(key), identifier, self.check, self._condition)
        try:
            yield upload
        finally:
            if not upload.is_complete:
                with contextlib.suppress(ObjectError, UnavailableError):
                    self.side.ask("DELETE", upload.path, {"uploadId": identifier})


@dataclass
class Upload:
    """An upload in parts."""

    side: Side
    path: str
    id: str
    check: Callable[[], None]
    condition: Headers
    parts: list[Part] = field(default_factory=list)
    is_complete: bool = False

    @property
    def etag(self) -> str:
        """The ETag that the object has if all bytes are those that were sent."""
        whole = hashlib.md5(b"".join(part.md5 for part in self.parts), usedforsecurity=False).hexdigest()
        return f"{whole}-{len(self.parts)}"

    def send(self, body: Body, headers: Headers | None = None, checksum: str = "") -> None:
        """Upload the next part.

        Raises:
            ObjectError: it is refused, or the store has other bytes than were sent.
        """
        digest = hashlib.md5(usedforsecurity=False)
        query = {"partNumber": f"{len(self.parts) + 1}", "uploadId": self.id}

        def watch(piece: bytes) -> None:
            self.check()
            digest.update(piece)

        given, _ = self.side.ask("PUT", self.path, query, _watched(body, watch), headers)
        etag = given["etag"].strip('"')
        encrypted = given.get("x-amz-server-side-encryption", "").startswith("aws:kms")
        if is_md5(etag) and not encrypted and etag != digest.hexdigest():
            raise ObjectError("a part was changed on its way to the store", code="BadDigest", at_target=True)
        self.parts.append(Part(digest.digest(), etag, checksum))

    def complete(self, headers: Headers | None = None) -> None:
        """Make the object of its parts."""
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{part.etag}</ETag>{part.checksum}</Part>"
            for number, part in enumerate(self.parts, 1)
        )
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        given = [*(headers or []), *self.condition]
        answer = self.side.document(self.path, {"uploadId": self.id}, "POST", body=document, headers=given)
        # The status was sent before the parts were joined.
        if answer.tag.endswith("Error"):
            raise ObjectError("the store could not join the parts", code="SlowDown", at_target=True)
        self.is_complete = True


def _watched(body: Body, watch: Callable[[bytes], None]) -> Body:
    def pieces() -> Iterator[bytes]:
        for piece in body.pieces:
            watch(piece)
            yield piece

    return Body(body.length, pieces())


def versioning_of(side: Side, bucket: str) -> str:
    """Enabled, Suspended, or nothing."""
    return side.document(path_of(bucket), {"versioning": ""}).findtext("{*}Status") or ""
