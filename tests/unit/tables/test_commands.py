"""`orcas table`, which needs no pyiceberg."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fixtures.commands import command, document

import orcas


def test_commands(tmp_path: Path) -> None:
    where = ("--data", tmp_path / "store")
    with orcas.Server(tmp_path / "store"):
        pass
    assert command("table", "warehouse", "create", "lake", *where) == "lake is a warehouse\n"
    assert command("table", "warehouse", "create", "lake", *where) == "lake is a warehouse\n"
    command("mb", "s3://plain", *where)
    command("fork", "lake", "copied", *where)
    known = [{"bucket": "copied", "name": "lake"}, {"bucket": "lake", "name": "lake"}]
    assert document("table", "warehouse", "list", *where)["warehouses"] == known
    assert "a copy of lake" in command("table", "warehouse", "list", *where)
    metadata = {
        "format-version": 2, "location": "s3://lake/n/t", "current-schema-id": 1, "current-snapshot-id": 2,
        "schemas": [
            {"schema-id": 0, "fields": []},
            {"schema-id": 1, "fields": [{"id": 1, "name": "amount", "type": "long", "required": True}]},
        ],
        "snapshots": [
            {"snapshot-id": 1, "timestamp-ms": 0, "summary": {"operation": "append", "added-records": "5"}},
            {"snapshot-id": 2, "timestamp-ms": 1000, "summary": {"operation": "overwrite", "total-records": "7"}},
        ],
    }  # fmt: skip
    files = {
        ".iceberg/tables/a.b/t": {"metadata": "n/t/metadata/1.metadata.json", "place": "n/t", "own": True},
        "n/t/metadata/1.metadata.json": metadata,
    }
    for key, content in files.items():
        (tmp_path / "file").write_text(json.dumps(content))
        command("cp", str(tmp_path / "file"), f"s3://lake/{key}", *where)
    assert document("table", "list", "lake", *where) == {"tables": ["a.b.t"]}
    shown = command("table", "show", "lake", "a.b.t", *where)
    assert all(word in shown for word in ("s3://lake/n/t", "version 2", "amount", "long", "required", "7"))
    assert document("table", "show", "lake", "a.b.t", *where)["metadata"] == metadata
    history = command("table", "history", "lake", "a.b.t", *where)
    assert history.index("overwrite") < history.index("append")
    assert [row.split()[-1] for row in history.splitlines()[1:]] == ["main", "0"]
    rollback = ("table", "rollback", "lake", "a.b.t", *where, "--to")
    at = "snapshot 2 of 1970-01-01T00:00:01.000+00:00"
    for target in ("2", "1970-01-01T00:00:01Z"):
        assert command(*rollback, target) == f"a.b.t is at {at} already\n"
    assert document(*rollback, "1", "--force", "--dry-run") == {"before": 2, "after": 1}
    former = "snapshot 1 of 1970-01-01T00:00:00.000+00:00"
    would = f"a.b.t would be at {former}, and is at {at}\n"
    assert command(*rollback, "1", "--force", "--dry-run") == would
    # It has no parent, as the first one of an import.
    assert "--force sets it anyway" in command(*rollback, "1", code=2)
    assert "a.b.t has no snapshot 3: `orcas table history lake a.b.t`" in command(*rollback, "3", "--force", code=2)
    assert "has no snapshot from 1970-01-01T00:00:00+00:00" in command(*rollback, "1970-01-01", code=2)
    assert "There is no table" in command("table", "rollback", "lake", "a.b.u", *where, "--to", "1", code=2)
    assert "There is no table a.b.u in lake: " in command("table", "show", "lake", "a.b.u", *where, code=2)
    assert "no namespace" in command("table", "show", "lake", "t", *where, code=2)
    assert "name another bucket" in command("table", "warehouse", "create", "Not_A_Bucket", *where, code=1)
    command("rm", "s3://lake/n/t/metadata/1.metadata.json", *where)
    missing = "The metadata file n/t/metadata/1.metadata.json of a.b.t is missing"
    assert missing in command("table", "show", "lake", "a.b.t", *where, code=2)
