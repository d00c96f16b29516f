"""Commands that maintain a store, running or not: stats, gc, compact, lifecycle, fsck and scrub."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orcas.cli.options import Where
from orcas.cli.output import print_found, print_json, print_table, progress, say, show_tasks, size, waiting
from orcas.cli.store.report import show_report
from orcas.control.files.address import following
from orcas.settings.config import Settings, resolve
from orcas.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orcas.cli.output import Advance
    from orcas.engine import CheckOptions
    from orcas.tools.session import Session

_SHOWN_MAX = 20

Bucket = Annotated[str | None, typer.Option("--bucket", metavar="NAME", help="Only this bucket.")]


def settings_of(data: str | None) -> Settings:
    """The settings, with the data directory from the command line. The log is set up as they say."""
    settings = following(resolve({"data": data}).settings, data)
    # Commands print what they have done. Their log is for what went wrong.
    logs.configure(settings.log_format, "warning" if settings.log_level == "info" else settings.log_level)
    return settings


@contextlib.contextmanager
def opened(where: Where) -> Iterator[Session]:
    """A session with a store, running or not."""
    from orcas.tools.reach import reached

    with reached(settings_of(where.data), where.endpoint) as session:
        yield session


def opened_for_objects(where: Where) -> contextlib.AbstractContextManager[Session]:
    """As `opened`, for what all S3 servers have: unless an option names a store, variables of AWS's SDKs name the server."""
    from orcas.settings.clients import s3_endpoint

    is_named = where.data is not None or where.endpoint is not None
    return opened(where if is_named else dataclasses.replace(where, endpoint=s3_endpoint()))


