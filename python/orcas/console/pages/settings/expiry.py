"""What the lifecycle rules of a page would remove today, saved or not: counted in steps, each of which the page asks for.

A step lists a bounded number of versions and uploads with the rights of the visitor. What was counted so far, and where the
next step goes on, are in the page; the server keeps nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orcas.console import shown
from orcas.console.calls import CallError, Visit, call, object_path
from orcas.console.documents import lifecycle
from orcas.console.documents.expiry import (
    Count,
    Tags,
    Tally,
    Upload,
    Version,
    kept,
    moment_ms,
    place_of,
    prefixes,
    read_rules,
)
from orcas.console.documents.forms import FieldError
from orcas.console.documents.trees import Tree, parse
from orcas.console.pages import explained, page, visit
from orcas.console.pages import field as typed

# Entries of a list; lists, seconds and tags of one step.
_PAGE: Final = 250
_PAGES_MAX: Final = 20
_STEP_SECONDS: Final = 1.0
_TAGS_MAX: Final = 200

Lists = Literal["versions", "uploads"]


@dataclass
class Progress:
    """Where a count is: the list and the prefix in hand, the markers of the next page, and what was counted."""

    now_ms: int
    phase: Lists = "versions"
    prefix: int = 0
    markers: list[str] = field(default_factory=list)
    seen: int = 0
    last: str = ""
    done: bool = False
    place: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)


async def count(request: Request) -> Response:
    """One step; the page that shows it asks for the next one."""
    bucket, who = str(request.path_params["bucket"]), visit(request)
    problem = ""
    try:
        document = await asyncio.to_thread(_document, request)
        rules = await asyncio.to_thread(read_rules, document)
        progress = _progress(typed(request, "progress"))
        await _step(who, bucket, Tally(rules, progress.now_ms), progress)
    except (FieldError, ValueError) as error:
        document, rules, progress = "", [], Progress(0, done=True)
        problem = f"The rules cannot be counted: {str(error).rstrip('.')}. Correct them, and count again."
    except CallError as error:
        document, rules, progress = "", [], Progress(0, done=True)
        problem = f"The objects cannot be counted: {explained(error)}"
    rows = [_row(rules[int(at)].id, Count(**found)) for at, found in sorted(progress.counts.items(), key=_place)]
    step = {"words": _words(progress), "rows": rows, "done": progress.done, "progress": json.dumps(asdict(progress))}
    status = 400 if problem else 200
    if "json" in request.headers.get("accept", ""):
        return JSONResponse(step, status)
    return await page(
        request,
        "settings/count.html",
        status,
        bucket=bucket,
        step=step,
        document=document,
        problem=problem,
        seen=typed(request, "seen"),
    )


def _place(found: tuple[str, Any]) -> int:
    return int(found[0])


def _row(name: str, count: Count) -> list[str]:
    counts = (count.current, count.noncurrent, count.marker, count.upload)
    return [shown.plain(name), *map(shown.number, counts), shown.size(count.bytes)]


def _words(progress: Progress) -> str:
    seen = shown.number(progress.seen)
    if progress.done:
        return f"Counted. Versions and uploads looked at: {seen}."
    so_far = f"Versions and uploads looked at so far: {seen}"
    return f"{so_far}, up to {shown.plain(progress.last)}." if progress.last else f"{so_far}."


def _document(request: Request) -> str:
    """The document of the step before, that in the text area, or what the form says."""
    if typed(request, "do") == "text" or typed(request, "progress"):
        return typed(request, "document")
    form = lifecycle.FORM
    filled = form.take({name: values[0] for name, values in request.state.form.items()})
    return form.write(filled) or f"<{lifecycle.ROOT}/>"


def _progress(text: str) -> Progress:
    """The state in the page: a visitor who changes it deceives nobody else.

    Raises:
        ValueError: it is none.
    """
    if not text:
        return Progress(round(time.time() * 1000))
    try:
        found = Progress(**json.loads(text))
        place_of(found.place or kept(Tally([], 0).place))
        counts = {str(int(at)): asdict(Count(**each)) for at, each in found.counts.items()}
        plain = isinstance(found.now_ms, int) and isinstance(found.prefix, int) and isinstance(found.seen, int)
        if (
            not plain
            or found.phase not in ("versions", "uploads")
            or not all(isinstance(m, str) for m in found.markers)
        ):
            raise TypeError("a value has another type")
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the state of the page is malformed ({error})") from None
    found.counts = counts
    return found


async def _step(who: Visit, bucket: str, tally: Tally, progress: Progress) -> None:
    tally.place = place_of(progress.place or kept(tally.place))
    tally.counts = {int(at): Count(**found) for at, found in progress.counts.items() if int(at) < len(tally.rules)}
    tally.seen = progress.seen
    until, tags_left = time.monotonic() + _STEP_SECONDS, _TAGS_MAX
    for _ in range(_PAGES_MAX):
        if progress.done or time.monotonic() >= until or tags_left <= 0:
            break
        tags_left -= await _list(who, bucket, tally, progress)
    progress.place, progress.seen = kept(tally.place), tally.seen
    progress.counts = {str(at): asdict(found) for at, found in tally.counts.items()}


async def _list(who: Visit, bucket: str, tally: Tally, progress: Progress) -> int:
    """Count one page of a list. How many tags were asked for. What grows with the page or the rules is done in threads."""
    listed = await asyncio.to_thread(prefixes, tally.rules, progress.phase)
    if progress.prefix >= len(listed):
        progress.done, progress.phase, progress.prefix = progress.phase == "uploads", "uploads", 0
        return 0
    names = ("key-marker", "version-id-marker" if progress.phase == "versions" else "upload-id-marker")
    query = {progress.phase: "", "encoding-type": "url", "prefix": listed[progress.prefix].decode()}
    query |= {f"max-{'keys' if progress.phase == 'versions' else 'uploads'}": str(_PAGE)}
    query |= dict(zip(names, progress.markers, strict=False))
    answer = await call(who, "GET", object_path(bucket), query)
    root, versions, tagged = await asyncio.to_thread(_entries, answer.body, tally)
    tags = {version: await _tags(who, bucket, version) for version in tagged}
    await asyncio.to_thread(_count, tally, root, versions, tags)
    if root.value("IsTruncated") == "true":
        next_ = [root.value("NextKeyMarker"), root.value("NextVersionIdMarker") or root.value("NextUploadIdMarker")]
        progress.markers = [_decoded(next_[0]).decode(), next_[1]]
        progress.last = progress.markers[0]
    else:
        tally.end()
        progress.prefix, progress.markers = progress.prefix + 1, []
    return len(tagged)


def _entries(body: bytes, tally: Tally) -> tuple[Tree, list[Version], list[Version]]:
    """The page, its versions, and those whose tags matter."""
    root = parse(body)
    versions = [
        Version(
            _decoded(child.value("Key")),
            child.value("VersionId"),
            moment_ms(child.value("LastModified")),
            int(child.value("Size") or 0),
            child.name == "DeleteMarker",
        )
        for child in root.children
        if child.name in ("Version", "DeleteMarker")
    ]
    return root, versions, [version for version in versions if tally.needs_tags(version)]


def _count(tally: Tally, root: Tree, versions: list[Version], tags: dict[Version, Tags]) -> None:
    for version in versions:
        tally.version(version, tags.get(version, frozenset()))
    for child in root.all("Upload"):
        tally.upload(Upload(_decoded(child.value("Key")), moment_ms(child.value("Initiated"))))


async def _tags(who: Visit, bucket: str, version: Version) -> Tags:
    key = version.key.decode()
    query = {"tagging": ""} | ({} if version.version_id == "null" else {"versionId": version.version_id})
    try:
        root = parse((await call(who, "GET", object_path(bucket, key), query)).body)
    except CallError as error:
        if error.status == 404:
            # It is gone meanwhile.
            return frozenset()
        raise
    found = root.get("TagSet")
    return frozenset((tag.value("Key"), tag.value("Value")) for tag in ([] if found is None else found.children))


def _decoded(key: str) -> bytes:
    return unquote_to_bytes(key.replace("+", " "))
