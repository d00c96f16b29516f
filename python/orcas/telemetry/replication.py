"""The metrics of replication, which only Python counts: their families, as `orcas.engine.METRICS` has them, and lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict

# What becomes of a key that was looked at; `compared`: in a walk.
RESULTS: Final = ("copied", "marked", "updated", "present", "skipped", "gone", "compared")
KEYS: Final = "orcas_replication_keys"
FAILURES: Final = "orcas_replication_failures"
BYTES: Final = "orcas_replication_sent_bytes"
EXCEPTIONS: Final = "orcas_replication_exceptions"
BEHIND: Final = "orcas_replication_behind_seconds"
PENDING: Final = "orcas_replication_pending"
PENDING_BYTES: Final = "orcas_replication_pending_bytes"
FAMILIES: Final[list[tuple[str, str, str, list[str], str]]] = [
    (KEYS, "counter", "", ["bucket", "target", "result"], "Keys that replication looked at, by what became of them."),
    (FAILURES, "counter", "", ["bucket", "target", "code"], "Failures of copies, by the code of the error."),
    (BYTES, "counter", "bytes", ["bucket", "target"], "Bytes of content that were copied."),
    (EXCEPTIONS, "gauge", "", ["bucket", "target"], "Keys that could not be copied and are tried again."),
    (BEHIND, "gauge", "seconds", ["bucket", "target"], "The age of the oldest change that was not copied yet."),
    (PENDING, "gauge", "", ["bucket", "target"], "Changes that wait to be copied, of which about 10,000 are counted."),
    (PENDING_BYTES, "gauge", "bytes", ["bucket", "target"], "The content of these changes."),
]
LABELS: Final[list[tuple[str, str, list[str]]]] = [(KEYS, "result", list(RESULTS))]
_END: Final = "# EOF\n"


class RouteCounts(TypedDict):
    """The metrics of a route. `target`: with the bucket there."""

    bucket: str
    target: str
    results: dict[str, int]
    failures: dict[str, int]
    bytes: int
    exceptions: int
    behind_sec: float
    pending: int
    pending_bytes: int


def with_replication(page: str, counts: list[RouteCounts], *, openmetrics: bool) -> str:
    """A page of metrics with these at its end."""
    body = page.removesuffix(_END)
    lines = "".join(f"{line}\n" for line in _lines(counts, openmetrics=openmetrics))
    return f"{body}{lines}{_END}" if openmetrics else f"{body}{lines}"


def _lines(counts: list[RouteCounts], *, openmetrics: bool) -> Iterator[str]:
    for family, kind, unit, _, meaning in FAMILIES:
        suffix = "_total" if kind == "counter" else ""
        shown = family if openmetrics else f"{family}{suffix}"
        yield f"# HELP {shown} {meaning}"
        yield f"# TYPE {shown} {kind}"
        if unit and openmetrics:
            yield f"# UNIT {shown} {unit}"
        for it in counts:
            labels = f'bucket="{it["bucket"]}",target="{it["target"]}"'
            if family == KEYS:
                for result in RESULTS:
                    yield f'{family}{suffix}{{{labels},result="{result}"}} {it["results"].get(result, 0)}'
            elif family == FAILURES:
                for code, count in sorted(it["failures"].items()):
                    yield f'{family}{suffix}{{{labels},code="{_label(code)}"}} {count}'
            else:
                value = {
                    BYTES: it["bytes"], EXCEPTIONS: it["exceptions"], BEHIND: it["behind_sec"],
                    PENDING: it["pending"], PENDING_BYTES: it["pending_bytes"],
                }[family]  # fmt: skip
                yield f"{family}{suffix}{{{labels}}} {value}"


def _label(code: str) -> str:
    """A code, which a target may have made up."""
    return "".join(letter if letter.isalnum() else "_" for letter in code[:64] if letter.isascii())
