"""`orcas.Server`: a child process that is ready, private, and ends when it should."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import pytest

import orcas
from orcas.process.memory import private_directory


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    # The second says that it ended between opening the file and reading it.
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_it_is_ready_when_it_returns_and_gone_when_it_stops() -> None:
    with orcas.Server(memory=True) as server:
        with urllib.request.urlopen(f"{server.endpoint}/_orcas/health/ready") as answer:
            assert answer.status == 200
        assert os.getsid(server.pid) == server.pid
        pid = server.pid
    assert ends(pid, 0)
    server.stop()


def test_keys_are_not_in_argv() -> None:
    with orcas.Server(memory=True, root_access_key="operator", root_secret_key="operators-secret") as server:
        assert (server.access_key, server.secret_key) == ("operator", "operators-secret")
        for name in ("cmdline", "environ"):
            assert b"operators-secret" not in Path(f"/proc/{server.pid}/{name}").read_bytes()
        assert "operators-secret" not in repr(server)


def test_a_directory_keeps_its_key(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as first:
        key = first.secret_key
    with orcas.Server(data=tmp_path / "store") as second:
        assert second.secret_key == key
        with pytest.raises(orcas.UnavailableError, match="in use by another process"):
            orcas.Server(tmp_path / "store")


def test_wrong_settings_are_exceptions() -> None:
    with pytest.raises(orcas.ConfigurationError, match="either data=DIRECTORY or memory=True"):
        orcas.Server()
    with pytest.raises(orcas.ConfigurationError, match="port must be from 0"):
        orcas.Server(memory=True, port=70000)
    with pytest.raises(orcas.ConfigurationError, match="did you mean durability"):
        orcas.Server(memory=True, durabilty="sync")


def test_clients_read_the_environment_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default session of boto3 keeps the keys that it found first."""
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name, value in (("ACCESS_KEY_ID", "dummy"), ("SECRET_ACCESS_KEY", "dummy"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    boto3.client("s3").close()
    with orcas.Server(memory=True) as server, server.env():
        client = boto3.client("s3")
        assert client.list_buckets()["Buckets"] == []
        client.close()
    assert boto3.DEFAULT_SESSION.get_credentials().access_key == "dummy"


def test_the_environment_points_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCAS_PORT", "nonsense")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "stale")
    with orcas.Server(memory=True, region="eu-north-1") as server:
        with server.env() as variables:
            assert os.environ["AWS_ENDPOINT_URL_S3"] == server.endpoint == variables["AWS_ENDPOINT_URL_S3"]
            assert os.environ["AWS_REGION"] == "eu-north-1"
            assert "AWS_SESSION_TOKEN" not in os.environ
        assert os.environ["AWS_SESSION_TOKEN"] == "stale"
        assert server.client().meta.endpoint_url == server.endpoint
        assert server.resource().meta.client.meta.region_name == "eu-north-1"


def test_proxies_are_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", "example.org")
    once = botocore.config.Config(retries={"total_max_attempts": 1}, user_agent_extra="mine")
    with orcas.Server(memory=True) as server:
        for client in (server.client(config=once), server.resource(config=once).meta.client):
            assert client.list_buckets()["Buckets"] == []
            assert "mine" in client.meta.config.user_agent
            assert client.meta.config.signature_version == "s3v4"
            presigned = client.generate_presigned_url("list_buckets")
            assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in presigned
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(presigned) as answer:
                assert answer.status == 200
            client.close()
        # An explicit proxy is used, and so is the caller's signature version.
        chosen = botocore.config.Config(proxies={"http": "http://127.0.0.1:1"}, signature_version="s3")
        assert server.client(config=chosen).meta.config.signature_version == "s3"
        assert server.client(config=chosen).meta.config.proxies == {"http": "http://127.0.0.1:1"}
        with server.env() as variables:
            for name in ("NO_PROXY", "no_proxy"):
                assert {"example.org", "127.0.0.1"} <= set(os.environ[name].split(","))
                assert variables[name] == os.environ[name]
            with contextlib.closing(boto3.session.Session().client("s3", config=once)) as client:
                assert client.list_buckets()["Buckets"] == []
        assert "NO_PROXY" not in os.environ
        assert os.environ["no_proxy"] == "example.org"


def test_its_repr_says_how_it_is() -> None:
    server = orcas.Server(memory=True)
    assert repr(server) == f"<orcas.Server {server.endpoint} pid={server.pid}>"
    server.stop()
    assert repr(server) == "<orcas.Server stopped>"
    server = orcas.Server(memory=True)
    server.kill()
    assert repr(server) == "<orcas.Server killed by signal 9>"


async def test_the_event_loop_goes_on_while_it_starts_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked: list[threading.Thread] = []

    def watched(wait: Callable[..., Any]) -> Callable[..., Any]:
        def waits(*arguments: Any, **options: Any) -> Any:
            blocked.append(threading.current_thread())
            return wait(*arguments, **options)

        return waits

    for name in ("_await_ready", "stop"):
        monkeypatch.setattr(orcas.Server, name, watched(getattr(orcas.Server, name)))
    async with orcas.Server(tmp_path / "store") as server:
        assert server.endpoint.startswith("http://127.0.0.1:")
        pid = server.pid
        second = orcas.Server(tmp_path / "store")
        with pytest.raises(orcas.UnavailableError, match="in use by another process"):
            async with second:
                pass
        # Every caller gets the failure.
        with pytest.raises(orcas.UnavailableError, match="in use by another process"):
            second.client()
        assert repr(second) == "<orcas.Server failed with exit code 69>"
        with pytest.raises(orcas.ConfigurationError):
            orcas.Server(memory=True, port=70_000)
    assert ends(pid, 0)
    assert len(blocked) == 3
    assert threading.main_thread() not in blocked


async def test_a_start_that_is_given_up_leaves_nothing() -> None:
    server = orcas.Server(memory=True)
    entering = asyncio.ensure_future(server.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert await asyncio.to_thread(ends, server.pid)
    with pytest.raises(orcas.UnavailableError):
        server.client()


class SlowFile(io.BytesIO):
    """A body that takes a while to send, and tells when sending has begun."""

    def __init__(self, size: int) -> None:
        super().__init__(b"a" * size)
        self.begun = threading.Event()
        self.slow = False

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if self.slow and piece:
            self.begun.set()
            time.sleep(0.1)
        return piece


def test_a_request_under_way_is_finished_when_it_stops(tmp_path: Path) -> None:
    body = SlowFile(300_000)
    with orcas.Server(tmp_path) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        options = botocore.config.Config(retries={"max_attempts": 1}, request_checksum_calculation="when_required")
        client = server.client(config=options)
        client.create_bucket(Bucket="bucket")
        # Signing reads the body once; only sending it is slow.
        client.meta.events.register("before-send.s3.PutObject", lambda **_: setattr(body, "slow", True))
        answer = pool.submit(client.put_object, Bucket="bucket", Key="key", Body=body)
        assert body.begun.wait(10)
        server.stop()
        assert answer.result(10)["ResponseMetadata"]["HTTPStatusCode"] == 200
        client.close()
    with orcas.Server(tmp_path) as server:
        client = server.client()
        assert client.head_object(Bucket="bucket", Key="key")["ContentLength"] == 300_000
        client.close()


PARENT = """
    import os, sys, time, orcas
    server = orcas.Server(memory=True)
    if sys.argv[1] == "forked" and os.fork() == 0:
        time.sleep(30)  # holds the pipe's other end
        os._exit(0)
    print(server.pid, flush=True)
    time.sleep(30)
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_it_dies_with_its_parent(how: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), how],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert parent.stdout is not None
    try:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
        parent.wait(10)
        assert ends(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.stdout.close()
        parent.wait(10)


def test_directories_of_dead_processes_are_reaped(tmp_path: Path) -> None:
    code = "import sys, os; from pathlib import Path; from orcas.process.memory import private_directory\n"
    code += "with private_directory(Path(sys.argv[1])) as path: (path / 'f').touch(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert len(list(tmp_path.iterdir())) == 2
    with private_directory(tmp_path) as first, private_directory(tmp_path) as second:
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {first, second}
        assert first.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
