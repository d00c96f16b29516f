"""Fixtures of all tests that talk to a live server."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader
from tests.fixtures.servers.stacks import STARTUP, slow_stops_shown
from tests.fixtures.targets import KINDS, Target, running
from tests.fixtures.wire import Wire

# Each client has a session of its own, as users have it, and each session would parse the same models of AWS's services.
_parse_model = functools.cache(JSONFileLoader().load_file)
JSONFileLoader.load_file = lambda _self, path: _parse_model(path)

SLOWEST = Path(__file__).parents[1] / "target" / "slowest.tsv"

# A shell without job control ignores Ctrl-C in what it runs in the background, and so would every command under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the full run what a module runs on other kinds of stores than `disk`; `test_objects` runs on each."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if params.get("target", "disk") != "disk" and item.path.stem != "test_objects":
            item.add_marker(pytest.mark.full)
    # Minutes in one process: begun last, it would be waited for alone.
    items.sort(key=lambda item: item.name != "test_every_example_runs")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keep what a run that asks for its slowest tests (`--durations`) took, in seconds, in target/slowest.tsv."""
    if terminalreporter.config.getoption("durations"):
        reports = [each for found in terminalreporter.stats.values() for each in found if hasattr(each, "duration")]
        slowest = sorted(reports, key=lambda each: -each.duration)[:200]
        lines = [f"{each.duration:.2f}\t{each.when}\t{each.nodeid}\n" for each in slowest]
        SLOWEST.parent.mkdir(exist_ok=True)
        SLOWEST.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def stacks_of_slow_stops() -> Iterator[None]:
    """A test that fails because a server does not stop shows what its threads do."""
    with pytest.MonkeyPatch.context() as patch, slow_stops_shown():
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(STARTUP), os.environ.get("PYTHONPATH")])))
        yield


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """The server of each of `KINDS`, started when the first test asks for it."""
    started: dict[str, Target] = {}
    with contextlib.ExitStack() as stack:

        def start(kind: str) -> Target:
            if kind not in started:
                data = None if kind == "memory" else tmp_path_factory.mktemp(kind)
                hosts = {"domains": ["s3.test"], "website_host": "web.test"}
                started[kind] = stack.enter_context(running(data, **hosts, **KINDS[kind]))
            return started[kind]

        yield start


@pytest.fixture
def target(request: pytest.FixtureRequest, targets: Callable[[str], Target]) -> Target:
    """The server under test; a module that is to run on several kinds parametrises this fixture indirectly."""
    return targets(getattr(request, "param", "disk"))


@pytest.fixture
def s3(target: Target) -> Any:
    """A boto3 client as users have it."""
    return target.client()


@pytest.fixture
def wire(target: Target) -> Wire:
    """The raw client with the root key."""
    return target.wire


@pytest.fixture
def bucket(s3: Any) -> str:
    """A bucket of this test's own."""
    name = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    return name
