"""Damage of `control.db` and its copy gives nobody more rights, and keeps no store from starting that has one intact.

Bits are flipped in either file or both, of a store whose copy is up to date or a change behind, at rest and while it is
open. RIGHTS_FLIPS=N flips N bits of each, RIGHTS_SEED=N others.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.commands import command, ran
from tests.fixtures.control import control_of
from tests.fixtures.iam.directory import Iam, iam_of
from tests.fixtures.iam.rights import CHANGES, access, document, fill
from tests.fixtures.marks import full
from tests.fixtures.targets import running

from orcas.control.files.twice import copy_of
from orcas.control.identities.failures import IamError
from orcas.errors import UnavailableError
from orcas.settings.config import child_environment

pytestmark = pytest.mark.crash

SEED: Final = int(os.environ.get("RIGHTS_SEED", "42"))
FLIPS: Final = int(os.environ.get("RIGHTS_FLIPS", "0"))
SHORT: Final = 6
LONG: Final = 400
Access = set[tuple[str, ...]]


@dataclass
class Store:
    """A stopped store whose last change is in its database, and perhaps in the copy."""

    directory: Path
    main: bytes
    copy: bytes
    access: Access

    async def opened(self, place: Path, main: bytes, copy: bytes) -> tuple[Access, Access]:
        """What anyone may do with these files instead, at two starts."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.directory, place)
        (place / "control.db").write_bytes(main)
        copy_of(place / "control.db").write_bytes(copy)
        found = []
        for _ in range(2):
            async with control_of(place) as control:
                found.append(await access(control))
        return found[0], found[1]


async def made(directory: Path, change: str | None) -> Store:
    """`change`: the one that the copy lacks."""
    async with iam_of(directory) as iam:
        await fill(iam)
    path = directory / "control.db"
    copy = copy_of(path).read_bytes()
    if change is not None:
        async with iam_of(directory) as iam:
            await CHANGES[change](iam)
        copy_of(path).write_bytes(copy)
    # A start would bring the copy up to date.
    main = path.read_bytes()
    aside = directory.with_name("aside")
    shutil.copytree(directory, aside)
    async with control_of(aside) as control:
        expected = await access(control)
    shutil.rmtree(aside)
    return Store(directory, main, copy, expected)


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def flips(content: bytes, share: int, seed: str) -> Iterator[bytes]:
    """The content with a bit flipped in one of its bytes: most of them such as are not zero."""
    chosen = random.Random(f"{SEED} {seed}")
    filled = [at for at, byte in enumerate(content) if byte]
    for number in range(share):
        at = chosen.choice(filled) if number % 8 else chosen.randrange(len(content))
        yield flipped(content, at, chosen.randrange(8))


def share(parameter: int) -> int:
    return FLIPS or parameter


@pytest.mark.parametrize("count", [SHORT, *full(LONG)])
@pytest.mark.parametrize("change", [None, *CHANGES])
@pytest.mark.parametrize("hit", ["main", "copy", "both"])
async def test_damage_gives_nobody_more(tmp_path: Path, hit: str, change: str | None, count: int) -> None:
    """The seed is that of `flips`; the message of a failure has the number of the flip."""
    store = await made(tmp_path / "store", change)
    count = share(count)
    mains = [*flips(store.main, count, f"main {hit} {change}")] if hit != "copy" else [store.main] * count
    copies = [*flips(store.copy, count, f"copy {hit} {change}")] if hit != "main" else [store.copy] * count
    for number, (main, copy) in enumerate(zip(mains, copies, strict=True)):
        try:
            found, again = await store.opened(tmp_path / "damaged", main, copy)
        except UnavailableError as error:
            assert hit == "both", (number, str(error))
            continue
        for each in (found, again):
            assert each <= store.access, (number, sorted(each - store.access))
        if hit == "copy" or (hit == "main" and change is None):
            assert found == again == store.access, number


