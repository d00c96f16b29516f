"""`orcas move`: moves all objects with a prefix to another prefix."""

from __future__ import annotations

from typing import Annotated

import typer

from orcas.cli.options import Where
from orcas.cli.output import counted, print_json, size
from orcas.cli.store.upkeep import ask
from orcas.errors import UsageError

_PLACE_HELP = "A bucket and a prefix; an empty prefix means all keys."


def move(
    source: Annotated[str, typer.Argument(metavar="BUCKET/PREFIX", help=_PLACE_HELP)],
    target: Annotated[str, typer.Argument(metavar="BUCKET/PREFIX", help="The new bucket and prefix.")],
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Move even if keys with the new prefix exist. An object that has one of the new keys is replaced.",
        ),
    ] = False,
    *,
    where: Where,
) -> None:
    """Move all objects with a prefix to another prefix, in their bucket or in another one.

    This changes only metadata. All objects are moved at once: no client sees only some of them moved, even after a crash.
    The prefix is text at the beginning of keys, so a directory ends in a slash.

    Examples:

        orcas move photos/2024/ photos/archive/2024/

        orcas move incoming/ photos/incoming/
    """
    order = {"source": _place(source), "target": _place(target), "overwrite": overwrite}
    moved = ask(where, "POST", "move", order)
    if where.as_json:
        print_json(moved)
        return
    typer.echo(f"{counted(moved['objects'], 'object')} moved, {size(moved['bytes'])}.")


def _place(text: str) -> dict[str, str]:
    """A bucket and a prefix.

    Raises:
        UsageError: the bucket is missing, or no slash says where it ends.
    """
    bucket, slash, prefix = text.removeprefix("s3://").partition("/")
    if not bucket or not slash:
        raise UsageError(f"{text} is not BUCKET/PREFIX: for all keys of a bucket, write BUCKET/.")
    return {"bucket": bucket, "prefix": prefix}


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(move)
