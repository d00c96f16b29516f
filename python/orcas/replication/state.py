"""What of a route is kept in a file: its place in the journal, the walk over what existed, and the exceptions.

Invariant: everything before the place was copied, was not to be copied, or is an exception. The file is replaced as a
whole, so after a crash it is what it was at some moment before, and what came since is done again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from orcas.control.files import read_secret_file, write_secret_file
from orcas.replication.rules import Route

# Where these files are, in the data directory.
DIRECTORY: Final = "replication"
# Exceptions of a route at most. When there are as many, its place does not move on.
EXCEPTIONS_MAX: Final = 1_000

log = logging.getLogger("orcas.replication")


@dataclass(slots=True)
class Change:
    """What is to be brought over of a key. `version`: the one that was stored, or whose attributes were changed.

    `notes`: annotations, which a new version has only if it is a copy.
    """

    version: str = ""
    content: bool = False
    tags: bool = False
    lock: bool = False
    notes: bool = False
    marker: bool = False

    @property
    def is_of_attributes(self) -> bool:
        """Whether it leaves the content as it was."""
        return (self.tags or self.lock or self.notes) and not self.content

    def after(self, earlier: Change | None) -> Change:
        """This change and one that came before it, as one."""
        if earlier is None or self.content or self.marker:
            return self
        notes = self.notes or earlier.notes
        if earlier.content or earlier.marker:
            return replace(earlier, notes=notes)
        return Change(self.version, tags=self.tags or earlier.tags, lock=self.lock or earlier.lock, notes=notes)


@dataclass(slots=True)
class Problem:
    """An exception: the change, why it failed last, how often it was tried, since when, and when it is tried next."""

    change: Change
    code: str
    reason: str
    tries: int
    since: float
    next: float


@dataclass(slots=True)
class Walk:
    """The walk over what exists. `mark`: the last key that was looked at. `scope`: of the rules that want it.

    `everything`: whatever the rules say of what existed before, because changes are gone from the journal.
    """

    scope: list[Any]
    everything: bool = False
    mark: bytes = b""
    is_done: bool = False


@dataclass(slots=True)
class State:
    """The state of one route."""

    path: Path
    after: str | None = None
    sequence: int = 0
    walk: Walk | None = None
    problems: dict[bytes, Problem] = field(default_factory=dict)

    def save(self, route: Route) -> None:
        """Replace the file.

        Raises:
            UnavailableError: it cannot be written.
        """
        walk = None if self.walk is None else {**asdict(self.walk), "mark": _text(self.walk.mark)}
        problems = [{"key": _text(key), **asdict(problem)} for key, problem in self.problems.items()]
        document = {**asdict(route), "after": self.after, "sequence": self.sequence, "walk": walk, "problems": problems}
        write_secret_file(self.path, json.dumps(document).encode())


def path_of(data: Path, route: Route) -> Path:
    """The file of a route."""
    digest = hashlib.sha256(f"{route.bucket_id}/{route.target}/{route.to}".encode()).hexdigest()
    return data / DIRECTORY / f"{digest[:32]}.json"


def load(data: Path, route: Route) -> State:
    """The state of a route; an empty one if it is new.

    A file that cannot be read is as if events were gone: everything is compared.
    """
    state = State(path_of(data, route))
    content = read_secret_file(state.path)
    if content is None:
        return state
    try:
        document = json.loads(content)
        walk = document["walk"]
        state.walk = None if walk is None else Walk(**{**walk, "mark": _bytes(walk["mark"])})
        for problem in document["problems"]:
            key = _bytes(problem.pop("key"))
            state.problems[key] = Problem(**{**problem, "change": Change(**problem["change"])})
        state.after, state.sequence = document["after"], document["sequence"]
    except (ValueError, KeyError, TypeError):
        log.error("The place of the replication of %s cannot be read: everything is compared", route.text)
        return State(state.path, walk=Walk([], everything=True))
    return state


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
