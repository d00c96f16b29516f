"""May somebody do something: the decision of the server, and what makes it; or who may do it."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError
from orcas.console.explaining import AccessDecision, explain, who_may
from orcas.console.pages.users.kinds import Part, part
from orcas.console.rendering import explained, page, visit

# Actions that are asked about most, as suggestions.
ACTIONS: Final = (
    "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket", "s3:GetObjectVersion", "s3:DeleteBucket",
    "s3:CreateBucket", "s3:PutBucketPolicy", "s3:PutLifecycleConfiguration", "iam:CreateUser", "orcas:GetLog",
)  # fmt: skip
_FIELDS: Final = ("who", "action", "resource", "context", "after")


async def show(request: Request) -> Response:
    """The question, and the answer once it is complete. Without a name, it is who may do it."""
    who, typed = visit(request), {name: request.query_params.get(name, "").strip() for name in _FIELDS}
    decision: AccessDecision | None = None
    found: list[tuple[str, AccessDecision]] | None = None
    following, problem, status = None, "", 200
    if typed["action"] and typed["resource"]:
        asked: dict[str, Any] = {"action": typed["action"], "resource": typed["resource"]}
        try:
            asked["context"] = _context(typed["context"])
            if typed["who"]:
                decision = await explain(who, {**asked, "who": typed["who"]})
            else:
                found, following = await who_may(who, {**asked, "after": typed["after"]})
        except ValueError as error:
            problem, status = str(error), 400
        except CallError as error:
            problem, status = explained(error), error.status
    users: Part = await part(who, "ListUsers", "Users")
    missing = {key for _, each in found or () for key in each.missing} if decision is None else set(decision.missing)
    return await page(
        request, "users/may.html", status, typed=typed, decision=decision, found=found, following=following,
        problem=problem, actions=ACTIONS, users=[row["UserName"] for row in users.rows], missing=sorted(missing),
    )  # fmt: skip


def _context(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip():
            key, equals, value = line.strip().partition("=")
            if not equals:
                raise ValueError(f"Write each condition key as KEY=VALUE on a line of its own, not {line.strip()!r}.")
            found.setdefault(key, []).append(value)
    return found
