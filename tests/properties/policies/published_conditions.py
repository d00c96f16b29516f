"""AWS's examples of conditions: operators, several keys, sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .asking import ALLOWED, NOT_ALLOWED, Case, allow, ask, policy
from .reference import Json

Row = tuple[dict[str, Any], bool]


def table(page: str, block: Json, *rows: Row) -> Iterator[Case]:
    """One condition block, and for each context whether it matches."""
    for context, matches in rows:
        values = {key: value if isinstance(value, list) else [value] for key, value in context.items()}
        yield Case(
            page,
            f"{block} with {context}",
            ask("s3:GetObject", "arn:aws:s3:::b/k", identity=[policy(allow(Condition=block))], context=values),
            ALLOWED if matches else NOT_ALLOWED,
        )


def operators() -> Iterator[Case]:
    page = "IAM JSON policy elements: Condition operators"
    job = "aws:RequestTag/job-category"
    yield from table(
        page,
        {"StringEquals": {job: "iamuser-admin"}},
        ({job: "iamuser-admin"}, True),
        ({job: "dev-ops"}, False),
        ({}, False),
    )
    home = {"StringLike": {"s3:prefix": ["home/", "home/${aws:RequestTag/name}/"]}}
    name = "aws:RequestTag/name"
    yield from table(
        page,
        home,
        ({name: "martha_rivera", "s3:prefix": "home/martha_rivera/"}, True),
        ({name: "nikki_wolf", "s3:prefix": "home/nikki_wolf/"}, True),
        ({name: "nikki_wolf", "s3:prefix": "home/martha_rivera/"}, False),
        ({"s3:prefix": "home/"}, True),
        ({"s3:prefix": "home/martha_rivera/"}, False),
    )
    environment = "aws:RequestTag/environment"
    yield from table(
        page,
        {
            "StringEqualsIgnoreCase": {environment: ["preprod", "storage"]},
            "ForAnyValue:StringEquals": {"aws:TagKeys": "environment"},
        },
        ({"aws:TagKeys": "environment", environment: "preprod"}, True),
        ({"aws:TagKeys": ["environment", "costcenter"], environment: "PreProd"}, True),
        ({"aws:TagKeys": "Environment", "aws:RequestTag/Environment": "preprod"}, False),
        ({"aws:TagKeys": "costcenter", environment: "preprod"}, False),
        ({environment: "storage"}, False),
        ({"aws:TagKeys": "environment"}, False),
        ({}, False),
    )
    # "Exact matching, ignoring case", not of ASCII alone.
    yield from table(page, {"StringEqualsIgnoreCase": {name: "Éva"}}, ({name: "éVA"}, True), ({name: "Eva"}, False))
    most = {"NumericLessThanEquals": {"s3:max-keys": "10"}}
    yield from table(
        page,
        most,
        ({"s3:max-keys": "10"}, True),
        ({"s3:max-keys": "9"}, True),
        ({"s3:max-keys": "11"}, False),
        ({}, False),
    )
    issued = "aws:TokenIssueTime"
    yield from table(
        page,
        {"DateGreaterThan": {issued: "2020-01-01T00:00:01Z"}},
        ({issued: "2020-01-01T00:00:02Z"}, True),
        ({issued: "2020-01-01T00:00:01Z"}, False),
        ({}, False),
    )
    secure = "aws:SecureTransport"
    yield from table(
        page, {"Bool": {secure: "false"}}, ({secure: "false"}, True), ({secure: "true"}, False), ({}, False)
    )
    yield from table(
        page,
        {"BinaryEquals": {"aws:RequestTag/key": "QmluYXJ5VmFsdWVJbkJhc2U2NA=="}},
        ({"aws:RequestTag/key": "QmluYXJ5VmFsdWVJbkJhc2U2NA=="}, True),
        ({"aws:RequestTag/key": "ASIAIOSFODNN7EXAMPLE"}, False),
        ({}, False),
    )
    yield from table(
        page,
        {"IpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:DB8:1234:5678::/64"]}},
        ({"aws:SourceIp": "203.0.113.0"}, True),
        ({"aws:SourceIp": "203.0.113.255"}, True),
        ({"aws:SourceIp": "203.0.114.0"}, False),
        ({"aws:SourceIp": "2001:db8:1234:5678:ffff::1"}, True),
        ({"aws:SourceIp": "2001:db8:1234:5679::1"}, False),
        ({}, False),
    )
    topic = "arn:aws:sns:us-west-2:{}:TOPIC-ID"
    yield from table(
        page,
        {"ArnEquals": {"aws:SourceArn": topic.format("123456789012")}},
        ({"aws:SourceArn": topic.format("123456789012")}, True),
        ({"aws:SourceArn": topic.format("777788889999")}, False),
        ({}, False),
    )
    # "The first asterisk matches only us-east-2 and fails on 999999999999:store/abc".
    found = {"aws:SourceArn": "arn:aws:someservice:us-east-2:999999999999:store/abc:111122223333:finance/document.txt"}
    wanted = {"aws:SourceArn": "arn:aws:someservice:*:111122223333:finance/*"}
    yield from table(page, {"StringLike": wanted}, (found, True))
    yield from table(page, {"ArnLike": wanted}, (found, False))
    distributions = "arn:aws:cloudfront::123456789012:distribution/"
    logs = "aws:TagKeys"
    yield from table(
        page,
        {"ForAllValues:ArnLike": {logs: [f"{distributions}costcenter*", f"{distributions}support*"]}},
        ({logs: f"{distributions}costcenter"}, True),
        ({logs: [f"{distributions}costcenter", f"{distributions}support2025"]}, True),
        ({logs: [f"{distributions}costcenter", f"{distributions}admin"]}, False),
        ({logs: "arn:aws:cloudfront::777788889999:distribution/costcenter"}, False),
        ({}, True),
    )
    instance = "ec2:InstanceType"
    kinds = {"StringLikeIfExists": {instance: ["t1.*", "t2.*", "m3.*"]}}
    yield from table(page, kinds, ({instance: "t1.micro"}, True), ({instance: "m2.micro"}, False), ({}, True))
    yield from table(page, {"StringLike": kinds["StringLikeIfExists"]}, ({instance: "t1.micro"}, True), ({}, False))
    yield from table(page, {"Null": {issued: "true"}}, ({}, True), ({issued: "2020-01-01T00:00:00Z"}, False))
    yield from table(page, {"Null": {issued: "false"}}, ({}, False), ({issued: "2020-01-01T00:00:00Z"}, True))
    # "If you are using an "Effect": "Deny" element with [...] StringNotEqualsIfExists, the request is still denied".
    yield from table(page, {"StringNotEqualsIfExists": {job: "a"}}, ({}, True), ({job: "a"}, False), ({job: "b"}, True))
    yield from table(page, {"StringNotLike": {job: "a*"}}, ({}, True))


def several_keys() -> Iterator[Case]:
    page = "Conditions with multiple context keys or values"
    tags = {"aws:RequestTag/department": ["finance", "hr", "legal"], "aws:RequestTag/role": ["audit", "security"]}
    people = {"aws:SourceArn": ["arn:aws:iam::222222222222:user/Ana", "arn:aws:iam::222222222222:user/Mary"]}

    def row(department: str | None, role: str | None, name: str) -> dict[str, Any]:
        found = {"aws:RequestTag/department": department, "aws:RequestTag/role": role}
        who = {"aws:SourceArn": f"arn:aws:iam::222222222222:user/{name}"}
        return {key: value for key, value in found.items() if value} | who

    for operator, one, other in (("ArnLike", "Mary", "Nikki"), ("ArnNotLike", "Nikki", "Mary")):
        yield from table(
            page,
            {"StringEquals": tags, operator: people},
            (row("legal", "audit", one), True),
            (row("hr", "audit", other), False),
            (row("hr", "payroll", one), False),
            (row("hr", None, one), False),
            (row(None, None, one), False),
        )


def sets() -> Iterator[Case]:
    page = "Single-valued vs. multivalued context keys"
    key = "aws:TagKeys"
    yield from table(
        page,
        {"ForAllValues:StringNotLike": {key: ["key1*"]}},
        ({key: "key1:legal"}, False),
        ({key: ["key1:hr", "key1:personnel"]}, False),
        ({key: "key2:audit"}, True),
        ({}, True),
    )
    yield from table(
        page,
        {"ForAllValues:StringNotLike": {key: ["key1*", "key2*"]}},
        ({key: ["key1:hr", "key2:audit"]}, False),
        ({key: "key3:legal"}, True),
    )
    yield from table(
        page,
        {"ForAnyValue:StringEquals": {key: ["environment", "cost-center"]}},
        ({key: ["cost-center"]}, True),
        ({key: ["environment", "dept"]}, True),
        ({key: ["dept"]}, False),
        ({}, False),
    )
    # "At least one context key value in the request must NOT match any of values", "None of the values [...] can match".
    yield from table(
        page, {"ForAnyValue:StringNotEquals": {key: ["a", "b"]}}, ({key: ["a", "c"]}, True), ({key: ["a", "b"]}, False)
    )
    yield from table(
        page, {"ForAllValues:StringNotEquals": {key: ["a", "b"]}}, ({key: ["a", "c"]}, False), ({key: ["c", "d"]}, True)
    )
    # "The ForAllValues qualifier returns true if [...] the context key value resolves to a null dataset, such as an empty
    # string", which a Null condition prevents.
    yield from table(page, {"ForAllValues:StringEquals": {key: "a"}}, ({key: ""}, True), ({key: []}, True))
    yield from table(
        page, {"ForAllValues:StringEquals": {key: "a"}, "Null": {key: "false"}}, ({key: ""}, False), ({key: "a"}, True)
    )
    # Page "Creating a condition with multiple keys or values", the DynamoDB examples.
    yield from table(
        page,
        {"ForAllValues:StringEquals": {key: ["ID", "Message", "Tags"]}},
        ({key: ["Message", "Tags"]}, True),
        ({key: ["Message", "Tags", "UserName"]}, False),
    )
    yield from table(
        page,
        {"ForAnyValue:StringEquals": {key: ["ID", "PostDateTime"]}},
        ({key: ["PostDateTime", "Message"]}, True),
        ({key: ["UserName"]}, False),
        ({key: ["UserName", "Message", "PostDateTime"]}, True),
    )