def ask(where: Where, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of the admin API of a store, running or not."""
    with opened(where) as session:
        return session.admin(method, path, order)


def stats(bucket: Bucket = None, *, where: Where) -> None:
    """Show what the store contains and how much space it uses.

    *Logical* is the total size of all objects. *Stored* counts identical content only once, and what sharing saves is
    the difference. *Dead* is content that nothing refers to any more; reclamation will remove it.

    Example:

        orcas stats --bucket photos
    """
    from orcas.tools.session import no_bucket

    shown = ask(where, "GET", "stats")
    if bucket is not None:
        shown["buckets"] = [entry for entry in shown["buckets"] if entry["name"] == bucket]
        if not shown["buckets"]:
            raise no_bucket(bucket)
    if where.as_json:
        print_json(shown)
        return
    rows = [
        (entry["name"], entry["objects"], *(size(entry[name]) for name in ("bytes", "logical", "stored", "shared")))
        for entry in shown["buckets"]
    ]
    print_table(("Bucket", "Objects", "Bytes", "Logical", "Stored", "Saved by sharing"), rows, right=1)
    if bucket is None:
        totals, files = shown["totals"], shown["files"]
        print_table(
            ("", "Bytes", "On disk"),
            [
                ("logical", size(totals["logical"]), ""),
                ("stored", size(totals["stored"]), ""),
                # An earlier server tells of none, nor of tasks.
                *([("saved by sharing", size(totals["shared"]), "")] if "shared" in totals else []),
                ("dead", size(totals["dead"]), ""),
                (f"log ({files['log_files']} files)", size(files["log_bytes"]), size(files["log_allocated"])),
                (f"packs ({files['packs']} files)", size(files["pack_bytes"]), size(files["pack_allocated"])),
                ("index", size(files["index_bytes"]), size(files["index_bytes"] + files["index_wal_bytes"])),
            ],
            right=1,
        )
        if "tasks" in shown:
            show_tasks(shown["tasks"])


def gc(*, where: Where) -> None:
    """Remove content that nothing refers to any more, and free its space where that needs no rewriting.

    A running server does this by itself soon after a deletion, so there may be nothing left to do. The output therefore
    also shows what the server has removed since it started. Objects of up to 256 bytes are stored inside log records;
    compact frees their space.

    Example:

        orcas gc
    """
    _reclaim("gc", where)


def compact(
    seal: Annotated[
        bool, typer.Option("--seal", help="First seal everything that is stored without encryption, with orcas/s3.")
    ] = False,
    *,
    where: Where,
) -> None:
    """Do what gc does, and rewrite files that hold dead records or chunks.

    With --seal, all content that is not encrypted is first stored again, encrypted as with SSE-S3. Objects and their
    versions stay what they are. Then all files are rewritten without the unencrypted content. This needs the master key,
    and free space: at most as much as the content takes. It can be interrupted and repeated at any time. Exit code 1:
    something is still unencrypted.

    Example:

        orcas compact
    """
    if seal:
        from orcas.cli.store.seal import seal_stored

        seal_stored(settings_of(where.data), where.endpoint, as_json=where.as_json)
        return
    _reclaim("compact", where)


def _reclaim(kind: str, where: Where) -> None:
    from orcas.tools.work import run_job

    with opened(where) as session, progress(shown=not where.as_json) as advance:
        done = run_job(session, kind, lambda state: advance(kind, state["total"]["moved_bytes"], 0))
        served = session.is_remote
    if not served:
        # The store was opened for this command, so what its background thread has removed also counts.
        done |= done["since_start"]
    if where.as_json:
        print_json(done)
        return
    columns = [done, done["since_start"]] if served else [done]
    rows = [
        ("contents removed", *(column["blobs"] for column in columns)),
        ("their bytes", *(size(column["condemned_bytes"]) for column in columns)),
        ("freed within packs", *(size(column["punched_bytes"]) for column in columns)),
        ("rewritten", *(size(column["moved_bytes"]) for column in columns)),
        ("log files replaced", *(column["log_files"] for column in columns)),
        ("packs removed", *(column["packs"] for column in columns)),
    ]
    print_table(("", "now", "since the server started") if served else ("", kind), rows, right=1)


def lifecycle(*, where: Where) -> None:
    """Apply the lifecycle rules of all buckets now: remove what has expired.

    A running server does this by itself every ORCAS_LIFECYCLE_INTERVAL_SEC seconds. `orcas tasks run lifecycle` does
    the same.

    Example:

        orcas lifecycle
    """
    from orcas.tools.work import run_job

    with opened(where) as session, waiting(shown=not where.as_json) as advance:
        done = run_job(
            session,
            "lifecycle",
            lambda state: advance(f"lifecycle: {state['total']['seen']} versions and uploads looked at"),
            path="lifecycle/run",
        )
    rows = [
        ("buckets with rules", done["buckets"]),
        ("versions and uploads looked at", done["seen"]),
        ("versions removed", done["versions"]),
        ("delete markers added", done["markers"]),
        ("uploads aborted", done["uploads"]),
        ("kept because they changed", done["changed"]),
        ("kept because they are locked", done["locked"]),
    ]
    print_found(done, where.as_json, ("", "lifecycle"), rows, right=1)


def fsck(
    repair: Annotated[
        bool, typer.Option("--repair", help="First rebuild the index from the log; the store must be stopped.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="With --repair: give up what a damaged file has lost.")
    ] = False,
    no_content: Annotated[bool, typer.Option("--no-content", help="Do not read the content of objects.")] = False,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, max=64, help="Number of threads that read content.")
    ] = 2,
    *,
    where: Where,
) -> None:
    """Read the whole store, and check it against its checksums and the index.

    Changes nothing without --repair. Groups findings by cause, lists the objects that cannot be read in full, and says
    what to do next. Exit code 1: there is damage.

    If damage keeps a store from starting, `orcas fsck --repair --accept-loss` makes it start again: everything readable
    is kept, everything given up is listed, and the damaged files are kept under other names.

    A stopped store is checked without opening it. A running store is checked while it serves requests, and a node of a
    cluster checks its own files.

    With the master key in the settings, the tags of encrypted content are verified, too.

    Example:

        orcas fsck --no-content
    """
    options: CheckOptions = {"read_content": not no_content, "threads": threads, "bytes_per_sec": 0}
    with progress(shown=not where.as_json) as advance:
        report = _check(
            settings_of(where.data), where.endpoint, options, advance, repair=repair, accept_loss=accept_loss
        )
    show_report(report, as_json=where.as_json)


def scrub(
    now: Annotated[bool, typer.Option("--now", help="Check everything now, at the rate of the scrub.")] = False,
    *,
    where: Where,
) -> None:
    """Show the progress of the background scrub, which rereads the whole store continuously to find damage early.

    In a cluster, the scrub is a task of the node that owns the log. With --now, the node that is asked checks its own files.

    Example:

        orcas scrub
    """
    from orcas.tools.reach import check_tasks, reached

    settings = settings_of(where.data)
    if now:
        options: CheckOptions = {"read_content": True, "threads": 1, "bytes_per_sec": settings.scrub_bytes_per_sec}
        with progress(shown=not where.as_json) as advance:
            report = _check(settings, where.endpoint, options, advance, repair=False)
        show_report(report, as_json=where.as_json)
        return
    with reached(settings, where.endpoint) as session:
        check_tasks(session)
        state = session.admin("GET", "scrub")
    if where.as_json:
        print_json(state)
        return
    print_table(
        ("", "scrub"),
        [
            ("rate", f"{size(state['rate'])}/s" if state["rate"] else "off"),
            ("passes completed", state["passes"]),
            ("this pass", f"{size(state['done_bytes'])} of {size(state['total_bytes'])}"),
            ("reading", state["position"] or "nothing at the moment"),
            ("damaged places", state["damaged_total"]),
        ],
        right=1,
    )
    for damage in state["damaged"][:_SHOWN_MAX]:
        say(f"{damage['place']}: {damage['detail']}")
    if state["damaged_total"]:
        typer.echo("Run `orcas fsck` to see which objects are affected and what to do.")
    if state["failed"]:
        say(f"The last pass ended early: {state['failed']}.")


def _check(
    settings: Settings,
    endpoint: str | None,
    options: CheckOptions,
    advance: Advance,
    *,
    repair: bool,
    accept_loss: bool = False,
) -> dict[str, Any]:
    from orcas.control.files import InUseError
    from orcas.errors import UsageError
    from orcas.tools.check import check_stopped
    from orcas.tools.reach import follower, remote, through_server
    from orcas.tools.work import run_job

    if accept_loss and not repair:
        raise UsageError("--accept-loss needs --repair: give both or neither.")
    if endpoint is not None and repair:
        raise UsageError("--repair works on the directory of a stopped store: use --data, not --endpoint.")
    try:
        if endpoint is None:
            return check_stopped(settings, options, advance, repair=repair, accept_loss=accept_loss)
        session = remote(settings, endpoint)
    except InUseError:
        if repair:
            raise
        session = through_server(settings)

    def watch(state: dict[str, Any]) -> None:
        advance(state["phase"], state["done_bytes"], state["total_bytes"])

    with contextlib.closing(session):
        # Otherwise the owner of the log would check its own files in place of this node.
        routes = {} if follower(session) is None else {"path": "cluster/check", "jobs": "cluster/jobs"}
        return run_job(session, "check", watch, {**options}, **routes)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (stats, gc, compact, lifecycle, fsck, scrub):
        app.command()(command)
