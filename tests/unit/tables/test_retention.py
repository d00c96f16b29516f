"""Which snapshots have expired."""

from __future__ import annotations

from typing import Any

import pytest

from orcas.tables.retention import expired

NOW = 1_000_000_000_000
DAY = 86_400_000


def snapshot(number: int, days: int, parent: int | None) -> dict[str, Any]:
    """A snapshot that is so many days old."""
    return {"snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": NOW - days * DAY}


# Five in a line; 6 began a branch at 2, and 7 belongs to nothing any more.
SNAPSHOTS = [
    snapshot(1, 50, None), snapshot(2, 40, 1), snapshot(3, 30, 2), snapshot(4, 2, 3), snapshot(5, 1, 4),
    snapshot(6, 20, 2), snapshot(7, 10, 3),
]  # fmt: skip


def table(refs: dict[str, Any] | None = None, **properties: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    return {
        "current-snapshot-id": 5, "snapshots": SNAPSHOTS, "properties": named,
        "refs": {"main": {"type": "branch", "snapshot-id": 5}, **(refs or {})},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("age_days", "keep", "refs", "gone"),
    [
        (None, None, {}, [1, 2, 3, 6, 7]),
        (0, 1, {}, [1, 2, 3, 4, 6, 7]),
        (0, 2, {}, [1, 2, 3, 6, 7]),
        (15, 1, {}, [1, 2, 3, 6]),
        (365, 1, {}, []),
        (0, 100, {}, [6, 7]),
        (0, 1, {"old": {"type": "tag", "snapshot-id": 2}}, [1, 3, 4, 6, 7]),
        (0, 1, {"side": {"type": "branch", "snapshot-id": 6}}, [1, 2, 3, 4, 7]),
        (0, 1, {"side": {"type": "branch", "snapshot-id": 6, "min-snapshots-to-keep": 2}}, [1, 3, 4, 7]),
        (0, 1, {"side": {"type": "branch", "snapshot-id": 6, "max-snapshot-age-ms": 45 * DAY}}, [1, 3, 4, 7]),
    ],
)  # fmt: skip
def test_expired(age_days: int | None, keep: int | None, refs: dict[str, Any], gone: list[int]) -> None:
    age = None if age_days is None else age_days * DAY
    assert expired(table(refs), NOW, age, keep) == gone


def test_a_table_says_it() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "3"}
    assert expired(table() | {"properties": properties}, NOW) == [1, 2, 6, 7]
    assert expired(table() | {"properties": properties}, NOW, keep=1) == [1, 2, 3, 4, 6, 7]


def test_a_table_without_branches() -> None:
    """As files of the first version of the format."""
    old = {name: value for name, value in table().items() if name != "refs"}
    assert expired(old, NOW, 0, 1) == [1, 2, 3, 4, 6, 7]
    assert expired({"current-snapshot-id": -1}, NOW) == []


def test_what_a_snapshot_came_from_may_be_gone() -> None:
    """Whoever expired it has left the number."""
    left = table() | {"snapshots": SNAPSHOTS[2:5]}
    assert expired(left, NOW, 0, 100) == []
