"""The metric of damaged identities, which only Python counts: its family, as `orcas.engine.METRICS` has it, and its line."""

from __future__ import annotations

from typing import Final

DAMAGED: Final = "orcas_identities_damaged"
_MEANING: Final = (
    "Users, groups, roles and policies that deny everything since control.db was damaged, and 1 while it is."
)
FAMILIES: Final[list[tuple[str, str, str, list[str], str]]] = [(DAMAGED, "gauge", "", [], _MEANING)]
_END: Final = "# EOF\n"


def with_identities(page: str, damaged: int) -> str:
    """A page of metrics with this one at its end."""
    body = page.removesuffix(_END)
    lines = f"# HELP {DAMAGED} {_MEANING}\n# TYPE {DAMAGED} gauge\n{DAMAGED} {damaged}\n"
    return f"{body}{lines}{_END}" if body != page else f"{body}{lines}"
