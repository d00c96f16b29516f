"""The drives of a stopped MinIO as the source of an import: objects with their versions, read past damage and losses.

Invariant: no byte is taken whose hash is wrong. Nothing is written there, and an object is removed only when the store
has all of it. Must not know how the drives are laid out, which the extension does.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from orcas.engine import MinioDrives, MinioObject, MinioVersion
from orcas.errors import UsageError
from orcas.tools.imports.minio_settings import bring_documents, versioning_in
from orcas.tools.imports.pieces import PUT_BYTES_MAX, SMALL_BYTES, store_in_parts
from orcas.tools.imports.requests import ObjectError, is_md5
from orcas.tools.imports.server import IN_PARTS, Checksum, Copied, kept
from orcas.tools.imports.target import MARK, Target
from orcas.tools.objects import Listed, Version
from orcas.tools.session import Body, Headers

_PAGE: Final = 256
# With SSE-KMS, ETags say nothing about content.
_KMS: Final = "x-minio-internal-server-side-encryption-kms-sealed-key"
_LOCK: Final = "x-amz-object-lock-"
_TAGS: Final = b"x-amz-tagging"
_SEALED: Final[Headers] = [(b"x-amz-server-side-encryption", b"AES256")]
# Of checksums: the bits that name the algorithm and its bytes, and what else is said.
_ALGORITHMS: Final = {1 << 1: ("sha256", 32), 1 << 2: ("sha1", 20), 1 << 3: ("crc32", 4), 1 << 4: ("crc32c", 4),
                      1 << 8: ("crc64nvme", 8)}  # fmt: skip
_OF_PARTS, _WITH_PARTS, _FULL_OBJECT = 1 << 6, 1 << 7, 1 << 9 | 1 << 8


@dataclass(frozen=True)
class DiskVersion(Version):
    """A version; `problem` is why it cannot be imported, if that is known."""

    object: MinioObject
    found: MinioVersion | None
    problem: str


class DiskSource:
    """The drives of one pool. `key`: NAME:KEY of its KMS."""

    def __init__(self, directories: list[Path], key: str | None = None) -> None:
        try:
            self._drives = MinioDrives(directories, key)
            self._buckets = self._drives.buckets()
        except ValueError as error:
            raise UsageError(
                f"The drives cannot be imported, because {error}: name all directories that MinIO was started with."
            ) from None
        self.name = " ".join(map(str, directories))
        self.left_out: Counter[str] = Counter()
        self._locking: set[str] = set()
        missing, count = self._drives.missing
        if missing:
            self.left_out[f"drive that was not named, of {count}"] = missing

    def close(self) -> None:
        """Nothing is kept open."""

    def buckets(self) -> list[str]:
        """Names of all buckets."""
        return self._buckets

    def files(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """What MinIO keeps for itself below a prefix: names and contents, of which those that cannot be read are empty."""
        for found in self._objects(".minio.sys", prefix.encode()):
            content = b""
            for version in found.versions[:1]:
                with contextlib.suppress(ObjectError):
                    content = b"".join(_whole(version))
            name = found.key.decode(errors="replace")
            yield name, self._drives.unsealed(f".minio.sys/{name}", content) or content

    def listed(self, bucket: str, prefix: bytes) -> Iterator[DiskVersion]:
        """The current objects of a bucket."""
        for found in self._objects(bucket, prefix):
            entry = next(self._versions(found), None)
            if entry is not None and not entry.is_marker:
                yield entry

    def versions(self, bucket: str, prefix: bytes) -> Iterator[DiskVersion]:
        """All versions of the objects of a bucket."""
        for found in self._objects(bucket, prefix):
            yield from self._versions(found)

    def problem(self, entry: Version) -> str:
        """Why a version cannot be imported, if that is known."""
        assert isinstance(entry, DiskVersion)
        return entry.problem

    def versioning(self, bucket: str) -> str:
        """Enabled, Suspended, or nothing."""
        return versioning_in(self._documents(bucket))

    def create(self, bucket: str, target: Target) -> None:
        """Create the bucket if there is none, with object lock if it had that."""
        has_lock = "ObjectLockConfigXML" in self._documents(bucket)
        target.create([(b"x-amz-bucket-object-lock-enabled", b"true")] if has_lock else [])
        if has_lock and target.has("object-lock"):
            self._locking.add(bucket)

    def settle(self, bucket: str, target: Target, *, dry_run: bool) -> Iterator[str]:
        """Bring over the documents of a bucket whose objects are there; what is not taken."""
        return bring_documents(self._documents(bucket), bucket, target, dry_run=dry_run)

    def is_same(self, bucket: str, entry: Listed, there: Listed, target: Target) -> bool:
        """Whether an object was imported before: it has the same ETag, or notes that of its source."""
        return bool(entry.etag) and (entry.etag == there.etag or target.imported_etag(there) == entry.etag)

    def copy(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Store a version.

        Raises:
            ObjectError: it cannot be read or stored; nothing is stored then.
        """
        assert isinstance(entry, DiskVersion)
        found = entry.found
        if entry.problem or found is None:
            raise ObjectError(entry.problem)
        sizes = found.parts
        headers, not_kept = self._described(bucket, found)
        checksum, of_parts = _checksums(found.metadata.get("x-minio-internal-crc", b""))
        if IN_PARTS.fullmatch(entry.etag) and int(entry.etag.rpartition("-")[2]) == len(sizes):
            self._copy_parts(entry, target, headers, checksum, of_parts)
            return Copied(entry.size, not_kept=not_kept)
        whole = _whole(found)
        known = entry.etag if is_md5(entry.etag) and _KMS not in found.metadata else ""
        if not known:
            headers.append((MARK.encode(), entry.etag.encode()))
            not_kept = (*not_kept, "ETag")
        is_whole = checksum is not None and checksum.is_whole
        if entry.size > PUT_BYTES_MAX or not (known or is_whole):
            store_in_parts(target, entry.key, whole, entry.size, headers)
            return Copied(entry.size, not_kept=not_kept)
        if checksum is not None and is_whole:
            headers.append(checksum.as_header)
        body = b"".join(whole) if entry.size <= SMALL_BYTES else Body(entry.size, whole)
        target.put(entry.key, body, headers, known)
        return Copied(entry.size, not_kept=not_kept)

    def _described(self, bucket: str, found: MinioVersion) -> tuple[Headers, tuple[str, ...]]:
        """The headers with which a version is stored, and what is not kept of it."""
        metadata = found.metadata
        headers, not_kept = kept({name: value.decode("latin-1") for name, value in metadata.items()})
        # What was encrypted stays so.
        headers += _SEALED if found.is_sealed else []
        if tags := metadata.get(_TAGS.decode()):
            headers.append((_TAGS, tags))
        locks = _locks(metadata)
        if bucket in self._locking:
            headers += locks
        elif locks:
            not_kept = (*not_kept, "object lock")
        return headers, not_kept

    def remove(self, bucket: str, versions: Sequence[Listed], target: Target) -> None:
        """Remove an object whose versions, the oldest first, are in the store, as a look at it has to show.

        Raises:
            ObjectError: it stays.
        """
        entries = [entry for entry in versions if isinstance(entry, DiskVersion)]
        there = target.versions_of(versions[0].key)[-len(entries) :]
        if len(entries) != len(entries[0].object.versions) or len(there) != len(entries):
            raise ObjectError("it stays on the drives, because the store has not all versions of it")
        for entry, known in zip(entries, there, strict=True):
            self._compare(bucket, entry, known, target)
        try:
            entries[0].object.remove()
        except ValueError as error:
            raise ObjectError(f"it stays on the drives, because {error}") from None

    def _compare(self, bucket: str, entry: DiskVersion, known: Version, target: Target) -> None:
        """Raises ObjectError unless the version `known` of the store is this one, with all that is known of it."""
        other = ObjectError("it stays on the drives, because the store has something else")
        if entry.is_marker or known.is_marker or entry.found is None:
            if entry.is_marker != known.is_marker:
                raise other
            return
        if entry.size != known.size or not self.is_same(bucket, entry, known, target):
            raise other
        headers, not_kept = self._described(bucket, entry.found)
        if not_kept:
            raise ObjectError(f"it stays on the drives, because the store does not keep its {', '.join(not_kept)}")
        given, tags = target.description_of(known)
        for name, value in headers:
            if name == _TAGS:
                is_there = tags() == sorted(parse_qsl(value.decode("latin-1"), keep_blank_values=True))
            elif name == (_LOCK + "retain-until-date").encode():
                until = dt.datetime.fromisoformat(value.decode())
                is_there = dt.datetime.fromisoformat(given.get(name.decode(), "0001-01-01T00:00:00Z")) >= until
            else:
                is_there = given.get(name.decode(), "").strip() == value.decode("latin-1").strip()
            if not is_there:
                raise ObjectError(f"it stays on the drives, because the store has another {name.decode()} of it")

    def _copy_parts(
        self, entry: DiskVersion, target: Target, headers: Headers, checksum: Checksum | None, of_parts: list[bytes]
    ) -> None:
        """Copy an object that was uploaded in parts, in the same parts, so that it keeps its ETag."""
        found = entry.found
        assert found is not None
        if checksum is not None and not checksum.is_whole and len(of_parts) != len(found.parts):
            checksum = None
        if checksum is not None:
            kind = b"FULL_OBJECT" if checksum.is_whole else b"COMPOSITE"
            headers = [
                *headers,
                (b"x-amz-checksum-algorithm", checksum.algorithm.upper().encode()),
                (b"x-amz-checksum-type", kind),
            ]
        is_random = _KMS in found.metadata
        if is_random:
            headers = [*headers, (MARK.encode(), entry.etag.encode())]
        with target.upload(entry.key, headers) as upload:
            for part, size in enumerate(found.parts):
                own = None
                if checksum is not None and not checksum.is_whole:
                    own = Checksum(checksum.algorithm, base64.b64encode(of_parts[part]).decode(), is_whole=True)
                body = Body(size, _pieces(found, part, size))
                upload.send(body, [own.as_header] if own else [], own.as_element if own else "")
            if upload.etag != entry.etag and not is_random:
                raise ObjectError("its bytes do not match its ETag")
            upload.complete([checksum.as_header] if checksum is not None and checksum.is_whole else [])

    def _objects(self, bucket: str, prefix: bytes) -> Iterator[MinioObject]:
        walk = self._drives.walk(bucket, prefix)
        while page := walk.page(_PAGE):
            for found in page:
                if found.interrupted:
                    self.left_out["write that was interrupted, and not acknowledged"] += found.interrupted
                yield found

    def _versions(self, found: MinioObject) -> Iterator[DiskVersion]:
        if found.problem:
            yield DiskVersion(found.key, 0, "", "", False, found, None, found.problem)
        for version in found.versions:
            metadata = version.metadata
            etag = metadata.get("etag", b"").decode("latin-1")
            problem = version.problem or _problem(metadata)
            size, marker = sum(version.parts), version.is_marker
            yield DiskVersion(found.key, size, etag, version.id, marker, found, version, problem)

    def _documents(self, bucket: str) -> dict[str, bytes]:
        try:
            return self._drives.documents(bucket)
        except ValueError as error:
            raise ObjectError(f"its settings cannot be read, because {error}") from None


