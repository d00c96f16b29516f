"""Documents that AWS refuses, with its message where it is known.

Rules are those of the pages "Grammar of the IAM JSON policy language", "IAM JSON policy elements", "AWS JSON policy
elements: Principal" and "NotPrincipal"; messages are those that AWS gave to users, as public issues and moto's tests,
which were compared with AWS, quote them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from orcas import _core

from .asking import allow, policy

Row = tuple[Any, str | None]

SYNTAX = "Syntax errors in policy."
LEGACY = "The policy failed legacy parsing"
TWICE = "Statement IDs (SID) in a single policy must be unique."
SID = "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression [0-9A-Za-z]*"
NO_ARN = 'Resource {} must be in ARN format or "*".'
PARTITION = 'Partition "error" is not valid for resource "arn:error:s3:::b".'
REGION = "Resource arn:aws:s3:us-east-1::b can not contain region information."
APPLIES = "Action does not apply to any resource(s) in statement"
PRINCIPAL = "Invalid principal in policy"
ASSUME = "AssumeRole policy may only specify STS AssumeRole actions."
VENDOR = "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."
READS: dict[str, Any] = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}


def reads(*without: str, **more: Any) -> Any:
    """A policy with one statement, without some elements and with others."""
    return policy({name: value for name, value in READS.items() if name not in without} | more)


def public(**more: Any) -> Any:
    return reads(**({"Principal": "*"} | more))


def when(operator: str, values: Any) -> Any:
    return reads(Condition={operator: values})


IDENTITY: dict[str, Row] = {
    "no JSON": ("This is not a json document", SYNTAX),
    "a list": ([], SYNTAX),
    "nested too deeply for a recursive reader": ('{"Statement":' * 100_000, SYNTAX),
    # Page "Grammar": "Individual elements must not contain multiple instances of the same key."
    "twice the same key": (json.dumps(reads()).replace("{", '{"Version": "2012-10-17", ', 1), None),
    "unknown version": (policy(READS, version="2013-10-17"), SYNTAX),
    "no statement": ({"Version": "2012-10-17"}, SYNTAX),
    "empty statements": (policy(), SYNTAX),
    "a text as statement": ({"Version": "2012-10-17", "Statement": ["afd"]}, SYNTAX),
    "unknown element": (reads() | {"Extra": "value"}, SYNTAX),
    "unknown element of a statement": (reads(Extra="value"), SYNTAX),
    "Id that is no text": (reads() | {"Id": {}}, SYNTAX),
    "Sid that is no text": (reads(Sid=[]), SYNTAX),
    "no effect": (reads("Effect"), SYNTAX),
    "unknown effect": (reads(Effect="invalid"), SYNTAX),
    "effect in small letters": (reads(Effect="allow"), LEGACY),
    "no action": (reads("Action"), "Policy statement must contain actions."),
    "empty actions": (reads(Action=[]), "Policy statement must contain actions."),
    "no resource": (reads("Resource"), "Policy statement must contain resources."),
    "empty resources": (reads(Resource=[]), "Policy statement must contain resources."),
    "Action and NotAction": (reads(NotAction="iam:dsf"), SYNTAX),
    "Resource and NotResource": (reads(NotResource="*"), SYNTAX),
    "actions in a map": (reads(Action={}), SYNTAX),
    "actions in a list of lists": (reads(Action=[[]]), SYNTAX),
    "resources in a map": (reads(Resource={"a": "arn:aws:s3:::b"}), SYNTAX),
    "action without a service": (reads(Action="invalid"), VENDOR),
    "empty action": (reads("Action", NotAction=""), VENDOR),
    "action with two colons": (reads(Action="s3:List:Bucket"), "Actions/Condition can contain only one colon."),
    "resource that is no ARN": (reads(Resource="invalid resource"), NO_ARN.format("invalid resource")),
    "empty resource": (reads(Resource=""), NO_ARN.format("")),
    "ARN with a part missing": (reads(Resource="arn:aws:s3::b"), LEGACY),
    "ARN of another partition": (reads(Resource="arn:error:s3:::b"), PARTITION),
    "ARN of a bucket with a region": (reads(Resource="arn:aws:s3:us-east-1::b"), REGION),
    "Principal": (reads(Principal="*"), "Policy document should not specify a principal."),
    "NotPrincipal": (reads(NotPrincipal={"AWS": "111122223333"}), None),
    "the same Sid twice": (policy(READS | {"Sid": "a"}, READS | {"Sid": "a"}), TWICE),
    "Sid with a space": (reads(Sid="a b"), SID),
    "conditions in a list": (reads(Condition=[]), SYNTAX),
    "condition without a key": (when("StringEquals", "b"), SYNTAX),
    "condition value in a map": (when("StringEquals", {"aws:username": {}}), SYNTAX),
    "unknown operator": (when("x", {"aws:username": "1"}), SYNTAX),
    "two colons after the set": (when("ForAnyValue::StringEquals", {"aws:TagKeys": "a"}), SYNTAX),
    # Page "Condition operators": "to the end of any condition operator name except the Null condition".
    "NullIfExists": (when("NullIfExists", {"aws:username": "true"}), SYNTAX),
    "date that is none": (when("DateGreaterThan", {"aws:CurrentTime": "sdfdsf"}), LEGACY),
    "address that is none": (when("IpAddress", {"aws:SourceIp": "1.2.3"}), None),
    "number that is none": (when("NumericEquals", {"s3:max-keys": "ten"}), None),
}  # fmt: skip

RESOURCE: dict[str, Row] = {
    "no JSON": ("no", "Policies must be valid JSON and the first byte must be '{'"),
    "no statement": ({"Version": "2012-10-17"}, "Missing required field Statement"),
    "no principal": (reads(), "Missing required field Principal"),
    "resource of another bucket": (public(Resource="arn:aws:s3:::other/*"), "Policy has invalid resource"),
    "all resources": (public(Resource="*"), "Policy has invalid resource"),
    "bucket with the same beginning": (public(Resource="arn:aws:s3:::bb/*"), "Policy has invalid resource"),
    "unknown action": (public(Action="s3:Frobnicate"), "Policy has invalid action"),
    "action of objects on a bucket": (public(Resource="arn:aws:s3:::b"), APPLIES),
    "action of a bucket on objects": (public(Action="s3:ListBucket"), APPLIES),
    # Page "Principal": "You cannot use a wildcard to match part of a principal name or ARN."
    "wildcard in a principal": (public(Principal={"AWS": "arn:aws:iam::111122223333:user/*"}), PRINCIPAL),
    "principal that is none": (public(Principal={"AWS": "nobody"}), PRINCIPAL),
    "group as principal": (public(Principal={"AWS": "arn:aws:iam::111122223333:group/g"}), PRINCIPAL),
    # Page "NotPrincipal": "Using it with "Effect":"Allow" is not supported."
    "NotPrincipal with Allow": (reads(NotPrincipal={"AWS": "111122223333"}), None),
    "Principal and NotPrincipal": (public(NotPrincipal={"AWS": "111122223333"}), None),
    "unknown effect": (public(Effect="allow"), None),
    # Page "S3: Bucket policies for Amazon S3": "Bucket policies are limited to 20 KB in size."
    "over 20 KB": (public(Resource=[f"arn:aws:s3:::b/{at:090}" for at in range(200)]), None),
}  # fmt: skip

ASSUMES: dict[str, Any] = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "111122223333"}}
TRUST: dict[str, Row] = {
    "no principal": (policy({"Effect": "Allow", "Action": "sts:AssumeRole"}), None),
    "Resource": (policy(ASSUMES | {"Resource": "*"}), "Has prohibited field Resource"),
    "other action": (policy(ASSUMES | {"Action": "s3:GetObject"}), ASSUME),
    # Page "NotPrincipal": "You cannot use the NotPrincipal element in [...] an IAM role trust policy."
    "NotPrincipal": (policy({"Effect": "Deny", "Action": "sts:AssumeRole", "NotPrincipal": {"AWS": "111122223333"}}), None),
}  # fmt: skip

# Page "Policies and permissions in IAM", "Session policies": the plaintext "can't exceed 2,048 characters".
SESSION: dict[str, Row] = {
    "over 2,048 characters": (policy(allow("s3:*", [f"arn:aws:s3:::b/{at:090}" for at in range(20)])), None)
}

TABLES = {"identity": IDENTITY, "boundary": IDENTITY, "resource": RESOURCE, "trust": TRUST, "session": SESSION}
ROWS = [(kind, what, row) for kind, table in TABLES.items() for what, row in table.items()]


@pytest.mark.parametrize(("kind", "row"), [pytest.param(kind, row, id=f"{kind}: {what}") for kind, what, row in ROWS])
def test_refused(kind: str, row: Row) -> None:
    document, message = row
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared below
        _core.check_policy(text, kind, "b" if kind == "resource" else None)
    if message is not None:
        assert str(refused.value) == message


def test_accepted() -> None:
    """What looks wrong, and is not: moto's tests have it from AWS."""
    for statement in (
        READS | {"Sid": ""},
        READS | {"Condition": {}},
        READS | {"Condition": {"DateGreaterThan": {}}},
        READS | {"Resource": ["arn:aws:s3:::b", "*"]},
        READS | {"Action": "fsx:ListBucket"},
        READS | {"Action": "*"},
        READS | {"Condition": {"ForAnyValue:StringEqualsIfExists": {"aws:TagKeys": "a"}}},
        READS | {"Condition": {"DateLessThanEquals": {"aws:CurrentTime": "2016-12-13T21:20:37.593194+00:00"}}},
    ):
        _core.check_policy(json.dumps(policy(statement)), "identity", None)
