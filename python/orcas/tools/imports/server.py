"""An S3 server as the source of an import: its buckets, and objects with all that Orcas can keep of them.

Invariant: bytes count as verified only if they match an MD5 or a checksum that the source gave.
"""

from __future__ import annotations

import http.client
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from orcas.tools.imports.pieces import PUT_BYTES_MAX, SMALL_BYTES, store_in_parts
from orcas.tools.imports.requests import ChangedError, ObjectError, Side, checked_path, is_md5, length_of, path_of
from orcas.tools.imports.target import MARK, Target, Upload, versioning_of
from orcas.tools.objects import KEPT, USER, Listed, Version, buckets, listed, listed_versions
from orcas.tools.session import Body, Headers, Session

_CHECKSUM: Final = "x-amz-checksum-"
_COUNT: Final = "x-amz-mp-parts-count"
# The ETag of an object that was uploaded in parts.
IN_PARTS: Final = re.compile(r"[0-9a-f]{32}-[0-9]{1,5}")
ASKING: Final[Headers] = [(b"x-amz-checksum-mode", b"ENABLED")]
_REDIRECT: Final = "x-amz-website-redirect-location"
_CLASS: Final = "x-amz-storage-class"
_CLASSES: Final = frozenset(
    {
        "STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE",
        "GLACIER_IR",
    }
)  # fmt: skip
# Configurations of buckets that are not imported; a server answers 404 where there is none.
_CONFIGURATIONS: Final = ("policy", "lifecycle", "cors", "tagging", "website", "replication", "object-lock")


@dataclass(frozen=True)
class Copied:
    """What became of an object: its size in bytes, whether its bytes were verified, and what of it was not kept."""

    size: int
    is_verified: bool = True
    not_kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checksum:
    """A checksum of an object, and whether it is that of all its bytes."""

    algorithm: str
    value: str
    is_whole: bool

    @property
    def as_header(self) -> tuple[bytes, bytes]:
        """For a request with all the bytes that it is of."""
        return f"{_CHECKSUM}{self.algorithm}".encode(), self.value.encode()

    @property
    def as_element(self) -> str:
        """For a part in a list of parts."""
        name = f"Checksum{self.algorithm.upper()}"
        return f"<{name}>{self.value}</{name}>"


