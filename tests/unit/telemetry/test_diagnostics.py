"""Diagnostics of the engine become log records: with the right logger and fields, and without secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from orcas.telemetry.diagnostics import log_diagnostics
from orcas.telemetry.logs import HumanFormatter, JsonFormatter, RateLimit

if TYPE_CHECKING:
    from orcas._core import Diagnostic


def diagnostic(
    message: str = "The log file could not be closed", level: int = logging.WARNING, line: int = 7
) -> Diagnostic:
    fields: dict[str, str | int | float | bool] = {"error": "secret_key=SECRET and more", "bytes": 9, "whole": False}
    return {"part": "log", "level": level, "file": "log/src/x.rs", "line": line, "message": message, "fields": fields}


@pytest.fixture
def written() -> Iterator[tuple[logging.StreamHandler[io.StringIO], io.StringIO]]:
    """A handler of the logger `orcas.log` with the limits of a server, and its output."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.addFilter(RateLimit(burst=3))
    log = logging.getLogger("orcas.log")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler, text
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


def test_a_json_line_has_the_fields_and_no_secret(
    written: tuple[logging.StreamHandler[io.StringIO], io.StringIO],
) -> None:
    handler, text = written
    handler.setFormatter(JsonFormatter())
    log_diagnostics([diagnostic("100 % of secret_key=SECRET")])
    line = json.loads(text.getvalue())
    assert (line["level"], line["logger"], line["bytes"], line["whole"]) == ("warning", "orcas.log", 9, False)
    assert line["message"] == "100 % of secret_key=***"
    assert line["error"] == "secret_key=*** and more"


def test_a_line_for_people_has_the_fields_and_no_secret(
    written: tuple[logging.StreamHandler[io.StringIO], io.StringIO],
) -> None:
    handler, text = written
    handler.setFormatter(HumanFormatter())
    log_diagnostics([diagnostic()])
    end = 'WARNING orcas.log: The log file could not be closed error="secret_key=*** and more" bytes=9 whole=False\n'
    assert text.getvalue().endswith(end)


def test_the_level_of_the_logger_counts(written: tuple[logging.StreamHandler[io.StringIO], io.StringIO]) -> None:
    log_diagnostics([diagnostic(level=logging.DEBUG), diagnostic(level=logging.INFO)])
    assert written[1].getvalue().count("\n") == 1


def test_rates_are_limited_in_rust_alone(written: tuple[logging.StreamHandler[io.StringIO], io.StringIO]) -> None:
    log_diagnostics([diagnostic(line=1)] * 5)
    assert written[1].getvalue().splitlines() == ["The log file could not be closed"] * 5
