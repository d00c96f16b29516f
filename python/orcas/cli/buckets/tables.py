"""`orcas table`: the warehouses of a store, and the tables in one, as the objects of its bucket have them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import print_json, print_table, say, size, tell
from orcas.cli.store.upkeep import opened
from orcas.errors import UsageError

if TYPE_CHECKING:
    from orcas.tools.session import Session

table_app = Commands(help="Tables of Apache Iceberg: list them, show one, and what was committed to it.")
warehouse_app = Commands(help="Warehouses, buckets with tables: create and list them.")
table_app.add_typer(warehouse_app, name="warehouse")

_METADATA_MAX = 64 << 20
# Entries of a document of AWS.
_OWNED = "BucketAlreadyOwnedByYou"

Warehouse = Annotated[str, typer.Argument(metavar="WAREHOUSE", help="The bucket.")]
Table = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE.TABLE", help="As the list shows it: with % and two digits for odd characters."),
]


@warehouse_app.command()
def create(bucket: Warehouse, *, where: Where) -> None:
    """Make a bucket a warehouse of tables, and create it if there is none.

    The server has its catalog of tables with the package pyiceberg: `pip install 'orcas-s3[tables]'`.

    Example:

        orcas table warehouse create lake
    """
    from orcas.tables.names import WAREHOUSE
    from orcas.tables.warehouses import marker

    with opened(where) as session:
        _put(session, f"/{quote(bucket, safe='')}", b"", "", f"The bucket {bucket} cannot be created")
        _put(
            session,
            f"/{quote(bucket, safe='')}/{WAREHOUSE}",
            marker(bucket),
            "*",
            f"{bucket} cannot be made a warehouse",
        )
    tell({"warehouse": bucket}, f"{bucket} is a warehouse", where.as_json)


@warehouse_app.command("list")
def list_warehouses(*, where: Where) -> None:
    """List the buckets that are warehouses.

    Example:

        orcas table warehouse list
    """
    from orcas.tables.names import WAREHOUSE
    from orcas.tools.objects import buckets
    from orcas.tools.objects import opened as reading

    found = []
    with opened(where) as session:
        for bucket in buckets(session):
            with reading(session, bucket, WAREHOUSE.encode()) as marker:
                if marker is not None:
                    found.append({"bucket": bucket, "name": json.loads(marker.answer.read(_METADATA_MAX)).get("name")})
    if where.as_json:
        print_json({"warehouses": found})
    else:
        rows = [
            (each["bucket"], "" if each["name"] == each["bucket"] else f"a copy of {each['name']}") for each in found
        ]
        print_table(("Warehouse", ""), rows)


@table_app.command("list")
def list_tables(warehouse: Warehouse, *, where: Where) -> None:
    """List the tables of a warehouse.

    Example:

        orcas table list lake
    """
    from orcas.tables.names import TABLES
    from orcas.tools.objects import listed

    with opened(where) as session:
        keys = [each.key.decode() for each in listed(session, warehouse, TABLES.encode())]
    names = [".".join(key.removeprefix(TABLES).rsplit("/", 1)) for key in keys]
    if where.as_json:
        print_json({"tables": names})
    else:
        print_table(("Table",), [(name,) for name in names])


@table_app.command()
def show(warehouse: Warehouse, table: Table, *, where: Where) -> None:
    """Show a table: its columns, its newest snapshot, and where its files are.

    Example:

        orcas table show lake sales.orders
    """
    location, metadata = _metadata(where, warehouse, table)
    if where.as_json:
        print_json({"metadata-location": location, "metadata": metadata})
        return
    newest = next((each for each in metadata.get("snapshots", []) if each["snapshot-id"] == _newest(metadata)), None)
    said = {} if newest is None else newest.get("summary", {})
    print_table(
        ("", ""),
        [
            ("location", metadata["location"]), ("metadata", location), ("format", f"version {metadata['format-version']}"),
            ("snapshot", _newest(metadata) or "none"), ("rows", said.get("total-records", "0")),
            ("files", said.get("total-data-files", "0")), ("size", size(int(said.get("total-files-size", 0)))),
        ],
    )  # fmt: skip
    schemas = metadata.get("schemas") or [metadata["schema"]]
    schema = next((each for each in schemas if each.get("schema-id") == metadata.get("current-schema-id")), schemas[-1])
    columns = [(each["name"], _type(each["type"]), "required" if each["required"] else "") for each in schema["fields"]]
    print_table(("Column", "Type", ""), columns)


@table_app.command()
def history(warehouse: Warehouse, table: Table, *, where: Where) -> None:
    """List the snapshots of a table, the newest first, with what each has added and removed.

    Example:

        orcas table history lake sales.orders
    """
    _, metadata = _metadata(where, warehouse, table)
    snapshots = sorted(metadata.get("snapshots", []), key=lambda each: int(each["timestamp-ms"]), reverse=True)
    if where.as_json:
        print_json({"snapshots": snapshots})
        return
    if not snapshots:
        say("no snapshots")
        return
    rows = []
    for each in snapshots:
        said = each.get("summary", {})
        when = dt.datetime.fromtimestamp(each["timestamp-ms"] / 1000, dt.UTC).isoformat(timespec="seconds")
        counts = [said.get(name, "0") for name in ("added-records", "deleted-records", "total-records")]
        rows.append((each["snapshot-id"], when, said.get("operation", ""), *counts))
    print_table(("Snapshot", "Time", "Operation", "Added", "Removed", "Rows"), rows)


def _newest(metadata: dict[str, Any]) -> int | None:
    # Files of the first version of the format say -1 for none.
    found: int | None = metadata.get("current-snapshot-id")
    return None if found == -1 else found


def _type(of: Any) -> str:
    return of if isinstance(of, str) else str(of["type"])


def _metadata(where: Where, warehouse: str, table: str) -> tuple[str, dict[str, Any]]:
    """The URL of the newest metadata file of a table, and what it says.

    Raises:
        UsageError: there is no such table.
    """
    from orcas.tables.names import TABLES

    namespace, _, name = table.rpartition(".")
    if not namespace:
        raise UsageError(f"{table} has no namespace: write NAMESPACE.TABLE.")
    with opened(where) as session:
        pointer = _read(session, warehouse, f"{TABLES}{namespace}/{name}")
        if pointer is None:
            raise UsageError(f"There is no table {table} in {warehouse}: `orcas table list {warehouse}` shows them.")
        found = _read(session, warehouse, pointer["metadata"])
    if found is None:
        raise UsageError(
            f"The metadata file {pointer['metadata']} of {table} is missing: `orcas fsck` checks the store."
        )
    return f"s3://{warehouse}/{pointer['metadata']}", found


def _read(session: Session, bucket: str, key: str) -> dict[str, Any] | None:
    from orcas.tools.objects import opened as reading

    with reading(session, bucket, key.encode()) as found:
        return None if found is None else json.loads(found.answer.read(_METADATA_MAX))


def _put(session: Session, path: str, body: bytes, unless: str, failure: str) -> None:
    """Create a bucket or an object that may be there already."""
    from orcas.tools.objects import refusal
    from orcas.tools.session import RefusedError

    extra = [(b"if-none-match", unless.encode())] if unless else None
    with session.request("PUT", path, "", body, extra) as answer:
        if answer.status in (200, 412):
            return
        code, message = refusal(answer)
        if code != _OWNED:
            raise RefusedError(answer.status, f"{failure} ({message}): name another bucket.", code)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(table_app, name="table")
