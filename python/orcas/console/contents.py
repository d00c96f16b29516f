"""What buckets contain, as several pages need it: lists in pages, heads of objects, and removals in batches.

Every function does a bounded number of calls. Keys are URL-encoded in documents, because XML cannot have them all.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from orcas.console.calls import CallError, Visit, call, object_path

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

# Keys of one DeleteObjects and of one page of a list.
BATCH: Final = 1000
# Requests at a time.
_AT_ONCE: Final = 8
# What XML cannot have, even escaped, and what its readers change.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_ESCAPES: Final = {"\n": "&#10;", "\t": "&#9;"}


@dataclass(frozen=True, slots=True)
class Entry:
    """An object, or one of its versions."""

    key: str
    size: int = 0
    modified: str = ""
    etag: str = ""
    storage: str = ""
    version: str | None = None
    latest: bool = True
    marker: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list. `token`: where the next one begins; None after the last one."""

    entries: list[Entry]
    folders: list[str]
    token: str | None


async def list_objects(
    visit: Visit, bucket: str, prefix: str, token: str | None = None, *, delimiter: str = "/", limit: int = BATCH
) -> Listing:
    """The objects and folders whose keys begin with `prefix`."""
    query = {"list-type": "2", "prefix": prefix, "max-keys": str(limit), "encoding-type": "url"}
    query |= {"delimiter": delimiter} if delimiter else {}
    query |= {"continuation-token": token} if token else {}
    answer = await call(visit, "GET", object_path(bucket), query)
    found = await asyncio.to_thread(answer.xml)
    entries = [_entry(each) for each in found.iter("Contents")]
    folders = [_text(each, "Prefix") for each in found.iter("CommonPrefixes")]
    return Listing(entries, folders, found.findtext("NextContinuationToken") or None)


async def list_versions(
    visit: Visit, bucket: str, prefix: str = "", token: tuple[str, str] | None = None, *, limit: int = BATCH
) -> tuple[list[Entry], tuple[str, str] | None]:
    """Versions and delete markers whose keys begin with `prefix`, and where the next page begins."""
    query = {"versions": "", "prefix": prefix, "max-keys": str(limit), "encoding-type": "url"}
    if token is not None:
        query |= {"key-marker": token[0]} | ({"version-id-marker": token[1]} if token[1] else {})
    answer = await call(visit, "GET", object_path(bucket), query)
    found = await asyncio.to_thread(answer.xml)
    entries = [_entry(each) for each in found if each.tag in ("Version", "DeleteMarker")]
    if found.findtext("IsTruncated") != "true":
        return entries, None
    return entries, (_text(found, "NextKeyMarker"), found.findtext("NextVersionIdMarker") or "")


async def has_versions(visit: Visit, bucket: str) -> bool | None:
    """Whether the bucket keeps versions now. None if the key may not know it."""
    try:
        answer = await call(visit, "GET", object_path(bucket), {"versioning": ""})
    except CallError as error:
        if error.code != "AccessDenied":
            raise
        return None
    return answer.xml().findtext("Status") == "Enabled"


async def head(visit: Visit, bucket: str, key: str, version: str | None = None) -> Mapping[str, str]:
    """The headers of an object, with its checksums."""
    query = {"versionId": version} if version else {}
    answer = await call(visit, "HEAD", object_path(bucket, key), query, {"x-amz-checksum-mode": "ENABLED"})
    return answer.headers


async def remove(visit: Visit, bucket: str, found: Iterable[tuple[str, str | None]]) -> tuple[list[Entry], list[str]]:
    """Delete objects, or versions of them. At most `BATCH`.

    Returns:
        What was deleted, as delete markers where the bucket keeps versions; and why others were not.
    """
    found = list(found)
    simple = [pair for pair in found if not _NOT_XML.search(pair[0])]
    gone: list[Entry] = []
    failed: list[str] = []
    if simple:
        entries = "".join(
            f"<Object><Key>{escape(key, _ESCAPES)}</Key>"
            + (f"<VersionId>{escape(version)}</VersionId>" if version else "")
            + "</Object>"
            for key, version in simple
        )
        body = f"<Delete>{entries}</Delete>".encode()
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        headers = {"content-md5": base64.b64encode(digest).decode(), "content-type": "application/xml"}
        answer = (await call(visit, "POST", object_path(bucket), {"delete": ""}, headers, body)).xml()
        for each in answer.iter("Deleted"):
            marker = each.findtext("DeleteMarkerVersionId") or each.findtext("VersionId")
            is_marker = each.findtext("DeleteMarker") == "true"
            gone.append(Entry(each.findtext("Key") or "", version=marker, marker=is_marker))
        refused = [(each.findtext("Key"), each.findtext("Message")) for each in answer.iter("Error")]
        failed += [f"{key}: {message}" for key, message in refused]
    for key, version in (pair for pair in found if _NOT_XML.search(pair[0])):
        try:
            gone.append(await remove_one(visit, bucket, key, version))
        except CallError as error:
            failed.append(f"{key}: {error.message}")
    return gone, failed


async def remove_one(visit: Visit, bucket: str, key: str, version: str | None = None, etag: str | None = None) -> Entry:
    """Delete an object, or a version of it; if `etag` is given, only the object that has it."""
    query = {"versionId": version} if version else {}
    sent = {"if-match": etag} if etag else {}
    headers = (await call(visit, "DELETE", object_path(bucket, key), query, sent)).headers
    is_marker = headers.get("x-amz-delete-marker") == "true"
    return Entry(key, version=headers.get("x-amz-version-id"), marker=is_marker)


async def abort_uploads(visit: Visit, bucket: str) -> int:
    """Abort unfinished uploads, at most `BATCH`; how many there were."""
    found = (await call(visit, "GET", object_path(bucket), {"uploads": "", "encoding-type": "url"})).xml()
    uploads = [(_text(each, "Key"), each.findtext("UploadId") or "") for each in found.iter("Upload")]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def abort(key: str, upload: str) -> None:
        async with turn:
            await call(visit, "DELETE", object_path(bucket, key), {"uploadId": upload})

    await asyncio.gather(*(abort(*upload) for upload in uploads))
    return len(uploads)


def _entry(element: ET.Element) -> Entry:
    return Entry(
        _text(element, "Key"), int(element.findtext("Size") or 0), element.findtext("LastModified") or "",
        (element.findtext("ETag") or "").strip('"'), element.findtext("StorageClass") or "",
        element.findtext("VersionId"), element.findtext("IsLatest") != "false", element.tag == "DeleteMarker",
    )  # fmt: skip


def _text(element: ET.Element, name: str) -> str:
    return unquote_plus(element.findtext(name) or "")
