"""Examples of AWS's documentation and of public vectors, with the outcomes that they give.

Facts only: policies are shortened to what an outcome depends on. Names of pages are those of the IAM User Guide, or of the
Amazon S3 User Guide where it says S3.
"""

from __future__ import annotations

from .published_buckets import buckets
from .published_conditions import operators, sets, several_keys
from .published_decisions import boundaries, implicit_denies, named_principals, one_account, two_accounts
from .published_elements import actions_and_resources, variables

GROUPS = (
    operators,
    several_keys,
    sets,
    one_account,
    two_accounts,
    boundaries,
    implicit_denies,
    named_principals,
    actions_and_resources,
    variables,
    buckets,
)
CASES = [case for group in GROUPS for case in group()]
