"""Identities over the admin API: any action of IAM as the operator, and another key for root."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from pydantic import Field

from orcas.admin.routes.orders import Name, Order
from orcas.admin.tools import Tools
from orcas.control.identities.failures import IamError
from orcas.edge import Refusal
from orcas.errors import UnavailableError
from orcas.iam.directory import Directory

log = logging.getLogger("orcas")


class ActionBody(Order):
    """An action of IAM with its parameters. `account`: its number, if it is not the first one."""

    action: Name
    parameters: dict[str, Any] = Field(default_factory=dict)
    account: Name | None = None


def add_identities(app: FastAPI, tools: Callable[[], Tools]) -> None:
    """Add these paths to the application. Coroutines: the control store belongs to the loop."""

    def directory() -> Directory:
        found = tools().identities
        if found is None:
            raise Refusal(409, "NoIdentities", "A store that is open for salvage has no identities but root.")
        return found

    @app.post(
        "/iam",
        responses={404: {"description": "There is no such user, group, role, policy or key"},
                   409: {"description": "It exists, is in use, or there are too many"}},
    )  # fmt: skip
    async def perform(request: Request, order: Annotated[ActionBody, Body()]) -> dict[str, Any]:
        """Perform an action of AWS's IAM API, such as CreateUser. The answer is that of AWS, as JSON."""
        try:
            identities = await directory().identities()
            context = {} if (address := _address(request)) is None else {"aws:SourceIp": [address]}
            answer = await identities.perform(order.action, order.parameters, account=order.account, context=context)
        except IamError as error:
            raise Refusal(error.status, error.code, error.message) from None
        except UnavailableError as error:
            raise Refusal(503, "StoreError", str(error)) from None
        if not order.action.startswith(("Get", "List", "Simulate", "Assume")):
            log.info("Identities were changed: %s", order.action)
        return answer

    @app.post("/iam/root-key", responses={409: {"description": "The store is open for salvage"}})
    async def rotate(request: Request) -> dict[str, Any]:
        """Replace the key of root, which is invalid from now on. The answer has the new one."""
        try:
            await directory().identities()
            control = await directory().control()
            was_set = control.root.path is None
            root = await control.rotate_root(_address(request))
        except UnavailableError as error:
            raise Refusal(503, "StoreError", str(error)) from None
        log.info("The root key was replaced, access key %s", root.access_key)
        return {"access_key": root.access_key, "secret_key": root.secret_key, "was_set_by_operator": was_set}


def _address(request: Request) -> str | None:
    return None if request.client is None else request.client.host