@pytest.mark.parametrize("count", [SHORT, *full(LONG)])
@pytest.mark.parametrize("behind", [False, True])
async def test_damage_while_it_runs_gives_nobody_more(tmp_path: Path, count: int, *, behind: bool) -> None:
    """Another change is made between the damage and the next start."""
    store = await made(tmp_path / "store", "deny" if behind else None)
    for number, main in enumerate(flips(store.main, share(count), f"running {behind}")):
        place = tmp_path / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(store.directory, place)
        (place / "control.db").write_bytes(store.main)
        copy_of(place / "control.db").write_bytes(store.copy)
        async with iam_of(place) as iam:
            if number % 2:
                # So that SQLite has read the pages.
                await access(iam.control)
            with (place / "control.db").open("r+b") as file:
                file.write(main)
            await changed(iam)
        async with control_of(place) as control:
            found = await access(control)
        assert found <= store.access, (number, sorted(found - store.access))


async def changed(iam: Iam) -> None:
    """A change that gives nobody anything; it may be refused because of the damage."""
    with contextlib.suppress(IamError, UnicodeDecodeError):
        await iam.call("CreateUser", UserName="another")


async def test_a_row_that_is_damaged_in_both_costs_only_its_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await made(tmp_path / "store", None)
    denial = document("Deny", "s3:GetObject").encode()
    main, copy = (content.replace(b"s3:GetObject", b"s3:GetObjecu") for content in (store.main, store.copy))
    assert denial in store.main
    assert main != store.main
    found, again = await store.opened(tmp_path / "damaged", main, copy)
    # The session policy of a key of `frank` names the action too.
    lost = {
        each
        for each in store.access
        if each[2].endswith(("/alice", "/frank")) or each[1].endswith(("/alice", "/frank"))
    }
    assert found == again == store.access - lost
    assert "The rights of user alice are lost" in caplog.text


@pytest.mark.parametrize("number", [1, 4, 7, 13])
async def test_the_number_of_the_schema_may_be_damaged(tmp_path: Path, number: int) -> None:
    store = await made(tmp_path / "store", "deny")
    main = store.main[:60] + number.to_bytes(4, "big") + store.main[64:]
    for copy in (store.copy, b""):
        assert await store.opened(tmp_path / "damaged", main, copy) == (store.access, store.access)


