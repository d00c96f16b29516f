"""Emptying a bucket, batch by batch, and deleting it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, call, object_path
from orcas.console.contents import BATCH, abort_uploads, list_versions, remove
from orcas.console.pages.batches import Done, in_batches
from orcas.console.pages.buckets import sizes_of
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, flash, page, redirect, url, visit


async def remove_form(request: Request) -> Response:
    """The page from which a bucket is emptied or deleted."""
    bucket = request.path_params["bucket"]
    await call(visit(request), "HEAD", object_path(bucket))
    known = (await sizes_of(visit(request))).get(bucket)
    return await page(request, "bucket-remove.html", known=known)


async def empty(request: Request) -> Response:
    """Delete all that the bucket has: versions, then unfinished uploads."""
    bucket = request.path_params["bucket"]
    if field(request, "confirm") != bucket:
        return _not_confirmed(request)
    to = url(request, f"/b{object_path(bucket)}/remove")
    return await in_batches(request, _empty, "removed", to, "version")


async def _empty(request: Request, place: str) -> Done:
    who, bucket = visit(request), request.path_params["bucket"]
    # Those that could not be deleted stay at the beginning of the list.
    listing = await list_versions(who, bucket, token=place or None)
    found = [(entry.key, entry.version) for entry in listing.entries]
    gone, failed = await remove(who, bucket, found) if found else ([], [])
    uploads = 0 if listing.token else await abort_uploads(who, bucket)
    return len(gone), failed, listing.token or ("/" if uploads == BATCH else "")


async def delete(request: Request) -> Response:
    """Delete the bucket, which must be empty."""
    bucket = request.path_params["bucket"]
    if field(request, "confirm") != bucket:
        return _not_confirmed(request)
    work = call(visit(request), "DELETE", object_path(bucket))
    gone = await attempt(request, work, "The bucket was not deleted", f"The bucket {bucket} was deleted.")
    return redirect(request, "/" if gone else f"/b{object_path(bucket)}/remove")


def _not_confirmed(request: Request) -> Response:
    said = "Nothing was removed: type the name of the bucket to confirm."
    if "json" in request.headers.get("accept", ""):
        raise CallError(400, "NotConfirmed", said)
    flash(request, said, "failed")
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}/remove")


ROUTES = [
    Route("/b/{bucket}/remove", remove_form, methods=["GET"]),
    Route("/b/{bucket}/empty", empty, methods=["POST"]),
    Route("/b/{bucket}/delete", delete, methods=["POST"]),
]
TABS = [Place("Remove", "/remove", actions=("s3:DeleteBucket", "s3:DeleteObjectVersion"), lists=True)]
