"""The policy of a bucket: its text, templates to begin with, what is wrong with it, and what it lets somebody do."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, Visit, call, object_path
from orcas.console.documents.policies import BUCKET, build, readable
from orcas.console.explaining import AccessDecision, checked, entity_arn, explain
from orcas.console.pages import explained, field, flash, page, redirect, visit
from orcas.console.pages.settings.sources import Configuration

TITLE: Final = "Policy"
ABOUT: Final = "Who may do what in this bucket, besides what policies of users say."
NONE: Final = "No policy: policies of users alone decide."
SOURCE: Final = Configuration("policy", "NoSuchBucketPolicy", is_json=True)


async def state(who: Visit, bucket: str) -> tuple[str, str]:
    """Whether it is set, as of the list of settings."""
    try:
        document = await SOURCE.load(who, bucket)
    except CallError as error:
        if error.code == "NoSuchBucket":
            raise
        return "refused", explained(error)
    return ("none", NONE) if document is None else ("set", "Set")


async def show(request: Request) -> Response:
    """The page."""
    document = await SOURCE.load(visit(request), str(request.path_params["bucket"]))
    return await _page(request, document, readable(document or ""))


async def change(request: Request) -> Response:
    """Save or remove the policy, check it, begin with a template, or ask what it would allow."""
    bucket, who, action = str(request.path_params["bucket"]), visit(request), field(request, "do")
    document = await SOURCE.load(who, bucket)
    typed = field(request, "document").replace("\r\n", "\n")
    if action == "template":
        return await _template(request, document, typed, bucket)
    if action == "explain":
        return await _explain(request, document, typed)
    findings, problem = ([], "") if action == "remove" else checked(typed, "resource", bucket)
    if action == "check" or problem:
        fine = action == "check" and not findings and not problem
        return await _page(
            request, document, typed, findings=findings, problem=problem, fine=fine, status=400 if problem else 200
        )
    try:
        await SOURCE.save(who, bucket, None if action == "remove" else typed)
    except CallError as error:
        said = f"Nothing was changed. {explained(error)}"
        return await _page(request, document, typed, findings=findings, problem=said, status=error.status)
    flash(request, f"Policy: {'removed' if action == 'remove' else 'saved'}.")
    return redirect(request, f"/b/{bucket}/settings/policy")


async def _template(request: Request, document: str | None, typed: str, bucket: str) -> Response:
    template = BUCKET.get(field(request, "template"))
    who = field(request, "whose").strip()
    if template is None:
        return await _page(request, document, typed, problem="Choose a template.", status=400)
    whose = ""
    if template.whose:
        if not who:
            return await _page(request, document, typed, problem="Write who may do it: a user or a role.", status=400)
        try:
            whose = await entity_arn(visit(request), who)
        except CallError as error:
            return await _page(request, document, typed, problem=explained(error), status=error.status)
    text = build(template, bucket, field(request, "prefix"), whose)
    return await _page(request, document, text, unsaved=True)


async def _explain(request: Request, document: str | None, typed: str) -> Response:
    key = field(request, "key")
    question = {
        "who": field(request, "who").strip(), "action": field(request, "action").strip(),
        "resource": f"arn:aws:s3:::{request.path_params['bucket']}" + (f"/{key}" if key else ""),
        "bucket_policy": typed,
    }  # fmt: skip
    try:
        decision = await explain(visit(request), question)
    except CallError as error:
        return await _page(request, document, typed, explain_problem=explained(error), status=error.status)
    return await _page(request, document, typed, decision=decision)


async def _page(
    request: Request,
    document: str | None,
    text: str,
    *,
    findings: list[str] | None = None,
    problem: str = "",
    fine: bool = False,
    unsaved: bool = False,
    decision: AccessDecision | None = None,
    explain_problem: str = "",
    status: int = 200,
) -> Response:
    bucket = str(request.path_params["bucket"])
    context: dict[str, Any] = {
        "bucket": bucket, "document": document, "text": text, "findings": findings or [], "problem": problem, "fine": fine,
        "unsaved": unsaved, "decision": decision, "explain_problem": explain_problem, "title": TITLE,
        "about": ABOUT, "none_text": NONE, "templates": [(name, each.title) for name, each in BUCKET.items()],
        "public": await _is_public(visit(request), bucket) if document else None,
        "typed": {name: field(request, name) for name in ("template", "prefix", "whose", "who", "action", "key")},
    }  # fmt: skip
    return await page(request, "settings/policy.html", status, **context)


async def _is_public(who: Visit, bucket: str) -> bool | None:
    """Whether it allows everybody something; None if the visitor may not know."""
    try:
        found = (await call(who, "GET", object_path(bucket), {"policyStatus": ""})).xml()
    except CallError:
        return None
    return found.findtext("IsPublic") in ("true", "TRUE")
