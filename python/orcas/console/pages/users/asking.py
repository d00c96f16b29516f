"""May somebody do something: the decision, and the statement that makes it."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError
from orcas.console.explaining import AccessDecision, Question, bucket_policy, entity_arn, explain, resource_arn
from orcas.console.pages import explained, field, page, visit
from orcas.console.pages.users.kinds import Part, part

KINDS: Final = (("user", "User"), ("group", "Group"), ("role", "Role"))
# Actions that are asked about most, as suggestions.
ACTIONS: Final = (
    "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket", "s3:GetObjectVersion", "s3:DeleteBucket",
    "s3:CreateBucket", "s3:PutBucketPolicy", "s3:PutLifecycleConfiguration", "iam:CreateUser", "sts:AssumeRole",
)  # fmt: skip
_FIELDS: Final = ("kind", "name", "action", "resource", "context", "policy")


async def show(request: Request) -> Response:
    """The question; a link may fill it in."""
    return await _page(request, {name: request.query_params.get(name, "") for name in _FIELDS})


async def ask(request: Request) -> Response:
    """The decision."""
    typed, who = {name: field(request, name) for name in _FIELDS}, visit(request)
    note = ""
    try:
        context = _context(typed["context"])
        name, resource = typed["name"].strip(), resource_arn(typed["resource"].strip())
        if not (name and typed["action"].strip() and resource):
            raise ValueError("Write a name, an action and a resource.")
        source = name if name.startswith("arn:") else await entity_arn(who, typed["kind"] or "user", name)
        policy = None
        if typed["policy"]:
            try:
                policy = await bucket_policy(who, resource)
            except CallError as error:
                note = f"Without the policy of the bucket: {explained(error)}"
        decision = await explain(who, Question(source, typed["action"].strip(), resource, context), policy)
    except ValueError as error:
        return await _page(request, typed, problem=str(error), status=400)
    except CallError as error:
        return await _page(request, typed, problem=explained(error), status=error.status)
    return await _page(request, typed, decision=decision, note=note)


def _context(text: str) -> dict[str, str]:
    found = {}
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.strip():
            key, equals, value = line.strip().partition("=")
            if not equals:
                raise ValueError(f"Write each condition key as KEY=VALUE on a line of its own, not {line.strip()!r}.")
            found[key] = value
    return found


async def _page(
    request: Request,
    typed: dict[str, str],
    *,
    decision: AccessDecision | None = None,
    problem: str = "",
    note: str = "",
    status: int = 200,
) -> Response:
    users: Part = await part(visit(request), "ListUsers", "Users")
    context: dict[str, Any] = {
        "typed": typed, "decision": decision, "problem": problem, "note": note, "kinds": KINDS, "actions": ACTIONS,
        "users": [row["UserName"] for row in users.rows],
    }  # fmt: skip
    return await page(request, "users/may.html", status, **context)
