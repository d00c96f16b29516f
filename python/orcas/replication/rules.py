"""The rules of buckets as copies need them: to which destinations they lead, and which rule an object falls under.

The document of a bucket is checked and kept by the core; nothing here reads XML.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcas.engine import ReplicatedBucket, ReplicationRule


@dataclass(frozen=True, slots=True)
class Route:
    """From a bucket to a bucket of a target."""

    bucket_id: int
    bucket: str
    target: str
    to: str

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.bucket} to {self.target}/{self.to}"


class Rules:
    """The enabled rules of one route, those with the greatest priority first."""

    def __init__(self, rules: Sequence[ReplicationRule]) -> None:
        self._rules = sorted(rules, key=lambda rule: -rule["priority"])
        self.begins_after = min(rule["begins_after"] for rule in rules)

    def may_apply(self, key: bytes) -> bool:
        """Whether one applies, whatever the tags of the object are."""
        return any(key.startswith(rule["prefix"]) for rule in self._rules)

    def of(self, key: bytes, tags: Callable[[], dict[str, str]]) -> ReplicationRule | None:
        """The rule that an object falls under. `tags` is called only if a rule asks for tags."""
        for rule in self._rules:
            if key.startswith(rule["prefix"]) and (not rule["tags"] or set(rule["tags"]) <= set(tags().items())):
                return rule
        return None

    def of_existing(self) -> Rules | None:
        """Those that want what existed before."""
        rules = [rule for rule in self._rules if rule["existing"]]
        return Rules(rules) if rules else None

    @property
    def prefix(self) -> bytes:
        """What the keys of all of them begin with."""
        first, *others = (rule["prefix"] for rule in self._rules)
        return next(
            first[:length]
            for length in range(len(first), -1, -1)
            if all(other.startswith(first[:length]) for other in others)
        )

    @property
    def scope(self) -> list[list[object]]:
        """Which objects they are about, to be kept and compared."""
        return sorted([rule["prefix"].hex(), [list(tag) for tag in sorted(rule["tags"])]] for rule in self._rules)


def routes_of(buckets: Sequence[ReplicatedBucket]) -> dict[Route, Rules]:
    """The routes that enabled rules of buckets lead along."""
    found: dict[Route, list[ReplicationRule]] = {}
    for bucket in buckets:
        for rule in bucket["rules"]:
            if rule["enabled"]:
                route = Route(bucket["id"], bucket["name"], rule["target"], rule["to"])
                found.setdefault(route, []).append(rule)
    return {route: Rules(rules) for route, rules in found.items()}
