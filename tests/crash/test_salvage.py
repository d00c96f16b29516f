"""The intact part of a damaged store is served and exported, and nothing in its directory changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Signer

import orcas

from ..fixtures.commands import command, document
from .test_damage import BUCKET, CHUNK, OBJECTS, flip, fsck, get, put

pytestmark = pytest.mark.crash

IN_LOG = {"tiny", "small", "last"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds OBJECTS and was shut down cleanly; tests copy it."""
    data = tmp_path_factory.mktemp("salvage") / "store"
    with orcas.Server(data, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        # In this order: something is stored before "tiny".
        for name in sorted(OBJECTS.keys() - {"last"}):
            put(signer, name)
    with orcas.Server(data, chunk_size=CHUNK) as server:
        put(Signer.of(server), "last")
    return data


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy of the store that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "store"))


def garble(path: Path, first: int, last: int) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(first)
        file.write(b"\xa5" * (last - first))


def no_headers(store: Path) -> None:
    for path in [*store.glob("log/*.log"), *store.glob("chunks/*.pack")]:
        garble(path, 0, 4096)


def no_keys(store: Path) -> None:
    for path in store.glob("store.keys*"):
        path.unlink()


def no_index(store: Path) -> None:
    garble(store / "index.db", 0, (store / "index.db").stat().st_size)


def no_control(store: Path) -> None:
    for name in ("control.db", "control.key", "root.json"):
        for path in (store / name, store / f"{name}.copy"):
            path.unlink()


def no_packs(store: Path) -> None:
    shutil.rmtree(store / "chunks")


def last_log_cut(store: Path) -> None:
    # In the middle of the only record of the last file that was written.
    path = flip(store, "last", 500)
    data = path.read_bytes()
    os.truncate(path, data.find(content_of("last", OBJECTS["last"])[16:32]) + 100)


Damage = Callable[[Path], object]

# The damage, and the keys that then cannot be served.
CASES: dict[str, tuple[list[Damage], set[str]]] = {
    "a record of the last file": ([lambda store: flip(store, "last", 500)], {"last"}),
    "the last file is cut, and the index is gone": ([last_log_cut, no_index], {"last"}),
    "the packs": ([no_packs], OBJECTS.keys() - IN_LOG),
    "everything at once": (
        [
            no_headers,
            no_keys,
            no_index,
            no_control,
            lambda store: flip(store, "tiny", 7),
            lambda store: flip(store, "chunks", CHUNK),
        ],
        {"tiny", "chunks"},
    ),
}


