"""Policies: managed ones with their versions, inline ones, and to whom they are attached."""

from __future__ import annotations

from typing import Any

from orcas.control.identities.actions.entities import add_tags, check_new, drop_tags, found, list_tags, managed
from orcas.control.identities.actions.shown import encoded, shown_policy, shown_version
from orcas.control.identities.builtin import BUILTIN, builtin_document
from orcas.control.identities.calls import Answer, Call, size_of
from orcas.control.identities.failures import IamError, limit
from orcas.control.identities.names import ATTACHMENTS_MAX, DESCRIPTION_MAX, INLINE_MAX, MANAGED_MAX, VERSIONS_MAX
from orcas.control.identities.records import Document, Entity, Records, now_ms
from orcas.control.identities.registry import action


async def versions_of(records: Records, policy: Entity) -> list[Document]:
    """The versions of a managed policy, the newest first."""
    if policy.arn in BUILTIN:
        return [builtin_document(policy)]
    return sorted(await records.documents(policy), key=lambda version: -int(version.name[1:]))


async def default_of(records: Records, policy: Entity) -> Document:
    """The version of a managed policy that is in effect."""
    return next(each for each in await versions_of(records, policy) if each.name == policy.details["default"])


async def _own(call: Call) -> Entity:
    """The managed policy that the call names, to be changed."""
    arn = call.parameters.arn()
    if arn in BUILTIN:
        raise IamError("AccessDenied", f"Policy {arn} is managed by AWS and cannot be changed.")
    return await managed(call, arn)


async def _version(call: Call, policy: Entity) -> Document:
    name = call.parameters.text("VersionId", 32)
    for version in await versions_of(call.records, policy):
        if version.name == name:
            return version
    raise IamError("NoSuchEntity", f"Policy {policy.arn} version {name} does not exist or is not attachable.")


@action("new policy")
async def create_policy(call: Call) -> Answer:
    """A managed policy with its first version."""
    parameters = call.parameters
    name, path = parameters.name("PolicyName", "policy"), parameters.path_of_policy() or "/"
    text = await call.document("PolicyDocument", "identity", MANAGED_MAX)
    description, tags = parameters.optional("Description", DESCRIPTION_MAX, least=0), parameters.tags()
    taken = await call.records.is_taken(call.account.id, "policy", name)
    if taken:
        raise IamError(
            "EntityAlreadyExists", f"A policy called {name} already exists. Duplicate names are not allowed."
        )
    await check_new(call, "policy", name, path)
    details = {"description": description, "default": "v1", "last": 1}
    policy = await call.records.add(call.account, "policy", name, path, details=details)
    await call.records.put_document(policy, "v1", text)
    await call.records.set_tags(policy, tags)
    return {"Policy": await shown_policy(call, policy)}


@action("policy")
async def get_policy(call: Call) -> Answer:
    """A managed policy, without its document."""
    return {"Policy": await shown_policy(call, await managed(call, call.parameters.arn()))}


@action("policy")
async def delete_policy(call: Call) -> Answer:
    """Delete a managed policy that nothing uses."""
    policy = await _own(call)
    if any(await call.records.uses(policy.arn, policy.account)):
        raise IamError("DeleteConflict", "Cannot delete a policy attached to entities.")
    if len(await call.records.documents(policy)) > 1:
        message = (
            "This policy has more than one version. Before you delete a policy, you must delete the policy's versions."
        )
        raise IamError("DeleteConflict", message)
    call.records.changes.policies.add(policy.arn)
    await call.records.remove(policy)
    return {}


