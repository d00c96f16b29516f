"""`orcas inspect`: what the files of a store contain, record by record, for people and for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orcas.cli.options import Data, among
from orcas.cli.output import print_table, say
from orcas.cli.store.upkeep import Bucket, settings_of
from orcas.errors import OrcasError, UsageError
from orcas.telemetry.logs import quoted, visible

if TYPE_CHECKING:
    from pathlib import Path

    from orcas.engine import Selection

_PARTS: Final = ("log", "packs", "journal")
_UNREADABLE: Final = "unreadable"
# Fields that have a place of their own in a line.
_PLACED: Final = ("file", "byte", "sequence", "kind")


Part = Annotated[
    str | None,
    typer.Argument(
        metavar="[log|packs|journal]",
        autocompletion=among(*_PARTS),
        help="What to show; all files in brief if omitted.",
    ),
]


@dataclass
class _Sum:
    """The sum of the selected rows of a file."""

    rows: int = 0
    first: int | None = None
    last: int | None = None
    unreadable: int = 0

    def add(self, row: dict[str, Any]) -> None:
        """Count one more row."""
        if row["kind"] == _UNREADABLE:
            self.unreadable += 1
            return
        self.rows += 1
        if (sequence := row["sequence"]) is not None:
            self.first = sequence if self.first is None else min(self.first, sequence)
            self.last = sequence if self.last is None else max(self.last, sequence)


def inspect(
    part: Part = None,
    data: Data = None,
    bucket: Bucket = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="PREFIX", help="Only keys that begin so.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind, as PutVersion; may be repeated.")
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="SEQUENCE", min=0, help="Only from this record on.")
    ] = None,
    last: Annotated[int | None, typer.Option("--to", metavar="SEQUENCE", min=0, help="Only up to this record.")] = None,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Only this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Show what the files of a store contain: records of the log, chunks of packs, events of the journal.

    For the curious, and to find out what happened to an object. Only reads files: the store may be running, stopped or
    damaged. Contents, keys and encrypted headers are never printed. Exit code 1: something cannot be read; its file
    and byte are printed in its place.

    Examples:

        orcas inspect                                   all files in brief

        orcas inspect log --bucket photos --key a.jpg   the history of an object

        orcas inspect log --from 100 --to 120 --json    some records

        orcas inspect packs                             the chunks of all packs
    """
    from orcas.engine import inspect_files

    if part not in (None, *_PARTS):
        raise UsageError(f"{part} is no part of a store: name one of {', '.join(_PARTS)}.")
    if part == "packs" and (bucket, key, prefix) != (None, None, None):
        raise UsageError(
            "Packs know neither buckets nor keys: leave out --bucket, --key and --prefix, or name the log."
        )
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from {first} is after --to {last}: exchange them.")
    directory = _store_at(data)
    selection: Selection = {
        "kinds": kind or [], "bucket": _bytes(bucket), "key": _bytes(key), "prefix": _bytes(prefix), "first": first,
        "last": last, "file": file,
    }  # fmt: skip
    files: dict[str, _Sum] = {}
    total = _Sum()

    def take(row: dict[str, Any]) -> None:
        total.add(row)
        if part is None:
            files.setdefault(row["file"], _Sum()).add(row)
        if part is not None or row["kind"] == _UNREADABLE:
            sys.stdout.write((json.dumps(_readable(row)) if as_json else _line(_readable(row))) + "\n")

    for each in _PARTS if part is None else (part,):
        inspect_files(directory, each, selection, take)
    if part is None:
        _print_files(files, as_json=as_json)
    if not total.rows and any(value not in ([], None) for value in selection.values()):
        say("Nothing in the store is selected: check the options, and how kinds are written.", err=True)
    if total.unreadable:
        raise OrcasError(f"Places that cannot be read: {total.unreadable}; `orcas fsck` says what is lost.")


def _store_at(data: str | None) -> Path:
    """The directory of a store, of which any part may be missing."""
    from orcas.control.files import NoStoreError
    from orcas.engine import admit

    directory = settings_of(data).data
    admit(directory)
    if not any((directory / name).exists() for name in ("log", "chunks", "store.keys", "store.keys.copy")):
        raise NoStoreError(directory)
    return directory


def _bytes(text: str | None) -> bytes | None:
    """An argument as it was typed, also if it is not UTF-8."""
    return None if text is None else text.encode(errors="surrogateescape")


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """The row as JSON can hold it."""
    from orcas.tools.salvage import text_fields

    readable: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            readable |= text_fields(name, value)
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            readable[name] = {
                key.decode(errors="backslashreplace"): text.decode(errors="backslashreplace") for key, text in value
            }
        elif value is not None:
            readable[name] = value
    return readable


def _line(row: dict[str, Any]) -> str:
    """`log/….log:4096: 17 PutVersion bucket=photos key=a.jpg`."""
    sequence = f"{row['sequence']} " if "sequence" in row else ""
    words = [f"{name}={_word(value)}" for name, value in row.items() if name not in _PLACED]
    return " ".join([visible(f"{row['file']}:{row['byte']}: {sequence}{row['kind']}"), *words])


def _word(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return quoted(json.dumps(value) if isinstance(value, dict) else value)


def _print_files(files: dict[str, _Sum], *, as_json: bool) -> None:
    if as_json:
        for name, found in files.items():
            sys.stdout.write(json.dumps({"file": name, **vars(found)}) + "\n")
        return
    rows = [
        (
            name,
            found.rows,
            "" if found.first is None else found.first,
            "" if found.last is None else found.last,
            found.unreadable,
        )
        for name, found in files.items()
    ]
    print_table(("File", "Entries", "First", "Last", "Unreadable"), rows, right=1)


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(inspect)
