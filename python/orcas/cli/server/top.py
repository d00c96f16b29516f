"""`orcas top`: shows what a running server does, from its metrics, in a terminal or as text."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orcas.cli.options import AsJson, Data, Endpoint
from orcas.cli.output import print_json, size, table
from orcas.cli.store.upkeep import settings_of
from orcas.errors import UnavailableError
from orcas.telemetry.activity import document

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from orcas.settings.config import Settings
    from orcas.telemetry.samples import Between, Page
    from orcas.tools.session import HttpTransport

_OPERATIONS_MAX: Final = 15

Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600, help="Time between updates.")
]
Once = Annotated[bool, typer.Option("--once", help="Measure one interval, print the result, and exit.")]


def top(
    data: Data = None, endpoint: Endpoint = None, interval: Interval = 2.0, once: Once = False, as_json: AsJson = False
) -> None:
    """Show what a running server does: requests by operation, commits, the index, caches, memory and disk.

    In a terminal, the view refreshes until Ctrl-C. Elsewhere, each update is printed as text. --json prints one update.

    The numbers come from the server's metrics. If the server asks for a token, set ORCAS_METRICS_TOKEN.

    Example:

        orcas top --once --interval 0.1
    """
    settings = settings_of(data)
    once = once or as_json
    with contextlib.closing(_Server(settings, endpoint)) as server:
        looks = _looks(server, interval)
        if once:
            found = next(looks)
            assert not isinstance(found, str), "the first look succeeds or raises"
            if as_json:
                print_json(document(found))
            else:
                console = _console()
                console.print(_view(console, server.url, document(found)))
            return
        # Ctrl-C is how this command ends.
        with contextlib.suppress(KeyboardInterrupt), _screen() as (console, show):
            for look in looks:
                show(look if isinstance(look, str) else _view(console, server.url, document(look)))


class _Server:
    """The watched server. After a read that failed, it is located again, because its address may have changed."""

    def __init__(self, settings: Settings, endpoint: str | None) -> None:
        self._settings, self._endpoint = settings, endpoint
        self._transport: HttpTransport | None = None
        self.url = ""

    def read(self) -> Page:
        """The metrics of the server now.

        Raises:
            OrcasError: it does not answer, or refuses.
        """
        from orcas.tools.samples import read_page

        if self._transport is None:
            self._transport = _transport(self._settings, self._endpoint)
            self.url = self._transport.url
        try:
            return read_page(self._transport, self._settings.metrics_token)
        except UnavailableError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def _transport(settings: Settings, endpoint: str | None) -> HttpTransport:
    """The server at `endpoint`, or the one that has the store open.

    Raises:
        UnavailableError: no server has it open.
    """
    from orcas.control.files import is_locked
    from orcas.control.files.address import read_address
    from orcas.tools.session import HttpTransport, transport_of

    if endpoint is not None:
        return HttpTransport(endpoint)
    address = read_address(settings.data) if is_locked(settings.data) else None
    if address is None:
        raise UnavailableError(f"No server has the store in {settings.data} open: start it, or give --endpoint URL.")
    return transport_of(address)


def _looks(server: _Server, interval: float) -> Iterator[Between | str]:
    """What happened in each interval; a sentence if the server did not answer at the end of one, or is another process.

    Raises:
        OrcasError: it does not answer the first time, or refuses.
    """
    from orcas.telemetry.samples import Between

    before = server.read()
    first = True
    while True:
        time.sleep(interval)
        try:
            now = server.read()
        except UnavailableError as error:
            if first:
                raise
            yield str(error)
            continue
        # What another process has counted is compared with nothing.
        same = _started(now) == _started(before)
        if same:
            yield Between(before, now)
        elif not first:
            yield "The server was started anew."
        first = first and not same
        before = now


def _started(page: Page) -> float:
    return page.value("process_start_time_seconds")


def _view(console: Console, url: str, seen: dict[str, Any]) -> RenderableType:
    """The view of a look: the summary, and as many operations as fit below it."""
    from rich.console import Group
    from rich.text import Text

    writes = "" if seen["writable"] else ", accepts no content"
    title = f"Orcas {seen['version']} at {url}: {seen['state']}{writes}   {time.strftime('%H:%M:%S')}"
    rows: list[tuple[str, ...]] = [
        (
            row["operation"], _number(row["per_sec"]), _number(row["failed_per_sec"]), _time(row["p50_sec"]),
            _time(row["p99_sec"]), size(round(row["received_bytes_per_sec"])), size(round(row["sent_bytes_per_sec"])),
        )
        for row in seen["operations"]
    ]  # fmt: skip
    titles = ("Operation", "a second", "failed", "50 %", "99 %", "received/s", "sent/s")
    errors = ", ".join(f"{code} {_number(rate)}/s" for code, rate in sorted(seen["errors"].items()))
    above: list[RenderableType] = [Text(title), table(("", ""), _summary(seen))]
    if errors:
        above.append(Text(f"errors: {errors}"))
    above.append(Text(""))
    most = _OPERATIONS_MAX
    if console.is_terminal:
        # Below are the titles and, if some are left out, a line that says so.
        most = max(1, console.height - len(console.render_lines(Group(*above))) - 1)
        most = most if len(rows) <= most else max(1, most - 1)
    shown = table(titles, rows[:most] or [("no requests", *[""] * 6)], right=1)
    rest = [Text(f"and {len(rows) - most} operations more")] if len(rows) > most else []
    return Group(*above, shown, *rest)


def _summary(seen: dict[str, Any]) -> list[tuple[str, str]]:
    commits, budget, content = seen["commits"], seen["body_budget"], seen["content"]
    caches = [f"{cache} {rate:.0%}" for cache, rate in seen["cache_hit_rates"].items() if rate is not None]
    batch = f", {commits['batch_records']:.1f} records each" if commits["batch_records"] is not None else ""
    return [
        ("requests in flight", f"{seen['in_flight']:.0f} on {seen['connections']:.0f} connections"),
        (
            "memory of bodies",
            f"{size(int(budget['used_bytes']))} of {size(int(budget['bytes']))}, {budget['waiting']:.0f} wait",
        ),
        ("commits", f"{_number(commits['per_sec'])}/s{batch}"),
        ("wait for a commit", f"99 %: {_time(commits['queue_p99_sec'])}"),
        ("sync of the log", f"50 %: {_time(commits['sync_p50_sec'])}, 99 %: {_time(commits['sync_p99_sec'])}"),
        ("index behind by", size(int(seen["index_lag_bytes"]))),
        ("cache hits", ", ".join(caches) or "-"),
        ("stored", f"{size(int(content['stored']))}, {size(int(content['shared']))} saved by sharing"),
        ("dead", f"{size(int(content['dead']))}, reclaimed {size(round(seen['reclaimed_bytes_per_sec']))}/s"),
        ("disk free", size(int(seen["disk_free_bytes"]))),
    ]


def _number(rate: float) -> str:
    return f"{rate:.1f}" if 0 < rate < 100 else f"{rate:.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)


@contextlib.contextmanager
def _screen() -> Iterator[tuple[Console, Callable[[RenderableType], None]]]:
    """A function that shows one view after the other: in place on a terminal, else one below the other. And where."""
    console = _console()
    if not sys.stdout.isatty():

        def below(view: RenderableType) -> None:
            console.print(view)
            sys.stdout.flush()

        yield console, below
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text("…"), console=console, screen=True, auto_refresh=False) as live:
        yield console, lambda view: live.update(view, refresh=True)


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(top)
