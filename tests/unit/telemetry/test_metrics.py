"""The table of metrics in the documents, and which format a reader gets."""

from __future__ import annotations

import pytest
from tests.fixtures.tables.metrics_table import BEGIN, DOCUMENT, END, rewritten

from orcas.admin.metrics import wants_openmetrics

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def test_every_metric_is_documented_as_it_is() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document.count(BEGIN) == document.count(END) == 1
    assert document == rewritten(document), "run python -m tests.fixtures.tables.metrics_table"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text;q=0.2, text/plain", False),
        ("application/openmetrics-text;version=0.0.1,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
        (";q=9,,=", False),
    ],
)
def test_openmetrics_is_for_those_that_prefer_it(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics
