"""The newest lines of the log in memory: what is kept, found, and never kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from orcas.telemetry import logs
from orcas.telemetry.kept import BYTES_MAX, LINE_MAX, LINES_MAX, KeptLines

SECRET = "never-to-be-seen"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptLines]:
    """What the log of a server keeps, as the command sets it up."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    logs.configure("human", "debug")
    found = logs.kept_lines()
    assert found is not None
    yield found
    for name in ("uvicorn.error", "uvicorn", "asyncio", "aiosqlite"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def line(number: int, more: str = "") -> str:
    return json.dumps({"time": "", "level": "info", "logger": "orcas", "message": f"{number}{more}"})


def test_a_program_without_this_log_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [logging.NullHandler()])
    assert logs.kept_lines() is None


def test_lines_are_bounded() -> None:
    kept = KeptLines()
    for number in range(LINES_MAX + 5):
        kept.take(line(number))
    found, newest = kept.newest(LINES_MAX * 2)
    assert newest == LINES_MAX + 5
    assert len(found) == LINES_MAX
    assert [found[0]["message"], found[-1]["message"]] == [str(LINES_MAX + 4), "5"]
    assert [entry["number"] for entry in kept.newest(10, after=newest - 2)[0]] == [newest, newest - 1]


def test_bytes_are_bounded_and_a_long_line_loses_its_middle() -> None:
    kept = KeptLines()
    for number in range(300):
        kept.take(line(number, "ü" * 20 * LINE_MAX + "end"))
    found, _ = kept.newest(LINES_MAX)
    assert 0 < sum(len(json.dumps(entry, ensure_ascii=False).encode()) for entry in found) <= 1.1 * BYTES_MAX
    assert found[0]["message"].startswith("299ü")
    assert found[0]["message"].endswith("end")
    assert len(found[0]["message"]) <= LINE_MAX


def test_lines_are_found_by_level_and_text(kept: KeptLines) -> None:
    log = logging.getLogger("orcas.engine")
    log.debug("small")
    log.warning("Large thing", extra={"orcas": {"bucket": "Photos", "count": 3}})
    log.error("worse")
    assert [entry["message"] for entry in kept.newest(10)[0]] == ["worse", "Large thing", "small"]
    assert [entry["message"] for entry in kept.newest(10, level="warning")[0]] == ["worse", "Large thing"]
    assert [entry["message"] for entry in kept.newest(1)[0]] == ["worse"]
    for text in ("large", "photos", "3"):
        assert kept.newest(10, search=text)[0][0]["bucket"] == "Photos"
    assert kept.newest(10, search="ENGINE", level="error")[0][0]["logger"] == "orcas.engine"
    assert kept.newest(10, search="absent")[0] == []


def test_no_secret_is_kept(kept: KeptLines) -> None:
    text = f"/b/k?X-Amz-Signature={SECRET} secret_key='{SECRET}' Authorization: Bearer {SECRET}"
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("orcas").exception("%s", text, extra={"orcas": {"target": text}})
    entry = kept.newest(1)[0][0]
    assert "Traceback" in entry["exception"]
    assert SECRET not in json.dumps(entry)


def test_what_is_no_unicode_is_escaped(kept: KeptLines, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without that of pytest, which cannot pass such a line on to the process that reports.
    monkeypatch.setattr(logging.root, "handlers", logging.root.handlers[:1])
    logging.getLogger("orcas").warning("file \udcff\x1b[2J", extra={"orcas": {"path": "\ud800"}})
    entry = kept.newest(1)[0][0]
    assert (entry["message"], entry["path"]) == ("file \\udcff\x1b[2J", "\\ud800")


def test_a_flood_is_limited_as_on_stderr(kept: KeptLines) -> None:
    for number in range(200):
        logging.getLogger("orcas").warning("flood %d", number)
    assert len(kept.newest(500, search="flood")[0]) < 100
    logs.report_suppressed(0)
    assert "were not logged" in kept.newest(1)[0][0]["message"]
