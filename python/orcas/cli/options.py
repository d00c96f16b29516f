"""Options that several commands share, groups of options, and the class of the applications of commands.

A parameter of a command whose type is a dataclass is a group: each field is an option, and the command gets one value.

Values stay text here. `orcas.settings.config` checks them, so a mistake gets the same message wherever the value comes from.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from orcas.errors import UsageError

_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]+)\s*(KiB|MiB|GiB|TiB|)", re.ASCII)
# What to do in place of commands that other programs have.
_INSTEAD: Final = {
    "start": "`orcas serve` starts a server",
    "mv": "`orcas move` moves a prefix, and `orcas cp` and `orcas rm` move an object",
    "sync": '`orcas import` brings what is missing, and `aws s3 sync` works after `eval "$(orcas env)"`',
}
_Function = TypeVar("_Function", bound=Callable[..., Any])

DURABILITIES: Final = ("sync", "interval", "buffered", "unsafe-none")

Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Data directory of the store (default: ~/.local/share/orcas)."),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default: 127.0.0.1).")
]
Port = Annotated[
    str | None,
    typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; 0 picks a free one (default: 9000)."),
]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", metavar="URL", help="URL of a running server; its keys come from the AWS_* variables."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and an error as one on stderr.")]


@dataclass(frozen=True, slots=True)
class Where:
    """Which store a command works on, and how it prints."""

    data: Data = None
    endpoint: Endpoint = None
    as_json: AsJson = False


def among(*values: str) -> Callable[[str], list[str]]:
    """A completion for the shell that offers these values."""

    def found(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return found


def bytes_of(text: str, option: str) -> int:
    """The number of bytes that an option gives.

    Raises:
        UsageError: it gives none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} must be a number of bytes, or one with KiB, MiB, GiB or TiB, not {text!r}.")
    return int(found[1]) * _UNITS[found[2]]


def pairs(given: list[str], option: str) -> list[tuple[str, str]]:
    """Options of the form KEY=VALUE.

    Raises:
        UsageError: one has another form.
    """
    split = [each.partition("=") for each in given]
    if not all(equals for _, equals, _ in split):
        raise UsageError(f"{option} must be KEY=VALUE, such as aws:SourceIp=192.0.2.1.")
    return [(key, value) for key, _, value in split]


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
        """The decorator of typer, for a function whose parameters may be groups of options."""
        add = super().command(name, cls=_Command, **options)

        def decorated(function: _Function) -> _Function:
            add(_expanded(function))
            return function

        return decorated


def _expanded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the fields of groups as parameters in place of the groups."""
    own = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        name: found.annotation for name, found in own.parameters.items() if dataclasses.is_dataclass(found.annotation)
    }
    if not groups:
        return function
    parameters = []
    for name, parameter in own.parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
            )
            for each in dataclasses.fields(groups[name])
        ]

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        grouped = {
            name: group(**{each.name: given.pop(each.name) for each in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        return function(**given, **grouped)

    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command
