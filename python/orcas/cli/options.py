"""Options that several commands share, and the class of their applications.

Values stay text here. `orcas.settings.config` checks them, so a mistake gets the same message wherever the value comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

_Function = TypeVar("_Function", bound=Callable[..., Any])

Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Data directory of the store.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    str | None, typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; 0 picks a free one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and an error as one on stderr.")]


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


class Commands(typer.Typer):
    """An application whose help shows no type beside flags, which take no value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, **{"no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[_Function], _Function]:
        """As that of typer."""
        return super().command(name, cls=_Command, **options)
