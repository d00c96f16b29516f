"""`orcas table`: the warehouses of a store, and the tables in one, as the objects of its bucket have them."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from orcas.cli.buckets import branches
from orcas.cli.objects.copies import DryRun, refuse_failed
from orcas.cli.options import Commands, Where
from orcas.cli.output import print_json, print_table, say, size, tell
from orcas.cli.store.upkeep import opened
from orcas.errors import UsageError

if TYPE_CHECKING:
    from orcas.tools.session import Session

table_app = Commands(
    help="Tables of Apache Iceberg: list them, show one and its history, roll it back, and remove what nobody needs."
)
warehouse_app = Commands(help="Warehouses, buckets with tables: create and list them.")
table_app.add_typer(warehouse_app, name="warehouse")
branches.add_to(table_app)

_MARKER_MAX = 64 << 10
_DAY_MS = 86_400_000
# Entries of a document of AWS.
_OWNED = "BucketAlreadyOwnedByYou"

Warehouse = Annotated[str, typer.Argument(metavar="WAREHOUSE", help="The bucket, or WAREHOUSE@BRANCH.")]
Bucket = Annotated[str, typer.Argument(metavar="WAREHOUSE", help="The bucket.")]
Table = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE.TABLE", help="As the list shows it: with % and two digits for odd characters."),
]


@warehouse_app.command()
def create(bucket: Bucket, *, where: Where) -> None:
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
                    found.append({"bucket": bucket, "name": json.loads(marker.answer.read(_MARKER_MAX)).get("name")})
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
    from orcas.tools.tables import bucket_named

    with opened(where) as session:
        keys = [each.key.decode() for each in listed(session, bucket_named(warehouse), TABLES.encode())]
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
    from orcas.tools.tables import table_of

    with opened(where) as session:
        found = table_of(session, warehouse, table)
    location, metadata = found.location, found.metadata
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
    from orcas.tools.tables import table_of

    with opened(where) as session:
        metadata = table_of(session, warehouse, table).metadata
    snapshots = sorted(metadata.get("snapshots", []), key=lambda each: int(each["timestamp-ms"]), reverse=True)
    if where.as_json:
        print_json({"snapshots": snapshots})
        return
    if not snapshots:
        say("no snapshots")
        return
    # Files of the first version of the format have no branches.
    refs = {"main": {"snapshot-id": _newest(metadata)}} | metadata.get("refs", {})
    rows = []
    for each in snapshots:
        said = each.get("summary", {})
        counts = [said.get(name, "0") for name in ("added-records", "deleted-records", "total-records")]
        names = ", ".join(name for name, ref in refs.items() if ref["snapshot-id"] == each["snapshot-id"])
        rows.append((each["snapshot-id"], _time(each), said.get("operation", ""), *counts, names))
    print_table(("Snapshot", "Time", "Operation", "Added", "Removed", "Rows", "Branches, tags"), rows)


@table_app.command()
def rollback(
    warehouse: Warehouse,
    table: Table,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="SNAPSHOT|TIME", help="Its id, or the table as of this time, in UTC.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also to a snapshot that is no ancestor of the current one.")
    ] = False,
    dry_run: DryRun = False,
    where: Where,
) -> None:
    """Make a former snapshot of a table its current one. Columns and properties stay as they are.

    The snapshots after it are kept until they expire; with `--force`, one of them can be made the current one again.

    Examples:

        orcas table rollback lake sales.orders --to 2026-11-01T08:00:00

        orcas table rollback lake sales.orders --to 5781947118336215154 --dry-run
    """
    from orcas.tools import tables

    target = _target(to)
    with opened(where) as session:
        before, after = tables.rollback(session, warehouse, table, target, force=force, dry_run=dry_run)
    now, then = f"snapshot {after['snapshot-id']} of {_time(after)}", "none"
    if before is not None:
        then = f"snapshot {before['snapshot-id']} of {_time(before)}"
    if now == then:
        sentence = f"{table} is at {now} already"
    else:
        sentence = f"{table} {'would be' if dry_run else 'is now'} at {now}, and {'is' if dry_run else 'was'} at {then}"
    ids = {"before": None if before is None else before["snapshot-id"], "after": after["snapshot-id"]}
    tell(ids, sentence, where.as_json)


@table_app.command()
def expire(
    warehouse: Warehouse,
    table: Table,
    *,
    days: Annotated[
        int | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="Keep younger ones; else as the table says."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep so many of each branch, however old; else as the table says.")
    ] = None,
    dry_run: DryRun = False,
    where: Where,
) -> None:
    """Remove the old snapshots of a table. Branches and tags keep theirs, and files are deleted by `orcas table orphans`.

    A table says it with its properties `history.expire.max-snapshot-age-ms` (without it, 5 days) and
    `history.expire.min-snapshots-to-keep` (without it, 1).

    Example:

        orcas table expire lake sales.orders --older-than 30 --keep 10
    """
    from orcas.tables.retention import expired
    from orcas.tools import tables

    with opened(where) as session:
        metadata = tables.table_of(session, warehouse, table).metadata
        gone = expired(metadata, int(time.time() * 1000), None if days is None else days * _DAY_MS, keep)
        if gone and not dry_run:
            tables.expire(session, warehouse, table, metadata, gone)
    word = "would be removed" if dry_run else "removed"
    tell({"snapshots": gone}, f"{len(gone)} of {len(metadata.get('snapshots', []))} snapshots {word}", where.as_json)


@table_app.command()
def orphans(
    warehouse: Warehouse,
    table: Table,
    *,
    days: Annotated[
        int, typer.Option("--older-than", min=1, metavar="DAYS", help="Younger files may belong to a commit under way.")
    ] = 3,
    dry_run: DryRun = False,
    where: Where,
) -> None:
    """Delete the files of a table that neither its metadata nor one of its snapshots names.

    Commits that were overtaken or cut off leave such files, and so do snapshots that have expired. Needs pyiceberg, which
    reads the manifests of all snapshots.

    Example:

        orcas table orphans lake sales.orders --dry-run
    """
    from orcas.tools import tables

    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    keys: list[str] = []
    with opened(where) as session:
        done = tables.remove_orphans(
            session, warehouse, table, before, lambda place: keys.append(str(place)), dry_run=dry_run
        )
    if where.as_json:
        print_json(done.document() | {"Keys": keys})
    else:
        for key in keys:
            say(key)
        say(f"{len(keys)} files {'would be deleted' if dry_run else 'deleted'}")
    refuse_failed("deleted", done)


def _newest(metadata: dict[str, Any]) -> int | None:
    # Files of the first version of the format say -1 for none.
    found: int | None = metadata.get("current-snapshot-id")
    return None if found == -1 else found


def _time(snapshot: dict[str, Any]) -> str:
    return dt.datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, dt.UTC).isoformat(timespec="milliseconds")


def _target(text: str) -> int | dt.datetime:
    """The id of a snapshot, or a time."""
    try:
        if text.isdecimal():
            return int(text)
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--to must be a snapshot or a time, not {text}: write its id, 2026-11-01 or 2026-11-01T08:00:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _type(of: Any) -> str:
    return of if isinstance(of, str) else str(of["type"])


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
