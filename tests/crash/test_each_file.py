"""Every file of a store is missing, empty, cut, or has one bit flipped: the table in docs/operations.md holds.

The server starts and serves right bytes, or refuses with a sentence that names the file and what to do. What is lost is
named by one of them. Nothing is lost that the table does not say. Stores are opened in this process, which is cheaper.
DAMAGE_FLIPS=N flips N bits of each file, one after the other, instead of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from tests.fixtures.commands import command, ran
from tests.fixtures.control import changing
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.marks import full
from tests.fixtures.signing import Identity, signed_headers
from tests.fixtures.targets import content_of
from tests.fixtures.waiting import wait_until

from orcas.control.cipher import Cipher, read_cipher
from orcas.control.files.authority import certify
from orcas.control.quotas import read_quotas, write_quotas
from orcas.engine import sealer_of
from orcas.errors import UnavailableError
from orcas.http.extensions import RESPONSE
from orcas.serving.app import OpenStore, Orcas
from orcas.settings.config import Settings, child_environment, resolve

pytestmark = pytest.mark.crash

FLIPS: Final = int(os.environ.get("DAMAGE_FLIPS", "1"))
SEED: Final = 27
BUCKET: Final = "/bucket"
OTHER: Final = "e" * 64
OTHER_KEYS: Final = Identity("other", "secret-of-the-other", "us-east-1")
QUOTAS: Final = {OTHER: (1 << 40, 7)}
CHUNK: Final = 256 << 10
# By name: records of the log and chunks, old and new.
SIZES: Final = {"a-tiny": 300, "b-small": 60_000, "c-chunks": 2 * CHUNK + 17, "d-last": 1000, "e-last-chunk": 100_000}
BLOCK: Final = 64 << 10
ZEROS: Final = bytes(BLOCK)
# What has the bytes of objects. All other files cost no object.
CONTENT: Final = ("log/*.log", "chunks/*.pack")
# A damaged one is as good as a missing one: nothing reads it, or it is made again, or it is the past.
NEEDLESS: Final = {"ballast", "control.lock", "store.lock", "store.closed", "tls.pem", "usage.db"}
TIMEOUT_SECONDS: Final = 30


@dataclass
class Answer:
    """What came back to a request in this process."""

    status: int = 0
    body: bytes = b""
    raised: Exception | None = None

    async def take(self, message: dict[str, Any]) -> None:
        if message["type"] == RESPONSE:
            self.status = message["response"].status
            self.body = message["response"].body
        else:
            self.body += message["body"]


async def ask(store: OpenStore, method: str, target: str, body: bytes = b"", keys: Identity | None = None) -> Answer:
    """One signed request, by root if nobody else is named."""
    keys = keys or Identity(store.root.access_key, store.root.secret_key, "us-east-1")
    signed = signed_headers(keys, method, f"http://localhost:9000{target}", {"host": "localhost:9000"}, body)
    headers = [(name.lower().encode(), value.encode()) for name, value in signed.items()]
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "method": method, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(b"content-length", b"%d" % len(body)), *headers],
    }  # fmt: skip
    answer, sent = Answer(), False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        await store.dispatch(scope, receive, answer.take)
    except Exception as error:  # noqa: BLE001 - how a response is broken off
        answer.raised = error
    return answer


def settings_of(data: Path) -> Settings:
    given = {"data": str(data), "chunk_size": CHUNK, "master_key": MASTER_KEY, "scrub_bytes_per_sec": 0}
    return resolve(given, ambient=False).settings


@dataclass
class Image:
    """The files of a stopped store, without their zeros: they are most of it."""

    sizes: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, dict[int, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Path) -> Image:
        image = cls()
        for path in sorted(path for path in data.rglob("*") if path.is_file()):
            name = str(path.relative_to(data))
            image.sizes[name], image.blocks[name] = path.stat().st_size, {}
            with path.open("rb") as file:
                for at in range(0, image.sizes[name], BLOCK):
                    block = file.read(BLOCK)
                    if block != ZEROS[: len(block)]:
                        image.blocks[name][at] = block
        return image

    def write(self, data: Path, but: str, blow: Callable[[Image, str, Path], None]) -> None:
        """Write the store, one file of it damaged."""
        for folder in ("", "log", "chunks", "events", "audit"):
            (data / folder).mkdir(mode=0o700, exist_ok=True)
        for name, blocks in self.blocks.items():
            with (data / name).open("wb") as file:
                for at, block in blocks.items():
                    file.seek(at)
                    file.write(block)
                file.truncate(self.sizes[name])
        blow(self, but, data / but)


def cut(image: Image, name: str, path: Path) -> None:
    """Half of what is there: a log file ends in zeros."""
    end = max((at + len(block.rstrip(b"\0")) for at, block in image.blocks[name].items()), default=image.sizes[name])
    os.truncate(path, end // 2)


def flip(image: Image, name: str, path: Path, seed: int) -> None:
    """A bit of a byte that is not zero; bits of zeros are in places that nothing uses."""
    chosen = random.Random(f"{SEED} {name} {seed}")
    blocks = image.blocks[name]
    if blocks:
        at = chosen.choice(sorted(blocks))
        place = chosen.choice([at + n for n, byte in enumerate(blocks[at]) if byte])
    else:
        place = chosen.randrange(image.sizes[name])
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << chosen.randrange(8)]))


BLOWS: Final[dict[str, Callable[[Image, str, Path], None]]] = {
    "missing": lambda _image, _name, path: path.unlink(),
    "empty": lambda _image, _name, path: os.truncate(path, 0),
    "cut": cut,
    **{f"flip-{n}": lambda image, name, path, n=n: flip(image, name, path, n) for n in range(FLIPS)},
}


def add_identity(data: Path, cipher: Cipher) -> None:
    with changing(data, cipher) as connection:
        connection.execute("INSERT INTO accounts VALUES (?, '999999999999', 'other', 0)", (OTHER,))
        encrypted = cipher.encrypt(OTHER_KEYS.access_key, OTHER, OTHER_KEYS.secret_key)
        values = (OTHER_KEYS.access_key, OTHER, *encrypted)
        connection.execute("INSERT INTO access_keys VALUES (?, ?, NULL, ?, ?, 0, 1, NULL, NULL)", values)


async def put(store: OpenStore, *names: str) -> None:
    for name in names:
        answer = await ask(store, "PUT", f"{BUCKET}/{name}", content_of(name, SIZES[name]))
        assert answer.status == 200, answer


async def image_between_samples(data: Path) -> Image:
    """The files while no sample of usage is being written. SQLite's journal is there only meanwhile: it may vanish, or come
    and go, while the files are read."""
    usage = data / "usage.db"
    for _ in range(1000):
        with contextlib.suppress(FileNotFoundError):
            before = usage.stat().st_mtime_ns
            image = Image.of(data)
            if "usage.db-journal" not in image.sizes and usage.stat().st_mtime_ns == before:
                return image
        await asyncio.sleep(0.01)
    raise AssertionError("usage is written all the time")


async def build(data: Path) -> dict[str, Image]:
    """A store with a keyring, a second identity, a quota, events and usage, closed and opened several times.

    As it was closed, and as it would be if its process had been killed at the end.
    """
    app = Orcas(settings_of(data))
    async with app.router.lifespan_context(app):
        assert app.store is not None
        assert app.store.parts is not None
        assert (await ask(app.store, "PUT", BUCKET)).status == 200
        await put(app.store, "a-tiny", "b-small", "c-chunks")
        assert app.store.parts.identities is not None
        await (await app.store.parts.identities.identities()).perform("CreateUser", {"UserName": "user"})
        certify(data, ["localhost"])
        cipher = read_cipher(data, sealer_of(app.store.parts.core))
        write_quotas(data, QUOTAS)
    assert cipher is not None
    add_identity(data, cipher)
    # Every start begins a new log file, so the objects above are in one that is not replayed.
    for _ in range(2):
        async with app.router.lifespan_context(app):
            assert app.store is not None
            await put(app.store, "d-last", "e-last-chunk")
            assert wait_until(lambda: app.store.health().lag_records == 0)
            killed = await image_between_samples(data)
    return {"closed": Image.of(data), "killed": killed}


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    return asyncio.run(build(tmp_path_factory.mktemp("each") / "store"))


def kind_of(name: str) -> str:
    """The name without a number."""
    return re.sub(r"[0-9]{20}", "N", name)


def named(image: Image, kind: str) -> str:
    """The name of a file; `kind:0` is the first one of a kind, and `kind:-1` the last."""
    kind, _, at = kind.partition(":")
    return [name for name in image.sizes if kind_of(name) == kind][int(at or 0)]


async def read_all(store: OpenStore) -> tuple[set[str], list[str] | None]:
    """The objects that cannot be read, and those that are listed. What is sent is right in any case."""
    lost = set()
    for name, size in SIZES.items():
        answer = await ask(store, "GET", f"{BUCKET}/{name}")
        whole = content_of(name, size)
        if answer.status == 200 and answer.raised is None:
            assert answer.body == whole, f"wrong bytes of {name}"
            continue
        assert answer.status != 404, name
        assert answer.status != 200 or whole.startswith(answer.body), f"wrong bytes of {name} before the break"
        lost.add(name)
    listed = await ask(store, "GET", f"{BUCKET}?list-type=2")
    assert listed.status in (200, 503), listed
    return lost, re.findall(r"<Key>([^<]*)</Key>", listed.body.decode()) if listed.status == 200 else None


async def serve(data: Path, *, may_lose: bool) -> tuple[set[str], str]:
    """Open the store and read everything. The objects that are lost, and what health says."""
    app = Orcas(settings_of(data))
    async with app.router.lifespan_context(app), asyncio.timeout(TIMEOUT_SECONDS):
        store = app.store
        assert store is not None
        lost, listed = await read_all(store)
        # A damaged index is rebuilt meanwhile.
        while not may_lose and (lost or listed is None or store.health().status != "ok"):
            await asyncio.sleep(0.05)
            lost, listed = await read_all(store)
        assert listed is None or listed == sorted(SIZES)
        known = await ask(store, "GET", BUCKET, keys=OTHER_KEYS)
        assert (known.status, b"<Code>AccessDenied<" in known.body) == (403, True), "the identity is gone"
        assert read_quotas(data) == QUOTAS
        certificate, ca = (x509.load_pem_x509_certificate(path.read_bytes()) for path in certify(data, ["localhost"]))
        certificate.verify_directly_issued_by(ca)
        return lost, store.health().status


TWICE: Final = ("store.keys", "keyring", "root.json", "control.key", "control.db", "quotas.json")
NAMES: Final = sorted([
    *TWICE, *(f"{name}.copy" for name in TWICE), *NEEDLESS, "tls-ca.key", "tls-ca.pem", "index.db",
    "index.db-wal", "log/N.log:0", "log/N.log:-1", "chunks/N.pack:0", "chunks/N.pack:-1", "events/N.events", "audit/N.jsonl",
])  # fmt: skip


# Copies that restored backups lack.
LACKED: Final = {f"{name}.copy" for name in ("root.json", "control.key", "control.db", "quotas.json")}


def told_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the log, with their levels and fields."""
    return [f"{record.levelname} {record.getMessage()} {vars(record).get('orcas')}" for record in caplog.records]


