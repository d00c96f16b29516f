"""What fills the disk, and what to do about it: buckets, old versions, unfinished uploads, what nothing refers to."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin, call, object_path
from orcas.console.contents import abort_upload, list_uploads
from orcas.console.pages.server.charts import bar, stacked
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, page, redirect, visit
from orcas.console.shown import size

# Buckets that are looked into, and uploads of one that are listed and measured.
_BUCKETS_MAX: Final = 10
_UPLOADS_MAX: Final = 1000
_MEASURED_MAX: Final = 50
_SIZE: Final = re.compile(rb"<Size>(\d+)</Size>")


async def show(request: Request) -> Response:
    """The answer in one page."""
    who = visit(request)
    disk, stats = await asyncio.gather(admin(who, "GET", "disk"), admin(who, "GET", "stats"))
    largest = sorted(stats["buckets"], key=lambda bucket: -bucket["logical"])[:_BUCKETS_MAX]
    found = await asyncio.gather(*(_of_bucket(request, bucket) for bucket in largest))
    most = max((bucket["logical"] for bucket in found), default=0)
    for bucket in found:
        bucket["bar"] = bar(bucket["logical"], most)
    content, files = disk["content"], disk["files"]
    parts = [
        ("content in use", content["stored"]),
        ("dead content", content["dead"]),
        ("log, index and unused room", max(0, disk["store"] - content["stored"] - content["dead"])),
        ("other programs", disk["others"]),
        ("free", disk["free"]),
    ]
    chosen = request.query_params.get("bucket")
    uploads = await _uploads(request, chosen) if chosen else []
    picture = stacked("The disk", parts, lambda value: size(int(value)))
    return await page(
        request, "server/disk.html", disk=disk, parts=parts, picture=picture,
        files=files, content=content, buckets=found, others=len(stats["buckets"]) - len(found), chosen=chosen,
        uploads=uploads, measured=_MEASURED_MAX, verdict=verdict(disk, found),
        asks={"s3:AbortMultipartUpload": f"arn:aws:s3:::{chosen}/*"},
    )  # fmt: skip


def verdict(disk: dict[str, Any], buckets: list[dict[str, Any]]) -> list[str]:
    """What takes the most, in sentences."""
    said = []
    if disk["free"] <= disk["reserve"]:
        said.append(f"The disk is full: {size(disk['free'])} are free, and {size(disk['reserve'])} have to stay free.")
    else:
        left = disk["free"] - disk["reserve"]
        said.append(f"The disk is not full: {size(left)} can still be written before the reserve is reached.")
    if disk["others"] > disk["store"]:
        said.append(
            f"Other programs take more of this disk ({size(disk['others'])}) than the store ({size(disk['store'])})."
        )
    if buckets and buckets[0]["logical"]:
        said.append(f"The largest bucket is {buckets[0]['name']} with {size(buckets[0]['logical'])}.")
    old = sum(bucket["old_bytes"] for bucket in buckets)
    if old:
        said.append(f"Old versions, snapshots and unfinished uploads take {size(old)}.")
    if disk["content"]["dead"]:
        said.append(f"{size(disk['content']['dead'])} are dead: reclamation frees them.")
    return said


async def _of_bucket(request: Request, bucket: dict[str, Any]) -> dict[str, Any]:
    """A bucket with its unfinished uploads and snapshots counted."""
    who, name = visit(request), bucket["name"]
    uploads: int | None = None
    snapshots: int | None = None
    try:
        uploads = len((await list_uploads(who, name, limit=_UPLOADS_MAX))[0])
        snapshots = len((await admin(who, "GET", f"buckets/{quote(name, safe='')}/snapshots"))["snapshots"])
    except CallError as error:
        # It was deleted meanwhile, or the key may not look into it.
        if error.status not in (403, 404):
            raise
    return {
        **bucket, "old_bytes": max(0, bucket["logical"] - bucket["bytes"]), "uploads": uploads, "snapshots": snapshots,
        "uploads_max": _UPLOADS_MAX,
    }  # fmt: skip


async def _uploads(request: Request, bucket: str) -> list[dict[str, Any]]:
    """The unfinished uploads of a bucket; the first ones with the bytes of their parts."""
    who = visit(request)
    found, _ = await list_uploads(who, bucket, limit=_UPLOADS_MAX)
    uploads: list[dict[str, Any]] = [{"key": each.key, "id": each.id, "since": each.begun} for each in found]
    for upload in uploads[:_MEASURED_MAX]:
        try:
            parts = (await call(who, "GET", object_path(bucket, upload["key"]), {"uploadId": upload["id"]})).body
        except CallError:
            # It was completed or aborted meanwhile.
            continue
        # It names the key as it is, which XML may not allow: it is not parsed.
        sizes = _SIZE.findall(parts)
        upload |= {"parts": len(sizes), "size": sum(map(int, sizes))}
    return uploads


async def abort(request: Request) -> Response:
    """Abort an unfinished upload."""
    bucket, key, upload = (field(request, name) for name in ("bucket", "key", "id"))
    work, done = abort_upload(visit(request), bucket, key, upload), f"The upload of {key} was aborted."
    await attempt(request, work, f"The upload of {key} stays as it is", f"{done} Reclamation frees its parts.")
    return redirect(request, "/disk", bucket=bucket)


ROUTES = [Route("/disk", show), Route("/disk/abort", abort, methods=["POST"])]
PLACES = [Place("Disk", "/disk", "Operation", ("orcas:GetDisk",))]
