"""Lists that AWS's tools ask for before they delete something, of entities that do not exist here: they are empty."""

from __future__ import annotations

from typing import Any, Final

from orcas.control.identities.actions.entities import found, user_or_caller
from orcas.control.identities.calls import Answer, Call
from orcas.control.identities.failures import IamError
from orcas.control.identities.registry import action

_OF_USERS: Final = {
    "ListMFADevices": "MFADevices",
    "ListSSHPublicKeys": "SSHPublicKeys",
    "ListSigningCertificates": "Certificates",
}
_OF_ACCOUNTS: Final = {
    "ListAccountAliases": "AccountAliases",
    "ListInstanceProfiles": "InstanceProfiles",
    "ListServerCertificates": "ServerCertificateMetadataList",
    "ListVirtualMFADevices": "VirtualMFADevices",
}


def _add(name: str, title: str, target: Any) -> None:
    @action(target, name)
    async def empty(call: Call) -> Answer:
        if target == "self":
            await user_or_caller(call)
        call.parameters.page()
        for filtering in ("PathPrefix", "AssignmentStatus"):
            call.parameters.optional(filtering)
        return {title: [], "IsTruncated": False}


for _name, _title in _OF_USERS.items():
    _add(_name, _title, "self")
for _name, _title in _OF_ACCOUNTS.items():
    _add(_name, _title, "account")


@action("role")
async def list_instance_profiles_for_role(call: Call) -> Answer:
    """An empty list."""
    await found(call, "role")
    call.parameters.page()
    return {"InstanceProfiles": [], "IsTruncated": False}


@action("self")
async def list_service_specific_credentials(call: Call) -> Answer:
    """An empty list."""
    await user_or_caller(call)
    call.parameters.page()
    for filtering in ("ServiceName", "AllUsers"):
        call.parameters.optional(filtering)
    return {"ServiceSpecificCredentials": []}


@action("user")
async def get_login_profile(call: Call) -> Answer:
    """Refused: nobody has a password."""
    user = await found(call, "user")
    raise IamError("NoSuchEntity", f"Login Profile for User {user.name} cannot be found.")


@action("user")
async def delete_login_profile(call: Call) -> Answer:
    """Refused: nobody has a password."""
    return await get_login_profile(call)
