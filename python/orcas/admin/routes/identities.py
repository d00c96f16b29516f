"""Identities over the admin API: any action of IAM as the operator, and another key for root, both for root alone. Accounts
and limits have operations of their own, which policies can allow.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Body, FastAPI, Query, Request
from pydantic import Field

from orcas.admin.guard import CALLER
from orcas.admin.routes.orders import Name, Order
from orcas.control.identities.failures import IamError
from orcas.engine import Refusal
from orcas.errors import UnavailableError
from orcas.iam.directory import Directory
from orcas.iam.export import export_identities

log = logging.getLogger("orcas")


class ActionBody(Order):
    """An action of IAM with its parameters. `account`: its number, if it is not the first one."""

    action: Name
    parameters: dict[str, Any] = Field(default_factory=dict)
    account: Name | None = None


class ExportBody(Order):
    """Whether the secrets of access keys are exported as well."""

    secrets: bool = False


class AccountBody(Order):
    """The name of a new account."""

    name: Name


class LimitsBody(Order):
    """A user of the first account or an access key of one, and what it may ask for each second. 0 is no limit."""

    user: Name | None = None
    access_key: Name | None = None
    requests: int = Field(default=0, ge=0, le=10**6)
    bytes: int = Field(default=0, ge=0, le=10**12)


def add_identities(app: FastAPI, known: Callable[[], Directory | None]) -> None:
    """Add these paths to the application. Coroutines: the control store belongs to the loop."""

    def directory() -> Directory:
        found = known()
        if found is None:
            raise Refusal(409, "NoIdentities", "A store that is open for salvage has no identities but root.")
        return found

    async def performed(
        request: Request, action: str, parameters: dict[str, Any], account: str | None = None
    ) -> dict[str, Any]:
        context = {} if (address := _address(request)) is None else {"aws:SourceIp": [address]}
        caller = request.scope[CALLER]
        actor = None if caller.is_root else (caller.arn, caller.access_key)
        try:
            identities = await directory().identities()
            answer = await identities.perform(action, parameters, account=account, context=context, actor=actor)
        except IamError as error:
            raise Refusal(error.status, error.code, error.message) from None
        if not action.startswith(("Get", "List", "Simulate", "Assume")):
            log.info("Identities were changed: %s", action)
        return answer

    @app.post(
        "/iam",
        responses={404: {"description": "There is no such user, group, role, policy or key"},
                   409: {"description": "It exists, is in use, or there are too many"}},
    )  # fmt: skip
    async def perform(request: Request, order: Annotated[ActionBody, Body()]) -> dict[str, Any]:
        """Perform an action of AWS's IAM API, such as CreateUser. The answer is that of AWS, as JSON."""
        return await performed(request, order.action, order.parameters, order.account)

    @app.post("/iam/export", responses={409: {"description": "The store is open for salvage"}})
    async def export(order: Annotated[ExportBody, Body()]) -> dict[str, Any]:
        """The identities of the first account as a file of identities, and what that has no place for."""
        try:
            file, left_out = await export_identities(await directory().identities(), secrets=order.secrets)
        except IamError as error:
            raise Refusal(error.status, error.code, error.message) from None
        except UnavailableError as error:
            raise Refusal(503, "StoreError", str(error)) from None
        log.info("Identities were exported, %s the secrets of their keys", "with" if order.secrets else "without")
        return {"file": file, "left_out": left_out}

    @app.post("/iam/root-key", responses={409: {"description": "The store is open for salvage"}})
    async def rotate(request: Request) -> dict[str, Any]:
        """Replace the key of root, which is invalid from now on. The answer has the new one."""
        await directory().identities()
        control = await directory().control()
        was_set = control.root.path is None
        root = await control.rotate_root(_address(request))
        log.info("The root key was replaced, access key %s", root.access_key)
        return {"access_key": root.access_key, "secret_key": root.secret_key, "was_set_by_operator": was_set}

    _add_accounts(app, performed)


def _add_accounts(app: FastAPI, performed: Callable[[Request, str, dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
    @app.get("/accounts")
    async def accounts(request: Request, after: Annotated[Name, Query()] = "") -> dict[str, Any]:
        """A hundred accounts of the store. `Marker`: the `after` of the next answer."""
        return await performed(request, "ListAccounts", {"MaxItems": 100} | ({"Marker": after} if after else {}))

    @app.post("/accounts", status_code=201)
    async def create_account(request: Request, order: Annotated[AccountBody, Body()]) -> dict[str, Any]:
        """Create an account. A key of its root, root alone can create."""
        return await performed(request, "CreateAccount", {"AccountName": order.name})

    @app.get("/limits", responses={404: {"description": "There is no such user or key"}})
    async def limits(
        request: Request,
        user: Annotated[Name | None, Query()] = None,
        access_key: Annotated[Name | None, Query()] = None,
    ) -> dict[str, Any]:
        """How much a user or an access key may ask for each second."""
        return await performed(request, "GetLimits", _limited(user, access_key))

    @app.put("/limits", responses={404: {"description": "There is no such user or key"}})
    async def put_limits(request: Request, order: Annotated[LimitsBody, Body()]) -> dict[str, Any]:
        """Set that."""
        rates = {"RequestsPerSecond": order.requests, "BytesPerSecond": order.bytes}
        return await performed(request, "PutLimits", {**_limited(order.user, order.access_key), **rates})


def _limited(user: str | None, access_key: str | None) -> dict[str, str]:
    if (user is None) == (access_key is None):
        raise Refusal(400, "InvalidRequest", "Name either a user or an access key.")
    return {"UserName": user} if user is not None else {"AccessKeyId": str(access_key)}


def _address(request: Request) -> str | None:
    return None if request.client is None else request.client.host
