"""Two servers in memory, of which one is imported from, and the command between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, running


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[Target, Target]]:
    """The source and the target of all tests of a process."""
    with running(None) as source, running(None) as target:
        yield source, target


@pytest.fixture
def source(servers: tuple[Target, Target]) -> Target:
    return servers[0]


@pytest.fixture
def target(servers: tuple[Target, Target]) -> Target:
    return servers[1]


Importing = Callable[..., Any]


@pytest.fixture
def variables(source: Target, target: Target) -> dict[str, str]:
    """The keys of both servers."""
    return {
        "SOURCE_AWS_ACCESS_KEY_ID": source.server.access_key, "SOURCE_AWS_SECRET_ACCESS_KEY": source.server.secret_key,
        "AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key,
    }  # fmt: skip


@pytest.fixture
def importing(target: Target, variables: dict[str, str]) -> Importing:
    """Run `orcas import … --json` into the target; what it printed, or, if it could not begin or go on, its sentence."""

    def run(*words: str | Path, code: int = 0) -> Any:
        call = document if code in {0, 1} else command
        return call("import", *words, "--endpoint", target.server.endpoint, code=code, **variables)

    return run
