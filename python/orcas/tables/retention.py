"""Which snapshots of a table have expired, by the rules of Iceberg: from its metadata as JSON. Pure."""

from __future__ import annotations

from typing import Any, Final

# Properties of a table, and what holds without them.
AGE: Final = "history.expire.max-snapshot-age-ms"
KEEP: Final = "history.expire.min-snapshots-to-keep"
_AGE_MS: Final = 5 * 86_400_000
_KEEP: Final = 1


def expired(metadata: dict[str, Any], now_ms: int, age_ms: int | None = None, keep: int | None = None) -> list[int]:
    """The ids of the snapshots that may be removed.

    A branch keeps its newest snapshots that are younger than `age_ms` or among the first `keep`, and a tag its own; a
    snapshot that neither has is kept while it is young. Both numbers are the table's if not given; a branch may have its
    own.
    """
    properties = metadata.get("properties", {})
    age_ms = int(properties.get(AGE, _AGE_MS)) if age_ms is None else age_ms
    keep = int(properties.get(KEEP, _KEEP)) if keep is None else keep
    snapshots = {each["snapshot-id"]: each for each in metadata.get("snapshots", [])}
    kept: set[int] = set()
    lines: set[int] = set()
    # Files of the first version of the format have no branches, and may say -1 for no snapshot.
    main = {"main": {"type": "branch", "snapshot-id": metadata.get("current-snapshot-id")}}
    for ref in (main | metadata.get("refs", {})).values():
        at, count, is_kept = ref["snapshot-id"], 0, True
        if ref["type"] == "tag":
            kept.add(at)
        oldest = now_ms - ref.get("max-snapshot-age-ms", age_ms)
        least = max(1, ref.get("min-snapshots-to-keep", keep))
        while at in snapshots and ref["type"] == "branch":
            is_kept = is_kept and (count < least or snapshots[at]["timestamp-ms"] >= oldest)
            lines.add(at)
            if is_kept:
                kept.add(at)
            at, count = snapshots[at].get("parent-snapshot-id"), count + 1
    young = now_ms - age_ms
    kept |= {each for each, said in snapshots.items() if each not in lines and said["timestamp-ms"] >= young}
    return [each for each in snapshots if each not in kept]