class ServerSource:
    """Another S3 server."""

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self.left_out: Counter[str] = Counter()
        self._side = Side(session, is_target=False)

    def close(self) -> None:
        """End the connections."""
        self._side.session.close()

    def buckets(self) -> list[str]:
        """Names of all buckets."""
        return buckets(self._side.session)

    def listed(self, bucket: str, prefix: bytes) -> Iterator[Listed]:
        """The objects of a bucket."""
        return listed(self._side.session, bucket, prefix)

    def versions(self, bucket: str, prefix: bytes) -> Iterator[Version]:
        """All versions of the objects of a bucket."""
        return listed_versions(self._side.session, bucket, prefix)

    def versioning(self, bucket: str) -> str:
        """Enabled, Suspended, or nothing."""
        return versioning_of(self._side, bucket)

    def problem(self, entry: Version) -> str:
        """Nothing is known against a version before it is read."""
        return ""

    def create(self, bucket: str, target: Target) -> None:
        """Create the bucket if there is none."""
        target.create()

    def settle(self, bucket: str, target: Target, *, dry_run: bool) -> Iterator[str]:
        """What the bucket has that is not imported."""
        return (
            f"{name} of the bucket {bucket}" for name in _CONFIGURATIONS if self._side.has(path_of(bucket), {name: ""})
        )

    def is_same(self, bucket: str, entry: Listed, there: Listed, target: Target) -> bool:
        """Whether an object was imported before: it has the same ETag, or notes that of its source."""
        return entry.etag == there.etag or target.imported_etag(there) == entry.etag

    def find(self, bucket: str, key: bytes) -> Listed:
        """An object by its key.

        Raises:
            ObjectError: there is none, or it may not be read.
        """
        given, _ = self._side.ask("HEAD", checked_path(bucket, key))
        return Listed(key, length_of(given), given.get("etag", "").strip('"'))

    def copy(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Copy an object, or the version that `entry` is.

        Raises:
            ObjectError: it cannot be read or stored; nothing is stored then.
        """
        if IN_PARTS.fullmatch(entry.etag):
            try:
                return self._copy_parts(bucket, entry, target)
            except ObjectError as error:
                # Its parts are not numbered from 1 on without a gap, or too small for the store.
                has_gap = error.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and not error.at_target
                if not has_gap and error.code != "EntityTooSmall":
                    raise
            return self._copy_whole(bucket, entry, target)
        path, query = self._place(bucket, entry)
        with self._side.opened("GET", path, query, headers=ASKING) as answer:
            given, size = answer.headers, length_of(answer.headers)
            etag = given.get("etag", "").strip('"')
            if etag != entry.etag and IN_PARTS.fullmatch(etag):
                raise ChangedError
            pieces = self._side.pieces(answer)
            if size <= SMALL_BYTES:
                # Before anything else is asked for, so that the connection is free.
                pieces = iter([b"".join(pieces)])
            headers, not_kept = self._described(bucket, entry, given)
            checksum = checksum_of(given)
            known = etag if is_md5(etag) and not is_random(given) else ""
            if not known:
                headers.append((MARK.encode(), etag.encode()))
            if size > PUT_BYTES_MAX or not (known or (checksum and checksum.is_whole)):
                store_in_parts(target, entry.key, pieces, size, headers)
                return Copied(size, is_verified=False, not_kept=not_kept)
            if checksum is not None and checksum.is_whole:
                headers.append(checksum.as_header)
            body = b"".join(pieces) if size <= SMALL_BYTES else Body(size, pieces)
            target.put(entry.key, body, headers, known)
        return Copied(size, not_kept=not_kept)

    def _copy_parts(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Copy an object that was uploaded in parts, in the same parts, so that it keeps its ETag."""
        path, query = self._place(bucket, entry)
        given, _ = self._side.ask("HEAD", path, query, headers=ASKING)
        if given.get("etag", "").strip('"') != entry.etag:
            raise ChangedError
        count, size = int(entry.etag.rpartition("-")[2]), length_of(given)
        first, _ = self._side.ask("HEAD", path, query | {"partNumber": "1"}, headers=ASKING)
        if first.get(_COUNT) != f"{count}":
            return self._copy_whole(bucket, entry, target)
        headers, not_kept = self._described(bucket, entry, given)
        checksum = checksum_of(given)
        if checksum is not None and not checksum.is_whole and checksum_of(first) is None:
            checksum, not_kept = None, (*not_kept, "composite checksum")
        if checksum is not None:
            kind = b"FULL_OBJECT" if checksum.is_whole else b"COMPOSITE"
            headers += [
                (b"x-amz-checksum-algorithm", checksum.algorithm.upper().encode()),
                (b"x-amz-checksum-type", kind),
            ]
        if is_random(given):
            headers.append((MARK.encode(), entry.etag.encode()))
        with target.upload(entry.key, headers) as upload:
            start = 0
            for number in range(1, count + 1):
                own = checksum is not None and not checksum.is_whole
                start += self._copy_part(path, query, entry.etag, (number, start), upload, own)
            if upload.etag != entry.etag and not is_random(given):
                raise ObjectError("its bytes do not match its ETag", code="BadDigest")
            whole = [checksum.as_header] if checksum is not None and checksum.is_whole else []
            upload.complete(whole)
        return Copied(size, upload.etag == entry.etag or checksum is not None, not_kept)

    def _copy_part(
        self, path: str, query: dict[str, str], etag: str, part: tuple[int, int], upload: Upload, with_checksum: bool
    ) -> int:
        """Copy the part with this number and first byte; how many bytes it has."""
        number, start = part
        # Its length by its number, its bytes by their range: a few servers ignore the number in GetObject.
        about, _ = self._side.ask("HEAD", path, query | {"partNumber": f"{number}"}, headers=ASKING)
        size = length_of(about)
        asking = [(b"if-match", f'"{etag}"'.encode()), (b"range", b"bytes=%d-%d" % (start, start + size - 1))]
        try:
            with self._side.opened("GET", path, query, headers=asking if size else asking[:1]) as answer:
                if length_of(answer.headers) != size:
                    raise ObjectError("its parts cannot be read one by one")
                own = checksum_of(about) if with_checksum else None
                body = Body(size, self._side.pieces(answer))
                upload.send(body, [own.as_header] if own else [], own.as_element if own else "")
        except ObjectError as error:
            if error.status == http.client.PRECONDITION_FAILED and not error.at_target:
                raise ChangedError from None
            raise
        return size

    def _copy_whole(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Copy an object whose parts are not known, or too small for the store. Its ETag becomes another one."""
        path, query = self._place(bucket, entry)
        given, _ = self._side.ask("HEAD", path, query, headers=ASKING)
        headers, not_kept = self._described(bucket, entry, given)
        headers.append((MARK.encode(), entry.etag.encode()))
        with self._side.opened("GET", path, query, headers=ASKING) as answer:
            size = length_of(answer.headers)
            if answer.headers.get("etag", "").strip('"') != entry.etag:
                raise ChangedError
            checksum = checksum_of(answer.headers)
            pieces = self._side.pieces(answer)
            if checksum is not None and checksum.is_whole and size <= PUT_BYTES_MAX:
                target.put(entry.key, Body(size, pieces), [*headers, checksum.as_header])
                return Copied(size, not_kept=(*not_kept, "ETag of parts"))
            store_in_parts(target, entry.key, pieces, size, headers)
        return Copied(size, is_verified=False, not_kept=(*not_kept, "ETag of parts"))

    def _place(self, bucket: str, entry: Listed) -> tuple[str, dict[str, str]]:
        version = {"versionId": entry.id} if isinstance(entry, Version) else {}
        return path_of(bucket, entry.key), version

    def _described(self, bucket: str, entry: Listed, given: dict[str, str]) -> tuple[Headers, tuple[str, ...]]:
        """The headers with which an object is stored, and what is not kept of it."""
        headers, not_kept = kept(given)
        if "x-amz-object-lock-mode" in given or given.get("x-amz-object-lock-legal-hold") == "ON":
            not_kept = (*not_kept, "object lock")
        # Whatever else it says, the tags themselves count.
        if given.get("x-amz-tagging-count", "0") != "0" and (tags := self._tags(bucket, entry)):
            headers.append((b"x-amz-tagging", tags))
        return headers, not_kept

    def _tags(self, bucket: str, entry: Listed) -> bytes:
        path, version = self._place(bucket, entry)
        document = self._side.document(path, {"tagging": "", **version})
        pairs = [
            (tag.findtext("{*}Key") or "", tag.findtext("{*}Value") or "") for tag in document.iter() if _is_tag(tag)
        ]
        return urlencode(pairs, quote_via=quote, safe="").encode()


def kept(given: dict[str, str]) -> tuple[Headers, tuple[str, ...]]:
    """The headers that are kept of what a source has of an object, without tags and locks, and what is not kept."""
    headers = [
        (name.encode(), value.encode("latin-1"))
        for name, value in given.items()
        if name in KEPT or name == _REDIRECT or (name.startswith(USER) and name != MARK)
    ]
    if "content-type" not in given:
        headers.append((b"content-type", b"binary/octet-stream"))
    kept_as = given.get(_CLASS, "STANDARD")
    if kept_as not in _CLASSES:
        return headers, (f"storage class {kept_as}",)
    if kept_as != "STANDARD":
        headers.append((_CLASS.encode(), kept_as.encode()))
    return headers, ()


def _is_tag(element: ET.Element) -> bool:
    return element.tag.rpartition("}")[2] == "Tag"


def is_random(given: dict[str, str]) -> bool:
    """Whether the ETag says nothing about the content."""
    return (
        given.get("x-amz-server-side-encryption", "").startswith("aws:kms")
        or "x-amz-server-side-encryption-customer-algorithm" in given
    )


def checksum_of(given: dict[str, str]) -> Checksum | None:
    """The checksum in these headers, if there is one."""
    for name, value in given.items():
        algorithm = name.removeprefix(_CHECKSUM)
        if name.startswith(_CHECKSUM) and algorithm not in ("type", "mode", "algorithm"):
            return Checksum(
                algorithm, value, is_whole=given.get(_CHECKSUM + "type") != "COMPOSITE" and "-" not in value
            )
    return None
