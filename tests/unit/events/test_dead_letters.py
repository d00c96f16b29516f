"""Dead letters in their file: what is kept, and what a crash may leave of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcas.targets import dead
from orcas.targets.dead import DeadLetters, Letter


def letter(number: int) -> Letter:
    return Letter(str(number), "photos", f"k{number}", "2026-01-02T03:04:05+00:00", 3, "HTTP status 500", "{}")


def test_letters_are_kept_in_order(tmp_path: Path) -> None:
    path = tmp_path / "hook.dead"
    letters = DeadLetters(path)
    for number in range(3):
        letters.add(letter(number))
    assert letters.remove(lambda one: one.id == "1") == 1
    letters.add(letter(3))
    assert DeadLetters(path).list() == letters.list() == [letter(0), letter(2), letter(3)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_half_a_line_costs_no_other_and_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "hook.dead"
    half = b'{"id": "1", "buc'
    DeadLetters(path).add(letter(0))
    with path.open("ab") as file:
        file.write(b"\n" + half)
    assert not caplog.messages
    letters = DeadLetters(path)
    assert caplog.messages == [f"Lines of {path} are no dead letters and are passed over: 1"]
    letters.add(letter(2))
    letters.remove(lambda one: one.id == "0")
    assert DeadLetters(path).list() == [letter(2)]
    assert half in path.read_bytes().splitlines()


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "LETTERS_MAX", 2)
    letters = DeadLetters(tmp_path / "hook.dead")
    letters.add(letter(0))
    assert not letters.is_full
    letters.add(letter(1))
    assert letters.is_full
    letters.remove(lambda _: True)
    assert not letters.is_full
