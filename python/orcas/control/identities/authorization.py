"""Whether the caller may call an action: the root of the account, or a user whose policies allow it.

The access decision is made before anything is told about what the action names. Must not know what actions do.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from orcas.control.identities.actions.policies import default_of
from orcas.control.identities.builtin import BUILTIN
from orcas.control.identities.calls import Call
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import PROVIDER, arn_of, time_of
from orcas.control.identities.records import Entity, Records
from orcas.control.identities.registry import Entry
from orcas.control.identities.sessions.tokens import Claims

_PARAMETERS: Final = {"user": "UserName", "self": "UserName", "group": "GroupName", "role": "RoleName"}


async def identity_policies(records: Records, entity: Entity) -> list[tuple[str, str]]:
    """The policies of a user, group or role, those of its groups included: where each is from, and its text."""
    found = []
    owners = [entity, *(await records.groups_of(entity) if entity.kind == "user" else [])]
    await records.check(*(owner.id for owner in owners))
    for owner in owners:
        documents = await records.documents(owner)
        found += [(f"{owner.kind} {owner.name}: {document.name}", document.text) for document in documents]
        for arn in await records.attached(owner):
            text = await managed_text(records, owner.account, arn)
            if text is not None:
                found.append((arn, text))
    return found


async def managed_text(records: Records, account: str, arn: str) -> str | None:
    """The default version of a managed policy. None if there is none with this ARN."""
    policy = BUILTIN.get(arn) or await records.find(account, "policy", arn.rpartition("/")[2])
    if policy is None or policy.arn != arn:
        return None
    if isinstance(policy, Entity):
        await records.check(policy.id)
    return (await default_of(records, policy)).text


async def principal_facts(records: Records, entity: Entity) -> dict[str, Any]:
    """A user or role as `simulate` wants it, with its policies and boundary."""
    boundary = entity.boundary and await managed_text(records, entity.account, entity.boundary)
    return {
        "principal": {
            "arn": entity.arn, "id": entity.id, "name": entity.name, "kind": entity.kind, "account": entity.number,
            "tags": dict(await records.tags(entity)),
        },
        "identity": [text for _, text in await identity_policies(records, entity)],
        "boundary": boundary,
        "session": None,
        "resource_policy": None,
    }  # fmt: skip


async def caller_facts(call: Call) -> dict[str, Any]:
    """The facts of conditions about the caller."""
    caller, number = call.caller, call.caller.account.number
    if caller.user is None:
        principal = {"arn": caller.arn, "kind": "root", "account": number}
        facts: dict[str, Any] = {"principal": principal, "identity": [], "boundary": None, "session": None}
    else:
        facts = await principal_facts(call.records, caller.user)
    if caller.key is not None and caller.key.session_policy is not None:
        facts["session"] = caller.key.session_policy
    if caller.session is not None:
        facts.update(await _session_facts(call, caller.session, facts["principal"]))
    return facts


async def _session_facts(call: Call, session: Claims, principal: dict[str, Any]) -> dict[str, Any]:
    own = {name.lower() for name, _ in session.tags}
    tags = {name: value for name, value in principal.get("tags", {}).items() if name.lower() not in own}
    facts: dict[str, Any] = {
        "principal": {
            **principal, "arn": call.caller.arn, "id": session.user_id, "identity": session.identity,
            "tags": tags | dict(session.tags), "issued": time_of(session.issued_ms), "provider": session.provider or "",
        }
    }  # fmt: skip
    if session.policies is not None:
        texts = [await managed_text(call.records, call.caller.account.id, arn) for arn in session.policies]
        if None in texts:
            # It might have denied something.
            raise IamError("InvalidClientTokenId", "The security token included in the request is invalid.")
        facts["session"] = [text for text in [*texts, session.document] if text is not None]
    return facts


def times() -> dict[str, list[str]]:
    """The keys of conditions that depend on the clock."""
    now = dt.datetime.now(dt.UTC)
    return {"aws:CurrentTime": [now.strftime("%Y-%m-%dT%H:%M:%SZ")], "aws:EpochTime": [str(int(now.timestamp()))]}


async def authorize(call: Call, name: str, entry: Entry) -> None:
    """Raise IamError if the caller must not call this action."""
    user = call.caller.user
    if user is None or entry.service == "sts":
        return
    resource, target, shown = await _resource(call, name, entry)
    if target is not None:
        await call.records.check(target.id)
    facts = await caller_facts(call)
    context = {**call.caller.context, **times(), **await _conditions(call, target)}
    action = f"iam:{name}"
    question = {**facts, "resource_account": user.number, "action": action, "context": context}
    # One who renames something needs to be allowed that of both names.
    for each in [resource, *_renamed(call, target)]:
        asked = {**question, "resource": each}
        decision = await call.evaluate(asked)
        if decision["decision"] != "allowed":
            why = await _why(call, asked, decision)
            message = f"User: {call.caller.arn} is not authorized to perform: {action} on resource: {shown} {why}"
            raise IamError("AccessDenied", message, await _statement(call.records, user, decision))


async def _statement(records: Records, user: Entity, decision: dict[str, Any]) -> str | None:
    """The statement that denies, for the log."""
    if decision["decision"] != "explicitDeny":
        return None
    source, _, place = str(decision["policy"]).partition(":")
    policy = (await identity_policies(records, user))[int(place)][0] if source == "identity" else f"the {source} policy"
    sid = "" if decision["sid"] is None else f" {decision['sid']}"
    return f"statement {decision['statement'] + 1}{sid} of {policy}"


async def _why(call: Call, asked: dict[str, Any], decision: dict[str, Any]) -> str:
    named = {"boundary": "a permissions boundary", "session": "a session policy"}
    if decision["decision"] == "explicitDeny":
        return f"with an explicit deny in {named.get(str(decision['policy']), 'an identity-based policy')}"
    limits = {"boundary": "permissions boundary", "session": "session policy"}
    missing = "identity-based policy"
    for name, what in reversed(limits.items()):
        # That which alone is in the way.
        if asked[name] is not None and (await call.evaluate({**asked, name: None}))["decision"] == "allowed":
            missing = what
    return f"because no {missing} allows the {asked['action']} action"


def _renamed(call: Call, target: Entity | None) -> list[str]:
    """The ARN that what is renamed will have."""
    path, names = (
        call.parameters.peek("NewPath"),
        (call.parameters.peek(f"New{kind}Name") for kind in ("User", "Group")),
    )
    name = next((each for each in names if each is not None), None)
    if target is None or (path is None and name is None):
        return []
    return [arn_of(target.number, target.kind, path or target.path, name or target.name)]


async def _resource(call: Call, action: str, entry: Entry) -> tuple[str, Entity | None, str]:
    """The ARN of what the action is done to, the entity itself if it exists, and what a refusal calls it.

    That does not depend on what exists: the path of a user is told to nobody who may not see the user.
    """
    account, peek = call.account, call.parameters.peek
    match entry.target:
        case "user" | "self" | "group" | "role":
            kind = "user" if entry.target == "self" else entry.target
            name, own = peek(_PARAMETERS[kind]), call.caller.user
            if name is None and own is not None and entry.target == "self":
                return own.arn, own, f"user {own.name}"
            # What is to be made is known by the path that it is to have.
            is_new = action == f"Create{kind.capitalize()}"
            entity = None if is_new else await call.records.named(account.id, kind, name or "")
            arn = arn_of(account.number, kind, peek("Path") or "/", name or "") if entity is None else entity.arn
            return arn, entity, f"{kind} {name}"
        case "policy":
            arn = peek("PolicyArn") or ""
            entity = await call.records.find(account.id, "policy", arn.rpartition("/")[2])
            return arn, entity if entity is not None and entity.arn == arn else None, f"policy {arn}"
        case "new policy":
            name = peek("PolicyName") or ""
            return arn_of(account.number, "policy", peek("Path") or "/", name), None, f"policy {name}"
        case "key":
            key = await call.records.key(peek("AccessKeyId") or "")
            user = None if key is None or key.user is None else await call.records.by_id(key.user)
            if user is None or user.account != account.id:
                return "*", None, "*"
            return user.arn, user, "*"
        case "source":
            arn = peek("PolicySourceArn") or ""
            return arn, None, arn
        case "provider":
            url = (peek("Url") or "").removeprefix("https://")
            arn = peek("OpenIDConnectProviderArn") or arn_of(account.number, PROVIDER, "/", url)
            return arn, None, arn
        case "account" | "session":
            return "*", None, "*"


async def _conditions(call: Call, target: Entity | None) -> dict[str, list[str]]:
    """The keys of conditions that come from parameters, and from what the action is done to."""
    context: dict[str, list[str]] = {}
    if (policy := call.parameters.peek("PolicyArn")) is not None:
        context["iam:PolicyARN"] = [policy]
    boundary = call.parameters.peek("PermissionsBoundary") or (target.boundary if target is not None else None)
    if boundary is not None:
        context["iam:PermissionsBoundary"] = [boundary]
    keys = []
    for tag in call.parameters.peek_list("Tags"):
        if isinstance(tag, dict) and isinstance(tag.get("Key"), str):
            context[f"aws:RequestTag/{tag['Key']}"] = [str(tag.get("Value", ""))]
            keys.append(tag["Key"])
    keys += [key for key in call.parameters.peek_list("TagKeys") if isinstance(key, str)]
    if keys:
        context["aws:TagKeys"] = keys
    for name, value in [] if target is None else await call.records.tags(target):
        context[f"aws:ResourceTag/{name}"] = context[f"iam:ResourceTag/{name}"] = [value]
    return context
