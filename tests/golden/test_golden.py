"""Golden stores: stores of earlier versions, and of this one, are served completely and can be written to."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import running
from tests.golden import identities
from tests.golden.document import DOCUMENT
from tests.golden.expectation import change, verify
from tests.golden.make import lags, main, write

HERE = Path(__file__).parent / "stores"
ARCHIVES = {path.name.rsplit(".tar.", 1)[0]: path for path in HERE.glob("*.tar.*")}
STORES = sorted(ARCHIVES)
# Those with identities have little else.
WITH_IDENTITIES = sorted((HERE / "identities").glob("*.tar.xz"))
# A store that was killed is followed to its end, and then as one that was closed.
SERVED = [pytest.param(name, marks=[pytest.mark.full] if name.endswith("-closed") else []) for name in STORES]
# Not in a store that a server has closed or left, or made again by the next, or set aside after damage.
TEMPORARY = re.compile(r"rebuild|damaged|draft|\.new|^-(wal|shm)$|^[.]9$|ballast|server\.json")


def unpack_archive(path: Path, to: Path) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(to, filter="data")


def unpack(name: str, to: Path) -> dict[str, Any]:
    """Unpacks a store into an empty directory. Returns its manifest."""
    unpack_archive(ARCHIVES[name], to)
    manifest: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return manifest


def test_there_are_stores_of_each_end() -> None:
    ends = [json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))["end"] for name in STORES]
    assert set(ends) == {"closed", "killed"}
    assert {path.name.removesuffix(".json") for path in HERE.glob("*.json")} == set(STORES)


@pytest.mark.parametrize("name", SERVED)
def test_a_store_is_served_whole_and_can_be_written_to(name: str, tmp_path: Path) -> None:
    manifest = unpack(name, tmp_path)
    key = manifest.get("master_key", MASTER_KEY)
    assert lags(tmp_path) == (manifest["end"] == "killed")
    with running(tmp_path, master_key=key) as target:
        verify(target, manifest)
        change(target, manifest)
    with running(tmp_path, master_key=key) as target:
        verify(target, manifest)
    command("fsck", "--data", tmp_path)


@pytest.mark.parametrize("archive", WITH_IDENTITIES, ids=lambda path: path.name)
def test_identities_are_as_they_were_left(archive: Path, tmp_path: Path) -> None:
    unpack_archive(archive, tmp_path)
    manifest = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text(encoding="utf-8"))
    for _ in range(2):
        with running(tmp_path, master_key=manifest["master_key"]) as target:
            identities.verify(target, manifest)
        identities.audited(tmp_path, manifest)
        with running(tmp_path, master_key=manifest["master_key"]) as target:
            identities.call(target, "CreateUser", UserName="later")
            identities.call(target, "DeleteUser", UserName="later")


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_without_fault_as_it_was_left(name: str, tmp_path: Path) -> None:
    manifest = unpack(name, tmp_path)
    said = command("fsck", "--data", tmp_path, ORCAS_MASTER_KEY=manifest.get("master_key", MASTER_KEY))
    assert re.search(r"findings +0\n", said)
    assert re.search(r"verified by tags +[1-9]", said)


def test_the_stores_have_every_kind_of_file(tmp_path: Path) -> None:
    found = set()
    for name, archive in {**ARCHIVES, **{f"identities-{path.name}": path for path in WITH_IDENTITIES}}.items():
        unpack_archive(archive, tmp_path / name)
        for path in (tmp_path / name).rglob("*"):
            found.add(re.sub(r"[0-9]{20}", "N", str(path.relative_to(tmp_path / name))))
    table = DOCUMENT.read_text(encoding="utf-8").split("## Files of a store")[1].split("## ")[0]
    names = {
        re.sub("N{20}", "N", name)
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall("`(.*?)`", cell)
    }
    # Those of --tls-self-signed and --acme are made anew and have nothing of the store; a cluster is several stores.
    own_names = {name.replace("TARGET", "hook") for name in names if not TEMPORARY.search(name)}
    assert own_names - found == {
        "acme-account.key", "acme.pem", "cluster.node/", "tls-ca.key", "tls-ca.pem", "tls.pem",
    }  # fmt: skip


def test_a_golden_store_is_never_overwritten() -> None:
    before = {path: path.read_bytes() for path in [*ARCHIVES.values(), *HERE.glob("*.json")]}
    for name in STORES:
        version, _ = name.rsplit("-", 1)
        with pytest.raises(SystemExit, match="golden stores never change"):
            main(version)
        with pytest.raises(FileExistsError):
            write(name, b"packed", {})
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", SERVED)
def test_the_log_alone_says_everything(name: str, tmp_path: Path) -> None:
    manifest = unpack(name, tmp_path)
    for path in tmp_path.glob("index.db*"):
        path.unlink()
    with running(tmp_path, master_key=MASTER_KEY) as target:
        verify(target, manifest)
