"""What the lifecycle rules of a page would remove today, saved or not: counted in steps, each of which the page asks for.

A step lists a bounded number of versions and uploads with the rights of the visitor. What was counted so far, and where the
next step goes on, are in the session, so a reload loses nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import time
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orcas.console import shown
from orcas.console.calls import CallError, Visit, call, object_path
from orcas.console.contents import Entry, Upload, list_uploads, list_versions
from orcas.console.documents.kinds import LIFECYCLE
from orcas.console.rendering import explained, page, redirect, visit
from orcas.console.rendering import field as typed
from orcas.engine import ExpiryCount

# Entries of a list; lists, seconds and tags of one step; and counts of one session.
_PAGE: Final = 250
_PAGES_MAX: Final = 20
_STEP_SECONDS: Final = 1.0
_TAGS_MAX: Final = 200
_COUNTS_MAX: Final = 4

Lists = Literal["versions", "uploads"]
Tags = list[tuple[str, str]]


@dataclass
class Counting:
    """Rules that are counted, and how far: the list and the prefix in hand, and where its next page begins.

    `seen`: the mark of the document that the page of the rules was made of.
    """

    bucket: str
    document: str
    seen: str
    rules: ExpiryCount
    looked_at: int = 0
    phase: Lists = "versions"
    prefix: int = 0
    token: str | None = None
    done: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def words(self) -> str:
        """How far it is."""
        seen = shown.number(self.looked_at)
        if self.done:
            return f"Counted. Versions and uploads looked at: {seen}."
        so_far = f"Versions and uploads looked at so far: {seen}"
        last = unquote((self.token or "").partition("/")[0])
        return f"{so_far}, up to {shown.plain(last)}." if last else f"{so_far}."

    @property
    def rows(self) -> list[list[str]]:
        """What was found, by rule."""
        found = self.rules.rows()
        return [[shown.plain(name), *map(shown.number, counts), shown.size(size)] for name, *counts, size in found]


async def begin(request: Request) -> Response:
    """Begin to count what the form says, or the text."""
    bucket, document, counts = str(request.path_params["bucket"]), _document(request), visit(request).session.counts
    try:
        rules = await asyncio.to_thread(ExpiryCount, document.encode(), round(time.time() * 1000))
    except ValueError as error:
        problem = f"The rules cannot be counted: {str(error).rstrip('.')}. Correct them, and count again."
        return await page(request, "settings/count.html", 400, problem=problem, count=None)
    name = secrets.token_urlsafe(8)
    while len(counts) >= _COUNTS_MAX:
        del counts[next(iter(counts))]
    counts[name] = Counting(bucket, document, typed(request, "seen"), rules)
    return redirect(request, f"/b/{bucket}/settings/lifecycle/count", of=name)


async def show(request: Request) -> Response:
    """One step; the page that shows it asks for the next one."""
    who, bucket = visit(request), str(request.path_params["bucket"])
    count: Counting | None = who.session.counts.get(request.query_params.get("of", ""))
    if count is None or count.bucket != bucket:
        raise HTTPException(404)
    problem, status = "", 200
    try:
        async with count.turn:
            await _step(who, count)
    except CallError as error:
        problem, status = f"The objects cannot be counted: {explained(error)}", error.status
    return await page(request, "settings/count.html", status, count=count, problem=problem)


def _document(request: Request) -> str:
    """The document in the text area, or what the form says."""
    if typed(request, "do") == "text":
        return typed(request, "document")
    filled = LIFECYCLE.take({name: values[0] for name, values in request.state.form.items()})
    return LIFECYCLE.write(filled) or LIFECYCLE.empty


async def _step(who: Visit, count: Counting) -> None:
    until, tags_left = time.monotonic() + _STEP_SECONDS, _TAGS_MAX
    for _ in range(_PAGES_MAX):
        if count.done or time.monotonic() >= until or tags_left <= 0:
            break
        tags_left -= await _list(who, count)


async def _list(who: Visit, count: Counting) -> int:
    """Count one page of a list. How many tags were asked for. What grows with the page or the rules is done in threads."""
    rules, uploads = count.rules, count.phase == "uploads"
    listed = await asyncio.to_thread(rules.prefixes, uploads)
    if count.prefix >= len(listed):
        count.done, count.phase, count.prefix = uploads, "uploads", 0
        return 0
    bucket, prefix, tagged = count.bucket, listed[count.prefix], list[Entry]()
    if uploads:
        begun, count.token = await list_uploads(who, bucket, prefix, count.token, limit=_PAGE)
        count.looked_at += len(begun)
        await asyncio.to_thread(_count_uploads, rules, begun)
    else:
        listing = await list_versions(who, bucket, prefix, count.token, limit=_PAGE)
        count.token, tagged = listing.token, await asyncio.to_thread(_needing_tags, rules, listing.entries)
        count.looked_at += len(listing.entries)
        tags = {version: await _tags(who, bucket, version) for version in tagged}
        await asyncio.to_thread(_count, rules, listing.entries, tags)
    if count.token is None:
        rules.end()
        count.prefix += 1
    return len(tagged)


def _needing_tags(rules: ExpiryCount, versions: list[Entry]) -> list[Entry]:
    return [version for version in versions if not version.marker and rules.needs_tags(version.key, version.size)]


def _count(rules: ExpiryCount, versions: list[Entry], tags: dict[Entry, Tags]) -> None:
    for each in versions:
        rules.version(each.key, each.size, _moment_ms(each.modified), each.marker, tags.get(each, []))


def _count_uploads(rules: ExpiryCount, uploads: list[Upload]) -> None:
    for upload in uploads:
        rules.upload(upload.key, _moment_ms(upload.begun))


def _moment_ms(text: str) -> int:
    """A time as lists have it, in milliseconds since 1970."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


async def _tags(who: Visit, bucket: str, version: Entry) -> Tags:
    query = {"tagging": "", "versionId": None if version.version == "null" else version.version}
    try:
        found = (await call(who, "GET", object_path(bucket, version.key), query)).xml()
    except CallError as error:
        if error.status == 404:
            # It is gone meanwhile.
            return []
        raise
    return [(tag.findtext("Key") or "", tag.findtext("Value") or "") for tag in found.iter("Tag")]
