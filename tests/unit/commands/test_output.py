"""What commands print: clients choose keys, and a key must neither control a terminal nor forge a line."""

from __future__ import annotations

import pytest

from orcas.cli.output import print_table, say
from orcas.errors import OrcasError
from orcas.process.failures import explain
from orcas.telemetry.logs import visible

EVIL = "a\x1b[2J\x1b]0;title\x07\x7f\x9b\u202e\r\nlost: b/forged"
SHOWN = r"a\u001b[2J\u001b]0;title\u0007\u007f\u009b\u202e\r\nlost: b/forged"


def test_names_in_tables_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("Key", "Reason"), [(EVIL, "gone")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Key", SHOWN.split()[0]]
    assert lines[1].startswith(f"{SHOWN}  gone")


def test_names_in_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"lost: b/{EVIL}")
    say(f"lost: b/{EVIL}", err=True)
    assert capsys.readouterr() == (f"lost: b/{SHOWN}\n", f"lost: b/{SHOWN}\n")


def test_names_in_sentences_are_escaped_and_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    explain(OrcasError("b/\x1b[2J cannot be read:\nit is gone."), "export")
    assert capsys.readouterr().err == "orcas: b/\\u001b[2J cannot be read:\nit is gone.\n"


def test_a_row_is_one_line_where_no_terminal_limits_it(capsys: pytest.CaptureFixture[str]) -> None:
    long = "k" * 1024
    print_table(("Bucket", "Key"), [("photos", long), ("photos", "short")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["Bucket", "Key"], ["photos", long], ["photos", "short"]]


@pytest.mark.parametrize("text", ["", "plain", "Zürich 東京 😀"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert visible(text) == text
