"""Lists of users, groups, roles and policies, and making one."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, iam
from orcas.console.documents.policies import IDENTITY, build, shown
from orcas.console.explaining import checked
from orcas.console.pages import explained, field, flash, page, redirect, visit
from orcas.console.pages.users.kinds import called, kind_of, listed, part, place, texts

ABOUT: Final = {
    "user": "A user signs requests with access keys of its own, and may do what its policies and those of its groups allow.",
    "group": "What the policies of a group allow, all of its members may do.",
    "role": "A role has no keys: others assume it for a time, if its trust policy allows them to.",
}


async def show(request: Request) -> Response:
    """A page of the list of users, groups or roles."""
    return await _page(request)


async def create(request: Request) -> Response:
    """Make a user, group or role, with a policy if one was chosen."""
    kind, who, name = kind_of(request), visit(request), field(request, "name").strip()
    of, arn = called(kind), field(request, "policy")
    parameters = {f"{of}Name": name}
    if kind == "role":
        trust = field(request, "document").replace("\r\n", "\n")
        _, problem = checked(trust, "trust")
        if problem:
            return await _page(request, problem, 400)
        parameters["AssumeRolePolicyDocument"] = trust
    try:
        await iam(who, f"Create{of}", parameters)
    except CallError as error:
        return await _page(request, f"Nothing was made. {explained(error)}", error.status)
    said = f"The {kind} {name} was made."
    if arn:
        try:
            await iam(who, f"Attach{of}Policy", {f"{of}Name": name, "PolicyArn": arn})
        except CallError as error:
            said += f" The policy was not attached: {explained(error)}"
    flash(request, said)
    return redirect(request, place(kind, name))


async def _page(request: Request, problem: str = "", status: int = 200) -> Response:
    kind, who = kind_of(request), visit(request)
    of, marker = called(kind), request.query_params.get("after", "")
    found, more = await listed(who, f"List{of}s", f"{of}s", marker=marker)
    rows = [texts(row) for row in found]
    context: dict[str, Any] = {
        "kind": kind, "about": ABOUT[kind], "more": more, "first": not marker, "problem": problem,
        "rows": [{"name": row[f"{of}Name"], "arn": row["Arn"], "created": row["CreateDate"]} for row in rows],
        "offered": await part(who, "ListPolicies", "Policies"), "name": field(request, "name"),
        "policy": field(request, "policy"), "document": field(request, "document") or _trust(who.session.arn),
    }  # fmt: skip
    return await page(request, "users/list.html", status, **context)


def _trust(arn: str) -> str:
    """A trust policy to begin with: the account of the visitor may assume the role, as far as its users may."""
    number = (arn.split(":") + [""] * 5)[4]
    statement = {"Effect": "Allow", "Principal": {"AWS": number}, "Action": "sts:AssumeRole"}
    return shown({"Version": "2012-10-17", "Statement": [statement]})


async def policies(request: Request) -> Response:
    """A page of the list of policies."""
    return await _policies(request)


async def create_policy(request: Request) -> Response:
    """Make a policy, check its text, or begin with a template."""
    name, text = field(request, "name").strip(), field(request, "document").replace("\r\n", "\n")
    action = field(request, "do")
    if action == "template":
        template, bucket = IDENTITY.get(field(request, "template")), field(request, "bucket").strip()
        if template is None or not bucket:
            return await _policies(
                request, text, problem="Choose a template, and write the name of a bucket.", status=400
            )
        return await _policies(request, build(template, bucket, field(request, "prefix")), unsaved=True)
    findings, problem = checked(text, "identity")
    if action == "check" or problem:
        fine = not problem and not findings
        return await _policies(
            request, text, findings=findings, problem=problem, fine=fine, status=400 if problem else 200
        )
    try:
        answer = await iam(visit(request), "CreatePolicy", {"PolicyName": name, "PolicyDocument": text})
    except CallError as error:
        said = f"Nothing was made. {explained(error)}"
        return await _policies(request, text, findings=findings, problem=said, status=error.status)
    flash(request, f"The policy {name} was made.")
    return redirect(request, "/users/policies/one", arn=answer.findtext("Policy/Arn") or "")


async def _policies(
    request: Request,
    text: str = "",
    *,
    findings: list[str] | None = None,
    problem: str = "",
    fine: bool = False,
    unsaved: bool = False,
    status: int = 200,
) -> Response:
    marker = request.query_params.get("after", "")
    found, more = await listed(visit(request), "ListPolicies", "Policies", marker=marker)
    context: dict[str, Any] = {
        "rows": [texts(row) for row in found], "more": more, "first": not marker, "text": text, "findings": findings or [],
        "problem": problem, "fine": fine, "unsaved": unsaved,
        "templates": [(name, each.title) for name, each in IDENTITY.items()],
        "typed": {name: field(request, name) for name in ("name", "template", "bucket", "prefix")},
    }  # fmt: skip
    return await page(request, "users/policies.html", status, **context)
