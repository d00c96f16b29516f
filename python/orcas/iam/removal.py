"""What keeps a user, group, role or policy from being deleted: as which list of IAM shows it, and which action takes it
away.

Whoever deletes one with all that it has performs these in order. Must not know how actions are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Hold(NamedTuple):
    """One kind of what an entity has.

    Args:
        lists: the action that lists it.
        entries: the list in the answer. Its entries are names, or have them under `parameter`.
        removes: the action that takes one away.
        parameter: what names that one.
    """

    lists: str
    entries: str
    removes: str
    parameter: str


def holds(kind: str) -> list[Hold]:
    """What a `user`, `group` or `role` may have."""
    of = kind.capitalize()
    found = [
        Hold(f"ListAttached{of}Policies", "AttachedPolicies", f"Detach{of}Policy", "PolicyArn"),
        Hold(f"List{of}Policies", "PolicyNames", f"Delete{of}Policy", "PolicyName"),
    ]
    if kind == "user":
        found.append(Hold("ListAccessKeys", "AccessKeyMetadata", "DeleteAccessKey", "AccessKeyId"))
        found.append(Hold("ListGroupsForUser", "Groups", "RemoveUserFromGroup", "GroupName"))
    if kind == "group":
        found.append(Hold("GetGroup", "Users", "RemoveUserFromGroup", "UserName"))
    return found


def deletion_of(arn: str, versions: Iterable[Mapping[str, Any]]) -> list[tuple[str, dict[str, str]]]:
    """The actions that delete a managed policy, which goes with its default version and keeps no other.

    Args:
        arn: its ARN.
        versions: the entries of `ListPolicyVersions`, as JSON or as texts.
    """
    others = [str(each["VersionId"]) for each in versions if each["IsDefaultVersion"] not in (True, "true")]
    steps = [("DeletePolicyVersion", {"PolicyArn": arn, "VersionId": other}) for other in others]
    return [*steps, ("DeletePolicy", {"PolicyArn": arn})]
