"""The policy of a bucket: its text, templates to begin with, what is wrong with it, and what it lets somebody do."""

from __future__ import annotations

import dataclasses
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, Visit, call, object_path
from orcas.console.documents.policies import BUCKET, build, readable
from orcas.console.explaining import AccessDecision, checked, entity_arn, explain
from orcas.console.pages.settings.sources import Configuration
from orcas.console.pages.users.drafts import Draft, typed
from orcas.console.rendering import explained, field, flash, page, redirect, visit

TITLE: Final = "Policy"
ABOUT: Final = "Who may do what in this bucket, besides what policies of users say."
NONE: Final = "No policy: policies of users alone decide."
SOURCE: Final = Configuration("policy", "NoSuchBucketPolicy", is_json=True)


async def state(who: Visit, bucket: str) -> tuple[str, str]:
    """Whether it is set, as of the list of settings."""
    return ("none", NONE) if await SOURCE.load(who, bucket) is None else ("set", "Set")


async def show(request: Request) -> Response:
    """The page."""
    document = await SOURCE.load(visit(request), str(request.path_params["bucket"]))
    return await _page(request, document, Draft(readable(document or "")))


async def change(request: Request) -> Response:
    """Save or remove the policy, check it, begin with a template, or ask what it would allow."""
    bucket, who, action = str(request.path_params["bucket"]), visit(request), field(request, "do")
    document, draft = await SOURCE.load(who, bucket), Draft(typed(request))
    if action == "template":
        return await _page(request, document, await _begun(request, draft))
    if action == "explain":
        return await _explain(request, document, draft)
    if action != "remove":
        findings, problem = checked(draft.text, "resource", bucket)
        draft = dataclasses.replace(draft, findings=findings, problem=problem, status=400 if problem else 200)
        if action == "check" or problem:
            fine = not findings and not problem
            return await _page(request, document, dataclasses.replace(draft, fine=fine))
    try:
        await SOURCE.save(who, bucket, None if action == "remove" else draft.text)
    except CallError as error:
        return await _page(request, document, draft.refused("Nothing was changed.", error))
    flash(request, f"Policy: {'removed' if action == 'remove' else 'saved'}.")
    return redirect(request, f"/b/{bucket}/settings/policy")


async def _begun(request: Request, draft: Draft) -> Draft:
    """The text of a template."""
    template, who, whose = BUCKET.get(field(request, "template")), field(request, "whose").strip(), ""
    if template is None:
        return dataclasses.replace(draft, problem="Choose a template.", status=400)
    if template.whose:
        if not who:
            return dataclasses.replace(draft, problem="Write who may do it: a user or a role.", status=400)
        try:
            whose = await entity_arn(visit(request), who)
        except CallError as error:
            return draft.refused("", error)
    return Draft(build(template, request.path_params["bucket"], field(request, "prefix"), whose), unsaved=True)


async def _explain(request: Request, document: str | None, draft: Draft) -> Response:
    key = field(request, "key")
    question = {
        "who": field(request, "who").strip(), "action": field(request, "action").strip(),
        "resource": f"arn:aws:s3:::{request.path_params['bucket']}" + (f"/{key}" if key else ""),
        "bucket_policy": draft.text,
    }  # fmt: skip
    try:
        return await _page(request, document, draft, await explain(visit(request), question))
    except CallError as error:
        return await _page(request, document, dataclasses.replace(draft, status=error.status), problem=explained(error))


async def _page(
    request: Request, document: str | None, draft: Draft, decision: AccessDecision | None = None, problem: str = ""
) -> Response:
    """`problem`: of the question what it would allow."""
    bucket = str(request.path_params["bucket"])
    return await page(
        request, "settings/policy.html", draft.status, document=document, decision=decision,
        explain_problem=problem, title=TITLE, about=ABOUT, none_text=NONE,
        templates=[(name, each.title) for name, each in BUCKET.items()],
        public=await _is_public(visit(request), bucket) if document else None,
        typed={name: field(request, name) for name in ("template", "prefix", "whose", "who", "action", "key")},
        **draft.context(),
    )  # fmt: skip


async def _is_public(who: Visit, bucket: str) -> bool | None:
    """Whether it allows everybody something; None if the visitor may not know."""
    try:
        found = (await call(who, "GET", object_path(bucket), {"policyStatus": ""})).xml()
    except CallError:
        return None
    return found.findtext("IsPublic") in ("true", "TRUE")
