"""Commands for the settings of one bucket: settings show, set and clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orcas.cli.options import DURABILITIES, Commands, Where, among
from orcas.cli.output import print_table, tell
from orcas.cli.store.upkeep import opened
from orcas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

settings_app = Commands(help="Settings of one bucket, in place of those of the store.")

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="A bucket.")]


@settings_app.command("show")
def show_settings(bucket: Bucket, *, where: Where) -> None:
    """Show the settings that a bucket has of its own. For all others, those of the store apply.

    Example:

        orcas settings show photos
    """
    from orcas.tools.bucket_settings import bucket_settings

    with opened(where) as session:
        found = bucket_settings(session, bucket)
    _show(bucket, found, where.as_json)


@settings_app.command("set")
def set_settings(
    bucket: Bucket,
    durability: Annotated[
        str | None,
        typer.Option(
            "--durability",
            metavar="MODE",
            autocompletion=among(*DURABILITIES, "default"),
            help="sync, interval, buffered or unsafe-none.",
        ),
    ] = None,
    chunk_size: Annotated[
        str | None, typer.Option("--chunk-size", metavar="BYTES", help="Size of the chunks of large objects.")
    ] = None,
    ref_level: Annotated[
        str | None,
        typer.Option(
            "--ref-level",
            metavar="LEVEL",
            autocompletion=among("off", "full", "fast", "default"),
            help="Deduplication: off, full or fast.",
        ),
    ] = None,
    chunking: Annotated[
        str | None,
        typer.Option(
            "--chunking",
            metavar="HOW",
            autocompletion=among("fixed", "content-defined", "default"),
            help="Chunk boundaries: fixed or content-defined.",
        ),
    ] = None,
    keep_sha256: Annotated[
        str | None,
        typer.Option(
            "--keep-sha256",
            metavar="BOOL",
            autocompletion=among("true", "false", "default"),
            help="Store the SHA-256 of objects: true or false.",
        ),
    ] = None,
    *,
    where: Where,
) -> None:
    """Change settings of a bucket. The others stay; the value `default` removes a setting.

    A change applies to uploads that begin after it.

    Examples:

        orcas settings set incoming --durability buffered

        orcas settings set photos --chunking content-defined --durability default
    """
    given = {
        "durability": durability,
        "chunk-size": chunk_size,
        "ref-level": ref_level,
        "chunking": chunking,
        "keep-sha256": keep_sha256,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise UsageError("Give at least one setting, such as --durability; `orcas settings clear` removes all.")
    for name, value in changes.items():
        # It becomes the value of a header.
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"--{name} must be printable ASCII.")
    _show(bucket, _changed(bucket, changes, where), where.as_json)


@settings_app.command("clear")
def clear_settings(bucket: Bucket, *, where: Where) -> None:
    """Remove all settings of a bucket, so that those of the store apply.

    Example:

        orcas settings clear photos
    """
    from orcas.tools.bucket_settings import DEFAULT, NAMES

    _show(bucket, _changed(bucket, dict.fromkeys(NAMES, DEFAULT), where), where.as_json)


def _changed(bucket: str, changes: Mapping[str, str], where: Where) -> dict[str, str]:
    from orcas.tools.bucket_settings import change_bucket_settings

    with opened(where) as session:
        return change_bucket_settings(session, bucket, changes)


def _show(bucket: str, found: dict[str, str], as_json: bool) -> None:
    if found and not as_json:
        print_table(("Setting", "Value"), found.items())
    else:
        tell({"bucket": bucket, "settings": found}, f"bucket {bucket} has no settings of its own", as_json)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(settings_app, name="settings")
