"""A server in memory for all tests of a module, a bucket for each test, and the installed command against it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.targets import Target, running

from orcas.settings.config import child_environment


@dataclass
class Command:
    """The command, with the variables of a server, in a directory of its own."""

    variables: dict[str, str]
    directory: Path
    endpoint: str

    def run(self, *words: str | bytes | Path, code: int = 0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [Path(sys.executable).parent / "orcas", *words, "--endpoint", self.endpoint],
            env=self.variables, cwd=self.directory, input=stdin, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done

    def __call__(self, *words: str | bytes | Path, code: int = 0, stdin: bytes = b"") -> str:
        """What it prints; for a failure, its last line on stderr."""
        done = self.run(*words, code=code, stdin=stdin)
        return (done.stderr.splitlines()[-1] if code else done.stdout).decode()

    def json(self, *words: str | bytes | Path, code: int = 0) -> Any:
        """The document that it prints."""
        return json.loads(self.run(*words, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with running(None) as found:
        yield found


@pytest.fixture
def bucket(target: Target, request: pytest.FixtureRequest) -> str:
    """A new bucket."""
    name = f"b-{abs(hash(request.node.name)) % 10**9}"
    target.client().create_bucket(Bucket=name)
    return name


@pytest.fixture
def variables(target: Target, tmp_path: Path) -> dict[str, str]:
    """The key of the server, and no other store."""
    kept = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    nowhere = {
        "XDG_DATA_HOME": str(tmp_path / "none"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }
    keys = {"AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key}
    return kept | nowhere | keys


@pytest.fixture
def orcas(target: Target, variables: dict[str, str], tmp_path: Path) -> Command:
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(variables, directory, target.server.endpoint)


@pytest.fixture
def through(orcas: Command) -> Callable[[str], contextlib.AbstractContextManager[Command]]:
    """The same command at another address."""

    @contextlib.contextmanager
    def at(url: str) -> Iterator[Command]:
        yield Command(orcas.variables, orcas.directory, url)

    return at
