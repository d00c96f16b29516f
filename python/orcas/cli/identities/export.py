"""`orcas identities export`: users, groups, policies and providers as a file that a server reads with its start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import tell
from orcas.cli.store.upkeep import ask
from orcas.errors import UsageError

identities_app = Commands(help="All identities of a store as a file.")


@identities_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, which must not exist.")],
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also the access keys, with their secrets, so that they work there, too.")
    ] = False,
    *,
    where: Where,
) -> None:
    """Write the users, groups, policies and identity providers of the first account to FILE, which only its owner may read.

    ORCAS_IDENTITIES_FILE names the file for another server, which makes them with its next start. What the file has no
    place for is named: roles, policies that belong to one user or group, service accounts, and disabled keys.

    Example:

        orcas identities export identities.toml --secrets
    """
    from orcas.control.files import write_secret_file

    if file.exists():
        raise UsageError(f"{file} exists: name another file.")
    found = ask(where, "POST", "iam/export", {"secrets": secrets})
    write_secret_file(file, found["file"].encode())
    words = f"written to {file}" + "".join(f"\nnot in it: {name}" for name in found["left_out"])
    tell({"file": str(file), "left_out": found["left_out"]}, words, where.as_json)


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.add_typer(identities_app, name="identities")
