"""The metrics of origins, which only Python counts: their families, as `orcas.engine.METRICS` has them, and their lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# What a fetch can end in.
RESULTS: Final = (
    "stored", "missing", "unreachable", "slow", "refused", "truncated", "wrong_bytes", "changed", "too_large", "quota",
    "damaged", "store", "unsafe_key",
)  # fmt: skip
FETCHES: Final = "orcas_origin_fetches"
BYTES: Final = "orcas_origin_stored_bytes"
FAMILIES: Final[list[tuple[str, str, str, list[str], str]]] = [
    (FETCHES, "counter", "", ["bucket", "result"], "Fetches of objects from origins of buckets, by how they ended."),
    (BYTES, "counter", "bytes", ["bucket"], "Bytes of objects that were fetched from origins and stored."),
]
LABELS: Final[list[tuple[str, str, list[str]]]] = [(FETCHES, "result", list(RESULTS))]
_END: Final = "# EOF\n"

# Bucket, fetches by result, and bytes that were stored.
Counts = list[tuple[str, dict[str, int], int]]


def with_origins(page: str, counts: Counts, *, openmetrics: bool) -> str:
    """A page of metrics with those of origins at its end."""
    body = page.removesuffix(_END)
    lines = "".join(f"{line}\n" for line in _lines(counts, openmetrics=openmetrics))
    return f"{body}{lines}{_END}" if openmetrics else f"{body}{lines}"


def _lines(counts: Counts, *, openmetrics: bool) -> Iterator[str]:
    for family, kind, unit, _, meaning in FAMILIES:
        shown = family if openmetrics else f"{family}_total"
        yield f"# HELP {shown} {meaning}"
        yield f"# TYPE {shown} {kind}"
        if unit and openmetrics:
            yield f"# UNIT {shown} {unit}"
        for bucket, results, stored in counts:
            if family == BYTES:
                yield f'{family}_total{{bucket="{bucket}"}} {stored}'
                continue
            for result in RESULTS:
                yield f'{family}_total{{bucket="{bucket}",result="{result}"}} {results.get(result, 0)}'
