"""Log lines: their two formats, and what is redacted."""

from __future__ import annotations

import gc
import io
import json
import logging
import sys
import weakref

import pytest

from orcas.telemetry.logs import HumanFormatter, JsonFormatter, RateLimit, report_suppressed


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("orcas.http", logging.ERROR, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    return made


SECRETS = [
    "Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=SECRET",
    "/b/k?X-Amz-Signature=SECRET&x=y",
    "/b/k%3FX-Amz-Signature%3DSECRET&x=y",
    "/b/k%253FX-Amz-Signature%253dSECRET&x=y",
    "x-amz-server-side-encryption-customer-key:SECRET\nhost:a",
    "Authorization: Bearer SECRET",
    "cookie:SECRET",
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
        failed = record(text, orcas={"target": text, "error": ValueError(text)}, exc_info=sys.exc_info())
    line = formatter.format(failed)
    assert "SECRET" not in line
    assert "***" in line


def test_json_lines_carry_the_records_fields() -> None:
    line = json.loads(JsonFormatter().format(record("two\nlines", orcas={"request_id": "0A"})))
    assert line["message"] == "two\nlines"
    assert (line["level"], line["logger"], line["request_id"]) == ("error", "orcas.http", "0A")
    assert line["time"].endswith("Z")


FORGED = "a\n12:00:00 INFO orcas: Ready\r\x1b[2J\x9b31m\u202e\u2028\udc80"


@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_nothing_that_a_client_chose_makes_a_line_or_reaches_the_terminal(formatter: logging.Formatter) -> None:
    line = formatter.format(record(FORGED, orcas={"key": FORGED}))
    assert line.isprintable()
    try:
        raise ValueError(FORGED)
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    text = formatter.format(failed)
    assert text.replace("\n", "").isprintable()
    assert all(line.startswith((" ", "{")) or "failed" in line for line in text.splitlines())


def test_values_for_people_are_quoted_where_they_would_not_be_clear() -> None:
    fields = {
        "plain": "a/b-ü.txt",
        "spaced": "a b",
        "forged": "x status=200",
        "quote": 'a"b',
        "back": "a\\n",
        "empty": "",
    }
    line = HumanFormatter().format(record("m", orcas=fields))
    assert line.endswith(r'''m plain=a/b-ü.txt spaced="a b" forged="x status=200" quote="a\"b" back="a\\n" empty=""''')


@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_no_field_is_without_bounds(formatter: logging.Formatter) -> None:
    line = formatter.format(record("m" * 100_000, orcas={"key": "k" * 100_000}))
    assert len(line) < 40_000
    assert "83616 more" in line


def test_human_lines_end_with_the_records_fields() -> None:
    assert (
        HumanFormatter().format(record("hello", orcas={"request_id": "0A"})).endswith("orcas.http: hello request_id=0A")
    )


class Clock:
    """A clock that the test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def of_line(line: int, **extra: object) -> logging.LogRecord:
    made = record("said")
    made.lineno = line
    made.__dict__.update(extra)
    return made


def test_a_burst_passes_then_a_trickle_that_counts() -> None:
    clock = Clock()
    limit = RateLimit(burst=5, per_second=1, clock=clock)
    assert [limit.filter(of_line(1)) for _ in range(1_000)] == [True] * 5 + [False] * 995
    clock.now = 1
    counted = of_line(1, orcas={"client": "c"})
    assert limit.filter(counted)
    assert counted.__dict__["orcas"] == {"client": "c", "suppressed": 995}
    assert not limit.filter(of_line(1))
    clock.now = 100
    assert [limit.filter(of_line(1)) for _ in range(6)] == [True] * 5 + [False]


def test_kinds_have_rates_of_their_own() -> None:
    limit = RateLimit(burst=1, clock=Clock())
    assert limit.filter(of_line(1))
    assert limit.filter(of_line(2)), "another place"
    assert limit.filter(of_line(1, kind="AccessDenied")), "another kind at the same place"
    for same in (of_line(1), of_line(2), of_line(1, kind="AccessDenied")):
        assert not limit.filter(same)


def test_kinds_that_clients_invent_share_one() -> None:
    limit = RateLimit(burst=1, clock=Clock())
    passed = sum(limit.filter(of_line(1, kind=number)) for number in range(100_000))
    assert passed < 1_000


def test_what_was_left_out_at_the_end_is_counted_once() -> None:
    clock, out = Clock(), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RateLimit(burst=1, clock=clock))
    before, logging.root.handlers = logging.root.handlers, [handler]
    try:
        for _ in range(4):
            handler.handle(of_line(1))
        report_suppressed()
        assert out.getvalue() == "said\n", "the flood may go on"
        clock.now = 11
        report_suppressed()
        report_suppressed()
    finally:
        logging.root.handlers = before
    assert out.getvalue() == "said\n3 more like 'said' were not logged\n"


def test_fields_are_made_for_lines_that_are_written_and_no_others() -> None:
    made: list[int] = []

    def fields() -> dict[str, object]:
        made.append(1)
        return {"key": "k"}

    limit = RateLimit(burst=2, per_second=1, clock=lambda: 0.0)
    for _ in range(5):
        passing = record("m", orcas=fields)
        if limit.filter(passing):
            assert HumanFormatter().format(passing).endswith("m key=k")
    assert len(made) == 2


def test_a_rate_keeps_no_traceback_alive() -> None:
    class Body:
        """An object in a frame of the failed request."""

    def fail(body: Body) -> None:
        raise ValueError(body.__class__)

    limit = RateLimit()
    body = Body()
    alive = weakref.ref(body)
    try:
        fail(body)
    except ValueError:
        assert limit.filter(record("m", exc_info=sys.exc_info()))
    del body
    gc.collect()
    assert alive() is None
