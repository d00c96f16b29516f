"""The paths of Iceberg's REST catalog, under `/_orcas/iceberg/v1/`: what a request says, and the documents of answers.

Each path begins with what its caller must be allowed. Names in paths stay percent-encoded until they are split, since they
may have slashes. It also puts the applications of both protocols together. Must not know objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from pyiceberg.catalog.rest import CreateTableRequest, CreateViewRequest, RegisterTableRequest, RegisterViewRequest
from pyiceberg.table import CommitTableRequest, TableIdentifier
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orcas.control.identities.names import account_number
from orcas.settings.clients import S3_TABLES
from orcas.tables import MOUNT
from orcas.tables import metadata as of_tables
from orcas.tables.branches import Branches
from orcas.tables.callers import Callers
from orcas.tables.catalog import CHANGES_MAX, Catalog, Change, Table
from orcas.tables.credentials import Vending
from orcas.tables.failures import NO_TABLE, NO_VIEW, TableError, invalid, missing
from orcas.tables.names import (
    TABLES,
    VIEWS,
    Identifier,
    Namespace,
    Places,
    checked,
    identifier,
    metadata_key,
    name_of,
    parsed,
    place_of,
    url,
)
from orcas.tables.objects import PAGE, Objects
from orcas.tables.requests import Catalogued, add_errors, admit, body_of, caller_of
from orcas.tables.s3tables import refusal as of_s3_tables
from orcas.tables.s3tables import s3_tables_app
from orcas.tables.views import CommitViewRequest
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from orcas.admin.parts import Parts
    from orcas.engine import Core
    from orcas.iam.directory import Directory
    from orcas.settings.config import Settings
    from orcas.tables.objects import Application, Signing

TOKENS: Final = "/v1/oauth/tokens"
_WAREHOUSE: Final = re.compile(
    r"(?:s3://|arn:aws:s3tables:[\w-]*:\d*:bucket/)?([a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:@[a-z0-9-]+)?)/?"
)
_DELEGATED: Final = "vended-credentials"
# What whoever names a place for a table must be allowed there.
_OWN_FILES: Final = ("GetObject", "PutObject", "DeleteObject")


class NamespaceBody(BaseModel):
    """A namespace that is to be created."""

    namespace: list[str]
    properties: dict[str, str] = Field(default_factory=dict)


class PropertiesBody(BaseModel):
    """Properties that are to change."""

    removals: list[str] = Field(default_factory=list)
    updates: dict[str, str] = Field(default_factory=dict)


class RenameBody(BaseModel):
    """A table or a view, and the name that it is to have."""

    source: TableIdentifier
    destination: TableIdentifier


class TransactionBody(BaseModel):
    """Changes of several tables."""

    changes: list[CommitTableRequest] = Field(alias="table-changes", min_length=1, max_length=CHANGES_MAX)


class BranchBody(BaseModel):
    """A branch that is to be made, of a snapshot of the bucket, or of what is there now."""

    snapshot: str | None = None


def tables_apps(
    settings: Settings,
    parts: Callable[[], Parts],
    dispatch: Callable[[], Application],
    root: Callable[[], Signing],
) -> dict[str, ASGIApp]:
    """The applications to be mounted at `MOUNT` and `S3_TABLES`: one catalog, in which the requests of both take turns.

    Args:
        settings: of the server.
        parts: of the open store.
        dispatch: the application of S3.
        root: the keys that sign requests of the catalog.
    """

    def core() -> Core:
        return parts().core

    def directory() -> Directory | None:
        return parts().identities

    def account() -> str:
        return account_number(root().owner)

    objects = Objects(dispatch, root, core, settings.region)
    catalog = Catalog(objects, lambda: Places(root().secret_key))
    branches = Branches(objects, catalog, core)
    answers = _Answers(Vending(directory, root, settings.region))
    app = FastAPI(title="Tables", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False
    add_errors(app, _refusal)
    _add_config(app, catalog, settings.warehouse)
    _add_namespaces(app, catalog)
    _add_tables(app, catalog, answers)
    _add_reads(app, catalog, answers)
    _add_changes(app, catalog)
    _add_views(app, catalog)
    _add_branches(app, branches)
    callers = Callers(core, directory, account, settings.region)
    other = s3_tables_app(objects, catalog, branches, core)
    return {
        MOUNT: Catalogued(app, callers, _refusal, MOUNT + TOKENS),
        S3_TABLES: Catalogued(other, callers, of_s3_tables),
    }


def _refusal(scope: Scope, error: TableError) -> Response:
    note_cause(scope, error.kind, error.message)
    said = {"message": error.message, "type": error.kind, "code": error.status}
    headers = {"www-authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse({"error": said}, error.status, headers)


def _bucket(request: Request) -> str:
    return unquote(request.path_params["warehouse"])


def _namespace(request: Request) -> Namespace:
    return parsed(unquote(request.path_params["namespace"]))


def _table(request: Request) -> Identifier:
    return identifier(_namespace(request), unquote(request.path_params["table"]))


def _view(request: Request) -> Identifier:
    return identifier(_namespace(request), unquote(request.path_params["view"]), VIEWS)


def _named(given: TableIdentifier, folder: str = TABLES) -> Identifier:
    return identifier(checked(list(given.namespace.root)), given.name, folder)


async def _pages(request: Request, page: Callable[[str, int], Any]) -> tuple[list[Any], str | None]:
    """The page that a request asks for, or everything, for clients that know no pages."""
    query = request.query_params
    size = query.get("pageSize", str(PAGE))
    if not size.isdecimal() or int(size[:9]) < 1:
        raise invalid("pageSize is a number from 1.")
    limit = min(int(size[:9]), PAGE)
    found, following = await page(query.get("pageToken", ""), limit)
    while following is not None and not {"pageSize", "pageToken"} & query.keys():
        more, following = await page(following, limit)
        found += more
    return found, following


def _add_config(app: FastAPI, catalog: Catalog, default: str | None) -> None:
    @app.get("/v1/config")
    async def config(request: Request) -> Response:
        """The prefix of the paths of a warehouse, and which paths there are."""
        named = request.query_params.get("warehouse") or default
        if named is None:
            raise invalid("Name the warehouse, a bucket: warehouse=NAME.")
        found = _WAREHOUSE.fullmatch(named)
        if found is None:
            raise invalid("A warehouse is named as its bucket, as s3://BUCKET or by its ARN.")
        bucket = found[1]
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "GetTableBucket"))
        paths = [
            f"{method} {route.path.replace('{warehouse}', '{prefix}')}"
            for route in app.routes
            if isinstance(route, Route) and route.path.startswith("/v1/{warehouse}")
            for method in sorted(route.methods or ())
        ]
        return JSONResponse({"defaults": {}, "overrides": {"prefix": bucket}, "endpoints": paths})


def _add_namespaces(app: FastAPI, catalog: Catalog) -> None:
    @app.get("/v1/{warehouse}/namespaces")
    async def list_namespaces(request: Request) -> Response:
        bucket, given = _bucket(request), request.query_params.get("parent")
        # As in paths, clients encode its levels before they encode the query.
        parent = parsed(unquote(given)) if given else None
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "ListNamespaces", parent))

        async def page(after: str, limit: int) -> tuple[list[Namespace], str | None]:
            return await catalog.list_namespaces(bucket, parent, after, limit)

        found, following = await _pages(request, page)
        return JSONResponse({"namespaces": [list(each) for each in found], "next-page-token": following})

    @app.post("/v1/{warehouse}/namespaces")
    async def create_namespace(request: Request) -> Response:
        bucket, order = _bucket(request), body_of(request, NamespaceBody)
        namespace = checked(order.namespace)
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "CreateNamespace", namespace))
        await catalog.create_namespace(bucket, namespace, order.properties)
        return JSONResponse({"namespace": list(namespace), "properties": order.properties})

    @app.get("/v1/{warehouse}/namespaces/{namespace}")
    async def load_namespace(request: Request) -> Response:
        bucket, namespace = _bucket(request), _namespace(request)
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "GetNamespace", namespace))
        properties = await catalog.namespace(bucket, namespace)
        return JSONResponse({"namespace": list(namespace), "properties": properties})

    @app.head("/v1/{warehouse}/namespaces/{namespace}")
    async def namespace_exists(request: Request) -> Response:
        await load_namespace(request)
        return Response(status_code=204)

    @app.delete("/v1/{warehouse}/namespaces/{namespace}")
    async def drop_namespace(request: Request) -> Response:
        bucket, namespace = _bucket(request), _namespace(request)
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "DeleteNamespace", namespace))
        await catalog.drop_namespace(bucket, namespace)
        return Response(status_code=204)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/properties")
    async def update_properties(request: Request) -> Response:
        bucket, namespace, order = _bucket(request), _namespace(request), body_of(request, PropertiesBody)
        # S3 Tables has no properties: whoever may create a namespace gives it some.
        await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "CreateNamespace", namespace))
        updated, removed, absent = await catalog.update_namespace(bucket, namespace, order.updates, order.removals)
        return JSONResponse({"updated": updated, "removed": removed, "missing": absent})


class _Answers:
    """The answers that show a table, with keys for its files if the client wants some and may have them."""

    def __init__(self, vending: Vending) -> None:
        self._vending = vending

    async def table(self, request: Request, bucket: str, table: Identifier, found: Table) -> Response:
        """A table."""
        return await self.staged(request, bucket, table, found.text, found.place, found.location(bucket))

    async def staged(
        self, request: Request, bucket: str, table: Identifier, text: bytes, place: str, location: str | None
    ) -> Response:
        """A table, or one that is not there yet."""
        config = self._vending.config(_endpoint(request))
        delegated = request.headers.get("x-iceberg-access-delegation", "")
        keys = await self._keys(request, bucket, table, place) if _DELEGATED in delegated else None
        told: dict[str, Any] = {"config": config | (keys or {})}
        if location is not None:
            told["metadata-location"] = location
        if keys is not None:
            told["storage-credentials"] = [{"prefix": url(bucket, f"{place}/"), "config": config | keys}]
        # The metadata is passed on as it is stored.
        return _json(json.dumps(told).encode()[:-1] + b', "metadata": ' + text + b"}")

    async def keys(self, request: Request, bucket: str, table: Identifier, place: str) -> Response:
        """The keys alone."""
        config, keys = self._vending.config(_endpoint(request)), await self._keys(request, bucket, table, place)
        given = [] if keys is None else [{"prefix": url(bucket, f"{place}/"), "config": config | keys}]
        return JSONResponse({"storage-credentials": given})

    async def _keys(self, request: Request, bucket: str, table: Identifier, place: str) -> dict[str, str] | None:
        caller = caller_of(request)
        reads, writes = await caller.may(*caller.table(bucket, table, "GetTableData", "PutTableData"))
        return await self._vending.keys(bucket, place, caller.who.arn, writes=writes) if reads else None


def _endpoint(request: Request) -> str:
    """The URL of S3, as the client reaches this server."""
    root = request.scope.get("root_path", "").removesuffix(MOUNT)
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}{root}"


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json")


async def _names(request: Request, catalog: Catalog, folder: str) -> Response:
    """The tables of a namespace, or its views."""
    bucket, namespace = _bucket(request), _namespace(request)
    await admit(request, catalog, bucket, caller_of(request).warehouse(bucket, "ListTables", namespace))

    async def page(after: str, limit: int) -> tuple[list[Identifier], str | None]:
        return await catalog.names(bucket, namespace, folder, after, limit)

    found, following = await _pages(request, page)
    shown = [{"namespace": list(each.namespace), "name": each.name} for each in found]
    return JSONResponse({"identifiers": shown, "next-page-token": following})


async def _registered(
    request: Request, catalog: Catalog, name: Identifier, location: str, *, overwrite: bool = False
) -> Table:
    """A table, or a view, of a metadata file that is there already."""
    bucket, caller = _bucket(request), caller_of(request)
    place, key = metadata_key(location, bucket)
    actions = ("CreateTable", *(("UpdateTableMetadataLocation",) if overwrite else ()))
    files = caller.objects(bucket, f"{place}/*", *_OWN_FILES)
    await admit(request, catalog, bucket, *caller.table(bucket, name, *actions), *files)
    return await catalog.register(bucket, name, place, key, overwrite=overwrite)


async def _rename(request: Request, catalog: Catalog, folder: str) -> Response:
    bucket, order, caller = _bucket(request), body_of(request, RenameBody), caller_of(request)
    source, target = _named(order.source, folder), _named(order.destination, folder)
    asked = [*caller.table(bucket, source, "RenameTable"), *caller.table(bucket, target, "CreateTable")]
    await admit(request, catalog, bucket, *asked)
    await catalog.rename(bucket, source, target)
    return Response(status_code=204)


def _add_tables(app: FastAPI, catalog: Catalog, answers: _Answers) -> None:
    @app.get("/v1/{warehouse}/namespaces/{namespace}/tables")
    async def list_tables(request: Request) -> Response:
        return await _names(request, catalog, TABLES)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/tables")
    async def create_table(request: Request) -> Response:
        bucket = _bucket(request)
        unset = {"location": None, "partition-spec": None, "write-order": None}
        order = body_of(request, CreateTableRequest, **unset)
        table = identifier(_namespace(request), order.name)
        place = None if order.location is None else place_of(order.location, bucket)
        caller = caller_of(request)
        given = [] if place is None else caller.objects(bucket, f"{place}/*", *_OWN_FILES)
        await admit(request, catalog, bucket, *caller.table(bucket, table, "CreateTable"), *given)
        if order.stage_create:
            made, place = await catalog.stage(bucket, table, order, place)
            return await answers.staged(request, bucket, table, of_tables.written(made), place, None)
        return await answers.table(request, bucket, table, await catalog.create(bucket, table, order, place))

    @app.post("/v1/{warehouse}/namespaces/{namespace}/register")
    async def register_table(request: Request) -> Response:
        bucket, order = _bucket(request), body_of(request, RegisterTableRequest, overwrite=False)
        table = identifier(_namespace(request), order.name)
        found = await _registered(request, catalog, table, order.metadata_location, overwrite=order.overwrite)
        return await answers.table(request, bucket, table, found)


def _add_reads(app: FastAPI, catalog: Catalog, answers: _Answers) -> None:
    @app.get("/v1/{warehouse}/namespaces/{namespace}/tables/{table}")
    async def load_table(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        snapshots = request.query_params.get("snapshots", "all")
        if snapshots not in ("all", "refs"):
            raise invalid("snapshots is all or refs.")
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, table, "GetTableMetadataLocation"))
        found = await catalog.load(bucket, table)
        if snapshots == "all":
            return await answers.table(request, bucket, table, found)
        told = json.loads(found.text)
        named = {each["snapshot-id"] for each in told.get("refs", {}).values()}
        told["snapshots"] = [each for each in told.get("snapshots", []) if each["snapshot-id"] in named]
        text, location = json.dumps(told).encode(), found.location(bucket)
        return await answers.staged(request, bucket, table, text, found.place, location)

    @app.get("/v1/{warehouse}/namespaces/{namespace}/tables/{table}/credentials")
    async def load_credentials(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, table, "GetTableData"))
        return await answers.keys(request, bucket, table, (await catalog.load(bucket, table)).place)

    @app.head("/v1/{warehouse}/namespaces/{namespace}/tables/{table}")
    async def table_exists(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, table, "GetTable"))
        if not await catalog.exists(bucket, table):
            raise missing(NO_TABLE, str(table))
        return Response(status_code=204)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/tables/{table}/metrics")
    async def report_metrics(request: Request) -> Response:
        """Take what a client reports of a scan, which nobody asks for yet."""
        await caller_of(request).require(*caller_of(request).table(_bucket(request), _table(request), "GetTable"))
        return Response(status_code=204)


def _add_changes(app: FastAPI, catalog: Catalog) -> None:
    async def commit(request: Request, bucket: str, changes: list[Change]) -> list[Table]:
        caller = caller_of(request)
        needed = []
        for change in changes:
            table = change.table
            if not change.creates:
                needed += caller.table(bucket, table, "UpdateTableMetadataLocation")
                continue
            needed += caller.table(bucket, table, "CreateTable")
            asked = of_tables.asked_location(change.updates)
            place = None if asked is None else place_of(asked, bucket)
            if place is not None and not catalog.made_here(bucket, table, place):
                needed += caller.objects(bucket, f"{place}/*", *_OWN_FILES)
        await admit(request, catalog, bucket, *needed)
        return await catalog.commit(bucket, changes)

    def change(order: CommitTableRequest, table: Identifier) -> Change:
        return Change(table, order.requirements, order.updates)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/tables/{table}")
    async def update_table(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        own = {"namespace": list(table.namespace), "name": table.name}
        order = body_of(request, CommitTableRequest, identifier=own)
        [done] = await commit(request, bucket, [change(order, table)])
        told = json.dumps({"metadata-location": done.location(bucket)}).encode()
        return _json(told[:-1] + b', "metadata": ' + done.text + b"}")

    @app.post("/v1/{warehouse}/transactions/commit")
    async def commit_transaction(request: Request) -> Response:
        order = body_of(request, TransactionBody)
        changes = [change(each, _named(each.identifier)) for each in order.changes]
        if len({each.table for each in changes}) < len(changes):
            raise invalid("A transaction changes each table once.")
        await commit(request, _bucket(request), changes)
        return Response(status_code=204)

    @app.post("/v1/{warehouse}/tables/rename")
    async def rename_table(request: Request) -> Response:
        return await _rename(request, catalog, TABLES)

    @app.delete("/v1/{warehouse}/namespaces/{namespace}/tables/{table}")
    async def drop_table(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        purge = request.query_params.get("purgeRequested", "false").lower() == "true"
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, table, "DeleteTable"))
        await catalog.drop(bucket, table, purge=purge)
        return Response(status_code=204)


def _add_views(app: FastAPI, catalog: Catalog) -> None:
    """Who may do what with a table may do the same with a view: S3 Tables has no actions for views."""

    def shown(bucket: str, found: Table) -> Response:
        told = json.dumps({"metadata-location": found.location(bucket), "config": {}}).encode()
        return _json(told[:-1] + b', "metadata": ' + found.text + b"}")

    @app.get("/v1/{warehouse}/namespaces/{namespace}/views")
    async def list_views(request: Request) -> Response:
        return await _names(request, catalog, VIEWS)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/views")
    async def create_view(request: Request) -> Response:
        bucket, order, caller = _bucket(request), body_of(request, CreateViewRequest, location=None), caller_of(request)
        view = identifier(_namespace(request), order.name, VIEWS)
        place = None if order.location is None else place_of(order.location, bucket)
        given = [] if place is None else caller.objects(bucket, f"{place}/*", *_OWN_FILES)
        await admit(request, catalog, bucket, *caller.table(bucket, view, "CreateTable"), *given)
        return shown(bucket, await catalog.create_view(bucket, view, order, place))

    @app.post("/v1/{warehouse}/namespaces/{namespace}/register-view")
    async def register_view(request: Request) -> Response:
        bucket, order = _bucket(request), body_of(request, RegisterViewRequest)
        view = identifier(_namespace(request), order.name, VIEWS)
        return shown(bucket, await _registered(request, catalog, view, order.metadata_location))

    @app.get("/v1/{warehouse}/namespaces/{namespace}/views/{view}")
    async def load_view(request: Request) -> Response:
        bucket, view = _bucket(request), _view(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, view, "GetTableMetadataLocation"))
        return shown(bucket, await catalog.load(bucket, view))

    @app.head("/v1/{warehouse}/namespaces/{namespace}/views/{view}")
    async def view_exists(request: Request) -> Response:
        bucket, view = _bucket(request), _view(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, view, "GetTable"))
        if not await catalog.exists(bucket, view):
            raise missing(NO_VIEW, str(view))
        return Response(status_code=204)

    @app.post("/v1/{warehouse}/namespaces/{namespace}/views/{view}")
    async def replace_view(request: Request) -> Response:
        bucket, view, order = _bucket(request), _view(request), body_of(request, CommitViewRequest)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, view, "UpdateTableMetadataLocation"))
        return shown(bucket, await catalog.replace_view(bucket, view, order))

    @app.delete("/v1/{warehouse}/namespaces/{namespace}/views/{view}")
    async def drop_view(request: Request) -> Response:
        bucket, view = _bucket(request), _view(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, view, "DeleteTable"))
        await catalog.drop(bucket, view, purge=False)
        return Response(status_code=204)

    @app.post("/v1/{warehouse}/views/rename")
    async def rename_view(request: Request) -> Response:
        return await _rename(request, catalog, VIEWS)


def _add_branches(app: FastAPI, branches: Branches) -> None:
    """Branches of a warehouse, of which Iceberg's specification says nothing. A branch is named as it is opened."""

    async def read(request: Request, *warehouses: str) -> None:
        caller = caller_of(request)
        await caller.require(*(caller.warehouse(each, "ListTables") for each in warehouses))

    @app.get("/branches/{warehouse}")
    async def list_branches(request: Request) -> Response:
        warehouse = _bucket(request)
        await read(request, warehouse)
        return JSONResponse({"branches": await branches.names(warehouse)})

    @app.post("/branches/{warehouse}")
    async def create_branch(request: Request) -> Response:
        caller_of(request).require_root()
        await branches.create(_bucket(request), body_of(request, BranchBody).snapshot)
        return JSONResponse({}, 201)

    @app.delete("/branches/{warehouse}")
    async def drop_branch(request: Request) -> Response:
        caller_of(request).require_root()
        await branches.drop(_bucket(request))
        return JSONResponse({})

    @app.get("/branches/{warehouse}/changes")
    async def show_changes(request: Request) -> Response:
        branch = _bucket(request)
        await read(request, branch, name_of(branch))
        counted = request.query_params.get("counts") != "false"
        return JSONResponse({"changes": await branches.changes(branch, counted=counted)})

    @app.post("/branches/{warehouse}/merge")
    async def merge_branch(request: Request) -> Response:
        caller_of(request).require_root()
        return JSONResponse({"merged": await branches.merge(_bucket(request))})
