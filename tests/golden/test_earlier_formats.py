"""Stores of earlier formats, of this one and of later ones, in the hands of every command: none gives anything up.

`stores/earlier` has what code of the formats 1 and 2 of the log left: no version opens or converts these. The commands come
from the command line itself, so a new one takes part.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from tests.fixtures.commands import command, ran
from tests.fixtures.keys import MASTER_KEY
from tests.golden.test_golden import HERE, STORES, unpack, unpack_archive
from tests.golden.test_versions import set_version

import orcas
from orcas.cli.commands import app_with_all
from orcas.errors import UnavailableError
from orcas.settings.config import child_environment

EARLIER: Final = {1: HERE / "earlier" / "format-1.tar.xz", 2: HERE / "earlier" / "format-2.tar.xz"}
SUPPORTED: Final = 3
PRESENT: Final = next(name for name in STORES if name.endswith("-policies-closed"))
LATER: Final = 99
# What a command needs besides `--data`. Others get a word for each argument.
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "serve": ("-p", "0"),
    "import": ("{other}",),
    "backup": ("{new}",),
    "export": ("{new}",),
    "move": ("a/b", "a/c"),
    "cp": ("s3://photos/a", "-"),
    "cat": ("s3://photos/a",),
    "rm": ("s3://photos/a",),
    "mb": ("s3://photos",),
    "rb": ("s3://photos",),
    "presign": ("s3://photos/a",),
    "probe": ("s3://photos/a",),
    "replication add": ("photos", "--to", "backup/photos"),
    "replication target add": ("backup", "https://a", "--access-key", "key", "--secret-key", "secret"),
    "quota set": ("photos", "--objects", "1"),
    "key create": ("name",),
    "key destroy": ("name", "--yes"),
    "key set-master": ("--passphrase-file", "{other}/passphrase"),
    "origin set": ("photos", "http://127.0.0.1:1/bucket", "--private", "--source-unsigned"),
    "table rollback": ("lake", "n.t", "--to", "1"),
    "settings set": ("photos", "--durability", "sync"),
    "role create": ("name", "--trust", "{other}/policy.json"),
    "policy create": ("name", "{other}/policy.json"),
    "policy update": ("name", "{other}/policy.json"),
    "policy explain": ("alice", "s3:GetObject", "arn:aws:s3:::photos/a"),
    "user limit": ("alice", "--requests-per-sec", "1"),
    "access-key limit": ("key", "--requests-per-sec", "1"),
    "access-key rotate-root": ("--yes",),
}
# The same command in other words.
MORE: Final = (
    ("serve", "-p", "0", "--salvage"), ("serve", "-p", "0", "--tls-self-signed"), ("fsck", "--no-content"),
    ("fsck", "--repair"), ("fsck", "--repair", "--accept-loss"), ("export", "{new}", "--skip-lost"), ("scrub", "--now"),
    ("compact", "--seal"), ("inspect", "log"), ("inspect", "packs"), ("inspect", "journal"), ("audit", "--json"),
)  # fmt: skip
# Those that the ordinary run asks. A server is another process, which takes longer.
SOME: Final = (
    ("fsck",),
    ("fsck", "--repair", "--accept-loss"),
    ("inspect",),
    ("stats",),
    ("env",),
    ("audit", "verify"),
)
SERVERS: Final = (("serve", "-p", "0"), ("serve", "-p", "0", "--salvage"))
# These ask only whether a server has the store open, or make a new store.
OPENS_NOTHING: Final = {"console", "top", "bench", "restore", "status", "stop", "standby", "promote", "cluster"}


def leaves(found: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the command line."""
    commands = getattr(found, "commands", {})
    if not commands or (words and found.invoke_without_command):
        yield words, found
    for name, inner in commands.items():
        yield from leaves(inner, (*words, name))


def calls(scratch: Path) -> list[tuple[str, ...]]:
    """Every command that takes the directory of a store, and what it needs besides."""
    other = scratch / "other"
    other.mkdir()
    (other / "passphrase").write_text("correct horse battery staple", encoding="utf-8")
    (other / "policy.json").write_text('{"Version": "2012-10-17", "Statement": []}', encoding="utf-8")
    made = {}
    for words, found in leaves(typer.main.get_command(app_with_all())):
        options = {option for parameter in found.params for option in parameter.opts}
        if "--data" in options and words[0] not in OPENS_NOTHING:
            needed = ["word" for each in found.params if each.required and each.param_type_name == "argument"]
            made[" ".join(words)] = (*words, *ARGUMENTS.get(" ".join(words), needed))
    assert made.keys() >= ARGUMENTS.keys()
    places = {"{other}": str(other), "{new}": str(scratch / "new")}
    return [tuple(_placed(word, places) for word in call) for call in (*made.values(), *MORE)]


