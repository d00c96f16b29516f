"""Metadata of tables, as pyiceberg makes, changes and reads it: what a request makes of it, and what it must not say.

Everything that metadata names lies below the place of its table, the only one that its readers get keys for, and no
property tells a client to use another endpoint, other keys or other code. Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException, ResolveError, ValidationException
from pyiceberg.exceptions import ValidationError as MetadataError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetLocationUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.view.metadata import ViewMetadata

from orcas.tables.failures import conflict, invalid
from orcas.tables.objects import OBJECT_MAX

# Properties that clients take for settings of their own: of a table, whoever may change it would set them for its readers.
_CLIENTS: Final = (
    "adls.", "catalog-impl", "client.", "credential", "downcast-", "fs.", "gcs.", "hadoop.", "hdfs.", "header.", "hf.",
    "io-impl", "io.", "oauth2", "oss.", "py-catalog-impl", "py-io-impl", "rest.", "s3.", "s3tables.", "signer.", "token",
    "uri", "write.location-provider.impl", "write.py-location-provider.impl",
)  # fmt: skip
_PATHS: Final = (
    "write.data.path", "write.folder-storage.path", "write.metadata.path", "write.object-storage.path",
)  # fmt: skip

# Of what pyiceberg writes.
_FORMAT_MAX: Final = 2
# What pyiceberg raises about metadata that cannot be.
_SAID: Final = (
    ArithmeticError, AttributeError, LookupError, MetadataError, NotImplementedError, ResolveError, TypeError,
    ValidationException, ValueError,
)  # fmt: skip


def created(order: CreateTableRequest, location: str) -> TableMetadata:
    """The metadata of a new table.

    Raises:
        TableError: the request asks for what cannot be.
    """
    with refused():
        made = new_table_metadata(
            schema=order.table_schema, partition_spec=order.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            sort_order=order.write_order or UNSORTED_SORT_ORDER, location=location, properties=dict(order.properties),
        )  # fmt: skip
    check(made, location)
    return made


def changed(
    base: TableMetadata | None,
    base_location: str | None,
    requirements: Iterable[TableRequirement],
    updates: Iterable[TableUpdate],
    location: str,
) -> TableMetadata:
    """The metadata of a table after a commit; `base`: before it, None for a table that is made by it.

    Raises:
        TableError: a requirement does not hold, or an update cannot be made.
    """
    try:
        for requirement in requirements:
            requirement.validate(base)
    except CommitFailedException as error:
        raise conflict(_as_iceberg_says(str(error))) from None
    updates = tuple(updates)
    if base is not None:
        _check_refs(base, updates)
        updates = tuple(_renumbered(base, updates))
    with refused():
        made = update_table_metadata(
            base_metadata=MetastoreCatalog._empty_table_metadata() if base is None else base, updates=updates,
            enforce_validation=True, metadata_location=base_location,
        )  # fmt: skip
    check(made, location)
    return made


def _as_iceberg_says(failed: str) -> str:
    """What pyiceberg says of a requirement, in the words of Iceberg's own catalogs."""
    for word, theirs in (
        ("Table UUID does not match", "Requirement failed: UUID does not match"),
        ("current schema id has", "current schema"), ("default spec id has", "default partition spec"),
        ("default sort order id has", "default sort order"), ("assigned field id has", "assigned field id"),
        ("assigned partition id has", "assigned partition id"),
    ):  # fmt: skip
        failed = failed.replace(word, theirs)
    return failed


