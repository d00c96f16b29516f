"""The copy of a standby, when the server gives less than it has said, and when its own files are not as noted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orcas.control.copied import ControlFile
from orcas.engine import follow, named_in_packs
from orcas.errors import ConfigurationError, UnavailableError
from orcas.standby.copy import Copy
from orcas.standby.mark import Mark, cut_to, promote, read_mark
from orcas.standby.source import Round, Source
from orcas.tools.session import RefusedError

URL = "http://127.0.0.1:1"


class Given:
    """A server that says one thing and gives another."""

    url = URL

    def __init__(self, said: dict[str, int], given: dict[str, bytes], control: dict[str, bytes] | None = None) -> None:
        self._said, self._given, self._control = said, given, control or {}
        self.ended = 0

    def begin(self, _has: Mark, _wait: float) -> Round:
        small = [
            ControlFile(name, len(content), hashlib.sha256(content + b"!").hexdigest())
            for name, content in self._control.items()
        ]
        return Round("id", "store", 7, self._said, small, "digest", time.monotonic())

    def read(self, _round: Round, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        yield (self._given | self._control)[name][start:end]

    def end(self, _round: Round) -> None:
        self.ended += 1


def copy_of(directory: Path, **given: Any) -> tuple[Copy, Given]:
    source: Any = Given(**given)
    return Copy(directory, source), source


def test_what_comes_short_counts_for_nothing(tmp_path: Path) -> None:
    copy, source = copy_of(tmp_path, said={"store.keys": 10}, given={"store.keys": b"short"})
    with pytest.raises(UnavailableError, match=r"gave 5 bytes of store\.keys, not 10: it is asked again"):
        copy.bring(0)
    assert not (tmp_path / "store.keys").exists()
    assert source.ended == 1
    assert not copy.mark.is_complete


def test_a_log_that_cannot_be_read_ends_the_round(tmp_path: Path) -> None:
    copy, _ = copy_of(tmp_path, said={"store.keys": 4}, given={"store.keys": b"none"})
    with pytest.raises(UnavailableError, match=r"The copied log cannot be read: .*store\.keys"):
        copy.bring(0)
    with pytest.raises(UnavailableError, match="The copied log cannot be read"):
        named_in_packs(tmp_path, [], None, 0)


def test_a_copy_that_was_begun_is_of_one_store(tmp_path: Path) -> None:
    Mark(URL, "0" * 16, "another", 7).write(tmp_path)
    for name in ("log", "chunks", "audit"):
        (tmp_path / name).mkdir()
    copy, _ = copy_of(tmp_path, said={}, given={})
    with pytest.raises(ConfigurationError, match=r"has another store than the one that .* copies"):
        copy.bring(0)


def test_a_small_file_that_changes_is_asked_for_again(tmp_path: Path) -> None:
    copy, source = copy_of(tmp_path, said={}, given={}, control={"root.json": b"{}"})
    round_ = source.begin(copy.mark, 0)
    with pytest.raises(UnavailableError, match="changes just now: it is asked for again"):
        copy._bring_control(round_)
    assert not (tmp_path / "root.json").exists()


def test_a_disk_that_takes_nothing_is_named(tmp_path: Path) -> None:
    copy, _ = copy_of(
        tmp_path, said={"log/00000000000000000001.log": 3}, given={"log/00000000000000000001.log": b"abc"}
    )
    (tmp_path / "log").rmdir()
    with pytest.raises(UnavailableError, match=r"cannot be written: "):
        copy.bring(0)


def test_a_copy_that_is_shorter_than_noted_is_not_opened(tmp_path: Path) -> None:
    mark = Mark(URL, "0" * 16, "store", 7, "log/00000000000000000001.log", 10)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "00000000000000000001.log").write_bytes(b"short")
    with pytest.raises(UnavailableError, match="says: remove the directory and start anew"):
        cut_to(tmp_path, mark)
    (tmp_path / "log" / "00000000000000000001.log").unlink()
    with pytest.raises(UnavailableError, match=r"cannot be changed: "):
        cut_to(tmp_path, mark)


def test_what_was_not_completed_is_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "00000000000000000001.log").write_bytes(b"ORCASLOG and more")
    (folder / "00000000000000000002.log").write_bytes(b"ORCASLOG")
    (folder / "00000000000000000003.log").write_bytes(b"ORCASCMP")
    (folder / "00000000000000000004.log.part").write_bytes(b"ORCAS")
    Mark(URL, "0" * 16, "store", 7, "log/00000000000000000001.log", 8).write(tmp_path)
    assert promote(tmp_path).sequence == 7
    # A compacted file that no record names is left to the start.
    assert sorted(path.name for path in folder.iterdir()) == ["00000000000000000001.log", "00000000000000000003.log"]
    assert (folder / "00000000000000000001.log").read_bytes() == b"ORCASLOG"
    assert read_mark(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"url": 1, "colour": 2}', b"\xff"])
def test_a_damaged_mark_opens_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "standby.json").write_bytes(content)
    with pytest.raises(UnavailableError, match="is damaged: remove the directory and start the standby anew"):
        read_mark(tmp_path)


def test_a_round_that_is_over_gives_nothing() -> None:
    class Over:
        def request(self, *_: object) -> Any:
            import contextlib

            from orcas.tools.session import Response

            return contextlib.nullcontext(Response(404, {}, iter(())))

    session: Any = Over()
    found = Round("id", "store", 7, {}, [], "", 0.0)
    with pytest.raises(UnavailableError, match=r"does not give x \(404\): it is asked for again"):
        list(Source(session, URL).read(found, "x"))
    assert issubclass(RefusedError, Exception)


def test_an_engine_that_is_no_standby_follows_nothing() -> None:
    from orcas.engine import StoreError

    class Closed:
        def follow(self, *_: object) -> int:
            raise StoreError("the store is closed")

    core: Any = Closed()
    with pytest.raises(UnavailableError, match="The standby cannot follow the log: the store is closed"):
        follow(core, [])
