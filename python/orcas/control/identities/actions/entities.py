"""Users, groups and roles: create, read, update, delete, members, tags and boundaries."""

from __future__ import annotations

from typing import Any

from orcas.control.identities.actions.shown import basics, boundary_of, role_details, shown_role, shown_tags, shown_user
from orcas.control.identities.builtin import BUILTIN
from orcas.control.identities.calls import Answer, Call, Page
from orcas.control.identities.failures import IamError, limit, missing
from orcas.control.identities.names import (
    DESCRIPTION_MAX,
    ENTITIES_MAX,
    GROUPS_OF_USER_MAX,
    SESSION_SECONDS,
    TAGS_MAX,
    TRUST_MAX,
    arn_of,
    time_of,
)
from orcas.control.identities.records import Entity
from orcas.control.identities.registry import action


async def found(call: Call, kind: str) -> Entity:
    """The user, group or role that the call names.

    Raises:
        IamError: there is none.
    """
    name = call.parameters.name(f"{kind.capitalize()}Name", kind)
    entity = await call.records.named(call.account.id, kind, name)
    if entity is None:
        raise missing(kind, name)
    return entity


async def user_or_caller(call: Call) -> Entity | None:
    """The user that the call names, else the one who calls; None for the root of the account."""
    if call.parameters.peek("UserName") is not None:
        return await found(call, "user")
    if call.caller.user is not None and call.caller.user.kind == "role":
        raise IamError("ValidationError", "Must specify userName when calling with non-User credentials")
    return call.caller.user


async def check_new(call: Call, kind: str, name: str, path: str) -> None:
    """Raise IamError if there is such an entity, or there are too many."""
    if await call.records.is_taken(call.account.id, kind, name):
        raise IamError("EntityAlreadyExists", f"{kind.capitalize()} with name {name} already exists.")
    if await call.records.number_of(call.account.id, kind) >= ENTITIES_MAX[kind]:
        raise limit(f"{kind.capitalize()}sPerAccount", ENTITIES_MAX[kind])
    if len(arn_of(call.account.number, kind, path, name)) > 2048:
        raise IamError("ValidationError", "The path is too long.")


async def managed(call: Call, arn: str) -> Entity:
    """The managed policy with this ARN, of the account or of AWS.

    Raises:
        IamError: there is none.
    """
    entity = BUILTIN.get(arn)
    if entity is None:
        entity = await call.records.find(call.account.id, "policy", arn.rpartition("/")[2])
    if entity is None or entity.arn != arn:
        raise IamError("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.")
    return entity


async def _boundary(call: Call) -> str | None:
    if call.parameters.peek("PermissionsBoundary") is None:
        return None
    return (await managed(call, call.parameters.arn("PermissionsBoundary"))).arn


@action("user")
async def create_user(call: Call) -> Answer:
    """A user without keys and policies."""
    name, path = call.parameters.name("UserName", "user"), call.parameters.path() or "/"
    tags, boundary = call.parameters.tags(), await _boundary(call)
    await check_new(call, "user", name, path)
    user = await call.records.add(call.account, "user", name, path, boundary=boundary)
    await call.records.set_tags(user, tags)
    return {"User": await shown_user(call, user)}


@action("self")
async def get_user(call: Call) -> Answer:
    """A user, or who calls."""
    user = await user_or_caller(call)
    if user is not None:
        return {"User": await shown_user(call, user)}
    account = call.account
    return {
        "User": {
            "Path": "/", "UserName": account.name, "UserId": account.number, "Arn": account.arn,
            "CreateDate": time_of(account.created_ms),
        }
    }  # fmt: skip


@action("group")
async def create_group(call: Call) -> Answer:
    """A group without members and policies."""
    name, path = call.parameters.name("GroupName", "group"), call.parameters.path() or "/"
    await check_new(call, "group", name, path)
    return {"Group": basics(await call.records.add(call.account, "group", name, path))}


@action("group")
async def get_group(call: Call) -> Answer:
    """A group and its members."""
    group, page = await found(call, "group"), call.parameters.page()
    members = await call.records.members(group)
    return {"Group": basics(group), **page.of("Users", members, _name, lambda user: basics(user) | boundary_of(user))}


@action("role")
async def create_role(call: Call) -> Answer:
    """A role, with who may assume it."""
    parameters = call.parameters
    name, path = parameters.name("RoleName", "role"), parameters.path() or "/"
    trust = await call.document("AssumeRolePolicyDocument", "trust", TRUST_MAX)
    details = {
        "trust": trust, "description": parameters.optional("Description", DESCRIPTION_MAX, least=0),
        "session_sec": parameters.number("MaxSessionDuration", *SESSION_SECONDS, SESSION_SECONDS[0]),
    }  # fmt: skip
    tags, boundary = parameters.tags(), await _boundary(call)
    await check_new(call, "role", name, path)
    role = await call.records.add(call.account, "role", name, path, boundary=boundary, details=details)
    await call.records.set_tags(role, tags)
    return {"Role": await shown_role(call, role)}


@action("role")
async def get_role(call: Call) -> Answer:
    """A role."""
    return {"Role": await shown_role(call, await found(call, "role"))}


@action("role")
async def update_role(call: Call) -> Answer:
    """Change the description and the longest session of a role."""
    role = await found(call, "role")
    description = call.parameters.optional("Description", DESCRIPTION_MAX, least=0)
    seconds = call.parameters.number("MaxSessionDuration", *SESSION_SECONDS, role.details["session_sec"])
    kept = role.details["description"] if description is None else description
    await call.records.update(role, details={**role.details, "description": kept, "session_sec": seconds})
    return {}


