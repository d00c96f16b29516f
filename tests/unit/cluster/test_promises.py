"""Whether the bucket of a log keeps what the log rests on: a node asks it, and says what is broken."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fixtures.servers.unreliable import unreliable

from orcas.cluster.promises import check_promises, has_bucket
from orcas.cluster.running import run_node
from orcas.errors import UnavailableError
from orcas.settings.config import Settings, environment, resolve

KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "key"}


def settings(directory: Path, log: str) -> Settings:
    return resolve(
        {"data": str(directory), "cluster_log": log, "cluster_url": "http://127.0.0.1:1"}, ambient=False
    ).settings


def test_a_bucket_in_order_is_asked_little_and_left_as_it_was(tmp_path: Path) -> None:
    with unreliable() as store, environment(KEYS):
        found = check_promises(settings(tmp_path, f"s3://bucket/a/b/?endpoint={store.urls[0]}"))
        assert store.objects == {}
    assert found["untold"] == 0
    assert found["requests"] <= 45


@pytest.mark.parametrize("fault", ["ignores-create", "ignores-match", "refused-writes-land"])
def test_a_broken_promise_is_named(fault: str, tmp_path: Path) -> None:
    with unreliable(fault) as store, environment(KEYS):
        with pytest.raises(UnavailableError, match=r"is not safe in its bucket \((create-existing|swap): "):
            check_promises(settings(tmp_path, f"s3://bucket?endpoint={store.urls[0]}"))
        assert store.objects == {}


def test_a_new_node_does_not_begin_with_such_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SimpleNamespace(mark=lambda: None, warning=lambda: None, latency=lambda: 0.0)
    monkeypatch.setattr("orcas.cluster.member.open_node", lambda _: node)
    with unreliable("ignores-create") as store, environment(KEYS):
        there = settings(tmp_path / "new", f"s3://bucket/log?endpoint={store.urls[0]}")
        with pytest.raises(UnavailableError, match=r"is not safe in its bucket \(create-existing: "):
            run_node(pytest.fail, there, pytest.fail)
        assert store.objects == {}
        # One that has served may have to go on.
        (tmp_path / "new" / "cluster.node" / "mark.json").write_text("{}")
        monkeypatch.setattr("orcas.cluster.member.Member.prepare", lambda _: pytest.fail("it goes on"))
        with pytest.raises(pytest.fail.Exception, match="it goes on"):
            run_node(pytest.fail, there, pytest.fail)


def test_a_database_is_not_asked(tmp_path: Path) -> None:
    assert not has_bucket(settings(tmp_path, "postgresql://a@127.0.0.1/a"))
    assert has_bucket(settings(tmp_path, "s3://a/b"))
