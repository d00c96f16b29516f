"""`orcas import`: brings data over from another S3 server, from a directory, or from the drives of a MinIO."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
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
Unsigned = Annotated[
    bool, typer.Option("--source-unsigned", help="The source is public: do not sign the requests to it.")
]
MinioDisk = Annotated[
    bool, typer.Option("--minio-disk", help="The arguments are the directories of the drives of a stopped MinIO.")
]
Versions = Annotated[
    bool, typer.Option("--versions", help="Import all versions and delete markers, not only the current objects.")
]
Move = Annotated[
    bool, typer.Option("--move", help="Remove each object from the drives of the MinIO when the store has all of it.")
]


@dataclass(frozen=True, slots=True)
class Moving:
    """Whether objects leave the drives of a MinIO, and whether that is asked first."""

    move: Move = False
    yes: Annotated[bool, typer.Option("--yes", help="With --move: do not ask.")] = False

    def check(self, drives: list[str], *, minio_disk: bool, versions: bool, dry_run: bool) -> None:
        """Returns if nothing stands against it."""
        if not self.move:
            return
        if not minio_disk:
            raise UsageError("--move is for the drives of a stopped MinIO: leave it out, or add --minio-disk.")
        if not versions:
            raise UsageError("Without --versions, --move would remove versions that are not imported: add it.")
        if self.yes or dry_run:
            return
        if not sys.stdin.isatty():
            raise UsageError("Moving objects needs a confirmation: use a terminal, or --yes.")
        question = (
            f"Remove the objects from {', '.join(drives)} when they are in the store? MinIO must not run meanwhile."
        )
        if not typer.confirm(question, err=True):
            raise OrcasError("Nothing was imported, and nothing removed: answer y to move the objects.")


def import_data(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE [BUCKET[/PREFIX]]",
            help="http(s)://HOST[:PORT][/BUCKET] of an S3 server, or a directory; then the bucket, and what to put "
            "before every key.",
        ),
    ],
    minio_disk: MinioDisk = False,
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Import only keys with this prefix.")] = "",
    versions: Versions = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Copy nothing; say what would be copied.")] = False,
    threads: Threads = 32,
    profile: Profile = None,
    unsigned: Unsigned = False,
    *,
    moving: Moving,
    where: Where,
) -> None:
    """Copy the objects of another S3 server or of a stopped MinIO, or the files of a directory, into the store.

    Every object is verified, and keeps its ETag, metadata, headers and tags. An import that was interrupted continues
    where it was when it is run again. What is already there is not copied. Only --move deletes anything.

    The key of the source comes from the variables SOURCE_AWS_ACCESS_KEY_ID and SOURCE_AWS_SECRET_ACCESS_KEY. Without
    BUCKET, buckets keep their names; missing ones are created. Exit code 1: some objects could not be imported.

    Examples:

        orcas import https://minio.example.org

        orcas import https://minio.example.org/photos archive/photos/ --versions

        orcas import ~/pictures photos/pictures/

        orcas import --minio-disk /srv/minio1 /srv/minio2 /srv/minio3 /srv/minio4 --versions

        orcas import --minio-disk /srv/minio --versions --move
    """
    from orcas.tools.imports.minio_disks import DiskSource
    from orcas.tools.imports.minio_settings import IAM, bring_identities
    from orcas.tools.imports.places import disks_of, source_of, target_of
    from orcas.tools.imports.run import Import, VersionedSource
    from orcas.tools.reach import reached

    source, target = places[0], places[1] if len(places) > 1 else None
    if len(places) > 2 and not minio_disk:
        raise UsageError(f"One source and one bucket are imported at a time: leave out {places[2]}.")
    moving.check(places, minio_disk=minio_disk, versions=versions, dry_run=dry_run)
    place, bucket = (disks_of(places), "") if minio_disk else source_of(source, profile, signed=not unsigned)
    if versions and not isinstance(place, VersionedSource):
        raise UsageError("--versions needs an S3 server as the source, or --minio-disk: leave it out.")
    if prefix and not bucket:
        raise UsageError("--prefix needs a bucket as the source: add one to the URL, or name a directory below.")
    settings = settings_of(where.data)
    with (
        contextlib.closing(place),
        reached(settings, where.endpoint) as session,
        progress(shown=not where.as_json) as advance,
    ):
        buckets = target_of(None if minio_disk else target, bucket, place)
        drives = place if isinstance(place, DiskSource) else None
        run = Import(session, place, threads, advance, dry_run=dry_run, moving=drives if moving.move else None)
        done = run.run(buckets, os.fsencode(prefix), versions)
        if not dry_run and drives is not None:
            done.not_kept.update(bring_identities(drives.files(IAM), session))
    _show(done, where.as_json)
    _check(done)


def _show(done: Outcome, as_json: bool) -> None:
    if as_json:
        print_json(done.document())
        return
    facts: list[tuple[str, object]] = [
        ("buckets", done.buckets),
        ("objects to copy" if done.dry_run else "objects copied", done.copied),
        ("bytes", size(done.bytes)),
        ("already there", done.present),
        *([("removed from the drives", done.removed)] if done.removed else []),
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


def _check(done: Outcome) -> None:
    if done.failed:
        first = done.failures[0]
        raise OrcasError(
            f"Objects that could not be imported: {done.failed}, such as {first['place']}/{first['key']}, because "
            f"{first['reason']}: remove the cause, and run it again."
        )


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command("import")(import_data)
