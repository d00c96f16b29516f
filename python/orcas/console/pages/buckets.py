"""Buckets: the list, which is the first page, and creating one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orcas.console.pages import (
    CallError,
    Place,
    Visit,
    admin,
    call,
    field,
    flash,
    flash_error,
    object_path,
    page,
    redirect,
    visit,
)

# Buckets on a page.
_PAGE: Final = 100
# Buckets whose settings are looked up for one request of the page, and calls at a time.
_GLANCES_MAX: Final = 25
_AT_ONCE: Final = 8
_UNITS: Final = {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LOCK: Final = {"x-amz-bucket-object-lock-enabled": "true"}
_ENABLED: Final = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
_SEALED: Final = (
    b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>"
    b"</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
)
# What the list says of a bucket: the subresource, the element that has to have a text, and the word.
_GLANCES: Final = (
    ("versioning", "Status", "Enabled", "versions"),
    ("object-lock", "ObjectLockEnabled", "Enabled", "lock"),
    ("encryption", "SSEAlgorithm", None, "encrypted"),
    ("lifecycle", "Status", "Enabled", "lifecycle"),
    ("policyStatus", "IsPublic", "true", "public"),
    ("website", "Suffix", None, "website"),
)


async def show(request: Request) -> Response:
    """A page of the buckets that the key may list, with their sizes if it may know them."""
    prefix, token = request.query_params.get("prefix", ""), request.query_params.get("token")
    query = {"max-buckets": str(_PAGE), "prefix": prefix} | ({"continuation-token": token} if token else {})
    listed, sizes = await asyncio.gather(call(visit(request), "GET", "/", query), sizes_of(visit(request)))
    found = listed.xml()
    buckets = [
        {"name": entry.findtext("Name") or "", "created": entry.findtext("CreationDate")}
        for entry in found.iter("Bucket")
    ]
    following = found.findtext("ContinuationToken")
    return await page(request, "buckets.html", buckets=buckets, sizes=sizes, prefix=prefix, token=following)


async def sizes_of(who: Visit) -> Mapping[str, Mapping[str, Any]]:
    """What the store says of each bucket; nothing if the key may not ask for it."""
    try:
        return {bucket["name"]: bucket for bucket in (await admin(who, "GET", "stats"))["buckets"]}
    except CallError as error:
        if error.status not in (403, 409, 503):
            raise
        return {}


async def glances(request: Request) -> Response:
    """The settings of some buckets in words, for the list, which does not wait for them."""
    names = request.query_params.getlist("bucket")[:_GLANCES_MAX]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def word(bucket: str, subresource: str, element: str, wanted: str | None, said: str) -> str | None:
        async with turn:
            try:
                answer = await call(visit(request), "GET", object_path(bucket), {subresource: ""})
            except CallError:
                # There is no such configuration, or the key may not see it.
                return None
        texts = [each.text for each in answer.xml().iter(element)]
        return said if (wanted in texts if wanted else texts) else None

    async def words(bucket: str) -> list[str]:
        return [text for text in await asyncio.gather(*(word(bucket, *glance) for glance in _GLANCES)) if text]

    return JSONResponse(dict(zip(names, await asyncio.gather(*map(words, names)), strict=True)))


async def form(request: Request) -> Response:
    """The form for a new bucket."""
    return await page(request, "bucket-new.html", problem="", name="")


async def create(request: Request) -> Response:
    """Create a bucket with the settings of the form."""
    who, name = visit(request), field(request, "name").strip()
    if "/" in name or not name:
        return await _again(request, name, "Use 3 to 63 lower-case letters, digits, dots and hyphens.")
    quota = field(request, "quota").strip()
    if quota and not (quota.isascii() and quota.isdigit() and field(request, "unit") in _UNITS):
        return await _again(request, name, "The quota must be a whole number: give one, or leave it empty.")
    try:
        await call(who, "PUT", object_path(name), headers=_LOCK if field(request, "lock") else {})
    except CallError as error:
        flash_error(request, error, "The bucket was not created")
        return await _again(request, name, "")
    steps = [
        ("versioning", "versioning", _ENABLED if field(request, "versioning") and not field(request, "lock") else None),
        ("default encryption", "encryption", _SEALED if field(request, "encryption") else None),
    ]
    for what, subresource, document in steps:
        if document is not None:
            try:
                await call(
                    who, "PUT", object_path(name), {subresource: ""}, {"content-type": "application/xml"}, document
                )
            except CallError as error:
                flash_error(request, error, f"The bucket exists, but {what} was not set")
    if quota:
        try:
            limit = int(quota) * _UNITS[field(request, "unit")]
            await admin(who, "PUT", "quotas", {"bucket": name, "bytes": limit, "objects": None})
        except CallError as error:
            flash_error(request, error, "The bucket exists, but its quota was not set")
    flash(request, f"The bucket {name} was created.")
    return redirect(request, f"/b{object_path(name)}")


async def _again(request: Request, name: str, problem: str) -> Response:
    return await page(request, "bucket-new.html", 400, problem=problem, name=name)


ROUTES = [
    Route("/", show),
    Route("/glances", glances),
    Route("/buckets/new", form, methods=["GET"]),
    Route("/buckets/new", create, methods=["POST"]),
]
PLACES = [Place("Buckets", "/", "Store"), Place("New bucket", "/buckets/new", "Store")]
