"""Commands for snapshots and forks of buckets: snapshot create, list, delete, restore, and fork."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import print_found, tell
from orcas.cli.store.upkeep import ask
from orcas.errors import UsageError

snapshot_app = Commands(help="Snapshots of a bucket: create, list, delete and restore them.")

_NAME_HELP = "1 to 63 letters, digits, periods, underscores and hyphens, beginning with a letter or a digit."

Bucket = Annotated[str, typer.Argument(metavar="BUCKET")]
Name = Annotated[str, typer.Argument(metavar="NAME", help=_NAME_HELP)]


@snapshot_app.command()
def create(bucket: Bucket, name: Name, *, where: Where) -> None:
    """Keep the current state of BUCKET as the snapshot NAME. This takes equally long for any number of objects.

    In a bucket with versioning, the snapshot has all versions.

    Example:

        orcas snapshot create photos before-cleanup
    """
    _order("POST", (bucket, "snapshots"), {"name": name}, where)
    tell({"bucket": bucket, "snapshot": name}, f"snapshot {bucket}@{name} created", where.as_json)


@snapshot_app.command("list")
def list_snapshots(bucket: Bucket, *, where: Where) -> None:
    """List the snapshots of BUCKET.

    Example:

        orcas snapshot list photos
    """
    found = _order("GET", (bucket, "snapshots"), None, where)
    rows = [(entry["name"], entry["created"]) for entry in found["snapshots"]]
    print_found(found, where.as_json, ("Snapshot", "Created"), rows)


@snapshot_app.command()
def delete(bucket: Bucket, name: Name, *, where: Where) -> None:
    """Delete a snapshot. The server then frees the space of content that nothing else uses.

    Example:

        orcas snapshot delete reports before-cleaning
    """
    _order("DELETE", (bucket, "snapshots", name), None, where)
    tell({"bucket": bucket, "snapshot": name}, f"snapshot {bucket}@{name} deleted", where.as_json)


@snapshot_app.command()
def restore(bucket: Bucket, name: Name, *, where: Where) -> None:
    """Set BUCKET back to the objects of its snapshot NAME, all at once.

    In a bucket with versioning, versions and delete markers become what they were. Everything written since is lost,
    unless another snapshot has it. To keep it, create a snapshot first. To look at a snapshot without changing the
    bucket, fork it. A bucket with Object Lock cannot be restored.

    Example:

        orcas snapshot restore photos before-cleanup
    """
    _order("POST", (bucket, "restore"), {"snapshot": name}, where)
    tell({"bucket": bucket, "snapshot": name}, f"{bucket} is as in {bucket}@{name}", where.as_json)


def fork(
    source: Annotated[str, typer.Argument(metavar="BUCKET[@SNAPSHOT]", help="A bucket, or one of its snapshots.")],
    name: Annotated[str, typer.Argument(metavar="NEWBUCKET", help="The bucket to create.")],
    *,
    where: Where,
) -> None:
    """Create NEWBUCKET with the objects of a bucket or snapshot. This takes equally long for any number of objects.

    From then on, the buckets change independently. Content that both have is stored once. The new bucket gets all
    versions of the objects, and copies of the current settings and configurations of the other. What is locked stays
    locked.

    Examples:

        orcas fork photos photos-test

        orcas fork photos@before-cleanup photos-old
    """
    bucket, at, snapshot = source.partition("@")
    if at and not bucket:
        raise UsageError(f"{source} names no bucket: write BUCKET or BUCKET@SNAPSHOT.")
    if at and not snapshot:
        raise UsageError(f"{source} names no snapshot: write BUCKET or BUCKET@SNAPSHOT.")
    _order("POST", (bucket, "fork"), {"name": name, "snapshot": snapshot or None}, where)
    tell({"bucket": name, "source": source}, f"bucket {name} created from {source}", where.as_json)


def _order(method: str, names: tuple[str, ...], order: dict[str, Any] | None, where: Where) -> dict[str, Any]:
    """A request to the admin API; `names` are the bucket and what is below it.

    Raises:
        UsageError: a name is empty or has a slash, and the path would be another one.
        RefusedError: the answer is an error.
    """
    from orcas.tools.session import RefusedError, no_bucket

    if not all(names):
        raise UsageError("A name is empty: give the bucket and the snapshot by their names.")
    for name in names:
        if "/" in name:
            raise UsageError(
                f"{name} is not a name, because those of buckets and snapshots have no slash: give another one."
            )
    path = "/".join(("buckets", *(quote(name, safe="") for name in names)))
    try:
        return ask(where, method, path, order)
    except RefusedError as error:
        if error.code == "NoSuchBucket":
            raise no_bucket(names[0]) from None
        raise


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(snapshot_app, name="snapshot")
    app.command()(fork)
