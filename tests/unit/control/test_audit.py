"""The audit log of changes of identities: what it says, what crashes and full disks leave, and how damage is found."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command
from tests.fixtures.control import control_of
from tests.fixtures.iam.directory import Iam, iam_of

from orcas.control.audit import verify
from orcas.control.files import audit
from orcas.control.files.audit import audit_files, is_about, read_audit
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import root_arn
from orcas.errors import OrcasError, UnavailableError

TRUST = '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}}'
READ = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "iam:CreateGroup", "Resource": "*"}}'


@pytest.fixture
async def iam(tmp_path: Path) -> AsyncIterator[Iam]:
    async with iam_of(tmp_path) as opened:
        yield opened


def lines(directory: Path) -> list[dict[str, Any]]:
    found = [read.content for read in read_audit(directory)]
    assert all(found)
    return [line for line in found if line is not None]


def actions(directory: Path) -> list[str]:
    return [line["action"] for line in lines(directory)]


async def test_a_line_says_who_has_changed_what(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="alice")
    made = (await iam.call("CreateAccessKey", UserName="alice"))["AccessKey"]
    await iam.call("PutUserPolicy", UserName="alice", PolicyName="p", PolicyDocument=READ)
    await iam.identities.perform(
        "CreateGroup", {"GroupName": "g"}, access_key=made["AccessKeyId"], context={"aws:SourceIp": ["192.0.2.1"]}
    )
    await iam.call("ListUsers")
    await iam.refused("CreateUser", "EntityAlreadyExists", UserName="alice")
    root = root_arn(iam.number)
    assert actions(iam.directory) == ["CreateUser", "CreateAccessKey", "PutUserPolicy", "CreateGroup"]
    user, key, policy, group = lines(iam.directory)
    assert (user["sequence"], user["actor"], user["parameters"]) == (1, root, {"UserName": "alice"})
    assert user["previous"] == "0" * 64
    assert "address" not in user
    assert key["parameters"] == {"UserName": "alice", "AccessKeyId": made["AccessKeyId"]}
    assert policy["parameters"]["PolicyDocument"] == json.dumps(json.loads(READ), separators=(",", ":"))
    assert group["actor"] == f"arn:aws:iam::{iam.number}:user/alice"
    assert (group["address"], group["access_key"], group["account"]) == ("192.0.2.1", made["AccessKeyId"], iam.number)
    assert made["SecretAccessKey"] not in audit_files(iam.directory)[0].read_text()
    assert audit_files(iam.directory)[0].stat().st_mode & 0o777 == 0o600
    first, last = verify(iam.directory)
    assert (first.sequence, last.sequence) == (1, 4)


async def test_the_white_space_of_a_policy_is_not_written_down(iam: Iam) -> None:
    said = READ.replace("CreateGroup", 'Create Group \\" *').replace(" ", " " * 5_000)
    await iam.call("CreateUser", UserName="alice")
    await iam.call("PutUserPolicy", UserName="alice", PolicyName="p", PolicyDocument=READ.replace(" ", " \n\t" * 5_000))
    assert "cut" not in lines(iam.directory)[1]
    assert json.loads(lines(iam.directory)[1]["parameters"]["PolicyDocument"]) == json.loads(READ)
    # In a string, it is a part of what is said.
    compact = audit._compact("PolicyDocument", said)
    assert json.loads(compact) == json.loads(said)


async def test_a_long_line_is_cut_and_what_was_cut_is_known_by_its_digest(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="alice")
    resources = [f"arn:aws:s3:::bucket-{n}/" + "x" * 200 for n in range(40)]
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": resources}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))
    await iam.call("CreateRole", RoleName="r", AssumeRolePolicyDocument=TRUST)
    await iam.call("PutRolePolicy", RoleName="r", PolicyName="p", PolicyDocument=policy)
    line = lines(iam.directory)[-1]
    assert line["cut"] == {
        "PolicyDocument": {"bytes": len(policy), "sha256": hashlib.sha256(policy.encode()).hexdigest()}
    }
    kept = line["parameters"].pop("PolicyDocument")
    assert policy.startswith(kept)
    assert line["parameters"] == {"RoleName": "r", "PolicyName": "p"}
    assert f"… ({len(policy)} bytes)" in command("audit", "--data", str(iam.directory))
    verify(iam.directory)


def test_no_line_is_longer_than_the_bound() -> None:
    for parameters in (
        {f"P{n}": "x" * 5_000 for n in range(5)},
        {f"P{n}": "\u2028" * 2_000 for n in range(20)},
        {f"P{n:04}": ["x"] for n in range(5_000)},
        {"x" * 100_000: 1},
        {"P": "\udfff" * 9_000},
    ):
        line = audit._line(audit.Entry("a" * 600, "CreateUser", parameters, "1" * 12), audit.START, "now")
        assert len(line) <= audit.LINE_MAX
        assert json.loads(line)["cut"]


async def test_several_steps_are_written_together_or_not_at_all(iam: Iam) -> None:
    await iam.identities.perform_all([("CreateUser", {"UserName": "a"}), ("CreateUser", {"UserName": "b"})])
    with pytest.raises(IamError):
        await iam.identities.perform_all([("CreateUser", {"UserName": "c"}), ("CreateUser", {"UserName": "a"})])
    assert [line["parameters"]["UserName"] for line in lines(iam.directory)] == ["a", "b"]


async def test_another_root_key_is_a_line(tmp_path: Path) -> None:
    async with iam_of(tmp_path) as iam:
        former = iam.control.root.access_key
        new = (await iam.control.rotate_root("192.0.2.1")).access_key
    async with control_of(tmp_path, "by-operator", "secret-of-operator"):
        pass
    rotated, replaced = lines(tmp_path)
    assert (rotated["action"], rotated["address"]) == ("RotateRootKey", "192.0.2.1")
    assert rotated["parameters"] == {"FormerAccessKeyId": former}
    assert (replaced["action"], replaced["parameters"]) == (
        "SetRootKey", {"FormerAccessKeyId": new, "AccessKeyId": "by-operator"},
    )  # fmt: skip
    verify(tmp_path)


async def test_a_start_writes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        async with iam_of(tmp_path):
            pass
    assert not (tmp_path / "audit").exists()
    assert verify(tmp_path)[1].sequence == 0


async def test_a_full_disk_refuses_the_change(iam: Iam, monkeypatch: pytest.MonkeyPatch) -> None:
    await iam.call("CreateUser", UserName="alice")
    before = audit_files(iam.directory)[0].read_bytes()
    write = os.write

    def full(descriptor: int, content: Any) -> int:
        if len(content) < 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, bytes(content[:40]))

    with monkeypatch.context() as patched:
        patched.setattr(audit.os, "write", full)
        told = await iam.refused("CreateUser", "ServiceFailure", UserName="bob")
        assert told == "The audit log cannot be written: No space left on device; make room."
        key = iam.control.root.access_key
        with pytest.raises(UnavailableError, match="No space left"):
            await iam.control.rotate_root()
        assert iam.control.root.access_key == key
    assert [user["UserName"] for user in (await iam.call("ListUsers"))["Users"]] == ["alice"]
    assert audit_files(iam.directory)[0].read_bytes() == before
    assert len(iam.engine.deltas) == 1
    await iam.call("CreateUser", UserName="bob")
    assert actions(iam.directory) == ["CreateUser", "CreateUser"]
    verify(iam.directory)


async def test_a_change_that_cannot_be_committed_is_said_to_be_not_in_effect(
    iam: Iam, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = iam.identities._connection

    async def fails() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "commit", fails)
        await iam.refused("CreateUser", "ServiceFailure", UserName="alice")
    await iam.call("CreateUser", UserName="bob")
    assert actions(iam.directory) == ["CreateUser", "NotInEffect", "CreateUser"]
    assert lines(iam.directory)[1]["parameters"] == {"From": 1, "To": 1}
    verify(iam.directory)


async def stopped_after(directory: Path, monkeypatch: pytest.MonkeyPatch, action: Callable[[Iam], Any]) -> None:
    """What is left when the process ends between the line and the commit."""
    async with iam_of(directory) as iam:

        async def ends() -> None:
            raise asyncio.CancelledError

        with monkeypatch.context() as patched:
            patched.setattr(iam.identities._connection, "commit", ends)
            with pytest.raises(asyncio.CancelledError):
                await action(iam)


async def test_a_crash_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await stopped_after(tmp_path, monkeypatch, lambda iam: iam.call("CreateUser", UserName="alice"))
    assert actions(tmp_path) == ["CreateUser"]
    async with iam_of(tmp_path) as iam:
        assert (await iam.call("ListUsers"))["Users"] == []
        assert actions(tmp_path) == ["CreateUser", "NotInEffect"]
    assert verify(tmp_path)[1].sequence == 2
    async with iam_of(tmp_path):
        assert actions(tmp_path) == ["CreateUser", "NotInEffect"]


async def test_a_crash_after_the_root_key_is_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await stopped_after(tmp_path, monkeypatch, lambda iam: iam.control.rotate_root())
    async with iam_of(tmp_path) as iam:
        # It is in effect, and the next line goes on from there.
        await iam.call("CreateUser", UserName="alice")
    assert actions(tmp_path) == ["RotateRootKey", "SetRootKey", "CreateUser"]
    verify(tmp_path)


@pytest.mark.parametrize("left", [1, 30])
async def test_a_line_that_a_crash_has_cut_off_is_removed(tmp_path: Path, left: int) -> None:
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="alice")
    (path,) = audit_files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:left])
    assert actions(tmp_path) == ["CreateUser"]
    verify(tmp_path)
    async with iam_of(tmp_path) as iam:
        assert path.read_bytes() == whole
        await iam.call("CreateUser", UserName="bob")
    assert verify(tmp_path)[1].sequence == 2


async def test_files_are_bounded_and_the_chain_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FILE_SIZE", 1000)
    monkeypatch.setattr(audit, "FILES", 3)
    async with iam_of(tmp_path) as iam:
        for number in range(20):
            await iam.call("CreateUser", UserName=f"u{number}")
        first, last = verify(tmp_path)
        assert (len(audit_files(tmp_path)), last.sequence) == (3, 20)
        assert 1 < first.sequence < 20
    # A crash that leaves the beginning of the first line of a file.
    (tmp_path / "audit" / f"{21:020}.jsonl").write_bytes(b"{")
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="last")
    assert verify(tmp_path)[1].sequence == 21


def edited(content: bytes) -> bytes:
    return content.replace(b"bob", b"eve")


def without_second(content: bytes) -> bytes:
    first, _, third = content.splitlines(keepends=True)
    return first + third


def without_last(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-1])


def last_edited(content: bytes) -> bytes:
    return content.replace(b"carol", b"mallo")


def garbled(content: bytes) -> bytes:
    return content.replace(b'"sequence": 2', b'"sequence" 2')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited, "at line 3 of audit/00000000000000000001.jsonl: it or the line before was changed"),
        (without_second, "at line 2 of audit/00000000000000000001.jsonl, which has number 3 and not 2"),
        (without_last, "ends with line 2 and had 3"),
        (last_edited, "at line 3 of audit/00000000000000000001.jsonl: it or the line before was changed"),
        (garbled, "at line 2 of audit/00000000000000000001.jsonl, which cannot be read"),
        (lambda _: b"", "ends with line 0 and had 3"),
    ],
)
async def test_damage_is_found_and_stays_found(tmp_path: Path, change: Callable[[bytes], bytes], said: str) -> None:
    async with iam_of(tmp_path) as iam:
        for name in ("alice", "bob", "carol"):
            await iam.call("CreateUser", UserName=name)
    (path,) = audit_files(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(OrcasError) as caught:
        verify(tmp_path)
    assert said in str(caught.value)
    # Changes are possible all the same, and hide nothing.
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="dave")
    with pytest.raises(OrcasError, match="The audit log"):
        verify(tmp_path)


async def test_lines_of_other_nodes_are_no_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="alice")
    for path in audit_files(tmp_path):
        path.unlink()
    (tmp_path / "cluster.node").mkdir()
    caplog.set_level(logging.INFO)
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="bob")
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "audit log" in record.getMessage()]
    assert said == [("INFO", "The audit log up to line 1 is on nodes that owned the log before")]
    assert actions(tmp_path) == ["CreateUser"]


async def test_an_older_database_is_noticed(tmp_path: Path) -> None:
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="alice")
    older = (tmp_path / "control.db").read_bytes()
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="bob")
    for path in tmp_path.glob("control.db*"):
        path.unlink()
    (tmp_path / "control.db").write_bytes(older)
    async with iam_of(tmp_path):
        pass
    assert actions(tmp_path) == ["CreateUser", "CreateUser", "NotInEffect"]
    assert lines(tmp_path)[2]["parameters"] == {"From": 2, "To": 2}
    verify(tmp_path)


async def test_a_database_of_the_schema_without_it(tmp_path: Path) -> None:
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="alice")
    (tmp_path / "control.db.copy").unlink()
    audit_files(tmp_path)[0].unlink()
    connection = sqlite3.connect(tmp_path / "control.db")
    connection.executescript(
        "DROP TABLE audit; DROP TABLE limits; DROP TABLE session_keys; DROP TABLE origins;"
        "DROP TABLE digests; PRAGMA user_version = 2;"
    )
    connection.close()
    verify(tmp_path)
    async with iam_of(tmp_path) as iam:
        assert [user["UserName"] for user in (await iam.call("ListUsers"))["Users"]] == ["alice"]
        await iam.identities.perform("PutLimits", {"UserName": "alice", "RequestsPerSecond": 1})
    assert actions(tmp_path) == ["PutLimits"]
    verify(tmp_path)


async def test_the_commands(tmp_path: Path) -> None:
    async with iam_of(tmp_path) as iam:
        await iam.call("CreateUser", UserName="alice")
        await iam.call("CreateGroup", GroupName="g")
        await iam.call("AddUserToGroup", GroupName="g", UserName="alice")

    def shown(*words: str) -> list[str]:
        said = command("audit", "--data", str(tmp_path), "--json", *words)
        return [json.loads(line)["action"] for line in said.splitlines()]

    assert shown() == ["CreateUser", "CreateGroup", "AddUserToGroup"]
    assert shown("--user", "alice") == ["CreateUser", "AddUserToGroup"]
    actors = {"arn:aws:iam::111122223333:role/x:user/alice": False, "arn:aws:iam::111122223333:user/a/alice": True}
    assert {actor: is_about({"actor": actor, "parameters": {}}, "alice") for actor in actors} == actors
    assert shown("--action", "CreateGroup", "--since", "2020-01-01") == ["CreateGroup"]
    assert shown("--action", "creategroup") == ["CreateGroup"]
    assert shown("--since", "2999-01-01") == []
    assert "CreateUser UserName=alice" in command("audit", "--data", str(tmp_path))
    assert "--since must be a day or a time, not yesterday" in command(
        "audit", "--data", str(tmp_path), "--since", "yesterday", code=2
    )
    assert "lines 1 to 3 are intact" in command("audit", "verify", "--data", str(tmp_path))
    (path,) = audit_files(tmp_path)
    path.write_bytes(edited(path.read_bytes()).replace(b"alice", b"mallo", 1))
    assert "damaged at line 2" in command("audit", "verify", "--data", str(tmp_path), code=1)