@action("role")
async def update_role_description(call: Call) -> Answer:
    """Change the description of a role."""
    role = await found(call, "role")
    description = call.parameters.text("Description", DESCRIPTION_MAX, least=0)
    role = await call.records.update(role, details={**role.details, "description": description})
    return {"Role": await shown_role(call, role)}


@action("role")
async def update_assume_role_policy(call: Call) -> Answer:
    """Change who may assume a role."""
    role = await found(call, "role")
    trust = await call.document("PolicyDocument", "trust", TRUST_MAX)
    await call.records.update(role, details={**role.details, "trust": trust})
    return {}


def _conflict(what: str) -> IamError:
    return IamError("DeleteConflict", f"Cannot delete entity, {what}.")


def _add_kind(kind: str) -> None:
    """The actions that users, groups and roles have alike: deleting and listing them, and new names of users and groups."""
    called = kind.capitalize()
    target: Any = kind

    @action(target, f"Delete{called}")
    async def delete(call: Call) -> Answer:
        entity, records = await found(call, kind), call.records
        if kind == "user" and await records.keys(entity.account, entity.id):
            raise _conflict("must delete access keys first")
        if kind == "user" and await records.groups_of(entity):
            raise _conflict("must remove users from group first")
        if kind == "group" and await records.members(entity):
            raise _conflict("must remove users from group first")
        if await records.attached(entity):
            raise _conflict("must detach all policies first")
        if await records.documents(entity):
            raise _conflict("must delete policies first")
        await records.remove(entity)
        return {}

    def show(entity: Entity) -> dict[str, Any]:
        return basics(entity) | (role_details(entity) if kind == "role" else boundary_of(entity))

    @action("account", f"List{called}s")
    async def listed(call: Call) -> Answer:
        page, prefix = call.parameters.page(), call.parameters.prefix()
        entities = await call.records.entities(call.account.id, kind, prefix, page.after, page.most + 1)
        return page.cut(f"{called}s", entities, _name, show)

    if kind == "role":
        return

    @action(target, f"Update{called}")
    async def rename(call: Call) -> Answer:
        entity = await found(call, kind)
        name = call.parameters.maybe_name(f"New{called}Name", kind) or entity.name
        path = call.parameters.path("NewPath") or entity.path
        if name.lower() != entity.name.lower():
            await check_new(call, kind, name, path)
        await call.records.update(entity, name=name, path=path)
        return {}


# Members.


@action("group")
async def add_user_to_group(call: Call) -> Answer:
    """Make a user a member of a group."""
    group, user = await found(call, "group"), await found(call, "user")
    groups = await call.records.groups_of(user)
    if len(groups) >= GROUPS_OF_USER_MAX and group not in groups:
        raise limit("GroupsPerUser", GROUPS_OF_USER_MAX)
    await call.records.join(group, user)
    return {}


@action("group")
async def remove_user_from_group(call: Call) -> Answer:
    """The user is no longer a member."""
    group, user = await found(call, "group"), await found(call, "user")
    if not await call.records.leave(group, user):
        raise missing("user", user.name)
    return {}


@action("user")
async def list_groups_for_user(call: Call) -> Answer:
    """The groups of a user."""
    user, page = await found(call, "user"), call.parameters.page()
    return page.of("Groups", await call.records.groups_of(user), _name, basics)


# Tags and boundaries.


async def add_tags(call: Call, entity: Entity) -> Answer:
    """Add the tags of the call."""
    tags = call.parameters.tags()
    kept = {name.lower() for name, _ in await call.records.tags(entity)} | {name.lower() for name, _ in tags}
    if len(kept) > TAGS_MAX:
        raise limit("TagsPerResource", TAGS_MAX)
    await call.records.set_tags(entity, tags)
    return {}


async def drop_tags(call: Call, entity: Entity) -> Answer:
    """Remove the tags of the call."""
    await call.records.drop_tags(entity, call.parameters.texts("TagKeys"))
    return {}


async def list_tags(call: Call, entity: Entity) -> Answer:
    """The tags of what the call names."""
    page: Page = call.parameters.page()
    return page.of("Tags", await call.records.tags(entity), lambda tag: tag[0], shown_tags)


def _add_tagged(kind: str) -> None:
    """The actions that users and roles have alike: about tags and permissions boundaries."""
    called = kind.capitalize()
    target: Any = kind

    @action(target, f"Tag{called}")
    async def tag(call: Call) -> Answer:
        return await add_tags(call, await found(call, kind))

    @action(target, f"Untag{called}")
    async def untag(call: Call) -> Answer:
        return await drop_tags(call, await found(call, kind))

    @action(target, f"List{called}Tags")
    async def tags(call: Call) -> Answer:
        return await list_tags(call, await found(call, kind))

    @action(target, f"Put{called}PermissionsBoundary")
    async def put_boundary(call: Call) -> Answer:
        entity, boundary = await found(call, kind), await managed(call, call.parameters.arn("PermissionsBoundary"))
        await call.records.update(entity, boundary=boundary.arn)
        return {}

    @action(target, f"Delete{called}PermissionsBoundary")
    async def delete_boundary(call: Call) -> Answer:
        entity = await found(call, kind)
        if entity.boundary is None:
            raise IamError("NoSuchEntity", f"The {kind} {entity.name} has no permissions boundary.")
        await call.records.update(entity, boundary=None)
        return {}


for _kind in ("user", "group", "role"):
    _add_kind(_kind)
for _kind in ("user", "role"):
    _add_tagged(_kind)


def _name(entity: Entity) -> str:
    return entity.name
