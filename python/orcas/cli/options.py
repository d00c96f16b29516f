"""Options that several commands share, and the class of their applications.

Values stay text here. `orcas.settings.config` checks them, so a mistake gets the same message wherever the value comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from orcas.errors import UsageError

_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]+)\s*(KiB|MiB|GiB|TiB|)", re.ASCII)
_BY_AWS: Final = 'use that of `aws s3`, after `eval "$(orcas env)"`'
# What to do in place of commands that other programs have.
_INSTEAD: Final = {
    "start": "`orcas serve` starts a server",
    "stop": "press Ctrl-C where `orcas serve` runs, or send SIGTERM to its process",
    "status": "`orcas stats` shows the store, and `orcas top` what its server does",
    **dict.fromkeys(("ls", "cp", "mv", "mb", "rb", "rm", "sync", "presign"), _BY_AWS),
}
_Function = TypeVar("_Function", bound=Callable[..., Any])

Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Data directory of the store.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    str | None, typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; 0 picks a free one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and an error as one on stderr.")]


def bytes_of(text: str, option: str) -> int:
    """The number of bytes that an option gives.

    Raises:
        UsageError: it gives none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} must be a number of bytes, or one with KiB, MiB, GiB or TiB, not {text!r}.")
    return int(found[1]) * _UNITS[found[2]]


def _plain_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; typer shows no type beside an empty metavar."""
        return _plain_flags(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; typer shows no type beside an empty metavar."""
        return _plain_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` name.

        Raises:
            UsageError: people look for it, and something else is in its place.
        """
        if ctx.parent is None and (instead := _INSTEAD.get(args[0])) is not None:
            raise UsageError(f"There is no command {args[0]}: {instead}.")
        return super().resolve_command(ctx, args)


class Commands(typer.Typer):
    """An application whose help shows no type beside flags, which take no value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, **{"no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[_Function], _Function]:
        """As that of typer."""
        return super().command(name, cls=_Command, **options)
