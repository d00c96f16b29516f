"""Emptying a bucket, batch by batch, and deleting it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orcas.console.contents import BATCH, abort_uploads, list_versions, remove
from orcas.console.pages import CallError, Place, call, field, flash, flash_error, object_path, page, redirect, visit
from orcas.console.pages.buckets import sizes_of


async def remove_form(request: Request) -> Response:
    """The page from which a bucket is emptied or deleted."""
    bucket = request.path_params["bucket"]
    await call(visit(request), "HEAD", object_path(bucket))
    known = (await sizes_of(visit(request))).get(bucket)
    return await page(request, "bucket-remove.html", bucket=bucket, known=known)


async def empty(request: Request) -> Response:
    """Delete a batch of what the bucket has: versions, then unfinished uploads. The page asks again until there is none."""
    who, bucket = visit(request), request.path_params["bucket"]
    wants_json = "json" in request.headers.get("accept", "")
    if field(request, "confirm") != bucket:
        return await _not_confirmed(request, wants_json=wants_json)
    # Those that could not be deleted stay at the beginning of the list.
    after = field(request, "key"), field(request, "version")
    entries, following = await list_versions(who, bucket, token=after if after[0] else None, limit=BATCH)
    gone, failed = await remove(who, bucket, [(entry.key, entry.version) for entry in entries]) if entries else ([], [])
    uploads = 0 if following else await abort_uploads(who, bucket)
    more = following is not None or uploads == BATCH
    if wants_json:
        key, version = following or ("", "")
        return JSONResponse(
            {
                "removed": len(gone),
                "failed": failed[:5],
                "uploads": uploads,
                "more": more,
                "key": key,
                "version": version,
            }
        )
    flash(request, f"{len(gone)} objects and versions and {uploads} unfinished uploads were removed.")
    if failed:
        flash(request, f"{len(failed)} were not removed, such as {failed[0]}", "failed")
    if more:
        flash(request, "There are more: empty the bucket again.", "failed")
    return redirect(request, f"/b{object_path(bucket)}/remove")


async def delete(request: Request) -> Response:
    """Delete the bucket, which must be empty."""
    bucket = request.path_params["bucket"]
    if field(request, "confirm") != bucket:
        return await _not_confirmed(request, wants_json=False)
    try:
        await call(visit(request), "DELETE", object_path(bucket))
    except CallError as error:
        flash_error(request, error, "The bucket was not deleted")
        return redirect(request, f"/b{object_path(bucket)}/remove")
    flash(request, f"The bucket {bucket} was deleted.")
    return redirect(request, "/")


async def _not_confirmed(request: Request, *, wants_json: bool) -> Response:
    said = "Nothing was removed: type the name of the bucket to confirm."
    if wants_json:
        return JSONResponse({"error": {"code": "NotConfirmed", "message": said}}, 400)
    flash(request, said, "failed")
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}/remove")


ROUTES = [
    Route("/b/{bucket}/remove", remove_form, methods=["GET"]),
    Route("/b/{bucket}/empty", empty, methods=["POST"]),
    Route("/b/{bucket}/delete", delete, methods=["POST"]),
]
TABS = [Place("Remove", "/remove", actions=("s3:DeleteBucket", "s3:DeleteObjectVersion"), lists=True)]
