"""Output of commands: one JSON document or short tables on stdout, and progress bars on stderr if it is a terminal.

Clients choose keys, so text is printed with everything escaped that could control a terminal or forge a line.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from orcas.telemetry.logs import visible

if TYPE_CHECKING:
    from rich.table import Table

Advance = Callable[[str, int, int], None]

# Columns of what is no terminal: more than a row can have, so that each is one line.
_COLUMNS_MAX: Final = 100_000


def print_json(document: Any) -> None:
    """Print `document`. With --json, a command prints nothing else on stdout."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def table(titles: Iterable[str], rows: Iterable[Iterable[object]], *, right: int | None = None) -> Table:
    """A table for a terminal. Columns from index `right` on are right-aligned."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for at, title in enumerate(titles):
        made.add_column(title, overflow="fold", justify="right" if right is not None and at >= right else "left")
    for row in rows:
        # Text, because names may contain characters that rich would interpret as markup.
        made.add_row(*(Text(visible(str(cell))) for cell in row))
    return made


def print_table(titles: Iterable[str], rows: Iterable[Iterable[object]], *, right: int | None = None) -> None:
    """Print a table. Columns from index `right` on are right-aligned."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _COLUMNS_MAX).print(table(titles, rows, right=right))


def print_found(
    document: Any, as_json: bool, titles: Iterable[str], rows: Iterable[Iterable[object]], *, right: int | None = None
) -> None:
    """Print what a command has found: the document with `--json`, else a table."""
    if as_json:
        print_json(document)
    else:
        print_table(titles, rows, right=right)


def say(line: str, *, err: bool = False) -> None:
    """Print one line, which may have names that clients chose."""
    stream = sys.stderr if err else sys.stdout
    stream.write(visible(line) + "\n")


def counted(count: int, noun: str) -> str:
    """A number of things, with their noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """A number of bytes in readable form."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


@contextlib.contextmanager
def steps(*, shown: bool = True) -> Iterator[Callable[[str, float, float], None]]:
    """A function that takes the current activity, the steps done, and the total number of steps (0: unknown).

    If stderr is not a terminal, each activity prints one line when it begins.
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
    """A function that takes the current activity, the bytes done, and the total number of bytes (0: unknown)."""
    if not shown or not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    # Redirected, lines for a file or a pipe would go to the terminal as well.
    redirected = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=redirected) as bars:
        bar = bars.add_task("", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bars.update(bar, description=what, completed=done, total=total or None)

        yield advance


@contextlib.contextmanager
def waiting(*, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """A function that takes what is being done, for work whose end nobody knows. Only a terminal shows it."""
    with steps(shown=shown and sys.stderr.isatty()) as advance:
        yield lambda what: advance(what, 0, 0)


def tell(document: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command did: the document with `--json`, else the sentence."""
    if as_json:
        print_json(document)
    else:
        sys.stdout.write(sentence + "\n")


def show_tasks(tasks: list[dict[str, Any]]) -> None:
    """The table of periodic tasks."""
    rows = [
        (
            task["name"],
            "running" if task["running"] else "failed" if task["error"] is not None else "ok" if task["runs"] else "",
            f"{task['runs']}",
            f"{task['failures']}",
            task["last_success"] or "",
            "" if task["last_duration_sec"] is None else f"{task['last_duration_sec']:g} s",
            task["next_run"] or "on request",
        )
        for task in tasks
    ]
    print_table(("Task", "State", "Runs", "Failures", "Last success", "Took", "Next run"), rows)
