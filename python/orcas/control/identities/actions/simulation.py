"""Simulation of policies: SimulatePrincipalPolicy and SimulateCustomPolicy."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from orcas.control.identities.authorization import identity_policies, managed_text, principal_facts, times
from orcas.control.identities.builtin import BUILTIN
from orcas.control.identities.calls import Answer, Call, is_text
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import DOCUMENT_MAX, arn_of
from orcas.control.identities.records import Entity
from orcas.control.identities.registry import action

_SOURCE: Final = re.compile(r"arn:aws:iam::([0-9]{12}):(user|group|role)/(?:.*/)?([^/]+)", re.ASCII)
# Access decisions of one call.
_DECISIONS_MAX: Final = 1_000
_USER: Final = re.compile(r"arn:aws:iam::[0-9]{12}:user/(?:[\x21-\x7e]*/)?([\w+=,.@-]{1,64})", re.ASCII)
_ACCOUNT: Final = re.compile(r"([0-9]{12})|arn:aws:iam::([0-9]{12}):root", re.ASCII)
_OWN: Final = "SimulatedUser"


async def source_of(call: Call) -> Entity:
    """The user, group or role whose policies are asked about."""
    arn = call.parameters.text("PolicySourceArn", 2048)
    match = _SOURCE.fullmatch(arn)
    entity = match and await call.records.find(call.account.id, match[2], match[3])
    if not entity or entity.arn != arn:
        raise IamError("NoSuchEntity", f"The entity {arn} cannot be found.")
    return entity


@action("source")
async def simulate_principal_policy(call: Call) -> Answer:
    """The decisions by the policies of a user, group or role; for the operator also with the policy of an access key."""
    entity = await source_of(call)
    facts = await principal_facts(call.records, entity)
    access_key = call.parameters.optional("AccessKeyId", 128) if call.operator else None
    if access_key is not None:
        key = await call.records.key(access_key)
        if key is None or key.user != entity.id:
            raise IamError("NoSuchEntity", f"The Access Key with id {access_key} cannot be found.")
        facts["session"] = None if key.session_policy is None else key.session_policy
    labels = [label for label, _ in await identity_policies(call.records, entity)]
    if entity.kind == "group":
        facts["principal"]["kind"] = "user"
    return await _simulate(call, facts, labels)


@action("account")
async def simulate_custom_policy(call: Call) -> Answer:
    """The decisions by policies that nobody need have."""
    number = call.account.number
    principal = {"arn": arn_of(number, "user", "/", _OWN), "name": _OWN, "kind": "user", "account": number}
    facts: dict[str, Any] = {
        "principal": principal, "identity": [], "boundary": None, "session": None, "resource_policy": None,
    }  # fmt: skip
    return await _simulate(call, facts, [])


async def _simulate(call: Call, facts: dict[str, Any], labels: list[str]) -> Answer:
    parameters = call.parameters
    for at, text in enumerate(parameters.texts("PolicyInputList"), 1):
        facts["identity"].append(await call.valid(text, "identity", DOCUMENT_MAX))
        labels = [*labels, f"PolicyInputList.{at}"]
    for text in parameters.texts("PermissionsBoundaryPolicyInputList"):
        facts["boundary"] = await call.valid(text, "boundary", DOCUMENT_MAX)
    resource_policy = parameters.optional("ResourcePolicy")
    if resource_policy is not None:
        facts["resource_policy"] = await call.valid(resource_policy, "resource", DOCUMENT_MAX)
    caller = parameters.optional("CallerArn", 2048)
    if caller is not None:
        named = _given(_USER, caller, "CallerArn must be the ARN of a user.")
        facts["principal"] = {**facts["principal"], "arn": caller, "name": named}
    owner = parameters.optional("ResourceOwner", 2048)
    whose = "ResourceOwner must be the number of an account, or the ARN of its root."
    account = call.account.number if owner is None else _given(_ACCOUNT, owner, whose)
    context = {**times(), **_entries(parameters.entries("ContextEntries"))}
    actions, resources = parameters.texts("ActionNames", 128), parameters.texts("ResourceArns", 2048) or ["*"]
    page = parameters.page()
    if not actions or len(actions) * len(resources) > _DECISIONS_MAX:
        raise IamError("InvalidInput", f"A simulation has from 1 to {_DECISIONS_MAX} pairs of actions and resources.")
    question = {**facts, "resource_account": account, "action": actions, "resource": resources, "context": context}
    pairs = [(name, resource) for name in actions for resource in resources]
    decisions = await call.evaluate_all(question)
    results = [_shown(*pair, decision, labels) for pair, decision in zip(pairs, decisions, strict=True)]
    if facts["boundary"] is not None:
        alone = {**question, "identity": [facts["boundary"]], "boundary": None, "resource_policy": None}
        for result, decision in zip(results, await call.evaluate_all(alone), strict=True):
            allowed = decision["decision"] == "allowed"
            result["PermissionsBoundaryDecisionDetail"] = {"AllowedByPermissionsBoundary": allowed}
    rank = {id(result): f"{at:06}" for at, result in enumerate(results)}
    return page.of("EvaluationResults", results, lambda result: rank[id(result)], lambda result: result)


def _given(pattern: re.Pattern[str], value: str, why: str) -> str:
    match = pattern.fullmatch(value)
    if match is None:
        raise IamError("InvalidInput", why)
    return str(match[match.lastindex or 0])


def _entries(given: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for entry in given:
        name, values = entry.get("ContextKeyName"), entry.get("ContextKeyValues", [])
        if not (is_text(name) and isinstance(values, list) and all(map(is_text, values))):
            raise IamError("InvalidInput", "A context entry has a name and a list of values.")
        found[str(name)] = values
    return found


def _shown(name: str, resource: str, decision: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    policy = str(decision.get("policy") or "")
    kind, _, at = policy.partition(":")
    shown: dict[str, Any] = {
        "EvalActionName": name, "EvalResourceName": resource, "EvalDecision": decision["decision"],
        "MatchedStatements": [], "MissingContextValues": [],
    }  # fmt: skip
    if decision.get("statement") is not None:
        label = labels[int(at)] if kind == "identity" else kind
        # Where it stands is not known; the sid of AWS's answers has no place for it.
        sid = decision.get("sid")
        source = f"{label} statement {decision['statement'] + 1}" + (f" ({sid})" if sid else "")
        shown["MatchedStatements"] = [{"SourcePolicyId": source, "SourcePolicyType": _source_type(kind, label)}]
    return shown


def _source_type(kind: str, label: str) -> str:
    if kind != "identity":
        return "resource" if kind == "resource" else "none"
    if label.startswith("arn:"):
        return "aws-managed" if label in BUILTIN else "user-managed"
    owner = label.partition(" ")[0]
    return owner if owner in {"user", "group", "role"} else "none"


def _keys_of(document: Any) -> set[str]:
    """The keys of conditions, and those of variables, in a policy."""
    text = json.dumps(document)
    found = set(re.findall(r"\$\{([A-Za-z0-9-]+:[^},]+)", text))
    statements = document.get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        for keys in statement.get("Condition", {}).values():
            found.update(keys)
    return found


@action("source")
async def get_context_keys_for_principal_policy(call: Call) -> Answer:
    """The keys of conditions that the policies of a user, group or role have."""
    entity = await source_of(call)
    texts = [text for _, text in await identity_policies(call.records, entity)]
    boundary = entity.boundary and await managed_text(call.records, entity.account, entity.boundary)
    return await _context_keys(call, texts + ([boundary] if boundary else []))


@action("account")
async def get_context_keys_for_custom_policy(call: Call) -> Answer:
    """The keys of conditions that policies have."""
    return await _context_keys(call, [])


async def _context_keys(call: Call, texts: list[str]) -> Answer:
    given = [await call.valid(text, "identity", DOCUMENT_MAX) for text in call.parameters.texts("PolicyInputList")]
    found: set[str] = set()
    for text in texts + given:
        found |= _keys_of(json.loads(text))
        # Others are served in between: a user may have hundreds of policies.
        await asyncio.sleep(0)
    return {"ContextKeyNames": sorted(found)}
