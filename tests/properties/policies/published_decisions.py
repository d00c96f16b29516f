"""AWS's examples of decisions: one account and two, boundaries, sessions, principals."""

from __future__ import annotations

from collections.abc import Iterator

from .asking import ALLOWED, ANONYMOUS, DENIED, NOT_ALLOWED, Case, allow, ask, deny, policy, root, session, user


def one_account() -> Iterator[Case]:
    page = "Policy evaluation for requests within a single account"
    carlos = user("carlossalazar", "123456789012")
    own = ["arn:aws:s3:::carlossalazar/*", "arn:aws:s3:::carlossalazar"]
    identity = [
        policy(
            allow(["s3:GetBucketLocation", "s3:ListAllMyBuckets"], "arn:aws:s3:::*"),
            allow("s3:*", own),
            deny("s3:*", "arn:aws:s3:::*log*"),
        )
    ]
    bucket = policy(allow("s3:*", own, Principal={"AWS": carlos["arn"]}))
    put, mine, logs = "s3:PutObject", "arn:aws:s3:::carlossalazar/a", "arn:aws:s3:::carlossalazar-logs/a"
    account = "123456789012"
    yield Case(page, "logs", ask(put, logs, by=carlos, owner=account, identity=identity), DENIED)
    yield Case(page, "both", ask(put, mine, by=carlos, owner=account, identity=identity, bucket=bucket), ALLOWED)
    yield Case(page, "identity alone", ask(put, mine, by=carlos, owner=account, identity=identity), ALLOWED)
    yield Case(page, "resource alone", ask(put, mine, by=carlos, owner=account, bucket=bucket), ALLOWED)
    yield Case(page, "none", ask(put, mine, by=carlos, owner=account), NOT_ALLOWED)

    page = "The difference between explicit and implicit denies"
    identity = [policy(allow(["iam:Get*", "iam:List*"]), deny("iam:*Report"))]
    more = policy(allow("iam:GenerateCredentialReport"))
    yield Case(page, "get", ask("iam:GetUser", identity=identity), ALLOWED)
    yield Case(page, "create", ask("iam:CreatePolicy", identity=identity), NOT_ALLOWED)
    yield Case(page, "report", ask("iam:GetOrganizationsAccessReport", identity=identity), DENIED)
    yield Case(
        page, "report in spite of another", ask("iam:GenerateCredentialReport", identity=[*identity, more]), DENIED
    )


def two_accounts() -> Iterator[Case]:
    page = "Cross-account policy evaluation logic"
    carlos, owner = user("carlossalazar", "111111111111"), "222222222222"
    identity = [
        policy(
            allow("s3:ListAllMyBuckets"),
            allow("s3:*Object*", "arn:aws:s3:::Production/*"),
            deny("s3:*", ["arn:aws:s3:::*log*", "arn:aws:s3:::*log*/*"]),
        )
    ]
    actions = ["s3:GetObject*", "s3:PutObject*", "s3:ReplicateObject", "s3:RestoreObject"]
    bucket = policy(allow(actions, "arn:aws:s3:::Production/*", Principal={"AWS": carlos["arn"]}))
    logs, production = "arn:aws:s3:::Production-logs/a", "arn:aws:s3:::Production/a"
    yield Case(page, "logs", ask("s3:PutObject", logs, by=carlos, owner=owner, identity=identity), DENIED)
    for what, ours, theirs, decision in (
        ("both", identity, bucket, ALLOWED),
        ("identity alone", identity, None, NOT_ALLOWED),
        ("resource alone", [], bucket, NOT_ALLOWED),
    ):
        yield Case(
            page, what, ask("s3:PutObject", production, by=carlos, owner=owner, identity=ours, bucket=theirs), decision
        )
    deletes = ask("s3:DeleteObject", production, by=carlos, owner=owner, identity=identity, bucket=bucket)
    yield Case(page, "he can create and edit, but not delete", deletes, NOT_ALLOWED)

    page = "Examples of policies for delegating access"
    bucket = policy(
        allow("s3:*", ["arn:aws:s3:::b", "arn:aws:s3:::b/*"], Principal={"AWS": "arn:aws:iam::111111111111:root"})
    )
    read = policy(allow(["s3:GetObject"], "arn:aws:s3:::b/*"))
    get = "s3:GetObject"
    yield Case(
        page, "delegated", ask(get, "arn:aws:s3:::b/k", by=carlos, owner=owner, identity=[read], bucket=bucket), ALLOWED
    )
    yield Case(page, "not delegated", ask(get, "arn:aws:s3:::b/k", by=carlos, owner=owner, bucket=bucket), NOT_ALLOWED)
    # "The deny propagates to the users under that account".
    bucket = policy(*bucket["Statement"], deny("s3:*", "arn:aws:s3:::b/*", Principal={"AWS": "111111111111"}))
    yield Case(
        page,
        "account denied",
        ask(get, "arn:aws:s3:::b/k", by=carlos, owner=owner, identity=[read], bucket=bucket),
        DENIED,
    )


