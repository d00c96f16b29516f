"""What buckets contain, as several pages need it: lists in pages, heads of objects, and removals in batches.

Every function does a bounded number of calls. Keys are URL-encoded in documents, because XML cannot have them all.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, unquote, unquote_plus
from xml.sax.saxutils import escape, unescape

from orcas.console.calls import Answer, CallError, Query, Visit, call, object_path
from orcas.console.rendering import explained

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

# The header that asks for removal or change although a retention in governance mode has not ended.
BYPASS: Final = {"x-amz-bypass-governance-retention": "true"}
# Keys of one DeleteObjects and of one page of a list.
BATCH: Final = 1000
# Requests at a time.
_AT_ONCE: Final = 8
# What XML cannot have, even escaped, and what its readers change.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_ESCAPES: Final = {"\n": "&#10;", "\t": "&#9;"}
_ENTRIES: Final = frozenset({"Contents", "Version", "DeleteMarker"})
# In the document of a list: the keys, and where the next page begins.
_KEYS: Final = re.compile(rb"<Key>([^<]*)</Key>")
_NEXT: Final = re.compile(rb"<Next(ContinuationToken|KeyMarker|VersionIdMarker)>([^<]*)<")


_Of = TypeVar("_Of")


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
class Upload:
    """An unfinished upload in parts."""

    key: str
    id: str
    begun: str


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
    return await _listed(await _list(visit, bucket, _of_objects(token), prefix, delimiter, limit))


async def list_versions(
    visit: Visit, bucket: str, prefix: str = "", token: str | None = None, *, delimiter: str = "", limit: int = BATCH
) -> Listing:
    """Versions and delete markers of such keys, and folders, the newest of each key first. A token begins with a key."""
    return await _listed(await _list(visit, bucket, _of_versions(token), prefix, delimiter, limit))


async def list_uploads(
    visit: Visit, bucket: str, prefix: str = "", token: str | None = None, *, limit: int = BATCH
) -> tuple[list[Upload], str | None]:
    """The unfinished uploads of keys that begin with `prefix`, and where the next page begins; None after the last one."""
    key, _, upload = (token or "").partition("/")
    query = {
        "uploads": "", "prefix": prefix, "max-uploads": str(limit), "encoding-type": "url",
        "key-marker": unquote(key) if token else None, "upload-id-marker": upload or None,
    }  # fmt: skip
    found = await asyncio.to_thread((await call(visit, "GET", object_path(bucket), query)).xml)
    uploads = [
        Upload(_text(each, "Key"), each.findtext("UploadId") or "", each.findtext("Initiated") or "")
        for each in found.iter("Upload")
    ]
    more = found.findtext("IsTruncated") == "true"
    after = f"{quote(_text(found, 'NextKeyMarker'), safe='')}/{found.findtext('NextUploadIdMarker')}"
    return uploads, after if more else None


async def search(
    visit: Visit, bucket: str, folder: str, token: str | None, text: str, *, is_etag: bool = False,
    versions: bool = False, at: str = "",
) -> tuple[Listing, int]:  # fmt: skip
    """What a page of the list below a folder has with this text in its key, in any case, or with this ETag.

    Most pages have nothing of it: they are not parsed, so that a search through many keys takes little time.

    Args:
        versions: search earlier versions and delete markers, too.
        at: search what each key had at that time.

    Returns:
        What was found, and how many entries the page has.
    """
    query = _of_versions(token) if versions or at else _of_objects(token)
    answer = await _list(visit, bucket, query, folder, "", BATCH)
    keys, wanted, below = _KEYS.findall(answer.body), text.casefold(), len(folder)
    in_keys = wanted in unquote_plus(b"\n".join(keys).decode()).casefold()
    following, entries = _following(answer), list[Entry]()
    # A version with the ETag may be on another page than the one that the key had at the time.
    if in_keys if not is_etag else at or text.encode() in answer.body:
        listing = await _listed(answer)
        every = listing.entries
        if at:
            found, _, following = by_key(listing)
            every = [each for each in as_of(found, at) if not each.marker]
        entries = [each for each in every if (each.etag == text if is_etag else wanted in each.key[below:].casefold())]
    return Listing(entries, [], following), len(keys)


def by_key(listing: Listing) -> tuple[dict[str, list[Entry]], list[str], str | None]:
    """The versions of a page by key, its folders, and where the next page begins.

    A key whose versions the page does not have all begins the next page. Of one that fills a page, the newest count.
    """
    found: dict[str, list[Entry]] = {}
    for entry in listing.entries:
        found.setdefault(entry.key, []).append(entry)
    folders, token = listing.folders, listing.token
    if token is not None and found and (last := next(reversed(found))) == unquote(token.partition("/")[0]):
        if len(found) > 1:
            del found[last]
            last = next(reversed(found))
            folders = [each for each in folders if each < last]
        token = f"{quote(last, safe='')}/"
    return found, folders, token


def as_of(versions: Mapping[str, list[Entry]], at: str) -> list[Entry]:
    """What each key had at a time: a version or a delete marker. Keys that did not exist are left out."""
    found = (next((each for each in entries if each.modified <= at), None) for entries in versions.values())
    return [each for each in found if each is not None]


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
    sent = {"x-amz-checksum-mode": "ENABLED"}
    return (await call(visit, "HEAD", object_path(bucket, key), {"versionId": version}, sent)).headers


def of_xml(body: bytes) -> dict[str, str]:
    """The headers of a document, with the checksum that some requests need."""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode(), "content-type": "application/xml"}


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
        answer = (await call(visit, "POST", object_path(bucket), {"delete": ""}, of_xml(body), body)).xml()
        for each in answer.iter("Deleted"):
            marker = each.findtext("DeleteMarkerVersionId") or each.findtext("VersionId")
            is_marker = each.findtext("DeleteMarker") == "true"
            gone.append(Entry(each.findtext("Key") or "", version=marker, marker=is_marker))
        for each in answer.iter("Error"):
            error = CallError(403, each.findtext("Code") or "", each.findtext("Message") or "")
            failed.append(f"{each.findtext('Key')}: {explained(error)}")
    for key, version in (pair for pair in found if _NOT_XML.search(pair[0])):
        try:
            gone.append(await remove_one(visit, bucket, key, version))
        except CallError as error:
            failed.append(f"{key}: {explained(error)}")
    return gone, failed


async def remove_one(
    visit: Visit, bucket: str, key: str, version: str | None = None, etag: str | None = None, *, bypass: bool = False
) -> Entry:
    """Delete an object, or a version of it; if `etag` is given, only the object that has it.

    `bypass`: although its retention, in governance mode, has not ended.
    """
    sent = ({"if-match": etag} if etag else {}) | (BYPASS if bypass else {})
    headers = (await call(visit, "DELETE", object_path(bucket, key), {"versionId": version}, sent)).headers
    is_marker = headers.get("x-amz-delete-marker") == "true"
    return Entry(key, version=headers.get("x-amz-version-id"), marker=is_marker)


async def copy_one(
    visit: Visit, source: tuple[str, str, str | None], target: tuple[str, str], *, replace: bool, move: bool = False,
    again: bool = False,
) -> str | None:  # fmt: skip
    """Copy an object or version; a move deletes the source once the copy is there, unless it has changed since.

    `again`: an earlier attempt, whose answer was lost, may have done it.

    Returns:
        Why a move left the source; None if it did not.

    Raises:
        CallError: nothing was copied; with the status 412 because there is another object of that key.
    """
    bucket, key, version = source
    try:
        etag = (await head(visit, bucket, key, version)).get("etag", "")
    except CallError as error:
        if again and move and error.status == 404 and await head(visit, *target):
            return None
        raise
    headers = {"x-amz-copy-source": copy_source(*source), "x-amz-copy-source-if-match": etag}
    try:
        await call(visit, "PUT", object_path(*target), headers=headers | ({} if replace else {"if-none-match": "*"}))
    except CallError as error:
        if not again or error.status != 412 or (await head(visit, *target)).get("etag") != etag:
            raise
    if move:
        try:
            await remove_one(visit, bucket, key, version, etag)
        except CallError as error:
            return error.message
    return None


def copy_source(bucket: str, key: str, version: str | None) -> str:
    """What the header `x-amz-copy-source` says of an object or version."""
    return f"{quote(bucket)}/{quote(key, safe='/~')}" + (f"?versionId={quote(version, safe='')}" if version else "")


async def each_of(work: Callable[[_Of], Awaitable[None]], of: Iterable[_Of]) -> None:
    """Do some work for each, several at a time."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(item: _Of) -> None:
        async with turn:
            await work(item)

    await asyncio.gather(*map(one, of))


