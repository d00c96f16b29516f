"""Lists of users, groups, roles and policies, and making one."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, iam
from orcas.console.documents.policies import shown
from orcas.console.explaining import checked
from orcas.console.pages.users.drafts import Draft, draft_of, templates, typed
from orcas.console.pages.users.kinds import called, kind_of, listed, part, place, texts
from orcas.console.rendering import explained, field, flash, page, redirect, visit

_NO_DRAFT: Final = Draft()
ABOUT: Final = {
    "user": "A user signs requests with access keys of its own, and may do what its policies and those of its groups allow.",
    "group": "What the policies of a group allow, all of its members may do.",
    "role": "A role has no keys: others assume it for a time, if its trust policy allows them to.",
}


async def create(request: Request) -> Response:
    """Make a user, group or role, with a policy if one was chosen."""
    kind, who, name = kind_of(request), visit(request), field(request, "name").strip()
    of, arn = called(kind), field(request, "policy")
    parameters = {f"{of}Name": name}
    if kind == "role":
        trust = typed(request)
        _, problem = checked(trust, "trust")
        if problem:
            return await show(request, problem, 400)
        parameters["AssumeRolePolicyDocument"] = trust
    try:
        await iam(who, f"Create{of}", parameters)
    except CallError as error:
        return await show(request, f"Nothing was made. {explained(error)}", error.status)
    said = f"The {kind} {name} was made."
    if arn:
        try:
            await iam(who, f"Attach{of}Policy", {f"{of}Name": name, "PolicyArn": arn})
        except CallError as error:
            said += f" The policy was not attached: {explained(error)}"
    flash(request, said)
    return redirect(request, place(kind, name))


async def show(request: Request, problem: str = "", status: int = 200) -> Response:
    """A page of the list of users, groups or roles."""
    kind, who = kind_of(request), visit(request)
    of, marker = called(kind), request.query_params.get("after", "")
    found, more = await listed(who, f"List{of}s", f"{of}s", marker=marker)
    rows, offered = [texts(row) for row in found], await part(who, "ListPolicies", "Policies")
    context: dict[str, Any] = {
        "kind": kind, "about": ABOUT[kind], "more": more, "first": not marker, "problem": problem,
        "rows": [{"name": row[f"{of}Name"], "arn": row["Arn"], "created": row["CreateDate"]} for row in rows],
        "offered": offered, "policies": [("", "none for now: it may do nothing"), *offered.choices("Arn", "PolicyName")],
        "name": field(request, "name"), "policy": field(request, "policy"),
        "document": field(request, "document") or _trust(who.session.arn),
    }  # fmt: skip
    return await page(request, "users/list.html", status, **context)


def _trust(arn: str) -> str:
    """A trust policy to begin with: the account of the visitor may assume the role, as far as its users may."""
    number = (arn.split(":") + [""] * 5)[4]
    statement = {"Effect": "Allow", "Principal": {"AWS": number}, "Action": "sts:AssumeRole"}
    return shown({"Version": "2012-10-17", "Statement": [statement]})


async def create_policy(request: Request) -> Response:
    """Make a policy, check its text, or begin with a template."""
    name = field(request, "name").strip()
    draft, is_ready = draft_of(request)
    if not is_ready:
        return await policies(request, draft)
    try:
        answer = await iam(visit(request), "CreatePolicy", {"PolicyName": name, "PolicyDocument": draft.text})
    except CallError as error:
        return await policies(request, draft.refused("Nothing was made.", error))
    flash(request, f"The policy {name} was made.")
    return redirect(request, "/users/policies/one", arn=answer.findtext("Policy/Arn") or "")


async def policies(request: Request, draft: Draft = _NO_DRAFT) -> Response:
    """A page of the list of policies."""
    marker = request.query_params.get("after", "")
    found, more = await listed(visit(request), "ListPolicies", "Policies", marker=marker)
    context: dict[str, Any] = {
        "rows": [texts(row) for row in found], "more": more, "first": not marker, "templates": templates(),
        "typed": {name: field(request, name) for name in ("name", "template", "bucket", "prefix")}, **draft.context(),
    }  # fmt: skip
    return await page(request, "users/policies.html", draft.status, **context)
