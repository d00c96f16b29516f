"""Whether the nodes of a cluster have the same: for `orcas cluster verify`. Every node is asked itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from orcas.errors import OrcasError
from orcas.tools.session import Session
from orcas.tools.work import run_job

SAME, DIFFERS, UNKNOWN = "the same", "differs", "could not be told"
# What a follower has, the owner may not have applied yet, and small files are on their way.
_TRIES: Final = 20
_TRY_SECONDS: Final = 0.5


@dataclass
class _Node:
    session: Session
    shown: dict[str, Any]
    # What its check has found; a sentence if there is none.
    checked: dict[str, Any] | str = ""


def compare(
    sessions: list[Session], reach: Callable[[str], Session], advance: Callable[[str], None], *, read_content: bool
) -> list[dict[str, Any]]:
    """Let these nodes and the owner of the log, which `reach` finds at its URL, check themselves, and compare them.

    For each, its name, role and URL, how its copy compares (`state`), and why (`finding`; None if it is the same).

    Raises:
        OrcasError: no node owns the log, or one of them cannot be asked.
    """
    nodes = [_Node(session, session.admin("GET", "cluster")) for session in sessions]
    owner = next((node for node in nodes if node.shown["role"] == "owner"), None)
    if owner is None:
        known = next((node.shown["owner"] for node in nodes if node.shown["owner"] is not None), None)
        if known is None:
            raise OrcasError("No node owns the log at present: wait until one has taken it.")
        session = reach(known["url"])
        owner = _Node(session, session.admin("GET", "cluster"))
        nodes.append(owner)
    for node in nodes:
        advance(f"{node.shown['url']} checks its files")
        try:
            order = {"read_content": read_content}
            node.checked = run_job(
                node.session, "check", lambda _: None, order, path="cluster/check", jobs="cluster/jobs"
            )
        except OrcasError as error:
            node.checked = str(error).rstrip(".")
    found = []
    for node in nodes:
        state, finding = _compared(node, owner)
        shown = {name: node.shown[name] for name in ("node", "role", "url")}
        found.append(shown | {"state": state, "finding": finding})
    return found


def _compared(node: _Node, owner: _Node) -> tuple[str, str | None]:
    if isinstance(node.checked, str):
        return UNKNOWN, node.checked
    if not node.checked["clean"]:
        group = next((found for found in node.checked["groups"] if found["damage"]), node.checked["groups"][0])
        return DIFFERS, f"damaged: {group['area']}: {group['cause']}: {group['first']}"
    if node is owner:
        return SAME, None
    found: tuple[str, str | None] = SAME, None
    for _ in range(_TRIES):
        try:
            found = _difference(node, owner, node.checked["position"])
        except OrcasError as error:
            found = UNKNOWN, str(error).rstrip(".")
        if found[0] == SAME:
            break
        time.sleep(_TRY_SECONDS)
    return found


def _difference(node: _Node, owner: _Node, position: str) -> tuple[str, str | None]:
    """How a node compares with the owner at this moment."""
    here = node.session.admin("GET", "cluster/files")
    there = owner.session.admin("GET", f"cluster/files?position={position}")
    if there["continues"] is None:
        return UNKNOWN, "the owner has compacted its log meanwhile, or owns it no more"
    if not there["continues"]:
        return DIFFERS, "its log is not the beginning of that of the owner"
    names = sorted(name for name, digest in there["small"].items() if here["small"].get(name) != digest)
    return (DIFFERS, f"{', '.join(names)} differ from those of the owner") if names else (SAME, None)