def _problem(metadata: dict[str, bytes]) -> str:
    if metadata.get("x-minio-internal-transition-status") == b"complete":
        return "its content is not on the drives, but in a tier"
    return ""


def _whole(found: MinioVersion) -> Iterator[bytes]:
    return itertools.chain.from_iterable(_pieces(found, part, size) for part, size in enumerate(found.parts))


def _pieces(found: MinioVersion, part: int, size: int) -> Iterator[bytes]:
    left = size
    try:
        for piece in found.content(part):
            left -= len(piece)
            if left < 0:
                break
            yield piece
    except ValueError as error:
        raise ObjectError(f"its content cannot be read, because {error}") from None
    if left:
        raise ObjectError("its content has another length than its xl.meta says")


def _locks(metadata: dict[str, bytes]) -> Headers:
    """Retention that has not ended, and a legal hold."""
    until = metadata.get(_LOCK + "retain-until-date", b"").decode("latin-1")
    locks: Headers = []
    try:
        is_retained = dt.datetime.fromisoformat(until) > dt.datetime.now(dt.UTC)
    except (ValueError, TypeError):
        is_retained = False
    if is_retained:
        mode = metadata.get(_LOCK + "mode", b"")
        locks = [((_LOCK + "mode").encode(), mode), ((_LOCK + "retain-until-date").encode(), until.encode())]
    if metadata.get(_LOCK + "legal-hold", b"").upper() == b"ON":
        locks.append(((_LOCK + "legal-hold").encode(), b"ON"))
    return locks


def _checksums(packed: bytes) -> tuple[Checksum | None, list[bytes]]:
    """The first checksum of those that MinIO has, and those of its parts: a number for its kind, and the bytes."""
    kind, rest = _number(packed)
    algorithm, length = next((found for bit, found in _ALGORITHMS.items() if kind & bit), ("", 0))
    value, rest = rest[:length], rest[length:]
    if not length or len(value) < length:
        return None, []
    is_whole = not kind & _OF_PARTS or bool(kind & _FULL_OBJECT)
    checksum = Checksum(algorithm, base64.b64encode(value).decode(), is_whole)
    if not kind & _WITH_PARTS:
        return checksum, []
    count, rest = _number(rest)
    return checksum, [rest[at * length : (at + 1) * length] for at in range(min(count, len(rest) // length))]


def _number(packed: bytes) -> tuple[int, bytes]:
    """A number of seven bits in each byte, the lowest first."""
    for at, byte in enumerate(packed[:5]):
        if byte < 0x80:
            return sum((each & 0x7F) << 7 * place for place, each in enumerate(packed[: at + 1])), packed[at + 1 :]
    return 0, b""
