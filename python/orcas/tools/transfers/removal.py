"""Objects that are deleted, by the thousand, and what became of each: it is gone, or a delete marker hides it.

In a bucket with versioning, a deletion adds a marker, and everything stays. Must not know what is to be deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final
from xml.sax.saxutils import escape

from orcas.tools.imports.requests import ObjectError, Side, path_of
from orcas.tools.objects import listed, listed_versions
from orcas.tools.session import Session
from orcas.tools.transfers.places import Place

_BATCH: Final = 1000
_FAILURES_MAX: Final = 100

# A key and, if one version alone is meant, its id.
Named = tuple[bytes, str]


@dataclass
class Removed:
    """What was done. `objects`: deleted, those that were hidden before included; `markers`: hidden by a delete marker."""

    objects: int = 0
    markers: int = 0
    failed: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "Deleted": self.objects,
            "DeleteMarkers": self.markers,
            "Failed": self.failed,
            "Errors": self.failures,
        }


def below(session: Session, place: Place, *, all_versions: bool) -> Iterator[Named]:
    """Everything below a prefix."""
    if all_versions:
        yield from ((found.key, found.id) for found in listed_versions(session, place.bucket, place.key))
    else:
        yield from ((entry.key, "") for entry in listed(session, place.bucket, place.key))


def versions_of(session: Session, place: Place) -> Iterator[Named]:
    """All versions of one object."""
    return (named for named in below(session, place, all_versions=True) if named[0] == place.key)


def remove(
    session: Session, bucket: str, named: Iterable[Named], line: Callable[[Place], None], *, dry_run: bool = False
) -> Removed:
    """Delete these, or only count them; `line` is told of each that was.

    Raises:
        UnavailableError: the server is gone.
        ObjectError: the server takes no such request.
    """
    side, done, rest = Side(session, is_target=False), Removed(), iter(named)
    while batch := list(islice(rest, _BATCH)):
        answers = ((key, None, False) for key, _ in batch) if dry_run else _answers(side, bucket, batch)
        for key, why, marked in answers:
            if why is not None:
                done.failed += 1
                if len(done.failures) < _FAILURES_MAX:
                    done.failures.append({"Key": str(Place(bucket, key)), "Code": why[0], "Message": why[1]})
                continue
            done.markers += marked
            done.objects += not marked
            line(Place(bucket, key))
    return done


def _answers(side: Side, bucket: str, batch: list[Named]) -> Iterator[tuple[bytes, tuple[str, str] | None, bool]]:
    """Key, code and message of the error if there is one, and whether a delete marker was made."""
    many = [named for named in batch if _is_text(named[0])]
    if len(many) == 1:
        many = []
    yield from _together(side, bucket, many) if many else ()
    for key, version in batch:
        if many and _is_text(key):
            continue
        try:
            given, _ = side.ask("DELETE", path_of(bucket, key), {"versionId": version} if version else {})
        except ObjectError as error:
            yield key, (error.code, str(error)), False
        else:
            yield key, None, not version and given.get("x-amz-delete-marker") == "true"


def _together(side: Side, bucket: str, many: list[Named]) -> Iterator[tuple[bytes, tuple[str, str] | None, bool]]:
    objects = "".join(
        f"<Object><Key>{escape(key.decode())}</Key>{f'<VersionId>{version}</VersionId>' if version else ''}</Object>"
        for key, version in many
    )
    body = f"<Delete>{objects}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest())
    answer = side.document(path_of(bucket), {"delete": ""}, "POST", body=body, headers=[(b"content-md5", digest)])
    versions = dict(many)
    for entry in answer:
        key = (entry.findtext("{*}Key") or "").encode()
        if entry.tag.endswith("}Deleted"):
            yield key, None, not versions[key] and entry.findtext("{*}DeleteMarker") == "true"
        elif entry.tag.endswith("}Error"):
            yield key, (entry.findtext("{*}Code") or "", entry.findtext("{*}Message") or ""), False


def _is_text(key: bytes) -> bool:
    """Whether a document in XML can have a key as it is."""
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False
