"""Servers under the load of `orcas bench`, all in turn in every round, each with keys of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orcas.bench.measure import run
from orcas.bench.servers import Keys, Wanted
from orcas.bench.workload import read_workload


@dataclass(frozen=True)
class Peer:
    """A server, and who signs."""

    url: str
    access_key: str
    secret_key: str


def bench(servers: Mapping[str, Peer], workload: str, rounds: int) -> dict[str, dict[str, dict[str, Any]]]:
    """The results of each server by case and by its name, as the document of `orcas bench --json` has them.

    `workload` is the text of a file of `orcas bench`. The load is made in Rust, on threads that no Python runs on.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(workload)
        file.flush()
        read = read_workload(file.name)
    wanted = [
        Wanted(url=peer.url, keys=Keys(access_key=peer.access_key, secret_key=peer.secret_key, region="us-east-1"))
        for peer in servers.values()
    ]
    document = run(read, wanted, rounds, None, lambda *_: None)
    return {case["name"]: dict(zip(servers, case["servers"], strict=True)) for case in document["cases"]}


def rates(result: dict[str, Any]) -> list[float]:
    """Right answers a second, round by round."""
    return [entry["operations_per_second"] for entry in result["rounds"]]


def failures(result: dict[str, Any]) -> list[str]:
    """What went wrong, one line each."""
    found = [
        f"{operation}: {count} times {what}"
        for operation, counted in result["total"]["operations"].items()
        for what, count in counted["errors"].items()
    ]
    return found + [f"wrong: {what}" for what in result["total"]["wrong_examples"][:3]] + result["notes"]
