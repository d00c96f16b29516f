"""Previews of objects: text, JSON and tables from their first bytes; pictures, sound, film and PDF by the browser.

An object comes from a stranger and has the origin of the console. So it is shown as text, or loaded by an element that runs
nothing of it (`img`, `audio`, `video`), or in a frame with `sandbox`, which has another origin, runs no script and loads
nothing.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from orcas.console.calls import CallError, Visit, call, object_path, presigned

# Bytes of an object that a preview of text reads, and rows and columns of a table.
TEXT_MAX: Final = 64 * 1024
ROWS_MAX: Final = 100
_COLUMNS_MAX: Final = 50
_CELL_MAX: Final = 300
# A JSON document up to this size is read whole, and set out.
_JSON_MAX: Final = 512 * 1024
_SVG: Final = "image/svg+xml"
_PICTURES: Final = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "avif": "image/avif", "bmp": "image/bmp", "ico": "image/x-icon", "svg": _SVG,
}  # fmt: skip
_SOUNDS: Final = {
    "mp3": "audio/mpeg", "ogg": "audio/ogg", "oga": "audio/ogg", "wav": "audio/wav", "flac": "audio/flac",
    "m4a": "audio/mp4", "opus": "audio/ogg",
}  # fmt: skip
_FILMS: Final = {"mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "ogv": "video/ogg", "mov": "video/mp4"}
_TEXTS: Final = frozenset(
    {
        "txt", "md", "rst", "log", "ini", "cfg", "conf", "toml", "yaml", "yml", "xml", "html", "htm", "css", "js", "mjs",
        "ts", "py", "rs", "go", "c", "h", "cpp", "java", "sh", "sql", "tex", "env",
    }
)  # fmt: skip


@dataclass(slots=True)
class Preview:
    """What is shown: `kind` is `text`, `table`, `image`, `audio`, `video`, `page`, `pdf` or `none`.

    `url`: what the browser loads. `note`: what else is to be said.
    """

    kind: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    url: str = ""
    note: str = ""


async def preview(who: Visit, bucket: str, key: str, version: str | None, headers: Mapping[str, str]) -> Preview:
    """The preview of an object, whose headers are known. A refusal to read it is said in place of a preview."""
    try:
        return await _preview(who, bucket, key, version, headers)
    except CallError as error:
        return Preview("none", note=f"There is no preview: {error.message}")


async def _preview(who: Visit, bucket: str, key: str, version: str | None, headers: Mapping[str, str]) -> Preview:
    size = int(headers.get("content-length", 0))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    ending = key.rpartition(".")[2].lower() if "." in key else ""
    if not size:
        return Preview("none", note="The object is empty.")
    if headers.get("content-encoding", "") not in ("", "identity", "aws-chunked"):
        return Preview("none", note=f"There is no preview of content that is encoded as {headers['content-encoding']}.")
    for shown, types in (("image", _PICTURES), ("audio", _SOUNDS), ("video", _FILMS)):
        # With the type that belongs to the preview, not the one that the object claims.
        given = types.get(ending) or (kind if kind in types.values() else None)
        if given == _SVG:
            # Opened in a tab of its own, it would be a document with scripts: it comes from the frame's address.
            return Preview(shown)
        if given:
            return Preview(shown, url=_url(who, bucket, key, version, given))
    if ending == "pdf" or kind == "application/pdf":
        return Preview("pdf", url=_url(who, bucket, key, version, "application/pdf"))
    if ending == "parquet":
        return await _parquet(who, bucket, key, version, size)
    if ending == "json" or kind == "application/json":
        return await _json(who, bucket, key, version, size)
    first = await _read(who, bucket, key, version, 0, min(size, TEXT_MAX))
    note = f"These are the first {len(first):,} of {size:,} bytes." if size > len(first) else ""
    if ending in ("csv", "tsv") or kind in ("text/csv", "text/tab-separated-values"):
        rows = await asyncio.to_thread(_table, first, whole=size <= len(first), tabs=ending == "tsv")
        return Preview("table", rows=rows, note=note)
    is_text = kind.startswith("text/") or ending in _TEXTS or kind in ("application/xml", "application/javascript")
    if not is_text and not _looks_like_text(first):
        return Preview("none", note="There is no preview of this kind of content.")
    is_page = ending in ("html", "htm") or kind in ("text/html", "application/xhtml+xml")
    return Preview("page" if is_page else "text", text=first.decode(errors="replace"), note=note)


def _url(who: Visit, bucket: str, key: str, version: str | None, kind: str) -> str:
    query = {"response-content-type": kind, "response-content-disposition": "inline", "versionId": version}
    return presigned(who, "GET", object_path(bucket, key), query)


async def _read(who: Visit, bucket: str, key: str, version: str | None, start: int, end: int) -> bytes:
    """The bytes from `start` to before `end`."""
    sent = {"range": f"bytes={start}-{end - 1}"}
    return (await call(who, "GET", object_path(bucket, key), {"versionId": version}, sent)).body


async def frame(who: Visit, bucket: str, key: str, version: str | None) -> tuple[str, bytes]:
    """The beginning of a page or SVG picture, for the frame: its type and bytes.

    Raises:
        CallError: it cannot be read.
    """
    sent = {"range": f"bytes=0-{_JSON_MAX - 1}"}
    answer = await call(who, "GET", object_path(bucket, key), {"versionId": version}, sent)
    is_picture = key.lower().endswith(".svg") or answer.headers.get("content-type", "").startswith(_SVG)
    return _SVG if is_picture else "text/html", answer.body


async def first_text(who: Visit, bucket: str, key: str, version: str | None) -> str | None:
    """The whole of a text for comparing it; None if it has more than `_JSON_MAX` bytes or is no text.

    Raises:
        CallError: it cannot be read.
    """
    body = await _read(who, bucket, key, version, 0, _JSON_MAX + 1)
    if len(body) > _JSON_MAX:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


async def _json(who: Visit, bucket: str, key: str, version: str | None, size: int) -> Preview:
    if size > _JSON_MAX:
        first = await _read(who, bucket, key, version, 0, TEXT_MAX)
        return Preview(
            "text", text=first.decode(errors="replace"), note=f"These are the first {TEXT_MAX:,} of {size:,} bytes."
        )
    body = await _read(who, bucket, key, version, 0, size)
    text = await asyncio.to_thread(_set_out, body)
    shown = text[: 4 * TEXT_MAX]
    return Preview("text", text=shown, note="" if shown == text else "This is the beginning.")


def _set_out(body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")


def _table(first: bytes, *, whole: bool, tabs: bool) -> list[list[str]]:
    text = first.decode(errors="replace").lstrip("\ufeff")
    if not whole:
        # The last line may be cut off.
        text = text[: text.rfind("\n") + 1] or text
    rows = []
    try:
        for row in csv.reader(io.StringIO(text), delimiter="\t" if tabs else _delimiter(text)):
            rows.append([cell[:_CELL_MAX] for cell in row[:_COLUMNS_MAX]])
            if len(rows) > ROWS_MAX:
                break
    except csv.Error:
        return [[line[:_CELL_MAX]] for line in text.splitlines()[:ROWS_MAX]]
    return rows


def _delimiter(text: str) -> str:
    line = text.partition("\n")[0]
    return max(",;\t|", key=line.count)


def _looks_like_text(first: bytes) -> bool:
    if b"\0" in first:
        return False
    try:
        # A character may be cut off at the end.
        first[: max(0, len(first) - 3)].decode()
    except UnicodeDecodeError:
        return False
    return True


async def _parquet(who: Visit, bucket: str, key: str, version: str | None, size: int) -> Preview:
    if find_spec("pyarrow") is None:
        return Preview("none", note="A preview of Parquet needs pyarrow on the server: pip install pyarrow.")
    loop = asyncio.get_running_loop()

    def read(start: int, end: int) -> bytes:
        return asyncio.run_coroutine_threadsafe(_read(who, bucket, key, version, start, end), loop).result()

    try:
        rows, note = await asyncio.to_thread(_parquet_rows, _Ranged(read, size))
    except (OSError, ValueError) as error:
        return Preview("none", note=f"There is no preview: this is no Parquet file that can be read ({error}).")
    return Preview("table", rows=rows, note=note)


def _parquet_rows(source: _Ranged) -> tuple[list[list[str]], str]:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.PythonFile(source, mode="r"))
    columns = file.schema_arrow.names[:_COLUMNS_MAX]
    rows = [columns]
    batch: Any
    for batch in file.iter_batches(ROWS_MAX, columns=columns):
        rows += [
            ["" if row[name] is None else str(row[name])[:_CELL_MAX] for name in columns] for row in batch.to_pylist()
        ]
        break
    return rows, f"{len(rows) - 1:,} of {file.metadata.num_rows:,} rows."


class _Ranged(io.RawIOBase):
    """An object as a file, of which only what is asked for is read, and only so much."""

    # Bytes that a preview reads in all.
    _LEFT: Final = 64 * 1024 * 1024

    def __init__(self, read: Any, size: int) -> None:
        super().__init__()
        self._read, self._size, self._at, self._left = read, size, 0, self._LEFT

    def seekable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of files."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, count: int | None = -1) -> bytes:
        """As of files."""
        end = self._size if count is None or count < 0 else min(self._size, self._at + count)
        if end <= self._at:
            return b""
        self._left -= end - self._at
        if self._left < 0:
            raise OSError("its first rows are too large")
        data: bytes = self._read(self._at, end)
        self._at = end
        return data
