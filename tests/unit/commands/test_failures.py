"""Every command in every failure it can have: a documented exit code, one sentence on stderr, nothing on stdout.

With --json, the sentence is in a JSON object.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from tests.fixtures.commands import ran
from tests.fixtures.tables.failures import FAILURES

from orcas.cli import main
from orcas.cli.commands import app_with_all
from orcas.settings.config import child_environment

ROOT = Path(__file__).parents[3]

# The place in each command that raises an unexpected exception.
INSIDE = {
    "serve": "orcas.cli.app.resolve",
    "env": "orcas.cli.server.env.resolve",
    "bench": "orcas.bench.workload.built_in",
    "run -- true": "orcas.server.Server._wait",
    "version": "orcas.version.orcas_version",
    "standby": "orcas.settings.config.resolve",
    "promote": "orcas.settings.config.resolve",
    "cluster status": "orcas.cli.store.upkeep.resolve",
    "table list lake": "orcas.cli.store.upkeep.resolve",
    "replication status": "orcas.cli.store.upkeep.resolve",
    "minio server x": "orcas.settings.config.resolve",
    "localstack": "orcas.settings.config.resolve",
    "mc ls local": "orcas.cli.store.upkeep.resolve",
    "aws s3 ls": "orcas.cli.store.upkeep.resolve",
    "config show": "orcas.cli.config.resolve",
    **dict.fromkeys(
        ("stats", "demo", "top", "console", "gc", "compact", "lifecycle", "fsck", "scrub", "inspect"),
        "orcas.cli.store.upkeep.resolve",
    ),
    **dict.fromkeys(
        (
            "snapshot list x",
            "fork x y",
            "move x/ y/",
            "key list",
            "tasks list",
            "events targets",
            "usage",
            "quota list",
            "origin show",
            "settings show x",
            "account list",
            "user list",
            "group list",
            "role list",
            "access-key list x",
            "policy list",
            "audit verify",
            "credentials serve",
            "identities export x",
            "status",
            "stop",
            "ls",
            "cp s3://x/y -",
            "cat s3://x/y",
            "rm s3://x/y",
            "mb s3://x",
            "rb s3://x",
            "presign s3://x/y",
            "probe s3://x/y",
        ),
        "orcas.cli.store.upkeep.resolve",
    ),
    **dict.fromkeys(("backup x", "restore x --data y", "export x", "import . b"), "orcas.cli.store.upkeep.resolve"),
}


class PanicError(BaseException):
    """Like a panic of Rust, this is not an Exception."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with no settings, no keys and no store."""
    variables = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    return variables | {"XDG_CONFIG_HOME": str(tmp_path / "none"), "XDG_DATA_HOME": str(tmp_path / "none")}


def test_every_command_is_driven_into_failures() -> None:
    known = set(typer.main.get_command(app_with_all()).commands)  # type: ignore[attr-defined]
    lines = "\n".join(line for line, _, _ in FAILURES)
    driven = set(re.findall(r"^(?:\w+=\S* )*([\w-]+)", lines, re.MULTILINE))
    assert driven - known == {"sta", "start", "sync"}, "what is no command"
    assert driven >= known
    assert {line.split()[0] for line in INSIDE} == known
    documented = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    for code in {code for _, code, _ in FAILURES} | {130, 141}:
        assert f"| {code} |" in documented


@pytest.mark.parametrize("line", INSIDE)
@pytest.mark.parametrize("kind", [RuntimeError, PanicError, OSError, KeyboardInterrupt])
def test_a_defect_is_a_sentence(
    line: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind(28, "No room\nat all", "/some/file") if kind is OSError else kind("secret_key=hidden, boom")

    monkeypatch.setattr(INSIDE[line], fail)
    done = ran(environ, str(tmp_path), *line.split())
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    if kind is KeyboardInterrupt:
        assert (done.returncode, done.stderr) == (130, "orcas: interrupted: run the command again.\n")
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"orcas: {line.split()[0]} failed")
    said = "/some/file: No room at all; make room." if kind is OSError else f"{kind.__name__}: secret_key=***, boom."
    assert said in done.stderr
    assert "ORCAS_LOG_LEVEL=debug" in done.stderr
    assert "hidden" not in done.stderr


def test_the_traceback_is_for_those_who_debug(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tmp_path: Path
) -> None:
    monkeypatch.setattr("orcas.version.orcas_version", lambda: 1 / 0)
    done = ran(environ | {"ORCAS_LOG_LEVEL": "debug"}, str(tmp_path), "version")
    assert done.returncode == 1
    assert done.stderr.startswith("orcas: version failed unexpectedly: ZeroDivisionError: division by zero.")
    assert "Traceback" in done.stderr


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    def shell(line: str) -> tuple[int, str]:
        script = f'orcas() {{ "{sys.executable}" -m orcas "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=child_environment(),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    code, said = shell("orcas version > /dev/full")
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("orcas: version failed: No space left on device; make room.")
    # The descriptor of a closed stream must not be reused for a file of a store.
    assert shell("orcas version >&-") == (0, "")
    assert shell("orcas version <&- >&- 2>&-") == (0, "")
    # A reader that has closed the pipe gets no message.
    assert shell("{ sleep 0.2; orcas config show; } | true; exit ${PIPESTATUS[0]}") == (141, "")


def test_a_child_without_a_parent_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orcas.cli.server.child"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == "orcas: The process that requested a server has ended: start another one.\n"
    done = subprocess.run(
        [sys.executable, "-m", "orcas.cli.server.child"],
        input="nonsense\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("orcas: the server failed unexpectedly: JSONDecodeError")


def test_windows_is_told_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as ended:
        main()
    monkeypatch.undo()
    # Python prints what is no number, and the exit code is 1.
    assert ended.value.code == "orcas: Windows is not supported: run Orcas on Linux, on macOS, or in WSL."
