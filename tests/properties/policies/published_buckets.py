"""AWS's examples of bucket policies, and the request vector of Foorack/iam-rs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .asking import ALLOWED, ANONYMOUS, DENIED, NOT_ALLOWED, Case, allow, ask, deny, policy, root, session, user
from .reference import Json


def buckets() -> Iterator[Case]:
    page = "S3: Bucket policy examples using condition keys"
    key, put, get = "arn:aws:s3:::DOC-EXAMPLE-BUCKET/HappyFace.jpg", "s3:PutObject", "s3:GetObject"
    inside = ["arn:aws:s3:::DOC-EXAMPLE-BUCKET", "arn:aws:s3:::DOC-EXAMPLE-BUCKET/*"]
    objects = "arn:aws:s3:::DOC-EXAMPLE-BUCKET/*"
    dave, full = user("Dave", "444455556666"), [policy(allow("s3:*"))]

    def has(operator: str, name: str, value: Any) -> Json:
        return {operator: {name: value}}

    def rows(what: str, bucket: Json, action: str, *rows: tuple[Json, dict[str, list[str]], str]) -> Iterator[Case]:
        for by, context, decision in rows:
            yield Case(
                page,
                f"{what}: {context}",
                ask(action, key, by=by, identity=full, bucket=bucket, context=context),
                decision,
            )

    grant, owner = "s3:x-amz-grant-full-control", "id=AccountA-CanonicalUserID"
    named = {"AWS": dave["arn"]}
    bucket = policy(
        allow(put, objects, Principal=named, Condition=has("StringEquals", grant, owner)),
        deny(put, objects, Principal=named, Condition=has("StringNotEquals", grant, owner)),
    )
    yield from rows(
        "full control",
        bucket,
        put,
        (dave, {grant: [owner]}, ALLOWED),
        (dave, {grant: ["id=other"]}, DENIED),
        (dave, {}, DENIED),
    )
    source = "s3:x-amz-copy-source"
    bucket = policy(
        allow(put, objects, Principal=named),
        deny(put, objects, Principal=named, Condition=has("StringNotLike", source, "awsexamplebucket1/public/*")),
    )
    public, private = "awsexamplebucket1/public/PublicHappyFace1.jpg", "awsexamplebucket1/private/a"
    yield from rows(
        "copy source",
        bucket,
        put,
        (dave, {source: [public]}, ALLOWED),
        (dave, {source: [private]}, DENIED),
        (dave, {}, DENIED),
    )
    version, wanted = "s3:VersionId", "AaaHbAQitwiL_h47_44lRO2DDfLlBO5e"
    reads = "s3:GetObjectVersion"
    bucket = policy(
        allow(reads, objects, Principal=named),
        deny(reads, objects, Principal=named, Condition=has("StringNotEquals", version, wanted)),
    )
    yield from rows(
        "version", bucket, reads, (dave, {version: [wanted]}, ALLOWED), (dave, {version: ["other"]}, DENIED)
    )
    tls = "s3:TlsVersion"
    bucket = policy(
        allow(put, objects, Principal="*"), deny(put, inside, Principal="*", Condition=has("NumericLessThan", tls, 1.2))
    )
    yield from rows(
        "TLS",
        bucket,
        put,
        (ANONYMOUS, {tls: ["1.1"]}, DENIED),
        (ANONYMOUS, {tls: ["1.2"]}, ALLOWED),
        (ANONYMOUS, {tls: ["1.3"]}, ALLOWED),
    )
    canned = "s3:x-amz-acl"
    bucket = policy(
        allow(
            put,
            objects,
            Principal={"AWS": "444455556666"},
            Condition=has("StringEquals", canned, "bucket-owner-full-control"),
        )
    )
    right = {canned: ["bucket-owner-full-control"]}
    yield from rows(
        "canned ACL",
        bucket,
        put,
        (dave, right, ALLOWED),
        (dave, {canned: ["private"]}, NOT_ALLOWED),
        (dave, {}, NOT_ALLOWED),
    )

    page = "S3: Examples of Amazon S3 bucket policies"
    john = session("JohnDoe", "s")
    nobody: list[Json] = []
    role = {"AWS": "arn:aws:iam::111122223333:role/JohnDoe"}
    tag = "s3:ExistingObjectTag/environment"
    bucket = policy(allow([get, reads], objects, Principal=role, Condition=has("StringEquals", tag, "production")))
    keys = policy(
        allow(
            "s3:PutObjectTagging",
            [objects],
            Principal=role,
            Condition=has("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", ["Owner", "CreationDate"]),
        )
    )
    for what, request, decision in (
        ("tag", ask(get, key, by=john, identity=nobody, bucket=bucket, context={tag: ["production"]}), ALLOWED),
        ("other tag", ask(get, key, by=john, identity=nobody, bucket=bucket, context={tag: ["test"]}), NOT_ALLOWED),
        (
            "tag key",
            ask("s3:PutObjectTagging", key, by=john, bucket=keys, context={"s3:RequestObjectTagKeys": ["Owner", "x"]}),
            ALLOWED,
        ),
        (
            "other tag key",
            ask("s3:PutObjectTagging", key, by=john, bucket=keys, context={"s3:RequestObjectTagKeys": ["x"]}),
            NOT_ALLOWED,
        ),
    ):
        yield Case(page, what, request, decision)
    ranges = {
        "IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:DB8:1234:5678::/64"]},
        "NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:DB8:1234:5678:ABCD::/80"]},
    }
    bucket = policy(allow("s3:*", inside, Principal="*", Condition=ranges))
    for address, decision in (
        ("192.0.2.1", ALLOWED),
        ("2001:DB8:1234:5678::1", ALLOWED),
        ("203.0.113.1", NOT_ALLOWED),
        ("2001:DB8:1234:5678:ABCD::1", NOT_ALLOWED),
    ):
        yield Case(
            page, address, ask(get, key, by=ANONYMOUS, bucket=bucket, context={"aws:SourceIp": [address]}), decision
        )
    bucket = policy(
        allow(get, objects, Principal="*"),
        deny("s3:*", inside, Principal="*", Condition=has("Bool", "aws:SecureTransport", "false")),
    )
    yield from rows(
        "HTTPS",
        bucket,
        get,
        (ANONYMOUS, {"aws:SecureTransport": ["true"]}, ALLOWED),
        (ANONYMOUS, {"aws:SecureTransport": ["false"]}, DENIED),
    )
    pages = ["http://www.example.com/*", "http://example.com/*"]
    bucket = policy(allow([get, reads], objects, Principal="*", Condition=has("StringLike", "aws:Referer", pages)))
    for referer, decision in (("http://example.com/a", ALLOWED), ("http://example.org/", NOT_ALLOWED)):
        yield Case(
            page, referer, ask(get, key, by=ANONYMOUS, bucket=bucket, context={"aws:Referer": [referer]}), decision
        )
    folders = policy(
        allow(
            "s3:ListBucket",
            inside[:1],
            Principal={"AWS": user("JohnDoe")["arn"]},
            Condition={"StringEquals": {"s3:prefix": ["", "home/", "home/JohnDoe"], "s3:delimiter": ["/"]}},
        ),
        allow(
            "s3:ListBucket",
            inside[:1],
            Principal={"AWS": user("JohnDoe")["arn"]},
            Condition=has("StringLike", "s3:prefix", ["home/JohnDoe/*"]),
        ),
        allow("s3:*", ["arn:aws:s3:::DOC-EXAMPLE-BUCKET/home/JohnDoe/*"], Principal={"AWS": user("JohnDoe")["arn"]}),
    )
    for context, decision in (
        ({"s3:prefix": [""], "s3:delimiter": ["/"]}, ALLOWED),
        ({"s3:prefix": ["home/"], "s3:delimiter": ["/"]}, ALLOWED),
        ({"s3:prefix": ["home/"]}, NOT_ALLOWED),
        ({"s3:prefix": ["home/JohnDoe/a"]}, ALLOWED),
        ({"s3:prefix": ["home/Jane/"], "s3:delimiter": ["/"]}, NOT_ALLOWED),
        ({}, NOT_ALLOWED),
    ):
        yield Case(
            page,
            f"folders: {context}",
            ask("s3:ListBucket", inside[0], by=user("JohnDoe"), bucket=folders, context=context),
            decision,
        )
    page = "S3: PutBucketPolicy"
    bucket = policy(deny("s3:*", inside[:1], Principal="*"))
    for by, action, decision in (
        (root(), "s3:PutBucketPolicy", ALLOWED),
        (root(), "s3:DeleteBucketPolicy", ALLOWED),
        (root(), "s3:ListBucket", DENIED),
        (root("444455556666"), "s3:PutBucketPolicy", DENIED),
        (user(), "s3:PutBucketPolicy", DENIED),
    ):
        yield Case(
            page, f"{action} by {by['arn']}", ask(action, inside[0], by=by, identity=full, bucket=bucket), decision
        )
    # The request vector of Foorack/iam-rs.
    martha = user("martha", "123456789012") | {"tags": {"dept": "123"}}
    identity = [
        policy(
            allow(
                "s3:CreateBucket",
                "arn:aws:s3:::amzn-s3-demo-bucket1",
                Condition=has("StringEquals", "aws:PrincipalTag/dept", "123"),
            )
        )
    ]
    yield Case(
        "iam-rs",
        "tag",
        ask("s3:CreateBucket", "arn:aws:s3:::amzn-s3-demo-bucket1", by=martha, owner=None, identity=identity),
        ALLOWED,
    )