def boundaries() -> Iterator[Case]:
    page = "Permissions boundaries for IAM entities"
    shirley = policy(allow(["s3:*", "cloudwatch:*", "ec2:*"]))
    creates = [policy(allow("iam:CreateUser"))]
    yield Case(page, "Shirley creates", ask("iam:CreateUser", identity=creates, boundary=shirley), NOT_ALLOWED)
    yield Case(
        page, "Shirley reads", ask("s3:GetObject", "arn:aws:s3:::b/k", identity=creates, boundary=shirley), NOT_ALLOWED
    )

    limits = policy(
        allow(["s3:*", "cloudwatch:*", "ec2:*", "dynamodb:*"]),
        allow(["iam:*AccessKey*", "iam:ChangePassword"], "arn:aws:iam::*:user/${aws:username}"),
        deny("s3:*", ["arn:aws:s3:::logs", "arn:aws:s3:::logs/*"]),
    )
    nikhil = user("Nikhil")
    full = [policy(allow("iam:*")), policy(allow(["s3:Get*", "s3:List*"]))]
    logs = policy(allow("s3:PutObject", "arn:aws:s3:::logs/*", Principal={"AWS": nikhil["arn"]}))
    for what, request, decision in (
        ("own key", ask("iam:CreateAccessKey", nikhil["arn"], by=nikhil, identity=full, boundary=limits), ALLOWED),
        (
            "other user",
            ask("iam:CreateAccessKey", user()["arn"], by=nikhil, identity=full, boundary=limits),
            NOT_ALLOWED,
        ),
        ("create user", ask("iam:CreateUser", user()["arn"], by=nikhil, identity=full, boundary=limits), NOT_ALLOWED),
        (
            "logs, which the bucket allows",
            ask("s3:PutObject", "arn:aws:s3:::logs/k", by=nikhil, boundary=limits, bucket=logs),
            DENIED,
        ),
    ):
        yield Case(page, what, request, decision)

    zhang = policy(
        allow("iam:*", Condition={"StringEquals": {"iam:PermissionsBoundary": "arn:aws:iam::123456789012:policy/X"}}),
        allow("cloudwatch:*"),
    )
    granted = [
        policy(allow("iam:*"), allow("cloudwatch:GetDashboard"), allow("s3:ListBucket", "arn:aws:s3:::ZhangBucket"))
    ]
    with_x = {"iam:PermissionsBoundary": ["arn:aws:iam::123456789012:policy/X"]}
    yield Case(
        page,
        "Zhang lists",
        ask("s3:ListBucket", "arn:aws:s3:::ZhangBucket", identity=granted, boundary=zhang),
        NOT_ALLOWED,
    )
    yield Case(page, "without boundary", ask("iam:CreateUser", identity=granted, boundary=zhang), NOT_ALLOWED)
    yield Case(page, "with boundary", ask("iam:CreateUser", identity=granted, boundary=zhang, context=with_x), ALLOWED)


def implicit_denies() -> Iterator[Case]:
    """What a bucket's policy grants in one account, with limits that allow nothing of it."""
    page = "How AWS enforcement code logic evaluates requests to allow or deny access"
    ana, reads = user(), session("examplerole", "examplerolesessionname")
    role, account = "arn:aws:iam::111122223333:role/examplerole", "arn:aws:iam::111122223333:root"
    nothing = policy(allow("ec2:*"))
    for what, by, named, limits, decision in (
        ("user", ana, ana["arn"], {}, ALLOWED),
        ("user with boundary", ana, ana["arn"], {"boundary": nothing}, ALLOWED),
        ("federated, the user named", ana, ana["arn"], {"passed": nothing}, NOT_ALLOWED),
        ("role", reads, role, {}, ALLOWED),
        ("role with boundary", reads, role, {"boundary": nothing}, NOT_ALLOWED),
        ("role with session policy", reads, role, {"passed": nothing}, NOT_ALLOWED),
        ("session", reads, reads["arn"], {"boundary": nothing, "passed": nothing}, ALLOWED),
        ("everyone", reads, "*", {"boundary": nothing, "passed": nothing}, ALLOWED),
        # "AWS account principals": "delegates authority to the account"; re:Post, "IAM "account identifier" (":root"
        # suffix) principal in S3 / KMS resource policy is not granting access".
        ("account", ana, account, {}, NOT_ALLOWED),
        ("root of the account", root(), account, {}, ALLOWED),
    ):
        bucket = policy(allow("s3:GetObject", "arn:aws:s3:::b/*", Principal={"AWS": named}))
        yield Case(page, what, ask("s3:GetObject", "arn:aws:s3:::b/k", by=by, bucket=bucket, **limits), decision)
    everything = [policy(allow())]
    some = policy(allow("s3:Get*"))
    for limit in ("boundary", "passed"):
        get = ask("s3:GetObject", "arn:aws:s3:::b/k", by=reads, identity=everything, **{limit: some})
        put = ask("s3:PutObject", "arn:aws:s3:::b/k", by=reads, identity=everything, **{limit: some})
        yield Case(page, f"{limit} allows", get, ALLOWED)
        yield Case(page, f"{limit} does not", put, NOT_ALLOWED)
        yield Case(
            page, f"{limit} alone", ask("s3:GetObject", "arn:aws:s3:::b/k", by=reads, **{limit: some}), NOT_ALLOWED
        )
    yield Case(page, "root", ask("s3:GetObject", "arn:aws:s3:::b/k", by=root()), ALLOWED)
    yield Case(
        page, "root of another account", ask("s3:GetObject", "arn:aws:s3:::b/k", by=root("444455556666")), NOT_ALLOWED
    )


