"""What is done to many objects: deleting, restoring, copying and moving those that were chosen in a list.

It goes batch by batch. The script of the page asks for each, which says where the next begins, so it shows how far it is and
goes on after a lost connection. Without a script, one request does as many as it may. A bucket is emptied so, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from orcas.console.calls import CallError, object_path
from orcas.console.contents import (
    BATCH,
    Entry,
    Listing,
    as_of,
    by_key,
    copy_one,
    each_of,
    has_versions,
    list_objects,
    list_versions,
    remove,
)
from orcas.console.rendering import digits, explained, field, fields, flash, flash_error, page, to_folder, url, visit
from orcas.console.shown import counted

# Objects of one request without a script, and delete markers by which the last deletion can be undone.
_WITHOUT_SCRIPT_MAX: Final = 10 * BATCH
_UNDO_MAX: Final = 10 * BATCH
# Objects of a batch of copies, each of which takes several calls.
_COPIES: Final = 100
# Lists that the page reads which asks before objects are deleted.
_COUNTED_MAX: Final = 10
# Names that this page shows.
_NAMED_MAX: Final = 20

# What one batch has come to: how many were done, why others were not, and where the next begins, or an empty text.
Done = tuple[int, list[str], str]
Step = Callable[[Request, str], Awaitable[Done]]


async def in_batches(request: Request, step: Step, said: str, to: str, of: str = "object") -> Response:
    """Carry out one batch, for the script of the page, or several without it.

    Args:
        request: with `place`, where the batch begins, and `done`, how many earlier ones have done.
        step: does one batch.
        said: what is said in the end, after a count.
        to: the URL of the page that comes then.
        of: what is counted.
    """
    wants_json = "json" in request.headers.get("accept", "")
    place, done, failed, refusal = field(request, "place"), digits(field(request, "done")), list[str](), False
    try:
        while True:
            count, refused, place = await step(request, place)
            done += count
            failed += refused
            if wants_json or not place or done + len(failed) >= _WITHOUT_SCRIPT_MAX:
                break
    except CallError as error:
        if wants_json:
            raise
        refusal = True
        flash_error(request, error, f"Not everything was {said}")
    if wants_json and place:
        return JSONResponse({"done": done, "failed": failed[:5], "place": place})
    if done or not (failed or refusal):
        flash(request, f"{counted(done, of)} {said}.")
    if failed:
        flash(request, f"{counted(len(failed), of)} not {said}, such as {failed[0]}", "failed")
    if place and not refusal:
        flash(request, "There are more: do the same again for the rest.", "failed")
    if wants_json:
        return JSONResponse({"done": done, "failed": failed[:5], "place": "", "to": to})
    return RedirectResponse(to, 303)


def _folder_page(request: Request) -> str:
    """The URL of the folder in which the objects were chosen."""
    return url(request, f"/b{object_path(request.path_params['bucket'])}", prefix=_prefix(request) or None)


def _prefix(request: Request) -> str:
    return unquote(field(request, "prefix"))


def _chosen(request: Request, name: str) -> list[str]:
    return [unquote(each) for each in fields(request, name)]


async def _batch(request: Request, place: str, limit: int, *, versions: bool = False) -> tuple[Listing, str]:
    """The next of the chosen objects, first those chosen by name, then those in the chosen folders."""
    who, bucket = visit(request), request.path_params["bucket"]
    keys, folders = _chosen(request, "key"), _chosen(request, "folder")
    number, _, token = place.partition(" ")
    at = digits(number)
    if at > len(folders):
        raise CallError(400, "InvalidRequest", "The form is not as it was: choose the objects again.")
    if at == 0:
        begin = digits(token)
        some = keys[begin : begin + limit]
        listing = Listing([Entry(key) for key in some], [], str(begin + limit) if len(keys) > begin + limit else None)
    elif versions:
        listing = await list_versions(who, bucket, folders[at - 1], token or None, limit=limit)
    else:
        listing = await list_objects(who, bucket, folders[at - 1], token or None, delimiter="", limit=limit)
    return listing, _next_place(at, listing.token, len(folders))


def _next_place(at: int, token: str | None, folders: int) -> str:
    return f"{at} {token}" if token else f"{at + 1} " if at < folders else ""


async def _delete(request: Request, place: str) -> Done:
    session, bucket = visit(request).session, request.path_params["bucket"]
    listing, following = await _batch(request, place, BATCH)
    gone, failed = await remove(visit(request), bucket, [(each.key, None) for each in listing.entries])
    markers = [(entry.key, entry.version) for entry in gone if entry.marker and entry.version]
    if not place:
        session.undo = bucket, []
    if session.undo[0] == bucket:
        found = session.undo[1] + markers
        session.undo = (bucket, found) if len(found) <= _UNDO_MAX else ("", [])
    return len(gone), failed, following


async def delete(request: Request) -> Response:
    """Delete the chosen objects, and all objects in the chosen folders."""
    if not fields(request, "key") and not fields(request, "folder"):
        return _nothing(request, "Nothing was deleted")
    return await in_batches(request, _delete, "deleted", _folder_page(request))


def _nothing(request: Request, what: str) -> Response:
    return to_folder(request, _prefix(request), f"{what}: choose objects or folders first.")


async def undo(request: Request) -> Response:
    """Undo the last deletion, by deleting its delete markers."""
    who, bucket = visit(request), request.path_params["bucket"]
    of, markers = who.session.undo
    if of != bucket or not markers:
        said = "There is nothing to undo here: show what was deleted, and restore it from there."
        return to_folder(request, _prefix(request), said)
    who.session.undo = "", []

    async def step(_: Request, _place: str) -> Done:
        gone, failed = await remove(who, bucket, markers[:BATCH])
        del markers[:BATCH]
        # Somebody else may have restored some meanwhile.
        return len({each.key for each in gone if each.marker}), failed, "more" if markers else ""

    return await in_batches(request, step, "restored", _folder_page(request))


async def _restore(request: Request, place: str) -> Done:
    """A batch of objects gets back what was deleted, or with `at`, what it had at that time."""
    who, bucket, at = visit(request), request.path_params["bucket"], field(request, "at")
    number = digits(place.partition(" ")[0])
    listing, following = await _batch(request, place, BATCH if number else _COPIES, versions=True)
    found: dict[str, list[Entry]] = {}
    if number:
        found, _, token = by_key(listing)
        following = _next_place(number, token, len(fields(request, "folder")))
    else:

        async def look(key: str) -> None:
            listed = await list_versions(who, bucket, key)
            found[key] = [each for each in listed.entries if each.key == key]

        await each_of(look, [each.key for each in listing.entries])
    if not at:
        runs = (list(itertools.takewhile(lambda each: each.marker, entries)) for entries in found.values())
        # Markers below which there is nothing bring nothing back.
        markers = [run for run in runs if run and len(run) < len(found[run[0].key])]
        gone, failed = await remove(who, bucket, [(each.key, each.version) for run in markers for each in run])
        done = {each.key for each in gone}
    else:
        done, failed = set(), []

        async def copy(entry: Entry) -> None:
            try:
                await copy_one(who, (bucket, entry.key, entry.version), (bucket, entry.key), replace=True)
                done.add(entry.key)
            except CallError as error:
                failed.append(f"{entry.key}: {explained(error)}")

        await each_of(copy, [each for each in as_of(found, at) if not each.marker and not each.latest])
    who.session.forget(bucket, done)
    return len(done), failed, following


async def restore(request: Request) -> Response:
    """Bring back the chosen objects, and those in the chosen folders."""
    if not fields(request, "key") and not fields(request, "folder"):
        return _nothing(request, "Nothing was restored")
    return await in_batches(request, _restore, "restored", _folder_page(request))


async def copy(request: Request) -> Response:
    """Copy or move the chosen objects, and those in the chosen folders, into a folder."""
    who, bucket, base = visit(request), request.path_params["bucket"], _prefix(request)
    base = base[: base.rfind("/") + 1]
    target, moves = field(request, "bucket").strip(), field(request, "how") == "move"
    into = unquote(field(request, "into")) if field(request, "encoded") else field(request, "into")
    into = into if not into or into.endswith("/") else f"{into}/"
    if not fields(request, "key") and not fields(request, "folder"):
        return _nothing(request, "Nothing was copied")
    inside = any(into.startswith(folder) for folder in _chosen(request, "folder"))
    if not target or "/" in target or (target == bucket and (into == base or inside)):
        raise CallError(400, "InvalidRequest", "Nothing was copied: choose a folder that is none of these.")

    async def step(request: Request, place: str) -> Done:
        listing, following = await _batch(request, place, _COPIES)
        failed: list[str] = []

        async def one(key: str) -> None:
            place = target, into + key.removeprefix(base)
            try:
                why = await copy_one(
                    who, (bucket, key, None), place, replace=bool(field(request, "replace")), move=moves,
                    again=bool(field(request, "again")),
                )  # fmt: skip
            except CallError as error:
                why = explained(error) if error.status != 412 else "There is another object of that key."
            if why:
                failed.append(f"{key}: {why}")

        await each_of(one, [each.key for each in listing.entries])
        return len(listing.entries) - len(failed), failed, following

    to = url(request, f"/b{object_path(target)}", prefix=into or None)
    return await in_batches(request, step, "moved" if moves else "copied", to)


async def ask(request: Request) -> Response:
    """The page before objects are deleted, copied or moved: how many they are, how large, and whether they come back."""
    who, bucket, what = visit(request), request.path_params["bucket"], request.url.path.rpartition("-")[2]
    keys, folders = _chosen(request, "key"), _chosen(request, "folder")
    if not keys and not folders:
        return _nothing(request, "Nothing was chosen")
    found: list[Entry] = []

    async def look(key: str) -> None:
        try:
            listing = await list_objects(who, bucket, key, delimiter="", limit=1)
        except CallError:
            # It may be deleted and not listed.
            listing = Listing([Entry(key)], [], None)
        found.extend(each for each in listing.entries if each.key == key)

    await each_of(look, keys)
    lists, more = 0, False
    for folder in folders:
        token: str | None = ""
        while token is not None and lists < _COUNTED_MAX:
            listing = await list_objects(who, bucket, folder, token or None, delimiter="")
            lists, token = lists + 1, listing.token
            found += listing.entries
        more = more or token is not None
    return await page(
        request, "objects-chosen.html", prefix=_prefix(request), what=what, named=_NAMED_MAX,
        count=len(found), bytes=sum(each.size for each in found), more=more, kept=await has_versions(who, bucket),
        chosen=[(quote(each, safe=""), each) for each in keys], folder=_prefix(request),
        folders=[(quote(each, safe=""), each) for each in folders],
    )  # fmt: skip


ROUTES = [
    Route("/b/{bucket}/confirm-delete", ask, methods=["POST"]),
    Route("/b/{bucket}/confirm-copy", ask, methods=["POST"]),
    Route("/b/{bucket}/delete-objects", delete, methods=["POST"]),
    Route("/b/{bucket}/restore-objects", restore, methods=["POST"]),
    Route("/b/{bucket}/copy-objects", copy, methods=["POST"]),
    Route("/b/{bucket}/undo", undo, methods=["POST"]),
]
