"""Each operation of the admin API with users of every kind: root, and whoever is allowed its action, and nobody else."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.api.test_admin import ROOT, URL, Client, untouched
from tests.fixtures.signing import Identity, signed_headers

from orcas.admin.rights import ACTIONS, SIGNED
from orcas.serving.app import Orcas
from orcas.settings.config import resolve

ALL: Final = {"Effect": "Allow", "Action": "*", "Resource": "*"}
S3: Final = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}


class Site:
    """An application with users."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.made = 0

    async def iam(self, action: str, account: str | None = None, **parameters: Any) -> Any:
        order = {"action": action, "parameters": parameters, "account": account}
        status, answer = await self.client.ask("POST", "iam", order)
        assert status == 200, answer
        return answer

    async def user(
        self, *statements: Any, account: str | None = None, session: Any = None, boundary: str | None = None
    ) -> Identity:
        """A user with these statements; `session`: with that of its key; `boundary`: an ARN."""
        self.made += 1
        name = f"u{self.made}"
        bound = {"PermissionsBoundary": boundary} if boundary else {}
        await self.iam("CreateUser", account, UserName=name, **bound)
        if statements:
            await self.allow(name, *statements, account=account)
        narrowed = {} if session is None else {"SessionPolicy": json.dumps({"Statement": [session]})}
        key = (await self.iam("CreateAccessKey", account, UserName=name, **narrowed))["AccessKey"]
        return Identity(key["AccessKeyId"], key["SecretAccessKey"], "us-east-1")

    async def allow(self, name: str, *statements: Any, account: str | None = None) -> None:
        """Give a user these statements, in place of those that it has."""
        document = json.dumps({"Statement": list(statements)})
        await self.iam("PutUserPolicy", account, UserName=name, PolicyName="p", PolicyDocument=document)

    async def account(self, name: str) -> str:
        """Its number."""
        return str((await self.client.ask("POST", "accounts", {"name": name}))[1]["Account"]["AccountId"])

    async def put(self, target: str, body: bytes = b"", identity: Identity = ROOT) -> int:
        headers = signed_headers(identity, "PUT", URL + target, {"content-length": str(len(body))}, body)
        return (await self.client.exchange("PUT", target, headers, body))[0]

    async def status(self, method: str, path: str, identity: Identity, order: Any = None) -> int:
        return (await self.client.ask(method, path, order, identity))[0]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    keys = {"root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key}
    app = Orcas(resolve({"data": str(tmp_path / "data"), **keys}, ambient=False).settings)
    async with app.router.lifespan_context(app):
        yield Site(Client(app))


def operations(app: Orcas) -> list[tuple[str, str]]:
    """All of them, with and without an action."""
    return [(method, route.path) for route in app._admin.routes for method in sorted(route.methods)]  # type: ignore[attr-defined]


def place(path: str) -> str:
    """A path for requests: names are of nothing, but for the bucket."""
    return re.sub(r"\{\w+\}", "none", path.replace("{bucket}", "box"))[1:]


async def test_every_action_is_of_an_operation(site: Site) -> None:
    known = operations(site.client.app)
    assert set(ACTIONS) <= set(known)
    assert all(re.fullmatch(r"orcas:[A-Z]\w+", action) for action in ACTIONS.values() if action != SIGNED)
    alone = {(method, path) for method, path in known if (method, path) not in ACTIONS and path[:6] != "/test/"}
    # What makes somebody root, what nobody can undo for all accounts, what reaches other machines, and backups.
    assert alone == {
        ("POST", "/iam"), ("POST", "/iam/export"), ("POST", "/iam/root-key"), ("POST", "/keys"), ("POST", "/keys/action"),
        ("POST", "/keys/accept-older"), ("PUT", "/keys/master"), ("PUT", "/origins"), ("DELETE", "/origins/{bucket}"),
        ("PUT", "/replication/targets"), ("DELETE", "/replication/targets/{name}"),
        ("POST", "/replication/targets/{name}/test"), ("POST", "/replication/rules"),
        ("POST", "/replication/retry"), ("POST", "/replication/verify"),
        ("POST", "/move"), ("POST", "/backup-pins"), ("PUT", "/backup-pins/{name}"), ("DELETE", "/backup-pins/{name}"),
        ("POST", "/cluster/move"), ("POST", "/cluster/check"), ("GET", "/cluster/files"), ("GET", "/cluster/jobs/{name}"),
        ("DELETE", "/cluster/jobs/{name}"),
        ("POST", "/standby/rounds"), ("GET", "/standby/rounds/{pin}/files/{folder}/{name}"),
    }  # fmt: skip


async def test_operations_are_for_whom_policies_allow_them(site: Site) -> None:
    """Each operation, by users without a policy, with others, with a Deny, with an Allow, and in another account."""
    assert await site.put("/box") == 200
    bound = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
    other = await site.account("other")
    root_of_other = (await site.iam("CreateAccessKey", other))["AccessKey"]
    narrow = {"Effect": "Deny", "Action": "orcas:*", "Resource": "*"}
    everywhere = {
        "without": await site.user(),
        "with S3 alone": await site.user(S3),
        "within a boundary": await site.user(ALL, boundary=bound),
        "whose key denies": await site.user(ALL, session=narrow),
        "whose key allows S3": await site.user(ALL, session=S3),
        "in another account": await site.user(ALL, account=other),
        "root of another account": Identity(
            root_of_other["AccessKeyId"], root_of_other["SecretAccessKey"], "us-east-1"
        ),
    }
    administrator = await site.user(ALL)
    # With another policy for each action.
    several = {name: (await site.user(), f"u{site.made}") for name in ("denied", "everything else", "one")}
    wrong = []
    store = site.client.app.store
    assert store is not None
    for method, path in operations(site.client.app):
        action = ACTIONS.get((method, path))
        if action == SIGNED:
            continue
        refused = dict(everywhere)
        if action is None:
            refused["administrator"] = administrator
        else:
            await site.allow(several["denied"][1], ALL, {"Effect": "Deny", "Action": action, "Resource": "*"})
            await site.allow(several["everything else"][1], {"Effect": "Allow", "NotAction": action, "Resource": "*"})
            refused |= {name: several[name][0] for name in ("denied", "everything else")}
        # Nothing of the store is asked before the decision.
        site.client.app.store = untouched(store)
        for name, identity in refused.items():
            if await site.status(method, place(path), identity) != 403:
                wrong.append((method, path, name))
        site.client.app.store = store
        if action is not None:
            one = several["one"][0]
            await site.allow(several["one"][1], {"Effect": "Allow", "Action": action, "Resource": "*"})
            # Most have no body, and name nothing that exists: they are decided on before that is noticed.
            allowed = [await site.status(method, place(path), identity) for identity in (one, administrator, ROOT)]
            if 403 in allowed:
                wrong.append((method, path, str(allowed)))
    assert wrong == []


async def test_a_right_to_one_bucket_is_no_right_to_another(site: Site) -> None:
    for bucket in ("box", "chest"):
        assert await site.put(f"/{bucket}") == 200
    one = await site.user({"Effect": "Allow", "Action": "orcas:*", "Resource": "arn:aws:s3:::box"})
    server = await site.user({"Effect": "Allow", "Action": "orcas:*", "Resource": "arn:aws:orcas:::server"})
    paths = ("buckets/box/snapshots", "buckets/chest/snapshots", "buckets%2Fchest/snapshots")
    assert [await site.status("GET", path, one) for path in paths] == [200, 403, 403]
    assert [await site.status("GET", path, server) for path in paths] == [403, 403, 403]
    assert await site.status("GET", "quotas", server) == 200
    assert await site.status("GET", "quotas", one) == 403


async def test_an_account_has_snapshots_of_its_own_buckets_alone(site: Site) -> None:
    """The bucket decides: it belongs to an account."""
    other = await site.account("other")
    theirs = await site.user(ALL, account=other)
    ours = await site.user(ALL)
    assert await site.put("/ours", identity=ours) == 200
    assert await site.put("/theirs", identity=theirs) == 200
    for identity, expected in ((theirs, [200, 403]), (ours, [403, 200])):
        found = [await site.status("GET", f"buckets/{name}/snapshots", identity) for name in ("theirs", "ours")]
        assert found == expected


async def test_sessions_of_roles_may_what_their_policies_allow(site: Site) -> None:
    """Temporary credentials do, too; root alone is root by its key alone."""
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    await site.iam("CreateRole", RoleName="watch", AssumeRolePolicyDocument=json.dumps({"Statement": [trust]}))
    arn = (await site.iam("GetRole", RoleName="watch"))["Role"]["Arn"]
    document = json.dumps({"Statement": [{"Effect": "Allow", "Action": "orcas:Get*", "Resource": "*"}]})
    await site.iam("PutRolePolicy", RoleName="watch", PolicyName="p", PolicyDocument=document)
    directory = site.client.app.store.parts.identities  # type: ignore[union-attr]
    assert directory is not None
    identities = await directory.identities()
    caller = await site.user(ALL)
    for policy, expected in ((None, [200, 403, 403]), (S3, [403, 403, 403])):
        narrowed = {} if policy is None else {"Policy": json.dumps({"Statement": [policy]})}
        given = {"RoleArn": arn, "RoleSessionName": "watching", **narrowed}
        answer = await identities.perform("AssumeRole", given, access_key=caller.access_key, service="sts")
        made = answer["Credentials"]
        session = dataclasses.replace(
            caller,
            access_key=made["AccessKeyId"],
            secret_key=made["SecretAccessKey"],
            session_token=made["SessionToken"],
        )
        found = [await site.status("GET", path, session) for path in ("about", "quotas")]
        found.append(await site.status("POST", "backup-pins", session))
        assert found == expected
    answer = await identities.perform("GetSessionToken", {}, access_key=ROOT.access_key, service="sts")
    made = answer["Credentials"]
    temporary = Identity(made["AccessKeyId"], made["SecretAccessKey"], "us-east-1", session_token=made["SessionToken"])
    assert await site.status("GET", "about", temporary) == 200
    for method, path in (("POST", "iam/root-key"), ("POST", "iam"), ("POST", "backup-pins")):
        assert await site.status(method, path, temporary) == 403


async def test_the_audit_log_names_who_did_it(site: Site) -> None:
    operator = await site.user(ALL)
    assert await site.put("/box") == 200
    quota = {"bucket": "box", "bytes": 5}
    assert await site.status("PUT", "quotas", operator, quota) == 200
    assert await site.status("PUT", "quotas", operator, {"bucket": "none", "bytes": 5}) == 404
    assert await site.status("POST", "accounts", operator, {"name": "more"}) == 201
    assert await site.status("PUT", "limits", operator, {"user": "u1", "requests": 1_000}) == 200
    assert await site.status("PUT", "quotas", ROOT, quota) == 200
    _, found = await site.client.ask("GET", "audit", identity=operator)
    by_user = [line for line in found["lines"] if line.get("access_key") == operator.access_key]
    lines = [line for line in by_user if line["action"] != "NotInEffect"]
    assert [line["action"] for line in reversed(lines)] == [
        "orcas:PutQuota", "orcas:PutQuota", "CreateAccount", "PutLimits",
    ]  # fmt: skip
    assert {line["actor"].rpartition("/")[2] for line in lines} == {"u1"}
    written = lines[-1]["parameters"]
    assert (written["Path"], json.loads(written["Body"])) == ("/quotas", quota)
    # The second was refused.
    undone = [line["parameters"] for line in found["lines"] if line["action"] == "NotInEffect"]
    assert undone == [{"From": lines[-2]["sequence"], "To": lines[-2]["sequence"]}]


async def test_a_captured_order_of_a_user_does_not_take_effect_again(site: Site) -> None:
    operator = await site.user(ALL)
    assert await site.put("/box") == 200
    captured = site.client.signed("PUT", "quotas", {"bucket": "box", "bytes": 5}, operator)
    assert [(await site.client.send(*captured))[0] for _ in range(2)] == [200, 409]
    # Who may not do it uses up nothing.
    nobody = await site.user()
    refused = site.client.signed("PUT", "quotas", {"bucket": "box", "bytes": 5}, nobody)
    assert [(await site.client.send(*refused))[0] for _ in range(2)] == [403, 403]
