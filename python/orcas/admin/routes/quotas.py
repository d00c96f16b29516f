"""Quotas of buckets and owners over the admin API, under `/_orcas/admin/quotas`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI
from pydantic import Field

from orcas.admin.routes.orders import Name, Order
from orcas.control.quotas import read_quotas, write_quotas
from orcas.control.store import knows_identity
from orcas.engine import Core, Refusal

log = logging.getLogger("orcas")

_LIMIT_MAX: Final = (1 << 63) - 1
Limit = Annotated[int | None, Field(ge=0, le=_LIMIT_MAX)]


class QuotaBody(Order):
    """The quota of a bucket or of an owner. Without a limit, there is none."""

    bucket: Name | None = None
    owner: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    bytes: Limit = None
    objects: Limit = None


def add_quotas(app: FastAPI, core: Callable[[], Core], data: Callable[[], Path | None]) -> None:
    """Add these paths to the application. Not coroutines: a change waits for the disk, so FastAPI does it in a thread."""
    turn = threading.Lock()

    def directory() -> Path:
        found = data()
        if found is None:
            raise Refusal(409, "NoQuotas", "A store that is open for salvage has no quotas.")
        return found

    @app.get("/quotas", responses={409: {"description": "The store is open for salvage"}})
    def quotas() -> dict[str, Any]:
        """All quotas."""
        of_owners = read_quotas(directory())
        return {
            "buckets": [
                {"bucket": bucket, "bytes": size, "objects": objects}
                for bucket, size, objects in core().usage().bucket_quotas()
            ],
            "owners": [
                {"owner": owner, "bytes": size, "objects": objects}
                for owner, (size, objects) in sorted(of_owners.items())
            ],
        }

    @app.put("/quotas", responses={404: {"description": "There is no such bucket or owner"}})
    def put(order: Annotated[QuotaBody, Body()]) -> dict[str, Any]:
        """Set the quota of a bucket or an owner, in place of what it had."""
        if (order.bucket is None) == (order.owner is None):
            raise Refusal(400, "InvalidRequest", "Name either a bucket or an owner.")
        place = directory()
        usage = core().usage()
        if order.bucket is not None:
            usage.set_bucket_quota(order.bucket, order.bytes, order.objects)
            log.info("The quota of bucket %s was set", order.bucket)
            return {}
        sets = order.bytes is not None or order.objects is not None
        # The quota of one who is gone can be removed. Keys alone do not show an identity, nor does a command know them all.
        if sets and not usage.knows_owner(str(order.owner)) and not knows_identity(place, str(order.owner)):
            raise Refusal(404, "NoSuchOwner", "No owner has this id: `orcas usage --by owner` shows the ids of owners.")
        with turn:
            known = read_quotas(place)
            known.pop(str(order.owner), None)
            if sets:
                known[str(order.owner)] = (order.bytes, order.objects)
            write_quotas(place, known)
            usage.set_owner_quotas([(owner, *quota) for owner, quota in known.items()])
        log.info("The quota of owner %s was set", order.owner)
        return {}
