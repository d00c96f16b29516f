"""The history of a key: restoring and comparing versions. And snapshots of a bucket: taking, restoring, forking one."""

from __future__ import annotations

import asyncio
import difflib
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin, call, object_path
from orcas.console.contents import copy_source, head, list_versions, remove_one
from orcas.console.places import Place
from orcas.console.previews import first_text
from orcas.console.rendering import asked_object, field, flash, flash_error, page, redirect, visit

# Versions on a page, and lines of a difference.
_PAGE: Final = 200
_LINES_MAX: Final = 2000
# Lines of each text that are compared: the time grows with their product.
_COMPARED_MAX: Final = 5000


async def show(request: Request) -> Response:
    """The versions and delete markers of a key, the newest first."""
    bucket, key, _ = asked_object(request)
    after = request.query_params.get("after")
    own = f"{quote(key, safe='')}/"
    listing = await list_versions(visit(request), bucket, key, own + after if after else None, limit=_PAGE)
    versions = [entry for entry in listing.entries if entry.key == key]
    # Other keys may begin with this one; they come after it.
    more = listing.token.removeprefix(own) if listing.token is not None and listing.token.startswith(own) else None
    return await page(request, "versions.html", bucket=bucket, key=key, versions=versions, more=more)


async def restore(request: Request) -> Response:
    """Make a version the present one again: a copy of it, or, for the object below delete markers, their removal."""
    who, (bucket, key, _) = visit(request), asked_object(request)
    version = field(request, "version")
    try:
        if field(request, "marker"):
            await remove_one(who, bucket, key, version)
        else:
            await call(
                who, "PUT", object_path(bucket, key), headers={"x-amz-copy-source": copy_source(bucket, key, version)}
            )
    except CallError as error:
        flash_error(request, error, "The version was not restored")
    else:
        flash(request, "The version was restored: it is the present one.")
    return redirect(request, f"/b{object_path(bucket)}/versions", key=key)


async def compare(request: Request) -> Response:
    """The difference of two versions that are texts."""
    asked, (bucket, key, _) = request.query_params, asked_object(request)
    chosen = asked.get("old", ""), asked.get("new", "")
    who = visit(request)
    heads = await asyncio.gather(*(head(who, bucket, key, version) for version in chosen))
    old, new = await asyncio.gather(*(first_text(who, bucket, key, version) for version in chosen))
    lines: list[str] = []
    if old is not None and new is not None:
        lines = await asyncio.to_thread(_difference, old, new)
    return await page(
        request, "compare.html", bucket=bucket, key=key, older=chosen[0], lines=lines[:_LINES_MAX],
        modified=[each.get("last-modified") for each in heads], cut=len(lines) > _LINES_MAX,
        texts=old is not None and new is not None,
    )  # fmt: skip


def _difference(old: str, new: str) -> list[str]:
    parts = old.splitlines()[:_COMPARED_MAX], new.splitlines()[:_COMPARED_MAX]
    return list(difflib.unified_diff(*parts, "older", "newer", lineterm=""))


async def snapshots(request: Request) -> Response:
    """The snapshots of a bucket."""
    bucket = request.path_params["bucket"]
    found = await admin(visit(request), "GET", f"buckets{object_path(bucket)}/snapshots")
    return await page(request, "snapshots.html", bucket=bucket, snapshots=found["snapshots"])


async def take(request: Request) -> Response:
    """Keep the present objects under a name."""
    name = field(request, "name").strip()
    return await _order(
        request, "snapshots", {"name": name}, f"The snapshot {name} was taken.", "The snapshot was not taken"
    )


async def fork(request: Request) -> Response:
    """A new bucket with the objects of a snapshot, which is how one looks into it."""
    name, snapshot = field(request, "name").strip(), field(request, "snapshot") or None
    order = {"name": name, "snapshot": snapshot}
    return await _order(request, "fork", order, f"The bucket {name} was created.", "The bucket was not created", name)


async def go_back(request: Request) -> Response:
    """Give the bucket the objects of a snapshot."""
    bucket, name = request.path_params["bucket"], field(request, "snapshot")
    if field(request, "confirm") != name:
        flash(request, "Nothing was restored: type the name of the snapshot to confirm.", "failed")
        return redirect(request, f"/b{object_path(bucket)}/snapshots")
    said = f"The bucket has the objects of the snapshot {name} again."
    return await _order(request, "restore", {"snapshot": name}, said, "The bucket was not restored")


async def drop(request: Request) -> Response:
    """Delete a snapshot."""
    bucket, name = request.path_params["bucket"], field(request, "snapshot")
    path = f"buckets{object_path(bucket)}/snapshots/{quote(name, safe='')}"
    try:
        await admin(visit(request), "DELETE", path)
    except CallError as error:
        flash_error(request, error, "The snapshot was not deleted")
    else:
        flash(request, f"The snapshot {name} was deleted.")
    return redirect(request, f"/b{object_path(bucket)}/snapshots")


async def _order(
    request: Request, path: str, order: dict[str, str | None] | dict[str, str], done: str, failed: str, to: str = ""
) -> Response:
    bucket = request.path_params["bucket"]
    try:
        await admin(visit(request), "POST", f"buckets{object_path(bucket)}/{path}", order)
    except CallError as error:
        flash_error(request, error, failed)
        to = ""
    else:
        flash(request, done)
    return redirect(request, f"/b{object_path(to)}" if to else f"/b{object_path(bucket)}/snapshots")


ROUTES = [
    Route("/b/{bucket}/versions", show),
    Route("/b/{bucket}/versions/restore", restore, methods=["POST"]),
    Route("/b/{bucket}/versions/compare", compare),
    Route("/b/{bucket}/snapshots", snapshots, methods=["GET"]),
    Route("/b/{bucket}/snapshots", take, methods=["POST"]),
    Route("/b/{bucket}/snapshots/fork", fork, methods=["POST"]),
    Route("/b/{bucket}/snapshots/restore", go_back, methods=["POST"]),
    Route("/b/{bucket}/snapshots/delete", drop, methods=["POST"]),
]
TABS = [Place("Snapshots", "/snapshots", actions=("orcas:ListSnapshots",))]
