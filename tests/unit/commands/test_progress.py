"""Commands that may take more than a second show on a terminal what they do, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import orcas
from orcas.settings.config import child_environment


def on_terminal(*arguments: str) -> tuple[str, str]:
    """What a command writes to stdout, which is a pipe, and to stderr, which is a terminal."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def collect() -> None:
        # Linux reports the end of a terminal as an error.
        try:
            while piece := os.read(ours, 4096):
                shown.append(piece)
        except OSError:
            return

    reader = threading.Thread(target=collect)
    reader.start()
    try:
        variables = {**child_environment(), "TERM": "xterm-256color", "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-m", "orcas", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=variables, text=True,
            timeout=300, check=False,
        )  # fmt: skip
    finally:
        os.close(theirs)
        reader.join(60)
        os.close(ours)
    said = b"".join(shown).decode()
    assert done.returncode == 0, said
    return done.stdout, said


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an object, closed."""
    data = tmp_path_factory.mktemp("progress") / "store"
    with orcas.Server(data) as server:
        client = server.client()
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="a", Body=bytes(300_000))
    return data


@pytest.mark.parametrize("command", ["fsck", "export {target}", "lifecycle", "tasks run scrub"])
def test_a_long_command_draws_a_bar(command: str, store: Path, tmp_path: Path) -> None:
    """What stands beside the bar may be gone before a terminal shows it, if the command is quick."""
    words = command.format(target=tmp_path / "target").split()
    printed, said = on_terminal(*words, "--data", str(store))
    assert printed
    assert "\x1b[?25l" in said


def test_json_shows_nothing_else(store: Path) -> None:
    printed, said = on_terminal("lifecycle", "--json", "--data", str(store))
    assert printed.startswith("{")
    assert said == ""
