"""Snapshots, forks and restores of buckets over the admin API."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, FastAPI

from orcas.admin.routes.orders import Name, Order
from orcas.engine import Core, Refusal

log = logging.getLogger("orcas")


class NameBody(Order):
    """The name of the snapshot or bucket to create."""

    name: Name


class ForkBody(NameBody):
    """The new bucket, and the snapshot whose objects it gets. Without a snapshot, it gets the present objects."""

    snapshot: Name | None = None


class RestoreBody(Order):
    """The snapshot whose objects the bucket gets."""

    snapshot: Name


def add_snapshots(app: FastAPI, core: Callable[[], Core]) -> None:
    """Add these paths to the application. Not coroutines: a change waits for the disk, so FastAPI does it in a thread."""

    @app.get("/buckets/{bucket}/snapshots")
    def snapshots(bucket: str) -> dict[str, Any]:
        """The snapshots of a bucket, in order of their names."""
        found = core().list_snapshots(bucket)
        if found is None:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        return {"snapshots": [{"name": entry["name"], "created": _time(entry["created_ms"])} for entry in found]}

    @app.post("/buckets/{bucket}/snapshots", status_code=201)
    def create(bucket: str, order: Annotated[NameBody, Body()]) -> dict[str, Any]:
        """Keep the present objects of the bucket under a name."""
        core().create_snapshot(bucket, order.name)
        log.info("Snapshot %s of %s was created", order.name, bucket)
        return {}

    @app.delete("/buckets/{bucket}/snapshots/{name}")
    def delete(bucket: str, name: str) -> dict[str, Any]:
        """Delete a snapshot. Content that nothing else uses is removed."""
        core().delete_snapshot(bucket, name)
        log.info("Snapshot %s of %s was deleted", name, bucket)
        return {}

    @app.post("/buckets/{bucket}/fork", status_code=201)
    def fork(bucket: str, order: Annotated[ForkBody, Body()]) -> dict[str, Any]:
        """Create a bucket with the objects of this one."""
        core().fork_bucket(bucket, order.snapshot, order.name)
        source = bucket if order.snapshot is None else f"{bucket}@{order.snapshot}"
        log.info("Bucket %s was created as a fork of %s", order.name, source)
        return {}

    @app.post("/buckets/{bucket}/restore")
    def restore(bucket: str, order: Annotated[RestoreBody, Body()]) -> dict[str, Any]:
        """Give the bucket the objects of its snapshot, with all their versions.

        Its present ones are lost unless a snapshot has them too. A bucket with Object Lock is not restored.
        """
        core().restore_bucket(bucket, order.snapshot)
        log.info("Bucket %s was restored from its snapshot %s", bucket, order.snapshot)
        return {}


def _time(created_ms: int) -> str:
    return dt.datetime.fromtimestamp(created_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
