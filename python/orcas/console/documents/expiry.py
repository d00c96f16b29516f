"""What a lifecycle document would remove now: its rules, asked about the entries of lists, page by page.

Decides as the engine does, from what lists show. Does not know of locks, which only make fewer entries go. What is known
between two pages is a `Place`: it has no more than the end of the last page.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from orcas.console.documents.kinds import LIFECYCLE_ROOT
from orcas.console.documents.trees import Tree, parse

if TYPE_CHECKING:
    from orcas.console.contents import Entry, Upload

DAY_MS: Final = 86_400_000

Tags = frozenset[tuple[str, str]]
Kind = Literal["current", "marker", "noncurrent", "upload"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that is in effect. Days are None for what it does not remove; `newer` old versions stay."""

    id: str
    prefix: str
    tags: Tags
    larger: int | None
    smaller: int | None
    days: int | None
    date_ms: int | None
    markers: bool
    noncurrent_days: int | None
    newer: int
    abort_days: int | None

    def takes_everything(self, now_ms: int) -> bool:
        """Whether it removes all objects, or all old versions, within a day or so."""
        if self.prefix or self.tags or self.larger is not None or self.smaller is not None:
            return False
        soon = self.date_ms is not None and self.date_ms <= now_ms + DAY_MS
        return soon or self.days == 1 or (self.noncurrent_days == 1 and not self.newer)

    @property
    def about_versions(self) -> bool:
        """Whether it removes anything but uploads."""
        return self.markers or any(each is not None for each in (self.days, self.date_ms, self.noncurrent_days))


@dataclass
class Count:
    """What one rule would remove: current objects, old versions, delete markers, uploads, and bytes of the first two."""

    current: int = 0
    noncurrent: int = 0
    marker: int = 0
    upload: int = 0
    bytes: int = 0


@dataclass
class Place:
    """What is known of a key: when the version seen last came, how many old ones stay, and who removes its marker."""

    key: str | None = None
    newer_ms: int = 0
    kept: int = 0
    # The rule that would remove a delete marker if nothing follows it, by its place among the rules.
    marker: int | None = None


def read_rules(document: str) -> list[Rule]:
    """The rules of a document that are in effect, in its order.

    Raises:
        ValueError: it is no lifecycle configuration.
    """
    root = parse(document)
    if root.name != LIFECYCLE_ROOT:
        raise ValueError(f"the document is no {LIFECYCLE_ROOT}")
    return [_rule(rule, at) for at, rule in enumerate(root.all("Rule"), 1) if rule.value("Status").strip() == "Enabled"]


def _rule(rule: Tree, at: int) -> Rule:
    found = rule.get("Filter") or Tree("Filter")
    filter_ = found.get("And") or found
    expiration, noncurrent = rule.get("Expiration") or Tree(""), rule.get("NoncurrentVersionExpiration") or Tree("")
    date = expiration.value("Date").strip()
    return Rule(
        rule.value("ID") or f"rule {at}",
        filter_.value("Prefix") or rule.value("Prefix"),
        frozenset((tag.value("Key"), tag.value("Value")) for tag in filter_.all("Tag")),
        _number(filter_, "ObjectSizeGreaterThan"),
        _number(filter_, "ObjectSizeLessThan"),
        _number(expiration, "Days"),
        moment_ms(date) if date else None,
        expiration.value("ExpiredObjectDeleteMarker").strip() == "true",
        _number(noncurrent, "NoncurrentDays"),
        _number(noncurrent, "NewerNoncurrentVersions") or 0,
        _number(rule.get("AbortIncompleteMultipartUpload") or Tree(""), "DaysAfterInitiation"),
    )


def _number(tree: Tree, name: str) -> int | None:
    text = tree.value(name).strip()
    return int(text) if text else None


