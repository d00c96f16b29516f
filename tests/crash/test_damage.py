"""Bytes of a stopped store are changed: the server never returns them, and never says that there is no object."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.targets import content_of
from tests.fixtures.wire import EndOfConnectionError, Signer

import orcas

pytestmark = pytest.mark.crash

BUCKET = "damage"
CHUNK = 256 << 10
BLOCK = 64 << 10
# Sizes in bytes by name, from one log record to many chunks.
OBJECTS = {"tiny": 300, "small": 60_000, "chunk": 200_000, "chunks": 5 * CHUNK + 17, "other": 400_000, "last": 1000}


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds OBJECTS and was shut down cleanly; tests copy it."""
    data = tmp_path_factory.mktemp("sound") / "store"
    with orcas.Server(data, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        for name in OBJECTS.keys() - {"last"}:
            put(signer, name)
    # Every start begins a new log file. The objects above are in an older one, which is no longer replayed.
    with orcas.Server(data, chunk_size=CHUNK) as server:
        put(Signer.of(server), "last")
    return data


def put(signer: Signer, name: str) -> None:
    """Store an object with its expected bytes."""
    assert (
        signer.roundtrip(signer.request("PUT", f"/{BUCKET}/{name}", body=content_of(name, OBJECTS[name]))).status == 200
    )


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy of the store that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "store"))


def flip(store: Path, name: str, offset: int) -> Path:
    """Flip a bit in the stored byte `offset` of an object; the file that holds it."""
    # Search for the surrounding bytes of the same chunk.
    size = OBJECTS[name]
    start = min(offset, (offset // CHUNK + 1) * CHUNK - 16, size - 16)
    needle = content_of(name, size)[start : start + 16]
    for path in [*store.glob("chunks/*.pack"), *store.glob("log/*.log")]:
        data = path.read_bytes()
        if (at := data.find(needle)) >= 0:
            with path.open("r+b") as file:
                position = at + offset - start
                file.seek(position)
                file.write(bytes([data[position] ^ 0x10]))
            return path
    raise AssertionError(f"{name} is not on disk")


def get(signer: Signer, name: str, first: int | None = None, last: int | None = None) -> bytes | None:
    """An object's bytes, or a range of them; None if the server reported an error or broke off in the middle.

    Bytes that were sent before it broke off are checked too.
    """
    whole = content_of(name, OBJECTS[name])
    headers = [] if first is None else [("range", f"bytes={first}-{last}")]
    expected = whole if first is None or last is None else whole[first : last + 1]
    with signer.connect() as connection:
        connection.send(signer.request("GET", f"/{BUCKET}/{name}", headers=headers))
        try:
            response = connection.response()
        except EndOfConnectionError as error:
            head, _, body = error.received.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if body:
                assert length
                assert len(body) < int(length[1]) == len(expected)
            assert expected.startswith(body), "wrong bytes before the break"
            return None
    if response.status >= 500:
        assert response.code in ("InternalError", "ServiceUnavailable")
        return None
    assert response.status == (200 if first is None else 206), response
    assert response.body == expected, "wrong bytes"
    return response.body


def others_are_sound(signer: Signer, *damaged: str) -> None:
    """Check that all other objects are intact, and that all objects are listed."""
    for name in OBJECTS.keys() - set(damaged):
        assert get(signer, name) is not None, name
    listing = signer.roundtrip(signer.request("GET", f"/{BUCKET}")).body.decode()
    assert re.findall(r"<Key>([^<]*)</Key>", listing) == sorted(OBJECTS)


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("tiny", 0), ("tiny", 299), ("small", 59_999), ("chunk", BLOCK), ("chunk", 199_999),
        ("chunks", 0), ("chunks", 2 * CHUNK + 5), ("chunks", 5 * CHUNK + 16),
    ],
)  # fmt: skip
def test_a_flipped_bit_is_never_served(store: Path, name: str, offset: int) -> None:
    flip(store, name, offset)
    with orcas.Server(store, chunk_size=CHUNK, log_level="info") as server:
        signer = Signer.of(server)
        for _ in range(2):
            assert get(signer, name) is None
        assert signer.roundtrip(signer.request("HEAD", f"/{BUCKET}/{name}"), "HEAD").status == 200
        others_are_sound(signer, name)
        if name == "chunks":
            # A read verifies only what it touches, so intact ranges can be rescued.
            block = offset // BLOCK * BLOCK
            assert get(signer, name, offset, offset) is None
            if block:
                assert get(signer, name, 0, block - 1) is not None
            if block + BLOCK < OBJECTS[name]:
                assert get(signer, name, block + BLOCK, OBJECTS[name] - 1) is not None
        # The damage does not prevent new writes.
        put(signer, name)
        assert get(signer, name) is not None
        others_are_sound(signer)


