"""`orcas import`: brings data over from another S3 server or from a directory."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated

import typer

from orcas.cli.options import Where
from orcas.cli.output import print_json, print_table, progress, say, size
from orcas.cli.store.upkeep import settings_of
from orcas.errors import OrcasError, UsageError

if TYPE_CHECKING:
    from orcas.tools.imports.run import Outcome

_SHOWN_MAX = 10

Threads = Annotated[int, typer.Option("--threads", min=1, max=256, help="How many objects to copy at a time.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--source-profile", metavar="NAME", help="The profile in ~/.aws with the key of the source; needs boto3."
    ),
]


def import_data(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="http(s)://HOST[:PORT][/BUCKET] of an S3 server, or a directory."),
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="BUCKET[/PREFIX]", help="The bucket, and what to put before every key.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Import only keys with this prefix.")] = "",
    versions: Annotated[
        bool, typer.Option("--versions", help="Import all versions and delete markers, not only the current objects.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Copy nothing; say what would be copied.")] = False,
    threads: Threads = 32,
    profile: Profile = None,
    unsigned: Annotated[
        bool, typer.Option("--source-unsigned", help="The source is public: do not sign the requests to it.")
    ] = False,
    *,
    where: Where,
) -> None:
    """Copy the objects of another S3 server, or the files of a directory, into the store.

    Every object is verified, and keeps its ETag, metadata, headers and tags. An import that was interrupted continues
    where it was when it is run again. What is already there is not copied. Nothing is deleted.

    The key of the source comes from the variables SOURCE_AWS_ACCESS_KEY_ID and SOURCE_AWS_SECRET_ACCESS_KEY. Without
    BUCKET, buckets keep their names; missing ones are created. Exit code 1: some objects could not be imported.

    Examples:

        orcas import https://minio.example.org

        orcas import https://minio.example.org/photos archive/photos/ --versions

        orcas import ~/pictures photos/pictures/
    """
    from orcas.tools.imports.places import source_of, target_of
    from orcas.tools.imports.run import Import
    from orcas.tools.imports.server import ServerSource
    from orcas.tools.reach import reached

    place, bucket = source_of(source, profile, signed=not unsigned)
    is_server = isinstance(place, ServerSource)
    if versions and not is_server:
        raise UsageError("--versions needs an S3 server as the source: leave it out.")
    if prefix and not bucket:
        raise UsageError("--prefix needs a bucket as the source: add one to the URL, or name a directory below.")
    settings = settings_of(where.data)
    with (
        contextlib.closing(place),
        reached(settings, where.endpoint) as session,
        progress(shown=not where.as_json) as advance,
    ):
        buckets = target_of(target, bucket, place)
        done = Import(session, place, threads, advance, dry_run=dry_run).run(buckets, os.fsencode(prefix), versions)
    if not isinstance(place, ServerSource) and place.left_out:
        done.not_kept["symbolic link or special file"] = place.left_out
    _show(done, where.as_json)
    if done.failed:
        first = done.failures[0]
        raise OrcasError(
            f"Objects that could not be imported: {done.failed}, such as {first['place']}/{first['key']}, because "
            f"{first['reason']}: remove the cause, and run it again."
        )


def _show(done: Outcome, as_json: bool) -> None:
    if as_json:
        print_json(done.document())
        return
    facts: list[tuple[str, object]] = [
        ("buckets", done.buckets),
        ("objects to copy" if done.dry_run else "objects copied", done.copied),
        ("bytes", size(done.bytes)),
        ("already there", done.present),
        *([("delete markers", done.delete_markers)] if done.delete_markers else []),
        *([("deleted during the import", done.gone)] if done.gone else []),
        *([("copied, but the source has nothing to verify them with", done.unverified)] if done.unverified else []),
        *((f"not kept: {what}", count) for what, count in sorted(done.not_kept.items())),
        *([("failed", done.failed)] if done.failed else []),
        ("seconds", f"{done.seconds:.1f}"),
    ]
    print_table(("", "import"), facts, right=1)
    for failure in done.failures[:_SHOWN_MAX]:
        say(f"{failure['place']}/{failure['key']}: {failure['reason']}", err=True)


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command("import")(import_data)