def state(store: Path) -> dict[str, str]:
    """The bytes of every file."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextlib.contextmanager
def serving(store: Path, report: Path) -> Iterator[Signer]:
    """`orcas serve --salvage`, as an operator runs it."""
    arguments = [
        sys.executable,
        "-m",
        "orcas",
        "serve",
        "--salvage",
        "--data",
        store,
        "--port",
        "0",
        "--report",
        report,
    ]
    keys = {"ORCAS_ROOT_ACCESS_KEY": "salvager", "ORCAS_ROOT_SECRET_KEY": "the-salvager's-secret"}
    environment = {**os.environ, **keys}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            ready = re.fullmatch(r"orcas ready http://([0-9.]+):(\d+)\n", process.stdout.readline())
            assert ready
            yield Signer(ready[1], int(ready[2]), *keys.values())
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize("case", CASES)
def test_what_is_whole_is_served_and_exported(case: str, store: Path, tmp_path: Path) -> None:
    damages, lost = CASES[case]
    for damage in damages:
        damage(store)
    before = state(store)
    report = tmp_path / "report.json"
    with serving(store, report) as signer:
        for name in OBJECTS:
            missing = signer.roundtrip(signer.request("HEAD", f"/{BUCKET}/{name}"), "HEAD").status == 404
            assert (missing or get(signer, name) is None) == (name in lost), name
        if (store / "control.lock").exists():
            assert "stop it if it was started with --salvage" in command("stats", "--data", store, code=69)
    found = json.loads(report.read_text())
    assert found["whole"] == len(OBJECTS) - len(lost)
    assert not found["whole_store"]
    assert found["keys"] == (no_keys not in damages)

    target = tmp_path / "exported"
    code = 1 if found["losses_total"] or found["doubtful"] else 0
    done = document("export", target, "--data", store, "--skip-lost", code=code)
    assert done["objects"] == len(OBJECTS) - len(lost)
    for name in OBJECTS.keys() - lost:
        assert (target / BUCKET / name).read_bytes() == content_of(name, OBJECTS[name])
    assert {path.name for path in (target / BUCKET).iterdir()} == OBJECTS.keys() - lost
    listed = {json.loads(line)["key"] for line in (target / "lost.jsonl").read_text().splitlines()}
    # Nothing else names what was only in the lost record.
    assert listed <= lost
    assert listed or found["losses_total"] == 0
    assert state(store) == before, "something was written"


def test_without_an_index_nothing_names_what_only_a_lost_record_did(store: Path, tmp_path: Path) -> None:
    """The report of salvage counts the objects that the lost record may have deleted or replaced."""
    no_index(store)
    (holder,) = (path for path in store.glob("log/*.log") if content_of("tiny", OBJECTS["tiny"]) in path.read_bytes())
    content = bytearray(holder.read_bytes())
    # Its content comes before the record of its version.
    content[content.rindex(b"tiny")] ^= 1
    holder.write_bytes(content)
    said = fsck(store)
    assert said.returncode == 1
    assert "nobody can tell which objects that affects" in said.stderr
    assert "lost: " not in said.stdout
    report = tmp_path / "report.json"
    with serving(store, report) as signer:
        assert signer.roundtrip(signer.request("HEAD", f"/{BUCKET}/tiny"), "HEAD").status == 404
    found = json.loads(report.read_text())
    assert (found["whole"], found["losses"]) == (len(OBJECTS) - 1, [])
    assert found["doubtful"] > 0


def test_every_write_is_refused(store: Path) -> None:
    with orcas.Server(store, salvage=True) as server:
        signer = Signer.of(server)
        delete = b"<Delete><Object><Key>tiny</Key></Object></Delete>"
        for method, path, query, body in [
            ("PUT", f"/{BUCKET}/tiny", [], b"x"), ("PUT", f"/{BUCKET}/new", [], b"x" * (4 * CHUNK)),
            ("PUT", "/another-bucket", [], b""), ("DELETE", f"/{BUCKET}/tiny", [], b""),
            ("DELETE", f"/{BUCKET}", [], b""), ("POST", f"/{BUCKET}", [("delete", "")], delete),
            ("POST", f"/{BUCKET}/new", [("uploads", "")], b""),
        ]:  # fmt: skip
            answer = signer.roundtrip(signer.request(method, path, query, body=body))
            assert (answer.status, answer.code) == (403, "AccessDenied"), (method, path, answer)
        listing = signer.roundtrip(signer.request("GET", f"/{BUCKET}")).body.decode()
        assert re.findall(r"<Key>([^<]*)</Key>", listing) == sorted(OBJECTS)
        assert get(signer, "chunks", 5, CHUNK + 5) is not None


def test_a_store_in_use_is_left_alone(store: Path, tmp_path: Path) -> None:
    with orcas.Server(store):
        with pytest.raises(orcas.UnavailableError, match="in use by another process"):
            orcas.Server(store, salvage=True).stop()
        # An export goes through the server that has the store open.
        done = document("export", tmp_path / "exported", "--data", store, "--skip-lost")
        assert done["objects"] == len(OBJECTS)


def test_a_server_skips_what_it_cannot_read(store: Path, tmp_path: Path) -> None:
    flip(store, "chunks", 3 * CHUNK + 1)
    with orcas.Server(store, chunk_size=CHUNK):
        command("export", tmp_path / "plain", "--data", store, code=69)
        command("export", tmp_path / "exported", "--data", store, "--skip-lost", code=1)
    lost = [json.loads(line) for line in (tmp_path / "exported" / "lost.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lost] == ["chunks"]
    assert {path.name for path in (tmp_path / "exported" / BUCKET).iterdir()} == OBJECTS.keys() - {"chunks"}


def test_a_refused_start_names_the_next_command(store: Path) -> None:
    no_keys(store)
    with pytest.raises(orcas.UnavailableError, match="orcas serve --salvage"):
        orcas.Server(store).stop()


def test_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(orcas.UnavailableError, match="no record of the log can be read"):
        orcas.Server(tmp_path, salvage=True).stop()
    assert not list((tmp_path / "log").iterdir())
