"""Warehouses: buckets with an object that says that they are one. Must not know tables, nor import what reads them."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from orcas.tables.failures import TableError, invalid
from orcas.tables.names import STATE, WAREHOUSE, name_of
from orcas.tables.objects import ChangedError, Objects, Stored

FORMAT: Final = 1


def marker(bucket: str) -> bytes:
    """The object that makes a bucket a warehouse."""
    return json.dumps({"format": FORMAT, "name": bucket}).encode()


async def create_warehouse(objects: Objects, bucket: str) -> None:
    """Make a bucket a warehouse, and create it if there is none.

    Raises:
        TableError: it cannot be one.
    """
    if name_of(bucket) != bucket:
        raise invalid(f"{bucket} is a branch: `orcas table branch create` makes one.")
    await objects.create_bucket(bucket)
    with contextlib.suppress(ChangedError):
        await objects.put(bucket, WAREHOUSE, marker(bucket))
    await check_warehouse(objects, bucket)


async def check_warehouse(objects: Objects, bucket: str) -> Stored:
    """The object that makes a bucket a warehouse, or a branch of one, under the name that the paths of its tables have.

    Raises:
        TableError: it is none.
    """
    found = await objects.get(bucket, WAREHOUSE)
    if found is None:
        what = f"The bucket {bucket} is no warehouse" if name_of(bucket) == bucket else f"There is no branch {bucket}"
        raise TableError(404, "NoSuchWarehouseException", f"{what}.")
    told = document(found)
    if told.get("format") != FORMAT:
        raise invalid(f"Another version of Orcas has made the warehouse {bucket}.")
    if told.get("name") != name_of(bucket):
        raise invalid(
            f"The bucket {bucket} is a copy of the warehouse {told.get('name')}, whose name is in the paths of its tables."
        )
    return found


def document(stored: Stored) -> dict[str, Any]:
    """What an object of the catalog says.

    Raises:
        TableError: it is not the catalog's.
    """
    try:
        found = json.loads(stored.body)
    except (RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise TableError(
            500, "InternalServerError", f"An object below {STATE} was overwritten, and is not the catalog's."
        )
    return found
