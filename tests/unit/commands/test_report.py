"""The output of `orcas fsck`: causes instead of rows, a limited number of names, and the next command."""

from __future__ import annotations

from typing import Any

import pytest

from orcas.cli.store.report import next_step, show_report
from orcas.errors import OrcasError

ROW = "index.db, table heads"


def report(*kinds: str, lost: int = 0, affected: int = 0) -> dict[str, Any]:
    groups = [
        {
            "kind": kind,
            "damage": True,
            "area": ROW,
            "cause": "the row is not there",
            "first": f"{ROW}, row 1",
            "count": 5430,
        }
        for kind in kinds
    ]
    losses = [{"bucket": "b", "key": f"lost{at}", "bytes": 10, "reason": "gone"} for at in range(lost)]
    return {
        "clean": not kinds and not lost, "groups": groups, "findings": [], "findings_total": 5430 * len(groups),
        "affected": [f"b/k{at}" for at in range(affected)], "affected_total": affected,
        "losses": losses, "losses_total": lost, "blobs": 1, "bytes": 1, "log_files": 1, "packs": 0, "seconds": 1.0,
        "tags": {"verified": 0, "of_customers": 0, "without_key": 0, "why": None},
        "index": {"state": "different", "detail": f"{ROW}, row 1 x'66': the row is not there"},
    }  # fmt: skip


def test_thousands_of_findings_of_one_cause_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OrcasError) as raised:
        show_report(report("index", affected=50), as_json=False)
    assert "orcas fsck --repair" in str(raised.value)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "5430 times" in line] == [
        f"index: {ROW}: the row is not there, 5430 times, the first: {ROW}, row 1"
    ]
    named = [line for line in lines if line.startswith("wrong in the index: ")]
    assert named[0].endswith("b/k0")
    assert (len(named), named[-1]) == (21, "wrong in the index: 30 more; --json lists up to 50.")
    assert not any("x'66'" in line for line in lines)


def test_names_of_objects_control_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    found = report("index", lost=1)
    found["losses"][0]["key"] = "\x1b[2J"
    found["affected"], found["affected_total"] = ["\x1b[2J"], 1
    with pytest.raises(OrcasError):
        show_report(found, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {r"wrong in the index: \u001b[2J", r"lost: b/\u001b[2J (10 B): gone"} <= set(lines)


@pytest.mark.parametrize(
    ("kinds", "lost", "command"),
    [
        (("index", "counts"), 0, "`orcas fsck --repair`"),
        (("keys",), 0, "`orcas fsck --repair`"),
        (("log-record",), 0, "`orcas backup`"),
        (("log-record", "index"), 3, "`orcas restore`"),
        ((), 1, "`orcas export --skip-lost`"),
    ],
)
def test_the_last_sentence_names_the_next_command(kinds: tuple[str, ...], lost: int, command: str) -> None:
    assert command in next_step(report(*kinds, lost=lost))


def test_without_both_copies_of_the_keys_no_repair_is_named() -> None:
    index = {"state": "not compared", "detail": "without the store's keys nothing can be verified"}
    told = next_step(report("keys") | {"index": index})
    assert "`orcas restore`" in told
    assert "fsck" not in told


@pytest.mark.parametrize(
    "index",
    [{"state": "absent", "detail": None}, {"state": "not compared", "detail": "the index is damaged: page 3"}],
)
def test_without_an_index_nothing_is_said_to_be_whole(index: dict[str, Any]) -> None:
    told = next_step(report("log-record") | {"index": index})
    assert "No object is lost" not in told
    assert "`orcas serve --salvage`" in told
    known = {"state": "not compared", "detail": "the log is damaged"}
    assert "No object is lost" in next_step(report("log-record") | {"index": known})


def test_a_clean_report_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(), as_json=False)
    show_report(report(), as_json=True)
    assert '"clean": true' in capsys.readouterr().out


def test_what_was_encrypted_and_not_opened_is_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(), as_json=False)
    assert "tags" not in capsys.readouterr().out
    tags = {"verified": 7, "of_customers": 2, "without_key": 3, "why": "there is no master key"}
    show_report(report() | {"tags": tags}, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("verified by tags")] == ["7"]
    unopened, of_customers = lines[-2:]
    assert unopened.startswith("3 encrypted contents")
    assert unopened.endswith("by their tags: there is no master key.")
    assert of_customers.startswith("2 contents, chunks and metadata are encrypted with keys of customers")
    show_report(report() | {"tags": tags | {"why": None}}, as_json=False)
    assert "cannot be used now" in capsys.readouterr().out