def test_every_file_is_damaged(images: dict[str, Image]) -> None:
    assert {kind_of(name) for image in images.values() for name in image.sizes} == {
        name.partition(":")[0] for name in NAMES
    }


@pytest.mark.parametrize("end", ["killed", *full("closed")])
@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("kind", NAMES)
async def test_a_file(
    images: dict[str, Image], tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, blow: str, end: str
) -> None:
    image = images[end]
    if (end, kind) == ("killed", "store.closed"):
        pytest.skip("it is not there")
    name = named(image, kind)
    if blow != "missing" and image.sizes[name] == 0:
        pytest.skip("it is always empty")
    data = tmp_path / "store"
    image.write(data, name, BLOWS[blow])
    is_content = any(Path(name).match(pattern) for pattern in CONTENT)
    caplog.set_level(logging.INFO)
    try:
        lost, status = await serve(data, may_lose=is_content)
    except UnavailableError as refusal:
        assert is_content, refusal
        assert refusal.exit_code == 69
        assert name in str(refusal)
        assert "`orcas fsck" in str(refusal)
        assert "\n" not in str(refusal)
        return
    assert not lost or is_content
    if name not in NEEDLESS and not lost and (data / name).exists():
        # A second start has nothing left to repair.
        lines = told_by(caplog)
        said = "".join(lines)
        caplog.clear()
        assert await serve(data, may_lose=is_content) == (lost, status)
        assert "restored" not in caplog.text
        # Of many lines of a kind, the log has the first ones.
        told = (
            blow in {"missing", "empty", "cut", "flip-0"}
            and not is_content
            and not name.startswith(("index", "events", "audit"))
            # A flipped bit may leave a text what it was: one of its line ends, or one that base64 does not use.
            and not (name.startswith("tls") and blow.startswith("flip"))
        )
        # What restored backups lack is no warning.
        level = "INFO" if blow == "missing" and name in LACKED else "WARNING"
        levels = {line.split()[0] for line in lines if Path(name).name in line} - {"DEBUG"}
        assert not told or max(levels, key=("INFO", "WARNING", "ERROR").index) == level, lines
        assert not name.startswith("audit") or "ERROR The audit log is damaged or missing" in said
        assert not name.startswith("events") or blow != "missing" or "WARNING The event journal is missing" in said


