"""stats, gc, compact, fsck and scrub as an operator runs them, on running and stopped stores."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document, ran
from tests.fixtures.targets import MIB, Target, content, running
from tests.fixtures.waiting import wait_until
from tests.tools.conftest import BUCKET, fill

from orcas.settings.config import child_environment
from orcas.tools.session import Session, session_of

Serve = Callable[..., AbstractContextManager[Target]]

RECLAIMED = {"blobs", "condemned_bytes", "punched_bytes", "moved_bytes", "log_files", "packs"}


def shown(data: Path, *arguments: str) -> dict[str, Any]:
    stats: dict[str, Any] = document("stats", "--data", data, *arguments)
    assert set(stats) == {"store", "buckets", "totals", "files", "pools", "reclaim", "lifecycle", "events", "tasks"}
    assert set(stats["totals"]) == {"logical", "stored", "shared", "dead"}
    assert set(stats["files"]) == {
        "log_files", "log_bytes", "log_allocated", "packs", "pack_bytes", "pack_allocated", "index_bytes", "index_wal_bytes",
    }  # fmt: skip
    return stats


@pytest.mark.parametrize("kind", ["memory", "sync", "buffered", "unsafe-none"])
def test_stats_count_what_was_acknowledged(tmp_path: Path, kind: str) -> None:
    settings = {} if kind == "memory" else {"durability": kind}
    with running(None if kind == "memory" else tmp_path / "data", **settings) as target:
        client = target.client()
        client.create_bucket(Bucket=BUCKET)
        with session_of(client) as session:
            for number in range(1, 4):
                client.put_object(Bucket=BUCKET, Key=f"k{number}", Body=b"1" * 10)
                (row,) = session.admin("GET", "stats")["buckets"]
                assert (row["objects"], row["bytes"]) == (number, 10 * number)


def test_stats_say_what_is_stored_and_shared(serve: Serve, data: Path) -> None:
    body = content(300_000)
    with serve() as target:
        client = target.client()
        for at in range(5):
            client.put_object(Bucket=BUCKET, Key=f"same/{at}", Body=body)
        client.put_object(Bucket=BUCKET, Key="other", Body=content(1000, 1))
        client.create_bucket(Bucket="empty")
    stats = shown(data)
    empty, mine = stats["buckets"]
    assert mine == {
        "name": BUCKET, "objects": 6, "bytes": 1_501_000, "history": 0, "logical": 1_501_000, "stored": 301_000,
        "shared": 1_200_000,
    }  # fmt: skip
    assert (empty["name"], empty["objects"], empty["stored"]) == ("empty", 0, 0)
    assert stats["totals"] == {"logical": 1_501_000, "stored": 301_000, "shared": 1_200_000, "dead": 0}
    with serve():
        assert shown(data)["totals"] == stats["totals"]
        assert [bucket["name"] for bucket in shown(data, "--bucket", "empty")["buckets"]] == ["empty"]
        command("stats", "--data", data, "--bucket", "absent", code=1)
        table = command("stats", "--data", data)
    assert BUCKET in table
    assert "1.1 MiB" in table


def test_stats_of_an_earlier_server_have_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    size = dict.fromkeys(("logical", "stored", "dead", "log_files", "log_bytes", "log_allocated"), 0)
    size |= dict.fromkeys(("packs", "pack_bytes", "pack_allocated", "index_bytes", "index_wal_bytes"), 0)

    def earlier(_: Session, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
        assert (method, path, order) == ("GET", "stats", None)
        return {"buckets": [], "totals": size, "files": size}

    monkeypatch.setattr(Session, "admin", earlier)
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    table = command("stats", "--endpoint", "http://127.0.0.1:1", **keys)
    assert "index" in table
    assert "Task" not in table


def test_stats_count_what_is_used_again(serve: Serve, data: Path) -> None:
    counts: dict[bool, dict[str, Any]] = {}
    for enabled in (True, False):
        with serve(pooling_enabled=enabled) as target:
            bodies = fill(target, range(10))
            for key, body in bodies.items():
                assert target.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
            target.client().list_objects_v2(Bucket=BUCKET)
            counts[enabled] = shown(data)["pools"]
    names = {"hits", "misses", "returned", "discarded", "held_bytes", "out_bytes"}
    assert set(counts[True]["buffers"]) == names
    assert counts[True]["enabled"]
    assert counts[True]["buffers"]["hits"] > 0
    assert counts[True]["buffers"]["misses"] > 0
    assert counts[False] == {
        "enabled": False, "buffers": dict.fromkeys(names, 0), "connections": counts[False]["connections"],
    }  # fmt: skip
    with_pool, without = (counts[enabled]["connections"] for enabled in (True, False))
    assert set(with_pool) == {"hits", "misses", "waits", "refusals", "open", "idle"}
    assert with_pool["hits"] > 0
    assert 0 < with_pool["idle"] <= with_pool["open"]
    assert (without["hits"], without["idle"]) == (0, 0)
    assert without["misses"] > 0


@pytest.mark.full
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells what glibc gives back")
def test_idle_memory_goes_back_to_the_system(serve: Serve, data: Path) -> None:
    def resident(process: int) -> int:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    with serve() as target:
        client = target.client()
        before = resident(target.server.pid)

        def put_and_get(at: int) -> None:
            for size in (3_000, 60_000, 300_000, 3 * MIB) * 4:
                body = content(size, at)
                client.put_object(Bucket=BUCKET, Key=f"{at}/{size}", Body=body)
                assert client.get_object(Bucket=BUCKET, Key=f"{at}/{size}")["Body"].read() == body

        with ThreadPoolExecutor(12) as threads:
            list(threads.map(put_and_get, range(12)))
        grown = resident(target.server.pid) - before
        deadline = time.monotonic() + 60
        while shown(data)["pools"]["buffers"]["held_bytes"]:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        kept = resident(target.server.pid) - before
    # By default, glibc keeps nearly all of it. How much it can return depends on what follows on its heap.
    assert kept < grown * 0.8, f"{kept} of {grown} bytes"


def test_what_is_deleted_is_given_back(serve: Serve, data: Path) -> None:
    with serve() as target:
        fill(target, range(60))
        for at in range(0, 60, 2):
            target.client().delete_object(Bucket=BUCKET, Key=f"k/{at:04}")
        command("gc", "--data", data)
        collected = shown(data)
        assert collected["totals"]["dead"] == 0
        assert collected["reclaim"]["total"]["blobs"] > 0
    before = collected["files"]
    done = document("compact", "--data", data)
    assert set(done) == {*RECLAIMED, "since_start"}
    assert set(done["since_start"]) == RECLAIMED
    after = shown(data)
    assert after["files"]["pack_allocated"] <= before["pack_allocated"]
    assert after["totals"] == collected["totals"]
    assert after["buckets"][0]["objects"] == 30
    assert document("fsck", "--data", data)["clean"]
    assert "contents removed" in command("compact", "--data", data)


def damage(data: Path) -> None:
    pack = next((data / "chunks").iterdir())
    with pack.open("r+b") as file:
        file.seek(pack.stat().st_size - 5000)
        file.write(bytes(100))


def test_fsck_finds_damage_and_what_it_costs(serve: Serve, data: Path) -> None:
    with serve() as target:
        fill(target, range(10))
        # It counts what the index has, which follows the answers.
        assert wait_until(lambda: document("fsck", "--data", data)["blobs"] == 8)
        clean = document("fsck", "--data", data)
        assert clean["clean"]
        assert clean["index"] == {"state": "equal", "detail": None}
        assert command("fsck", "--data", data, "--repair", code=69)
    at_rest = document("fsck", "--data", data)
    assert (at_rest["clean"], at_rest["blobs"]) == (True, clean["blobs"])
    damage(data)
    found = document("fsck", "--data", data, code=1)
    assert found["findings_total"] == 1
    assert [(loss["bucket"], loss["bytes"]) for loss in found["losses"]] == [(BUCKET, 700_000)]
    assert "lost: tools/k/" in command("fsck", "--data", data, code=1)
    # It cannot find damage in what it does not read.
    assert document("fsck", "--data", data, "--no-content")["clean"]
    with serve():
        beside = document("fsck", "--data", data, code=1)
        assert [loss["key"] for loss in beside["losses"]] == [loss["key"] for loss in found["losses"]]
        assert not document("scrub", "--now", "--data", data, code=1)["clean"]


def test_what_was_reclaimed_in_the_background_is_told(serve: Serve, data: Path) -> None:
    with serve() as target:
        fill(target, range(10))
        for at in range(10):
            target.client().delete_object(Bucket=BUCKET, Key=f"k/{at:04}")
        # All but the two inside the log, whether the server's own thread or the command was faster.
        deadline = time.monotonic() + 20
        while shown(data)["reclaim"]["total"]["blobs"] < 8:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        done = document("gc", "--data", data)
        assert done["blobs"] == 0
        assert done["since_start"]["blobs"] == 8
        table = command("gc", "--data", data).splitlines()
        assert table[0].split() == ["now", "since", "the", "server", "started"]
        assert table[1].split() == ["contents", "removed", "0", "8"]
    with serve() as target:
        fill(target, range(20, 30))
        for at in range(20, 30):
            target.client().delete_object(Bucket=BUCKET, Key=f"k/{at:04}")
        target.server.kill()
    done = document("gc", "--data", data)
    assert done["since_start"] == {name: done[name] for name in RECLAIMED}


def test_a_store_opened_for_the_command_is_reclaimed_by_it(
    serve: Serve, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve():
        pass
    nothing = dict.fromkeys(RECLAIMED, 0)
    # The background thread of that store was faster.
    monkeypatch.setattr("orcas.tools.work.run_job", lambda *_: {**nothing, "since_start": {**nothing, "blobs": 5}})
    done = ran(child_environment(), str(data), "gc", "--data", str(data), "--json")
    assert json.loads(done.stdout)["blobs"] == 5


def test_a_lost_index_is_built_again(serve: Serve, data: Path) -> None:
    with serve() as target:
        fill(target, range(10))
    (data / "index.db").write_bytes(b"no index at all" * 1000)
    assert not document("fsck", "--data", data, code=1)["clean"]
    assert document("fsck", "--data", data, "--repair")["clean"]
    assert document("fsck", "--data", data)["index"]["state"] == "equal"


def test_the_scrub_says_how_far_it_is(serve: Serve, data: Path) -> None:
    with serve():
        state = document("scrub", "--data", data)
        assert set(state) == {
            "rate", "passes", "done_bytes", "total_bytes", "position", "damaged", "damaged_total", "failed",
        }  # fmt: skip
        assert state["rate"] == 10 << 20
        assert "passes completed" in command("scrub", "--data", data)


def test_a_server_says_where_it_is_for_as_long_as_it_runs(serve: Serve, data: Path) -> None:
    address = data / "server.json"
    with serve() as target:
        server = target.server
        said = {"url": server.endpoint, "region": server.region, "pid": server.pid}
        assert json.loads(address.read_text()) == said
        assert address.stat().st_mode & 0o777 == 0o600
    assert not address.exists()
    with serve() as target:
        target.server.kill()
    # After a crash, the file remains, but there is no server.
    assert address.exists()
    shown(data)


def test_a_store_that_is_none_or_out_of_reach_exits_69(data: Path, tmp_path: Path) -> None:
    for name in ("stats", "gc", "compact", "lifecycle", "fsck", "scrub"):
        assert "no store" in command(name, "--data", data, code=69)
    assert "no key" in command("stats", "--data", data, "--endpoint", "http://127.0.0.1:1", code=78)
    keys = {"ORCAS_ROOT_ACCESS_KEY": "somebody", "ORCAS_ROOT_SECRET_KEY": "somebodys-secret"}
    assert "cannot be reached" in command("stats", "--endpoint", "http://127.0.0.1:1", code=69, **keys)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_key_is_refused(serve: Serve) -> None:
    with serve() as target:
        keys = {"ORCAS_ROOT_ACCESS_KEY": target.server.access_key, "ORCAS_ROOT_SECRET_KEY": "not-the-secret"}
        command("stats", "--endpoint", target.server.endpoint, code=1, **keys)
