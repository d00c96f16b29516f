"""The arguments and options that the commands for identities share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from orcas.cli.options import Where

User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The access key.")]
PolicyName = Annotated[str, typer.Argument(metavar="POLICY", help="Name or ARN of a policy.")]
Account = Annotated[
    str | None, typer.Option("--account", metavar="NUMBER", help="Number of the account (default: the first one).")
]
Path_ = Annotated[str, typer.Option("--path", metavar="PATH", help="Path in its ARN, such as /teams/red/.")]
_Requests = Annotated[
    int, typer.Option("--requests-per-sec", metavar="N", min=0, help="Most requests a second; 0: no limit.")
]
_Bytes = Annotated[
    int,
    typer.Option("--bytes-per-sec", metavar="N", min=0, help="Most bytes a second, of bodies in and out; 0: no limit."),
]
Policies = Annotated[
    list[str] | None, typer.Option("--policy", metavar="POLICY", help="Attach this policy; may be repeated.")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="A tag; may be repeated.")]
Boundary = Annotated[
    str | None, typer.Option("--boundary", metavar="POLICY", help="Permissions boundary: nothing beyond it is allowed.")
]


@dataclass(frozen=True, slots=True)
class InAccount(Where):
    """The store that a command works on, as of `Where`, and the account in it."""

    account: Account = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a user or an access key for each second. 0 is no limit."""

    requests: _Requests = 0
    bytes_: _Bytes = 0
