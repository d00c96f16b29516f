"""Uploads by the browser, part by part, with requests that are presigned here; downloads of a range, or of many as a zip.

The bytes of an upload go from the browser to the S3 API. A page asks here for the URL of each part, with the CRC-32 of the
part, which is signed with it, so the server verifies what arrives. Nothing about an upload is kept here: it is the multipart
upload of S3, which any client can list and abort.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import unquote
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from orcas.console.calls import CallError, Query, call, object_path, presigned, stream
from orcas.console.contents import abort_upload, head, list_objects
from orcas.console.rendering import asked_object, explained, field, fields, to_folder, to_object, visit
from orcas.console.shown import attachment

# Objects in one zip.
_ZIPPED_MAX: Final = 100_000
_CRC: Final = re.compile(r"[A-Za-z0-9+/]{6}==")
_PARTS_MAX: Final = 10_000
_PLACE: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_TYPE: Final = re.compile(r"[\x20-\x7e]{1,200}")


class _MalformedError(Exception):
    """The page sent something that it never sends."""


async def _asked(request: Request) -> dict[str, Any]:
    """The JSON document of a script of the console."""
    try:
        asked = json.loads(await request.body())
    except ValueError:
        raise _MalformedError from None
    if not isinstance(asked, dict) or not isinstance(asked.get("key"), str) or not asked["key"]:
        raise _MalformedError
    return asked


def _upload(asked: dict[str, Any]) -> str:
    if not isinstance(asked.get("upload"), str):
        raise _MalformedError
    return str(asked["upload"])


async def upload(request: Request) -> Response:
    """One step of an upload: JSON in, JSON out."""
    try:
        return JSONResponse(await _STEPS[request.path_params["step"]](request, await _asked(request)))
    except _MalformedError:
        return _refusal(400, "MalformedRequest", "The request is malformed: reload the page.")
    except KeyError:
        return _refusal(404, "NotFound", "There is no such step: reload the page.")
    except CallError as error:
        return _refusal(error.status, error.code, explained(error))


def _refusal(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _type_of(asked: dict[str, Any]) -> dict[str, str]:
    given = asked.get("type")
    return {"content-type": given} if isinstance(given, str) and _TYPE.fullmatch(given) else {}


def _checksum(asked: dict[str, Any]) -> dict[str, str]:
    given = asked.get("crc32")
    if not isinstance(given, str) or not _CRC.fullmatch(given):
        raise _MalformedError
    return {"x-amz-checksum-crc32": given}


def _unless(asked: dict[str, Any]) -> dict[str, str]:
    """Nothing is replaced unless the person wants it, or the bucket keeps versions."""
    return {} if asked.get("replace") else {"if-none-match": "*"}


async def _put(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """The URL and headers of an upload in one request."""
    headers = _type_of(asked) | _checksum(asked) | _unless(asked)
    path = object_path(request.path_params["bucket"], asked["key"])
    return {"url": presigned(visit(request), "PUT", path, headers=headers), "headers": headers}


async def _begin(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """A new upload in parts."""
    bucket, key = request.path_params["bucket"], asked["key"]
    path = object_path(bucket, key)
    if not asked.get("replace"):
        # Before many parts are sent in vain. Who may not know it is told in the end.
        try:
            await head(visit(request), bucket, key)
        except CallError:
            pass
        else:
            raise CallError(412, "PreconditionFailed", "There is an object of this name.")
    headers = _type_of(asked) | {"x-amz-checksum-algorithm": "CRC32"}
    found = (await call(visit(request), "POST", path, {"uploads": ""}, headers)).xml()
    return {"upload": found.findtext("UploadId")}


async def _part(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """The URL and headers of a part."""
    number, headers = asked.get("part"), _checksum(asked)
    if not isinstance(number, int) or not 1 <= number <= _PARTS_MAX:
        raise _MalformedError
    query = {"partNumber": str(number), "uploadId": _upload(asked)}
    path = object_path(request.path_params["bucket"], asked["key"])
    return {"url": presigned(visit(request), "PUT", path, query, headers=headers), "headers": headers}


async def _parts(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """The parts that have arrived: number, size, ETag and CRC-32."""
    path, parts, marker = object_path(request.path_params["bucket"], asked["key"]), [], "0"
    while True:
        query = {"uploadId": _upload(asked), "part-number-marker": marker}
        found = (await call(visit(request), "GET", path, query)).xml()
        parts += [
            {
                "part": int(each.findtext("PartNumber") or 0),
                "size": int(each.findtext("Size") or 0),
                "etag": each.findtext("ETag"),
                "crc32": each.findtext("ChecksumCRC32"),
            }
            for each in found.iter("Part")
        ]
        marker = found.findtext("NextPartNumberMarker") or ""
        if found.findtext("IsTruncated") != "true" or not marker:
            return {"parts": parts}


async def _complete(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """Make the object of the parts."""
    parts = asked.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _MalformedError
    written = "".join(
        f"<Part><PartNumber>{escape(str(part.get('part')))}</PartNumber><ETag>{escape(str(part.get('etag')))}</ETag>"
        f"<ChecksumCRC32>{escape(str(part.get('crc32')))}</ChecksumCRC32></Part>"
        for part in parts
    )
    body = f"<CompleteMultipartUpload>{written}</CompleteMultipartUpload>".encode()
    path = object_path(request.path_params["bucket"], asked["key"])
    headers = {"content-type": "application/xml"} | _unless(asked)
    found = (await call(visit(request), "POST", path, {"uploadId": _upload(asked)}, headers, body)).xml()
    if found.tag == "Error":
        # The status was sent before it failed.
        raise CallError(500, found.findtext("Code") or "InternalError", found.findtext("Message") or "It failed.")
    return {"etag": found.findtext("ETag")}


async def _abort(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """Give an upload up."""
    await abort_upload(visit(request), request.path_params["bucket"], asked["key"], _upload(asked))
    return {}


_STEPS: Final = {
    "put": _put, "begin": _begin, "part": _part, "parts": _parts, "complete": _complete, "abort": _abort,
}  # fmt: skip


async def download(request: Request) -> Response:
    """The chosen objects and folders as a zip, made while it is sent. If an object cannot be read, the download fails."""
    bucket, prefix = request.path_params["bucket"], unquote(field(request, "prefix"))
    keys, folders = ([unquote(each) for each in fields(request, name)] for name in ("key", "folder"))
    if not keys and not folders:
        return to_folder(request, prefix, "Nothing was downloaded: choose objects or folders first.")
    base = prefix[: prefix.rfind("/") + 1]
    name = (base.rstrip("/").rpartition("/")[2] if base else bucket) or bucket
    disposition = f'attachment; filename="{re.sub("[^A-Za-z0-9._-]", "_", name)}.zip"'
    pieces = _zipped(request, bucket, base, keys, folders)
    return await _in_pieces(pieces, "application/zip", {"content-disposition": disposition})


async def _in_pieces(pieces: AsyncIterator[bytes], kind: str, headers: dict[str, str]) -> Response:
    """An answer, whose first piece is awaited: a refusal is then an answer of its own, not a file that is cut off."""
    first = await anext(pieces)

    async def joined() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return StreamingResponse(joined(), media_type=kind, headers=headers)


class _Sink(io.RawIOBase):
    """A file that can only be written, and whose content is taken away piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """As of files."""
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """What was written since."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken


async def _zipped(
    request: Request, bucket: str, base: str, keys: list[str], folders: list[str]
) -> AsyncIterator[bytes]:
    sink, names = _Sink(), set[str]()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        async for key in _each(request, bucket, keys, folders):
            info = zipfile.ZipInfo(_name(key.removeprefix(base), names))
            async with stream(visit(request), "GET", object_path(bucket, key)) as answer:
                with archive.open(info, "w", force_zip64=True) as entry:
                    async for piece in answer.pieces:
                        entry.write(piece)
                        if data := sink.take():
                            yield data
    yield sink.take()


async def _each(request: Request, bucket: str, keys: list[str], folders: list[str]) -> AsyncIterator[str]:
    count = 0
    for key in keys:
        yield key
    for folder in folders:
        token: str | None = ""
        while token is not None:
            listing = await list_objects(visit(request), bucket, folder, token or None, delimiter="")
            for entry in listing.entries:
                count += 1
                if count > _ZIPPED_MAX:
                    raise CallError(400, "TooManyObjects", f"A zip has at most {_ZIPPED_MAX:,} objects: choose fewer.")
                # The mark of a folder is no file.
                if not entry.key.endswith("/"):
                    yield entry.key
            token = listing.token


def _name(key: str, names: set[str]) -> str:
    """A name in the archive that is safe to extract and is there only once."""
    parts = [re.sub(r'[\x00-\x1f\x7f\\:*?"<>|]', "_", part) for part in key.split("/")]
    name = "/".join(part if part.strip(". ") else "_" for part in parts)
    unique, number = name, 1
    while unique.casefold() in names:
        number += 1
        unique = f"{name} ({number})"
    names.add(unique.casefold())
    return unique


async def download_range(request: Request) -> Response:
    """The bytes from `first` to `last` of an object, both included, as a file; without `last`, to its end."""
    who, (bucket, key, version) = visit(request), asked_object(request)
    headers = await head(who, bucket, key, version)
    size, first, last = int(headers.get("content-length", 0)), field(request, "first"), field(request, "last")
    if not _PLACE.fullmatch(first) or (last and not _PLACE.fullmatch(last)):
        said = "write the first and the last byte as numbers, or leave the last one empty"
        return to_object(request, f"Nothing was downloaded: {said}.")
    begin, end = int(first), min(int(last), size - 1) if last else size - 1
    if begin > end:
        said = f"the object has {size:,} bytes, from 0 on, and the first comes before the last"
        return to_object(request, f"Nothing was downloaded: {said}.")
    # Of the object whose size this is.
    sent = {"range": f"bytes={begin}-{end}", "if-match": headers.get("etag", "")}
    pieces = _streamed(request, object_path(bucket, key), {"versionId": version}, sent)
    # No 206: the browser gets all that it asked for.
    given = {"content-disposition": attachment(key, f".bytes-{begin}-{end}"), "content-length": str(end - begin + 1)}
    return await _in_pieces(pieces, "application/octet-stream", given)


async def _streamed(request: Request, path: str, query: Query, headers: dict[str, str]) -> AsyncIterator[bytes]:
    async with stream(visit(request), "GET", path, query, headers) as answer:
        async for piece in answer.pieces:
            yield piece


ROUTES = [
    Route("/b/{bucket}/object/range", download_range, methods=["POST"]),
    Route("/b/{bucket}/upload/{step}", upload, methods=["POST"]),
    Route("/b/{bucket}/zip", download, methods=["POST"]),
]
