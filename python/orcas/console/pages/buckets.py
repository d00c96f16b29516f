"""Buckets: the list, which is the first page, and creating one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orcas.console.calls import CallError, Visit, admin, call, object_path
from orcas.console.documents.kinds import DURABILITIES
from orcas.console.pages.settings.sections import SECTIONS
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, flash, page, redirect, visit

# Buckets on a page.
_PAGE: Final = 100
# Buckets whose settings are looked up for one request of the page, and calls at a time.
_GLANCES_MAX: Final = 25
_AT_ONCE: Final = 8
_UNITS: Final = ("MiB", "GiB", "TiB")
_LOCK: Final = {"x-amz-bucket-object-lock-enabled": "true"}
# What the form has, and a form that was refused has again.
_FIELDS: Final = ("name", "versioning", "lock", "encryption", "durability", "quota", "unit")
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
    query = {"max-buckets": str(_PAGE), "prefix": prefix, "continuation-token": token or None}
    try:
        listed, sizes = await asyncio.gather(call(visit(request), "GET", "/", query), sizes_of(visit(request)))
    except CallError as error:
        if error.code != "AccessDenied":
            raise
        return await page(request, "bucket-open.html", problem="", name="", prefix="")
    found = listed.xml()
    buckets = [
        {"name": entry.findtext("Name") or "", "created": entry.findtext("CreationDate")}
        for entry in found.iter("Bucket")
    ]
    following = found.findtext("ContinuationToken")
    return await page(request, "buckets.html", buckets=buckets, sizes=sizes, prefix=prefix, token=following)


async def open_named(request: Request) -> Response:
    """Lead to a bucket by its name, and a folder of it, for keys that may not list buckets."""
    name, prefix = request.query_params.get("bucket", "").strip(), request.query_params.get("prefix", "")
    if not name or "/" in name:
        problem = "Type the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens."
        return await page(request, "bucket-open.html", 400, problem=problem, name=name, prefix=prefix)
    prefix = prefix if not prefix or prefix.endswith("/") else f"{prefix}/"
    return redirect(request, f"/b{object_path(name)}", prefix=prefix or None)


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
            except CallError as error:
                # Or there is no such configuration.
                return "not all shown to you" if error.status == 403 else None
        texts = [each.text for each in answer.xml().iter(element)]
        return said if (wanted in texts if wanted else texts) else None

    async def words(bucket: str) -> list[str]:
        return list(dict.fromkeys(filter(None, await asyncio.gather(*(word(bucket, *glance) for glance in _GLANCES)))))

    return JSONResponse(dict(zip(names, await asyncio.gather(*map(words, names)), strict=True)))


async def create(request: Request) -> Response:
    """Create a bucket with the settings of the form."""
    who, name = visit(request), field(request, "name").strip()
    if "/" in name or not name:
        return await form(request, "Use 3 to 63 lower-case letters, digits, dots and hyphens.", 400)
    quota, durability = field(request, "quota").strip(), field(request, "durability")
    if quota and not (quota.isascii() and quota.isdigit() and field(request, "unit") in _UNITS):
        return await form(request, "The quota must be a whole number: give one, or leave it empty.", 400)
    if durability not in dict(DURABILITIES):
        return await form(request, "There is no such durability: choose one of the list.", 400)
    made = call(who, "PUT", object_path(name), headers=_LOCK if field(request, "lock") else {})
    if not await attempt(request, made, "The bucket was not created"):
        return await form(request, "", 400)
    versioning = field(request, "versioning") and not field(request, "lock")
    steps = (
        ("versioning", "versioning", "status", "Enabled" if versioning else ""),
        ("default encryption", "encryption", "algorithm", "AES256" if field(request, "encryption") else ""),
        ("durability", "store", "durability", durability),
        ("its quota", "quota", "bytes", f"{quota} {field(request, 'unit')}" if quota else ""),
    )
    for what, slug, of, value in steps:
        if value:
            section = SECTIONS[slug]
            document = section.form.write(section.form.take({f"fixed.{of}": value}))
            work = section.source.save(who, name, document)
            await attempt(request, work, f"The bucket exists, but {what} was not set")
    flash(request, f"The bucket {name} was created.")
    return redirect(request, f"/b{object_path(name)}")


async def form(request: Request, problem: str = "", status: int = 200) -> Response:
    """The form for a new bucket, as it was typed."""
    typed = {name: field(request, name) for name in _FIELDS}
    return await page(request, "bucket-new.html", status, problem=problem, typed=typed, durabilities=DURABILITIES)


ROUTES = [
    Route("/", show),
    Route("/open", open_named),
    Route("/glances", glances),
    Route("/buckets/new", form, methods=["GET"]),
    Route("/buckets/new", create, methods=["POST"]),
]
PLACES = [Place("Buckets", "/", "Files"), Place("New bucket", "/buckets/new", "Files", ("s3:CreateBucket",))]
