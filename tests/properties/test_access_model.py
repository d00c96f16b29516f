"""Two accounts, five users and three buckets with random policies and blocks: no answer differs from the model's.

The model decides with the evaluator in Python that was written from AWS's documentation (`policies/reference.py`).
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.wire import Answer, Signer

import orcas
from orcas.tools.session import HttpTransport, Session

from .policies.asking import ANONYMOUS, root, user
from .policies.reference import Json, evaluate

KEYS = ("a", "a/b", "b", "c")
# The request, the actions that it needs of the object or of the bucket, and the status if it is allowed.
REQUESTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "read": ("GET", "", ("s3:GetObject",)),
    "head": ("HEAD", "", ("s3:GetObject",)),
    "write": ("PUT", "", ("s3:PutObject",)),
    "write with tags": ("PUT", "", ("s3:PutObject", "s3:PutObjectTagging")),
    "delete": ("DELETE", "", ("s3:DeleteObject",)),
    "read tags": ("GET", "tagging", ("s3:GetObjectTagging",)),
    "list": ("GET", "list-type=2", ("s3:ListBucket",)),
    "read the policy": ("GET", "policy", ("s3:GetBucketPolicy",)),
}
ACTIONS = sorted({action for _, _, actions in REQUESTS.values() for action in actions})
OF_BUCKETS = {"s3:ListBucket", "s3:GetBucketPolicy"}
OWNED = {"list", "read the policy"}


@dataclass
class Principal:
    """Who asks, as the model knows it, and how it signs. Nobody signs anonymous requests."""

    identity: Json
    signer: Signer | None
    name: str
    policies: list[Json] = field(default_factory=list)


@dataclass
class World:
    server: orcas.Server
    root: Signer
    principals: list[Principal]
    owners: dict[str, str]
    policies: dict[str, Json | None] = field(default_factory=dict)
    restricted: set[str] = field(default_factory=set)
    keys: dict[str, set[str]] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    iams: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with orcas.Server(memory=True) as server:
        transport = HttpTransport(server.endpoint)
        session = Session(transport, (server.access_key, server.secret_key), server.region)

        def call(action: str, account: str | None, **parameters: str) -> Any:
            return session.admin("POST", "iam", {"action": action, "parameters": parameters, "account": account})

        numbers = [account["AccountId"] for account in call("ListAccounts", None)["Accounts"]]
        numbers.append(call("CreateAccount", None, AccountName="second")["Account"]["AccountId"])
        first = Signer.of(server)

        def signer(key: Json) -> Signer:
            return dataclasses.replace(first, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])

        second = signer(call("CreateAccessKey", numbers[1])["AccessKey"])
        principals = [Principal(ANONYMOUS, None, "anonymous"), Principal(root(numbers[1]), second, "root")]
        for number, name in zip([numbers[0]] * 3 + [numbers[1]] * 2, ("ana", "ben", "cem", "dia", "eli"), strict=True):
            call("CreateUser", number, UserName=name)
            key = call("CreateAccessKey", number, UserName=name)["AccessKey"]
            principals.append(Principal(user(name, number), signer(key), name))
        transport.close()
        made = World(server, first, principals, {"one-x": numbers[0], "one-y": numbers[0], "two-z": numbers[1]})
        for number, keys in zip(numbers, (first, second), strict=True):
            options = {"aws_access_key_id": keys.access_key, "aws_secret_access_key": keys.secret_key}
            made.clients[number] = server.client(**options)
            made.iams[number] = server.client("iam", **options)
        for bucket, number in made.owners.items():
            made.clients[number].create_bucket(Bucket=bucket)
        yield made
        for client in (*made.clients.values(), *made.iams.values()):
            client.close()


def statement(rng: random.Random, world: World, bucket: str | None) -> Json:
    """A statement of a bucket's policy, or of a user's."""
    actions = rng.sample([*ACTIONS, "s3:Get*", "s3:*"], rng.randint(1, 3))
    if bucket is not None and rng.random() < 0.5:
        actions = ["s3:*"]
    buckets = [bucket] if bucket is not None else [*world.owners, "one-*", "*"]
    places = ["", rng.choice(("/*", "/a*", "/a", "/?"))]
    found: Json = {
        "Effect": "Deny" if rng.random() < 0.15 else "Allow",
        "Action": actions,
        "Resource": [f"arn:aws:s3:::{rng.choice(buckets)}{place}" for place in places],
    }
    if bucket is not None:
        named = [each.identity["arn"] for each in world.principals if each.identity["arn"]]
        accounts = [f"arn:aws:iam::{number}:root" for number in set(world.owners.values())]
        principal = rng.choice(["*", {"AWS": rng.sample([*named, *accounts], 2)}])
        # With Allow, NotPrincipal allows everybody else, and anonymous senders too.
        found[
            "NotPrincipal" if found["Effect"] == "Deny" and principal != "*" and rng.random() < 0.3 else "Principal"
        ] = principal
    condition = rng.choice(
        [
            *(None,) * 6,
            {"IpAddress": {"aws:SourceIp": rng.choice(["127.0.0.0/8", "192.0.2.0/24"])}},
            {"StringLike": {"s3:prefix": "a*"}},
            {"StringNotEquals": {"aws:username": rng.choice(["ana", "dia"])}},
            {"StringEqualsIfExists": {"aws:username": ["ana", "ben", "eli"]}},
            {"Bool": {"aws:SecureTransport": "false"}},
            {"Null": {"s3:x-amz-tagging": rng.choice(["true", "false"])}},
            {"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a"]}},
        ]
    )
    if condition is not None:
        found["Condition"] = condition
    return found


def policy(rng: random.Random, world: World, bucket: str | None = None) -> Json:
    statements = [statement(rng, world, bucket) for _ in range(rng.randint(1, 3))]
    return {"Version": "2012-10-17", "Statement": statements}


def arrange(rng: random.Random, world: World) -> None:
    """Give users and buckets other policies, as far as the server takes them."""
    for principal in world.principals[2:]:
        iam = world.iams[principal.identity["account"]]
        for number in range(len(principal.policies)):
            iam.delete_user_policy(UserName=principal.name, PolicyName=str(number))
        principal.policies = [policy(rng, world) for _ in range(rng.choice((0, 1, 2, 3)))]
        for number, document in enumerate(principal.policies):
            iam.put_user_policy(UserName=principal.name, PolicyName=str(number), PolicyDocument=json.dumps(document))
    # The root of the store, whom no policy concerns.
    s3 = next(iter(world.clients.values()))
    for bucket in world.owners:
        blocks = {"BlockPublicPolicy": rng.random() < 0.3, "RestrictPublicBuckets": rng.random() < 0.5}
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=blocks)
        s3.delete_bucket_policy(Bucket=bucket)
        world.policies[bucket] = policy(rng, world, bucket) if rng.random() < 0.8 else None
        document = world.policies[bucket]
        world.restricted.discard(bucket)
        if document is None:
            continue
        try:
            s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document), ConfirmRemoveSelfBucketAccess=True)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            # An action without a resource that it applies to, or a public policy that is blocked.
            assert code == "MalformedPolicy" or (code == "AccessDenied" and blocks["BlockPublicPolicy"]), error
            world.policies[bucket] = None
            continue
        if blocks["RestrictPublicBuckets"] and s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]:
            world.restricted.add(bucket)


def is_allowed(world: World, principal: Principal, action: str, bucket: str, key: str, context: Any) -> bool:
    owner = world.owners[bucket]
    request = {
        "principal": principal.identity,
        "identity": principal.policies,
        "boundary": None,
        "session": None,
        "resource_policy": world.policies[bucket],
        "resource_account": owner,
        "action": action,
        "resource": f"arn:aws:s3:::{bucket}" + ("" if action in OF_BUCKETS else f"/{key}"),
        "context": context,
    }
    if principal.identity["account"] != owner and bucket in world.restricted:
        return False
    return str(evaluate(request)["decision"]) == "allowed"


def sent(world: World, principal: Principal, method: str, path: str, query: str, headers: Any, body: bytes) -> Answer:
    pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)]
    if principal.signer is not None:
        return principal.signer.roundtrip(principal.signer.request(method, path, pairs, headers, body), method)
    target = path + (f"?{query}" if query else "")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return world.root.roundtrip(head.encode() + body, method)


def check(rng: random.Random, world: World) -> None:
    """One request: its status, and its code if it is refused, are the model's."""
    name = rng.choice(list(REQUESTS))
    principal, bucket, key = rng.choice(world.principals), rng.choice(list(world.owners)), rng.choice(KEYS)
    method, query, actions = REQUESTS[name]
    context = {"aws:SourceIp": ["127.0.0.1"], "aws:SecureTransport": ["false"]}
    if principal.identity["kind"] == "user":
        context["aws:username"] = [principal.name]
    stranger = dict(context)
    headers = []
    if name == "list" and rng.random() < 0.7:
        prefix = rng.choice(("a", "b"))
        query += f"&prefix={prefix}"
        context["s3:prefix"] = [prefix]
    if name == "write with tags":
        tags = rng.choice(("a=1", "b=1", "a=1&b=2"))
        headers.append(("x-amz-tagging", tags))
        context["s3:x-amz-tagging"] = [tags]
        context["s3:RequestObjectTagKeys"] = [tag[0] for tag in tags.split("&")]
    allowed = all(is_allowed(world, principal, action, bucket, key, context) for action in actions)
    there = world.keys.setdefault(bucket, set())
    expected, code = (200, "") if allowed else (403, "AccessDenied")
    if allowed and name == "delete":
        expected = 204
        there.discard(key)
    elif allowed and name.startswith("write"):
        there.add(key)
    elif allowed and name in {"read", "head", "read tags"} and key not in there:
        # Whoever may not list the bucket does not learn that the key does not exist.
        may_list = is_allowed(world, principal, "s3:ListBucket", bucket, key, stranger)
        expected, code = (404, "NoSuchKey") if may_list else (403, "AccessDenied")
    elif allowed and name == "read the policy" and world.policies[bucket] is None:
        expected, code = 404, "NoSuchBucketPolicy"
    path = f"/{bucket}" if name in OWNED else f"/{bucket}/{key}"
    body = b"text" if method == "PUT" else b""
    answer = sent(world, principal, method, path, query, headers, body)
    told = f"{principal.identity['arn']}: {name} {path}?{query} {headers}: {answer}, not {expected} {code}"
    assert answer.status == expected, told
    if code and method != "HEAD":
        found = re.search(rb"<Code>([^<]*)", answer.body)
        assert found is not None, told
        assert found[1].decode() == code, told


@pytest.mark.parametrize(
    ("seeds", "requests"),
    [
        pytest.param(range(12), 100, id="some"),
        pytest.param(range(100, 600), 100, id="50,000 requests", marks=pytest.mark.full),
    ],
)
def test_no_answer_differs_from_the_model(world: World, seeds: range, requests: int) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        arrange(rng, world)
        for number in range(requests):
            try:
                check(rng, world)
            except AssertionError as error:
                policies = {each.name: each.policies for each in world.principals} | world.policies
                pytest.fail(
                    f"seed {seed}, request {number}: {error}\n{json.dumps(policies, indent=1)}\n{world.restricted}"
                )
