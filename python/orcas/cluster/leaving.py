"""Directories of nodes: who may open them, and how one becomes a store of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from orcas.cluster.small import has_kept, use_kept
from orcas.control.files import NODE_FOLDER as FOLDER
from orcas.control.files import sync_directory
from orcas.errors import UnavailableError, because


def is_node(directory: Path) -> bool:
    """Whether a directory is that of a node of a cluster."""
    return (directory / FOLDER / "mark.json").exists()


def read_mark(directory: Path) -> dict[str, Any] | None:
    """How much of the log the files of a node have; None before the first mark."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((directory / FOLDER / "mark.json").read_bytes())
        return found
    return None


def check_no_node(directory: Path) -> None:
    """Nobody but a node opens its files: what another one wrote there, the log would not have.

    Raises:
        UnavailableError: it is the directory of a node.
    """
    if is_node(directory):
        raise UnavailableError(
            f"{directory} is of a node of a cluster: continue it with `orcas serve --log`, or make it a store of its own "
            "with `orcas cluster leave`."
        )


def leave(directory: Path) -> None:
    """Make the directory of a node a store of its own, with what the node had read of the log.

    Raises:
        UnavailableError: it is none, or has too little of the log, or cannot be changed.
    """
    if not is_node(directory):
        raise UnavailableError(f"{directory} is not of a node of a cluster: name the directory of one with --data.")
    if not has_kept(directory):
        raise UnavailableError(f"{directory} has too little of the log to be a store: let the node follow it first.")
    use_kept(directory)
    try:
        shutil.rmtree(directory / FOLDER)
        sync_directory(directory)
    except OSError as error:
        raise UnavailableError(f"{directory / FOLDER} cannot be removed: {because(error)}.") from None
