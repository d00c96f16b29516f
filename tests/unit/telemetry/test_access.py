"""The file of the access log: rotation, and disks that take nothing."""

from __future__ import annotations

import os
import queue
import time
from pathlib import Path

import pytest

from orcas.telemetry.access import AccessLog


class Given:
    """Lines as a test gives them."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue()
        for piece in pieces:
            self._pieces.put(piece)
        self.dropped = 0

    def log_access(self, enabled: bool, /) -> None:
        if not enabled:
            self._pieces.put(b"")

    def take_access_lines(self, gather: float, /) -> bytes:
        assert gather > 0
        return self._pieces.get()

    def drop_access_lines(self, lines: int, /) -> None:
        self.dropped += lines


def written(lines: Given, path: Path, max_size: int, files: int) -> None:
    log = AccessLog(lines, path, max_size, files)
    log.start()
    log.stop()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_full_file_is_renamed_and_the_oldest_goes(tmp_path: Path) -> None:
    written(Given(*(b"%d\n" % number * 3 for number in range(5))), tmp_path / "log", max_size=7, files=2)
    assert contents(tmp_path) == {"log": b"4\n" * 3, "log.1": b"3\n" * 3, "log.2": b"2\n" * 3}


def test_without_renamed_files_the_file_begins_anew(tmp_path: Path) -> None:
    written(Given(b"a\n", b"b\n"), tmp_path / "log", max_size=3, files=0)
    assert contents(tmp_path) == {"log": b"b\n"}


def test_a_write_is_cut_at_lines_only(tmp_path: Path) -> None:
    written(Given(b"aa\nbb\na long line\ncc\n"), tmp_path / "log", max_size=6, files=9)
    assert contents(tmp_path) == {"log.2": b"aa\nbb\n", "log.1": b"a long line\n", "log": b"cc\n"}


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"old\n")
    written(Given(b"new\n"), tmp_path / "log", max_size=100, files=1)
    assert contents(tmp_path) == {"log": b"old\nnew\n"}


def test_lines_that_find_no_room_are_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    lines = Given(b"a\nb\n", b"c\n")
    written(lines, Path("/dev/full"), max_size=100, files=1)
    assert lines.dropped == 3
    assert len(caplog.records) == 1


def test_when_there_is_room_again_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "deep" / "log"
    path.parent.mkdir()
    lines = Given()
    log = AccessLog(lines, path, max_size=3, files=0)
    log.start()
    # Without its directory, the full file cannot be begun anew.
    lines._pieces.put(b"aa\n")
    while not path.stat().st_size:
        time.sleep(0.001)
    path.unlink()
    path.parent.rmdir()
    lines._pieces.put(b"bb\n")
    while not lines.dropped:
        time.sleep(0.001)
    path.parent.mkdir()
    lines._pieces.put(b"cc\n")
    log.stop()
    assert path.read_bytes() == b"cc\n"
    assert lines.dropped == 1
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_full_file_that_cannot_be_renamed_grows_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log.1" / "occupied").mkdir(parents=True)
    lines = Given(b"a\n", b"b\n", b"c\n")
    written(lines, tmp_path / "log", max_size=3, files=1)
    assert (tmp_path / "log").read_bytes() == b"a\nb\nc\n"
    assert lines.dropped == 0
    assert len(caplog.records) == 1


def test_what_is_no_file_is_never_renamed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device or address"):
        AccessLog(Given(), pipe, max_size=3, files=1).start()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    written(Given(b"aa\n", b"bb\n"), pipe, max_size=3, files=1)
    assert os.read(reader, 100) == b"aa\nbb\n"
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_pipe_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    lines = Given(b"x" * 1_000_000 + b"\n")
    written(lines, pipe, max_size=10_000_000, files=1)
    os.close(reader)
    assert lines.dropped == 1


def test_a_file_that_somebody_empties_is_not_full(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = Given(b"aaaa\n")
    log = AccessLog(lines, path, max_size=6, files=1)
    log.start()
    while not path.stat().st_size:
        time.sleep(0.001)
    os.truncate(path, 0)
    lines._pieces.put(b"bb\n")
    log.stop()
    assert contents(tmp_path) == {"log": b"bb\n"}
