"""The actions of AWS STS: temporary credentials for roles, users, roots and identities of providers.

A role must be allowed by the policies of who assumes it and by its own. What a session may do is decided when it does
something, by the policies that its role or user has then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from orcas.control.identities.authorization import caller_facts, managed_text, times
from orcas.control.identities.calls import Answer, Call, Parameters
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import SESSION_MAX, time_of
from orcas.control.identities.records import Account, Entity
from orcas.control.identities.registry import action
from orcas.control.identities.sessions.tokens import TOKEN_MAX, Claims, fresh_credentials

_ROLE: Final = re.compile(r"arn:aws:iam::([0-9]{12}):role/(?:[\x21-\x7e]*/)?([\w+=,.@-]{1,64})", re.ASCII)
_SESSION_NAME: Final = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_POLICIES_MAX: Final = 10
# Seconds: the shortest session, the longest, and that of a root or of a role that a role has assumed.
_LEAST, _MOST, _MOST_OF_ROOT = 900, 129_600, 3_600
_DEFAULT: Final = 43_200


def _invalid(name: str, why: str) -> IamError:
    return IamError(
        "ValidationError", f"1 validation error detected: Value at '{name}' failed to satisfy constraint: {why}"
    )


def _denied(call: Call, name: str, resource: str) -> IamError:
    return IamError(
        "AccessDenied", f"User: {call.caller.arn} is not authorized to perform: sts:{name} on resource: {resource}"
    )


def _session_name(parameters: Parameters, name: str, most: int = 64) -> str:
    value = parameters.text(name, most)
    if not _SESSION_NAME.fullmatch(value):
        raise _invalid(name, "Member must satisfy regular expression pattern: [\\w+=,.@-]*, with at least 2 characters")
    return value


async def _narrowing(call: Call, account: Account) -> tuple[list[str] | None, str | None]:
    """`PolicyArns` and `Policy`."""
    document = call.parameters.optional("Policy", SESSION_MAX)
    entries = call.parameters.entries("PolicyArns")
    if document is not None:
        await call.valid(document, "session", SESSION_MAX)
    if len(entries) > _POLICIES_MAX:
        raise _invalid("policyArns", f"Member must have length less than or equal to {_POLICIES_MAX}")
    arns = [str(entry.get("arn")) for entry in entries]
    for arn in arns:
        if await managed_text(call.records, account.id, arn) is None:
            raise _invalid("policyArns", f"There is no policy {arn}")
    return (arns, document) if arns or document is not None else (None, None)


async def _issue(call: Call, seconds: int, **claims: Any) -> tuple[dict[str, str], int]:
    """Credentials, and how much of the largest token they take, in percent."""
    access_key, secret = fresh_credentials()
    # Whole seconds, as conditions on `aws:TokenIssueTime` have them.
    issued_ms = call.sessions.now_ms() // 1000 * 1000
    ends_ms = issued_ms + seconds * 1000
    made = Claims(access_key=access_key, secret=secret, issued_ms=issued_ms, ends_ms=ends_ms, **claims)
    token = await call.sessions.seal(made)
    if len(token) > TOKEN_MAX:
        share = len(token) * 100 // TOKEN_MAX
        message = f"Packed size of session tags and policies consumes {share}% of allotted space."
        raise IamError("PackedPolicyTooLarge", message)
    credentials = {
        "AccessKeyId": access_key, "SecretAccessKey": secret, "SessionToken": token, "Expiration": time_of(ends_ms),
    }  # fmt: skip
    return credentials, max(1, len(token) * 100 // TOKEN_MAX)


def _own(call: Call) -> dict[str, Any]:
    """The claims of a session of the caller itself, who has signed with a key of its own."""
    caller, account = call.caller, call.account
    if caller.key is None and account.id != call.root:
        raise IamError("AccessDenied", "The operator has sessions of the first account alone.")
    if caller.session is not None:
        raise IamError("AccessDenied", "Cannot call this action with session credentials.")
    if caller.key is not None and caller.key.session_policy is not None:
        raise IamError("AccessDenied", "An access key that has a policy of its own cannot have sessions.")
    return {
        "identity": caller.arn, "id": account.number if caller.user is None else caller.user.id,
        "by": call.root_key if caller.key is None else caller.key.access_key, "provider": None, "name": None,
    }  # fmt: skip


@action("session", service="sts")
async def get_caller_identity(call: Call) -> Answer:
    """The identity of the caller. Everybody may ask for its own."""
    return {"UserId": call.caller.user_id, "Account": call.account.number, "Arn": call.caller.arn}


@action("session", service="sts")
async def get_session_token(call: Call) -> Answer:
    """Credentials that may do what the caller may."""
    own, of_root = _own(call), call.caller.user is None
    seconds = call.parameters.number("DurationSeconds", _LEAST, _MOST, _DEFAULT)
    credentials, _ = await _issue(
        call, min(seconds, _MOST_OF_ROOT) if of_root else seconds, **own, arn=None, user_id=call.caller.user_id,
        tags=[], transitive=[], policies=None, document=None,
    )  # fmt: skip
    return {"Credentials": credentials}


@action("session", service="sts")
async def assume_role_with_certificate(call: Call) -> Answer:
    """Credentials of the user whom a certificate names that the client has shown. They end with it at the latest."""
    user, certificate = call.caller.user, call.caller.certificate
    if user is None or certificate is None:
        raise IamError("AccessDenied", "Not authorized to perform sts:AssumeRoleWithCertificate")
    seconds = call.parameters.number("DurationSeconds", _LEAST, _MOST, 3_600)
    left = (certificate.ends_ms - call.sessions.now_ms()) // 1000
    if left <= 0:
        raise IamError("AccessDenied", "The certificate of the client has expired.")
    credentials, _ = await _issue(
        call, min(seconds, left), identity=user.arn, id=user.id, by=None, provider=None, name=None, arn=None,
        user_id=user.id, tags=[], transitive=[], policies=None, document=None,
    )  # fmt: skip
    return {"Credentials": credentials}


@action("session", service="sts")
async def get_federation_token(call: Call) -> Answer:
    """Credentials for somebody whom the caller knows: what both the caller and the policies that are given allow."""
    own, of_root = _own(call), call.caller.user is None
    name = _session_name(call.parameters, "Name", 32)
    seconds = call.parameters.number("DurationSeconds", _LEAST, _MOST, _DEFAULT)
    tags = call.parameters.tags()
    arn = f"arn:aws:sts::{call.account.number}:federated-user/{name}"
    context = {**_tag_keys(tags), **times(), **call.caller.context}
    for asked in ["GetFederationToken", *(["TagSession"] if tags else [])]:
        question = {**await caller_facts(call), "action": f"sts:{asked}", "resource": arn, "context": context}
        if (await call.evaluate(question))["decision"] != "allowed":
            raise _denied(call, asked, arn)
    policies, document = await _narrowing(call, call.account)
    user_id = f"{call.account.number}:{name}"
    credentials, share = await _issue(
        call, min(seconds, _MOST_OF_ROOT) if of_root else seconds, **own, arn=arn, user_id=user_id, tags=tags,
        transitive=[], policies=policies or [], document=document, alias=call.caller.alias,
    )  # fmt: skip
    user = {"FederatedUserId": user_id, "Arn": arn}
    return {"Credentials": credentials, "FederatedUser": user, "PackedPolicySize": share}


def _tag_keys(tags: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    context = {f"aws:RequestTag/{name}": [value] for name, value in tags}
    return {**context, "aws:TagKeys": [name for name, _ in tags]} if tags else context


async def _role(call: Call, arn: str) -> tuple[Account | None, Entity | None]:
    match = _ROLE.fullmatch(arn)
    if match is None:
        raise _invalid("roleArn", f"{arn} is invalid")
    account = await call.records.account(match[1])
    role = None if account is None else await call.records.find(account.id, "role", match[2])
    if role is not None:
        await call.records.check(role.id)
    return account, role if role is not None and role.arn == arn else None


async def _assumed(
    call: Call, account: Account, role: Entity, name: str, tags: list[tuple[str, str]], transitive: list[str]
) -> Answer:
    """A session of a role that may be assumed."""
    most = role.details["session_sec"]
    chained = call.caller.session is not None
    seconds = call.parameters.number("DurationSeconds", _LEAST, 43_200, 3_600)
    if seconds > most:
        raise IamError(
            "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        )
    if chained and seconds > _MOST_OF_ROOT:
        raise IamError(
            "ValidationError",
            "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.",
        )
    policies, document = await _narrowing(call, account)
    arn = f"arn:aws:sts::{account.number}:assumed-role/{role.name}/{name}"
    user_id = f"{role.id}:{name}"
    web = call.caller.web
    credentials, share = await _issue(
        call, seconds, identity=role.arn, id=role.id, by=None, arn=arn, user_id=user_id, tags=tags,
        transitive=transitive, policies=policies, document=document, provider=None if web is None else web.arn,
        name=name, limited=_limited(call),
    )  # fmt: skip
    return {
        "Credentials": credentials, "AssumedRoleUser": {"AssumedRoleId": user_id, "Arn": arn},
        "PackedPolicySize": share,
    }  # fmt: skip


def _limited(call: Call) -> list[str]:
    """The identities whose limits count for a session of a role: all that have led to it. Nobody has more by a session."""
    caller = call.caller
    if caller.web is not None:
        return []
    if caller.session is not None:
        given = [caller.session.identity, caller.session.by, *caller.session.limited]
    else:
        given = [caller.arn, call.root_key if caller.key is None else caller.key.access_key]
    return list(dict.fromkeys(each for each in given if each is not None))


async def _resource_tags(call: Call, role: Entity) -> dict[str, list[str]]:
    tags = await call.records.tags(role)
    return {f"{start}:ResourceTag/{name}": [value] for name, value in tags for start in ("aws", "iam")}


@action("session", service="sts")
async def assume_role(call: Call) -> Answer:
    """Credentials of a role. Whoever may not assume one does not learn whether it exists."""
    parameters = call.parameters
    arn, name = parameters.text("RoleArn", 2048), _session_name(parameters, "RoleSessionName")
    external = parameters.optional("ExternalId", 1224, least=2)
    tags, transitive = parameters.tags(), parameters.texts("TransitiveTagKeys", 128)
    known = {key.lower() for key, _ in tags}
    if any(key.lower() not in known for key in transitive):
        raise IamError("ValidationError", "A transitive tag key must be one of the session tags.")
    if call.caller.session is not None:
        # Those that the session hands on cannot be changed.
        handed = [
            tag for tag in call.caller.session.tags if tag[0].lower() in map(str.lower, call.caller.session.transitive)
        ]
        if known & {key.lower() for key, _ in handed}:
            raise IamError("ValidationError", "A session tag overrides one that is transitive.")
        transitive = [*transitive, *(key for key, _ in handed)]
    else:
        handed = []
    account, role = await _role(call, arn)
    if account is None or role is None:
        raise _denied(call, "AssumeRole", arn)
    context = {**_tag_keys(tags), **times(), **call.caller.context, **await _resource_tags(call, role)}
    context["sts:RoleSessionName"] = [name]
    if external is not None:
        context["sts:ExternalId"] = [external]
    if transitive:
        context["sts:TransitiveTagKeys"] = transitive
    facts = {
        **await caller_facts(call),
        "resource": arn,
        "context": context,
        "trust": role.details["trust"],
    }
    for asked in ["AssumeRole", *(["TagSession"] if tags else [])]:
        question = {**facts, "action": f"sts:{asked}", "resource_account": account.number}
        # The role must trust the caller, whatever the caller's own policies allow.
        trusted = {**question, "identity": [_ANYTHING], "boundary": None, "session": None, "resource_account": ""}
        for each in (question, trusted):
            if (await call.evaluate(each))["decision"] != "allowed":
                raise _denied(call, asked, arn)
    return await _assumed(call, account, role, name, [*tags, *handed], transitive)


_ANYTHING: Final = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


@action("session", service="sts")
async def assume_role_with_web_identity(call: Call) -> Answer:
    """Credentials of a role for somebody whom a provider knows, and whose token was verified."""
    parameters, web = call.parameters, call.caller.web
    arn, name = parameters.text("RoleArn", 2048), _session_name(parameters, "RoleSessionName")
    parameters.take("WebIdentityToken")
    denied = IamError("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
    account, role = await _role(call, arn)
    if web is None or account is None or role is None or account.id != call.account.id:
        raise denied
    issuer = web.issuer.removeprefix("https://")
    context = {**times(), **call.caller.context, **await _resource_tags(call, role), **_tag_keys(web.tags)}
    context |= {f"{issuer}:{key}": values for key, values in web.keys.items()}
    context |= {"sts:RoleSessionName": [name], "aws:FederatedProvider": [web.arn]}
    if web.transitive:
        context["sts:TransitiveTagKeys"] = web.transitive
    principal = {"arn": web.arn, "kind": "federated", "provider": web.arn}
    for asked in ["AssumeRoleWithWebIdentity", *(["TagSession"] if web.tags else [])]:
        question = {
            "principal": principal, "action": f"sts:{asked}", "resource": arn, "resource_account": account.number,
            "context": context, "trust": role.details["trust"],
        }  # fmt: skip
        if (await call.evaluate(question))["decision"] != "allowed":
            raise denied
    answer = await _assumed(call, account, role, name, web.tags, web.transitive)
    return {
        **answer, "Provider": web.arn, "Audience": web.audience, "SubjectFromWebIdentityToken": web.keys["sub"][0],
    }  # fmt: skip