async def test_what_is_lost_twice_is_given_up_by_the_operator(images: dict[str, Image], tmp_path: Path) -> None:
    data = tmp_path / "store"
    images["closed"].write(data, "control.db", BLOWS["missing"])
    for name in ("control.db.copy", "quotas.json.copy"):
        (data / name).unlink()
    os.truncate(data / "quotas.json", 9)
    with pytest.raises(
        UnavailableError, match=r"control\.db and its copy are missing.*`orcas fsck --repair --accept-loss`"
    ):
        await serve(data, may_lose=False)
    said = await asyncio.to_thread(command, "fsck", "--data", data, code=1)
    assert "lost: control.db\nlost: quotas.json\n" in said
    said = await asyncio.to_thread(command, "fsck", "--data", data, "--repair", "--accept-loss")
    assert "given up: control.db\ngiven up: control.key\ngiven up: quotas.json\n" in said
    app = Orcas(settings_of(data))
    async with app.router.lifespan_context(app):
        assert app.store is not None
        assert await read_all(app.store) == (set(), sorted(SIZES))
        assert b"<Code>InvalidAccessKeyId<" in (await ask(app.store, "GET", BUCKET, keys=OTHER_KEYS)).body
    assert read_quotas(data) == {}


@pytest.mark.parametrize("name", ["store.keys", "keyring", "root.json"])
def test_what_cannot_be_given_up_is_to_be_restored(images: dict[str, Image], tmp_path: Path, name: str) -> None:
    data = tmp_path / "store"
    images["closed"].write(data, name, BLOWS["missing"])
    (data / f"{name}.copy").unlink()
    with pytest.raises(UnavailableError, match=rf"{name}.*restore") as refusal:
        asyncio.run(serve(data, may_lose=False))
    assert "--accept-loss" not in str(refusal.value)
    for repair in ((), ("--repair", "--accept-loss")):
        done = ran(child_environment(), ".", "fsck", "--data", str(data), *repair)
        assert done.returncode == 1
        sentence = done.stderr.splitlines()[-1]
        assert "restore" in sentence
        assert "`orcas serve --salvage`" in sentence
        assert "fsck" not in sentence
    if name == "root.json":
        # `control.db` has the pair of the last server, which no server would take.
        assert name in command("env", "--data", data, code=69, ORCAS_MASTER_KEY=MASTER_KEY)