def _placed(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def state_of(data: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with its size and when it was written."""
    return {
        str(path.relative_to(data)): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(data.rglob("*"))
    }


def digests_of(data: Path) -> dict[str, str]:
    found = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            found[str(path.relative_to(data))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def refused(data: Path, call: tuple[str, ...], says: str) -> None:
    """The command refuses the store with this in its sentence, advises no loss, and changes nothing."""
    before = state_of(data)
    said = command(*call, "--data", data, code=69, ORCAS_MASTER_KEY=MASTER_KEY)
    assert says in said, call
    assert "accept-loss" not in said, call
    assert state_of(data) == before, call


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.full)], ids=["some", "every"])
@pytest.mark.parametrize("version", EARLIER)
def test_every_command_refuses_a_store_of_an_earlier_format(version: int, tmp_path: Path, *, every: bool) -> None:
    data = tmp_path / "data"
    unpack_archive(EARLIER[version], data)
    before = digests_of(data)
    known = calls(tmp_path)
    for call in known if every else SOME:
        refused(data, call, f"was written by format {version}; this version reads format {SUPPORTED}; copy its objects")
    assert digests_of(data) == before
    assert not (tmp_path / "new").exists()
    if every:
        with pytest.raises(UnavailableError, match=f"was written by format {version}"):
            orcas.Server(data)


@pytest.mark.full
def test_no_command_advises_loss_for_a_store_of_this_format(tmp_path: Path) -> None:
    data = tmp_path / "data"
    unpack(PRESENT, data)
    environ = child_environment() | {"ORCAS_MASTER_KEY": MASTER_KEY, "XDG_CONFIG_HOME": "/nonexistent"}
    for call in calls(tmp_path):
        # These go on until they are stopped; other tests have them.
        if call[0] != "serve" and call != ("credentials", "serve"):
            done = ran(environ, str(tmp_path), *call, "--data", str(data))
            assert "accept-loss" not in done.stdout + done.stderr, call
            assert "was written by" not in done.stderr, (call, done.stderr)
    command("fsck", "--data", data, ORCAS_MASTER_KEY=MASTER_KEY)


def later_log(data: Path) -> str:
    path = max((data / "log").iterdir())
    set_version(path, LATER)
    return f"{path} was written by format {LATER}; this version reads format 3; use the version"


def later_log_with_one_copy(data: Path) -> str:
    said = later_log(data)
    with max((data / "log").iterdir()).open("r+b") as file:
        file.write(bytes(8))
    return said


def later_pack(data: Path) -> str:
    path = next((data / "chunks").iterdir())
    set_version(path, LATER)
    return f"{path} was written by format {LATER}; this version reads format 1; use the version"


def later_identities(data: Path) -> str:
    path = data / "control.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {LATER}")
    (data / "control.db.copy").unlink(missing_ok=True)
    return f"{path} was written by a later version of Orcas: use that version"


def later_identities_in_the_copy(data: Path) -> str:
    said = later_identities(data)
    content = (data / "control.db").read_bytes()
    head = b"orcas copy 1 " + hashlib.sha256(content).hexdigest().encode()
    (data / "control.db.copy").write_bytes(head + b"\n" + content)
    (data / "control.db").unlink()
    return said


def later_quotas(data: Path) -> str:
    path = data / "quotas.json"
    path.write_text('{"format": 2, "owners": {}}', encoding="utf-8")
    (data / "quotas.json.copy").unlink(missing_ok=True)
    return f"{path} was written by a later version of Orcas: use that version"


@pytest.mark.parametrize("served", [False, pytest.param(True, marks=pytest.mark.full)], ids=["commands", "servers"])
@pytest.mark.parametrize(
    "change",
    [later_log, later_log_with_one_copy, later_pack, later_identities, later_identities_in_the_copy, later_quotas],
)
def test_a_store_of_a_later_version_is_refused_before_anything_changes(
    change: Any, tmp_path: Path, *, served: bool
) -> None:
    data = tmp_path / "data"
    unpack(PRESENT, data)
    says = change(data)
    before = digests_of(data)
    for call in SERVERS if served else SOME:
        refused(data, call, says)
    assert digests_of(data) == before
