"""The objects of a bucket as folders, in pages: as they are, with what was deleted, or as they were at a time. Finding them
by a part of their keys or by their content; renaming a folder.

Keys travel in queries and forms percent-encoded (`key`, `raw`), because forms change line ends.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin
from orcas.console.contents import (
    BATCH,
    Entry,
    Listing,
    as_of,
    by_key,
    has_versions,
    list_objects,
    list_versions,
    search,
)
from orcas.console.places import Place
from orcas.console.rendering import attempt, digits, field, page, to_folder, visit
from orcas.console.shown import counted

# Objects and folders on a page.
_PAGE: Final = 200
# One step of a search takes so many seconds, and shows so many finds; the page goes on by itself up to a larger number.
_SEARCH_SECONDS: Final = 1
_FINDS_MAX: Final = 200
# Objects of a folder that are sorted otherwise than by name: the store lists by name alone.
_SORTED_MAX: Final = 10 * BATCH
_SORTS: Final[dict[str, Callable[[Entry], Any]]] = {
    "name": lambda entry: entry.key,
    "size": lambda entry: entry.size,
    "modified": lambda entry: entry.modified,
}


@dataclass(frozen=True, slots=True)
class _View:
    """What a page shows. `deleted`: versions and delete markers too. `at`: a time, as lists have it, or empty."""

    prefix: str
    find: str
    same: str
    deleted: bool
    at: str
    token: str | None

    @property
    def folder(self) -> str:
        """The prefix to its last slash."""
        return self.prefix[: self.prefix.rfind("/") + 1]


async def show(request: Request) -> Response:
    """A page of a folder, or of what a search has found."""
    asked, who, bucket = request.query_params, visit(request), request.path_params["bucket"]
    find, same = asked.get("find", ""), asked.get("same", "")
    view = _View(
        asked.get("prefix") or unquote(asked.get("raw", "")), find, same,
        bool(asked.get("deleted")), _moment(asked.get("at", ""), asked.get("before", "")),
        asked.get("token"),
    )  # fmt: skip
    if asked.get("begins"):
        return to_folder(request, view.folder + view.find)
    sort, down = asked.get("sort", "name"), asked.get("down") == "yes"
    had, seen, part = digits(asked.get("had")), digits(asked.get("seen")), False
    if view.find or view.same:
        listing, more = await _found(request, view)
        had, seen = had + len(listing.entries), seen + more
    else:
        if sort in _SORTS and (sort != "name" or down):
            listing, part = await _sorted(request, view, _SORTS[sort], reverse=down)
        else:
            listing = await _page(request, view, view.token, _PAGE)
        who.session.place = bucket, view.folder
    kept = {
        "prefix": view.prefix or None, "find": view.find or None, "same": view.same or None,
        "deleted": "yes" if view.deleted else None, "at": view.at or None,
    }  # fmt: skip
    return await page(
        request, "objects.html", prefix=view.prefix, folder=view.folder, listing=listing, view=view,
        kept=kept, sort=sort, down=down, had=had, seen=seen, sorted_most=_SORTED_MAX if part else 0,
        undo=len(who.session.undo[1]) if who.session.undo[0] == bucket else 0, versions=await has_versions(who, bucket),
    )  # fmt: skip


def _moment(at: str, before: str) -> str:
    """A time in UTC as lists have it, so that texts compare as times; empty if none is asked for."""
    if not at and not before:
        return ""
    try:
        moment = dt.datetime.fromisoformat(at or before)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        moment -= dt.timedelta(milliseconds=0 if at else 1)
        return moment.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise CallError(400, "InvalidArgument", "That is no time: write it as 2026-01-31T12:00, in UTC.") from None


async def _page(request: Request, view: _View, token: str | None, limit: int) -> Listing:
    who, bucket = visit(request), request.path_params["bucket"]
    if not view.deleted and not view.at:
        return await list_objects(who, bucket, view.prefix, token, limit=limit)
    if not view.at:
        return await list_versions(who, bucket, view.prefix, token, delimiter="/", limit=limit)
    versions, folders, token = by_key(await list_versions(who, bucket, view.prefix, token, delimiter="/"))
    return Listing([each for each in as_of(versions, view.at) if not each.marker], folders, token)


async def _sorted(
    request: Request, view: _View, order: Callable[[Entry], Any], *, reverse: bool
) -> tuple[Listing, bool]:
    """A page of the whole folder in another order, and whether it has more than are sorted. A token is a number here."""
    listing, entries, folders = Listing([], [], ""), list[Entry](), list[str]()
    while listing.token is not None and len(entries) < _SORTED_MAX:
        listing = await _page(request, view, listing.token or None, BATCH)
        entries += listing.entries
        folders += listing.folders
    entries.sort(key=order, reverse=reverse)
    begin = digits(view.token)
    end = begin + _PAGE
    token = str(end) if len(entries) > end else None
    return Listing(entries[begin:end], [] if begin else folders, token), listing.token is not None


async def _found(request: Request, view: _View) -> tuple[Listing, int]:
    """A bounded part of a search below a folder, and how many keys it has looked at."""
    ends, seen, token = time.monotonic() + _SEARCH_SECONDS, 0, view.token
    entries: list[Entry] = []
    for _ in range(_SORTED_MAX):
        listing, count = await search(
            visit(request), request.path_params["bucket"], view.folder, token, view.same or view.find,
            is_etag=bool(view.same), versions=view.deleted, at=view.at,
        )  # fmt: skip
        seen, token = seen + count, listing.token
        entries += listing.entries
        if token is None or len(entries) >= _FINDS_MAX or time.monotonic() > ends:
            break
    return Listing(entries, [], token), seen


async def move_folder(request: Request) -> Response:
    """Rename a folder: all its objects at once, by the move of the admin API."""
    bucket, prefix = request.path_params["bucket"], unquote(field(request, "prefix"))
    target = field(request, "target")
    if not target or not prefix:
        return to_folder(request, prefix, "Nothing was renamed: type the new name of the folder.")
    target = target if target.endswith("/") else f"{target}/"
    order = {"source": {"bucket": bucket, "prefix": prefix}, "target": {"bucket": bucket, "prefix": target}}
    moved = await attempt(request, admin(visit(request), "POST", "move", order), "The folder was not renamed")
    if moved is None:
        return to_folder(request, prefix)
    return to_folder(request, target, f"{counted(moved['objects'], 'object')} moved to {target}", "done")


ROUTES = [
    Route("/b/{bucket}", show),
    Route("/b/{bucket}/move-folder", move_folder, methods=["POST"]),
]
TABS = [Place("Objects", "")]
