"""The API of Amazon S3 Tables, under `/_orcas/s3tables/`, as clients of AWS send it; the catalog is that of `api`.

A table bucket is a warehouse, and the version token of a table the ETag of its pointer. Names are as in ARNs and in keys:
percent-encoded, with periods between the levels of a namespace, so that one text names any namespace. Each path begins with
what its caller must be allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pyiceberg.catalog.rest import CreateTableRequest
from starlette.responses import JSONResponse, Response

from orcas.tables.failures import NO_NAMESPACE, TableError, conflict, invalid, missing
from orcas.tables.names import (
    NAMESPACES,
    TABLES,
    WAREHOUSE,
    Identifier,
    Namespace,
    checked,
    decoded,
    encoded,
    identifier,
    metadata_key,
    name_of,
    url,
)
from orcas.tables.objects import PAGE, ChangedError, Objects
from orcas.tables.requests import add_errors, admit, body_of, caller_of, validated
from orcas.tables.warehouses import marker
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import Scope

    from orcas.engine import Core
    from orcas.tables.branches import Branches
    from orcas.tables.callers import Caller
    from orcas.tables.catalog import Catalog, Table

_NAME: Final = re.compile(r"[a-z0-9-]{3,63}")
_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:s3tables:[a-z0-9-]*:(\d*):bucket/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:@[a-z0-9-]+)?)"
    r"(?:/table/([^/]+)/([^/]+))?"
)
# How the model of the service says a status of `TableError`.
_ERRORS: Final = {
    401: (403, "ForbiddenException"), 403: (403, "ForbiddenException"), 404: (404, "NotFoundException"),
    409: (409, "ConflictException"), 501: (501, "NotImplementedException"),
}  # fmt: skip
_POLICIES: Final = "rights are in the policies of users and groups, with actions of s3tables: `orcas policy create`"
_UPKEEP: Final = "`orcas table expire` removes old snapshots, and `orcas table orphans` files that nothing names"
_COPIES: Final = "`orcas replication add` copies the bucket of the warehouse"
# What there is in place of an operation, by a part of its path.
_INSTEAD: Final = {
    "policy": _POLICIES, "maintenance": _UPKEEP, "maintenance-job-status": _UPKEEP,
    "encryption": "PutBucketEncryption of S3 says how the objects of the warehouse's bucket are encrypted",
    "table-bucket-replication": _COPIES, "table-replication": _COPIES, "replication-status": _COPIES,
    "logging": "PutBucketLogging of S3 logs the requests to the warehouse's bucket",
    "metrics": "/_orcas/metrics has the metrics of the server", "storage-class": "all data has one storage class",
    "tag": "PutBucketTagging of S3 tags the warehouse's bucket",
}  # fmt: skip
# The tag of a bucket until it is a warehouse. If the server is killed in between, the next attempt goes on.
_BEGUN: Final = "orcas:table-bucket"
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Unsupported(_Body):
    """What new table buckets and tables can have on AWS."""

    encryption_configuration: Any = None
    storage_class_configuration: Any = None
    tags: Any = None

    def check(self) -> None:
        """Raise TableError if there is any of it."""
        for given, word in (
            (self.encryption_configuration, "encryption"), (self.storage_class_configuration, "storage-class"),
            (self.tags, "tag"),
        ):  # fmt: skip
            if given:
                raise _unsupported(word)


class BucketBody(_Unsupported):
    """A table bucket that is to be created."""

    name: str


class NamespaceBody(_Body):
    """A namespace that is to be created."""

    namespace: list[str] = Field(min_length=1, max_length=1)


class FieldsBody(_Body):
    """A schema or a partition spec as Iceberg has it, but that the ids of its fields may be left out."""

    model_config = ConfigDict(extra="allow")
    fields: list[dict[str, Any]]


class IcebergBody(_Body):
    """What a new table has."""

    columns: FieldsBody | None = Field(default=None, alias="schema")
    schema_v2: FieldsBody | None = None
    partition_spec: FieldsBody | None = None
    write_order: dict[str, Any] | None = None
    properties: dict[str, str] = Field(default_factory=dict)


class MetadataBody(_Body):
    """What a new table has, by its format."""

    iceberg: IcebergBody


class TableBody(_Unsupported):
    """A table that is to be created. Without `metadata`, as Java's catalog for S3 Tables sends it, it has no columns until
    its client names the first metadata file."""

    name: str
    format: Literal["ICEBERG"]
    metadata: MetadataBody | None = None

    def order(self, name: str) -> CreateTableRequest:
        """The same in the words of Iceberg's REST catalog.

        Raises:
            TableError: there can be no such table.
        """
        given = IcebergBody() if self.metadata is None else self.metadata.iceberg
        schema, spec = given.schema_v2 or given.columns, given.partition_spec
        if self.metadata is None:
            schema = FieldsBody(fields=[])
        if schema is None:
            raise invalid("Name the columns of the table, as metadata.iceberg.schema, or leave out all metadata.")
        if len({"id" in each for each in schema.fields}) > 1:
            raise invalid("Give an id to each of the columns, or to none.")
        fields = [{"id": at, "required": False, **each} for at, each in enumerate(schema.fields, 1)]
        parts = [{"field-id": at, **each} for at, each in enumerate([] if spec is None else spec.fields, 1000)]
        told = {
            "name": name, "location": None, "properties": given.properties, "write-order": given.write_order,
            "schema": {"type": "struct", **schema.model_dump(), "fields": fields},
            "partition-spec": None if spec is None else {**spec.model_dump(), "fields": parts},
        }  # fmt: skip
        return validated(CreateTableRequest, told)


class RenameBody(_Body):
    """What a table is to be called."""

    new_namespace_name: str | None = None
    new_name: str | None = None
    version_token: str | None = None


class LocationBody(_Body):
    """The metadata file that a table is to have."""

    version_token: str
    metadata_location: str


def s3_tables_app(objects: Objects, catalog: Catalog, branches: Branches, core: Callable[[], Core]) -> FastAPI:
    """The application behind `Catalogued`. `core`: of the open store."""
    app = FastAPI(title="S3 Tables", docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False
    add_errors(app, refusal)
    _add_buckets(app, objects, catalog, core)
    _add_deletion(app, objects, catalog, branches)
    _add_namespaces(app, objects, catalog)
    _add_tables(app, objects, catalog)
    _add_pointers(app, catalog)

    @app.api_route("/{path:path}", methods=_METHODS)
    async def other(request: Request) -> Response:
        raise _unsupported(*request.path_params["path"].split("/"))

    return app


def refusal(scope: Scope, error: TableError) -> Response:
    """The answer to a request that is refused."""
    other = (400, "BadRequestException") if error.status < 500 else (error.status, "InternalServerErrorException")
    status, kind = _ERRORS.get(error.status, other)
    if error.kind == "SlowDownException":
        status, kind = 429, "TooManyRequestsException"
    note_cause(scope, kind, error.message)
    return JSONResponse({"message": error.message}, status, {"x-amzn-errortype": kind})


def _unsupported(*words: str) -> TableError:
    found = next((said for word, said in _INSTEAD.items() if word in words), "the documents say what there is")
    return TableError(501, "NotImplementedException", f"This is not a part of S3 Tables here: {found}.")


def _located(request: Request, arn: str) -> re.Match[str]:
    found = _ARN.fullmatch(arn)
    if found is None:
        raise invalid("A table bucket is named by its ARN, arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME.")
    if found[1] != caller_of(request).account:
        raise TableError(403, "ForbiddenException", "This table bucket belongs to another account.")
    return found


def _bucket(request: Request) -> str:
    return str(_located(request, unquote(request.path_params["arn"]))[2])


def _namespace(name: str) -> Namespace:
    return checked(list(decoded(name)))


def _identifier(namespace: str, name: str) -> Identifier:
    return identifier(_namespace(namespace), unquote(name))


def _table(request: Request) -> Identifier:
    return _identifier(*(unquote(request.path_params[part]) for part in ("namespace", "name")))


def _etag(token: str | None) -> str | None:
    return None if token is None else f'"{token}"'


def _listed(request: Request, most: str) -> tuple[str, str, int]:
    """The prefix that a list is to have, where it begins, and the most entries."""
    query = request.query_params
    size = query.get(most, str(PAGE))
    if not re.fullmatch(r"[0-9]{1,4}", size) or not 1 <= int(size) <= PAGE:
        raise invalid(f"{most} is a number from 1 to {PAGE}.")
    return query.get("prefix", ""), query.get("continuationToken", ""), int(size)


def _page(entries: str, found: list[dict[str, Any]], following: str | None) -> Response:
    return JSONResponse({entries: found} | ({} if following is None else {"continuationToken": following}))


def _time(header: str) -> str:
    return parsedate_to_datetime(header).isoformat()


def _add_buckets(app: FastAPI, objects: Objects, catalog: Catalog, core: Callable[[], Core]) -> None:
    def shown(caller: Caller, bucket: str, modified: str) -> dict[str, Any]:
        return {
            "arn": caller.arn(bucket), "name": bucket, "ownerAccountId": caller.account, "type": "customer",
            "createdAt": _time(modified),
        }  # fmt: skip

    @app.get("/buckets")
    async def list_table_buckets(request: Request) -> Response:
        caller = caller_of(request)
        await caller.require(("s3tables:ListTableBuckets", "*", {}))
        prefix, after, limit = _listed(request, "maxBuckets")
        if request.query_params.get("type", "customer") != "customer":
            return _page("tableBuckets", [], None)
        names = sorted(name for name in core().bucket_names() if name.startswith(prefix) and name > after)
        found: list[dict[str, Any]] = []
        # Whether a bucket is a warehouse, it must be asked; so a page of many others has fewer entries.
        for looked, name in enumerate(names):
            if looked == PAGE or len(found) == limit:
                return _page("tableBuckets", found, names[looked - 1])
            # An answer may be there at once, and other requests should not wait for a thousand of them.
            await asyncio.sleep(0)
            with contextlib.suppress(TableError):
                found.append(shown(caller, name, (await catalog.check_warehouse(name)).modified))
        return _page("tableBuckets", found, None)

    @app.put("/buckets")
    async def create_table_bucket(request: Request) -> Response:
        order, caller = body_of(request, BucketBody), caller_of(request)
        order.check()
        if not _NAME.fullmatch(order.name):
            raise invalid("The name of a table bucket has 3 to 63 lower-case letters, digits and hyphens.")
        await caller.require(caller.warehouse(order.name, "CreateTableBucket"))
        async with catalog.turn(order.name, [()]):
            begun = any(key == _BEGUN for key, _ in dict(core().usage().bucket_tags()).get(order.name, ()))
            there = order.name in core().bucket_names()
            # Any other one that is there becomes a warehouse only by whoever may write into it.
            if not begun and (there or not await objects.create_bucket(order.name, _BEGUN)):
                raise conflict(
                    f"There is a bucket {order.name}: `orcas table warehouse create` makes it a table bucket."
                )
            with contextlib.suppress(ChangedError):
                await objects.put(order.name, WAREHOUSE, marker(order.name))
            await objects.remove_tags(order.name)
        return JSONResponse({"arn": caller.arn(order.name)})

    @app.get("/buckets/{arn}")
    async def get_table_bucket(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        await caller.require(caller.warehouse(bucket, "GetTableBucket"))
        return JSONResponse(shown(caller, bucket, (await catalog.check_warehouse(bucket)).modified))


def _add_deletion(app: FastAPI, objects: Objects, catalog: Catalog, branches: Branches) -> None:
    @app.delete("/buckets/{arn}")
    async def delete_table_bucket(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        await caller.require(caller.warehouse(bucket, "DeleteTableBucket"))
        if name_of(bucket) != bucket:
            raise invalid("This is a branch: `orcas table branch drop` drops it.")
        found = await catalog.check_warehouse(bucket)
        if await branches.names(bucket):
            raise conflict(f"{bucket} has branches: `orcas table branch drop` drops them.")
        if (await objects.page(bucket, "", limit=2)).keys != [WAREHOUSE]:
            raise conflict(f"{bucket} is not empty.")
        try:
            await objects.delete(bucket, WAREHOUSE, found.etag)
        except ChangedError:
            raise conflict(f"{bucket} was changed meanwhile.") from None
        done = False
        try:
            done = await objects.delete_bucket(bucket)
        finally:
            if not done:
                with contextlib.suppress(ChangedError):
                    await objects.put(bucket, WAREHOUSE, marker(bucket))
        if not done:
            raise conflict(f"{bucket} is not empty: it has other versions of objects, or was changed meanwhile.")
        return Response(status_code=204)


def _add_namespaces(app: FastAPI, objects: Objects, catalog: Catalog) -> None:
    def shown(caller: Caller, name: str, created: str) -> dict[str, Any]:
        return {
            "namespace": [name], "createdAt": created, "createdBy": caller.account, "ownerAccountId": caller.account,
        }  # fmt: skip

    @app.get("/namespaces/{arn}")
    async def list_namespaces(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        prefix, after, limit = _listed(request, "maxNamespaces")
        await admit(request, catalog, bucket, caller.warehouse(bucket, "ListNamespaces"))
        page = await objects.page(bucket, NAMESPACES + prefix, after=after, limit=limit)
        each = zip(page.keys, page.times, strict=True)
        found = [shown(caller, key.removeprefix(NAMESPACES), created) for key, created in each]
        return _page("namespaces", found, page.next)

    @app.put("/namespaces/{arn}")
    async def create_namespace(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        [name] = body_of(request, NamespaceBody).namespace
        namespace = _namespace(name)
        await admit(request, catalog, bucket, caller.warehouse(bucket, "CreateNamespace", namespace))
        await catalog.create_namespace(bucket, namespace, {})
        return JSONResponse({"tableBucketARN": caller.arn(bucket), "namespace": [encoded(namespace)]})

    @app.get("/namespaces/{arn}/{namespace}")
    async def get_namespace(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        namespace = _namespace(unquote(request.path_params["namespace"]))
        await admit(request, catalog, bucket, caller.warehouse(bucket, "GetNamespace", namespace))
        name = encoded(namespace)
        found = await objects.get(bucket, NAMESPACES + name)
        if found is None:
            raise missing(NO_NAMESPACE, name)
        return JSONResponse(shown(caller, name, _time(found.modified)))

    @app.delete("/namespaces/{arn}/{namespace}")
    async def delete_namespace(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        namespace = _namespace(unquote(request.path_params["namespace"]))
        await admit(request, catalog, bucket, caller.warehouse(bucket, "DeleteNamespace", namespace))
        await catalog.drop_namespace(bucket, namespace)
        return Response(status_code=204)


def _add_tables(app: FastAPI, objects: Objects, catalog: Catalog) -> None:
    def shown(caller: Caller, bucket: str, table: Identifier, modified: str) -> dict[str, Any]:
        # The catalog keeps no time but that of the pointer.
        return {
            "namespace": [encoded(table.namespace)], "name": table.path.partition("/")[2], "type": "customer",
            "tableARN": caller.arn(bucket, table), "createdAt": modified, "modifiedAt": modified,
        }  # fmt: skip

    @app.get("/tables/{arn}")
    async def list_tables(request: Request) -> Response:
        bucket, caller = _bucket(request), caller_of(request)
        prefix, after, limit = _listed(request, "maxTables")
        given = request.query_params.get("namespace")
        namespace = _namespace(given) if given else None
        await admit(request, catalog, bucket, caller.warehouse(bucket, "ListTables", namespace))
        start = TABLES
        if namespace is not None:
            await catalog.namespace(bucket, namespace)
            start += f"{encoded(namespace)}/{prefix}"
        page = await objects.page(bucket, start, after=after, limit=limit)
        found = []
        for key, modified in zip(page.keys, page.times, strict=True):
            of, _, name = key.removeprefix(TABLES).partition("/")
            if name.startswith(prefix):
                table = Identifier(decoded(of), unquote(name))
                found.append(shown(caller, bucket, table, modified))
        return _page("tables", found, page.next)

    @app.put("/tables/{arn}/{namespace}")
    async def create_table(request: Request) -> Response:
        bucket, caller, order = _bucket(request), caller_of(request), body_of(request, TableBody)
        order.check()
        table = _identifier(unquote(request.path_params["namespace"]), order.name)
        asked = order.order(table.name)
        await admit(request, catalog, bucket, *caller.table(bucket, table, "CreateTable"))
        made = await catalog.create(bucket, table, asked, None)
        return JSONResponse({"tableARN": caller.arn(bucket, table), "versionToken": made.etag.strip('"')})

    @app.get("/get-table")
    async def get_table(request: Request) -> Response:
        query, caller = request.query_params, caller_of(request)
        located = _located(request, query.get("tableArn") or query.get("tableBucketARN", ""))
        bucket = str(located[2])
        table = _identifier(located[3] or query.get("namespace", ""), located[4] or query.get("name", ""))
        await admit(request, catalog, bucket, *caller.table(bucket, table, "GetTable"))
        found = await catalog.load(bucket, table)
        own = dict.fromkeys(("createdBy", "modifiedBy", "ownerAccountId"), caller.account)
        told = shown(caller, bucket, table, _time(found.modified)) | own | {"format": "ICEBERG"}
        return JSONResponse(told | _location(bucket, found))

    @app.delete("/tables/{arn}/{namespace}/{name}")
    async def delete_table(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        await admit(request, catalog, bucket, *caller_of(request).table(bucket, table, "DeleteTable"))
        token = request.query_params.get("versionToken")
        await catalog.drop(bucket, table, purge=None, etag=_etag(token))
        return Response(status_code=204)

    @app.put("/tables/{arn}/{namespace}/{name}/rename")
    async def rename_table(request: Request) -> Response:
        bucket, table, caller = _bucket(request), _table(request), caller_of(request)
        order, (namespace, _, name) = body_of(request, RenameBody), table.path.partition("/")
        target = _identifier(order.new_namespace_name or namespace, order.new_name or name)
        asked = [*caller.table(bucket, table, "RenameTable"), *caller.table(bucket, target, "CreateTable")]
        await admit(request, catalog, bucket, *asked)
        await catalog.rename(bucket, table, target, etag=_etag(order.version_token))
        return Response(status_code=204)


def _location(bucket: str, table: Table) -> dict[str, str]:
    return {
        "versionToken": table.etag.strip('"'), "metadataLocation": table.location(bucket),
        "warehouseLocation": url(bucket, table.place),
    }  # fmt: skip


def _add_pointers(app: FastAPI, catalog: Catalog) -> None:
    path: Final = "/tables/{arn}/{namespace}/{name}/metadata-location"

    @app.get(path)
    async def get_table_metadata_location(request: Request) -> Response:
        bucket, table = _bucket(request), _table(request)
        asked = caller_of(request).table(bucket, table, "GetTableMetadataLocation")
        await admit(request, catalog, bucket, *asked)
        return JSONResponse(_location(bucket, await catalog.load(bucket, table)))

    @app.put(path)
    async def update_table_metadata_location(request: Request) -> Response:
        bucket, table, caller = _bucket(request), _table(request), caller_of(request)
        order = body_of(request, LocationBody)
        location = metadata_key(order.metadata_location, bucket)
        asked = caller.table(bucket, table, "UpdateTableMetadataLocation")
        await admit(request, catalog, bucket, *asked)
        done = await catalog.point(bucket, table, location, f'"{order.version_token}"')
        namespace, _, name = table.path.partition("/")
        told = {"namespace": [namespace], "name": name, "tableARN": caller.arn(bucket, table)}
        located = _location(bucket, done)
        del located["warehouseLocation"]
        return JSONResponse(told | located)
