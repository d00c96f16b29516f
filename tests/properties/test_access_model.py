"""Two accounts, five users and three buckets with random policies, access control lists and blocks: no answer differs from
the model's.

The model decides with the evaluator in Python that was written from AWS's documentation (`policies/reference.py`), and with
lists as docs/access.md describes them.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

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
    "read the list": ("GET", "acl", ("s3:GetObjectAcl",)),
    "read the list of the bucket": ("GET", "acl", ("s3:GetBucketAcl",)),
    "list": ("GET", "list-type=2", ("s3:ListBucket",)),
    "read the policy": ("GET", "policy", ("s3:GetBucketPolicy",)),
}
ACTIONS = sorted({action for _, _, actions in REQUESTS.values() for action in actions})
OF_BUCKETS = {"s3:ListBucket", "s3:GetBucketPolicy", "s3:GetBucketAcl"}
OWNED = {"list", "read the policy", "read the list of the bucket"}
READS = {"read", "head", "read tags", "read the list"}
# What a list of the bucket, or of the object, must give for an action.
BY_BUCKET = {
    "s3:ListBucket": "READ",
    "s3:PutObject": "WRITE",
    "s3:DeleteObject": "WRITE",
    "s3:GetBucketAcl": "READ_ACP",
}
BY_OBJECT = {"s3:GetObject": "READ", "s3:GetObjectAcl": "READ_ACP"}
EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
SIGNERS = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"


@dataclass
class Acl:
    """The account that owns something, and what it gives: a number of an account or a group, and a permission."""

    owner: str
    grants: list[tuple[str, str]]

    @classmethod
    def private(cls, owner: str) -> Acl:
        """What nobody else is given anything of."""
        return cls(owner, [(owner, "FULL_CONTROL")])

    def gives(self, wanted: str, *grantees: str) -> bool:
        return any(who in grantees and what in {wanted, "FULL_CONTROL"} for who, what in self.grants)


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
    keys: dict[str, dict[str, Acl]] = field(default_factory=dict)
    # Of buckets whose lists are enabled.
    acls: dict[str, Acl] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    # The canonical ids of accounts.
    ids: dict[str, str] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    iams: dict[str, Any] = field(default_factory=dict)


def root_number(server: orcas.Server) -> str:
    """The number of the account of the store's root."""
    client = server.client("sts")
    try:
        return str(client.get_caller_identity()["Account"])
    finally:
        client.close()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with orcas.Server(memory=True) as server:
        transport = HttpTransport(server.endpoint)
        session = Session(transport, (server.access_key, server.secret_key), server.region)

        def call(action: str, account: str | None, **parameters: str) -> Any:
            return session.admin("POST", "iam", {"action": action, "parameters": parameters, "account": account})

        call("CreateAccount", None, AccountName="second")
        ids = {account["AccountId"]: account["CanonicalId"] for account in call("ListAccounts", None)["Accounts"]}
        numbers = sorted(ids, key=lambda number: number != root_number(server))
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
        made.ids = ids
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
        blocks = {
            "BlockPublicPolicy": rng.random() < 0.3,
            "RestrictPublicBuckets": rng.random() < 0.5,
            "IgnorePublicAcls": rng.random() < 0.3,
        }
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=blocks)
        # Without a list, the status of the bucket is that of its policy.
        close_lists(world, s3, bucket)
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
    for bucket in world.owners:
        if rng.random() < 0.7:
            open_lists(rng, world, s3, bucket)


def close_lists(world: World, s3: Any, bucket: str) -> None:
    if bucket in world.acls:
        s3.put_bucket_acl(Bucket=bucket, ACL="private")
        del world.acls[bucket]
    controls = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=controls)


def open_lists(rng: random.Random, world: World, s3: Any, bucket: str) -> None:
    """Give a bucket and the objects in it lists of their own."""
    controls = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=controls)
    status = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    world.ignored.discard(bucket)
    if status["IgnorePublicAcls"]:
        world.ignored.add(bucket)
    world.acls[bucket] = acl = grants(rng, world, world.owners[bucket])
    s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=document(world, acl))
    there = world.keys.setdefault(bucket, {})
    for key, former in there.items():
        if rng.random() < 0.7:
            there[key] = acl = grants(rng, world, former.owner)
            s3.put_object_acl(Bucket=bucket, Key=key, AccessControlPolicy=document(world, acl))


