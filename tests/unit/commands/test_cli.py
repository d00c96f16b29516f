"""The command line contract: what the command prints, where, and how it exits."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from tests.fixtures.commands import ran

from orcas.cli.commands import COMMANDS, app_with, app_with_all
from orcas.cli.output import steps
from orcas.cli.server import serving as serving_command
from orcas.settings.config import DEV_ACCESS_KEY, DEV_SECRET_KEY, SETTINGS, Settings, child_environment, variable_name


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with no settings and an empty home directory."""
    return child_environment() | {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def orcas(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(environ, environ["HOME"], *arguments)


@contextlib.contextmanager
def serving(environ: dict[str, str], *arguments: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "orcas", "serve", "--port", "0", *arguments],
        env=environ, cwd=environ["HOME"], stdout=subprocess.PIPE, stderr=stderr, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("orcas ready http://127.0.0.1:"), line
    return line.split()[2]


def test_serve_says_ready_answers_and_ends_at_sigterm(environ: dict[str, str]) -> None:
    with serving(environ) as process:
        url = url_of(process)
        for check in ("live", "ready"):
            with urllib.request.urlopen(f"{url}/_orcas/health/{check}") as answer:
                assert answer.status == 200
                assert json.load(answer)["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 0
    assert stdout == ""
    key_file = Path(environ["XDG_DATA_HOME"]) / "orcas" / "root.json"
    assert str(key_file) in stderr
    for path in key_file.parent.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert json.loads(key_file.read_text())["secret_key"] not in stderr
    for line in stderr.splitlines():
        assert json.loads(line)["message"]


def test_a_generated_key_is_shown_once_on_a_terminal(environ: dict[str, str]) -> None:
    shown = []
    for _ in range(2):
        ours, theirs = pty.openpty()
        with serving(environ, stderr=theirs) as process:
            url_of(process)
            process.send_signal(signal.SIGINT)
            process.wait(20)
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                text += piece
        os.close(ours)
        shown.append(text.decode())
    secret = json.loads((Path(environ["XDG_DATA_HOME"]) / "orcas" / "root.json").read_text())["secret_key"]
    assert secret in shown[0]
    assert secret not in shown[1]
    # The line to type in another shell works there, without a PATH.
    for text in shown:
        line = re.search(r'^  (eval "\$\(.*\)")\r?$', text, re.MULTILINE)
        assert line is not None, text
        script = f"{line[1]}; echo $AWS_SECRET_ACCESS_KEY"
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env={**environ, "PATH": "/nonexistent"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{secret}\n"


def test_a_busy_port_and_a_store_in_use_exit_69_with_a_sentence(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = orcas(environ, "serve", "--port", str(taken.getsockname()[1]))
    with serving(environ) as process:
        url_of(process)
        locked = orcas(environ, "serve", "--port", "0")
    for refused in (busy, locked):
        assert refused.returncode == 69
        assert refused.stdout == ""
        assert refused.stderr.startswith("orcas: ")
        assert refused.stderr.count("\n") == 1
    assert "in use" in locked.stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "code"),
    [
        (["serve", "--port", "high"], {}, 2),
        (["serve"], {"ORCAS_DURABILITY": "maybe"}, 78),
        (["serve"], {"ORCAS_REF_LEVEL": "3"}, 78),
        (["serve"], {"ORCAS_RECLAIM_RATE": "1"}, 78),
        (["serve", "--dev", "--host", "0.0.0.0"], {}, 2),
        (["serve", "--dev"], {"ORCAS_HOST": "0.0.0.0"}, 78),
        (["env"], {}, 69),
        (["serve", "--no-such-option"], {}, 2),
        (["no-such-command"], {}, 2),
        (["serve", "--data", "/dev/null/store"], {}, 69),
        (["serve", "--host", "no-such-host.invalid"], {}, 69),
    ],
)
def test_exit_codes(environ: dict[str, str], arguments: list[str], variables: dict[str, str], code: int) -> None:
    done = orcas(environ | variables, *arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("orcas: ")
    assert done.stderr.count("\n") == 1


def exported(environ: dict[str, str], *arguments: str) -> dict[str, str]:
    """The variables that a shell has after `eval "$(orcas env …)"`."""
    lines = orcas(environ, "env", *arguments).stdout
    shell = subprocess.run(["sh", "-c", f"{lines}\nenv"], env=environ, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in shell.stdout.splitlines() if "=" in line)


def test_env_is_that_of_the_running_server(environ: dict[str, str], tmp_path: Path) -> None:
    keys = {"ORCAS_ROOT_ACCESS_KEY": "operator", "ORCAS_ROOT_SECRET_KEY": "operators-secret"}
    mine, others = str(tmp_path / "mine"), str(tmp_path / "others")
    region = {"ORCAS_REGION": "eu-north-1"}
    with serving(environ | region, "--data", mine) as first, serving(environ | keys, "--data", others) as second:
        urls = [url_of(first), url_of(second)]
        shown = exported(environ, "--data", mine)
        assert (shown["AWS_ENDPOINT_URL_S3"], shown["AWS_REGION"]) == (urls[0], "eu-north-1")
        # `env` and the tools also know keys that only the server was given.
        shown = exported(environ, "--data", others, "--wait", "5")
        assert shown["AWS_ENDPOINT_URL_S3"] == urls[1]
        assert (shown["AWS_ACCESS_KEY_ID"], shown["AWS_SECRET_ACCESS_KEY"]) == ("operator", "operators-secret")
        for command in ("stats", "fsck", "gc"):
            assert orcas(environ, command, "--data", others).returncode == 0
        mine_only = {name: value for name, value in exported(environ, "--data", mine).items() if "AWS_" in name}
        assert orcas(environ | mine_only, "stats", "--endpoint", urls[0]).returncode == 0
        wrong = orcas(environ | mine_only, "stats", "--endpoint", urls[1])
        assert wrong.returncode == 1
        assert "refused the key of AWS_ACCESS_KEY_ID" in wrong.stderr
        # Another path to the same directory.
        assert exported(environ, "--data", mine, "--port", "9001")["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9001"
        # A server without an address file, as while the store is being opened, or on a full disk.
        (Path(mine) / "server.json").rename(tmp_path / "server.json")
        refused = orcas(environ, "env", "--data", mine)
        assert (refused.returncode, refused.stdout) == (69, "")
        assert "--wait" in refused.stderr
        first.terminate()
        assert first.wait(20) == 0
        # Its key is not sent to another server that listens on the default port.
        port = urls[1].rpartition(":")[2]
        refused = orcas(environ | {"ORCAS_PORT": port}, "env", "--data", mine)
        assert (refused.returncode, refused.stdout) == (69, "")
        assert "another server listens" in refused.stderr
        # Tools that open a stopped store do not change its operator's keys.
        second.terminate()
        assert second.wait(20) == 0
    assert orcas(environ, "stats", "--data", others).returncode == 0
    assert "access_key" not in json.loads((Path(others) / "root.json").read_text())
    assert exported(environ, "--data", others)["AWS_ACCESS_KEY_ID"] == "operator"


def test_env_keeps_proxies_away_from_loopback(environ: dict[str, str]) -> None:
    plain = {name: value for name, value in environ.items() if "proxy" not in name.lower()}
    proxied = {"HTTP_PROXY": "http://proxy.invalid:3128", "no_proxy": "example.org", "AWS_SESSION_TOKEN": "stale"}
    shown = exported(plain | proxied, "--dev")
    for name in ("NO_PROXY", "no_proxy"):
        assert {"example.org", "127.0.0.1", "localhost", "::1"} <= set(shown[name].split(","))
    assert "AWS_SESSION_TOKEN" not in shown
    assert "PROXY" not in orcas(plain, "env", "--dev").stdout.upper()


def test_an_address_that_others_reach_without_tls_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        serving_command._warn(Settings(data=Path("/nowhere"), host=host))
    assert caplog.text == ""
    serving_command._warn(Settings(data=Path("/nowhere"), host="0.0.0.0"))
    assert "0.0.0.0 unencrypted" in caplog.text


def test_a_directory_of_other_files_is_left_alone(environ: dict[str, str], tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "holiday.jpg").touch()
    refused = orcas(environ, "serve", "--data", str(photos), "--port", "0")
    assert refused.returncode == 69
    assert "holiday.jpg" in refused.stderr
    assert [path.name for path in photos.iterdir()] == ["holiday.jpg"]
    # Such a directory counts as empty, and other files do not make a store unrecognisable.
    (photos / "holiday.jpg").unlink()
    (photos / "lost+found").mkdir()
    (photos / ".gitignore").touch()
    for _ in range(2):
        with serving(environ, "--data", str(photos)) as process:
            url_of(process)
        (photos / "holiday.jpg").touch()


def test_env_prints_what_clients_need(environ: dict[str, str]) -> None:
    with serving(environ) as process:
        url_of(process)
    lines = orcas(environ | {"ORCAS_REGION": "eu-north-1", "ORCAS_HOST": "::"}, "env", "--port", "9001").stdout
    shell = subprocess.run(
        ["sh", "-c", f"{lines}\nenv"], env=environ, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    key = json.loads((Path(environ["XDG_DATA_HOME"]) / "orcas" / "root.json").read_text())
    for line in (
        "AWS_ENDPOINT_URL_S3=http://[::1]:9001",
        "AWS_ENDPOINT_URL_IAM=http://[::1]:9001",
        "AWS_ENDPOINT_URL_STS=http://[::1]:9001",
        "AWS_ENDPOINT_URL_S3TABLES=http://[::1]:9001/_orcas/s3tables",
        f"AWS_ACCESS_KEY_ID={key['access_key']}",
        f"AWS_SECRET_ACCESS_KEY={key['secret_key']}",
        "AWS_REGION=eu-north-1",
        "AWS_DEFAULT_REGION=eu-north-1",
    ):
        assert line in shell
    development = orcas(environ, "env", "--dev").stdout
    assert DEV_ACCESS_KEY in development
    assert DEV_SECRET_KEY in development


def test_config_show_lists_every_setting_and_no_secret(environ: dict[str, str]) -> None:
    variables = {"ORCAS_ROOT_ACCESS_KEY": "operator", "ORCAS_ROOT_SECRET_KEY": "operators-secret", "ORCAS_PORT": "9123"}
    shown = json.loads(orcas(environ | variables, "config", "show", "--json").stdout)
    assert set(shown) == {name for name, setting in SETTINGS.items() if setting.variable}
    assert shown["port"] == {"value": 9123, "source": "ORCAS_PORT", "variable": "ORCAS_PORT"}
    assert shown["host"]["source"] == "default"
    table = orcas(environ | variables, "config", "show").stdout
    for name in shown:
        assert variable_name(name) in table
    assert "operator" not in table
    assert "operators-secret" not in json.dumps(shown)
    assert max(map(len, orcas(environ | {"ORCAS_DATA": "/srv/s3"}, "config", "show").stdout.splitlines())) <= 80
    for name in ("port", "ORCAS_PORT"):
        assert (
            "Port to listen on; 0 picks a free one. From 0 to 65535." in orcas(environ, "config", "show", name).stdout
        )


def test_a_command_is_in_its_module_and_imports_no_others() -> None:
    every = set(typer.main.get_command(app_with_all()).commands)  # type: ignore[attr-defined]
    assert every == {name for names in COMMANDS.values() for name in names}
    for name in every:
        assert name in typer.main.get_command(app_with(name)).commands, name  # type: ignore[attr-defined]
    code = "import sys; from orcas.cli.commands import app_with; app_with('status'); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "orcas.cli.server.status" in found
    assert not [name for name in found if name.startswith(("orcas.cli.buckets", "orcas.cli.identities", "aiosqlite"))]


def test_help_and_version(environ: dict[str, str]) -> None:
    shown = orcas(environ, "--help").stdout
    assert "orcas serve &" in shown
    assert "orcas.Server(memory=True)" in shown
    assert "--show-completion" in shown
    # Each command is under one of a few headings, and options that take no value show no type.
    panels = re.findall(r"╭─ ([A-Z][a-z ]+) ─", shown)
    assert panels == [
        "Options", "Server", "In place of others", "Objects", "Buckets", "Store", "Damage and copies", "Identities",
    ]  # fmt: skip
    assert "<bool>" not in shown + orcas(environ, "fsck", "--help").stdout
    assert orcas(environ, "-h").stdout == shown
    assert orcas(environ, "serve", "-h").stdout == orcas(environ, "serve", "--help").stdout
    assert orcas(environ, "--version").stdout == orcas(environ, "version").stdout
    assert "orcas ready http://HOST:PORT" in " ".join(orcas(environ, "serve", "--help").stdout.split())
    version = orcas(environ, "version").stdout
    assert version.startswith("orcas ")
    assert json.loads(orcas(environ, "version", "--json").stdout)["orcas"] == version.split()[1]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("serve --durability ", ["sync", "interval", "buffered", "unsafe-none"]),
        ("settings set b --ref-level f", ["full", "fast"]),
        ("config show tls_c", ["tls_cert_file", "tls_client_ca_file"]),
        ("policy check --kind t", ["trust"]),
        ("cp --sse a", ["aws:kms"]),
        ("sta", ["standby", "stats", "status"]),
    ],
)
def test_values_are_completed(environ: dict[str, str], words: str, values: list[str]) -> None:
    line = f"orcas {words}"
    variables = {
        "_ORCAS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1),
    }  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).parent / "orcas"],
        env=environ | variables, cwd=environ["HOME"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(done.stdout.split()) == sorted(values)


def test_a_store_in_memory_leaves_nothing(environ: dict[str, str]) -> None:
    with serving(environ, "--memory") as process:
        url = url_of(process)
        shown = exported(environ, "--memory", "--port", url.rpartition(":")[2], "--wait", "5")
        assert shown["AWS_ENDPOINT_URL_S3"] == url
        assert shown["AWS_SECRET_ACCESS_KEY"]
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=20)
    path = re.search(r"\S+/root\.json", stderr)
    assert path is not None
    assert not Path(path[0]).parent.exists()
    assert not (Path(environ["XDG_DATA_HOME"]) / "orcas").exists()


def test_idle_connections_do_not_delay_the_end(environ: dict[str, str]) -> None:
    with serving(environ, "--dev") as process:
        host, port = url_of(process).removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as idle:
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert idle.recv(1) == b""
            _, said = process.communicate(timeout=20)
            assert process.returncode == 0
            assert time.monotonic() - began < 15
    # These keys are public, so they are printed.
    assert DEV_ACCESS_KEY in said
    assert DEV_SECRET_KEY in said


def test_off_a_terminal_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for shown, said in ((True, "get, warming up\nget\n"), (False, "")):
        with steps(shown=shown) as advance:
            for what in ("get, warming up", "get, warming up", "get"):
                advance(what, 1, 2)
        assert capsys.readouterr() == ("", said)


def test_the_command_to_type_does_not_need_the_path_of_this_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "bin" / "orcas"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert serving_command._command() == "orcas"
    # The virtual environment may be active in this shell only.
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert serving_command._command() == str(script)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/orcas"])
    assert serving_command._command() == str(script)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("fsck --threads -3", "--threads must be a number from 1 to 64, not '-3'. See `"),
        ("fsck --threads many", "--threads must be a whole number from 1 to 64, not 'many'. See `"),
        ("top --interval 0", "--interval must be a number from 0.1 to 3600, not '0'. See `"),
        ("quota set photos --objects=-1", "--objects must be a number of at least 0, not '-1'. See `"),
        ("bench --count 1.5 reads-1mib", "--count must be a whole number, not '1.5'. See `"),
    ],
)
def test_a_number_that_cannot_be_is_named_with_its_range(environ: dict[str, str], line: str, sentence: str) -> None:
    done = orcas(environ, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"orcas: {sentence}")
    assert done.stderr.count("\n") == 1


def test_a_setting_that_cannot_be_is_named_with_its_range(environ: dict[str, str]) -> None:
    done = orcas(environ | {"ORCAS_PORT": "99999"}, "config", "show")
    assert (done.returncode, done.stderr) == (78, "orcas: ORCAS_PORT must be from 0 to 65535, not '99999'.\n")
