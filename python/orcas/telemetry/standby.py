"""The metrics of a standby, which only Python counts: their families, as `orcas.engine.METRICS` has them, and lines."""

from __future__ import annotations

from typing import Final

BEHIND: Final = "orcas_standby_behind_seconds"
SEQUENCE: Final = "orcas_standby_sequence"
_MEANINGS: Final = {
    BEHIND: "Of a standby, or a follower of a cluster: for how long there may have been changes that are not here.",
    SEQUENCE: "Of a standby: the last record that it shows; of a follower, what orcas_cluster_position says.",
}
FAMILIES: Final[list[tuple[str, str, str, list[str], str]]] = [
    (name, "gauge", "", [], meaning) for name, meaning in _MEANINGS.items()
]
_END: Final = "# EOF\n"


def with_standby(page: str, behind_sec: float | None, sequence: int) -> str:
    """A page of metrics with these at its end. `behind_sec`: None if it is not known."""
    body = page.removesuffix(_END)
    values = {BEHIND: "+Inf" if behind_sec is None else f"{behind_sec:.3f}", SEQUENCE: str(sequence)}
    lines = "".join(
        f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{name} {values[name]}\n" for name, meaning in _MEANINGS.items()
    )
    return f"{body}{lines}{_END}" if body != page else f"{body}{lines}"
