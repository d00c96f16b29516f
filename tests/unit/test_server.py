"""`orcas.Server`: a child process that is ready, private, and gone when it should be."""

from __future__ import annotations

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
from pathlib import Path

import botocore.config
import pytest

import orcas
from orcas.memory import private_directory


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
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


class SlowFile(io.BytesIO):
    """A body that takes a while to send, and says when sending has begun."""

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
        # Signing reads the body once; what is slow is sending it.
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
    code = "import sys, os; from pathlib import Path; from orcas.memory import private_directory\n"
    code += "with private_directory(Path(sys.argv[1])) as path: (path / 'f').touch(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert len(list(tmp_path.iterdir())) == 2
    with private_directory(tmp_path) as first, private_directory(tmp_path) as second:
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {first, second}
        assert first.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
