"""Changing an object without its content: tags, content type and metadata, retention and legal hold."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import call, object_path
from orcas.console.contents import BYPASS, copy_source, head, of_xml
from orcas.console.rendering import asked_object, attempt, field, to_object, visit

META: Final = "x-amz-meta-"
# What a copy onto itself would lose unless it is sent again, and the form has.
HEADERS: Final = (
    "content-type", "content-disposition", "content-encoding", "content-language", "cache-control", "expires",
)  # fmt: skip
_KEPT: Final = ("x-amz-storage-class", "x-amz-website-redirect-location")
_LINE: Final = re.compile(r"([^=\r\n]+)=([^\r\n]*)")
_HEADER: Final = re.compile(r"[\x20-\x7e]{0,2048}")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Who changes what a retention in governance mode protects types this.
WORD: Final = "bypass"


async def tag(request: Request) -> Response:
    """Replace the tags of an object by the lines NAME=VALUE of the form."""
    pairs = _pairs(field(request, "tags"))
    if pairs is None:
        return to_object(request, "The tags were not changed: write one in each line, as NAME=VALUE.")
    written = "".join(f"<Tag><Key>{escape(name)}</Key><Value>{escape(text)}</Value></Tag>" for name, text in pairs)
    return await _put(request, "tagging", f"<Tagging><TagSet>{written}</TagSet></Tagging>", "The tags were")


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """The lines NAME=VALUE; None if one is none."""
    lines = [_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    found = [(line[1].strip(), line[2].strip()) for line in lines if line is not None]
    return found if len(found) == len(lines) else None


async def describe(request: Request) -> Response:
    """Replace the content type, other headers and the metadata, by a copy of the object onto itself."""
    who, (bucket, key, _) = visit(request), asked_object(request)
    given = {name: text for name in HEADERS if (text := field(request, name).strip())}
    pairs = _pairs(field(request, "metadata"))
    if pairs is None or not all(_NAME.fullmatch(name) for name, _ in pairs):
        return to_object(request, "Nothing was changed: write metadata as NAME=VALUE, one in each line.")
    given |= {META + name: text for name, text in pairs}
    if not all(_HEADER.fullmatch(text) for text in given.values()):
        return to_object(request, "Nothing was changed: write printable ASCII characters, at most 2,048 in each.")
    present = await head(who, bucket, key)
    if present.get("etag") != field(request, "etag"):
        return to_object(request, "Nothing was changed: somebody has written the object meanwhile. Look at it again.")
    kept = {name: present[name] for name in _KEPT if name in present}
    sent = {
        "x-amz-copy-source": copy_source(bucket, key, None),
        "x-amz-copy-source-if-match": present["etag"],
        "x-amz-metadata-directive": "REPLACE",
    }
    work = call(who, "PUT", object_path(bucket, key), headers=sent | kept | given)
    await attempt(request, work, "Nothing was changed", "Content type and metadata were changed.")
    return to_object(request)


async def lock(request: Request) -> Response:
    """Set the retention of an object or version, or end it; or switch its legal hold."""
    hold, mode, until = field(request, "hold"), field(request, "mode"), field(request, "until")
    if hold:
        document = f"<LegalHold><Status>{escape(hold)}</Status></LegalHold>"
        return await _put(request, "legal-hold", document, "The legal hold was")
    inner = ""
    if mode:
        try:
            moment = dt.datetime.fromisoformat(until).replace(tzinfo=dt.UTC)
        except ValueError:
            return to_object(request, "The retention was not changed: say until when, in UTC.")
        inner = f"<Mode>{escape(mode)}</Mode><RetainUntilDate>{moment:%Y-%m-%dT%H:%M:%SZ}</RetainUntilDate>"
    bypass = BYPASS if field(request, "bypass") == WORD else {}
    return await _put(request, "retention", f"<Retention>{inner}</Retention>", "The retention was", bypass)


async def _put(
    request: Request, subresource: str, document: str, what: str, headers: dict[str, str] | None = None
) -> Response:
    bucket, key, version = asked_object(request)
    query, body = {subresource: "", "versionId": version}, document.encode()
    work = call(visit(request), "PUT", object_path(bucket, key), query, of_xml(body) | (headers or {}), body)
    await attempt(request, work, f"{what} not changed", f"{what} changed.")
    return to_object(request)


ROUTES = [
    Route("/b/{bucket}/object/tags", tag, methods=["POST"]),
    Route("/b/{bucket}/object/metadata", describe, methods=["POST"]),
    Route("/b/{bucket}/object/lock", lock, methods=["POST"]),
]