@action("account")
async def list_policies(call: Call) -> Answer:
    """The managed policies of the account, of AWS, or of both."""
    parameters = call.parameters
    scope, used = parameters.choice("Scope", ("All", "AWS", "Local"), "All"), parameters.flag("OnlyAttached")
    usage = parameters.optional("PolicyUsageFilter", 64)
    page, prefix = parameters.page(), parameters.prefix()
    policies = [] if scope == "AWS" else await call.records.entities(call.account.id, "policy", prefix)
    policies += [] if scope == "Local" else [each for each in BUILTIN.values() if each.path.startswith(prefix)]
    left = sorted((each for each in policies if each.arn.lower() > page.after), key=lambda each: each.arn.lower())
    shown: list[Answer] = []
    for policy in left:
        if len(shown) > page.most:
            break
        answer = await shown_policy(call, policy, listed=True)
        counted = {"PermissionsPolicy": "AttachmentCount", "PermissionsBoundary": "PermissionsBoundaryUsageCount"}
        counts = [answer[name] for word, name in counted.items() if usage in (None, word)]
        if any(counts) or not (used or usage):
            shown.append(answer)
    return page.cut("Policies", shown, lambda answer: str(answer["Arn"]), lambda answer: answer)


@action("policy")
async def create_policy_version(call: Call) -> Answer:
    """Create a version of a managed policy, which may become the default."""
    policy = await _own(call)
    text, default = await call.document("PolicyDocument", "identity", MANAGED_MAX), call.parameters.flag("SetAsDefault")
    if len(await call.records.documents(policy)) >= VERSIONS_MAX:
        message = (
            f"A managed policy can have up to {VERSIONS_MAX} versions. Before you create a new version, you must delete an "
            "existing version."
        )
        raise IamError("LimitExceeded", message)
    last = policy.details["last"] + 1
    version = await call.records.put_document(policy, f"v{last}", text)
    details = {**policy.details, "last": last, "updated_ms": now_ms()}
    policy = await call.records.update(policy, details=details | ({"default": version.name} if default else {}))
    return {"PolicyVersion": shown_version(policy, version)}


@action("policy")
async def get_policy_version(call: Call) -> Answer:
    """A version with its document."""
    policy = await managed(call, call.parameters.arn())
    return {"PolicyVersion": shown_version(policy, await _version(call, policy), whole=True)}


@action("policy")
async def delete_policy_version(call: Call) -> Answer:
    """Delete a version that is not the default."""
    policy = await _own(call)
    version = await _version(call, policy)
    if version.name == policy.details["default"]:
        raise IamError("DeleteConflict", "Cannot delete the default version of a policy.")
    await call.records.drop_document(policy, version.name)
    return {}


@action("policy")
async def set_default_policy_version(call: Call) -> Answer:
    """Let another version be in effect."""
    policy = await _own(call)
    version = await _version(call, policy)
    await call.records.update(policy, details={**policy.details, "default": version.name, "updated_ms": now_ms()})
    call.records.changes.policies.add(policy.arn)
    return {}


@action("policy")
async def list_policy_versions(call: Call) -> Answer:
    """The versions of a managed policy, the newest first."""
    policy, page = await managed(call, call.parameters.arn()), call.parameters.page()
    versions = await versions_of(call.records, policy)
    # In the order of an ascending number.
    rank = {version.name: f"{at:04}" for at, version in enumerate(versions)}
    return page.of("Versions", versions, lambda each: rank[each.name], lambda each: shown_version(policy, each))


@action("policy")
async def list_entities_for_policy(call: Call) -> Answer:
    """To whom a managed policy is attached, or whose boundary it is."""
    parameters = call.parameters
    policy, prefix, page = await managed(call, parameters.arn()), parameters.prefix(), parameters.page()
    kinds = ("User", "Role", "Group", "LocalManagedPolicy", "AWSManagedPolicy")
    only = parameters.choice("EntityFilter", (*kinds, ""), "")
    usage = parameters.choice("PolicyUsageFilter", ("PermissionsPolicy", "PermissionsBoundary", ""), "")
    attached, bounded = await call.records.users_of(policy.arn, call.account.id)
    users = {"PermissionsPolicy": attached, "PermissionsBoundary": bounded}.get(usage, [*attached, *bounded])
    users = [each for each in users if each.path.startswith(prefix)]
    unique = sorted({each.id: each for each in users}.values(), key=lambda each: each.id)
    answer: Answer = {"PolicyGroups": [], "PolicyUsers": [], "PolicyRoles": [], "IsTruncated": False}
    cut = page.cut(
        "Entities", [each for each in unique if each.id.lower() > page.after], lambda each: each.id, lambda e: e
    )
    for entity in cut.pop("Entities"):
        called = entity.kind.capitalize()
        if only in ("", called):
            answer[f"Policy{called}s"].append({f"{called}Name": entity.name, f"{called}Id": entity.id})
    return answer | cut


