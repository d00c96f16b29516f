"""Commands that copy the content of a store elsewhere and back: backup, restore and export."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from orcas.cli.options import AsJson, Data, Where
from orcas.cli.output import print_json, print_table, progress, say, size
from orcas.cli.store.upkeep import Bucket, settings_of
from orcas.errors import OrcasError, UsageError

TargetEndpoint = Annotated[
    str | None,
    typer.Option("--target-endpoint", metavar="URL", help="The URL of the S3 server for s3://BUCKET/PREFIX."),
]


def backup(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A directory, or s3://BUCKET/PREFIX.")],
    data: Data = None,
    target_endpoint: TargetEndpoint = None,
    as_json: AsJson = False,
) -> None:
    """Back up the store to TARGET, whether or not its server is running. Later backups to TARGET are incremental.

    The backup contains every write that was acknowledged before it began. It also contains the keys of the store, so
    keep it private.

    Examples:

        orcas backup /mnt/backups/orcas

        orcas backup s3://backups/orcas --target-endpoint https://s3.example.org
    """
    from orcas.tools.copies.backup import back_up
    from orcas.tools.copies.targets import target_at
    from orcas.tools.reach import reached

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
        str, typer.Argument(metavar="SOURCE", help="The TARGET of `orcas backup`: a directory or s3://BUCKET/PREFIX.")
    ],
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="The new data directory.")],
    target_endpoint: TargetEndpoint = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into DIR, which must be empty or not exist, and open the store once.

    Example:

        orcas restore /mnt/backups/orcas --data ~/restored
    """
    from orcas.tools.copies.restore import restore as run
    from orcas.tools.copies.targets import target_at
    from orcas.tools.reach import reached

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
    bucket: Bucket = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Export only keys with this prefix.")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep existing files whose size and time match their object.")
    ] = False,
    skip_lost: Annotated[
        bool,
        typer.Option("--skip-lost", help="Skip objects that cannot be read, and open even a badly damaged store."),
    ] = False,
    *,
    where: Where,
) -> None:
    """Write every object to a plain file, TARGET/BUCKET/KEY, and an index to TARGET/index.jsonl.

    The index has the key and the metadata of every object. Characters that cannot be part of a path become %XX.

    Objects that the store refuses to open, because their key is a customer's or cannot be used, are left out and listed
    in TARGET/lost.jsonl: exit code 1.

    With --skip-lost, a stopped store is opened for salvage: nothing in it is changed, and TARGET/lost.jsonl lists the
    objects that are damaged. Exit code 1: something is lost, or a lost record may have deleted or replaced an exported
    object.

    Examples:

        orcas export ~/photos --bucket photos --prefix 2026/

        orcas export ~/what-is-left --skip-lost
    """
    from orcas.tools.copies.export import Export
    from orcas.tools.reach import reached
    from orcas.tools.salvage import in_words, readable_salvage

    if prefix and bucket is None:
        raise UsageError("--prefix needs --bucket: name the bucket, too.")
    place = Path(os.path.abspath(Path(target).expanduser()))  # noqa: PTH100 - keeps symlinks
    settings = settings_of(where.data)
    if skip_lost and where.endpoint is None:
        settings = dataclasses.replace(settings, salvage=True)
    with reached(settings, where.endpoint) as session, progress(shown=not where.as_json) as advance:
        done = Export(session, place, resume, advance, skip_lost).run(bucket, os.fsencode(prefix))
        found = session.salvage
    if found is not None:
        done["salvage"] = readable_salvage(found)
    if where.as_json:
        print_json(done)
    else:
        _print_facts(
            "export",
            [
                ("objects", done["objects"]),
                ("bytes", size(done["bytes"])),
                ("already exported", done["skipped"]),
                ("deleted during the export", done["gone"]),
                *([("lost", done["lost"])] if "lost" in done else []),
            ],
        )
        for line in in_words(done["salvage"]) if found is not None else []:
            say(line, err=True)
    doubtful = 0 if found is None else found["doubtful"]
    if done.get("lost") or doubtful:
        raise OrcasError(
            f"Lost: {done.get('lost', 0)}; possibly out of date: {doubtful}; all files in {place} are intact: keep "
            "them, and restore the rest from a backup with `orcas restore`."
        )


def _print_facts(title: str, facts: list[tuple[str, object]]) -> None:
    print_table(("", title), facts, right=1)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (backup, restore, export):
        app.command()(command)
