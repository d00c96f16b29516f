"""`orcas rm` and `orcas rb`: objects and buckets that are deleted, and what became of their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orcas.cli.objects.copies import DryRun, Quiet, Recursive, refuse_failed
from orcas.cli.options import Where
from orcas.cli.output import print_json, say, tell
from orcas.cli.store.upkeep import opened_for_objects
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.tools.transfers.places import Place
    from orcas.tools.transfers.removal import Removed

AllVersions = Annotated[
    bool, typer.Option("--all-versions", help="All versions and delete markers as well: nothing brings them back.")
]


def rm(
    place: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="An object; with -r, a prefix.")],
    recursive: Recursive = False,
    all_versions: AllVersions = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    *,
    where: Where,
) -> None:
    """Delete an object, or everything below a prefix, as `aws s3 rm` does.

    In a bucket with versioning, a delete marker hides the object, and its versions stay. What is not there counts as
    deleted. Exit code 1: something could not be deleted.

    Examples:

        orcas rm s3://photos/2026/picture.jpg

        orcas rm -r s3://photos/2026/ --dryrun
    """
    from orcas.tools.transfers.places import object_of, place_of
    from orcas.tools.transfers.removal import below, remove, versions_of

    found = place_of(place).folder if recursive else object_of(place, has_recursive=True)
    with opened_for_objects(where) as session:
        if recursive:
            named = below(session, found, all_versions=all_versions)
        else:
            named = versions_of(session, found) if all_versions else iter([(found.key, "")])

        def show(each: Place) -> None:
            if not (quiet or where.as_json):
                say(f"{'(dry run) ' if dry_run else ''}delete: {each}")

        done = remove(session, found.bucket, named, show, dry_run=dry_run)
    if where.as_json:
        print_json(done.document())
    elif done.objects or done.markers or not done.failed:
        _say(done, all_versions, dry_run=dry_run)
    refuse_failed("deleted", done)


def rb(
    bucket: Annotated[str, typer.Argument(metavar="s3://BUCKET", help="The bucket to delete.")],
    force: Annotated[bool, typer.Option("--force", help="First delete all objects in it.")] = False,
    all_versions: AllVersions = False,
    *,
    where: Where,
) -> None:
    """Delete a bucket, which must be empty, or with --force also what is in it.

    A bucket with versioning keeps what is deleted, so --force needs --all-versions there, and nothing is deleted without.

    Examples:

        orcas rb s3://pictures

        orcas rb s3://sketches --force --all-versions
    """
    from orcas.tools.imports.requests import ObjectError, Side, path_of
    from orcas.tools.imports.target import versioning_of
    from orcas.tools.session import RefusedError
    from orcas.tools.transfers.places import Place, bucket_of
    from orcas.tools.transfers.removal import Removed, below, remove

    name, done = bucket_of(bucket), Removed()
    with opened_for_objects(where) as session:
        side = Side(session, is_target=False)
        try:
            if force:
                if not all_versions and versioning_of(side, name):
                    raise OrcasError(
                        f"The bucket {name} keeps versions of what is deleted: add --all-versions to delete them as well."
                    )
                named = below(session, Place(name), all_versions=all_versions)
                done = remove(session, name, named, lambda _: None)
                refuse_failed("deleted", done)
            side.ask("DELETE", path_of(name))
        except ObjectError as error:
            if error.code == "BucketNotEmpty" and not force:
                raise RefusedError(
                    error.status,
                    f"The bucket {name} cannot be deleted ({error}): add --force to delete what is in it as well.",
                    error.code,
                ) from None
            sentence = f"The bucket {name} cannot be deleted ({error}): remove the cause, and run it again."
            raise RefusedError(error.status, sentence, error.code) from None
    if force and not where.as_json:
        _say(done, all_versions)
    tell({"Name": name, **done.document()}, f"remove_bucket: {name}", where.as_json)


def _say(done: Removed, all_versions: bool, *, dry_run: bool = False) -> None:
    """How many there were, and whether they are gone."""
    what = "versions and delete markers" if all_versions else "objects"
    if done.objects or not done.markers:
        say(f"{what} {'that would be ' if dry_run else ''}deleted: {done.objects}")
    if done.markers:
        say(f"objects hidden by delete markers: {done.markers}; their versions stay until --all-versions deletes them")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (rm, rb):
        app.command()(command)
