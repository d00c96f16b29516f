"""AWS's published examples: the reference and Orcas decide as the page says, and Orcas takes their policies."""

from __future__ import annotations

import json

import pytest

from orcas import _core

from .asking import Case
from .published import CASES
from .reference import evaluate

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.page}: {case.what}")


@cases
def test_reference(case: Case) -> None:
    assert evaluate(case.request)["decision"] == case.decision


@cases
def test_orcas(case: Case) -> None:
    assert json.loads(_core.simulate(json.dumps(case.request)))["decision"] == case.decision


# Condition keys that a policy of Orcas may not name. A test of refused documents has what it says then.
REFUSED = ("s3:TlsVersion", "aws:ResourceTag/")


@cases
def test_policies_are_valid(case: Case) -> None:
    request = case.request
    if any(key in json.dumps(request) for key in REFUSED):
        return
    for kind, policies in (
        ("identity", request["identity"]),
        ("boundary", [request["boundary"]]),
        ("session", [request["session"]]),
    ):
        for policy in policies:
            if policy is not None and policy.get("Version") == "2012-10-17":
                _core.check_policy(json.dumps(policy), kind, None)
    bucket = request["resource"].removeprefix("arn:aws:s3:::").partition("/")[0]
    if request["resource_policy"] is not None and request["action"].startswith("s3:"):
        _core.check_policy(json.dumps(request["resource_policy"]), "resource", bucket)
