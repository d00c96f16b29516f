"""The objects of a bucket as folders, in pages; finding them by a part of their keys or by their content; deleting several,
with undo.

Keys travel in queries and forms percent-encoded (`key`), because forms change line ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.contents import BATCH, Entry, has_versions, list_objects, remove
from orcas.console.pages import (
    CallError,
    Place,
    admin,
    field,
    fields,
    flash,
    flash_error,
    object_path,
    page,
    redirect,
    visit,
)

# Objects and folders on a page.
_PAGE: Final = 200
# One search reads at most so many pages of the list, for so many seconds, and shows so many finds.
_SEARCH_PAGES_MAX: Final = 20
_SEARCH_SECONDS: Final = 2
_FINDS_MAX: Final = 200
# Objects that one form deletes, when folders are among them.
_DELETED_MAX: Final = 10 * BATCH
_SORTS: Final[dict[str, Callable[[Entry], Any]]] = {
    "name": lambda entry: entry.key,
    "size": lambda entry: entry.size,
    "modified": lambda entry: entry.modified,
}


async def show(request: Request) -> Response:
    """A page of a folder, or of what a search has found."""
    asked = request.query_params
    bucket, prefix, find = request.path_params["bucket"], asked.get("prefix", ""), asked.get("find", "")
    same = asked.get("same", "")
    folder = prefix[: prefix.rfind("/") + 1]
    sort, down = asked.get("sort", "name"), asked.get("down") == "yes"
    if find or same:
        wanted = _has_etag(same) if same else _has_text(folder, find)
        entries, folders, token, seen = await _found(request, bucket, folder, wanted, asked.get("token"))
    else:
        listing = await list_objects(visit(request), bucket, prefix, asked.get("token"), limit=_PAGE)
        entries, folders, token, seen = listing.entries, listing.folders, listing.token, 0
        visit(request).session.place = bucket, folder
    # Within this page: the store lists by name alone.
    if sort in _SORTS and (sort != "name" or down):
        entries = sorted(entries, key=_SORTS[sort], reverse=down)
    undo = visit(request).session.undo
    return await page(
        request, "objects.html", bucket=bucket, prefix=prefix, folder=folder, crumbs=_crumbs(folder), entries=entries,
        folders=folders, token=token, first=not asked.get("token"), sort=sort, down=down, find=find, same=same, seen=seen,
        undo=len(undo[1]) if undo is not None and undo[0] == bucket else 0, up=_up(folder),
    )  # fmt: skip


def _has_text(folder: str, find: str) -> Callable[[Entry], bool]:
    """Whether a text is in the key of an object below a folder, whatever its case."""
    wanted = find.casefold()
    return lambda entry: wanted in entry.key[len(folder) :].casefold()


def _has_etag(etag: str) -> Callable[[Entry], bool]:
    """Whether an object has this ETag, which is that of its content, and of its parts if it was uploaded in parts."""
    return lambda entry: entry.etag.strip('"') == etag


async def _found(
    request: Request, bucket: str, folder: str, wanted: Callable[[Entry], bool], token: str | None
) -> tuple[list[Entry], list[str], str | None, int]:
    """The objects below a folder that are wanted: a bounded part of the search."""
    ends, seen = time.monotonic() + _SEARCH_SECONDS, 0
    entries: list[Entry] = []
    for _ in range(_SEARCH_PAGES_MAX):
        listing = await list_objects(visit(request), bucket, folder, token, delimiter="")
        seen += len(listing.entries)
        entries += filter(wanted, listing.entries)
        token = listing.token
        if token is None or len(entries) >= _FINDS_MAX or time.monotonic() > ends:
            break
    return entries, [], token, seen


async def delete(request: Request) -> Response:
    """Delete the chosen objects, and all objects in the chosen folders."""
    who, bucket, prefix = visit(request), request.path_params["bucket"], unquote(field(request, "prefix"))
    keys = [unquote(key) for key in fields(request, "key")]
    gone: list[Entry] = []
    failed: list[str] = []
    more = False
    try:
        for folder in map(unquote, fields(request, "folder")):
            token: str | None = ""
            while token is not None and len(keys) < _DELETED_MAX:
                listing = await list_objects(who, bucket, folder, token or None, delimiter="")
                keys += [entry.key for entry in listing.entries]
                token = listing.token
            more = more or token is not None
        for at in range(0, len(keys), BATCH):
            done, refused = await remove(who, bucket, [(key, None) for key in keys[at : at + BATCH]])
            gone += done
            failed += refused
    except CallError as error:
        flash_error(request, error, "Not everything was deleted")
    markers = [(entry.key, entry.version) for entry in gone if entry.marker and entry.version]
    who.session.undo = (bucket, markers) if markers else None
    if gone:
        flash(request, f"{len(gone):,} objects were deleted.")
    elif not failed:
        flash(request, "Nothing was deleted: choose objects or folders first.", "failed")
    if failed:
        flash(request, f"{len(failed):,} objects were not deleted, such as {failed[0]}", "failed")
    if more:
        flash(request, f"The folder has more than {_DELETED_MAX:,} objects: delete it again for the rest.", "failed")
    return redirect(request, f"/b{object_path(bucket)}", prefix=prefix or None)


async def undo(request: Request) -> Response:
    """Undo the last deletion, by deleting its delete markers."""
    who, bucket = visit(request), request.path_params["bucket"]
    if who.session.undo is None or who.session.undo[0] != bucket:
        flash(request, "There is nothing to undo: restore objects from their histories.", "failed")
        return redirect(request, f"/b{object_path(bucket)}")
    markers, who.session.undo = who.session.undo[1], None
    restored = 0
    try:
        for at in range(0, len(markers), BATCH):
            gone, failed = await remove(who, bucket, [*markers[at : at + BATCH]])
            restored += len(gone)
            if failed:
                flash(request, f"{len(failed):,} objects were not restored, such as {failed[0]}", "failed")
    except CallError as error:
        flash_error(request, error, "Not everything was restored")
    flash(request, f"{restored:,} objects were restored.")
    return redirect(request, f"/b{object_path(bucket)}", prefix=unquote(field(request, "prefix")) or None)


async def move_folder(request: Request) -> Response:
    """Rename a folder: all its objects at once, by the move of the admin API."""
    bucket, prefix = request.path_params["bucket"], unquote(field(request, "prefix"))
    target = field(request, "target")
    if not target or not prefix:
        flash(request, "Nothing was renamed: type the new name of the folder.", "failed")
        return redirect(request, f"/b{object_path(bucket)}", prefix=prefix or None)
    target = target if target.endswith("/") else f"{target}/"
    order = {"source": {"bucket": bucket, "prefix": prefix}, "target": {"bucket": bucket, "prefix": target}}
    try:
        moved = await admin(visit(request), "POST", "move", order)
    except CallError as error:
        flash_error(request, error, "The folder was not renamed")
        return redirect(request, f"/b{object_path(bucket)}", prefix=prefix)
    flash(request, f"{moved['objects']:,} objects were moved to {target}")
    return redirect(request, f"/b{object_path(bucket)}", prefix=target)


async def keeps_versions(request: Request) -> Response:
    """The page that asks before objects are deleted: it says whether they can be restored."""
    who, bucket = visit(request), request.path_params["bucket"]
    keys, folders = fields(request, "key"), fields(request, "folder")
    kept = await has_versions(who, bucket)
    return await page(
        request, "objects-delete.html", bucket=bucket, prefix=unquote(field(request, "prefix")), kept=kept,
        chosen=[(quote(unquote(key), safe=""), unquote(key)) for key in keys],
        folders=[(quote(unquote(folder), safe=""), unquote(folder)) for folder in folders],
    )  # fmt: skip


def _crumbs(folder: str) -> list[tuple[str, str]]:
    """The folders above: name and prefix."""
    parts = folder.split("/")[:-1]
    return [(part, "/".join(parts[: at + 1]) + "/") for at, part in enumerate(parts)]


def _up(folder: str) -> str | None:
    """The folder above; None at the top."""
    return folder[: folder.rfind("/", 0, -1) + 1] if folder else None


ROUTES = [
    Route("/b/{bucket}", show),
    Route("/b/{bucket}/confirm-delete", keeps_versions, methods=["POST"]),
    Route("/b/{bucket}/delete-objects", delete, methods=["POST"]),
    Route("/b/{bucket}/undo", undo, methods=["POST"]),
    Route("/b/{bucket}/move-folder", move_folder, methods=["POST"]),
]
TABS = [Place("Objects", "")]