@action("policy")
async def tag_policy(call: Call) -> Answer:
    """Add tags to a managed policy."""
    return await add_tags(call, await _own(call))


@action("policy")
async def untag_policy(call: Call) -> Answer:
    """Remove tags of a managed policy."""
    return await drop_tags(call, await _own(call))


@action("policy")
async def list_policy_tags(call: Call) -> Answer:
    """The tags of a managed policy."""
    return await list_tags(call, await managed(call, call.parameters.arn()))


def _add_kind(kind: str) -> None:
    """The actions that users, groups and roles have alike."""
    called = kind.capitalize()
    target: Any = kind

    @action(target, f"Attach{called}Policy")
    async def attach(call: Call) -> Answer:
        entity, policy = await found(call, kind), await managed(call, call.parameters.arn())
        attached = await call.records.attached(entity)
        if len(attached) >= ATTACHMENTS_MAX and policy.arn not in attached:
            raise limit(f"PoliciesPer{called}", ATTACHMENTS_MAX)
        await call.records.attach(entity, policy.arn)
        return {}

    @action(target, f"Detach{called}Policy")
    async def detach(call: Call) -> Answer:
        entity, arn = await found(call, kind), call.parameters.arn()
        if not await call.records.detach(entity, arn):
            raise IamError("NoSuchEntity", f"Policy {arn} was not found.")
        return {}

    @action(target, f"ListAttached{called}Policies")
    async def attached(call: Call) -> Answer:
        entity, page, prefix = await found(call, kind), call.parameters.page(), call.parameters.prefix()
        policies = [await managed(call, arn) for arn in await call.records.attached(entity)]
        listed = sorted((each for each in policies if each.path.startswith(prefix)), key=lambda each: each.arn.lower())

        def show(policy: Entity) -> dict[str, str]:
            return {"PolicyName": policy.name, "PolicyArn": policy.arn}

        return page.of("AttachedPolicies", listed, lambda policy: policy.arn, show)

    @action(target, f"Put{called}Policy")
    async def put(call: Call) -> Answer:
        entity, name = await found(call, kind), call.parameters.name("PolicyName", "policy")
        text, most = await call.document("PolicyDocument", "identity", INLINE_MAX[kind]), INLINE_MAX[kind]
        others = [each for each in await call.records.documents(entity) if each.name != name]
        if sum(size_of(each.text) for each in others) + size_of(text) > most:
            raise IamError("LimitExceeded", f"Maximum policy size of {most} bytes exceeded for {kind} {entity.name}")
        await call.records.put_document(entity, name, text)
        return {}

    @action(target, f"Get{called}Policy")
    async def get(call: Call) -> Answer:
        entity, name = await found(call, kind), call.parameters.name("PolicyName", "policy")
        document = await call.records.document(entity, name)
        if document is None:
            raise _no_inline(kind, name)
        return {f"{called}Name": entity.name, "PolicyName": name, "PolicyDocument": encoded(document.text)}

    @action(target, f"Delete{called}Policy")
    async def delete(call: Call) -> Answer:
        entity, name = await found(call, kind), call.parameters.name("PolicyName", "policy")
        if not await call.records.drop_document(entity, name):
            raise _no_inline(kind, name)
        return {}

    @action(target, f"List{called}Policies")
    async def names(call: Call) -> Answer:
        entity, page = await found(call, kind), call.parameters.page()
        listed = sorted((each.name for each in await call.records.documents(entity)), key=str.lower)
        return page.of("PolicyNames", listed, str, str)


def _no_inline(kind: str, name: str) -> IamError:
    return IamError("NoSuchEntity", f"The {kind} policy with name {name} cannot be found.")


for _kind in ("user", "group", "role"):
    _add_kind(_kind)
