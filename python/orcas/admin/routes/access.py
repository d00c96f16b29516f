"""Who may do what, over the admin API: the decision that the server would make on a request, without the request.

Everybody may ask about itself. The engine decides who may ask about others (`orcas:SimulateAccess`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Body, FastAPI, Request
from pydantic import Field

from orcas.admin.guard import CALLER
from orcas.admin.routes.orders import Name, Order
from orcas.errors import UnavailableError

if TYPE_CHECKING:
    from orcas.engine import AccessAnswer, AdminCaller
    from orcas.iam.directory import Directory

# Questions of one request, and those who may do something in one answer.
_QUESTIONS_MAX: Final = 100
_FOUND_MAX: Final = 100
_POLICY_MAX: Final = 20 * 1024

Text = Annotated[str, Field(max_length=2048)]
Context = Annotated[dict[Name, list[Name]], Field(max_length=32)]


class Asked(Order):
    """A question: an action, and an ARN, `BUCKET` or `BUCKET/KEY`. `context`: keys of conditions."""

    action: Name
    resource: Text
    context: Context = Field(default_factory=dict)


class OwnBody(Order):
    """Questions about the sender."""

    questions: Annotated[list[Asked], Field(max_length=_QUESTIONS_MAX)]


class WhoBody(Asked):
    """A question about everybody. `after`: the `next` of the answer before."""

    after: Text = ""


class AskBody(Asked):
    """A question about somebody. `bucket_policy`: in place of the one that the bucket has; empty: none."""

    who: Text
    bucket_policy: Annotated[str, Field(max_length=_POLICY_MAX)] | None = None


def add_access(app: FastAPI, identities: Callable[[], Directory | None]) -> None:
    """Add these paths to the application. Coroutines: labels belong to the loop; the engine is asked in a thread."""

    def caller(request: Request) -> AdminCaller:
        found: AdminCaller = request.scope[CALLER]
        return found

    async def shown(answer: AccessAnswer) -> dict[str, Any]:
        policy, number, sid = answer["statement"] or ("", None, None)
        directory = identities()
        if policy and directory is not None:
            with contextlib.suppress(UnavailableError):
                policy = await (await directory.identities()).label(policy)
        said = {"allowed": answer["allowed"], "explicit": answer["explicit"], "why": answer["why"]}
        return {**said, "policy": policy or None, "statement": number, "sid": sid, "missing": answer["missing"]}

    @app.post("/access/own")
    async def own(request: Request, order: Annotated[OwnBody, Body()]) -> dict[str, Any]:
        """Whether who has signed the request may do each of these. Anybody may ask."""
        who = caller(request)
        asked = [(each.action, each.resource, each.context) for each in order.questions]
        return {"allowed": await asyncio.to_thread(who.may, asked), "root": who.is_root}

    @app.post("/access")
    async def ask(request: Request, order: Annotated[AskBody, Body()]) -> dict[str, Any]:
        """The access decision on somebody, and what it follows from. `who`: a user, `role/NAME`, an ARN, an access key, or
        `anonymous`. Needs `orcas:SimulateAccess`.
        """
        asked = order.who, order.action, order.resource, order.context, order.bucket_policy
        return await shown(await asyncio.to_thread(caller(request).explain, *asked))

    @app.post("/access/who")
    async def who(request: Request, order: Annotated[WhoBody, Body()]) -> dict[str, Any]:
        """Who may do something: users, roles, root users and the public, in the order of their ARNs. `next`: the `after` of
        the next answer; null at the end. Needs `orcas:SimulateAccess`.
        """
        asked = order.action, order.resource, order.context, order.after, _FOUND_MAX
        found, following = await asyncio.to_thread(caller(request).who_may, *asked)
        return {"allowed": [{"who": name, **await shown(answer)} for name, answer in found], "next": following}
