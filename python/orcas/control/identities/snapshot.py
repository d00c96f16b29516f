"""The rows of the control plane for the engine, by which it admits requests. The order of the columns is that of its
arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

from orcas.control.identities.names import account_number, root_arn

# Number, canonical id, name.
AccountRow = tuple[str, str, str]
# Id, document.
PolicyRow = tuple[str, str]
# ARN, kind, number of the account, unique id, name, ids of policies, id of the boundary, tags.
IdentityRow = tuple[str, str, str, str, str, list[str], str | None, list[tuple[str, str]]]
# Access key, secret, ARN of the identity, id of its session policy, whether it is active.
KeyRow = tuple[str, str, str, str | None, bool]
# ARN of a user or access key, requests and bytes a second; 0 for no limit.
LimitRow = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class IdentitySnapshot:
    """All identities. The root of the first account may do everything."""

    accounts: tuple[AccountRow, ...]
    policies: tuple[PolicyRow, ...]
    identities: tuple[IdentityRow, ...]
    keys: tuple[KeyRow, ...] = field(repr=False)
    limits: tuple[LimitRow, ...] = ()

    @classmethod
    def of_root(cls, owner: str, *pairs: tuple[str, str]) -> IdentitySnapshot:
        """The root of the account with this canonical id alone, with key pairs or none."""
        number = account_number(owner)
        arn = root_arn(number)
        identity: IdentityRow = (arn, "root", number, number, "root", [], None, [])
        keys = tuple((access_key, secret, arn, None, True) for access_key, secret in pairs)
        return cls(((number, owner, "root"),), (), (identity,), keys)


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows that are new or changed, and the ids of what is gone, of every kind."""

    accounts: tuple[AccountRow, ...]
    policies: tuple[PolicyRow, ...]
    identities: tuple[IdentityRow, ...]
    keys: tuple[KeyRow, ...] = field(repr=False)
    removed: tuple[str, ...]
    limits: tuple[LimitRow, ...] = ()
