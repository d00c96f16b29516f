"""Metadata of views, and what requests make of it: pyiceberg has models of it and of most changes, but makes none.

A view has versions, of which one is current; it names no files. Pure.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from pyiceberg.catalog.rest import CreateViewRequest
from pyiceberg.schema import Schema
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.view.metadata import ViewHistoryEntry, ViewMetadata, ViewVersion

from orcas.tables.failures import TableError, conflict, invalid
from orcas.tables.metadata import check_properties, refused

# The property that says how many versions a view keeps, and how many without it.
_KEEP: Final = "version.history.num-entries"
_KEPT: Final = 10
# What stands for the schema or the version that the same request has added.
_ADDED: Final = -1


class AddViewVersionUpdate(BaseModel):
    """A version is added."""

    action: Literal["add-view-version"]
    version: ViewVersion = Field(alias="view-version")


class SetCurrentViewVersionUpdate(BaseModel):
    """A version becomes the current one."""

    action: Literal["set-current-view-version"]
    id: int = Field(alias="view-version-id")


class AssertViewUUID(BaseModel):
    """The view must be this one."""

    type: Literal["assert-view-uuid"]
    uuid: uuid.UUID


ViewUpdate = Annotated[
    AssignUUIDUpdate
    | UpgradeFormatVersionUpdate
    | AddSchemaUpdate
    | SetLocationUpdate
    | SetPropertiesUpdate
    | RemovePropertiesUpdate
    | AddViewVersionUpdate
    | SetCurrentViewVersionUpdate,
    Field(discriminator="action"),
]


class CommitViewRequest(BaseModel):
    """Changes of a view."""

    requirements: list[AssertViewUUID] = Field(default_factory=list)
    updates: list[ViewUpdate]


def created(order: CreateViewRequest, location: str) -> ViewMetadata:
    """The metadata of a new view.

    Raises:
        TableError: the request asks for what cannot be.
    """
    with refused():
        version = order.view_version.model_copy(update={"version_id": 1, "schema_id": 0})
        made = _metadata(
            str(uuid.uuid4()), location, [order.view_schema.model_copy(update={"schema_id": 0})], [version], 1,
            [_entry(version)], dict(order.properties),
        )  # fmt: skip
    check(made, location)
    return made


def changed(
    base: ViewMetadata, requirements: Iterable[AssertViewUUID], updates: Iterable[Any], location: str
) -> ViewMetadata:
    """The metadata of a view after a commit.

    Raises:
        TableError: a requirement does not hold, or an update cannot be made.
    """
    if any(each.uuid != uuid.UUID(base.view_uuid) for each in requirements):
        raise conflict("The view is another one: it was dropped and created anew.")
    with refused():
        change = _Change(base, location)
        for update in updates:
            change.make(update)
        made = change.done()
    check(made, location)
    return made


def read(text: bytes) -> ViewMetadata:
    """The metadata in a file.

    Raises:
        TableError: it is none.
    """
    with refused():
        return ViewMetadata.model_validate_json(text)


def check(metadata: ViewMetadata, location: str) -> None:
    """Whether metadata says of a view at `location` what its readers may follow.

    Raises:
        TableError: it does not.
    """
    if metadata.location.rstrip("/") != location:
        raise invalid(f"The location of this view is {location}, and stays.")
    check_properties(metadata.properties, location)
    schemas = {each.schema_id for each in metadata.schemas}
    if metadata.current_version_id not in {each.version_id for each in metadata.versions}:
        raise invalid(f"The view has no version {metadata.current_version_id}.")
    for version in metadata.versions:
        if version.schema_id not in schemas:
            raise invalid(f"The view has no schema {version.schema_id}.")
        dialects = [each.root.dialect.lower() for each in version.representations]
        if twice := next((each for each in dialects if dialects.count(each) > 1), None):
            said = f"Invalid view version: Cannot add multiple queries for dialect {twice[:100]}"
            # The type by which Iceberg's clients know it.
            raise TableError(400, "IllegalArgumentException", said)


class _Change:
    """The parts of a view while a commit changes them."""

    def __init__(self, base: ViewMetadata, location: str) -> None:
        self._base, self._location = base, location
        self._schemas, self._versions, self._log = [*base.schemas], [*base.versions], [*base.version_log]
        self._properties, self._current = dict(base.properties), base.current_version_id
        self._schema: int | None = None
        self._version: ViewVersion | None = None

    def make(self, update: Any) -> None:
        """Carry out one update."""
        match update:
            case AssignUUIDUpdate() if update.uuid != uuid.UUID(self._base.view_uuid):
                raise invalid("The UUID of a view stays.")
            case UpgradeFormatVersionUpdate() if update.format_version != 1:
                raise invalid("Views have the version 1 of their format.")
            case SetLocationUpdate() if update.location.rstrip("/") != self._location:
                raise invalid(f"The location of this view is {self._location}, and stays.")
            case SetPropertiesUpdate():
                self._properties |= update.updates
            case RemovePropertiesUpdate():
                self._properties = {
                    name: said for name, said in self._properties.items() if name not in update.removals
                }
            case AddSchemaUpdate():
                self._schema = self._add_schema(update.schema_)
            case AddViewVersionUpdate():
                self._version = self._add_version(update.version)
            case SetCurrentViewVersionUpdate():
                self._set_current(update.id)

    def done(self) -> ViewMetadata:
        """The view then, with its newest versions."""
        count = max(1, int(self._properties.get(_KEEP, _KEPT)))
        newest = sorted(each.version_id for each in self._versions)[-count:]
        kept = {*newest, self._current}
        return _metadata(
            self._base.view_uuid, self._location, self._schemas,
            [each for each in self._versions if each.version_id in kept], self._current,
            [each for each in self._log if each.version_id in kept], self._properties,
        )  # fmt: skip

    def _add_schema(self, schema: Schema) -> int:
        # Schemas are equal if their columns are.
        known: int | None = next((each.schema_id for each in self._schemas if each == schema), None)
        if known is None:
            known = max(each.schema_id for each in self._schemas) + 1
            self._schemas.append(schema.model_copy(update={"schema_id": known}))
        return known

    def _add_version(self, version: ViewVersion) -> ViewVersion:
        schema = self._schema if version.schema_id == _ADDED else version.schema_id
        if schema is None:
            raise invalid("The request adds no schema.")
        number = max(version.version_id, *(each.version_id + 1 for each in self._versions))
        added = version.model_copy(update={"version_id": number, "schema_id": schema})
        self._versions.append(added)
        return added

    def _set_current(self, wanted: int) -> None:
        if wanted == _ADDED:
            if self._version is None:
                raise invalid("The request adds no version.")
            self._current = self._version.version_id
            self._log.append(_entry(self._version))
        elif wanted != self._current:
            self._current = wanted
            self._log.append(_logged(int(time.time() * 1000), wanted))


def _entry(version: ViewVersion) -> ViewHistoryEntry:
    return _logged(version.timestamp_ms, version.version_id)


def _logged(time_ms: int, version: int) -> ViewHistoryEntry:
    return ViewHistoryEntry.model_validate({"timestamp-ms": time_ms, "version-id": version})


def _metadata(
    view_uuid: str,
    location: str,
    schemas: list[Schema],
    versions: list[ViewVersion],
    current: int,
    log: list[ViewHistoryEntry],
    properties: dict[str, str],
) -> ViewMetadata:
    return ViewMetadata.model_validate({
        "view-uuid": view_uuid, "format-version": 1, "location": location, "schemas": schemas,
        "current-version-id": current, "versions": versions, "version-log": log, "properties": properties,
    })  # fmt: skip
