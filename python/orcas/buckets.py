"""`orcas.buckets`: snapshots, forks and moves of a prefix, which S3 does not have, with any boto3 client.

The functions do what `orcas snapshot`, `orcas fork` and `orcas move` do. The client needs the root key of the server; its
endpoint and credentials are used. Each function raises `OrcasError` if the server cannot be reached, or refuses. Must not
import boto3 or botocore.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from orcas.errors import OrcasError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state of a bucket that was kept. `created` in UTC."""

    name: str
    created: dt.datetime


@dataclass(frozen=True, slots=True)
class Moved:
    """How many objects a move has given new keys, and the sum of their sizes in bytes."""

    objects: int
    bytes: int


def create_snapshot(client: Any, bucket: str, name: str) -> None:
    """Keep what a bucket has now, all versions included, under a name. Takes the same time for any number of objects."""
    _ask(client, "POST", _path(bucket, "snapshots"), {"name": name})


def list_snapshots(client: Any, bucket: str) -> list[Snapshot]:
    """The snapshots of a bucket, in order of their names."""
    found = _ask(client, "GET", _path(bucket, "snapshots"))["snapshots"]
    return [Snapshot(entry["name"], dt.datetime.fromisoformat(entry["created"])) for entry in found]


def delete_snapshot(client: Any, bucket: str, name: str) -> None:
    """Delete a snapshot. Content that nothing else uses is removed in the background."""
    _ask(client, "DELETE", _path(bucket, "snapshots", name))


def restore_snapshot(client: Any, bucket: str, name: str) -> None:
    """Give a bucket the objects of one of its snapshots. What was written since is lost, unless a snapshot has it.

    With versioning, versions and delete markers become what they were. A bucket with Object Lock is not restored.
    """
    _ask(client, "POST", _path(bucket, "restore"), {"snapshot": name})


def fork(client: Any, bucket: str, new_bucket: str, *, snapshot: str | None = None) -> None:
    """Create a bucket with the objects that another bucket, or one of its snapshots, has, and with all their versions.

    Nothing is copied. What is locked stays locked.
    """
    _ask(client, "POST", _path(bucket, "fork"), {"name": new_bucket, "snapshot": snapshot})


def move(
    client: Any, bucket: str, prefix: str, new_prefix: str, *, new_bucket: str | None = None, overwrite: bool = False
) -> Moved:
    """Move all objects whose keys begin with a prefix at once, without copying their content.

    Args:
        client: a boto3 S3 client with the root key.
        bucket: where the objects are.
        prefix: text at the beginning of keys, so a directory ends in a slash.
        new_prefix: takes its place.
        new_bucket: where the objects go; the same bucket if not given.
        overwrite: keys with the new prefix may exist. An object that already has one of the new keys is replaced.
    """
    source = {"bucket": bucket, "prefix": prefix}
    target = {"bucket": bucket if new_bucket is None else new_bucket, "prefix": new_prefix}
    moved = _ask(client, "POST", "move", {"source": source, "target": target, "overwrite": overwrite})
    return Moved(moved["objects"], moved["bytes"])


def _path(bucket: str, *names: str) -> str:
    """The path of a bucket in the admin API, or of what is below it.

    Raises:
        OrcasError: a name is empty, and the path would be another one.
    """
    if not all((bucket, *names)):
        raise OrcasError("A name is empty: give the bucket and the snapshot by their names.")
    return "/".join(["buckets", *(quote(name, safe="") for name in (bucket, *names))])


def _ask(client: Any, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
    from orcas.tools.session import session_of

    with session_of(client) as session:
        return session.admin(method, path, order)
