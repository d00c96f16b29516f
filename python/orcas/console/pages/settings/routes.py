"""The settings of a bucket: what is set at a glance, and a page for each with a form and its document.

What somebody has typed is on the page again if it is refused. A document that has changed since the page was made is not
overwritten.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, Visit
from orcas.console.documents.forms import GROUPS_MAX, Filled, Form
from orcas.console.pages import access_lists
from orcas.console.pages.settings import expiry, policy
from orcas.console.pages.settings.offers import cost, known_targets, offers, wrong
from orcas.console.pages.settings.sections import SECTIONS, Section
from orcas.console.places import Place
from orcas.console.rendering import explained, field, flash, page, redirect, visit
from orcas.console.rights import SERVER

_ONES: Final = "The document has changed since this page was made: compare it with what you typed, and save again."


def bucket_of(request: Request) -> str:
    """The bucket of the address."""
    return str(request.path_params["bucket"])


def _section(request: Request) -> Section:
    found = SECTIONS.get(request.path_params["section"])
    if found is None:
        raise HTTPException(404)
    return found


async def index(request: Request) -> Response:
    """All settings, each with whether it is set."""
    bucket, who = bucket_of(request), visit(request)
    asked = [policy.state(who, bucket), access_lists.state(who, bucket)]
    asked += [_state(who, bucket, section) for section in SECTIONS.values()]
    states = await asyncio.gather(*map(_or_refused, asked))
    rows = [
        ("policy", policy.TITLE, policy.ABOUT, states[0]),
        ("acl", access_lists.TITLE, access_lists.ABOUT, states[1]),
    ]
    rows += [
        (each.slug, each.title, each.about, state) for each, state in zip(SECTIONS.values(), states[2:], strict=True)
    ]
    if all(state[0] == "refused" for *_, state in rows):
        # Not a page of refusals only: one sentence.
        raise CallError(403, "AccessDenied", rows[0][3][1])
    return await page(request, "settings/index.html", rows=rows)


async def _or_refused(state: Awaitable[tuple[str, str]]) -> tuple[str, str]:
    """The state of a setting, or `refused` and why."""
    try:
        return await state
    except CallError as error:
        if error.code == "NoSuchBucket":
            raise
        return "refused", explained(error)


async def _state(who: Visit, bucket: str, section: Section) -> tuple[str, str]:
    """`set` or `none`, and that in words."""
    document = await section.source.load(who, bucket)
    if document is None:
        return "none", section.none
    filled = await asyncio.to_thread(section.form.fill, document)
    if filled is None:
        return "set", "Set"
    if not section.form.rules:
        return _in_words(section.form, filled)
    count = len(filled.rules)
    return ("set", f"{count} {section.form.rule_name}{'' if count == 1 else 's'}") if count else ("none", section.none)


def _in_words(form: Form, filled: Filled) -> tuple[str, str]:
    """A form without groups: what was chosen, where it is one choice."""
    if len(form.fixed) != 1 or not form.fixed[0].choices:
        return "set", "Set"
    value = filled.fixed[form.fixed[0].name]
    said = dict(form.fixed[0].choices).get(value, value)
    return "set" if value else "none", f"{said[:1].upper()}{said[1:]}"


async def show(request: Request) -> Response:
    """One setting."""
    section, bucket = _section(request), bucket_of(request)
    document = await section.source.load(visit(request), bucket)
    return await _page(request, section, document)


async def change(request: Request) -> Response:
    """Save the form or the document, or only show the form with another group or without one."""
    section, bucket, who = _section(request), bucket_of(request), visit(request)
    document = await section.source.load(who, bucket)
    action, typed = field(request, "do"), None
    if action == "remove":
        wanted: str | None = None
    elif action in ("text", "fill"):
        wanted = field(request, "document").replace("\r\n", "\n")
        wanted = wanted if wanted.strip() else None
        if action == "fill":
            # The rules that a count was about, saved or not.
            filled = await asyncio.to_thread(section.form.fill, wanted)
            return await _page(request, section, document, typed=filled, unsaved=True)
    else:
        typed = section.form.take({name: values[0] for name, values in request.state.form.items()})
        if action != "form":
            return await _page(request, section, document, typed=_edited(section, typed, action), unsaved=True)
        wanted = await asyncio.to_thread(section.form.write, typed)
    if wanted is None and section.form.rules and not section.source.removable:
        wanted = section.form.empty
    asks, status = "", 400
    if field(request, "seen") != _mark(document):
        problem, status = _ONES, 409
    elif wanted is None and not section.source.removable:
        problem = f"{section.title} cannot be removed: change it instead."
    elif not (problem := await wrong(who, section.slug, wanted)) and (asks := cost(section.slug, document, wanted)):
        asks = asks if field(request, "sure") != _sure(wanted) else ""
    if problem or asks:
        sure = _sure(wanted) if asks else ""
        return await _page(request, section, document, typed=typed, problem=problem or asks, sure=sure, status=status)
    try:
        await section.source.save(who, bucket, wanted)
    except CallError as error:
        problem = f"Nothing was changed. {explained(error)}"
        return await _page(request, section, document, typed=typed, problem=problem, status=error.status)
    flash(request, f"{section.title}: {'removed' if wanted is None else 'saved'}.")
    return redirect(request, f"/b/{bucket}/settings/{section.slug}")


def _edited(section: Section, typed: Filled, action: str) -> Filled:
    """The form with one more group, or without one."""
    if action == "add" and len(typed.rules) < GROUPS_MAX:
        typed.rules.append({each.name: section.form.new_rule.get(each.name, "") for each in section.form.rule})
    kind, _, place = action.partition(".")
    if kind == "drop" and place.isdecimal() and int(place) < len(typed.rules):
        del typed.rules[int(place)]
    return typed


async def _page(
    request: Request,
    section: Section,
    document: str | None,
    *,
    typed: Filled | None = None,
    problem: str = "",
    sure: str = "",
    unsaved: bool = False,
    status: int = 200,
) -> Response:
    """`sure`: what the form has if it is sent again, to a question that `problem` is."""
    filled, action = typed or await asyncio.to_thread(section.form.fill, document), field(request, "do")
    text = field(request, "document") if action in ("text", "fill") else document or ""
    resource = SERVER if section.slug == "quota" else f"arn:aws:s3:::{bucket_of(request)}"
    return await page(
        request, "settings/section.html", status, section=section, form=section.form,
        filled=filled, document=document, text=text, seen=_mark(document), problem=problem, unsaved=unsaved, sure=sure,
        action=action, offers=await offers(visit(request), section.slug), asks={section.needs: resource},
        tests=await _tests(visit(request), section, document),
    )  # fmt: skip


def _mark(document: str | None) -> str:
    """The mark by which a page knows again the document that it was made of."""
    return "" if document is None else hashlib.sha256(document.encode()).hexdigest()[:32]


def _sure(wanted: str | None) -> str:
    return f"yes-{_mark(wanted)}"


async def _tests(who: Visit, section: Section, document: str | None) -> list[str]:
    """The names of the targets that saved notifications send events to, as far as the form shows them."""
    if section.slug != "notifications" or (saved := section.form.fill(document)) is None:
        return []
    # A target that is not at AWS may be named as a topic, a queue or a function.
    named = {rule["arn"].rpartition(":")[2] for rule in saved.rules}
    return [name for arn, _, name in await known_targets(who) or [] if arn.rpartition(":")[2] in named]


# The actions by which one sees a setting, without what every page of the bucket needs.
_READS: Final = (
    "GetBucketAcl", "GetBucketCORS", "GetBucketNotification", "GetBucketObjectLockConfiguration",
    "GetBucketOwnershipControls", "GetBucketPolicy", "GetBucketPublicAccessBlock", "GetBucketTagging",
    "GetBucketWebsite", "GetEncryptionConfiguration", "GetLifecycleConfiguration",
)  # fmt: skip
_BELOW: Final = "/b/{bucket}/settings"
ROUTES = [
    Route(_BELOW, index, methods=["GET"]),
    Route(f"{_BELOW}/policy", policy.show, methods=["GET"]),
    Route(f"{_BELOW}/policy", policy.change, methods=["POST"]),
    Route(f"{_BELOW}/lifecycle/count", expiry.begin, methods=["POST"]),
    Route(f"{_BELOW}/lifecycle/count", expiry.show, methods=["GET"]),
    Route(f"{_BELOW}/{{section}}", show, methods=["GET"]),
    Route(f"{_BELOW}/{{section}}", change, methods=["POST"]),
]
TABS = [Place("Settings", "/settings", actions=tuple(f"s3:{name}" for name in _READS))]
