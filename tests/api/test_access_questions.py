"""What is answered about access is what is decided on requests: by policies of all kinds, lists, blocks and accounts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.api.test_admin import ROOT, URL, Client
from tests.api.test_admin_rights import ALL, S3, Site
from tests.fixtures.signing import Identity, signed_headers

from orcas.serving.app import Orcas
from orcas.settings.config import resolve

# What is asked about, and a request that needs nothing else.
REQUESTS: Final = (
    ("s3:GetObject", "{}/k", "GET", "/{}/k"),
    ("s3:GetObject", "{}/public", "GET", "/{}/public"),
    ("s3:GetObject", "{}/none", "GET", "/{}/none"),
    ("s3:GetObjectTagging", "{}/k", "GET", "/{}/k?tagging"),
    ("s3:PutObject", "{}/new", "PUT", "/{}/new"),
    ("s3:DeleteObject", "{}/away", "DELETE", "/{}/away"),
    ("s3:ListBucket", "{}", "GET", "/{}"),
    ("s3:GetBucketAcl", "{}", "GET", "/{}?acl"),
    ("s3:GetBucketVersioning", "{}", "GET", "/{}?versioning"),
    ("s3:GetBucketPolicy", "{}", "GET", "/{}?policy"),
    ("orcas:PutBucketSettings", "{}", "PUT", "/{}?orcas-settings"),
)  # fmt: skip


def statement(effect: str, action: Any, resource: Any, **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def on(bucket: str, action: Any, principal: Any, effect: str = "Allow", **more: Any) -> dict[str, Any]:
    both = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    return statement(effect, action, both, Principal=principal, **more)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    keys = {"root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key}
    app = Orcas(resolve({"data": str(tmp_path / "data"), **keys}, ambient=False).settings)
    async with app.router.lifespan_context(app):
        yield Site(Client(app))


async def sent(site: Site, method: str, target: str, identity: Identity | None, body: bytes = b"", **more: str) -> int:
    headers = {"content-length": str(len(body))} | {name.replace("_", "-"): value for name, value in more.items()}
    if identity is not None:
        headers = signed_headers(identity, method, URL + target, headers, body)
    return (await site.client.exchange(method, target, headers, body))[0]


async def fill(site: Site, bucket: str, *statements: dict[str, Any], owner: Identity = ROOT) -> None:
    """A bucket with objects, one of which its list gives to everybody where lists count, and with a policy."""
    assert await sent(site, "PUT", f"/{bucket}", owner) == 200
    assert await sent(site, "DELETE", f"/{bucket}?publicAccessBlock", owner) == 204
    if bucket.startswith("listed"):
        rule = b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>"
        assert await sent(site, "PUT", f"/{bucket}?ownershipControls", owner, rule) == 200
    assert await sent(site, "PUT", f"/{bucket}/k", owner, b"content") == 200
    public = {"x_amz_acl": "public-read"} if bucket.startswith("listed") else {}
    assert await sent(site, "PUT", f"/{bucket}/public", owner, b"content", **public) == 200
    if statements:
        document = json.dumps({"Statement": list(statements)}).encode()
        assert await sent(site, "PUT", f"/{bucket}?policy", owner, document) == 204


async def test_answers_are_decisions(site: Site) -> None:
    """Every pair of a sender and a request, in buckets of every kind, asked about and then sent."""
    other = await site.account("other")
    reads = statement("Allow", ["s3:GetObject", "s3:ListBucket"], "*")
    senders = {
        "nobody": await site.user(),
        "reader": await site.user(reads),
        "all": await site.user(S3),
        "bound": await site.user(ALL, boundary="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"),
        "denied": await site.user(S3, statement("Deny", "s3:GetObject", "*")),
        "narrowed": await site.user(ALL, session=reads),
        "here": await site.user(
            statement("Allow", "s3:*", "*", Condition={"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}})
        ),
        "others": await site.user(ALL, account=other),
        "others without": await site.user(account=other),
        "root": ROOT,
    }
    await site.iam("CreateGroup", GroupName="g")
    await site.iam("PutGroupPolicy", GroupName="g", PolicyName="p", PolicyDocument=json.dumps({"Statement": [reads]}))
    senders["member"] = await site.user()
    await site.iam("AddUserToGroup", GroupName="g", UserName=f"u{site.made}")
    number = (await site.iam("GetUser", UserName="u1"))["User"]["Arn"].split(":")[4]
    nobody = f"arn:aws:iam::{number}:user/u1"
    await fill(site, "plain")
    await fill(site, "open", on("open", "s3:GetObject", "*"))
    await fill(site, "blocked", on("blocked", "s3:GetObject", "*"))
    assert await sent(site, "PUT", "/blocked?publicAccessBlock", ROOT, BLOCK) == 200
    await fill(site, "lent", on("lent", "s3:*", {"AWS": [nobody, other]}), on("lent", "s3:PutObject", "*", "Deny"))
    await fill(site, "listed")
    await fill(site, "listed-blocked")
    assert await sent(site, "PUT", "/listed-blocked?publicAccessBlock", ROOT, BLOCK) == 200
    await fill(site, "theirs", owner=senders["others"])
    wrong = []
    for bucket in ("plain", "open", "blocked", "lent", "listed", "listed-blocked", "theirs", "none"):
        for name, identity in [*senders.items(), ("anonymous", None)]:
            for action, resource, method, target in REQUESTS:
                who = "anonymous" if identity is None else identity.access_key
                order = {"who": who, "action": action, "resource": resource.format(bucket)}
                status, answer = await site.client.ask("POST", "access", order)
                assert status == 200, answer
                if identity is not None:
                    questions = {"questions": [{"action": action, "resource": resource.format(bucket)}]}
                    own = (await site.client.ask("POST", "access/own", questions, identity))[1]["allowed"]
                    assert own == [answer["allowed"]], (name, order)
                done = await sent(site, method, target.format(bucket), identity)
                # That there is nothing is told only to whoever may list the bucket; others get the same refusal.
                is_absent = target.endswith("/none") and (done == 404 or answer["allowed"])
                if (done != 403) != answer["allowed"] and not is_absent:
                    wrong.append((bucket, name, target, done, answer))
    assert wrong == []


BLOCK: Final = (
    b"<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>"
    b"<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>"
    b"</PublicAccessBlockConfiguration>"
)


async def test_an_answer_says_what_decides(site: Site) -> None:
    await site.user(S3, statement("Deny", "s3:GetObject", "arn:aws:s3:::open/secret*", Sid="NoSecrets"))
    await fill(site, "open", on("open", "s3:GetObject", "*"))

    async def asked(who: str, resource: str = "open/k", **more: Any) -> dict[str, Any]:
        order = {"who": who, "action": "s3:GetObject", "resource": resource, **more}
        return (await site.client.ask("POST", "access", order))[1]

    found = await asked("u1", "open/secret")
    assert (found["allowed"], found["explicit"]) == (False, True)
    assert (found["policy"], found["statement"], found["sid"]) == ("user u1: p", 2, "NoSecrets")
    found = await asked("anonymous")
    assert (found["allowed"], found["policy"], found["statement"]) == (True, "the bucket policy", 1)
    assert await sent(site, "PUT", "/open?publicAccessBlock", ROOT, BLOCK) == 200
    found = await asked("anonymous")
    assert (found["allowed"], found["policy"]) == (False, None)
    assert "public access block" in found["why"]
    # Another policy in place of that of the bucket, or none.
    assert await sent(site, "DELETE", "/open?publicAccessBlock", ROOT) == 204
    assert not (await asked("anonymous", bucket_policy=""))["allowed"]
    assert (await asked("anonymous"))["allowed"]
    # Keys of conditions that the question does not have.
    document = {"Statement": [on("open", "s3:GetObject", "*", Condition={"StringEquals": {"aws:Referer": "a"}})]}
    found = await asked("anonymous", bucket_policy=json.dumps(document))
    assert (found["allowed"], found["missing"]) == (False, ["aws:referer"])
    found = await asked("anonymous", bucket_policy=json.dumps(document), context={"aws:Referer": ["a"]})
    assert (found["allowed"], found["missing"]) == (True, [])


async def test_who_may_is_listed_in_parts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcas.admin.routes.access._FOUND_MAX", 2)
    other = await site.account("other")
    await fill(site, "open", on("open", "s3:GetObject", "*"))
    for allowed in (True, False, True, True):
        await site.user(*([S3] if allowed else []))
    await site.user(ALL, account=other)

    async def names(action: str, resource: str, identity: Identity = ROOT) -> list[str]:
        found, after = [], ""
        while True:
            order = {"action": action, "resource": resource, "after": after}
            status, answer = await site.client.ask("POST", "access/who", order, identity)
            assert status == 200, answer
            assert len(answer["allowed"]) <= 2
            found += [each["who"].rpartition(":")[2] for each in answer["allowed"]]
            after = answer["next"]
            if after is None:
                return found

    # The root users of both accounts among them, and users of the other one.
    everybody = await names("s3:GetObject", "open/k")
    assert everybody[0] == "anonymous"
    assert sorted(everybody[1:]) == ["root", "root", "user/u1", "user/u2", "user/u3", "user/u4", "user/u5"]
    assert sorted(await names("s3:PutObject", "open/k")) == ["root", "user/u1", "user/u3", "user/u4"]


async def test_a_list_is_asked_about_with_its_prefix(site: Site) -> None:
    below = {"StringLike": {"s3:prefix": "home/*"}}
    sender = await site.user(statement("Allow", "s3:ListBucket", "*", Condition=below))
    await fill(site, "plain")
    prefixes: list[dict[str, Any]] = [{}, {"s3:prefix": [""]}, {"S3:Prefix": ["home/k"]}]
    asked = [{"action": "s3:ListBucket", "resource": "plain", "context": context} for context in prefixes]
    _, answer = await site.client.ask("POST", "access/own", {"questions": asked}, sender)
    assert answer["allowed"] == [False, False, True]


async def test_whoever_may_not_ask_learns_nothing(site: Site) -> None:
    other = await site.account("other")
    await fill(site, "lent", on("lent", "s3:GetObject", {"AWS": other}), on("lent", "s3:GetObject", "*", "Deny"))
    nobody, auditor = await site.user(), await site.user(statement("Allow", "orcas:SimulateAccess", "*"))
    theirs = await site.user(ALL, account=other)
    question = {"action": "s3:GetObject", "resource": "lent/k"}
    ours, of_theirs = (f"arn:aws:iam::{number}:user/" for number in (await _number(site), other))
    for who, expected in (
        ("u1", [403, 200, 400]),
        (f"{ours}u1", [403, 200, 403]),
        (nobody.access_key, [403, 200, 400]),
        (f"{of_theirs}u3", [403, 200, 200]),
        ("u3", [403, 400, 200]),
        ("anonymous", [403, 200, 403]),
        ("none", [403, 400, 400]),
    ):
        order = {"who": who, **question}
        found = [(await site.client.ask("POST", "access", order, each))[0] for each in (nobody, auditor, theirs)]
        assert found == expected, who
    found = [(await site.client.ask("POST", "access/who", question, each))[0] for each in (nobody, auditor, theirs)]
    assert found == [403, 200, 403]
    # What the policy of a bucket in another account says is not told.
    _, answer = await site.client.ask("POST", "access", {"who": "u3", **question}, theirs)
    assert (answer["allowed"], answer["policy"]) == (False, None)
    assert answer["why"] == "No resource-based policy allows it."


async def _number(site: Site) -> str:
    return str((await site.iam("GetUser", UserName="u1"))["User"]["Arn"].split(":")[4])