def named_principals() -> Iterator[Case]:
    page = "AWS JSON policy elements: Principal"
    get, key = "s3:GetObject", "arn:aws:s3:::b/k"
    full = [policy(allow())]
    two = policy(allow("s3:*", "arn:aws:s3:::b/*", Principal={"AWS": ["123456789012", "555555555555"]}))
    for account, decision in (("123456789012", ALLOWED), ("555555555555", ALLOWED), ("999999999999", NOT_ALLOWED)):
        yield Case(
            page,
            f"one of two accounts: {account}",
            ask(get, key, by=user("U", account), identity=full, bucket=two),
            decision,
        )
        yield Case(page, f"its root: {account}", ask(get, key, by=root(account), bucket=two), decision)
    one = policy(allow("s3:*", "arn:aws:s3:::b/*", Principal={"AWS": "arn:aws:iam::444455556666:user/Bob"}))
    for name, decision in (("Bob", ALLOWED), ("bob", NOT_ALLOWED), ("Bob2", NOT_ALLOWED)):
        yield Case(
            page, f"user {name}", ask(get, key, by=user(name, "444455556666"), identity=full, bucket=one), decision
        )
    services = policy(allow("s3:*", "arn:aws:s3:::b/*", Principal={"Service": ["ecs.amazonaws.com"]}))
    yield Case(page, "a service", ask(get, key, bucket=services), NOT_ALLOWED)
    for principal in ("*", {"AWS": "*"}):
        bucket = policy(allow(get, "arn:aws:s3:::b/*", Principal=principal))
        yield Case(page, "anonymous", ask(get, key, by=ANONYMOUS, bucket=bucket), ALLOWED)
        yield Case(page, "user of the account", ask(get, key, bucket=bucket), ALLOWED)
        yield Case(
            page, "user of another account", ask(get, key, by=user("Bob", "444455556666"), bucket=bucket), NOT_ALLOWED
        )
    yield Case(page, "anonymous, an account named", ask(get, key, by=ANONYMOUS, bucket=two), NOT_ALLOWED)
    spared = {"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::444455556666:user/user-name"}}
    bucket = policy(deny("s3:*", "arn:aws:s3:::b/*", Principal="*", Condition=spared))
    for name, decision in (("user-name", ALLOWED), ("other", DENIED)):
        by = user(name, "444455556666")
        yield Case(
            page,
            f"instead of NotPrincipal: {name}",
            ask(get, key, by=by, owner="444455556666", identity=full, bucket=bucket),
            decision,
        )

    page = "AWS JSON policy elements: NotPrincipal"
    account = "arn:aws:iam::444455556666:root"
    bob, app = (
        user("Bob", "444455556666"),
        session("cross-account-read-only-role", "cross-account-audit-app", "444455556666"),
    )
    role = "arn:aws:iam::444455556666:role/cross-account-read-only-role"
    for by, spared_names in ((bob, [bob["arn"], account]), (app, [app["arn"], role, account])):
        granted = allow("s3:*", "arn:aws:s3:::b/*", Principal={"AWS": account})
        bucket = policy(granted, deny("s3:*", "arn:aws:s3:::b/*", NotPrincipal={"AWS": spared_names}))
        yield Case(page, "spared", ask(get, key, by=by, identity=full, bucket=bucket), ALLOWED)
        yield Case(page, "another", ask(get, key, by=user("Eve", "111122223333"), identity=full, bucket=bucket), DENIED)
        yield Case(page, "anonymous", ask(get, key, by=ANONYMOUS, bucket=bucket), DENIED)
        # "will always deny any IAM principal that has a permissions boundary policy attached".
        yield Case(
            page, "with boundary", ask(get, key, by=by, identity=full, bucket=bucket, boundary=policy(allow())), DENIED
        )
