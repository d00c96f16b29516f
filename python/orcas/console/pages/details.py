"""One object: its details, preview and tags; copying, moving and deleting it; and links to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orcas.console.calls import Answer, CallError, Visit, call, object_path, presigned
from orcas.console.contents import copy_one, head, remove_one
from orcas.console.pages.changes import HEADERS, META, WORD
from orcas.console.previews import frame, preview
from orcas.console.rendering import (
    asked_object,
    attempt,
    explained,
    field,
    flash,
    page,
    redirect,
    to_folder,
    to_object,
    visit,
)
from orcas.console.shown import attachment, when

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHECKSUM: Final = "x-amz-checksum-"
_LOCKS: Final = (
    ("x-amz-object-lock-mode", "Lock"),
    ("x-amz-object-lock-retain-until-date", "Locked until"),
    ("x-amz-object-lock-legal-hold", "Legal hold"),
)
_SEALED: Final = (
    ("x-amz-server-side-encryption", "Encryption"),
    ("x-amz-server-side-encryption-aws-kms-key-id", "Key"),
    ("x-amz-server-side-encryption-bucket-key-enabled", "Bucket key"),
)
_HEADERS: Final = (
    *HEADERS, "x-amz-storage-class", "x-amz-website-redirect-location", "x-amz-expiration", "x-amz-replication-status",
)  # fmt: skip
# Of the page of a stranger in a frame: it has an origin of its own, runs nothing, and loads nothing.
_FRAME: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
# How many there are, None if it was not uploaded in parts; and, if the store knows them one by one, the first of them:
# number, first byte, size and checksum.
Parts = tuple[int | None, list[tuple[int, int, int, str]]]


async def show(request: Request) -> Response:
    """The details of an object or version, with a preview."""
    who, bucket, key, version = _asked(request)
    headers = await head(who, bucket, key, version)
    tags, parts, shown, lockable = await asyncio.gather(
        _tags(who, bucket, key, version), _parts(who, bucket, key, version),
        preview(who, bucket, key, version, headers), _is_lockable(who, bucket),
    )  # fmt: skip
    return await page(
        request, "object.html", key=key, version=version, name=key[key.rfind("/") + 1 :],
        headers=headers, preview=shown, tags=tags, parts=parts[0], listed=parts[1], facts=_facts(headers),
        meta=_meta(headers), editable=HEADERS, lockable=lockable, word=WORD,
    )  # fmt: skip


def _asked(request: Request) -> tuple[Visit, str, str, str | None]:
    """The visit, and the object or version that it asks for."""
    return visit(request), *asked_object(request)


def _facts(headers: Mapping[str, str]) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        ("Size", f"{int(headers.get('content-length', 0)):,} bytes"),
        ("Modified", when(headers.get("last-modified"))),
        ("ETag", headers.get("etag", "").strip('"')),
    ]
    facts += [(name, headers[name]) for name in _HEADERS if name in headers]
    sums = [(name.removeprefix(_CHECKSUM), text) for name, text in headers.items() if name.startswith(_CHECKSUM)]
    facts += [("Checksum type" if name == "type" else name.upper(), text) for name, text in sums]
    facts += [(title, headers[name]) for name, title in (*_LOCKS, *_SEALED) if name in headers]
    if "x-amz-version-id" in headers:
        facts.append(("Version", headers["x-amz-version-id"]))
    return facts


def _meta(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.removeprefix(META), text) for name, text in headers.items() if name.startswith(META)]


async def _is_lockable(who: Visit, bucket: str) -> bool:
    """Whether the bucket has Object Lock, or the key may not know it."""
    try:
        found = (await call(who, "GET", object_path(bucket), {"object-lock": ""})).xml()
    except CallError as error:
        return error.code == "AccessDenied"
    return found.findtext("ObjectLockEnabled") == "Enabled"


async def _tags(who: Visit, bucket: str, key: str, version: str | None) -> list[tuple[str, str]] | None:
    """The tags of an object; None if the key may not see them."""
    try:
        found = (await call(who, "GET", object_path(bucket, key), {"tagging": "", "versionId": version})).xml()
    except CallError:
        return None
    return [(tag.findtext("Key") or "", tag.findtext("Value") or "") for tag in found.iter("Tag")]


async def _parts(who: Visit, bucket: str, key: str, version: str | None) -> Parts:
    """The number of parts of the upload, with the first of them; nothing if the key may not know it."""
    query, sent = {"attributes": "", "versionId": version}, {"x-amz-object-attributes": "ObjectParts"}
    try:
        found = await call(who, "GET", object_path(bucket, key), query, sent)
    except CallError:
        return None, []
    return await asyncio.to_thread(_read_parts, found)


def _read_parts(answer: Answer) -> Parts:
    known = answer.xml().find("ObjectParts")
    if known is None:
        return None, []
    listed, at = [], 0
    for part in known.iter("Part"):
        size = int(part.findtext("Size") or 0)
        checksum = next((each.text or "" for each in part if each.tag.startswith("Checksum")), "")
        listed.append((int(part.findtext("PartNumber") or 0), at, size, checksum))
        at += size
    return int(known.findtext("PartsCount") or 0) or None, listed


async def copy(request: Request) -> Response:
    """Copy an object or version, or move it: a move deletes the source once the copy is there."""
    who, bucket, key, version = _asked(request)
    target, name = field(request, "bucket").strip(), field(request, "target")
    moves = field(request, "how") == "move"
    if field(request, "encoded"):
        name = unquote(name)
    if not target or not name or "/" in target or (target, name) == (bucket, key):
        return to_object(request, "Nothing was copied: give another bucket or another key.")
    # Unless the person wants to replace it.
    replaces = bool(field(request, "replace"))
    try:
        why = await copy_one(who, (bucket, key, version), (target, name), replace=replaces, move=moves)
    except CallError as error:
        if error.status == 412:
            said = "Nothing was copied: there is an object of that key. Choose to replace it, or another key."
            return to_object(request, said)
        return to_object(request, f"Nothing was copied: {explained(error)}")
    if why:
        flash(request, f"The copy is there, but the source was not deleted: {why}", "failed")
        moves = False
    flash(request, "The object was moved." if moves else "The object was copied.")
    return redirect(request, f"/b{object_path(target)}/object", key=name)


async def delete(request: Request) -> Response:
    """Delete an object, which leaves a delete marker where versions are kept; or a version for ever."""
    who, bucket, key, version = _asked(request)
    work = remove_one(who, bucket, key, version, bypass=field(request, "word") == WORD)
    done = "The version was deleted." if version else "The object was deleted."
    gone = await attempt(request, work, "Nothing was deleted", done)
    if gone is None:
        return to_object(request)
    who.session.undo = bucket, [(key, gone.version)] if gone.marker and gone.version and not version else []
    if version:
        return redirect(request, f"/b{object_path(bucket)}/versions", key=key)
    return to_folder(request, key[: key.rfind("/") + 1])


async def download(request: Request) -> Response:
    """Lead to the object itself, by a presigned request, as a file."""
    who, bucket, key, version = _asked(request)
    query = {"response-content-disposition": attachment(key), "versionId": version}
    return RedirectResponse(presigned(who, "GET", object_path(bucket, key), query), 303)


async def framed(request: Request) -> Response:
    """The content of a page or SVG picture, for its preview."""
    kind, body = await frame(*_asked(request))
    headers = {"content-security-policy": _FRAME, "x-frame-options": "SAMEORIGIN"}
    return Response(body, media_type=kind, headers=headers)


ROUTES = [
    Route("/b/{bucket}/object", show),
    Route("/b/{bucket}/object/copy", copy, methods=["POST"]),
    Route("/b/{bucket}/object/delete", delete, methods=["POST"]),
    Route("/b/{bucket}/object/download", download),
    Route("/b/{bucket}/object/frame", framed),
]
