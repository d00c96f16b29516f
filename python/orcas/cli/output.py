"""What commands print: one JSON document or short tables on stdout, bars on stderr where that is a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Advance = Callable[[str, int, int], None]


def print_json(document: Any) -> None:
    """The one thing on stdout of a command that was asked for JSON."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def print_table(titles: Iterable[str], rows: Iterable[Iterable[object]], *, right: int | None = None) -> None:
    """A table; columns from `right` on hold numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for at, title in enumerate(titles):
        table.add_column(title, overflow="fold", justify="right" if right is not None and at >= right else "left")
    for row in rows:
        # Text: names may hold what rich would take for markup.
        table.add_row(*(Text(str(cell)) for cell in row))
    # Off a terminal a line is a row, however long.
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


@contextlib.contextmanager
def steps(*, shown: bool = True) -> Iterator[Callable[[str, float, float], None]]:
    """A function that is told what is under way, how many steps of it are done, and of how many (0: nobody knows).

    Off a terminal each step is a line when it begins.
    """
    if not shown:
        yield lambda _what, _done, _total: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)

        def advance(what: str, done: float, total: float) -> None:
            bars.update(bar, description=what, completed=done, total=total or None)

        yield advance


def _lines() -> Callable[[str, float, float], None]:
    said = ""

    def advance(what: str, _done: float, _total: float) -> None:
        nonlocal said
        if what != said:
            said = what
            sys.stderr.write(f"{what}\n")
            sys.stderr.flush()

    return advance


@contextlib.contextmanager
def progress(*, shown: bool = True) -> Iterator[Advance]:
    """A function that is told what is under way, how many bytes are done, and of how many (0: nobody knows)."""
    if not shown or not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bars.update(bar, description=what, completed=done, total=total or None)

        yield advance
