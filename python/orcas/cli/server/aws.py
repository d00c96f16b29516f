"""`orcas aws`: what init scripts call most of AWS's command, for an image that does not have it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from orcas.cli.options import Commands
from orcas.errors import UsageError
from orcas.settings.config import environment

_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_S3: Final = ("mb", "rb", "ls", "cp", "rm", "presign")

Command = Annotated[list[str] | None, typer.Argument(metavar="COMMAND...", help="As those of `aws`.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings=_PASSED_ON)(aws)


def aws(command: Command = None) -> None:
    """Run one of those commands of AWS's client, `aws`, with which init scripts begin.

    They are s3 mb, rb, ls, cp, rm and presign, with the options of the commands of Orcas, and s3api create-bucket. In the
    image, `aws` is this command until AWS's client is installed. Without --endpoint-url and AWS_ENDPOINT_URL, it uses the
    server that runs here.

    Example:

        orcas aws --endpoint-url http://127.0.0.1:4566 s3 mb s3://photos
    """
    words = list(command or [])
    endpoint = taken(words, "--endpoint-url")
    region = taken(words, "--region")
    if words[:2] == ["s3api", "create-bucket"]:
        bucket = taken(words, "--bucket")
        # A server has one region.
        taken(words, "--create-bucket-configuration")
        words = words if bucket is None else ["s3", "mb", f"s3://{bucket}", *words[2:]]
    if words[:1] != ["s3"] or not words[1:] or words[1] not in _S3:
        raise UsageError(
            f"`aws {' '.join(words[:2])}` is not here: install AWS's own command (`pip install awscli`), which takes its "
            "place."
        )
    from orcas.cli.objects import copies, lists, removal

    app = Commands()
    for module in (copies, lists, removal):
        module.add_to(app)
    with environment({} if region is None else {"AWS_REGION": region}):
        server = [] if endpoint is None else ["--endpoint", endpoint]
        code = app([words[1], *server, *words[2:]], standalone_mode=False)
    if code:
        raise typer.Exit(code)


def taken(words: list[str], option: str) -> str | None:
    """The value of an option, which is removed from the words; None if it is not there."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            taken = words[at : at + (1 if equals else 2)]
            del words[at : at + len(taken)]
            return value if equals else taken[-1]
    return None
