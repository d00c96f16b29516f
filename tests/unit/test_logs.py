"""Log lines: their two forms, and what is struck out of them."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from orcas.logs import HumanFormatter, JsonFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("orcas.http", logging.ERROR, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    return made


SECRETS = [
    "Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=SECRET",
    "/b/k?X-Amz-Signature=SECRET&x=y",
    "/b/k?X-Amz-Security-Token=SECRET&x=y",
    "{'secret_key': 'SECRET'}",
    "aws_secret_access_key=SECRET",
]


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_secrets_are_struck_out(formatter: logging.Formatter, text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        failed = record(text, orcas={"target": text}, exc_info=sys.exc_info())
    line = formatter.format(failed)
    assert "SECRET" not in line
    assert "***" in line


def test_json_lines_carry_the_records_fields() -> None:
    line = json.loads(JsonFormatter().format(record("two\nlines", orcas={"request_id": "0A"})))
    assert line["message"] == "two\nlines"
    assert (line["level"], line["logger"], line["request_id"]) == ("error", "orcas.http", "0A")
    assert line["time"].endswith("Z")


def test_human_lines_end_with_the_records_fields() -> None:
    assert (
        HumanFormatter().format(record("hello", orcas={"request_id": "0A"})).endswith("orcas.http: hello request_id=0A")
    )
