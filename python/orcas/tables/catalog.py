"""The catalog: namespaces, tables and views as objects of the bucket of their warehouse, and commits.

A table, or a view, is an object that points to its newest metadata file. That file is written first; then the object is put
in place of the one that was read, on the condition that it is still there. What depends on several objects (a namespace and
its tables, several tables) also takes turns in this process, which alone has the store open. Must not know HTTP, or who
calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from orcas.tables import metadata as of_tables
from orcas.tables import views as of_views
from orcas.tables.failures import (
    NO_NAMESPACE,
    NO_TABLE,
    NO_VIEW,
    TableError,
    committing,
    conflict,
    exists,
    invalid,
    missing,
)
from orcas.tables.names import (
    NAMESPACES,
    TABLES,
    TRANSACTIONS,
    VIEWS,
    Identifier,
    Namespace,
    Places,
    decoded,
    encoded,
    place_of,
    url,
)
from orcas.tables.objects import ChangedError, Copy, Objects, Stored, Written
from orcas.tables.warehouses import FORMAT, check_warehouse, document

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import CreateTableRequest, CreateViewRequest
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.view.metadata import ViewMetadata

# Attempts at a commit that others overtake: only other clients of the bucket can, since commits here take turns.
_ATTEMPTS: Final = 4
# Tables of one transaction.
CHANGES_MAX: Final = 100
# Bytes of the properties of a namespace.
_PROPERTIES_MAX: Final = 256 * 1024
_ABSENT: Final = {TABLES: NO_TABLE, VIEWS: NO_VIEW}
_KIND: Final = {TABLES: "Table", VIEWS: "View"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table, or a view, at present: the object that points to it, where its files are, and its metadata as stored."""

    etag: str
    place: str
    # Whether the catalog has made the place for this table alone.
    own: bool
    key: str
    text: bytes
    # The time of that object, as the header says it; empty if the table was not read.
    modified: str = ""

    def location(self, bucket: str) -> str:
        """The URL of the metadata file."""
        return url(bucket, self.key)


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does to a table. `place`: where the files of a table lie that it makes."""

    table: Identifier
    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]

    @property
    def creates(self) -> bool:
        """Whether there must be no such table."""
        return any(each.type == "assert-create" for each in self.requirements)


@dataclass(frozen=True, slots=True)
class _Made:
    """A change that is ready: the pointer that is to take the place of the one with the ETag, and the table then."""

    table: Identifier
    pointer: bytes
    etag: str | None
    result: Table


class Catalog:
    """The tables of all warehouses; used from one event loop."""

    def __init__(self, objects: Objects, places: Callable[[], Places]) -> None:
        self._objects, self._places = objects, places
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    async def check_warehouse(self, bucket: str) -> Stored:
        """As of `orcas.tables.warehouses`."""
        return await check_warehouse(self._objects, bucket)

    # Namespaces

    async def list_namespaces(
        self, bucket: str, parent: Namespace | None, after: str, limit: int
    ) -> tuple[list[Namespace], str | None]:
        """A page of the namespaces right below one, or of those of the first level, and where the next page begins."""
        prefix = NAMESPACES
        if parent is not None:
            await self.namespace(bucket, parent)
            prefix += f"{encoded(parent)}."
        page = await self._objects.page(bucket, prefix, delimiter=".", after=after, limit=limit)
        return [decoded(key.removeprefix(NAMESPACES)) for key in page.keys], page.next

    async def namespace(self, bucket: str, namespace: Namespace) -> dict[str, str]:
        """The properties of a namespace."""
        properties: dict[str, str] = document(await self._namespace(bucket, namespace))["properties"]
        return properties

    async def create_namespace(self, bucket: str, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace. The one above it must exist."""
        async with self.turn(bucket, (namespace, namespace[:-1])):
            if len(namespace) > 1:
                await self._namespace(bucket, namespace[:-1])
            try:
                await self._objects.put(bucket, _key(namespace), _properties(properties))
            except ChangedError:
                raise exists("Namespace", ".".join(namespace)) from None

    async def update_namespace(
        self, bucket: str, namespace: Namespace, updates: Mapping[str, str], removals: Iterable[str]
    ) -> tuple[list[str], list[str], list[str]]:
        """Change properties: the names of those that were set, were removed, and were to be removed but missing."""
        both = set(updates) & set(removals)
        if both:
            names = ", ".join(sorted(both))[:500]
            raise TableError(422, "UnprocessableEntityException", f"Set and removed at once: {names}.")
        async with self.turn(bucket, (namespace,)):
            found = await self._namespace(bucket, namespace)
            before: dict[str, str] = document(found)["properties"]
            after = {name: value for name, value in before.items() if name not in set(removals)} | dict(updates)
            try:
                await self._objects.put(bucket, _key(namespace), _properties(after), etag=found.etag)
            except ChangedError:
                raise conflict("The properties were changed meanwhile.") from None
        gone = [name for name in removals if name in before]
        return list(updates), gone, [name for name in removals if name not in before]

    async def drop_namespace(self, bucket: str, namespace: Namespace) -> None:
        """Drop a namespace that has nothing in it."""
        async with self.turn(bucket, (namespace,)):
            found = await self._namespace(bucket, namespace)
            below = encoded(namespace)
            for prefix in (f"{TABLES}{below}/", f"{VIEWS}{below}/", f"{_key(namespace)}."):
                if (await self._objects.page(bucket, prefix, limit=1)).keys:
                    message = f"The namespace {'.'.join(namespace)} is not empty."
                    raise TableError(409, "NamespaceNotEmptyException", message)
            try:
                await self._objects.delete(bucket, _key(namespace), found.etag)
            except ChangedError:
                raise conflict("The namespace was changed meanwhile.") from None

    # Tables and views

    async def names(
        self, bucket: str, namespace: Namespace, folder: str, after: str, limit: int
    ) -> tuple[list[Identifier], str | None]:
        """A page of the tables of a namespace, or of its views, and where the next page begins."""
        await self._namespace(bucket, namespace)
        prefix = f"{folder}{encoded(namespace)}/"
        page = await self._objects.page(bucket, prefix, after=after, limit=limit)
        return [Identifier(namespace, decoded(key.removeprefix(prefix))[0]) for key in page.keys], page.next

    async def load(self, bucket: str, table: Identifier, etag: str | None = None) -> Table:
        """A table, or a view; with `etag`, if this is still that of the object that points to it."""
        found = await self._find(bucket, table)
        if found is None:
            # Also without its namespace: clients then try a table of metadata, such as TABLE.files.
            raise missing(_ABSENT[table.folder], str(table))
        if etag is not None and found.etag != etag:
            raise conflict("The table was changed meanwhile.")
        return found

    async def exists(self, bucket: str, table: Identifier) -> bool:
        """Whether there is such a table, or such a view."""
        return await self._objects.get(bucket, table.key) is not None

    async def stage(
        self, bucket: str, table: Identifier, order: CreateTableRequest, place: str | None
    ) -> tuple[TableMetadata, str]:
        """The metadata of a table that is to be created by a commit, and its place; nothing is stored."""
        await self._check_free(bucket, table)
        place = place or self._places().new(bucket, table)
        return await asyncio.to_thread(of_tables.created, order, url(bucket, place)), place

    async def create(self, bucket: str, table: Identifier, order: CreateTableRequest, place: str | None) -> Table:
        """Create a table, in a place that was made for it if the client names none."""
        async with self.turn(bucket, (table.namespace, table)):
            made, place = await self.stage(bucket, table, order, place)
            return await self._create(bucket, table, made, place)

    async def create_view(self, bucket: str, view: Identifier, order: CreateViewRequest, place: str | None) -> Table:
        """Create a view, likewise."""
        async with self.turn(bucket, (view.namespace, view)):
            await self._check_free(bucket, view)
            place = place or self._places().new(bucket, view)
            return await self._create(bucket, view, of_views.created(order, url(bucket, place)), place)

    async def replace_view(self, bucket: str, view: Identifier, order: of_views.CommitViewRequest) -> Table:
        """Change a view."""
        for _ in range(_ATTEMPTS):
            async with self.turn(bucket, (view,)):
                former = await self.load(bucket, view)
                base, location = of_views.read(former.text), url(bucket, former.place)
                made = of_views.changed(base, order.requirements, order.updates, location)
                ready = await self._written(bucket, view, former, made, former.place)
                with contextlib.suppress(ChangedError):
                    await self._publish(bucket, ready)
                    return ready.result
        raise conflict("The view is changed too often: try again.")

    def made_here(self, bucket: str, table: Identifier, place: str) -> bool:
        """Whether the catalog has made a place for this table."""
        return self._places().made(bucket, table, place) is not None

    async def commit(self, bucket: str, changes: Sequence[Change]) -> list[Table]:
        """Change tables: all of them, or none."""
        for _ in range(_ATTEMPTS):
            creations = [each.table.namespace for each in changes if each.creates]
            async with self.turn(bucket, (*creations, *(each.table for each in changes))):
                ready = [await self._changed(bucket, each) for each in changes]
                try:
                    await self._publish(bucket, *ready)
                except ChangedError:
                    continue
                return [each.result for each in ready]
        raise conflict("The table is changed too often: try again.")

    async def register(self, bucket: str, table: Identifier, place: str, key: str, *, overwrite: bool) -> Table:
        """Make a table, or a view, of a metadata file that is there already."""
        async with self.turn(bucket, (table.namespace, table)):
            former = await self._find(bucket, table)
            if former is None or not overwrite:
                await self._check_free(bucket, table)
            text, _ = await self._metadata_file(bucket, table, place, key)
            own = former.own and former.place == place if former is not None else False
            return await self._pointed(bucket, table, former, Table("", place, own, key, text))

    async def point(self, bucket: str, table: Identifier, location: tuple[str, str], etag: str) -> Table:
        """Let a table have another of its metadata files, as the place and the key, if `etag` is still as of `load`."""
        async with self.turn(bucket, (table,)):
            former = await self.load(bucket, table, etag)
            place, key = location
            if place != former.place:
                raise invalid(f"The metadata files of {table} are below {url(bucket, former.place)}/metadata/.")
            text, known = await self._metadata_file(bucket, table, place, key)
            base = await asyncio.to_thread(of_tables.read, former.text)
            # A table that was made without columns gets its first metadata from its client, with an id of the client's.
            is_new = not (base.schema().fields or base.snapshots)
            if known.table_uuid != base.table_uuid and not is_new:
                raise invalid(f"This is not a metadata file of {table}: its table-uuid is another.")
            return await self._pointed(bucket, table, former, Table("", place, former.own, key, text))

    async def rename(self, bucket: str, source: Identifier, target: Identifier, *, etag: str | None = None) -> None:
        """Give a table, or a view, another name. Its files stay where they are. `etag`: as of `load`."""
        async with self.turn(bucket, (source.namespace, target.namespace, source, target)):
            found = await self.load(bucket, source, etag)
            await self._check_free(bucket, target, f"Cannot rename {source} to {target}. ")
            try:
                await self._objects.rename(bucket, source.key, target.key, found.etag)
            except ChangedError:
                raise conflict("The table was changed meanwhile.") from None

    async def drop(self, bucket: str, table: Identifier, *, purge: bool | None, etag: str | None = None) -> None:
        """Drop a table, or a view.

        `purge`: with its files, which only its own place has; None: if it has one. `etag`: as of `load`.
        """
        async with self.turn(bucket, (table,)):
            found = await self.load(bucket, table, etag)
            purge = found.own if purge is None else purge
            if purge and not found.own:
                raise invalid(
                    f"The files of {table} are in a place that was given to it, {url(bucket, found.place)}, and are not "
                    "deleted with it: drop it without them."
                )
            try:
                await self._objects.delete(bucket, table.key, found.etag)
            except ChangedError:
                raise conflict("The table was changed meanwhile.") from None
        if purge:
            await self._objects.delete_all(bucket, f"{found.place}/")

    # Parts

    async def _namespace(self, bucket: str, namespace: Namespace) -> Stored:
        found = await self._objects.get(bucket, _key(namespace))
        if found is None:
            raise missing(NO_NAMESPACE, ".".join(namespace))
        return found

    async def _check_free(self, bucket: str, name: Identifier, failed: str = "") -> None:
        """Whether something can be created: its namespace is there, and neither a table nor a view has its name.

        `failed`: what cannot be done otherwise.
        """
        await self._namespace(bucket, name.namespace)
        for folder, what in _KIND.items():
            if await self._objects.get(bucket, folder + name.path) is not None:
                other = "" if failed or folder == name.folder else " with same name"
                raise exists(f"{failed}{what}{other}", str(name))

    async def _find(self, bucket: str, table: Identifier) -> Table | None:
        found = await self._objects.get(bucket, table.key)
        if found is None:
            return None
        told = document(found)
        stored = await self._objects.get(bucket, told["metadata"])
        if stored is None:
            raise TableError(
                500, "NotFoundException", f"The metadata file {url(bucket, told['metadata'])} of {table} is missing."
            )
        return Table(found.etag, told["place"], told["own"], told["metadata"], stored.body, found.modified)

    async def _metadata_file(self, bucket: str, table: Identifier, place: str, key: str) -> tuple[bytes, Any]:
        """A metadata file that a client has written for a table, or for a view, and what it says."""
        of: Any = of_views if table.folder == VIEWS else of_tables
        found = await self._objects.get(bucket, key)
        if found is None:
            raise invalid("There is no such metadata file.")
        known = await asyncio.to_thread(of.read, found.body)
        of.check(known, url(bucket, place))
        return found.body, known

    async def _pointed(self, bucket: str, table: Identifier, former: Table | None, result: Table) -> Table:
        etag = None if former is None else former.etag
        try:
            etag = await self._publish(bucket, _Made(table, _pointer(result), etag, result))
        except ChangedError:
            raise conflict("The table was changed meanwhile.") from None
        return replace(result, etag=etag)

    async def _changed(self, bucket: str, change: Change) -> _Made:
        table, former = change.table, await self._find(bucket, change.table)
        if former is None:
            if not change.creates:
                raise missing(NO_TABLE, str(table))
            await self._check_free(bucket, table)
            asked = of_tables.asked_location(change.updates)
            place = self._places().new(bucket, table) if asked is None else place_of(asked, bucket)
            base, base_location = None, None
        else:
            if change.creates:
                raise exists("Requirement failed: table", str(table))
            place = former.place
            base = await asyncio.to_thread(of_tables.read, former.text)
            base_location = former.location(bucket)
        made = await asyncio.to_thread(
            of_tables.changed, base, base_location, change.requirements, change.updates, url(bucket, place)
        )
        if made == base:
            assert former is not None
            return _Made(table, _pointer(former), former.etag, former)
        return await self._written(bucket, table, former, made, place)

    async def _create(self, bucket: str, name: Identifier, made: TableMetadata | ViewMetadata, place: str) -> Table:
        ready = await self._written(bucket, name, None, made, place)
        try:
            etag = await self._publish(bucket, ready)
        except ChangedError:
            raise exists(_KIND[name.folder], str(name)) from None
        return replace(ready.result, etag=etag)

    async def _written(
        self, bucket: str, table: Identifier, former: Table | None, made: TableMetadata | ViewMetadata, place: str
    ) -> _Made:
        """Store metadata under a new name. The first file of a place that was made for a table has a name that only one
        table can take, so that no other table ever gets this place."""
        text = await asyncio.to_thread(of_tables.written, made)
        first = None if former is not None else self._places().made(bucket, table, place)
        version = 0 if former is None else of_tables.next_version(former.key)
        name = uuid.uuid4() if first is None else uuid.UUID(first)
        key = f"{place}/metadata/{version:05d}-{name}.metadata.json"
        try:
            await self._objects.put(bucket, key, text)
        except ChangedError:
            raise conflict(
                f"The location {url(bucket, place)} is that of another table: create the table anew."
            ) from None
        own = first is not None if former is None else former.own
        result = Table("", place, own, key, text)
        return _Made(table, _pointer(result), None if former is None else former.etag, result)

    async def _publish(self, bucket: str, *ready: _Made) -> str:
        """Let pointers show what is ready, all at once. The ETag of a single one.

        Raises:
            ChangedError: one is not as it was.
            TableError: the store has failed, so that nobody may know whether they do.
        """
        if len(ready) == 1:
            with committing():
                written = await self._objects.put(bucket, ready[0].table.key, ready[0].pointer, etag=ready[0].etag)
            return written.etag
        # The pointers are put together beside the tables, and one batch of the engine copies them.
        prefix = f"{TRANSACTIONS}{uuid.uuid4()}/"
        staged: list[tuple[str, Written]] = []
        copies = []
        try:
            for each in ready:
                key = prefix + each.table.path
                written = await self._objects.put(bucket, key, each.pointer)
                staged.append((key, written))
                copies.append(Copy(key, written.etag, each.table.key, each.etag))
            with committing():
                await self._objects.copy(bucket, bucket, copies)
        finally:
            for key, written in staged:
                # What is left, such as in a bucket with Object Lock, goes with the orphans.
                with contextlib.suppress(TableError):
                    await self._objects.forget(bucket, key, written.version)
        return ""

    @contextlib.asynccontextmanager
    async def turn(self, bucket: str, names: Iterable[Namespace | Identifier]) -> AsyncIterator[None]:
        """Wait until nobody else changes these. The order is the same for all, so that none waits for one that waits. A
        table and a view of one name take the same turn."""
        keys = sorted({TABLES + name.path if isinstance(name, Identifier) else _key(name) for name in names})
        async with contextlib.AsyncExitStack() as stack:
            for key in keys:
                lock = self._turns.setdefault((bucket, key), asyncio.Lock())
                await stack.enter_async_context(lock)
            yield


def _key(namespace: Namespace) -> str:
    return NAMESPACES + encoded(namespace)


def _pointer(table: Table) -> bytes:
    told = {"format": FORMAT, "metadata": table.key, "place": table.place, "own": table.own}
    return json.dumps(told).encode()


def _properties(properties: Mapping[str, str]) -> bytes:
    text = json.dumps({"format": FORMAT, "properties": dict(properties)}).encode()
    if len(text) > _PROPERTIES_MAX:
        raise invalid(f"The properties of a namespace have at most {_PROPERTIES_MAX} bytes.")
    return text
