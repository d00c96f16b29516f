"""Names, ids and ARNs of identities, and how many of each there may be: the quotas of AWS.

<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html>
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from typing import Final

NAME: Final = re.compile(r"[\w+=,.@-]+", re.ASCII)
# Of users, groups and roles. It takes colons: nobody is known by what an ARN seems to say.
PATH: Final = re.compile(r"/|/[\x21-\x7f]+/")
PATH_OF_POLICY: Final = re.compile(r"/(?:[A-Za-z0-9.,+@=_-]+/)*")
NAME_MAX: Final = {"user": 64, "group": 128, "role": 64, "policy": 128, "account": 64}
PATH_MAX: Final = 512
DESCRIPTION_MAX: Final = 1000
# Of an account.
PROVIDER: Final = "oidc-provider"
ENTITIES_MAX: Final = {"user": 100_000, "group": 10_000, "role": 10_000, "policy": 10_000, PROVIDER: 100}
ACCOUNTS_MAX: Final = 1_000
KEYS_OF_USER_MAX: Final = 2
# Keys with a policy of their own.
SERVICE_ACCOUNTS_OF_USER_MAX: Final = 100
GROUPS_OF_USER_MAX: Final = 10
ATTACHMENTS_MAX: Final = 20
VERSIONS_MAX: Final = 5
TAGS_MAX: Final = 50
TAG_KEY_MAX: Final = 128
TAG_VALUE_MAX: Final = 256
# Characters of documents, without white space. Of inline policies, all of an entity together.
MANAGED_MAX: Final = 6_144
SESSION_MAX: Final = 2_048
TRUST_MAX: Final = 8_192
INLINE_MAX: Final = {"user": 2_048, "group": 5_120, "role": 10_240}
# Characters that are read at all.
DOCUMENT_MAX: Final = 131_072
SESSION_SECONDS: Final = (3_600, 43_200)

_PREFIXES: Final = {"user": "AIDA", "group": "AGPA", "role": "AROA", "policy": "ANPA", PROVIDER: "AOIP"}
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_NUMBERS: Final = 9 * 10**11


def account_number(canonical_id: str) -> str:
    """The 12 digits of the account with this canonical id."""
    return str(10**11 + int(canonical_id[:16], 16) % _NUMBERS)


def new_id(kind: str) -> str:
    """A unique id, as AWS forms them."""
    return _PREFIXES[kind] + "".join(secrets.choice(_ALPHABET) for _ in range(17))


def kind_of(entity: str) -> str | None:
    """The kind of what has this unique id."""
    return next((kind for kind, prefix in _PREFIXES.items() if entity.startswith(prefix)), None)


def arn_of(account: str, kind: str, path: str, name: str) -> str:
    """The ARN of what belongs to the account with this number."""
    return f"arn:aws:iam::{account}:{kind}{path}{name}"


def root_arn(account: str) -> str:
    """The ARN of the root of an account."""
    return f"arn:aws:iam::{account}:root"


def time_of(at_ms: int) -> str:
    """A time as in answers."""
    return dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
