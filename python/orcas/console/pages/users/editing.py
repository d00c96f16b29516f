"""The editor of policies: inline ones, trust policies of roles, and managed ones with their versions."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, Visit, iam
from orcas.console.documents.policies import readable
from orcas.console.explaining import managed_document
from orcas.console.pages.users.drafts import Draft, draft_of, templates
from orcas.console.pages.users.kinds import called, everything, inline_document, kind_of, name_of, part, place, texts
from orcas.console.rendering import explained, field, flash, flash_error, page, redirect, visit
from orcas.iam.removal import deletion_of

# Policies that come with the server, which nobody can change.
BUILTIN: Final = "arn:aws:iam::aws:policy/"
# The actions of its page.
_NEEDS: Final = {
    "save": "iam:CreatePolicyVersion", "default": "iam:SetDefaultPolicyVersion", "drop": "iam:DeletePolicyVersion",
    "delete": "iam:DeletePolicy",
}  # fmt: skip
# Versions that a policy can have.
_VERSIONS_MAX: Final = 5


def _is_trust(request: Request) -> bool:
    """Whether the page is about a trust policy, which only roles have."""
    trusts = request.url.path.endswith("/trust")
    if trusts and kind_of(request) != "role":
        raise HTTPException(404)
    return trusts


async def edit(request: Request) -> Response:
    """The editor of a trust policy, or of an inline policy: of a new one, unless its name is in the address."""
    who, kind, name = visit(request), kind_of(request), name_of(request)
    policy, text = request.query_params.get("policy", ""), ""
    if _is_trust(request):
        answer = await iam(who, "GetRole", {"RoleName": name})
        text = unquote(answer.findtext("Role/AssumeRolePolicyDocument") or "")
    elif policy:
        text = await inline_document(who, kind, name, policy)
    return await _editor(request, Draft(readable(text)), policy)


async def save(request: Request) -> Response:
    """Save the policy, check it, or begin with a template."""
    of, policy, trusts = called(kind_of(request)), field(request, "name").strip(), _is_trust(request)
    draft, is_ready = draft_of(request, "trust" if trusts else "identity")
    if not is_ready:
        return await _editor(request, draft, policy)
    named = {f"{of}Name": name_of(request), "PolicyDocument": draft.text}
    try:
        if trusts:
            await iam(visit(request), "UpdateAssumeRolePolicy", named)
        else:
            await iam(visit(request), f"Put{of}Policy", named | {"PolicyName": policy})
    except CallError as error:
        return await _editor(request, draft.refused("Nothing was changed.", error), policy)
    flash(request, "The trust policy is saved." if trusts else f"The inline policy {policy} is saved.")
    return redirect(request, place(kind_of(request), name_of(request)))


async def _editor(request: Request, draft: Draft, policy: str = "") -> Response:
    kind, name = kind_of(request), name_of(request)
    context: dict[str, Any] = {
        "kind": kind, "name": name, "policy": policy, "trust": _is_trust(request),
        "here": place(kind, name), "templates": templates(),
        "typed": {each: field(request, each) for each in ("template", "bucket", "prefix")}, **draft.context(),
    }  # fmt: skip
    return await page(request, "users/editor.html", draft.status, **context)


def _arn(request: Request) -> str:
    return field(request, "arn") or request.query_params.get("arn", "")


async def change_policy(request: Request) -> Response:
    """Save another version of a managed policy, check it, choose or delete a version, or delete the policy."""
    arn, who, action = _arn(request), visit(request), field(request, "do")
    version = {"PolicyArn": arn, "VersionId": field(request, "version")}
    draft, is_ready = draft_of(request) if action in ("save", "check") else (None, True)
    if not is_ready:
        return await policy(request, draft)
    try:
        if draft is not None:
            said = f"Version {await _save_version(who, arn, draft.text)} is in effect."
        elif action == "default":
            await iam(who, "SetDefaultPolicyVersion", version)
            said = f"Version {version['VersionId']} is in effect."
        elif action == "drop":
            await iam(who, "DeletePolicyVersion", version)
            said = f"Version {version['VersionId']} was deleted."
        elif action == "delete":
            return await _delete_policy(request, arn)
        else:
            raise HTTPException(404)
    except CallError as error:
        return await policy(request, draft, f"Nothing was changed. {explained(error)}", error.status)
    flash(request, said)
    return redirect(request, "/users/policies/one", arn=arn)


async def _save_version(who: Visit, arn: str, text: str) -> str:
    """A new version, in place of the oldest that is not in effect if there are too many."""
    versions = [texts(each) for each in await everything(who, "ListPolicyVersions", "Versions", {"PolicyArn": arn})]
    spare = [each["VersionId"] for each in versions if each["IsDefaultVersion"] != "true"]
    if len(versions) >= _VERSIONS_MAX:
        await iam(who, "DeletePolicyVersion", {"PolicyArn": arn, "VersionId": spare[-1]})
    answer = await iam(who, "CreatePolicyVersion", {"PolicyArn": arn, "PolicyDocument": text, "SetAsDefault": "true"})
    return answer.findtext("PolicyVersion/VersionId") or ""


async def _delete_policy(request: Request, arn: str) -> Response:
    who, name = visit(request), arn.rpartition("/")[2]
    if field(request, "confirm") != name:
        return await policy(request, None, "Nothing was deleted. Type the name of the policy to delete it.", 400)
    used = await iam(who, "ListEntitiesForPolicy", {"PolicyArn": arn})
    if any(len(used.findall(f"Policy{of}s/member")) for of in ("User", "Group", "Role")):
        return await policy(request, None, "Nothing was deleted. Detach the policy from all who have it first.", 409)
    try:
        versions = await everything(who, "ListPolicyVersions", "Versions", {"PolicyArn": arn})
        for action, parameters in deletion_of(arn, map(texts, versions)):
            await iam(who, action, parameters)
    except CallError as error:
        flash_error(request, error, f"The policy {name} was not deleted")
        return redirect(request, "/users/policies/one", arn=arn)
    flash(request, f"The policy {name} was deleted.")
    return redirect(request, "/users/policies")


async def policy(request: Request, draft: Draft | None = None, problem: str = "", status: int = 200) -> Response:
    """A managed policy: the version in effect, or the one in the address, its versions, and who has it.

    Without a draft, with the text of the version. `problem` and `status` go before those of the draft.
    """
    arn, who = _arn(request), visit(request)
    about = texts((await iam(who, "GetPolicy", {"PolicyArn": arn})).find("Policy"))
    version = request.query_params.get("version") or about.get("DefaultVersionId", "")
    if draft is None:
        draft = Draft(readable(await managed_document(who, arn, version)))
    versions, (used, refused) = await asyncio.gather(
        part(who, "ListPolicyVersions", "Versions", {"PolicyArn": arn}), _users(who, arn)
    )
    context: dict[str, Any] = {
        "arn": arn, "about": about, "name": about.get("PolicyName", arn), "version": version, "versions": versions,
        "needs": _NEEDS, "asks": dict.fromkeys(_NEEDS.values(), arn), "used": used,
        "used_refused": refused, "builtin": arn.startswith(BUILTIN), **draft.context(),
    }  # fmt: skip
    if problem:
        context["problem"] = problem
    return await page(request, "users/policy.html", status if problem else draft.status, **context)


async def _users(who: Visit, arn: str) -> tuple[list[tuple[str, str, str]], str]:
    """Users, groups and roles that have a policy: kind, name and path; or why that is refused."""
    try:
        answer = await iam(who, "ListEntitiesForPolicy", {"PolicyArn": arn, "MaxItems": "1000"})
    except CallError as error:
        return [], explained(error)
    found = []
    for kind in ("user", "group", "role"):
        of = called(kind)
        names = [each.findtext(f"{of}Name") or "" for each in answer.findall(f"Policy{of}s/member")]
        found += [(kind, name, place(kind, name)) for name in names]
    return found, ""
