"""What the root identity does to buckets over the admin API is in the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from orcas.admin.routes.snapshots import add_snapshots
from orcas.engine import Refusal


def client(refusal: Refusal | None = None) -> TestClient:
    """The paths of snapshots over a store that makes every change, or refuses it."""

    def change(*_: Any) -> None:
        if refusal is not None:
            raise refusal

    core = SimpleNamespace(
        create_snapshot=change, delete_snapshot=change, fork_bucket=change, restore_bucket=change
    )  # fmt: skip
    app = FastAPI()
    add_snapshots(app, lambda: core)  # type: ignore[arg-type,return-value]
    return TestClient(app)


def change_everything(site: TestClient) -> None:
    site.post("/buckets/b/snapshots", json={"name": "s"})
    site.delete("/buckets/b/snapshots/s")
    site.post("/buckets/b/fork", json={"name": "f"})
    site.post("/buckets/b/fork", json={"name": "f", "snapshot": "s"})
    site.post("/buckets/b/restore", json={"snapshot": "s"})


def test_each_change_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "orcas"):
        change_everything(client())
    assert [record.getMessage() for record in caplog.records if record.name == "orcas"] == [
        "Snapshot s of b was created",
        "Snapshot s of b was deleted",
        "Bucket f was created as a fork of b",
        "Bucket f was created as a fork of b@s",
        "Bucket b was restored from its snapshot s",
    ]


def test_what_is_refused_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "orcas"), pytest.raises(Refusal):
        change_everything(client(Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")))
    assert not [record for record in caplog.records if record.name == "orcas"]
