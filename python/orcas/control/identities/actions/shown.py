"""Users, groups, roles and policies as AWS answers with them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from orcas.control.identities.calls import Call
from orcas.control.identities.names import time_of
from orcas.control.identities.records import Document, Entity


def basics(entity: Entity) -> dict[str, Any]:
    """The fields that every kind of entity has."""
    called = entity.kind.capitalize()
    return {
        "Path": entity.path, f"{called}Name": entity.name, f"{called}Id": entity.id, "Arn": entity.arn,
        "CreateDate": time_of(entity.created_ms),
    }  # fmt: skip


def boundary_of(entity: Entity) -> dict[str, Any]:
    """The boundary, if there is one."""
    if entity.boundary is None:
        return {}
    shown = {"PermissionsBoundaryType": "PermissionsBoundaryPolicy", "PermissionsBoundaryArn": entity.boundary}
    return {"PermissionsBoundary": shown}


def shown_tags(tag: tuple[str, str]) -> dict[str, str]:
    """A tag."""
    return {"Key": tag[0], "Value": tag[1]}


def encoded(document: str) -> str:
    """A policy in an answer."""
    return quote(document, safe="")


async def tags_of(call: Call, entity: Entity) -> dict[str, Any]:
    """The tags, if there are any."""
    tags = await call.records.tags(entity)
    return {"Tags": [shown_tags(tag) for tag in tags]} if tags else {}


async def shown_user(call: Call, user: Entity) -> dict[str, Any]:
    """A user in full."""
    return basics(user) | boundary_of(user) | await tags_of(call, user)


def role_details(role: Entity) -> dict[str, Any]:
    """The fields of a role in lists, besides the basics."""
    shown = {
        "AssumeRolePolicyDocument": encoded(role.details["trust"]),
        "MaxSessionDuration": role.details["session_sec"],
    }
    if role.details["description"]:
        shown["Description"] = role.details["description"]
    return shown


async def shown_role(call: Call, role: Entity) -> dict[str, Any]:
    """A role in full."""
    return basics(role) | role_details(role) | boundary_of(role) | await tags_of(call, role) | {"RoleLastUsed": {}}


async def shown_policy(call: Call, policy: Entity, *, listed: bool = False) -> dict[str, Any]:
    """A managed policy; as lists have it, without its description and tags."""
    attached, bounded = await call.records.uses(policy.arn, call.account.id)
    updated = policy.details.get("updated_ms", policy.created_ms)
    shown = basics(policy) | {
        "DefaultVersionId": policy.details["default"], "AttachmentCount": attached,
        "PermissionsBoundaryUsageCount": bounded, "IsAttachable": True, "UpdateDate": time_of(updated),
    }  # fmt: skip
    if listed:
        return shown
    if policy.details["description"]:
        shown["Description"] = policy.details["description"]
    return shown | await tags_of(call, policy)


def shown_version(policy: Entity, version: Document, *, whole: bool = False) -> dict[str, Any]:
    """A version of a managed policy; `whole`: with its document."""
    shown = {
        "VersionId": version.name, "IsDefaultVersion": version.name == policy.details["default"],
        "CreateDate": time_of(version.created_ms),
    }  # fmt: skip
    return {"Document": encoded(version.text)} | shown if whole else shown