async def test_an_index_that_is_missing_is_said_to_be_rebuilt(
    images: dict[str, Image], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "store"
    images["closed"].write(data, "index.db", BLOWS["missing"])
    caplog.set_level(logging.INFO)
    app = Orcas(settings_of(data))
    async with app.router.lifespan_context(app):
        assert app.store is not None
        assert app.store.opening["recovery"] == "index rebuilt"
        assert await read_all(app.store) == (set(), sorted(SIZES))
        assert [line.split()[0] for line in told_by(caplog) if "The index is missing" in line] == ["INFO"]
    async with app.router.lifespan_context(app):
        assert app.store is not None
        assert app.store.opening["recovery"] == "none"


async def test_a_journal_of_events_that_is_gone_is_told_by_one_line(
    images: dict[str, Image], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "store"
    images["closed"].write(data, "store.lock", BLOWS["missing"])
    shutil.rmtree(data / "events")
    caplog.set_level(logging.INFO)
    assert await serve(data, may_lose=False) == (set(), "ok")
    (line,) = [line for line in told_by(caplog) if "event" in line.lower()]
    assert line.startswith("INFO The event journal begins")


async def test_without_the_end_of_the_log_and_the_index_the_journal_of_events_hints_at_it(
    images: dict[str, Image], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing names what they held: the store is as it was before."""
    data = tmp_path / "store"
    images["closed"].write(data, "store.lock", BLOWS["missing"])
    app = Orcas(settings_of(data))
    async with app.router.lifespan_context(app):
        assert app.store is not None
        assert (await ask(app.store, "PUT", f"{BUCKET}/z-lost", b"x")).status == 200
    held = min(path for path in data.glob("log/*.log") if b"z-lost" in path.read_bytes())
    for path in [*data.glob("index.db*"), *(path for path in data.glob("log/*.log") if path >= held)]:
        path.unlink()
    caplog.set_level(logging.INFO)
    assert await serve(data, may_lose=False) == (set(), "ok")
    (line,) = [line for line in told_by(caplog) if not line.startswith(("DEBUG", "INFO"))]
    assert line.startswith("WARNING The event journal is not of this state of the store")
