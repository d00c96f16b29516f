"""What the engine is told of a change, and what of it is still there after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.control import OneKey, control_of, pairs_of, snapshot_of
from tests.fixtures.iam.directory import Iam, iam_of
from tests.unit.identities.test_actions import FULL, READ, TRUST

from orcas.control.cipher import read_cipher
from orcas.control.database import read_database
from orcas.control.files.twice import read_copy
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import account_number
from orcas.control.identities.schema import SCHEMA_VERSION
from orcas.control.identities.snapshot import Delta, IdentitySnapshot
from orcas.control.keys import root_pair
from orcas.control.store import open_control, prepared
from orcas.errors import UnavailableError


@pytest.fixture
async def iam(tmp_path: Path) -> AsyncIterator[Iam]:
    async with iam_of(tmp_path) as opened:
        yield opened


def changed(snapshot: IdentitySnapshot, delta: Delta) -> dict[str, Any]:
    """What an engine has after a change, by id."""
    known = rows(snapshot)
    for gone in (*delta.removed, *(("limits", of) for of in (*delta.removed, *(row[0] for row in delta.limits)))):
        known.pop(gone, None)
    return known | rows(IdentitySnapshot(delta.accounts, delta.policies, delta.identities, delta.keys, delta.limits))


def rows(snapshot: IdentitySnapshot) -> dict[str, Any]:
    kinds = (snapshot.accounts, snapshot.policies, snapshot.identities, snapshot.keys)
    limits = {("limits", of): rates for of, *rates in snapshot.limits if any(rates)}
    return {row[0]: row[1:] for kind in kinds for row in kind} | limits


async def test_changes_add_up_to_the_whole(iam: Iam) -> None:
    """After every action, what the engine knows is what a start would tell it."""
    known = await iam.identities.snapshot()

    async def call(action: str, **given: Any) -> Any:
        nonlocal known
        iam.engine.deltas.clear()
        # AWS has no limits.
        perform = iam.identities.perform(action, given) if action == "PutLimits" else iam.call(action, **given)
        answer = await perform
        (delta,) = iam.engine.deltas
        after = await iam.identities.snapshot()
        assert changed(known, delta) == rows(after), action
        known = after
        return answer

    await call("CreateGroup", GroupName="g")
    await call("PutGroupPolicy", GroupName="g", PolicyName="of-group", PolicyDocument=READ)
    await call("CreateUser", UserName="u", Tags=[{"Key": "a", "Value": "b"}])
    await call("AddUserToGroup", GroupName="g", UserName="u")
    arn = (await call("CreatePolicy", PolicyName="p", Path="/x/", PolicyDocument=READ))["Policy"]["Arn"]
    await call("AttachGroupPolicy", GroupName="g", PolicyArn=arn)
    await call("AttachUserPolicy", UserName="u", PolicyArn=FULL)
    await call("PutUserPolicy", UserName="u", PolicyName="own", PolicyDocument=READ)
    await call("PutUserPermissionsBoundary", UserName="u", PermissionsBoundary=arn)
    _, _, _, unique, _, policies, boundary, tags = next(row for row in known.identities if row[4] == "u")
    group = next(policy for policy, _ in known.policies if policy.endswith("/of-group"))
    assert policies == [f"{unique}/own", FULL, group, arn]
    assert (boundary, tags) == (arn, [("a", "b")])
    key = (await call("CreateAccessKey", UserName="u"))["AccessKey"]["AccessKeyId"]
    service = (await call("CreateAccessKey", UserName="u", SessionPolicy=READ))["AccessKey"]["AccessKeyId"]
    assert next(row for row in known.keys if row[0] == service)[3:] == (f"session:{service}", True)
    await call("UpdateAccessKey", UserName="u", AccessKeyId=key, Status="Inactive")
    await call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=READ.replace("photos", "x"), SetAsDefault=True)
    await call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=READ.replace("photos", "y"))
    await call("SetDefaultPolicyVersion", PolicyArn=arn, VersionId="v3")
    await call("PutLimits", UserName="u", RequestsPerSecond=5, BytesPerSecond=10**12)
    await call("PutLimits", AccessKeyId=service, RequestsPerSecond=7)
    assert sorted(rates for _, *rates in known.limits) == [[5, 10**12], [7, 0]]
    await call("UpdateUser", UserName="u", NewUserName="v", NewPath="/y/")
    await call("UpdateGroup", GroupName="g", NewGroupName="h")
    await call("TagUser", UserName="v", Tags=[{"Key": "A", "Value": "c"}])
    await call("UntagUser", UserName="v", TagKeys=["a"])
    await call("PutGroupPolicy", GroupName="h", PolicyName="of-group", PolicyDocument=READ.replace("photos", "z"))
    await call("DeleteGroupPolicy", GroupName="h", PolicyName="of-group")
    await call("DetachGroupPolicy", GroupName="h", PolicyArn=arn)
    await call("RemoveUserFromGroup", GroupName="h", UserName="v")
    await call("DeleteGroup", GroupName="h")
    await call("CreateRole", RoleName="r", AssumeRolePolicyDocument=TRUST)
    await call("AttachRolePolicy", RoleName="r", PolicyArn=arn)
    await call("UpdateRole", RoleName="r", Description="x")
    await call("DetachRolePolicy", RoleName="r", PolicyArn=arn)
    await call("DeleteRole", RoleName="r")
    await call("DeleteUserPermissionsBoundary", UserName="v")
    for version in ("v1", "v2"):
        await call("DeletePolicyVersion", PolicyArn=arn, VersionId=version)
    await call("DeletePolicy", PolicyArn=arn)
    for each in (key, service):
        await call("DeleteAccessKey", UserName="v", AccessKeyId=each)
    await call("DetachUserPolicy", UserName="v", PolicyArn=FULL)
    await call("DeleteUserPolicy", UserName="v", PolicyName="own")
    await call("DeleteUser", UserName="v")


async def test_accounts_have_their_own_identities(iam: Iam) -> None:
    made = (await iam.identities.perform("CreateAccount", {"AccountName": "other"}))["Account"]
    number = made["AccountId"]
    assert number == account_number(made["CanonicalId"]) != iam.number
    with pytest.raises(IamError, match="already exists"):
        await iam.identities.perform("CreateAccount", {"AccountName": "Other"})
    await iam.call("CreateUser", UserName="u")
    await iam.call("CreateUser", UserName="u", account=number)
    assert (await iam.call("GetUser", UserName="u", account=number))["User"]["Arn"].split(":")[4] == number
    key = (await iam.identities.perform("CreateAccessKey", {}, account=number))["AccessKey"]["AccessKeyId"]
    row = next(row for row in (await iam.identities.snapshot()).keys if row[0] == key)
    assert row[2] == f"arn:aws:iam::{number}:root"
    # The root of an account sees what is its own, and makes no accounts.
    assert len((await iam.call("ListUsers", access_key=key))["Users"]) == 1
    await iam.call("DeleteUser", UserName="u", access_key=key)
    await iam.refused("CreateAccount", "InvalidAction", access_key=key, AccountName="third")
    await iam.call("GetUser", UserName="u")
    await iam.refused("GetUser", "NoSuchEntity", account="1" * 12)
    await iam.refused("CreateAccessKey", "UnmodifiableEntity")


async def test_identities_are_there_after_a_restart(tmp_path: Path) -> None:
    sealer = OneKey()
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="u")
        await iam.call("CreateAccessKey", UserName="u")
        await iam.call("CreateAccessKey", UserName="u", SessionPolicy=READ)
        before = await iam.identities.snapshot()
    assert await snapshot_of(tmp_path) == before
    assert await snapshot_of(tmp_path, sealer=sealer) == before
    assert await snapshot_of(tmp_path, sealer=sealer) == before


async def test_the_copy_follows_each_change(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    async with iam_of(tmp_path) as iam:
        await asyncio.gather(*(iam.call("CreateUser", UserName=f"u{number}") for number in range(20)))
    assert read_copy(path) == path.read_bytes() == read_database(path, [], "").content
    path.write_bytes(b"damaged")
    async with iam_of(tmp_path) as iam:
        assert len((await iam.call("ListUsers"))["Users"]) == 20


async def test_a_change_is_in_effect_although_its_caller_is_gone(iam: Iam, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, going = asyncio.Event(), asyncio.Event()

    async def slow(records: Any, decrypt: Any, changes: Any) -> Any:
        waiting.set()
        await going.wait()
        return Delta((), (), (), (), ("told",))

    monkeypatch.setattr("orcas.control.identities.service.delta", slow)
    calling = asyncio.create_task(iam.call("CreateUser", UserName="u"))
    await waiting.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    going.set()
    await iam.identities.close()
    assert [delta.removed for delta in iam.engine.deltas] == [("told",)]
    assert len((await iam.call("ListUsers"))["Users"]) == 1


async def test_an_engine_that_does_not_take_a_change_is_told_everything(
    iam: Iam, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unfit(_: Delta) -> None:
        raise ValueError("there is no such policy")

    told: list[IdentitySnapshot] = []
    monkeypatch.setattr(iam.engine, "change", unfit)
    monkeypatch.setattr(iam.engine, "replace", told.append)
    await iam.call("CreateUser", UserName="u")
    assert told == [await iam.identities.snapshot()]
    assert "because it did not take a change: there is no such policy" in caplog.text


async def test_several_actions_are_all_done_or_none(iam: Iam) -> None:
    steps = [("CreateUser", {"UserName": "a"}), ("CreateUser", {"UserName": "b"}), ("CreateUser", {"UserName": "A"})]
    with pytest.raises(IamError, match="already exists"):
        await iam.identities.perform_all(steps)
    assert (await iam.call("ListUsers"))["Users"] == []
    assert iam.engine.deltas == []
    await iam.identities.perform_all(steps[:2])
    assert len(iam.engine.deltas) == 1


async def test_a_full_disk_changes_nothing(iam: Iam, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("orcas.control.identities.records.Records.add", full)
        assert "disk is full" in await iam.refused("CreateUser", "ServiceFailure", UserName="u")
    assert iam.engine.deltas == []
    await iam.call("CreateUser", UserName="u")


async def test_the_key_of_root_is_replaced(tmp_path: Path) -> None:
    async with control_of(tmp_path, "operator", "operators-secret") as control:
        iam = Iam(control, tmp_path)
        root = await control.rotate_root()
        pair = root.access_key, root.secret_key
        (delta,) = iam.engine.deltas
        assert delta.removed == ("operator",)
        assert pairs_of(await iam.identities.snapshot()) == [(delta.keys[0][0], delta.keys[0][1])] == [pair]
        assert root_pair(tmp_path, None, None, lambda: None) == pair
        again = await control.rotate_root()
        assert again.access_key != pair[0]
        pair = again.access_key, again.secret_key
    # A start without variables goes on with it, and one with variables does as they say.
    assert pairs_of(await snapshot_of(tmp_path)) == [pair]
    assert pairs_of(await snapshot_of(tmp_path, "operator", "operators-secret")) == [("operator", "operators-secret")]
    assert pairs_of(await snapshot_of(tmp_path)) == [pair]


async def test_a_new_root_key_is_sealed(tmp_path: Path) -> None:
    sealer = OneKey()
    async with control_of(tmp_path, sealer=sealer) as control:
        Iam(control, tmp_path)
        root = await control.rotate_root()
    assert root.secret_key.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.*"))
    assert pairs_of(await snapshot_of(tmp_path, sealer=sealer)) == [(root.access_key, root.secret_key)]


async def test_a_root_key_that_cannot_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise UnavailableError("root.json cannot be written: No space left on device.")

    async with control_of(tmp_path) as control:
        iam, before = Iam(control, tmp_path), control.root.access_key
        with monkeypatch.context() as patched:
            patched.setattr("orcas.control.store.replace_pair", full)
            with pytest.raises(UnavailableError):
                await control.rotate_root()
        assert (control.root.access_key, iam.engine.deltas) == (before, [])


SCHEMA_ONE = """
CREATE TABLE identities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE access_keys (
    access_key TEXT PRIMARY KEY, identity TEXT NOT NULL REFERENCES identities (id) ON DELETE CASCADE,
    nonce BLOB NOT NULL, secret BLOB NOT NULL, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX access_keys_of_identity ON access_keys (identity);
PRAGMA user_version = 1;
"""


async def test_a_store_of_the_first_schema_keeps_its_root(tmp_path: Path) -> None:
    before = await snapshot_of(tmp_path, "operator", "operators-secret")
    cipher, owner = read_cipher(tmp_path, None), before.accounts[0][1]
    assert cipher is not None
    path = tmp_path / "control.db"
    for old in (path, tmp_path / "control.db.copy"):
        old.unlink()
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA_ONE)
        connection.execute("INSERT INTO identities VALUES (?, 'root', 7)", (owner,))
        secret = cipher.encrypt("operator", owner, "operators-secret")
        connection.execute("INSERT INTO access_keys VALUES ('operator', ?, ?, ?, 8)", (owner, *secret))
    connection.close()
    # Tools know its key before a server has opened it.
    assert root_pair(tmp_path, None, None, lambda: None) == ("operator", "operators-secret")
    assert await snapshot_of(tmp_path, "operator", "operators-secret") == before
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT id, created_ms FROM accounts").fetchall() == [(owner, 7)]
        assert connection.execute("SELECT created_ms FROM access_keys").fetchall() == [(8,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_command_leaves_the_key_of_the_last_server(tmp_path: Path) -> None:
    await snapshot_of(tmp_path, "operator", "operators-secret")
    with prepared(tmp_path):
        async with open_control(tmp_path, None, None, None, follows=False) as control:
            await Iam(control, tmp_path).call("CreateUser", UserName="u")
    with sqlite3.connect(tmp_path / "control.db") as connection:
        assert connection.execute("SELECT access_key FROM access_keys").fetchall() == [("operator",)]
    connection.close()
