"""The metrics of a node of a cluster, which only Python counts: their families, as `orcas.engine.METRICS` has them, and
their lines. Must not know how nodes follow a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

OWNER: Final = "orcas_cluster_owner"
TERM: Final = "orcas_cluster_term"
POSITION: Final = "orcas_cluster_position"
SILENT: Final = "orcas_cluster_silent_seconds"
SCORE: Final = "orcas_cluster_score"
PASSED: Final = "orcas_cluster_passed_requests"
READS: Final = "orcas_cluster_reads"
# What can come of a request that is for another node.
RESULTS: Final = ("answered", "refused", "lost", "repeated")
FAMILIES: Final[list[tuple[str, str, str, list[str], str]]] = [
    (OWNER, "gauge", "", [], "Of a node of a cluster: 1 if it owns the log and takes the writes, otherwise 0."),
    (TERM, "gauge", "", [], "Of a node of a cluster: the term of the log, which a new owner increases."),
    (
        POSITION,
        "gauge",
        "",
        [],
        "Of a node of a cluster: how many entries of the log it has; the owner, as of its last mark, every ten seconds.",
    ),
    (
        SILENT,
        "gauge",
        "",
        [],
        "Of a follower of a cluster: for how long the log has had no word from an owner, or could not be read.",
    ),
    (
        SCORE,
        "gauge",
        "",
        [],
        "Of a node of a cluster: how well it suits as the owner, from 0 to 1, by its load and its way to the log.",
    ),
    (
        PASSED,
        "counter",
        "",
        ["result"],
        "Requests for the owner of a cluster at another node: answered, refused with 503, lost, or sent twice.",
    ),
    (READS, "counter", "", [], "Reads that a follower of a cluster has answered itself."),
]
LABELS: Final[list[tuple[str, str, list[str]]]] = [(PASSED, "result", list(RESULTS))]
_END: Final = "# EOF\n"


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """A node of a cluster as its metrics show it."""

    owns: bool
    term: int
    position: int
    silent_sec: float
    score: float


def with_cluster(page: str, numbers: NodeNumbers, passed: Mapping[str, int], *, openmetrics: bool) -> str:
    """A page of metrics with these at its end."""
    body = page.removesuffix(_END)
    lines = "".join(f"{line}\n" for line in _lines(numbers, passed, openmetrics=openmetrics))
    return f"{body}{lines}{_END}" if openmetrics else f"{body}{lines}"


def _lines(numbers: NodeNumbers, passed: Mapping[str, int], *, openmetrics: bool) -> Iterator[str]:
    values = {
        OWNER: str(int(numbers.owns)),
        TERM: str(numbers.term),
        POSITION: str(numbers.position),
        SILENT: f"{numbers.silent_sec:.3f}",
        SCORE: f"{numbers.score:.2f}",
        READS: str(passed.get("read", 0)),
    }
    for family, kind, _, _, meaning in FAMILIES:
        shown = f"{family}_total" if kind == "counter" and not openmetrics else family
        yield f"# HELP {shown} {meaning}"
        yield f"# TYPE {shown} {kind}"
        if family == PASSED:
            yield from (f'{PASSED}_total{{result="{result}"}} {passed.get(result, 0)}' for result in RESULTS)
        else:
            yield f"{family}_total {values[family]}" if kind == "counter" else f"{family} {values[family]}"