def grants(rng: random.Random, world: World, owner: str) -> Acl:
    grantees = [*world.ids, EVERYBODY, SIGNERS]
    permissions = ["READ", "WRITE", "READ_ACP", "FULL_CONTROL"]
    given = [(rng.choice(grantees), rng.choice(permissions)) for _ in range(rng.choice((0, 1, 1, 2)))]
    # An owner may take the rights to the content from itself.
    return Acl(owner, given if rng.random() < 0.2 else [(owner, "FULL_CONTROL"), *given])


def document(world: World, acl: Acl) -> Json:
    def grantee(who: str) -> Json:
        return {"Type": "Group", "URI": who} if who[0] == "h" else {"Type": "CanonicalUser", "ID": world.ids[who]}

    given = [{"Grantee": grantee(who), "Permission": what} for who, what in acl.grants]
    return {"Owner": {"ID": world.ids[acl.owner]}, "Grants": given}


def decided(world: World, principal: Principal, action: str, bucket: str, key: str, context: Any) -> str:
    """`allowed`, `denied`, or `missing` for an object that is not there, as whoever may list the bucket is told."""
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
    account = principal.identity["account"]
    if account != owner and bucket in world.restricted:
        return "denied"
    decision = str(evaluate(request)["decision"])
    allowed = decision == "allowed"
    wanted = BY_BUCKET.get(action) or BY_OBJECT.get(action)
    if decision == "explicitDeny" or bucket not in world.acls or wanted is None:
        return "allowed" if allowed else "denied"
    # An account that is given something lets its users have it by their own policies.
    own = {**request, "resource_policy": None, "resource_account": account}
    signs = principal.signer is not None
    by_name = signs and evaluate(own)["decision"] == "allowed"
    to_everybody = bucket not in world.ignored and (not signs or account == owner or by_name)
    if action in BY_BUCKET and allowed:
        return "allowed"
    if not allowed and not by_name and not to_everybody:
        return "denied"
    acl = world.acls[bucket] if action in BY_BUCKET else world.keys.get(bucket, {}).get(key)
    if acl is None:
        if allowed:
            return "allowed"
        listed = {name: value for name, value in context.items() if name != "s3:prefix"}
        return "missing" if decided(world, principal, "s3:ListBucket", bucket, key, listed) == "allowed" else "denied"
    if allowed and acl.owner == owner:
        return "allowed"
    everybody = (EVERYBODY, SIGNERS) if signs else (EVERYBODY,)
    may_read_list = by_name and wanted == "READ_ACP" and acl.owner == account
    given = to_everybody and acl.gives(wanted, *everybody)
    return "allowed" if given or may_read_list or (by_name and acl.gives(wanted, account)) else "denied"


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
    decisions = {decided(world, principal, action, bucket, key, context) for action in actions}
    allowed = decisions == {"allowed"}
    there = world.keys.setdefault(bucket, {})
    expected, code = (200, "") if allowed else (403, "AccessDenied")
    if decisions == {"missing"}:
        expected, code = 404, "NoSuchKey"
    elif allowed and name == "delete":
        expected = 204
        there.pop(key, None)
    elif allowed and name.startswith("write"):
        writer = principal.identity["account"] if bucket in world.acls else None
        there[key] = Acl.private(writer or world.owners[bucket])
    elif allowed and name in READS and key not in there:
        # Whoever may not list the bucket does not learn that the key does not exist.
        may_list = decided(world, principal, "s3:ListBucket", bucket, key, stranger) == "allowed"
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


_FIRST: Final = range(100, 600, 50)


@pytest.mark.parametrize(
    ("seeds", "requests"),
    [
        pytest.param(range(12), 100, id="some"),
        # 50,000 requests, in parts that run beside each other and end in time on a busy machine.
        *(pytest.param(range(first, first + 50), 100, id=f"from {first}", marks=pytest.mark.full) for first in _FIRST),
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
                    f"\nlists {world.acls}, ignored {world.ignored}, objects {world.keys}"
                )
