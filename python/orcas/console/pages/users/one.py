"""The page of a user, group or role: what it has, and what can be changed."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, Visit, admin, iam
from orcas.console.pages.users.handing import hand_over
from orcas.console.pages.users.kinds import Part, called, everything, kind_of, name_of, part, place, policies_of, texts
from orcas.console.rendering import explained, field, flash, flash_error, page, redirect, visit
from orcas.iam.removal import holds

# The inline policy by which AWS's console ends sessions as well.
_REVOKING: Final = "AWSRevokeOlderSessions"


async def show(request: Request, problem: str = "", status: int = 200) -> Response:
    """The page, with what was wrong."""
    kind, name, who = kind_of(request), name_of(request), visit(request)
    of, named = called(kind), {f"{called(kind)}Name": name}
    answer = await iam(who, f"Get{of}", named)
    found = answer.find(of)
    about = texts(found)
    context: dict[str, Any] = {
        "kind": kind, "name": about.get(f"{of}Name", name), "about": about, "problem": problem,
        "boundary": "" if found is None else found.findtext("PermissionsBoundary/PermissionsBoundaryArn") or "",
        "trust": unquote(about.get("AssumeRolePolicyDocument", "")), "keys": Part(), "groups": Part(), "others": Part(),
        "members": Part(), "limits": {}, "here": place(kind, name),
        "policies": await policies_of(who, kind, name), "needs": _needs(kind),
        "asks": dict.fromkeys(_needs(kind).values(), about["Arn"]),
        "tags": [] if found is None else [texts(tag) for tag in found.findall("Tags/member")],
    }  # fmt: skip
    if kind == "user":
        # Any group: on its own page, each is asked about by itself.
        groups = f"{about['Arn'].rpartition(':')[0]}:group/*"
        context["asks"] |= dict.fromkeys(("iam:AddUserToGroup", "iam:RemoveUserFromGroup"), groups)
        context["limits"] = await _limits(who, {"user": name})
        context["keys"], context["groups"], context["others"] = await asyncio.gather(
            _keys(who, name, limited=bool(context["limits"])), part(who, "ListGroupsForUser", "Groups", named),
            part(who, "ListGroups", "Groups"),
        )  # fmt: skip
    if kind == "group":
        context["members"], context["others"] = await asyncio.gather(
            part(who, "GetGroup", "Users", named), part(who, "ListUsers", "Users")
        )
    other = "GroupName" if kind == "user" else "UserName"
    context["keys_offered"] = context["keys"].choices("AccessKeyId", "AccessKeyId")
    context["others_offered"] = context["others"].choices(other, other)
    context["policies_offered"] = context["policies"]["offered"].choices("Arn", "PolicyName")
    return await page(request, "users/one.html", status, **context)


def _needs(kind: str) -> dict[str, str]:
    """The actions by which things are done to this one."""
    simple = {name: do.action for name, (do, _) in _ACTIONS.items() if isinstance(do, _Simple)}
    return {name: f"iam:{action.format(called(kind))}" for name, action in (simple | _NEEDS).items()}


async def _keys(who: Visit, name: str, *, limited: bool) -> Part:
    """The access keys of a user, each with when it was used last, and with its limits if the visitor may know them."""
    found = await part(who, "ListAccessKeys", "AccessKeyMetadata", {"UserName": name})

    async def used(key: str) -> str:
        try:
            answer = await iam(who, "GetAccessKeyLastUsed", {"AccessKeyId": key})
        except CallError:
            return "not shown to you"
        return answer.findtext("AccessKeyLastUsed/LastUsedDate") or "never"

    async def complete(row: dict[str, Any]) -> None:
        row["used"] = await used(row["AccessKeyId"])
        row["limits"] = await _limits(who, {"access_key": row["AccessKeyId"]}) if limited else {}

    await asyncio.gather(*(complete(row) for row in found.rows))
    return found


async def _limits(who: Visit, named: dict[str, str]) -> dict[str, int]:
    """Requests and bytes a second of a user or key; empty if the visitor may not know."""
    try:
        answer = await admin(who, "GET", "limits", query=named)
    except CallError:
        return {}
    return dict(answer["Limits"])


async def change(request: Request) -> Response:
    """Do one thing to a user, group or role, and show its page again."""
    kind, action = kind_of(request), _ACTIONS.get(request.path_params["action"])
    if action is None or kind not in action[1]:
        raise HTTPException(404)
    try:
        flash(request, await action[0](request))
    except ValueError as error:
        return await show(request, str(error), 400)
    except CallError as error:
        if error.code in ("InvalidAccessKeyId", "InvalidClientTokenId"):
            raise
        return await show(request, f"Nothing was changed. {explained(error)}", error.status)
    return redirect(request, place(kind, name_of(request)))


async def _do(request: Request, action: str, **parameters: str) -> None:
    of = called(kind_of(request))
    await iam(visit(request), action.format(of), {f"{of}Name": name_of(request), **parameters})


@dataclass(frozen=True, slots=True)
class _Simple:
    """An action of IAM about one thing that is in the form.

    Args:
        action: its name, with the kind in place of `{}`.
        field: of the form.
        parameter: of the action.
        done: what is said then, about `{value}` and `{name}`.
        missing: what is said if the field is empty.
    """

    action: str
    field: str
    parameter: str
    done: str
    missing: str = ""

    async def __call__(self, request: Request) -> str:
        """Carry it out."""
        value = _given(request, self.field, self.missing) if self.missing else field(request, self.field)
        await _do(request, self.action, **{self.parameter: value})
        shown = value.rpartition("/")[2] if self.parameter == "PolicyArn" else value
        return self.done.format(value=shown, name=name_of(request))


async def _set_key(request: Request) -> str:
    key, status = field(request, "key"), field(request, "status")
    await _do(request, "UpdateAccessKey", AccessKeyId=key, Status=status)
    return f"Access key {key} is {'in use again' if status == 'Active' else 'refused from now on'}."


async def _set_boundary(request: Request) -> str:
    arn = field(request, "policy")
    if arn:
        await _do(request, "Put{}PermissionsBoundary", PermissionsBoundary=arn)
        return f"Nothing beyond {arn.rpartition('/')[2]} is allowed."
    await _do(request, "Delete{}PermissionsBoundary")
    return "There is no permissions boundary."


async def _tag(request: Request) -> str:
    key = _given(request, "key", "Write the key of the tag.")
    await _do(request, "Tag{}", **{"Tags.member.1.Key": key, "Tags.member.1.Value": field(request, "value")})
    return f"The tag {key} is set."


async def _limit(request: Request) -> str:
    return await _put_limits(request, {"user": name_of(request)}, "The limits are set", "There are no limits")


async def _limit_key(request: Request) -> str:
    key = _given(request, "key", "Choose an access key.")
    return await _put_limits(
        request, {"access_key": key}, f"Access key {key} is limited", f"Access key {key} has no limits"
    )


async def _put_limits(request: Request, named: dict[str, str], done: str, none: str) -> str:
    """Set the limits that were typed, of a user or a key."""
    of_key = "key_" if "access_key" in named else ""
    given = [field(request, of_key + name).strip() or "0" for name in ("requests", "bytes")]
    if not all(text.isascii() and text.isdecimal() and len(text) <= 13 for text in given):
        raise ValueError("Write whole numbers of requests and bytes a second, or leave the fields empty.")
    order = {**named, "requests": int(given[0]), "bytes": int(given[1])}
    await admin(visit(request), "PUT", "limits", order)
    return f"{done if any(map(int, given)) else none}."


async def _revoke(request: Request) -> str:
    """End sessions that began before a time, which is now unless another one was typed."""
    typed = field(request, "before").strip()
    try:
        before = dt.datetime.fromisoformat(typed) if typed else dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    except ValueError:
        raise ValueError("Write a time in UTC such as 2027-01-31T08:00, or leave the field empty for now.") from None
    text = (
        (before if before.tzinfo else before.replace(tzinfo=dt.UTC)).astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    statement = {
        "Effect": "Deny", "Action": ["*"], "Resource": ["*"],
        "Condition": {"DateLessThan": {"aws:TokenIssueTime": text}},
    }  # fmt: skip
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    await _do(request, "Put{}Policy", PolicyName=_REVOKING, PolicyDocument=document)
    return f"Sessions that began before {text} have ended."


def _given(request: Request, name: str, missing: str) -> str:
    found = field(request, name)
    if not found:
        raise ValueError(missing)
    return found


_ALL: Final = ("user", "group", "role")
# What else needs an action.
_NEEDS: Final = {
    "set-key": "UpdateAccessKey", "boundary": "Put{}PermissionsBoundary", "tag": "Tag{}", "create-key": "CreateAccessKey",
    "inline": "Put{}Policy", "trust": "UpdateAssumeRolePolicy", "delete": "Delete{}",
}  # fmt: skip
# What can be done, and to which kinds.
_ACTIONS: Final[dict[str, tuple[Callable[[Request], Awaitable[str]], tuple[str, ...]]]] = {
    "attach": (
        _Simple("Attach{}Policy", "policy", "PolicyArn", "{value} is attached.", "Choose a policy."), _ALL,
    ),
    "detach": (_Simple("Detach{}Policy", "policy", "PolicyArn", "{value} is no longer attached."), _ALL),
    "delete-inline": (
        _Simple("Delete{}Policy", "policy", "PolicyName", "The inline policy {value} was deleted."), _ALL,
    ),
    "join": (
        _Simple("AddUserToGroup", "other", "GroupName", "{name} is in the group {value}.", "Choose a group."), ("user",),
    ),
    "leave": (
        _Simple("RemoveUserFromGroup", "other", "GroupName", "{name} is no longer in the group {value}."), ("user",),
    ),
    "add": (
        _Simple("AddUserToGroup", "other", "UserName", "{value} is in the group.", "Choose a user."), ("group",),
    ),
    "remove": (
        _Simple("RemoveUserFromGroup", "other", "UserName", "{value} is no longer in the group."), ("group",),
    ),
    "set-key": (_set_key, ("user",)),
    "delete-key": (
        _Simple("DeleteAccessKey", "key", "AccessKeyId", "Access key {value} was deleted."), ("user",),
    ),
    "boundary": (_set_boundary, ("user", "role")),
    "tag": (_tag, ("user", "role")),
    "untag": (
        _Simple("Untag{}", "key", "TagKeys.member.1", "The tag {value} was removed."), ("user", "role"),
    ),
    "limit": (_limit, ("user",)),
    "limit-key": (_limit_key, ("user",)),
    "revoke": (_revoke, ("user", "role")),
}  # fmt: skip


async def create_key(request: Request) -> Response:
    """Make an access key."""
    if kind_of(request) != "user":
        raise HTTPException(404)
    parameters = {"UserName": name_of(request)}
    policy = field(request, "document").replace("\r\n", "\n")
    if policy.strip():
        parameters["SessionPolicy"] = policy
    elif field(request, "narrow"):
        return await show(request, "Write the policy of the service account.", 400)
    try:
        made = texts((await iam(visit(request), "CreateAccessKey", parameters)).find("AccessKey"))
    except CallError as error:
        return await show(request, f"No key was made. {explained(error)}", error.status)
    heading = f"A new {'service account' if policy.strip() else 'access key'} of {name_of(request)}"
    return hand_over(request, made["AccessKeyId"], made["SecretAccessKey"], heading, place("user", name_of(request)))


async def delete(request: Request) -> Response:
    """Delete a user, group or role with all that it has, after its name was typed."""
    kind, name = kind_of(request), name_of(request)
    if field(request, "confirm") != name:
        return await show(request, f"Nothing was deleted. Type the name of the {kind} to delete it.", 400)
    try:
        await _strip(visit(request), kind, name)
        await _do(request, "Delete{}")
    except CallError as error:
        flash_error(request, error, f"The {kind} {name} was not deleted, but may have lost keys and policies")
        return redirect(request, place(kind, name))
    flash(request, f"The {kind} {name} was deleted.")
    return redirect(request, f"/users/{quote(kind)}s")


async def _strip(who: Visit, kind: str, name: str) -> None:
    """Remove what keeps it from being deleted."""
    named = {f"{called(kind)}Name": name}
    for hold in holds(kind):
        # A list as a whole may have more entries than are read at a time.
        while entries := await everything(who, hold.lists, hold.entries, named):
            for entry in entries:
                found = entry.findtext(hold.parameter) or entry.text or ""
                await iam(who, hold.removes, named | {hold.parameter: found})
