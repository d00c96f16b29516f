"""`orcas run`: a command with a server of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from orcas.settings.config import DEV_ACCESS_KEY, child_environment

PUT_AND_READ = """
import boto3
s3 = boto3.client("s3")
s3.put_object(Bucket="uploads", Key="k", Body=b"x", ServerSideEncryption="AES256")
print(s3.get_object(Bucket="uploads", Key="k")["Body"].read(), [b["Name"] for b in s3.list_buckets()["Buckets"]])
"""


SHOW = """
import os, boto3, json
shown = {name: value for name, value in os.environ.items() if name.startswith(("ORCAS_", "AWS_"))}
shown["buckets"] = [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]]
print(json.dumps(shown))
"""


def orcas_run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**child_environment(), "AWS_SESSION_TOKEN": "stale", "AWS_PROFILE": "none", **variables}
    command = [sys.executable, "-m", "orcas", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False)


def shown_by(*arguments: str, **variables: str) -> tuple[dict[str, Any], str]:
    """What a command in a run has in its variables, with the buckets of the server; and what the run says on stderr."""
    done = orcas_run(*arguments, "--", sys.executable, "-c", SHOW, **variables)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown, done.stderr


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


def test_options_give_port_keys_and_tls() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    pair = ("--access-key", "minioadmin", "--secret-key", "minioadmin")
    shown, said = shown_by("-p", port, *pair, "--tls", "--region", "eu-central-1")
    assert (shown["AWS_ENDPOINT_URL_S3"], said) == (f"https://127.0.0.1:{port}", "")
    assert (shown["AWS_ACCESS_KEY_ID"], shown["AWS_SECRET_ACCESS_KEY"]) == ("minioadmin", "minioadmin")
    assert shown["AWS_REGION"] == "eu-central-1"
    # Suites of moto and LocalStack have keys that no other server takes.
    shown, _ = shown_by("--access-key", "test", "--secret-key", "test")
    assert (shown["AWS_ACCESS_KEY_ID"], shown["AWS_SECRET_ACCESS_KEY"]) == ("test", "test")


def test_development_has_the_keys_of_clients_or_published_ones() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": ""}
    for variables, expected in ((keys, "test"), ({"AWS_ACCESS_KEY_ID": ""}, DEV_ACCESS_KEY)):
        shown, said = shown_by("--dev", **variables)
        assert (shown["AWS_ACCESS_KEY_ID"], said) == (expected, "")
    # A key that a server cannot have for its own is not taken, and not silently.
    for variables, why in (
        (keys | {"AWS_SESSION_TOKEN": "t"}, "AWS_SESSION_TOKEN says that they are temporary"),
        (keys | {"AWS_SECRET_ACCESS_KEY": ""}, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"),
        (keys | {"AWS_ACCESS_KEY_ID": "a/b"}, "AWS_ACCESS_KEY_ID is not"),
    ):
        shown, said = shown_by("--dev", **variables)
        assert shown["AWS_ACCESS_KEY_ID"] == DEV_ACCESS_KEY
        assert said.startswith(f"orcas: The server takes the published keys, not those of the environment: {why}")


def test_settings_by_variable_count_and_stay_with_the_server(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the-secret-of-the-operator")
    variables = {
        "ORCAS_ROOT_ACCESS_KEY": "operator", "ORCAS_ROOT_SECRET_KEY_FILE": str(tmp_path / "secret"),
        "ORCAS_BUCKETS": "first,second", "ORCAS_REGION": "eu-north-1", "ORCAS_DATA": "/srv/s3",
        "ORCAS_DURABILITY": "sync", "ORCAS_IDENTITIES_FILE": str(tmp_path / "identities.toml"),
    }  # fmt: skip
    (tmp_path / "identities.toml").write_text("")
    shown, said = shown_by("--bucket", "third", "--region", "eu-west-3", **variables)
    assert shown["buckets"] == ["first", "second", "third"]
    assert (shown["AWS_ACCESS_KEY_ID"], shown["AWS_REGION"]) == ("operator", "eu-west-3")
    assert [name for name in shown if name.startswith("ORCAS_")] == []
    assert said == (
        "orcas: ORCAS_DATA does not count for this server: its store is in memory.\n"
        "orcas: ORCAS_DURABILITY does not count for this server: its store is in memory.\n"
    )
    refused = orcas_run("--", "true", ORCAS_PROT="9000")
    assert (refused.returncode, refused.stderr.count("did you mean ORCAS_PORT?")) == (78, 1)


def test_mistakes_are_sentences() -> None:
    for arguments, words in (
        ((), "A command is missing"),
        (("--bucket", "No_Bucket", "--", "true"), "--bucket must be a valid name"),
        (("--region", "Ä", "--", "true"), "--region must be"),
        (("--port", "high", "--", "true"), "--port must be"),
        (("--access-key", "minioadmin", "--", "true"), "give both or neither"),
        (("--access-key", "minioadmin", "--secret-key", "ä", "--", "true"), "--secret-key must be"),
    ):
        done = orcas_run(*arguments)
        assert done.returncode in (1, 2, 78), arguments
        assert done.stderr.startswith("orcas: "), done.stderr
        assert words in done.stderr


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = orcas_run("-p", str(taken.getsockname()[1]), "--", "true")
    assert (done.returncode, done.stderr.count("orcas: ")) == (69, 1), done.stderr
    assert "Orcas cannot listen on" in done.stderr.splitlines()[0]


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
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server is still there")