def _renumbered(base: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """The updates, with new numbers for sort orders of which somebody else has added others meanwhile.

    No requirement of a commit is about them; pyiceberg takes none twice.
    """
    known = {order.order_id: order for order in base.sort_orders}
    for update in updates:
        if isinstance(update, AddSortOrderUpdate) and update.sort_order.order_id in known:
            number = max(known) + 1
            known[number] = update.sort_order
            yield update.model_copy(update={"sort_order": update.sort_order.model_copy(update={"order_id": number})})
        else:
            yield update


def _check_refs(base: TableMetadata, updates: Iterable[TableUpdate]) -> None:
    """Whoever expires snapshots may not know of a branch or a tag that was made meanwhile; pyiceberg would remove it too.

    Raises:
        TableError: a commit removes the snapshot of one that it neither moves nor removes.
    """
    gone = {each for update in updates if isinstance(update, RemoveSnapshotsUpdate) for each in update.snapshot_ids}
    known = {each.ref_name for each in updates if isinstance(each, RemoveSnapshotRefUpdate | SetSnapshotRefUpdate)}
    for name, ref in base.refs.items():
        if ref.snapshot_id in gone and name not in known:
            raise conflict(f"The snapshot {ref.snapshot_id} is that of the {ref.snapshot_ref_type.value} {name}.")


def read(text: bytes) -> TableMetadata:
    """The metadata in a file.

    Raises:
        TableError: it is none.
    """
    with refused():
        return TableMetadataUtil.parse_raw(text.decode())


def written(metadata: TableMetadata | ViewMetadata) -> bytes:
    """The file of the metadata of a table, or of a view.

    Raises:
        TableError: it would be too large, or has a version of the format that pyiceberg does not write.
    """
    if metadata.format_version > _FORMAT_MAX:
        raise invalid(f"Tables that the catalog writes have the format version 1 or {_FORMAT_MAX}.")
    text: bytes = metadata.model_dump_json().encode()
    if len(text) > OBJECT_MAX:
        raise invalid(f"The metadata of a table has at most {OBJECT_MAX} bytes: expire snapshots.")
    return text


def asked_location(updates: Iterable[TableUpdate]) -> str | None:
    """The location that a commit gives its table."""
    found: list[str] = [update.location for update in updates if isinstance(update, SetLocationUpdate)]
    return found[-1].rstrip("/") if found else None


def next_version(location: str) -> int:
    """The number of the metadata file after this one."""
    version: int = MetastoreCatalog._parse_metadata_version(location)
    return version + 1


def check(metadata: TableMetadata, location: str) -> None:
    """Whether metadata says nothing that its readers must not follow.

    Raises:
        TableError: it names what is not below `location`, or has a property that is no table's.
    """
    if metadata.location.rstrip("/") != location:
        raise invalid(f"The location of this table is {location}, and stays.")
    check_properties(metadata.properties, location)
    for path in _named(metadata):
        if not _is_below(path, location):
            raise invalid(f"The files of this table are below {location}: {path[:200]} is not.")


def check_properties(properties: Mapping[str, str], location: str) -> None:
    """Whether properties are those of a table or a view, and no settings of whoever reads it.

    Raises:
        TableError: one is not.
    """
    for name, value in properties.items():
        if name.lower().startswith(_CLIENTS):
            raise invalid(f"{name[:100]} is a setting of clients, not a property of a table: set it where they run.")
        if name in _PATHS and not _is_below(str(value), location):
            raise invalid(f"{name} names a path below {location}, the only one that readers of the table get keys for.")


def _named(metadata: TableMetadata) -> Iterator[str]:
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
    for entry in metadata.metadata_log:
        yield entry.metadata_file
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path


def _is_below(path: str, location: str) -> bool:
    return path.startswith(f"{location}/") and not {".", ".."} & set(path.split("/"))


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What pyiceberg raises about what a client has sent."""
    try:
        yield
    except ValidationError as error:
        raise invalid(told(error)) from None
    except _SAID as error:
        said = " ".join(str(error)[:500].split()) or type(error).__name__
        raise invalid(f"The metadata cannot be so: {said}.") from None
    except RecursionError:
        raise invalid("The schema is nested too deeply.") from None


def told(error: ValidationError) -> str:
    """What is wrong first."""
    first: Any = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}."[:500]
