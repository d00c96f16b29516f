"""Temporary credentials for programs on this machine: the endpoints of containers and of EC2, on loopback alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orcas.cli.identities.calls import iam
from orcas.cli.identities.options import Account
from orcas.cli.options import Commands, Data, Endpoint, Where
from orcas.errors import OrcasError

credentials_app = Commands(help="Temporary credentials for programs on this machine.")


@credentials_app.command()
def serve(
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="Name or ARN of the role (default: root itself).")
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="Port on loopback; 0 takes a free one.")] = 0,
    account: Account = None,
    data: Data = None,
    endpoint: Endpoint = None,
) -> None:
    """Hand out temporary credentials to programs on this machine, as containers and EC2 instances get them on AWS.

    Prints the variables by which AWS's SDKs find them. The trust policy of the role must name the root of its account.

    Example:

        orcas credentials serve --role reader
    """

    # It needs the HTTP server of Python, which no other command does.
    from orcas.cli.identities.credential_endpoints import Endpoints, Refreshed

    def ask() -> dict[str, str]:
        with iam(Where(data, endpoint), account) as store:
            if role is None:
                found = store.call("GetSessionToken", DurationSeconds=3600)
            else:
                arn = role if role.startswith("arn:") else store.call("GetRole", RoleName=role)["Role"]["Arn"]
                found = store.call("AssumeRole", RoleArn=arn, RoleSessionName="orcas-credentials")
        return {name: str(value) for name, value in found["Credentials"].items()}

    credentials = Refreshed(ask)
    try:
        server = Endpoints(port, (role or "root").rpartition("/")[2], credentials)
    except (OSError, OverflowError) as error:
        raise OrcasError(f"Port {port} of loopback cannot be used: {error}; choose another one.") from None
    with server:
        credentials.get()
        for name, value in server.variables().items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        server.serve_forever()


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(credentials_app, name="credentials")
