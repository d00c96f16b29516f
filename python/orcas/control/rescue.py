"""What can be saved of a damaged `control.db` and its copy: a new database of the rows whose digests hold.

What is damaged in both is left out, and what it decided denies: its user, group, role or policy has the document `DENIAL`
from then on, which only an administrator removes. What the copy has is believed if the digests of the database or the audit
log say that it is what was written last. Must not know the engine.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orcas.control.digests import AUDIT, DIGEST_BYTES, LIMITS, TABLES, Digests, Rows, text
from orcas.control.files.audit import newest_audit
from orcas.control.identities.builtin import BUILTIN
from orcas.control.identities.names import NAME, PATH, PROVIDER, account_number, arn_of, kind_of
from orcas.control.identities.schema import SCHEMA, SCHEMA_VERSION
from orcas.errors import UnavailableError

# What reading a database raises. Python decodes SQLite's messages, which may quote damaged text.
FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)
# What takes the place of rights that are lost, and the name of the policy that has it.
DENIAL: Final = (
    '{"Version":"2012-10-17","Statement":[{"Sid":"OrcasDamaged","Effect":"Deny","Action":"*","Resource":"*"}]}'
)
# Kinds and names of whom it denies everything. Of a managed policy, only the default version is in effect.
DENIED: Final = """SELECT DISTINCT kind, entities.name FROM entities JOIN documents ON entity = id WHERE document = ?
    AND (kind <> 'policy' OR documents.name = json_extract(details, '$.default')) ORDER BY kind, entities.name"""
DENIAL_NAME: Final = "orcas-damaged"
REFUSING_TRUST: Final = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"sts:AssumeRole"}]}'
)
# A change of any row changes half of the bits of its digest. So a digest that differs in fewer is damaged itself.
_FLIPPED_MAX: Final = 8
# SQLite does not tell names apart that differ by case.
_NAMES: Final = "SELECT account, kind, name COLLATE BINARY, id FROM entities"
# The path is not in the index.
_RENAMED: Final = f"{_NAMES} WHERE path <> '' EXCEPT {_NAMES} INDEXED BY entities_by_name LIMIT 1"
# The beginning of every database here, up to the count of changes.
_HEAD: Final = b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20"
_COUNTS: Final = (slice(24, 28), slice(92, 96))

log = logging.getLogger("orcas")

# The values of the rows of a holder, by table.
_Held = dict[str, list[tuple[Any, ...]]]


@dataclass
class Source:
    """What can be read of a database. `is_whole`: it passes SQLite's checks."""

    is_whole: bool = False
    held: dict[str, _Held] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, content: bytes) -> Source:
        """A copy of as much as can be read."""
        source = cls()
        with contextlib.suppress(*FAILURES), opened(_HEAD + content[len(_HEAD) :]) as connection:
            with contextlib.suppress(*FAILURES):
                source.is_whole = finding(connection) is None
            with contextlib.suppress(*FAILURES):
                found = connection.execute("SELECT CAST(id AS BLOB), digest FROM digests")
                source.digests.update((text(holder), digest) for holder, digest in found if isinstance(digest, bytes))
            for rows in TABLES:
                for holder, values in _readable(connection, rows):
                    source.held.setdefault(holder, {}).setdefault(rows.table, []).append(values)
        return source


@contextlib.contextmanager
def opened(content: bytes) -> Iterator[sqlite3.Connection]:
    """A database in memory, which nobody changes."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(content)
        yield connection


def finding(connection: sqlite3.Connection) -> str | None:
    """What SQLite finds wrong."""
    connection.text_factory = text
    found = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
    found += [f"a row of {row[0]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    if connection.execute("PRAGMA user_version").fetchone()[0] > 1 and connection.execute(_RENAMED).fetchone():
        found.append("a name is another one in its index")
    return next((str(each) for each in found if each != "ok"), None)


def unsound(content: bytes, keys: list[Digests]) -> str | None:
    """What is wrong with a database, by SQLite's checks and by its digests, if it has any. One of the keys is its key."""
    try:
        with opened(content) as connection:
            why = finding(connection)
            if why is not None or not _has_digests(connection, keys):
                return why
            broken = min((digests.broken(connection) for digests in keys), key=len, default=set())
            if not broken:
                return None
            entries = "1 of its entries is" if len(broken) == 1 else f"{len(broken)} of its entries are"
            return f"{entries} not what was written"
    except FAILURES as error:
        return str(error)


