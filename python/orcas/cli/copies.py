"""Commands that bring a store's content elsewhere and back: backup, restore and export."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from orcas.cli.options import AsJson, Data
from orcas.cli.output import print_json, print_table, progress, size
from orcas.cli.upkeep import Bucket, Endpoint, settings_of
from orcas.errors import UsageError

EXIT_LOST = 1

TargetEndpoint = Annotated[
    str | None, typer.Option("--target-endpoint", metavar="URL", help="The S3 server of s3://BUCKET/PREFIX.")
]


def backup(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A directory, or s3://BUCKET/PREFIX.")],
    data: Data = None,
    target_endpoint: TargetEndpoint = None,
    as_json: AsJson = False,
) -> None:
    """Copy the store to TARGET, running or not; what TARGET has of it already is not copied again.

    The backup holds everything that was acknowledged before it began, and the keys of the store: keep it private.

    Examples:

        orcas backup /mnt/backups/orcas

        orcas backup s3://backups/orcas --target-endpoint https://s3.example.org
    """
    from orcas.tools.backup import back_up
    from orcas.tools.reach import reached
    from orcas.tools.targets import target_at

    place = target_at(target, target_endpoint)
    settings = settings_of(data)
    with reached(settings) as session, progress(shown=not as_json) as advance:
        done = back_up(session, settings.data, place, advance)
    if as_json:
        print_json(done.document())
        return
    _print_facts(
        f"backup {done.number}",
        [
            ("files", done.files),
            ("bytes", size(done.bytes)),
            ("files copied", done.copied_files),
            ("bytes copied", size(done.copied_bytes)),
            ("old files removed", done.removed_files),
            ("seconds", f"{done.seconds:.1f}"),
        ],
    )


def restore(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="What `orcas backup` was told: a directory or s3://….")
    ],
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="The new directory of the store.")],
    target_endpoint: TargetEndpoint = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into DIR, which must not exist or be empty, and open the store once.

    Example:

        orcas restore /mnt/backups/orcas --data ~/restored
    """
    from orcas.tools.reach import reached
    from orcas.tools.restore import restore as run
    from orcas.tools.targets import target_at

    place = target_at(source, target_endpoint)
    settings = settings_of(data)

    def open_store() -> dict[str, Any]:
        with reached(settings) as session:
            return session.admin("GET", "stats")

    with progress(shown=not as_json) as advance:
        done = run(place, settings, advance, open_store)
    if as_json:
        print_json(done)
        return
    _print_facts(
        f"restored to {done['data']}",
        [
            ("state of", done["time"]),
            ("buckets", done["buckets"]),
            ("objects", done["objects"]),
            ("files", done["files"]),
            ("bytes", size(done["bytes"])),
            ("seconds", f"{done['seconds']:.1f}"),
        ],
    )


def export(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new directory.")],
    data: Data = None,
    endpoint: Endpoint = None,
    bucket: Bucket = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Only keys that begin so.")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep files that have the size and time of their object.")
    ] = False,
    skip_lost: Annotated[
        bool,
        typer.Option(
            "--skip-lost", help="Go on where an object cannot be read, and open any store that has one record."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write every object as a plain file, TARGET/BUCKET/KEY, and TARGET/index.jsonl with what is known of it.

    What cannot be part of a path is written as %XX; the index has the key of every path.

    With --skip-lost a stopped store is opened for salvage: nothing in it is changed, and TARGET/lost.jsonl lists what is not
    whole. Exit code 1: something is lost, or may have been deleted or replaced by a record that is lost.

    Examples:

        orcas export ~/photos --bucket photos --prefix 2026/

        orcas export ~/what-is-left --skip-lost
    """
    from orcas.tools.export import Export
    from orcas.tools.reach import reached
    from orcas.tools.salvage import in_words, readable_salvage

    if prefix and bucket is None:
        raise UsageError("--prefix goes with --bucket.")
    place = Path(os.path.abspath(Path(target).expanduser()))  # noqa: PTH100 - keeps symlinks
    settings = settings_of(data)
    if skip_lost and endpoint is None:
        settings = dataclasses.replace(settings, salvage=True)
    with reached(settings, endpoint) as session, progress(shown=not as_json) as advance:
        done = Export(session, place, resume, advance, skip_lost).run(bucket, os.fsencode(prefix))
        found = session.salvage
    if found is not None:
        done["salvage"] = readable_salvage(found)
    if as_json:
        print_json(done)
    else:
        _print_facts(
            "export",
            [
                ("objects", done["objects"]),
                ("bytes", size(done["bytes"])),
                ("there already", done["skipped"]),
                ("deleted meanwhile", done["gone"]),
                *([("lost", done["lost"])] if skip_lost else []),
            ],
        )
        for line in in_words(done["salvage"]) if found is not None else []:
            typer.echo(line, err=True)
    if done.get("lost") or (found is not None and found["doubtful"]):
        raise typer.Exit(EXIT_LOST)


def _print_facts(title: str, facts: list[tuple[str, object]]) -> None:
    print_table(("", title), facts, right=1)


def add_to(app: typer.Typer) -> None:
    """Make these commands of `orcas`."""
    for command in (backup, restore, export):
        app.command()(command)