async def abort_uploads(visit: Visit, bucket: str) -> int:
    """Abort unfinished uploads, at most `BATCH`; how many there were."""
    uploads, _ = await list_uploads(visit, bucket)

    async def abort(upload: Upload) -> None:
        await abort_upload(visit, bucket, upload.key, upload.id)

    await each_of(abort, uploads)
    return len(uploads)


async def abort_upload(visit: Visit, bucket: str, key: str, upload: str) -> None:
    """Abort an unfinished upload; its parts are gone."""
    await call(visit, "DELETE", object_path(bucket, key), {"uploadId": upload})


async def _list(visit: Visit, bucket: str, of: Query, prefix: str, delimiter: str, limit: int) -> Answer:
    query = {**of, "prefix": prefix, "max-keys": str(limit), "encoding-type": "url", "delimiter": delimiter or None}
    return await call(visit, "GET", object_path(bucket), query)


async def _listed(answer: Answer) -> Listing:
    found = await asyncio.to_thread(answer.xml)
    entries = [_entry(each) for each in found if each.tag in _ENTRIES]
    return Listing(entries, [_text(each, "Prefix") for each in found.iter("CommonPrefixes")], _following(answer))


def _of_objects(token: str | None) -> Query:
    return {"list-type": "2", "continuation-token": token or None}


def _of_versions(token: str | None) -> Query:
    key, _, version = (token or "").partition("/")
    return {"versions": "", "key-marker": unquote(key) if token else None, "version-id-marker": version or None}


def _following(answer: Answer) -> str | None:
    """Where the next page of a list begins."""
    marks = {name: unescape(text.decode()) for name, text in _NEXT.findall(answer.body)}
    if b"KeyMarker" in marks:
        return f"{quote(unquote_plus(marks[b'KeyMarker']), safe='')}/{marks.get(b'VersionIdMarker', '')}"
    return marks.get(b"ContinuationToken")


def _entry(element: ET.Element) -> Entry:
    return Entry(
        _text(element, "Key"), int(element.findtext("Size") or 0), element.findtext("LastModified") or "",
        (element.findtext("ETag") or "").strip('"'), element.findtext("StorageClass") or "",
        element.findtext("VersionId"), element.findtext("IsLatest") != "false", element.tag == "DeleteMarker",
    )  # fmt: skip


def _text(element: ET.Element, name: str) -> str:
    return unquote_plus(element.findtext(name) or "")
