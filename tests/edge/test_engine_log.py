"""What the log says about the engine: damage that it found and what it did about it, without secrets."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import ran
from tests.fixtures.serving import ACCESS_KEY, SECRET_KEY, Running, serving

from orcas.settings.config import child_environment

CONTENT = b"some bytes that are easy to find in a file. " * 200
LARGE = b"other bytes that are easy to find as well. " * 20_000
TIMEOUT_SECONDS = 20
PAGE = 4096
SCRUB = {"ORCAS_SCRUB_BYTES_PER_SEC": "1000000000"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that was shut down cleanly, in which `bucket/a key` holds CONTENT and `bucket/large` LARGE."""
    with serving(tmp_path, level="info", form="json") as running:
        assert running.wire("PUT", "/bucket").status == 200
        assert running.wire("PUT", "/bucket/a%20key", body=CONTENT).status == 200
        assert running.wire("PUT", "/bucket/large", body=LARGE).status == 200
        assert running.stop() == 0
    return tmp_path / "store"


def damage(store: Path, content: bytes) -> Path:
    """Flip a bit of `content`; the file that holds it."""
    for path in [*store.glob("chunks/*.pack"), *store.glob("log/*.log")]:
        stored = bytearray(path.read_bytes())
        if (at := stored.find(content[:100])) >= 0:
            stored[at + 7] ^= 1
            path.write_bytes(stored)
            return path
    raise AssertionError("the content is not on disk")


def garble_index(store: Path, begin: int = 0) -> None:
    """Overwrite the index from this byte on."""
    path = store / "index.db"
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(b"garbage!" * ((path.stat().st_size - begin) // 8))


def awaited(lines: Callable[[], list[Any]]) -> list[Any]:
    """Wait until `lines()` returns some."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := lines()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def no_secrets(running: Running, store: Path) -> None:
    """Neither the root key nor a key of the store has been logged, in any form."""
    text = running.text()
    assert SECRET_KEY not in text
    for path in [store / "store.keys", store / "store.keys.copy"]:
        key = path.read_bytes()
        for begin in range(0, len(key) - 16, 8):
            piece = key[begin : begin + 16]
            assert piece.hex() not in text.lower()
            assert base64.b64encode(piece)[:-3].decode() not in text


@pytest.mark.parametrize("form", ["human", "json"])
def test_damage_that_a_request_meets_is_told_with_file_and_key(store: Path, form: str) -> None:
    small, large = damage(store, CONTENT), damage(store, LARGE)
    with serving(store.parent, level="info", form=form) as running:
        answer = running.wire("GET", "/bucket/a%20key")
        assert answer.status == 500
        request_id = answer.headers["x-amz-request-id"]
        assert running.wire("GET", "/bucket/large").status == 500
        assert running.stop() == 0
        if form == "json":
            [line] = running.about(request_id)
            assert (line["level"], line["bucket"], line["key"]) == ("error", "bucket", "a key")
            assert f"{small} is damaged at byte " in line["cause"]
            [line] = [line for line in running.lines() if f"{large} is damaged at byte " in json.dumps(line)]
            assert line["level"] == "error"
        else:
            [text] = [line for line in running.text().splitlines() if request_id in line]
            assert re.search(r" ERROR orcas\.(s3|front): Request failed ", text)
            assert 'bucket=bucket key="a key"' in text
            assert f"{small} is damaged at byte " in text
            assert f"{large} is damaged at byte " in running.text()
        no_secrets(running, store)


@pytest.mark.parametrize("form", ["human", "json"])
def test_damage_that_the_scrub_finds_is_told_with_its_place(store: Path, form: str) -> None:
    path = damage(store, CONTENT)
    message = "The scrub found damage: `orcas fsck` shows what is affected"
    with serving(store.parent, level="info", form=form, **SCRUB) as running:
        [text, *_] = awaited(lambda: [line for line in running.text().splitlines() if message in line])
        if form == "json":
            line = json.loads(text)
            assert (line["level"], line["logger"], line["message"]) == ("error", "orcas.engine", message)
            assert line["place"].startswith(f"{path}, byte ")
            assert line["thread"] == "orcas-scrub"
            assert line["detail"]
        else:
            assert re.match(rf"\d\d:\d\d:\d\d ERROR orcas\.engine: {re.escape(message)} place=", text)
            assert f'"{path}, byte ' in text
            assert "thread=orcas-scrub" in text
        assert running.stop() == 0
        no_secrets(running, store)


def test_a_start_says_why_it_rebuilt_the_index_and_that_before_it_is_ready(store: Path) -> None:
    garble_index(store)
    with serving(store.parent, level="info", form="json") as running:
        messages = [line["message"] for line in running.lines()]
        [line] = [line for line in running.lines() if line["logger"] == "orcas.engine"]
        assert line["message"] == "The index cannot be used and is being rebuilt from the log"
        assert line["level"] == "warning"
        assert line["reason"]
        assert messages.index(line["message"]) < messages.index("Ready")
        assert running.wire("GET", "/bucket/a%20key").body == CONTENT
        assert running.stop() == 0
        no_secrets(running, store)


def test_an_index_that_is_rebuilt_while_it_serves_is_told(store: Path) -> None:
    with serving(store.parent, level="info", form="json") as running:
        for number in range(200):
            assert running.wire("PUT", f"/bucket/{number:0300}").status == 200
        assert running.stop() == 0
    with serving(store.parent, level="info", form="json") as running:
        garble_index(store, PAGE)

        def told() -> list[dict[str, Any]]:
            running.wire("GET", "/bucket")
            # The scrub may find the damage, too.
            message = "The index was damaged and has been rebuilt from the log"
            return [line for line in running.lines() if line["message"] == message]

        [line] = awaited(told)
        assert (line["level"], line["thread"]) == ("warning", "orcas-rebuild")
        assert running.wire("GET", "/bucket").status == 200
        assert running.stop() == 0
        no_secrets(running, store)


def test_a_sound_store_has_nothing_to_tell(store: Path) -> None:
    with serving(store.parent, level="info", form="json") as running:
        assert running.wire("GET", "/bucket/a%20key").body == CONTENT
        assert running.stop() == 0
        loggers = {line["logger"] for line in running.lines()}
    assert loggers == {"orcas"}


def test_a_command_and_a_start_that_fails_show_what_the_engine_told_last(store: Path) -> None:
    garble_index(store)
    for path in store.glob("log/*.log"):
        stored = bytearray(path.read_bytes())
        at = stored.find(b"bucket")
        if at >= 0:
            stored[at] ^= 1
            path.write_bytes(stored)
    environ = child_environment() | {"ORCAS_LOG_FORMAT": "json", "ORCAS_DATA": str(store)}
    environ |= {"ORCAS_ROOT_ACCESS_KEY": ACCESS_KEY, "ORCAS_ROOT_SECRET_KEY": SECRET_KEY}
    done = ran(environ, str(store.parent), "stats")
    told, said = done.stderr.splitlines()
    assert json.loads(told)["message"] == "The index cannot be used and is being rebuilt from the log"
    assert said.startswith("orcas: The store in ")
    assert done.returncode == 69