@pytest.mark.parametrize(("name", "offset"), [("tiny", 150), ("small", 59_999), ("chunk", 70_000), ("last", 10)])
def test_damage_while_it_runs(store: Path, name: str, offset: int) -> None:
    """The next read finds the damage, whatever is cached."""
    with orcas.Server(store, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert get(signer, name) is not None
        flip(store, name, offset)
        assert get(signer, name) is None
        others_are_sound(signer, name)


def test_damage_in_the_last_log_file_costs_what_it_hits(store: Path) -> None:
    """After a clean stop, the index has everything, so only the damaged content is lost."""
    flip(store, "last", 500)
    with orcas.Server(store, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert get(signer, "last") is None
        others_are_sound(signer, "last")
        put(signer, "last")
        others_are_sound(signer)


def fsck(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "orcas", "fsck", "--data", str(store), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", ["tiny", "last"])
def test_a_store_goes_on_without_what_is_lost_once_its_operator_agrees(store: Path, name: str) -> None:
    flip(store, name, 150)
    for path in store.glob("index.db*"):
        path.unlink()
    with pytest.raises(orcas.UnavailableError, match="orcas fsck --repair --accept-loss"):
        orcas.Server(store, chunk_size=CHUNK).stop()
    before = {path: path.read_bytes() for path in store.rglob("*.log")}
    refused = fsck(store, "--repair")
    assert refused.returncode == 1
    assert "--accept-loss" in refused.stderr
    assert {path: path.read_bytes() for path in store.rglob("*.log")} == before
    repaired = fsck(store, "--repair", "--accept-loss")
    assert repaired.returncode == 0
    # The new log gives sequences again that events have had.
    (line,) = repaired.stderr.splitlines()
    assert json.loads(line)["message"] == "The event journal is missing: its events are lost"
    assert f"given up: {BUCKET}/{name}" in repaired.stdout
    assert list(store.glob("log/*.damaged"))
    with orcas.Server(store, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/{name}")).status == 404
        for other in OBJECTS.keys() - {name}:
            assert get(signer, other) is not None, other
        put(signer, name)
        others_are_sound(signer)
    assert fsck(store).returncode == 0


def test_a_lost_deletion_is_undone_and_the_repair_says_so(store: Path) -> None:
    with orcas.Server(store, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("DELETE", f"/{BUCKET}/other")).status == 204
        # Without a record behind it, the damage would be the end of what was written.
        put(signer, "last")
    # Names and content of earlier records are in older files.
    log = max(path for path in store.glob("log/*.log") if b"other" in path.read_bytes())
    content = bytearray(log.read_bytes())
    content[content.index(b"other")] ^= 1
    log.write_bytes(content)
    for path in store.glob("index.db*"):
        path.unlink()
    repaired = fsck(store, "--repair", "--accept-loss")
    assert repaired.returncode == 0
    assert "1 records of the log could not be read." in repaired.stdout
    assert "an object that one of them deleted may reappear." in repaired.stdout
    kept = sorted(store.rglob("*.damaged"))
    assert kept
    assert f"files are kept: remove {', '.join(map(str, kept))} when you no longer need them." in repaired.stdout
    for path in kept:
        path.unlink()
    with orcas.Server(store, chunk_size=CHUNK) as server:
        others_are_sound(Signer.of(server))


@pytest.mark.parametrize("pattern", ["log/*.log", "chunks/*.pack"])
def test_a_file_cut_short_is_damage_from_the_start(store: Path, pattern: str) -> None:
    path = max(store.glob(pattern), key=lambda path: path.stat().st_size)
    os.truncate(path, path.stat().st_size * 2 // 3)
    with orcas.Server(store, chunk_size=CHUNK) as server:
        request = urllib.request.Request(f"{server.endpoint}/_orcas/health/ready")
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(request, timeout=10)
        with refused.value as answer:
            said = json.loads(answer.read())
        assert said["status"] == "damaged"
        assert "orcas fsck" in said["reason"]


@pytest.mark.parametrize("offset", [CHUNK + 1, 3 * CHUNK + 1], ids=["in the first piece", "later"])
def test_a_copy_of_damage_is_no_cure(store: Path, offset: int) -> None:
    """Damage found before anything was sent is an error; damage found later breaks off the answer."""
    flip(store, "chunks", offset)
    with orcas.Server(store, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        source = [("x-amz-copy-source", f"/{BUCKET}/chunks")]
        copied = signer.roundtrip(signer.request("PUT", f"/{BUCKET}/copy", headers=source))
        if copied.status == 200 and b"<Error>" not in copied.body:
            with signer.connect() as connection:
                connection.send(signer.request("GET", f"/{BUCKET}/copy"))
                if offset < 2 * CHUNK:
                    assert connection.response().status == 500
                else:
                    with pytest.raises(EndOfConnectionError):
                        connection.response()


def test_damage_in_the_log_is_not_skipped_by_a_rebuild(store: Path) -> None:
    """Records after a broken one were acknowledged: dropping them would be worse than not starting."""
    flip(store, "tiny", 150)
    for path in store.glob("index.db*"):
        path.unlink()
    try:
        server = orcas.Server(store, chunk_size=CHUNK)
    except orcas.UnavailableError as refusal:
        assert "damaged" in str(refusal) or "corrupt" in str(refusal).lower()
        return
    with server:
        signer = Signer.of(server)
        assert get(signer, "tiny") is None
        others_are_sound(signer, "tiny")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def fill(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


BLOWS: dict[str, Callable[[Path], None]] = {"missing": Path.unlink, "cut": cut, "zeroed": fill}


@pytest.mark.parametrize("blow", BLOWS.values(), ids=BLOWS.keys())
@pytest.mark.parametrize("rebuild", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("pattern", ["log/*.log", "chunks/*.pack"])
def test_a_file_that_is_not_what_it_was(store: Path, pattern: str, rebuild: bool, blow: Callable[[Path], None]) -> None:
    """Refuse to start, or serve what is intact and report the rest as damaged: never 404, never wrong bytes."""
    victim = min(store.glob(pattern))
    if pattern.startswith("log"):
        # The log file with the objects, not the spare.
        victim = next(path for path in sorted(store.glob(pattern)) if content_of("tiny", 300) in path.read_bytes())
    blow(victim)
    if rebuild:
        for path in store.glob("index.db*"):
            path.unlink()
    try:
        server = orcas.Server(store, chunk_size=CHUNK)
    except orcas.UnavailableError as refusal:
        assert str(refusal).count("Traceback") == 0
        return
    with server:
        signer = Signer.of(server)
        for name in OBJECTS:
            get(signer, name)
            assert signer.roundtrip(signer.request("HEAD", f"/{BUCKET}/{name}"), "HEAD").status == 200


@pytest.mark.parametrize("rebuild", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("blow", [Path.unlink, fill], ids=["missing", "zeroed"])
def test_a_store_that_lost_its_log_is_not_a_new_one(store: Path, blow: Callable[[Path], None], rebuild: bool) -> None:
    """Starting with an empty log would delete every chunk as unreferenced."""
    for path in store.glob("log/*.log"):
        blow(path)
    if rebuild:
        for path in store.glob("index.db*"):
            path.unlink()
    with pytest.raises(orcas.UnavailableError):
        orcas.Server(store, chunk_size=CHUNK).stop()
    assert list(store.glob("chunks/*.pack"))


def test_files_of_another_store_are_refused(store: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    with orcas.Server(stranger, chunk_size=CHUNK) as server:
        signer = Signer.of(server)
        signer.roundtrip(signer.request("PUT", f"/{BUCKET}"))
        for name, size in OBJECTS.items():
            signer.roundtrip(signer.request("PUT", f"/{BUCKET}/{name}", body=content_of(f"strange {name}", size)))
    for pattern in ("log/*.log", "chunks/*.pack"):
        for path in store.glob(pattern):
            theirs = stranger / path.relative_to(store)
            if not theirs.exists():
                continue
            ours = path.read_bytes()
            shutil.copyfile(theirs, path)
            try:
                server = orcas.Server(store, chunk_size=CHUNK)
            except orcas.UnavailableError:
                path.write_bytes(ours)
                continue
            with server:
                signer = Signer.of(server)
                for name in OBJECTS:
                    get(signer, name)
            path.write_bytes(ours)
