"""The table of the actions of the admin API in the documents is that of the code."""

from __future__ import annotations

from tests.fixtures.tables.admin_table import BEGIN, DOCUMENT, END, rewritten


def test_every_action_is_documented() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document.count(BEGIN) == document.count(END) == 1
    assert document == rewritten(document), "run python -m tests.fixtures.tables.admin_table"
