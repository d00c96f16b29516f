"""The table of operations in the documents is that of the code."""

from __future__ import annotations

from tests.fixtures.operations import EXTENSIONS, unbuilt_calls
from tests.fixtures.tables.operation_table import BEGIN, DOCUMENT, END, NOTES, SAME, handlers, rewritten
from tests.fixtures.tables.parameters import REFUSED, members_of, service_model


def test_every_operation_is_documented_as_it_is() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document.count(BEGIN) == document.count(END) == 1
    assert document == rewritten(document), "run python -m tests.fixtures.tables.operation_table"


def test_the_tables_of_the_tests_and_of_the_code_agree() -> None:
    model = set(service_model().operation_names)
    built = {name for name in model if SAME.get(name, name) in handlers()}
    assert built == model - set(unbuilt_calls())
    assert set(handlers()) - model == EXTENSIONS | {"PostObject"}
    assert set(NOTES) <= built
    assert set(SAME) <= model
    assert {member for name in model for member in members_of(name)} >= REFUSED
