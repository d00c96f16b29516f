"""Names: of namespaces and tables, of the objects that stand for them, of their ARNs, and the places of their files.

A level of a namespace, or a table, may have any name without control characters. In keys and ARNs, all but letters, digits,
`_` and `-` is percent-encoded, so no name has a `.` or a `/`, and different names stay different. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from orcas.tables.failures import TableError, invalid

# The objects of the catalog, within the bucket of the warehouse.
STATE: Final = ".iceberg/"
WAREHOUSE: Final = f"{STATE}warehouse.json"
NAMESPACES: Final = f"{STATE}namespaces/"
TABLES: Final = f"{STATE}tables/"
VIEWS: Final = f"{STATE}views/"
TRANSACTIONS: Final = f"{STATE}transactions/"
# How clients separate the levels of a namespace in paths.
SEPARATOR: Final = "\x1f"

# Of branches. So the last `--` in the name of a bucket is before that of its branch.
_BRANCH: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LEVELS_MAX: Final = 16
# Characters of a name, and bytes of a namespace with its table in a key.
_NAME_MAX: Final = 255
_KEY_MAX: Final = 900
# Bytes of a place: it is three times in the session policy of credentials, which has at most 2,048.
_PLACE_MAX: Final = 400
# Of the parts of a place: they mean the same to every client, in URLs and in policies.
_PART: Final = re.compile(r"[A-Za-z0-9_=@+,~-][A-Za-z0-9_.=@+,~-]*")
_METADATA: Final = re.compile(r"[\w.-]{1,255}\.metadata\.json", re.ASCII)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SLUG_MAX: Final = 40
_RANDOM: Final = 16

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table, or a view."""

    namespace: Namespace
    name: str
    # The prefix of the objects of its kind.
    folder: str = TABLES

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @property
    def path(self) -> str:
        """Its part of keys and ARNs."""
        return f"{encoded(self.namespace)}/{_encode(self.name)}"

    @property
    def key(self) -> str:
        """The object that points to its metadata."""
        return self.folder + self.path


def checked(levels: Namespace | list[str]) -> Namespace:
    """A namespace that a client has named.

    Raises:
        TableError: none can have that name.
    """
    if not 1 <= len(levels) <= _LEVELS_MAX:
        raise invalid(f"A namespace has 1 to {_LEVELS_MAX} levels.")
    for level in levels:
        _check(level)
    _check_key(encoded(tuple(levels)))
    return tuple(levels)


def identifier(namespace: Namespace, name: str, folder: str = TABLES) -> Identifier:
    """A table, or a view, that a client has named.

    Raises:
        TableError: none can have that name.
    """
    _check(name)
    found = Identifier(namespace, name, folder)
    _check_key(found.path)
    return found


def parsed(text: str) -> Namespace:
    """A namespace in a path or a query.

    Raises:
        TableError: none can have that name.
    """
    return checked(text.split(SEPARATOR))


def encoded(namespace: Namespace) -> str:
    """A namespace in keys and ARNs."""
    return ".".join(_encode(level) for level in namespace)


def decoded(text: str) -> Namespace:
    """The namespace that `encoded` has made this of."""
    return tuple(unquote(level) for level in text.split("."))


def bucket_of(warehouse: str) -> str:
    """The bucket of a warehouse, which has its name; that of its branch `lake@b1` is `lake--b1`.

    Raises:
        TableError: no branch can have that name.
    """
    name, at, branch = warehouse.partition("@")
    if at and not _BRANCH.fullmatch(branch):
        raise TableError(
            404, "NoSuchWarehouseException", f"No branch is called {_shown(branch)}: it has a-z, 0-9, and - in between."
        )
    return f"{name}--{branch}" if at else name


def base_of(branch: str) -> str:
    """The bucket that has a warehouse as it was when a branch was made of it.

    Raises:
        TableError: it is no branch.
    """
    if name_of(branch) == branch:
        raise invalid(f"{_shown(branch)} is a warehouse: name a branch of it, as {_shown(branch)}@BRANCH.")
    return f"{bucket_of(branch)}--base"


def name_of(warehouse: str) -> str:
    """The name of a bucket in the paths of tables, which is the same in all branches of a warehouse."""
    return warehouse.partition("@")[0]


def url(warehouse: str, key: str) -> str:
    """How metadata names an object."""
    return f"s3://{name_of(warehouse)}/{key}"


def place_of(location: str, warehouse: str) -> str:
    """The key prefix, without a slash at the end, of a location in a warehouse.

    Raises:
        TableError: it is elsewhere, or not every client would find it.
    """
    start = url(warehouse, "")
    if not location.startswith(start):
        raise invalid(f"Tables of this warehouse are below {start}: {_shown(location)} is not.")
    place = location.removeprefix(start).rstrip("/")
    parts = place.split("/")
    if len(place) > _PLACE_MAX or not all(_PART.fullmatch(part) for part in parts):
        raise invalid(
            f"A location has at most {_PLACE_MAX} letters, digits or any of _ . = @ + , ~ - between its slashes, and no "
            f"part that begins with a period: {_shown(location)}."
        )
    return place


def metadata_key(location: str, warehouse: str) -> tuple[str, str]:
    """The place of a metadata file, and its key.

    Raises:
        TableError: it is elsewhere, or no file could be called that.
    """
    folder, _, file = location.rpartition("/")
    if not folder.endswith("/metadata") or not _METADATA.fullmatch(file):
        raise invalid("A metadata file is LOCATION/metadata/NAME.metadata.json, not compressed.")
    place = place_of(folder.removesuffix("/metadata"), warehouse)
    return place, f"{place}/metadata/{file}"


class Places:
    """Makes the places of new tables, and knows again those that it has made for a table. `secret` is the server's."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), b"orcas places of tables", hashlib.sha256)

    def new(self, bucket: str, table: Identifier) -> str:
        """A place that no other table has."""
        random = secrets.token_hex(_RANDOM // 2)
        parts = [*(_slug(level) for level in table.namespace), _slug(table.name)]
        stem = "/".join(parts)[: _PLACE_MAX // 2].rstrip("/")
        return f"{stem}-{random}{self._proof(bucket, table, random)}"

    def made(self, bucket: str, table: Identifier, place: str) -> str | None:
        """The 32 hexadecimal digits that no other place has, if this was made for the table."""
        found = place[-2 * _RANDOM :]
        if place[-2 * _RANDOM - 1 : -2 * _RANDOM] != "-":
            return None
        proof = self._proof(bucket, table, found[:_RANDOM])
        return found if hmac.compare_digest(proof.encode(), found[_RANDOM:].encode()) else None

    def _proof(self, bucket: str, table: Identifier, random: str) -> str:
        text = f"{bucket}/{table.path}/{random}"
        return hmac.digest(self._key, text.encode(), hashlib.sha256).hex()[:_RANDOM]


def _encode(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")


def _slug(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_SLUG_MAX] or "_"


def _check(name: str) -> None:
    if not 1 <= len(name) <= _NAME_MAX:
        raise invalid(f"A name has 1 to {_NAME_MAX} characters.")
    # Also what is no Unicode: keys are.
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in name):
        raise invalid("A name has no control characters.")


def _check_key(path: str) -> None:
    if len(path) > _KEY_MAX:
        raise invalid(f"The name has more than {_KEY_MAX} bytes, percent-encoded.")


def _shown(text: str) -> str:
    return text[:200]