def _has_digests(connection: sqlite3.Connection, keys: list[Digests]) -> bool:
    """Whether a database has digests that this version knows."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'digests'").fetchone():
        return version == SCHEMA_VERSION
    return version == SCHEMA_VERSION or any(digests.is_of(connection, SCHEMA_VERSION) for digests in keys)


def lines_since(directory: Path, copy: Source, keys: list[Digests]) -> set[str]:
    """What the lines of the audit log name that are newer than this copy, in lower case."""
    held = copy.held.get(AUDIT, {})
    known = held[AUDIT][0][1] if any(_holds(each, held, copy.digests.get(AUDIT)) for each in keys) else 0
    words: set[str] = set()
    with contextlib.suppress(UnavailableError):
        for line in newest_audit(directory):
            if line.content is None:
                continue
            if line.content["sequence"] <= known:
                break
            words.update(_words(line.content["parameters"]))
    return words


def rescue(main: Source, copy: Source, keys: list[Digests], directory: Path, owner: str) -> bytes | None:
    """A database of what is intact in one of the two; None if that is nothing."""
    # Secrets may just have got another key, and with them the digests.
    digests = max(keys, key=lambda each: _verifying(each, main) + _verifying(each, copy))
    since = lines_since(directory, copy, [digests])
    chosen: dict[str, _Held] = {}
    damaged: dict[str, _Held] = {}
    holders = {*main.digests, *(holder for holder, held in main.held.items() if _leads(held))}
    if not main.is_whole:
        holders |= {*copy.digests, *(holder for holder, held in copy.held.items() if _leads(held))}
    for holder in sorted(holders):
        ours, theirs = main.held.get(holder, {}), copy.held.get(holder, {})
        stored, copied = main.digests.get(holder), copy.digests.get(holder)
        intact = next((held for held in (ours, theirs) if _holds(digests, held, stored or copied)), None)
        if intact is not None:
            # Only the copy tells of it. What was changed since is denied.
            is_old = stored is None and _is_named(holder, intact, since)
            (damaged if is_old else chosen)[holder] = intact
        elif holder.startswith(LIMITS) or ((ours or theirs) and (stored or copied)):
            # Any other without a digest, or without rows, is the damaged name of another one.
            damaged[holder] = _head_of(ours or theirs)
    if not main.is_whole and not chosen.keys() - {AUDIT, owner}:
        # There may have been any number of others.
        return None
    if not chosen and damaged.keys() - {AUDIT, owner}:
        # Its digests are of another key.
        return None
    return _written(_Rescue(chosen, damaged, owner), digests, directory)


def denied(content: bytes) -> list[str]:
    """Identities that a database denies everything, since what decided about them was damaged."""
    with contextlib.suppress(*FAILURES), opened(content) as connection:
        return [f"{kind} {name}" for kind, name in connection.execute(DENIED, (DENIAL,))]
    return []


def remedy(name: str) -> str:
    """What ends the denial of one of `denied`."""
    if name.startswith("policy "):
        return "set them anew with `orcas policy update`, which makes another version the default"
    return "set them anew, and delete its policy with the statement OrcasDamaged"


def deny_unreadable(connection: sqlite3.Connection, check: Callable[[str, str, None], object]) -> None:
    """Within the transaction that first digests a database: deny everything by a document that cannot be read.

    `check`: raises ValueError if a document is no policy.
    """
    for entity, kind in connection.execute("SELECT id, kind FROM entities WHERE NOT json_valid(details)").fetchall():
        log.error("The %s %s is damaged, and denies everything", kind, entity)
        details = _details(kind, b"")
        connection.execute("UPDATE entities SET details = ? WHERE id = ?", (json.dumps(details), entity))
        name = details.get("default", DENIAL_NAME)
        connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, 0)", (entity, name, DENIAL))
    query = """SELECT entity, documents.name, document FROM documents JOIN entities ON id = entity"""
    for entity, name, document in connection.execute(query).fetchall():
        try:
            check(document, "identity", None)
        except ValueError as error:
            log.error("Policy %s of %s is damaged, and denies everything: %s", name, entity, error)
            given = (DENIAL, entity, name)
            connection.execute("UPDATE documents SET document = ? WHERE entity = ? AND name = ?", given)


class _Rescue:
    """Puts together what is intact, and what stands for the rest."""

    def __init__(self, chosen: dict[str, _Held], damaged: dict[str, _Held], owner: str) -> None:
        self.held = chosen
        self._owner = owner
        self._names = {(*row[1:3], row[3].lower()) for row in self._all("entities")}
        for holder in [*damaged]:
            if holder.startswith(LIMITS):
                self._deny_owner_of(holder.removeprefix(LIMITS), damaged)
        # Accounts first, because each entity has one.
        for holder, held in sorted(damaged.items(), key=lambda each: kind_of(each[0]) is not None):
            self._replace(holder, held)
        if owner not in self.held:
            self._add_account(owner, {})
        self._complete()

    def _deny_owner_of(self, name: str, damaged: dict[str, _Held]) -> None:
        """Limits are lost: what they were of is denied as well."""
        for holder, held in list(self.held.items()):
            if holder == name or any(text(row[0]) == name for row in held.get("access_keys", ())):
                damaged[holder] = self.held.pop(holder)

    def _replace(self, holder: str, held: _Held) -> None:
        kind, _, name = holder.partition(" ")
        if kind == "origin":
            # It cannot be read, so the bucket answers that its origin is to be set again.
            self.held[holder] = {"origins": [(name.encode(), b"{}", b"", b"")]}
        elif len(holder) == len(self._owner):
            self._add_account(holder, held)
        elif kind_of(holder) is not None:
            self._add_entity(holder, held)

    def _add_account(self, holder: str, held: _Held) -> None:
        """All that is known of an account follows from its id, but its name and the keys of its root."""
        _, _, name, created = (held.get("accounts") or [(b"", b"", b"", 0)])[0]
        number, taken = account_number(holder), {row[2] for row in self._all("accounts")}
        if holder == self._owner:
            name = b"root"
        else:
            name = name if NAME.fullmatch(text(name)) and name not in {*taken, b"root"} else number.encode()
            log.error("The keys of the root of account %s are lost, since control.db was damaged", number)
        self.held[holder] = {"accounts": [(holder.encode(), number.encode(), name, created)]}

    def _add_entity(self, holder: str, held: _Held) -> None:
        """Add an entity that denies everything, in place of a damaged one, or of one that is not what it was last."""
        kind = kind_of(holder)
        nothing = (b"", b"", b"", b"", b"", 0, None, b"")
        _, account, _, name, path, created, boundary, found = (held.get("entities") or [nothing])[0]
        account = account if text(account) in self.held else self._owner.encode()
        if not NAME.fullmatch(text(name)) or (account, (kind or "").encode(), name.lower()) in self._names:
            name = holder.encode()
        if kind is None or kind == PROVIDER:
            return
        self._names.add((account, kind.encode(), name.lower()))
        path = path if PATH.fullmatch(text(path)) else b"/"
        details = _details(kind, found)
        kept = {table: values for table, values in held.items() if table not in {"entities", "documents"}}
        denial = (holder.encode(), str(details.get("default", DENIAL_NAME)).encode(), DENIAL.encode(), 0)
        documents = [row for row in held.get("documents", ()) if row[1] != denial[1]]
        head = (holder.encode(), account, kind.encode(), name, path, created, boundary, json.dumps(details).encode())
        self.held[holder] = {"entities": [head], **kept, "documents": [*documents, denial]}

    def _complete(self) -> None:
        """Add what intact rows refer to; what refers to a policy that is lost denies everything."""
        for row in list(self._all("entities")):
            if text(row[1]) not in self.held:
                self._add_account(text(row[1]), {})
        for row in list(self._all("members")):
            if text(row[0]) not in self.held and kind_of(text(row[0])) == "group":
                self._add_entity(text(row[0]), {})
        numbers = {row[0]: text(row[1]) for row in self._all("accounts")}
        known = {arn.encode() for arn in BUILTIN}
        for row in self._all("entities"):
            if row[2] == b"policy":
                known.add(arn_of(numbers[row[1]], "policy", text(row[4]), text(row[3])).encode())
        for holder, held in list(self.held.items()):
            attached = held.get("attachments", [])
            lost = [row for row in attached if row[1] not in known]
            rows = held.get("entities", [])
            if lost or any(row[6] is not None and row[6] not in known for row in rows):
                self._names -= {(*row[1:3], row[3].lower()) for row in rows}
                rows = [(*row[:6], row[6] if row[6] in known else None, row[7]) for row in rows]
                attached = [row for row in attached if row[1] in known]
                self._add_entity(holder, {**held, "entities": rows, "attachments": attached})

    def _all(self, table: str) -> Iterator[tuple[Any, ...]]:
        for held in self.held.values():
            yield from held.get(table, ())

    def rows(self, rows: Rows) -> list[tuple[Any, ...]]:
        """The rows of a table."""
        return list(self._all(rows.table))


def _written(rescue: _Rescue, digests: Digests, directory: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA foreign_keys = OFF; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
        connection.execute("BEGIN")
        for rows in TABLES:
            marks = ", ".join("CAST(? AS TEXT)" if name in rows.texts else "?" for name in rows.columns)
            statement = f"INSERT INTO {rows.table} ({', '.join(rows.columns)}) VALUES ({marks})"
            connection.executemany(statement, rescue.rows(rows))
        _set_head(connection, directory)
        digests.digest_all(connection)
        connection.execute("COMMIT")
        return connection.serialize()


def _set_head(connection: sqlite3.Connection, directory: Path) -> None:
    """A chain head that is lost is that of the last line."""
    if connection.execute("SELECT 1 FROM audit").fetchone() is None:
        with contextlib.suppress(UnavailableError):
            for line in newest_audit(directory):
                if line.content is not None:
                    connection.execute("INSERT INTO audit VALUES (1, ?, ?)", line.head)
                    return


def counted(content: bytes, *others: bytes | None) -> bytes:
    """A database with a count of changes above those of others."""
    count = 1 + max(int.from_bytes(each[_COUNTS[0]], "big") for each in others if each is not None)
    changed = bytearray(content)
    for place in _COUNTS:
        changed[place] = (count % (1 << 32)).to_bytes(4, "big")
    return bytes(changed)


def _readable(connection: sqlite3.Connection, rows: Rows) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The rows of a table from its beginning and from its end, up to what cannot be read, text as bytes."""
    columns = [f"each.{column}" for column in rows.columns]
    query = f"SELECT {rows.holder.format('each')}, {', '.join(columns)} FROM {rows.table} AS each"
    connection.text_factory = bytes
    seen = set()
    for order in ("", "ORDER BY " + ", ".join(f"{column} DESC" for column in columns[: rows.keys])):
        with contextlib.suppress(*FAILURES):
            for row in connection.execute(f"{query} {order}"):
                holder, *values = row
                # That of a damaged row may be a number.
                if row not in seen and isinstance(holder, bytes):
                    seen.add(row)
                    yield text(holder), tuple(values)
            return