def moment_ms(text: str) -> int:
    """A time of a document, in milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    found = dt.datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def prefixes(rules: Iterable[Rule], kind: Literal["versions", "uploads"]) -> list[str]:
    """The prefixes of all keys that rules are about, in ascending order; none begins with another."""
    acting = [rule for rule in rules if (rule.about_versions if kind == "versions" else rule.abort_days is not None)]
    found: list[str] = []
    for prefix in sorted({rule.prefix for rule in acting}):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
    return found


@dataclass
class Tally:
    """Counts what rules would remove at a time, entry by entry in the order of lists."""

    rules: list[Rule]
    now_ms: int
    place: Place = field(default_factory=Place)
    counts: dict[int, Count] = field(default_factory=dict)
    seen: int = 0

    def needs_tags(self, version: Entry) -> bool:
        """Whether the tags of a version matter."""
        return not version.marker and any(
            rule.tags and rule.about_versions and _admits(rule, version.key, version.size) for rule in self.rules
        )

    def version(self, version: Entry, tags: Tags = frozenset()) -> None:
        """The next version: those of a key follow each other, the newest first."""
        self.seen += 1
        is_newest = self.place.key != version.key
        if is_newest:
            self.end()
            self.place = Place(version.key)
        place = self.place
        place.marker = None
        modified_ms = moment_ms(version.modified)
        newer_ms, place.newer_ms = place.newer_ms, modified_ms
        if not is_newest:
            since_ms = max(newer_ms, modified_ms)
            at = self._due(version.key, version.size, tags, "noncurrent", since_ms, place.kept)
            if at is None:
                place.kept += 1
            else:
                self._count(at, "noncurrent", version.size)
        elif version.marker:
            place.marker = self._due(version.key, version.size, tags, "marker", modified_ms)
        elif (at := self._due(version.key, version.size, tags, "current", modified_ms)) is not None:
            self._count(at, "current", version.size)

    def upload(self, upload: Upload) -> None:
        """An unfinished upload."""
        self.seen += 1
        at = self._due(upload.key, 0, frozenset(), "upload", moment_ms(upload.begun))
        if at is not None:
            self._count(at, "upload", 0)

    def end(self) -> None:
        """The list of a prefix is at its end."""
        if self.place.marker is not None:
            self._count(self.place.marker, "marker", 0)
        self.place = Place()

    def _count(self, at: int, kind: Kind, size: int) -> None:
        count = self.counts.setdefault(at, Count())
        setattr(count, kind, getattr(count, kind) + 1)
        count.bytes += size

    def _due(self, key: str, size: int, tags: Tags, kind: Kind, from_ms: int, newer: int = 0) -> int | None:
        """The rule that removes it first, of several at the same time the first one; None if it stays."""
        due = []
        for at, rule in enumerate(self.rules):
            at_ms = _at_ms(rule, kind, from_ms, newer)
            if at_ms is not None and at_ms <= self.now_ms and _fits(rule, key, size, tags, kind):
                due.append((at_ms, at))
        return min(due)[1] if due else None


def _at_ms(rule: Rule, kind: Kind, from_ms: int, newer: int) -> int | None:
    """When a rule removes something, whatever its key and tags are."""
    if kind == "upload":
        return None if rule.abort_days is None else _after(from_ms, rule.abort_days)
    if kind == "noncurrent":
        return None if rule.noncurrent_days is None or newer < rule.newer else _after(from_ms, rule.noncurrent_days)
    if kind == "marker" and rule.markers:
        return from_ms
    return _after(from_ms, rule.days) if rule.days is not None else rule.date_ms


def _after(from_ms: int, days: int) -> int:
    """The beginning of the day after the one that is so many days later."""
    return ((from_ms + days * DAY_MS) // DAY_MS + 1) * DAY_MS


def _fits(rule: Rule, key: str, size: int, tags: Tags, kind: Kind) -> bool:
    if kind in ("marker", "upload"):
        return key.startswith(rule.prefix) and not rule.tags and rule.larger is None and rule.smaller is None
    return _admits(rule, key, size) and rule.tags <= tags


def _admits(rule: Rule, key: str, size: int) -> bool:
    return (
        key.startswith(rule.prefix)
        and (rule.larger is None or size > rule.larger)
        and (rule.smaller is None or size < rule.smaller)
    )
