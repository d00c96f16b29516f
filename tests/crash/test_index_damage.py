"""`index.db` is damaged while a server runs or is stopped: no wrong answer, no 500, and soon an intact index again."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import content_of
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Signer

import orcas

pytestmark = pytest.mark.crash

BUCKET = "garbled"
OBJECTS = 300
PAGE = 4096
FRAME = PAGE + 24
WAL_HEADER = 32
TIMEOUT_SECONDS = 30


def key(number: int) -> str:
    return f"{number:05}-{'k' * 300}"


def body(number: int) -> bytes:
    return content_of(number, 10 + number % 400)


def put(signer: Signer, number: int) -> int:
    return signer.roundtrip(signer.request("PUT", f"/{BUCKET}/{key(number)}", body=body(number))).status


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose index has many pages, shut down cleanly; tests copy it."""
    data = tmp_path_factory.mktemp("sound") / "store"
    with orcas.Server(data) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        assert {put(signer, number) for number in range(OBJECTS)} == {200}
    command("compact", "--data", data)
    return data


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy of the store that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "store"))


def garble(path: Path, offsets: list[int]) -> None:
    with path.open("r+b") as file:
        for offset in offsets:
            file.seek(offset + 1000)
            file.write(content_of(offset, 64))


def pages(path: Path) -> range:
    return range(0, path.stat().st_size, PAGE)


def every_page(store: Path) -> None:
    path = store / "index.db"
    garble(path, list(pages(path)[1:]))


def one_page(store: Path) -> None:
    """The page with the first keys of the listing."""
    path = store / "index.db"
    whole = path.read_bytes()
    garble(path, [whole.index(key(3).encode()) // PAGE * PAGE])


def roots(store: Path) -> None:
    path = store / "index.db"
    garble(path, list(pages(path)[1:20]))


def cut(store: Path) -> None:
    path = store / "index.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def write_ahead_log(store: Path) -> None:
    path = store / "index.db-wal"
    garble(path, list(range(WAL_HEADER, path.stat().st_size, FRAME)))


def is_replaced(store: Path, inode: int) -> bool:
    """Whether the index is there and is another file than the one with that inode."""
    with contextlib.suppress(FileNotFoundError):
        return (store / "index.db").stat().st_ino != inode
    return False


def ready(server: orcas.Server) -> str:
    try:
        with urllib.request.urlopen(f"{server.endpoint}/_orcas/health/ready") as answer:
            return str(json.load(answer)["status"])
    except urllib.error.HTTPError as error:
        with error:
            told = json.load(error)
        assert (error.code, told["status"]) == (503, "damaged")
        assert "index" in told["reason"]
        return "damaged"


def listed(signer: Signer) -> list[str] | None:
    """All keys; None while the index is being rebuilt."""
    keys: list[str] = []
    after = ""
    while True:
        query = [("list-type", "2"), ("start-after", after)]
        page = signer.roundtrip(signer.request("GET", f"/{BUCKET}", query=query))
        if page.status == 503:
            assert page.code == "ServiceUnavailable"
            return None
        assert page.status == 200, page
        found = re.findall(r"<Key>([^<]*)</Key>", page.body.decode())
        keys += found
        if b"<IsTruncated>true" not in page.body:
            return keys
        after = found[-1]


def wait_until_whole(server: orcas.Server, signer: Signer) -> set[str]:
    """What `ready` reported meanwhile."""
    said = set()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        said.add(ready(server))
        if listed(signer) is not None and ready(server) == "ok":
            return said
        assert time.monotonic() < deadline, said
        time.sleep(0.01)


def check(signer: Signer, numbers: range, also: set[int]) -> None:
    there = sorted(key(number) for number in {*numbers, *also})
    assert listed(signer) == there
    for number in list(numbers)[::37] + sorted(also):
        answer = signer.roundtrip(signer.request("GET", f"/{BUCKET}/{key(number)}"))
        assert (answer.status, answer.body) == (200, body(number)), number


@pytest.mark.parametrize("blow", [every_page, one_page, write_ahead_log])
def test_a_running_server_replaces_it(store: Path, blow: Callable[[Path], None]) -> None:
    with orcas.Server(store, log_level="info") as server:
        signer = Signer.of(server)
        acknowledged = set()
        if blow is write_ahead_log:
            acknowledged = {number for number in range(OBJECTS, 2 * OBJECTS) if put(signer, number) == 200}
            # Objects are in the index's own write-ahead log soon after they were acknowledged.
            time.sleep(0.5)
        damaged = (store / "index.db").stat().st_ino
        blow(store)
        for number in range(2 * OBJECTS, 2 * OBJECTS + 60):
            if (status := put(signer, number)) == 200:
                acknowledged.add(number)
            assert status in (200, 503)
            answer = signer.roundtrip(signer.request("GET", f"/{BUCKET}/{key(number % OBJECTS)}"))
            assert answer.status == 503 or (answer.status, answer.body) == (200, body(number % OBJECTS))
            some = listed(signer)
            assert some is None or set(some) >= {key(number) for number in acknowledged}
        # Lists may not need the damaged page, so they say nothing of whether it has been replaced.
        assert wait_until(lambda: is_replaced(store, damaged), TIMEOUT_SECONDS)
        wait_until_whole(server, signer)
        check(signer, range(OBJECTS), acknowledged)
        inode = (store / "index.db").stat().st_ino
    assert server._process.returncode == 0
    assert not {path.name for path in store.glob("index.db.*")}
    # The rebuilt index was the one closed, and it agrees with the log.
    assert (store / "index.db").stat().st_ino == inode
    assert document("fsck", "--data", store)["index"]["state"] == "equal"


@pytest.mark.parametrize("blow", [one_page, roots, cut])
def test_a_start_replaces_it(store: Path, blow: Callable[[Path], None]) -> None:
    blow(store)
    found = document("fsck", "--data", store, code=1)
    assert (found["findings_total"], found["losses_total"]) == (1, 0)
    assert "row " not in command("fsck", "--data", store, code=1)
    with orcas.Server(store) as server:
        signer = Signer.of(server)
        wait_until_whole(server, signer)
        check(signer, range(OBJECTS), set())
    assert server._process.returncode == 0
    assert document("fsck", "--data", store)["index"]["state"] == "equal"


def test_with_a_damaged_log_it_says_so_and_ends_in_words(store: Path) -> None:
    with orcas.Server(store, log_level="info") as server:
        signer = Signer.of(server)
        sealed = min(store.glob("log/*.log"))
        garble(sealed, [5_000])
        every_page(store)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while put(signer, OBJECTS) != 503 or listed(signer) is not None or ready(server) != "damaged":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        assert put(signer, OBJECTS) == 503
        server.stop()
        assert server._process.returncode == 1