def _holds(digests: Digests, held: _Held, stored: bytes | None) -> bool:
    """Whether these are the rows that were written. The digest may be damaged itself."""
    if not held or stored is None or len(stored) != DIGEST_BYTES:
        return False
    flipped = int.from_bytes(digests.sum(held), "little") ^ int.from_bytes(stored, "little")
    return flipped.bit_count() <= _FLIPPED_MAX


def _verifying(digests: Digests, source: Source) -> int:
    return sum(_holds(digests, held, source.digests.get(holder)) for holder, held in source.held.items())


def _leads(held: _Held) -> bool:
    return any(rows.leads and rows.table in held for rows in TABLES)


def _head_of(held: _Held) -> _Held:
    """What a holder is known by, of rows that are not to be believed."""
    head: _Held = {}
    for row in held.get("accounts", ()):
        head["accounts"] = [(*(each if isinstance(each, bytes) else b"" for each in row[:3]), 0)]
    for row in held.get("entities", ()):
        head["entities"] = [(*(each if isinstance(each, bytes) else b"" for each in row[:5]), 0, None, b"")]
    return head


def _is_named(holder: str, held: _Held, words: set[str]) -> bool:
    names = {holder.rpartition(" ")[2], *(text(row[3]) for row in held.get("entities", ()))}
    names |= {text(row[0]) for row in held.get("access_keys", ())}
    # An ARN or a URL ends with the name.
    ends = tuple(f"/{name.lower()}" for name in names)
    return any(name.lower() in words for name in names) or any(word.endswith(ends) for word in words)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.lower()
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _words(each)


def _details(kind: str, found: bytes) -> dict[str, Any]:
    """The details of an entity that denies everything. Of a policy, another version is in effect."""
    details = json.loads(found or b"{}")
    if kind == "policy":
        last = details.get("last", 0) + 1
        return {"description": "", "updated_ms": 0, **details, "default": f"v{last}", "last": last}
    return {"description": "", "session_sec": 3600, **details, "trust": REFUSING_TRUST} if kind == "role" else details
