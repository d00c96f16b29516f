"""`orcas run`: a command with a server of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from orcas.settings.config import child_environment

PUT_AND_READ = """
import boto3
s3 = boto3.client("s3")
s3.put_object(Bucket="uploads", Key="k", Body=b"x", ServerSideEncryption="AES256")
print(s3.get_object(Bucket="uploads", Key="k")["Body"].read(), [b["Name"] for b in s3.list_buckets()["Buckets"]])
"""


def orcas_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**child_environment(), "AWS_SESSION_TOKEN": "stale", "AWS_PROFILE": "none"}
    command = [sys.executable, "-m", "orcas", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False)


def test_a_command_uses_the_server_and_nothing_is_left(tmp_path: Path) -> None:
    done = orcas_run("--bucket", "uploads", "--bucket", "more", "--", sys.executable, "-c", PUT_AND_READ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'x' ['more', 'uploads']\n", "")


def test_the_exit_code_is_that_of_the_command() -> None:
    assert orcas_run("--", "sh", "-c", "exit 42").returncode == 42
    assert orcas_run("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    done = orcas_run("--", "no-such-command-anywhere")
    assert (done.returncode, done.stderr) == (
        127,
        "orcas: There is no command no-such-command-anywhere: install it, or correct its name or PATH.\n",
    )
    done = orcas_run("--", str(Path(__file__)))
    assert (done.returncode, done.stderr.count("cannot be run")) == (69, 1)


def test_mistakes_are_sentences() -> None:
    for arguments, words in (
        ((), "A command is missing"),
        (("--bucket", "No_Bucket", "--", "true"), "is not valid"),
        (("--region", "Ä", "--", "true"), "region must be"),
    ):
        done = orcas_run(*arguments)
        assert done.returncode in (1, 2, 78), arguments
        assert done.stderr.startswith("orcas: "), done.stderr
        assert words in done.stderr


def test_a_signal_reaches_the_command() -> None:
    script = "trap 'echo caught; exit 7' TERM; echo $$; while :; do sleep 0.05; done"
    command = [sys.executable, "-m", "orcas", "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) as run:
        assert run.stdout is not None
        assert int(run.stdout.readline()) > 0
        run.send_signal(signal.SIGTERM)
        assert run.stdout.read() == "caught\n"
        assert run.wait() == 7


def test_the_server_ends_with_a_run_that_is_killed() -> None:
    script = 'echo "$AWS_ENDPOINT_URL_S3"; exec sleep 60'
    command = [sys.executable, "-m", "orcas", "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) as run:
        assert run.stdout is not None
        port = int(run.stdout.readline().rsplit(":", 1)[1])
        child = int(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[-1])
        run.kill()
    os.kill(child, signal.SIGKILL)
    import socket

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server is still there")
