"""Branches of a warehouse: to change something in all of it, and then to keep that or to throw it away.

A branch is a fork of the bucket, whose paths go on to name the warehouse; its catalog gives out keys that reach the fork by
that name. Another fork, the *base*, stays as the warehouse was when the branch was made, so a comparison of the three says
who has changed what. Must not know HTTP, or who calls.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from orcas.engine import Refusal
from orcas.tables.catalog import Catalog
from orcas.tables.failures import TableError, committing, conflict, exists
from orcas.tables.names import (
    NAMESPACES,
    TABLES,
    VIEWS,
    WAREHOUSE,
    Identifier,
    Namespace,
    base_of,
    bucket_of,
    decoded,
    encoded,
    name_of,
    place_of,
    url,
)
from orcas.tables.objects import PAGE, ChangedError, Copy, Objects
from orcas.tables.warehouses import check_warehouse, document

if TYPE_CHECKING:
    from orcas.engine import Core

_KINDS: Final = {NAMESPACES: "namespace", TABLES: "table", VIEWS: "view"}
_BESIDE: Final = {TABLES: VIEWS, VIEWS: TABLES}
_TAKEN: Final = ("BucketAlreadyExists", "BucketAlreadyOwnedByYou")
# Characters of a refusal.
_SAID_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class Change:
    """A namespace, table or view that is not the same in a branch and its warehouse: the ETags of the object that stands for
    it, in the base, the branch and the warehouse. None: there is none."""

    key: str
    base: str | None
    branch: str | None
    now: str | None

    @property
    def by(self) -> str:
        """Where it was changed: in the `branch`, in the `warehouse` or in `both`."""
        if self.now == self.base:
            return "branch"
        return "warehouse" if self.branch == self.base else "both"

    @property
    def how(self) -> str:
        """What became of it there: it was `created`, `changed` or `dropped`."""
        if (self.now if self.by == "warehouse" else self.branch) is None:
            return "dropped"
        return "created" if self.base is None else "changed"

    @property
    def folder(self) -> str:
        """The prefix of the objects of its kind."""
        return next(each for each in _KINDS if self.key.startswith(each))

    @property
    def path(self) -> str:
        """The rest of the key."""
        return self.key.removeprefix(self.folder)

    @property
    def namespace(self) -> Namespace:
        """The one that it is in, or itself."""
        return decoded(self.path.partition("/")[0])

    @property
    def name(self) -> Namespace | Identifier:
        """What takes a turn in the catalog."""
        if self.folder == NAMESPACES:
            return self.namespace
        return Identifier(self.namespace, decoded(self.path.partition("/")[2])[0], self.folder)

    def __str__(self) -> str:
        return str(self.name) if isinstance(self.name, Identifier) else ".".join(self.name)

    def unfit(self, warehouse: str, known: Collection[str]) -> str | None:
        """Why it cannot be merged into a warehouse that has these objects, if so."""
        above = self.namespace[:-1] if self.folder == NAMESPACES else self.namespace
        if self.by == "both":
            return f"was changed in {warehouse} too"
        if self.branch is None:
            return f"was dropped or renamed in the branch: do the same in {warehouse}"
        if above and NAMESPACES + encoded(above) not in known:
            return f"is in a namespace that was dropped in {warehouse}"
        if self.folder in _BESIDE and _BESIDE[self.folder] + self.path in known:
            return f"has the name of a {_KINDS[_BESIDE[self.folder]]} in {warehouse}"
        return None


class Branches:
    """The branches of all warehouses; used from one event loop. A branch is named `lake@b1`. `core`: of the open store."""

    def __init__(self, objects: Objects, catalog: Catalog, core: Callable[[], Core]) -> None:
        self._objects, self._catalog, self._core = objects, catalog, core

    async def names(self, warehouse: str) -> list[str]:
        """The branches of a warehouse."""
        await check_warehouse(self._objects, warehouse)
        start, known = f"{bucket_of(warehouse)}--", set(self._core().bucket_names())
        bases = sorted(name for name in known if name.startswith(start) and name.endswith("--base"))
        named = [f"{warehouse}@{name.removeprefix(start).removesuffix('--base')}" for name in bases]
        return [each for each in named if await self._is_of(each, warehouse)]

    async def create(self, branch: str, snapshot: str | None) -> None:
        """Make a branch of a warehouse as it is now, or of a snapshot of its bucket.

        Raises:
            TableError: there is one, or there can be none.
        """
        warehouse, base = name_of(branch), base_of(branch)
        await check_warehouse(self._objects, warehouse)
        await self._check_unlocked(warehouse)
        # The base comes first and goes last: no branch is without one.
        await self._fork(warehouse, snapshot, base, branch)
        try:
            await self._fork(base, None, bucket_of(branch), branch)
        except TableError:
            await asyncio.to_thread(self._core().drop_bucket, base)
            raise

    async def drop(self, branch: str) -> None:
        """Drop a branch with all that was done in it, or what is left of one.

        Raises:
            TableError: there is none, or it must not go.
        """
        base = base_of(branch)
        found = [each for each in (branch, base) if await self._is_of(each, name_of(branch))]
        if not found:
            raise _no_branch(branch)
        for each in found:
            await self._check_unlocked(each)
        for each in found:
            await asyncio.to_thread(self._core().drop_bucket, bucket_of(each))

    async def changes(self, branch: str, *, counted: bool) -> list[dict[str, Any]]:
        """How a branch and its warehouse differ; `counted`: with snapshots and rows, for which all that differs is read."""
        return [await self._shown(branch, each, counted) for each in (await self._compared(branch))[0]]

    async def merge(self, branch: str) -> list[str]:
        """Make a warehouse have what was changed in a branch. The names of what was merged.

        Files are copied first; if the rest fails, they are left as those of a lost commit are. Then all that was changed is
        put in place of what was there, in one batch of the engine.

        Raises:
            TableError: something cannot be merged, and nothing was.
        """
        warehouse = name_of(branch)
        found, known = await self._compared(branch)
        changes = [each for each in found if each.by != "warehouse"]
        if not changes:
            return []
        if len(changes) > PAGE:
            raise conflict(
                f"Nothing was merged: {branch} has changed {len(changes)} names, and at most {PAGE} are merged."
            )
        files = await self._ready(branch, changes, known)
        turns = [name for each in changes for name in (each.name, each.namespace)]
        try:
            for at in range(0, len(files), PAGE):
                await self._objects.copy(branch, warehouse, files[at : at + PAGE])
            async with self._catalog.turn(warehouse, turns):
                # The engine compares what is changed itself, and not what must stay beside it.
                now = await self._state(warehouse)
                if any(each.unfit(warehouse, {*now, *(each.key for each in changes)}) for each in changes):
                    raise ChangedError
                copies = [Copy(each.key, str(each.branch), each.key, each.now) for each in changes]
                with committing():
                    await self._objects.copy(branch, warehouse, copies)
        except ChangedError:
            raise conflict("The branch or the warehouse was changed meanwhile: try again.") from None
        return [str(each) for each in changes]

    # Parts

    async def _fork(self, source: str, snapshot: str | None, bucket: str, branch: str) -> None:
        try:
            await asyncio.to_thread(self._core().fork_bucket, source, snapshot, bucket)
        except Refusal as refusal:
            status, code, message = refusal.args
            if code in _TAKEN:
                raise exists("Branch, or a bucket of its name,", f"{branch}, {bucket}") from None
            if code == "NoSuchSnapshot":
                raise TableError(
                    404, code, f"There is no snapshot {snapshot}: `orcas snapshot list {source}` shows those there are."
                ) from None
            raise TableError(status, code, message) from None

    async def _is_of(self, bucket: str, warehouse: str) -> bool:
        """Whether a bucket says that it is a warehouse, of this name."""
        try:
            found = await self._objects.get(bucket, WAREHOUSE)
        except TableError:
            # It is another account's.
            return False
        return found is not None and document(found).get("name") == warehouse

    async def _check_unlocked(self, bucket: str) -> None:
        """A branch is dropped with all that it has, which Object Lock forbids."""
        if await self._objects.has_locks(bucket):
            raise TableError(
                406, "UnsupportedOperationException", f"{bucket} has Object Lock: its branches could not be dropped."
            )

    async def _compared(self, branch: str) -> tuple[list[Change], dict[str, str]]:
        """What differs, and what there is in the warehouse."""
        warehouse, base = name_of(branch), base_of(branch)
        for each in (warehouse, branch):
            await check_warehouse(self._objects, each)
        if not await self._is_of(base, warehouse):
            raise TableError(
                409,
                "BadRequestException",
                f"The bucket {base}, by which {branch} is compared, is gone: drop the branch.",
            )
        before, here, now = [await self._state(each) for each in (base, branch, warehouse)]
        keys = sorted(key for key in {*here, *now} if here.get(key) != now.get(key))
        return [Change(key, before.get(key), here.get(key), now.get(key)) for key in keys], now

    async def _state(self, bucket: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for prefix in _KINDS:
            found |= await self._objects.etags(bucket, prefix)
        return found

    async def _shown(self, branch: str, change: Change, counted: bool) -> dict[str, Any]:
        shown = {"name": str(change), "kind": _KINDS[change.folder], "change": change.how, "by": change.by}
        if change.folder != TABLES or not counted:
            return shown
        here, there = [await self._snapshots(each, change.key) for each in (branch, name_of(branch))]
        return {**shown, "branch": _counted(here, there), "warehouse": _counted(there, here)}

    async def _snapshots(self, bucket: str, key: str) -> dict[int, Mapping[str, Any]]:
        """The summaries of the snapshots of a table, if it is there, by their ids."""
        found = await self._objects.get(bucket, key)
        stored = None if found is None else await self._objects.get(bucket, document(found)["metadata"])
        told = {} if stored is None else json.loads(stored.body)
        return {each["snapshot-id"]: each.get("summary") or {} for each in told.get("snapshots", [])}

    async def _ready(self, branch: str, changes: list[Change], known: Collection[str]) -> list[Copy]:
        """The files that have to be copied before a merge.

        Raises:
            TableError: something cannot be merged; all of it is named.
        """
        files: list[Copy] = []
        refused = []
        # Copies are encrypted as what they are copies of.
        if len({await self._objects.encryption(each) for each in (base_of(branch), branch, name_of(branch))}) > 1:
            raise conflict(
                f"Nothing was merged: the default encryption of {branch} or of {name_of(branch)} was changed since the "
                "branch was made."
            )
        there = {*known, *(each.key for each in changes)}
        for each in changes:
            why = each.unfit(name_of(branch), there)
            if why is None and each.folder != NAMESPACES:
                found = await self._objects.get(branch, each.key)
                if found is None or found.etag != each.branch:
                    raise conflict("The branch was changed meanwhile: try again.")
                new, why = await self._new_files(branch, each, document(found))
                files += new
            if why is not None:
                refused.append(f"{each} {why}")
        if refused:
            raise conflict(f"Nothing was merged: {'; '.join(refused)[:_SAID_MAX]}.")
        return files

    async def _new_files(self, branch: str, change: Change, pointer: dict[str, Any]) -> tuple[list[Copy], str | None]:
        """The files of a table that its warehouse lacks; and why it cannot be merged, if so.

        Readers of a table get keys for its place. So also in a branch, a table must not have got that of another one.
        """
        warehouse, place = name_of(branch), str(pointer["place"])
        place_of(url(branch, place), branch)
        former = await self._objects.get(warehouse, change.key)
        is_same = former is not None and document(former)["place"] == place
        before, here, now = [
            await self._objects.etags(each, f"{place}/") for each in (base_of(branch), branch, warehouse)
        ]
        # What an attempt at this merge has copied before is there as it is in the branch.
        new = [key for key, etag in now.items() if etag not in (before.get(key), here.get(key))]
        if not str(pointer["metadata"]).startswith(f"{place}/metadata/") or ((before or new) and not is_same):
            return [], f"has files in a place that was another's: register it in {warehouse}"
        if any(here.get(key, etag) != etag for key, etag in before.items()):
            return [], "has files that were overwritten in the branch"
        if any(key in here for key in new):
            return [], f"has files that were written in {warehouse} too"
        return [Copy(key, etag, key, None) for key, etag in here.items() if key not in now], None


def _counted(mine: Mapping[int, Mapping[str, Any]], others: Collection[int]) -> dict[str, int]:
    """The snapshots of one side that the other has not, and the rows that they say they have added and removed."""
    own = [summary for number, summary in mine.items() if number not in others]

    def rows(name: str) -> int:
        said = (str(each.get(name, "")) for each in own)
        return sum(int(count) for count in said if count.isdecimal())

    return {"snapshots": len(own), "added": rows("added-records"), "removed": rows("deleted-records")}


def _no_branch(branch: str) -> TableError:
    return TableError(404, "NoSuchWarehouseException", f"There is no branch {branch}.")
