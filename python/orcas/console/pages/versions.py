"""The history of a key: restoring and comparing versions. And snapshots of a bucket: taking, restoring, forking one."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin, call, object_path
from orcas.console.contents import copy_source, head, list_versions, remove_one
from orcas.console.places import Place
from orcas.console.previews import first_text
from orcas.console.rendering import asked_object, attempt, field, flash, page, redirect, visit

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
    return await page(request, "versions.html", key=key, versions=versions, more=more)


async def restore(request: Request) -> Response:
    """Make a version the present one again: a copy of it, or, for the object below delete markers, their removal."""
    who, (bucket, key, _) = visit(request), asked_object(request)
    version = field(request, "version")
    if field(request, "marker"):
        work: Awaitable[Any] = remove_one(who, bucket, key, version)
    else:
        source = {"x-amz-copy-source": copy_source(bucket, key, version)}
        work = call(who, "PUT", object_path(bucket, key), headers=source)
    done = "The version was restored: it is the present one."
    if await attempt(request, work, "The version was not restored", done):
        who.session.forget(bucket, {key})
    return redirect(request, f"/b{object_path(bucket)}/versions", key=key)


async def compare(request: Request) -> Response:
    """The difference of two versions that are texts."""
    asked, (bucket, key, _) = request.query_params, asked_object(request)
    chosen = asked.get("old") or None, asked.get("new") or None
    who = visit(request)
    heads = await asyncio.gather(*(head(who, bucket, key, version) for version in chosen))
    old, new = await asyncio.gather(*(first_text(who, bucket, key, version) for version in chosen))
    lines: list[str] = []
    if old is not None and new is not None:
        lines = await asyncio.to_thread(_difference, old, new)
    return await page(
        request, "compare.html", key=key, older=chosen[0] or "", lines=lines[:_LINES_MAX],
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
    return await page(request, "snapshots.html", snapshots=found["snapshots"])


async def take(request: Request) -> Response:
    """Keep the present objects under a name."""
    name = field(request, "name").strip()
    done = f"The snapshot {name} was taken."
    await _order(request, "POST", "snapshots", {"name": name}, "The snapshot was not taken", done)
    return _to_snapshots(request)


async def fork(request: Request) -> Response:
    """A new bucket with the objects of a snapshot, which is how one looks into it."""
    name = field(request, "name").strip()
    order = {"name": name, "snapshot": field(request, "snapshot") or None}
    done = f"The bucket {name} was created."
    made = await _order(request, "POST", "fork", order, "The bucket was not created", done)
    return redirect(request, f"/b{object_path(name)}") if made else _to_snapshots(request)


async def go_back(request: Request) -> Response:
    """Give the bucket the objects of a snapshot."""
    name = field(request, "snapshot")
    if field(request, "confirm") != name:
        flash(request, "Nothing was restored: type the name of the snapshot to confirm.", "failed")
    else:
        done = f"The bucket has the objects of the snapshot {name} again."
        await _order(request, "POST", "restore", {"snapshot": name}, "The bucket was not restored", done)
    return _to_snapshots(request)


async def drop(request: Request) -> Response:
    """Delete a snapshot."""
    name = field(request, "snapshot")
    path, done = f"snapshots/{quote(name, safe='')}", f"The snapshot {name} was deleted."
    await _order(request, "DELETE", path, None, "The snapshot was not deleted", done)
    return _to_snapshots(request)


async def _order(
    request: Request, method: str, path: str, order: dict[str, Any] | None, failed: str, done: str
) -> bool:
    """Ask the admin API for something about the bucket. Whether it was done."""
    path = f"buckets{object_path(request.path_params['bucket'])}/{path}"
    return await attempt(request, admin(visit(request), method, path, order), failed, done) is not None


def _to_snapshots(request: Request) -> Response:
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}/snapshots")


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