async def test_damage_while_it_runs_decides_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rows of a user and of its group, each of which denied something."""
    path = tmp_path / "store" / "control.db"
    async with iam_of(path.parent) as iam:
        await fill(iam)
        before = path.read_bytes()
    async with iam_of(path.parent) as iam:
        keys = {key[2].rpartition("/")[2]: key[0] for key in (await iam.control.load_snapshot()).keys}
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE documents SET document = replace(document, 'Deny', 'Allow')")
        for name in ("alice", "bob"):
            said = await iam.refused("GetUser", "ServiceFailure", access_key=keys[name])
            assert "control.db is damaged at A" in said
        await iam.call("TagUser", UserName="bob", Tags=[{"Key": "a", "Value": "b"}])
        told = iam.engine.deltas[-1]
        assert not told.identities
        assert [arn.rpartition("/")[2] for arn in told.removed] == ["bob"]
    assert "is damaged and is not copied" in caplog.text
    assert copy_of(path).read_bytes().endswith(before)


def check(data: Path, *options: str) -> str:
    """What a check says that finds damage."""
    done = ran(child_environment(), "/", "fsck", "--data", str(data), *options)
    assert done.returncode == 1, done
    return done.stdout + done.stderr


def test_the_check_names_what_is_damaged_and_the_repair_does_the_least(tmp_path: Path) -> None:
    """A copy that is a change behind and cut, and a row of the database: nobody else loses anything."""
    data = tmp_path / "data"
    with running(data) as target:
        sdk = target.server.client("iam")
        keys = {}
        for name in ("alice", "bob"):
            sdk.create_user(UserName=name)
            sdk.put_user_policy(UserName=name, PolicyName="some", PolicyDocument=document("Allow", "s3:Get*"))
            keys[name] = sdk.create_access_key(UserName=name)["AccessKey"]
        sdk.put_user_policy(UserName="alice", PolicyName="no", PolicyDocument=document("Deny", "s3:GetObject"))
    path = data / "control.db"
    whole = path.read_bytes()
    os.truncate(copy_of(path), len(whole) // 2)
    path.write_bytes(whole.replace(b"s3:GetObject", b"s3:GetObjecu"))
    before = {each.name: each.read_bytes() for each in data.glob("control.*")}
    said = check(data)
    assert "identities: control.db is damaged: 1 of its entries is not what was written" in said
    assert "The database of identities is damaged: stop the server and run `orcas fsck --repair`" in said
    assert "--accept-loss" not in said
    assert {each.name: each.read_bytes() for each in data.glob("control.*")} == before
    # It gives up nothing, since only alice is damaged.
    said = check(data, "--repair", "--accept-loss")
    assert "denied everything: user alice" in said
    assert "The rights of user alice were damaged, and deny everything: set them anew" in said
    assert "given up" not in said
    with running(data) as target:
        sdk = target.server.client("iam")
        assert [user["UserName"] for user in sdk.list_users()["Users"]] == ["alice", "bob"]
        assert [key["AccessKeyId"] for key in sdk.list_access_keys(UserName="bob")["AccessKeyMetadata"]] == [
            keys["bob"]["AccessKeyId"]
        ]
        with urllib.request.urlopen(f"{target.server.endpoint}/_orcas/metrics") as page:
            assert b"\norcas_identities_damaged 1\n" in page.read()
        said = check(data)
        assert "denied everything: user alice" in said
        assert "delete its policy with the statement OrcasDamaged" in said
        sdk.delete_user_policy(UserName="alice", PolicyName="orcas-damaged")
    command("fsck", "--data", data)


async def test_a_lost_policy_denies_until_another_version_is_the_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The digest is of the whole policy, so none of its versions can be verified."""
    path, wanted = tmp_path / "store" / "control.db", document("Allow", "s3:GetObject")
    async with iam_of(path.parent) as iam:
        arn = (await iam.call("CreatePolicy", PolicyName="some", PolicyDocument=wanted))["Policy"]["Arn"]
        other = document("Allow", "s3:PutObject")
        await iam.call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=other, SetAsDefault=True)
    for file in (path, copy_of(path)):
        file.write_bytes(file.read_bytes().replace(b"s3:GetObject", b"s3:GetObjecu"))
    async with iam_of(path.parent) as iam:
        assert iam.control.denied == ["policy some"]
        # Without the check of the answer: it was created in 1970.
        versions = (await iam.identities.perform("ListPolicyVersions", {"PolicyArn": arn}))["Versions"]
        assert [version["VersionId"] for version in versions] == ["v1"]
        await iam.call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=wanted, SetAsDefault=True)
    assert "The rights of policy some are lost" in caplog.text
    assert "`orcas policy update`, which makes another version the default" in caplog.text
    caplog.clear()
    async with iam_of(path.parent) as iam:
        assert iam.control.denied == []
    assert "are lost" not in caplog.text


async def test_a_damaged_policy_of_a_store_without_digests_denies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the first start with digests finds that cannot be a policy."""
    store = await made(tmp_path / "store", None)
    path = store.directory / "control.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE digests")
        connection.execute("PRAGMA user_version = 4")
        connection.execute("UPDATE documents SET document = replace(document, 'Deny', 'Denz')")
        connection.execute("UPDATE entities SET details = 'x' || details WHERE kind = 'role'")
    copy_of(path).unlink()
    async with control_of(store.directory) as control:
        found = await access(control)
    assert found < store.access
    assert not {each for each in found if "alice" in str(each) or "helper" in str(each)}
    assert "Policy no of " in caplog.text
