"""`orcas status` and `orcas stop`: a server that runs, one that does not, and one that will not stop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.keys import admin
from tests.fixtures.targets import Target, content, running
from tests.fixtures.waiting import wait_until

Serve = Callable[..., AbstractContextManager[Target]]


def test_a_server_that_runs(serve: Serve, data: Path) -> None:
    with serve() as target:
        target.client().put_object(Bucket="tools", Key="k", Body=b"1")
        shown = document("status", "--data", data)
        assert shown["running"]
        assert (shown["url"], shown["data"]) == (target.server.endpoint, str(data))
        assert (shown["buckets"], shown["objects"], shown["health"], shown["wrong"]) == (1, 1, "ok", [])
        assert 0 < shown["free"] <= shown["total"]
        said = command("status", "--data", data)
        for part in ("running, ok", target.server.endpoint, str(data), "1 object in 1 bucket,", "nothing"):
            assert part in said
        assert len(said.splitlines()) <= 24
    assert document("status", "--data", data, code=3)["running"] is False
    assert "no server runs" in command("status", "--data", data, code=3)
    assert document("status", "--data", data / "none", code=3)["running"] is False


def test_what_is_wrong_is_said(serve: Serve, data: Path) -> None:
    with serve():
        pass
    with serve(disk_reserve=1 << 40):
        done = subprocess.run(
            [sys.executable, "-m", "orcas", "status", "--data", data, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "is not well (full: " in json.loads(done.stderr)["error"]["message"]
    assert json.loads(done.stdout)["health"] == "full"


def test_a_server_is_stopped(data: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "orcas", "serve", "--data", data, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        assert document("stop", "--data", data)["stopped"] == url.removeprefix("http://")
        assert process.wait(60) == 0
    assert "there is nothing to stop" in command("stop", "--data", data, code=69)


def test_a_server_elsewhere_is_stopped() -> None:
    with running(None) as target:
        keys = {"AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key}
        assert "has stopped" in command("stop", "--endpoint", target.server.endpoint, **keys)
        assert "cannot be reached" in command("stop", "--endpoint", target.server.endpoint, code=69, **keys)


def test_a_server_that_does_not_stop(serve: Serve, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcas.cli.server.status._STOP_SECONDS", 0.0)
    monkeypatch.setattr("orcas.cli.server.status._runs", lambda *_: True)
    with serve():
        said = command("stop", "--data", data, code=1)
    assert "was told to stop and still runs" in said
    assert "the service or the container" in said


def test_what_sharing_saves_is_one_figure(serve: Serve, data: Path) -> None:
    with serve() as target:
        for key in ("a", "b", "c"):
            target.client().put_object(Bucket="tools", Key=key, Body=content(70_000))
        assert wait_until(lambda: document("stats", "--data", data)["totals"]["shared"] == 140_000)
        stats = document("stats", "--data", data)
        assert sum(bucket["shared"] for bucket in stats["buckets"]) == 140_000
        assert admin(target, "GET", "disk")["content"] == stats["totals"]
        assert document("top", "--once", "--interval", "0.1", "--data", data)["content"]["shared"] == 140_000
        assert command("stats", "--data", data).count("136.7 KiB") == 2
