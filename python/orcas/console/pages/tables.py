"""Tables of a warehouse: its namespaces, tables and branches, and one table, as its catalog shows them to the visitor.

The catalog decides who may see what. Metadata may be anything that a stranger has written: only so much of it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Coroutine
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, call, catalog, object_path
from orcas.console.places import Place
from orcas.console.rendering import attempt, explained, field, page, redirect, visit
from orcas.console.rights import WAREHOUSE

# Rows of each list, characters of each text, and branches that are compared with the warehouse.
_ROWS_MAX: Final = 200
_TEXT_MAX: Final = 1000
_COMPARED_MAX: Final = 10
# Between the levels of a namespace, here and in the paths of the catalog.
_SEPARATOR: Final = "\x1f"
_MISSING: Final = 501
# Of a branch: the request, and what it has become.
_ORDERS: Final = {
    "create": ("POST", "", "made"), "merge": ("POST", "/merge", "merged"), "drop": ("DELETE", "", "dropped"),
}  # fmt: skip
# What metadata raises that is none.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)


async def show(request: Request) -> Response:
    """A level of the namespaces with its tables and views; above all, the branches, or what one has changed."""
    namespace, branch = _asked(request, "namespace"), _asked(request, "branch")
    first, *others = ("tables", "namespaces", "views") if namespace else ("namespaces",)
    parts: dict[str, dict[str, Any]] = {}
    try:
        parts[first] = await _names(request, first)
    except CallError as error:
        if error.status != _MISSING:
            raise
        return await page(request, "tables.html", problem=error.message, parts={}, levels=[], branch=branch)
    for what in others:
        parts[what] = await _part(_names(request, what))
    if branch and not namespace:
        parts["changes"] = await _part(_changes(request, branch))
    elif not namespace:
        parts["branches"] = await _part(_branches(request))
    return await page(request, "tables.html", parts=parts, levels=_levels(namespace), branch=branch)


async def show_table(request: Request) -> Response:
    """The schema, partitions, properties and snapshots of a table."""
    namespace, name, branch = (_asked(request, each) for each in ("namespace", "table", "branch"))
    path = f"v1/{_warehouse(request)}/namespaces/{quote(namespace, safe='')}/tables/{quote(name, safe='')}"
    try:
        told = await catalog(visit(request), "GET", path)
        found = await asyncio.to_thread(_said, told["metadata"], request.path_params["bucket"])
    except _UNREADABLE:
        raise CallError(502, "InvalidMetadata", "The metadata of this table cannot be read.") from None
    files = request.path_params["bucket"] + (f"--{branch}" if branch else "")
    return await page(
        request, "table.html", name=name, levels=_levels(namespace), branch=branch, of=found, files=object_path(files)
    )


async def change(request: Request) -> Response:
    """Make a branch of the warehouse as it is now, merge one into it, or drop one."""
    name, do = field(request, "branch").strip(), request.path_params["do"]
    if do not in _ORDERS:
        raise HTTPException(404)
    method, what, word = _ORDERS[do]
    work = catalog(visit(request), method, f"branches/{_warehouse(request, name)}{what}", order={})
    done = await attempt(request, work, f"The branch was not {word}", f"The branch {name} was {word}.") is not None
    stays = do == "merge" or (done and do == "create")
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}/tables", branch=name if stays else None)


def _asked(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


def _warehouse(request: Request, branch: str | None = None) -> str:
    """The warehouse, or a branch of it, in paths of the catalog; without a name, that of the address."""
    branch = _asked(request, "branch") if branch is None else branch
    return quote(request.path_params["bucket"] + (f"@{branch}" if branch else ""), safe="")


def _levels(namespace: str) -> list[tuple[str, str]]:
    """The levels of a namespace from the top: name and namespace."""
    parts = namespace.split(_SEPARATOR) if namespace else []
    return [(part, _SEPARATOR.join(parts[: at + 1])) for at, part in enumerate(parts)]


async def _part(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """A part of a page, or why it is refused."""
    try:
        return await work
    except CallError as error:
        if error.status >= 500:
            raise
        return {"rows": [], "more": None, "refused": explained(error)}


async def _names(request: Request, what: str) -> dict[str, Any]:
    """A page of names of a kind, in the namespace of the address: each with what the address of its page says."""
    namespace, levels = _asked(request, "namespace"), what == "namespaces"
    below = "" if levels else f"/{quote(namespace, safe='')}/{what}"
    query = {
        "pageSize": str(_ROWS_MAX), "pageToken": _asked(request, what) or None,
        # Clients encode its levels before they encode the query.
        "parent": quote(namespace, safe="") if levels and namespace else None,
    }  # fmt: skip
    found = await catalog(visit(request), "GET", f"v1/{_warehouse(request)}/namespaces{below}", query)
    rows = (
        [(each[-1], _SEPARATOR.join(each)) for each in found["namespaces"]]
        if levels
        else [(each["name"], namespace) for each in found["identifiers"]]
    )
    return {"rows": rows, "more": found["next-page-token"], "refused": ""}


async def _branches(request: Request) -> dict[str, Any]:
    """The branches, with when they were made, and of the first ones how many tables they have changed."""
    who, bucket = visit(request), request.path_params["bucket"]
    found = (await catalog(who, "GET", f"branches/{_warehouse(request)}"))["branches"]
    names = [each.rpartition("@")[2] for each in found[:_ROWS_MAX]]
    made = {}
    with contextlib.suppress(CallError):
        listed = (await call(who, "GET", "/", {"prefix": f"{bucket}--", "max-buckets": "1000"})).xml()
        made = {each.findtext("Name"): each.findtext("CreationDate") for each in listed.iter("Bucket")}
    counts = [(await _part(_changes(request, name))).get("tables") for name in names[:_COMPARED_MAX]]
    rows = [(name, made.get(f"{bucket}--{name}"), count) for name, count in zip_longest(names, counts)]
    return {"rows": rows, "more": len(found) > len(rows), "refused": ""}


async def _changes(request: Request, branch: str) -> dict[str, Any]:
    """How a branch and its warehouse differ, and how many tables have changed in the branch."""
    path = f"branches/{_warehouse(request, branch)}/changes"
    found = (await catalog(visit(request), "GET", path, {"counts": "false"}))["changes"]
    tables = sum(each["kind"] == "table" and each["by"] != "warehouse" for each in found)
    return {"rows": found[:_ROWS_MAX], "more": len(found) > _ROWS_MAX, "refused": "", "tables": tables}


def _said(metadata: dict[str, Any], bucket: str) -> dict[str, Any]:
    """What a page shows of metadata: lists are cut, and said with how many there are."""
    schemas = metadata.get("schemas") or [metadata["schema"]]
    columns = _with_id(schemas, "schema-id", metadata.get("current-schema-id"))["fields"]
    specs = metadata.get("partition-specs") or [{"fields": metadata.get("partition-spec") or []}]
    fields = _with_id(specs, "spec-id", metadata.get("default-spec-id"))["fields"]
    names = {each["id"]: each["name"] for each in columns}
    properties = sorted((metadata.get("properties") or {}).items())
    snapshots = sorted(metadata.get("snapshots") or [], key=lambda each: int(each["timestamp-ms"]), reverse=True)
    current = metadata.get("current-snapshot-id")
    newest: dict[str, Any] = next((each for each in snapshots if each["snapshot-id"] == current), {})
    # No URL has what is no Unicode.
    location = str(metadata["location"]).encode().decode()
    return {
        "location": _text(location), "version": _text(metadata["format-version"]),
        "updated": _time(metadata["last-updated-ms"]), "newest": _counts(newest),
        "folder": location.removeprefix(f"s3://{bucket}/").rstrip("/")[:_TEXT_MAX] + "/",
        "columns": [
            (_text(each["name"]), _text(_type(each["type"])), bool(each.get("required")), _text(each.get("doc") or ""))
            for each in columns[:_ROWS_MAX]
        ],
        "partitions": [
            (_text(each["name"]), _text(each["transform"]), _text(names.get(each.get("source-id"), each.get("source-id"))))
            for each in fields[:_ROWS_MAX]
        ],
        "properties": [(_text(name), _text(value)) for name, value in properties[:_ROWS_MAX]],
        "snapshots": [
            {"id": _text(each["snapshot-id"]), "when": _time(each["timestamp-ms"]), "current": each is newest}
            | _counts(each)
            for each in snapshots[:_ROWS_MAX]
        ],
        "lengths": [len(columns), len(fields), len(properties), len(snapshots)],
    }  # fmt: skip


def _with_id(entries: list[Any], name: str, wanted: Any) -> Any:
    return next((each for each in entries if each.get(name) == wanted), entries[-1])


def _counts(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What the summary of a snapshot says; None where it says no number."""
    told = snapshot.get("summary") or {}

    def number(name: str) -> int | None:
        said = str(told.get(name, ""))
        return int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else None

    return {
        "operation": _text(told.get("operation", "")), "added": number("added-records"),
        "removed": number("deleted-records"), "files_added": number("added-data-files"), "rows": number("total-records"),
        "files": number("total-data-files"), "bytes": number("total-files-size"),
    }  # fmt: skip


def _type(of: Any) -> str:
    """A type in one line."""
    if isinstance(of, str):
        return of
    if of["type"] == "list":
        return f"list<{_type(of['element'])}>"
    if of["type"] == "map":
        return f"map<{_type(of['key'])}, {_type(of['value'])}>"
    fields = ", ".join(f"{each['name']}: {_type(each['type'])}" for each in of["fields"])
    return f"struct<{fields}>"


def _time(milliseconds: Any) -> dt.datetime:
    return dt.datetime.fromtimestamp(int(milliseconds) / 1000, dt.UTC)


def _text(said: Any) -> str:
    text = str(said)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


ROUTES = [
    Route("/b/{bucket}/tables", show),
    Route("/b/{bucket}/table", show_table),
    Route("/b/{bucket}/tables/{do}", change, methods=["POST"]),
]
TABS = [Place("Tables", "/tables", actions=(WAREHOUSE,))]
