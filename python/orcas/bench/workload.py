"""Workloads: TOML files that describe requests to a server, checked before anything is sent.

A file has fields, which apply to all its cases; `[[case]]` tables, each of which may set fields anew; and `[matrix]`,
lists of values of which every combination is a case. Every mistake is reported in one sentence that names it.
"""

from __future__ import annotations

import difflib
import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final

from orcas.bench.sizes import Sizes, parse_size, parse_sizes
from orcas.errors import ConfigurationError, UsageError
from orcas.settings.config import resolve

OPERATIONS: Final = ("put", "get", "head", "list", "delete", "copy", "multipart")
CONNECTIONS_MAX: Final = 1024
KEYS_MAX: Final = 10_000_000
_READERS: Final = ("get", "head", "list", "delete", "copy")
_WEIGHT_MAX: Final = 10_000
_PART_MIN: Final = 5 << 20
_SUFFIX: Final = ".toml"
_NOT_FIELDS: Final = frozenset({"case", "matrix", "description"})

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A load: the operations, how often or how long, and the objects that they name."""

    name: str
    mix: Mapping[str, int]
    connections: int = 10
    threads: int = 1
    # One of the two.
    count: int | None = None
    seconds: float | None = None
    warmup_seconds: float = 0.0
    keys: int = 0
    size: Sizes
    content: str = "unique"
    payload: str = "signed"
    verify: bool = True
    overwrite: bool = False
    list_page: int = 100
    parts: int = 2
    part_size: int = _PART_MIN
    seed: int = 1
    # Settings of a server that the benchmark starts.
    server: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Workload:
    """A file of cases."""

    name: str
    description: str
    cases: tuple[Case, ...]


def _integer(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise TypeError(f"a whole number from {low} to {high}")
        return value

    return parse


def _seconds(low: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= 86_400:
            raise TypeError(f"seconds from {low:g} to 86400")
        return float(value)

    return parse


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise TypeError("one line of text")
    return value


def _one_of(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise TypeError(" or ".join(choices))
        return value

    return parse


def _mix(value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise TypeError(f"a table of weights of {', '.join(OPERATIONS)}")
    for name, weight in value.items():
        if name not in OPERATIONS:
            raise TypeError(f"a table of weights of {', '.join(OPERATIONS)}, and {name} is not one of them")
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= _WEIGHT_MAX:
            raise TypeError(f"weights from 0 to {_WEIGHT_MAX}")
    if not any(value.values()):
        raise TypeError("a table with at least one weight above 0")
    return dict(value)


def _server(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("a table of settings of orcas serve")
    try:
        resolve(value, ambient=False)
    except ConfigurationError as error:
        raise TypeError(f"a table of settings of orcas serve: {error}") from None
    return dict(value)


_FIELDS: Final[dict[str, Callable[[object], Any]]] = {
    "name": _text,
    "mix": _mix,
    "connections": _integer(1, CONNECTIONS_MAX),
    "threads": _integer(1, 64),
    "count": _integer(1, 10**9),
    "seconds": _seconds(0.1),
    "warmup_seconds": _seconds(0),
    "keys": _integer(0, KEYS_MAX),
    "size": parse_sizes,
    "content": _one_of("unique", "identical"),
    "payload": _one_of("signed", "unsigned"),
    "verify": _boolean,
    "overwrite": _boolean,
    "list_page": _integer(1, 1000),
    "parts": _integer(1, 1000),
    "part_size": parse_size,
    "seed": _integer(0, 2**63 - 1),
    "server": _server,
}
assert set(_FIELDS) == {field.name for field in fields(Case)}


def built_in() -> dict[str, Path]:
    """The workloads that come with Orcas, by name."""
    place = Path(str(resources.files("orcas") / "workloads"))
    return {path.stem: path for path in sorted(place.glob(f"*{_SUFFIX}"))}


def read_workload(named: str, overrides: Table | None = None) -> Workload:
    """The built-in workload of this name, or that of a file. `overrides` stand above every field of it.

    Raises:
        ConfigurationError: there is none, or something in it is wrong.
    """
    known = built_in()
    path = known.get(named, Path(named).expanduser())
    if named not in known and not named.endswith(_SUFFIX):
        names = ", ".join(known)
        close = difflib.get_close_matches(named, known, n=1)
        meant = f"did you mean {close[0]}?" if close else f"there are {names}, or name a file that ends in {_SUFFIX}."
        raise UsageError(f"There is no workload {named}: {meant}")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The workload {path} cannot be read: {error}; correct it.") from None
    called = named if named in known else str(path)
    try:
        description = _text(document.get("description", path.stem))
        cases = tuple(_cases(path.stem, document, overrides or {}))
    except TypeError as error:
        kind = UsageError if overrides and _is_right(path.stem, document) else ConfigurationError
        raise kind(f"The workload {called} is wrong: {error}.") from None
    return Workload(path.stem, description, cases)


def _is_right(name: str, document: Table) -> bool:
    """Whether a file is right by itself, so that what is wrong stands on the command line."""
    try:
        list(_cases(name, document, {}))
    except TypeError:
        return False
    return True


def _cases(name: str, document: Table, overrides: Table) -> Iterator[Case]:
    common = {field: value for field, value in document.items() if field not in _NOT_FIELDS}
    matrix = document.get("matrix", {})
    if not isinstance(matrix, dict) or not all(isinstance(values, list) and values for values in matrix.values()):
        raise TypeError("matrix must be a table of lists")
    # What is given by hand is one value, so nothing is left to combine.
    given = {"count", "seconds"} if {"count", "seconds"} & set(overrides) else set()
    matrix = {field: values for field, values in matrix.items() if field not in overrides and field not in given}
    tables = document.get("case", [{}])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise TypeError("case must be an array of tables: [[case]]")
    for table, values in itertools.product(tables, itertools.product(*matrix.values())):
        combined = dict(zip(matrix, values, strict=True))
        merged = {field: value for field, value in ({**common, **table, **combined}).items() if field not in given}
        label = [str(table.get("name", name)), *(f"{field}={_shown(value)}" for field, value in combined.items())]
        yield _case({**merged, **overrides, "name": " ".join(label)})


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{_shown(part)}" for name, part in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _case(table: Table) -> Case:
    values: dict[str, Any] = {"server": {}}
    for field, value in table.items():
        if field not in _FIELDS:
            close = difflib.get_close_matches(field, _FIELDS, n=1)
            raise TypeError(f"{field} is not a field{f', did you mean {close[0]}' if close else ''}")
        try:
            values[field] = _FIELDS[field](value)
        except TypeError as wanted:
            raise TypeError(f"{field} must be {wanted}, not {value!r}") from None
    for field in ("mix", "size"):
        if field not in values:
            raise TypeError(f"{field} is missing")
    case = Case(**values)
    _check(case)
    return case


def _check(case: Case) -> None:
    """Check the conditions that concern several fields together."""
    weights = case.mix
    if (case.count is None) == (case.seconds is None):
        raise TypeError("it needs either count or seconds")
    readers = [name for name in _READERS if weights.get(name)]
    if readers and not case.keys:
        raise TypeError(f"{readers[0]} needs keys, the number of objects to create before the clock starts")
    if case.overwrite and weights.get("put") and case.keys < case.connections:
        raise TypeError("overwrite needs at least as many keys as connections")
    deletes, puts = weights.get("delete", 0), weights.get("put", 0)
    if deletes > puts:
        if case.count is None:
            raise TypeError("more deletes than puts need count instead of seconds, or the objects run out")
        needed = math.ceil(case.count * deletes / sum(weights.values()))
        if case.keys < needed:
            raise TypeError(f"{case.count} operations with more deletes than puts need {needed} keys")
    if weights.get("multipart") and case.parts > 1 and case.part_size < _PART_MIN:
        raise TypeError("part_size must be at least 5 MiB, as S3 requires for all parts but the last")
