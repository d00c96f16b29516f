"""What nodes of a cluster and the commands for them say when they cannot go on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from tests.fixtures.commands import ran

from orcas.cluster.joining import join
from orcas.cluster.leaving import leave, read_mark
from orcas.cluster.member import Member
from orcas.cluster.small import kept_path, use_kept
from orcas.control.copied import load_identities
from orcas.control.files import locked
from orcas.control.files.address import Address, write_address
from orcas.engine import StoreError
from orcas.errors import UnavailableError
from orcas.settings.config import child_environment, resolve
from orcas.tools.reach import has_server

URL = "http://127.0.0.1:1"
NOTHING = {
    "entries": 0, "changed": False, "keys": False, "given_up": ([], [], [], []), "small": [], "notes": [],
    "at_the_end": True, "term": 0, "next": 0,
}  # fmt: skip


def raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


FULL = raising(OSError(errno.ENOSPC, "No space left on device"))
GONE = raising(StoreError("the store of the log is gone"))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of a node that has too little of the log."""
    (tmp_path / "cluster.node" / "control").mkdir(parents=True)
    (tmp_path / "cluster.node" / "mark.json").write_text('{"next": 7}')
    return tmp_path


def give_files(directory: Path) -> None:
    """Let a node have what its store needs to open."""
    (directory / "store.keys").write_bytes(b"keys")
    kept_path(directory, "root.json").write_bytes(b"{}")


def member(directory: Path, monkeypatch: pytest.MonkeyPatch, **calls: Callable[..., Any]) -> Member:
    """A node whose log does what `calls` say."""
    node = SimpleNamespace(mark=lambda: None, give_up=lambda _: None, **calls)
    monkeypatch.setattr("orcas.cluster.member.open_node", lambda _: node)
    monkeypatch.setattr("orcas.cluster.member.authorities", lambda: "")
    given = {"data": str(directory), "cluster_log": "s3://logs/a", "cluster_url": URL}
    return Member(resolve(given, ambient=False).settings)


def test_the_mark_of_a_directory_may_not_be_there(node: Path, tmp_path: Path) -> None:
    assert read_mark(node) == {"next": 7}
    assert read_mark(tmp_path / "none") is None


def test_a_node_leaves_with_a_whole_store_alone(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="has too little of the log to be a store"):
        leave(node)
    give_files(node)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", FULL)
        with pytest.raises(UnavailableError, match="cannot be removed: No space left"):
            leave(node)
    leave(node)
    assert (node / "root.json").read_bytes() == b"{}"
    assert not (node / "cluster.node").exists()


def test_small_files_that_cannot_be_replaced_are_named(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_files(node)
    monkeypatch.setattr("orcas.cluster.small.write_secret_file", FULL)
    with pytest.raises(UnavailableError, match=r"root\.json cannot be replaced: No space left"):
        use_kept(node)


def test_a_copy_needs_a_mark_and_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(admin=lambda *_: {"mark": None})
    with pytest.raises(UnavailableError, match="has no mark in the log yet: try again"):
        join(tmp_path / "new", session, URL, lambda *_: None)
    session.admin = lambda *_: {"mark": {"next": 7}}
    monkeypatch.setattr("orcas.cluster.joining.Copy", lambda *_: SimpleNamespace(bring=lambda *_: None))
    monkeypatch.setattr("orcas.cluster.joining.write_secret_file", FULL)
    with pytest.raises(UnavailableError, match="cannot be changed: No space left"):
        join(tmp_path / "new", session, URL, lambda *_: None)


def test_a_node_says_what_it_cannot_do_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="cannot follow the log of its cluster: the store of the log is gone"):
        member(tmp_path, monkeypatch, follow=GONE).prepare()
    taking = member(tmp_path, monkeypatch, follow=lambda: dict(NOTHING), take=GONE)
    with pytest.raises(UnavailableError, match="cannot take the log of its cluster: the store of the log is gone"):
        taking.prepare()
    monkeypatch.setattr("orcas.cluster.member.SmallFiles.bring", GONE)
    with pytest.raises(UnavailableError, match="does not own the log of its cluster any more: the store"):
        taking.opened()


@pytest.mark.parametrize(
    ("word", "found", "says"),
    [
        ("status", {"error": "it is gone", "owner": None}, "The node cannot follow the log (it is gone): see whether"),
        ("status", {"error": None, "owner": None}, "No node owns the log at present: start one"),
        ("move", {"error": None, "owner": None}, "No node owns the log at present: there is nothing to move"),
    ],
)
def test_commands_say_that_there_is_no_owner(
    word: str, found: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {"node": "a", "url": URL, "role": "follower", "log": "s3://a/b", "term": 1, "next": 2, "silent_sec": 0.1}
    shown["score"] = 0.9
    session = SimpleNamespace(admin=lambda *_: shown | found, close=lambda: None)
    monkeypatch.setattr("orcas.cli.server.cluster._session", lambda *_: session)
    done = ran(child_environment(), str(tmp_path), "cluster", word)
    assert done.returncode == 1
    assert f"orcas: {says}" in done.stderr


def test_a_node_between_two_roles_is_waited_for(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = resolve({"data": str(node)}, ambient=False).settings
    assert not has_server(settings)
    monkeypatch.setattr("orcas.tools.reach._ROLE_SECONDS", 0.0)
    with locked(node / "cluster.node"):
        with pytest.raises(UnavailableError, match="starts, or changes its role, and has no store open: try again"):
            has_server(settings)
        with locked(node):
            write_address(node, Address(URL, "us-east-1"))
            assert has_server(settings)
        # Nobody takes its directory meanwhile.
        done = ran(child_environment(), str(node), "cluster", "leave", "--data", str(node))
        assert "is in use by another process" in done.stderr


def test_nodes_that_differ_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "its log is not the beginning of that of the owner"
    shown = {"role": "follower", "url": URL}
    found = [
        shown | {"node": "0000000a", "state": "the same", "finding": None},
        shown | {"node": "0000000c", "state": "could not be told", "finding": "It is gone"},
        shown | {"node": "0000000b", "state": "differs", "finding": why},
    ]
    monkeypatch.setattr("orcas.cli.server.cluster._session", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("orcas.tools.nodes.compare", lambda *_, **__: found)

    def verify() -> tuple[int, str]:
        done = ran(child_environment(), str(tmp_path), "cluster", "verify")
        return done.returncode, done.stdout + done.stderr

    code, said = verify()
    assert code == 1
    assert "Nodes that differ or are damaged: 0000000b: stop each" in said
    assert "differs" in said
    found.pop()
    code, said = verify()
    assert code == 1
    assert "Nodes that could not be compared: 0000000c: remove the cause" in said
    found.pop()
    assert verify()[0] == 0


def test_identities_that_a_follower_cannot_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UnavailableError, match=r"cannot be read without control\.key and the root key: start the node in"
    ):
        asyncio.run(load_identities(tmp_path, None))
    for name, found in (("read_cipher", SimpleNamespace()), ("known_owner", "o"), ("stored_root_pair", ("a", "b"))):
        monkeypatch.setattr(f"orcas.control.copied.{name}", lambda *_, found=found: found)
    with contextlib.closing(sqlite3.connect(tmp_path / "control.db")) as database:
        database.execute("PRAGMA user_version = 9999")
    with pytest.raises(UnavailableError, match="is of another version of Orcas: upgrade this node"):
        asyncio.run(load_identities(tmp_path, None))
