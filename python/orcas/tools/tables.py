"""Tables of a warehouse as its objects have them, rollbacks, and upkeep: snapshots that expire, files that nothing names.

A table is named as its keys have it. Must not know commands.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote

from orcas.errors import ConfigurationError, UsageError
from orcas.tables import MOUNT, NEEDED
from orcas.tables.failures import TableError
from orcas.tables.names import TABLES, TRANSACTIONS, bucket_of, decoded, url
from orcas.tools.objects import key_of, listed, opened, pages
from orcas.tools.session import RefusedError, Session
from orcas.tools.transfers.places import Place
from orcas.tools.transfers.removal import Removed, remove

_METADATA_MAX: Final = 64 << 20
_FILE_MAX: Final = 256 << 20
# What pyiceberg raises about a file that is no manifest.
_UNREADABLE: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, OSError, SystemError, TypeError, ValueError,
)  # fmt: skip
# Clients write any of them for S3.
_SCHEME: Final = re.compile(r"s3[an]?://")


@dataclass(frozen=True)
class Found:
    """A table: where its files are, whether the catalog chose that, the URL of its newest metadata file, what that says."""

    place: str
    own: bool
    location: str
    metadata: dict[str, Any]


def bucket_named(warehouse: str) -> str:
    """The bucket of a warehouse, or of a branch of one.

    Raises:
        UsageError: no branch can have that name.
    """
    try:
        return bucket_of(warehouse)
    except TableError as error:
        raise UsageError(error.message) from None


def ask(session: Session, method: str, warehouse: str, what: str, order: dict[str, Any] | None) -> dict[str, Any]:
    """A request to the catalog about the branches of a warehouse, or about one.

    Raises:
        RefusedError: the answer is an error.
    """
    # As it is signed: with @.
    path = f"{MOUNT}/branches/{quote(warehouse, safe='@')}{what}"
    body = b"" if order is None else json.dumps(order).encode()
    with session.request(method, path, "", body) as answer:
        return session.document(answer.status, answer.read())


def _read(session: Session, warehouse: str, key: str) -> dict[str, Any] | None:
    with opened(session, bucket_named(warehouse), key.encode()) as found:
        return None if found is None else json.loads(found.answer.read(_METADATA_MAX))


def key_of_table(table: str) -> str:
    """The key of the object that points to a table, which is named NAMESPACE.TABLE.

    Raises:
        UsageError: no namespace is named.
    """
    namespace, _, name = table.rpartition(".")
    if not namespace:
        raise UsageError(f"{table} has no namespace: write NAMESPACE.TABLE.")
    return f"{TABLES}{namespace}/{name}"


def table_of(session: Session, warehouse: str, table: str) -> Found:
    """A table, named NAMESPACE.TABLE.

    Raises:
        UsageError: there is no such table.
    """
    pointer = _read(session, warehouse, key_of_table(table))
    if pointer is None:
        raise UsageError(f"There is no table {table} in {warehouse}: `orcas table list {warehouse}` shows them.")
    return _pointed(session, warehouse, table, pointer)


def _pointed(session: Session, warehouse: str, table: str, pointer: dict[str, Any]) -> Found:
    metadata = _read(session, warehouse, pointer["metadata"])
    if metadata is None:
        raise UsageError(
            f"The metadata file {pointer['metadata']} of {table} is missing: `orcas fsck` checks the store."
        )
    return Found(pointer["place"], pointer["own"], url(warehouse, pointer["metadata"]), metadata)


def expire(session: Session, warehouse: str, table: str, metadata: dict[str, Any], snapshots: list[int]) -> None:
    """Remove snapshots of a table, by a commit.

    Raises:
        RefusedError: the catalog refuses it.
    """
    _commit(session, warehouse, table, metadata, [], {"action": "remove-snapshots", "snapshot-ids": snapshots})


def rollback(
    session: Session, warehouse: str, table: str, to: int | dt.datetime, *, force: bool, dry_run: bool
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Make a former snapshot of a table its current one, by a commit. The current one before and after it.

    Args:
        session: with the store.
        warehouse: of the table.
        table: its name.
        to: the id of the snapshot, or a time: the newest from then or before, of the current one and its ancestors.
        force: also to one that is no ancestor of the current one.
        dry_run: only find it.

    Raises:
        UsageError: there is no such table or snapshot, or the snapshot is no ancestor.
        RefusedError: the catalog refuses it, such as after a commit of somebody else meanwhile.
    """
    metadata = table_of(session, warehouse, table).metadata
    line = _line(metadata)
    if isinstance(to, dt.datetime):
        to_ms = to.timestamp() * 1000
        after = next((each for each in line if each["timestamp-ms"] <= to_ms), None)
        if after is None:
            raise UsageError(
                f"{table} has no snapshot from {to.isoformat()} or before: `orcas table history {warehouse} {table}` shows "
                "those there are."
            )
    else:
        after = next((each for each in metadata.get("snapshots", []) if each["snapshot-id"] == to), None)
        if after is None:
            raise UsageError(
                f"{table} has no snapshot {to}: `orcas table history {warehouse} {table}` shows those there are."
            )
        if after not in line and not force:
            raise UsageError(f"The snapshot {to} is no ancestor of the current one of {table}: --force sets it anyway.")
    before = line[0] if line else None
    if after != before and not dry_run:
        at = None if before is None else before["snapshot-id"]
        # With what the branch says about its snapshots.
        main = metadata.get("refs", {}).get("main", {}) | {"type": "branch", "snapshot-id": after["snapshot-id"]}
        _commit(
            session, warehouse, table, metadata,
            [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": at}],
            {**main, "action": "set-snapshot-ref", "ref-name": "main"},
        )  # fmt: skip
    return before, after


def _line(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The current snapshot of a table and its ancestors, the newest first."""
    left = {each["snapshot-id"]: each for each in metadata.get("snapshots", [])}
    found, at = [], metadata.get("current-snapshot-id")
    # Each once: metadata from elsewhere may have parents in a circle.
    while (snapshot := left.pop(at, None)) is not None:
        found.append(snapshot)
        at = snapshot.get("parent-snapshot-id")
    return found


def _commit(
    session: Session,
    warehouse: str,
    table: str,
    metadata: dict[str, Any],
    requirements: list[Any],
    update: dict[str, Any],
) -> None:
    namespace, _, name = table.rpartition(".")
    change = {
        "identifier": {"namespace": list(decoded(namespace)), "name": decoded(name)[0]},
        "requirements": [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *requirements],
        "updates": [update],
    }
    path = f"{MOUNT}/v1/{quote(warehouse, safe='@')}/transactions/commit"
    with session.request("POST", path, "", json.dumps({"table-changes": [change]}).encode()) as answer:
        if answer.status != 204:
            error = session.document(200, answer.read()).get("error", {})
            said = str(error.get("message", f"status {answer.status}")).removesuffix(".")
            raise RefusedError(
                answer.status, f"The catalog refused the commit ({said}): remove the cause, and try again."
            )


def remove_orphans(
    session: Session, warehouse: str, table: str, before: dt.datetime, line: Callable[[Place], None], *, dry_run: bool
) -> Removed:
    """Delete the files in the place of a table that were written before a time and that nothing names, or only count them.

    So are pointers that a transaction has left when the server was killed. The files are listed before what names files is
    read, so that of a commit in between, nothing is deleted.

    Raises:
        ConfigurationError: pyiceberg is missing.
        UsageError: there is no such table, or its place may have other files.
        RefusedError: what names files cannot be read, or is another meanwhile. Nothing is deleted then.
    """
    if find_spec("pyiceberg") is None:
        raise ConfigurationError(NEEDED)
    found = table_of(session, warehouse, table)
    if not found.own:
        raise UsageError(
            f"The place of {table}, {url(warehouse, found.place)}, was given to it and may have files of others: delete "
            "its orphans with the program that named it."
        )
    prefixes = (f"{found.place}/".encode(), TRANSACTIONS.encode())
    bucket = bucket_named(warehouse)
    old = [key for prefix in prefixes for key in _older(session, bucket, prefix, before)]
    live = _live(session, warehouse, table, found.place)
    orphans = ((key, "") for key in old if key.decode(errors="replace") not in live)
    return remove(session, bucket, orphans, line, dry_run=dry_run)


def _older(session: Session, warehouse: str, prefix: bytes, before: dt.datetime) -> Iterator[bytes]:
    for document in pages(session, warehouse, prefix):
        for entry in document.iterfind("{*}Contents"):
            if dt.datetime.fromisoformat(entry.findtext("{*}LastModified") or "") < before:
                yield key_of(document, entry)


def _live(session: Session, warehouse: str, table: str, place: str) -> set[str]:
    """The keys that are named by a table and by all others whose place is its own, or above or below it."""
    from orcas.tables.manifests import named

    bucket, start = bucket_named(warehouse), url(warehouse, "").removeprefix("s3://")

    def read(location: str) -> bytes:
        of, _, key = _SCHEME.sub("", location).partition("/")
        # In a branch, the name of the warehouse stands for it.
        with opened(session, bucket if f"{of}/" == start else of, key.encode()) as found:
            if found is None:
                raise RefusedError(
                    404, f"{location} is missing, so nothing is deleted: `orcas fsck` says what is lost."
                )
            return found.answer.read(_FILE_MAX)

    keys, urls = [entry.key.decode() for entry in listed(session, bucket, TABLES.encode())], set()
    pointers = {key: _read(session, warehouse, key) for key in keys}
    for key, pointer in {key_of_table(table): None, **pointers}.items():
        # It may name files under its new name, or if it is registered again.
        if pointer is None:
            raise RefusedError(409, f"{key} was dropped or renamed meanwhile, so nothing is deleted: try again.")
        other = pointer["place"]
        if f"{other}/".startswith(f"{place}/") or f"{place}/".startswith(f"{other}/"):
            found = _pointed(session, warehouse, key, pointer)
            try:
                urls |= named(found.location, found.metadata, read)
            except _UNREADABLE as error:
                raise RefusedError(
                    500, f"The manifests of {key} cannot be read ({error}), so nothing is deleted: restore them."
                ) from None
    return {_SCHEME.sub("", each).removeprefix(start) for each in urls}
