"""AWS's examples of actions, resources and variables."""

from __future__ import annotations

from collections.abc import Iterator

from .asking import ALLOWED, DENIED, NOT_ALLOWED, Case, allow, ask, deny, policy, user
from .reference import Json


def actions_and_resources() -> Iterator[Case]:
    page = "IAM JSON policy elements: Action"
    yield Case(page, "case", ask("iam:ListAccessKeys", identity=[policy(allow("IAM:listaccesskeys"))]), ALLOWED)
    for action in ("CreateAccessKey", "DeleteAccessKey", "ListAccessKeys", "UpdateAccessKey"):
        yield Case(page, action, ask(f"iam:{action}", identity=[policy(allow("iam:*AccessKey*"))]), ALLOWED)

    page = "IAM JSON policy elements: NotAction"
    rest = [policy({"Effect": "Allow", "NotAction": "s3:DeleteBucket", "Resource": "arn:aws:s3:::*"})]
    yield Case(page, "read", ask("s3:GetObject", "arn:aws:s3:::b/k", identity=rest), ALLOWED)
    yield Case(page, "delete", ask("s3:DeleteBucket", "arn:aws:s3:::b", identity=rest), NOT_ALLOWED)
    yield Case(page, "list all, which requires the * resource", ask("s3:ListAllMyBuckets", identity=rest), NOT_ALLOWED)
    present = {"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}}
    mfa = [policy(allow(), {"Effect": "Deny", "NotAction": "iam:*", "Resource": "*", "Condition": present})]
    for action, context, decision in (
        ("ec2:RunInstances", {}, DENIED),
        ("ec2:RunInstances", {"aws:MultiFactorAuthPresent": ["false"]}, DENIED),
        ("ec2:RunInstances", {"aws:MultiFactorAuthPresent": ["true"]}, ALLOWED),
        ("iam:GetUser", {}, ALLOWED),
    ):
        yield Case(page, f"{action} {context}", ask(action, identity=mfa, context=context), decision)

    page = "IAM JSON policy elements: NotResource"
    payroll = ["arn:aws:s3:::HRBucket/Payroll", "arn:aws:s3:::HRBucket/Payroll/*"]
    identity = [policy(allow(), {"Effect": "Deny", "Action": "s3:*", "NotResource": payroll})]
    yield Case(page, "inside", ask("s3:GetObject", "arn:aws:s3:::HRBucket/Payroll/a", identity=identity), ALLOWED)
    yield Case(page, "outside", ask("s3:GetObject", "arn:aws:s3:::HRBucket/Other/a", identity=identity), DENIED)
    yield Case(page, "another service", ask("ec2:RunInstances", identity=identity), ALLOWED)

    page = "IAM JSON policy elements: Resource"
    identity = [policy(allow("s3:GetObject", "arn:aws:s3:::amzn-s3-demo-bucket/*/test/*"))]
    hits = (
        "1/test/object.jpg",
        "1/2/test/object.jpg",
        "1/2/test/3/object.jpg",
        "1/2/3/test/4/object.jpg",
        "1///test///object.jpg",
        "1/test/.jpg",
        "/test/object.jpg",
        "1/test/",
    )
    for key in hits:
        yield Case(
            page, key, ask("s3:GetObject", f"arn:aws:s3:::amzn-s3-demo-bucket/{key}", identity=identity), ALLOWED
        )
    for key in ("1-test/object.jpg", "test/object.jpg", "1/2/test.jpg"):
        yield Case(
            page, key, ask("s3:GetObject", f"arn:aws:s3:::amzn-s3-demo-bucket/{key}", identity=identity), NOT_ALLOWED
        )


def variables() -> Iterator[Case]:
    page = "IAM policy elements: Variables and tags"
    get = "s3:GetObject"

    def reads(pattern: str, key: str, version: str | None = "2012-10-17", **tags: str) -> Json:
        by = user("David") | {"tags": tags}
        identity = [policy(allow(get, f"arn:aws:s3:::b{pattern}"), version=version)]
        return ask(get, f"arn:aws:s3:::b{key}", by=by, identity=identity)

    team = "-${aws:PrincipalTag/team, 'company-wide'}/*"
    for what, request, decision in (
        ("own folder", reads("/${aws:username}/*", "/David/a"), ALLOWED),
        ("other folder", reads("/${aws:username}/*", "/Bob/a"), NOT_ALLOWED),
        ("case of the name", reads("/${AWS:UserName}/*", "/David/a"), ALLOWED),
        ("2008", reads("/${aws:username}/*", "/David/a", "2008-10-17"), NOT_ALLOWED),
        ("2008, literally", reads("/${aws:username}/*", "/${aws:username}/a", "2008-10-17"), ALLOWED),
        ("no version", reads("/${aws:username}/*", "/David/a", None), NOT_ALLOWED),
        ("tag", reads(team, "-yellow/a", team="yellow"), ALLOWED),
        ("other tag", reads(team, "-company-wide/a", team="yellow"), NOT_ALLOWED),
        ("default", reads(team, "-company-wide/a"), ALLOWED),
        ("no default", reads("-${aws:PrincipalTag/team}/*", "-/a"), NOT_ALLOWED),
        ("literal *", reads("/a${*}b", "/a*b"), ALLOWED),
        ("literal *, other", reads("/a${*}b", "/axb"), NOT_ALLOWED),
        ("literal ?", reads("/a${?}b", "/a?b"), ALLOWED),
        ("literal ?, other", reads("/a${?}b", "/axb"), NOT_ALLOWED),
        ("literal $", reads("/${$}{aws:username}", "/${aws:username}"), ALLOWED),
    ):
        yield Case(page, what, request, decision)
    existing = {"StringNotEquals": {"s3:ExistingObjectTag/Team": "${aws:PrincipalTag/Team}"}}
    identity = [policy(allow(), deny(get, "arn:aws:s3:::b/*", Condition=existing))]
    for tags, found, decision in (
        ({"Team": "red"}, ["red"], ALLOWED),
        ({"Team": "red"}, ["blue"], DENIED),
        ({}, ["red"], DENIED),
        ({"Team": "red"}, [], DENIED),
    ):
        context = {"s3:ExistingObjectTag/Team": found} if found else {}
        yield Case(
            page,
            f"team {tags} {found}",
            ask(get, "arn:aws:s3:::b/k", by=user() | {"tags": tags}, identity=identity, context=context),
            decision,
        )
    # "such a resource will not match any resource", "in Resource or NotResource".
    other = {"Effect": "Deny", "Action": "*", "NotResource": "arn:aws:s3:::b/${aws:PrincipalTag/Team}/*"}
    yield Case(
        page, "NotResource without value", ask(get, "arn:aws:s3:::b/x/k", identity=[policy(allow(), other)]), DENIED
    )
    yield Case(
        page,
        "NotResource with value",
        ask(get, "arn:aws:s3:::b/x/k", by=user() | {"tags": {"Team": "x"}}, identity=[policy(allow(), other)]),
        ALLOWED,
    )
