"""The whole account at once: GetAccountSummary and GetAccountAuthorizationDetails; and the accounts of the store."""

from __future__ import annotations

import secrets
from typing import Any, Final

from orcas.control.identities.actions.policies import versions_of
from orcas.control.identities.actions.shown import (
    basics,
    boundary_of,
    encoded,
    role_details,
    shown_policy,
    shown_version,
    tags_of,
)
from orcas.control.identities.builtin import BUILTIN
from orcas.control.identities.calls import Answer, Call
from orcas.control.identities.failures import IamError, limit
from orcas.control.identities.names import (
    ACCOUNTS_MAX,
    ATTACHMENTS_MAX,
    ENTITIES_MAX,
    GROUPS_OF_USER_MAX,
    INLINE_MAX,
    KEYS_OF_USER_MAX,
    MANAGED_MAX,
    TRUST_MAX,
    VERSIONS_MAX,
    account_number,
    time_of,
)
from orcas.control.identities.records import Account, Entity, now_ms
from orcas.control.identities.registry import action

_QUOTAS: Final = {
    "UsersQuota": ENTITIES_MAX["user"], "GroupsQuota": ENTITIES_MAX["group"], "RolesQuota": ENTITIES_MAX["role"],
    "PoliciesQuota": ENTITIES_MAX["policy"], "GroupsPerUserQuota": GROUPS_OF_USER_MAX,
    "AccessKeysPerUserQuota": KEYS_OF_USER_MAX, "AttachedPoliciesPerUserQuota": ATTACHMENTS_MAX,
    "AttachedPoliciesPerGroupQuota": ATTACHMENTS_MAX, "AttachedPoliciesPerRoleQuota": ATTACHMENTS_MAX,
    "UserPolicySizeQuota": INLINE_MAX["user"], "GroupPolicySizeQuota": INLINE_MAX["group"],
    "RolePolicySizeQuota": INLINE_MAX["role"], "PolicySizeQuota": MANAGED_MAX, "VersionsPerPolicyQuota": VERSIONS_MAX,
    "AssumeRolePolicySizeQuota": TRUST_MAX,
}  # fmt: skip
_FILTERS: Final = {
    "User": "user", "Group": "group", "Role": "role", "LocalManagedPolicy": "policy", "AWSManagedPolicy": "aws",
}  # fmt: skip
_DETAILS: Final = {
    "user": "UserDetailList", "group": "GroupDetailList", "role": "RoleDetailList", "policy": "Policies", "aws": "Policies",
}  # fmt: skip


@action("account")
async def get_account_summary(call: Call) -> Answer:
    """How many of everything the account has and may have."""
    records, account = call.records, call.account.id
    kinds = {"Users": "user", "Groups": "group", "Roles": "role", "Policies": "policy"}
    counts = {title: await records.number_of(account, kind) for title, kind in kinds.items()}
    of_policies = "SELECT count(*) FROM documents JOIN entities ON id = entity WHERE account = ? AND kind = 'policy'"
    counts["PolicyVersionsInUse"] = await records.count(of_policies, account)
    counts["AccountAccessKeysPresent"] = int(bool(await records.keys(account, None)))
    return {"SummaryMap": counts | _QUOTAS | {"AccountMFAEnabled": 0, "MFADevices": 0, "MFADevicesInUse": 0}}


@action("account")
async def get_account_authorization_details(call: Call) -> Answer:
    """All users, groups, roles and policies with what belongs to them."""
    wanted, page = call.parameters.texts("Filter"), call.parameters.page()
    unknown = next((each for each in wanted if each not in _FILTERS), None)
    if unknown is not None:
        raise IamError("InvalidInput", f"{unknown} is no kind of entity.")
    kinds = [kind for name, kind in _FILTERS.items() if not wanted or name in wanted]
    entities: list[tuple[str, Entity]] = []
    for kind in kinds:
        entities += [
            (f"{kind}/{entity.name.lower()}", entity)
            for entity in (BUILTIN.values() if kind == "aws" else await call.records.entities(call.account.id, kind))
        ]
    left = sorted((each for each in entities if each[0] > page.after), key=lambda each: each[0])
    cut = page.cut("Entities", left, lambda each: each[0], lambda each: each)
    answer: Answer = {title: [] for title in _DETAILS.values()}
    for name, entity in cut.pop("Entities"):
        answer[_DETAILS[name.partition("/")[0]]].append(await _detail(call, entity))
    return answer | cut


async def _detail(call: Call, entity: Entity) -> dict[str, Any]:
    records, called = call.records, entity.kind.capitalize()
    if entity.kind == "policy":
        versions = [shown_version(entity, each, whole=True) for each in await versions_of(records, entity)]
        return await shown_policy(call, entity, listed=True) | {"PolicyVersionList": versions}
    inline = [
        {"PolicyName": each.name, "PolicyDocument": encoded(each.text)} for each in await records.documents(entity)
    ]
    attached = [{"PolicyName": arn.rpartition("/")[2], "PolicyArn": arn} for arn in await records.attached(entity)]
    shown = basics(entity) | boundary_of(entity)
    shown |= {f"{called}PolicyList": inline, "AttachedManagedPolicies": attached}
    if entity.kind != "group":
        shown |= await tags_of(call, entity)
    if entity.kind == "user":
        shown["GroupList"] = [group.name for group in await records.groups_of(entity)]
    if entity.kind == "role":
        trust = role_details(entity)["AssumeRolePolicyDocument"]
        shown |= {"AssumeRolePolicyDocument": trust, "InstanceProfileList": [], "RoleLastUsed": {}}
    return shown


# What AWS has no such actions for.


def _account(account: Account) -> dict[str, str]:
    return {
        "AccountName": account.name, "AccountId": account.number, "CanonicalId": account.id, "Arn": account.arn,
        "CreateDate": time_of(account.created_ms),
    }  # fmt: skip


@action("account", root=True)
async def create_account(call: Call) -> Answer:
    """An account of the store, whose root has no keys yet."""
    name, accounts = call.parameters.name("AccountName", "account"), await call.records.accounts()
    if any(each.name.lower() == name.lower() for each in accounts):
        raise IamError("EntityAlreadyExists", f"Account with name {name} already exists.")
    if len(accounts) >= ACCOUNTS_MAX:
        raise limit("Accounts", ACCOUNTS_MAX)
    numbers = {each.number for each in accounts}
    canonical = next(made for made in iter(lambda: secrets.token_hex(32), "") if account_number(made) not in numbers)
    account = Account(canonical, account_number(canonical), name, now_ms())
    await call.records.add_account(account)
    return {"Account": _account(account)}


@action("account", root=True)
async def list_accounts(call: Call) -> Answer:
    """The accounts of the store."""
    accounts = sorted(await call.records.accounts(), key=lambda each: each.name.lower())
    return call.parameters.page().of("Accounts", accounts, lambda each: each.name, _account)
