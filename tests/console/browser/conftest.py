"""Chromium. `.ci/run console` runs these tests; the default run leaves them out, as a browser is a large program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.visitors import CHROMIUM, FLAGS, enter
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Chromium with a profile of its own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra console-test")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"needs Chromium in {CHROMIUM}")
    profile = tmp_path_factory.mktemp("chromium")
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=[*FLAGS], chromium_sandbox=False, accept_downloads=True
        )
        yield context
        context.close()


@pytest.fixture
def browser(chromium: BrowserContext, target: Target) -> Iterator[Page]:
    """A page of Chromium that has signed in, whose errors fail the test."""
    chromium.clear_cookies()
    page = chromium.new_page()
    # Only against what hangs: bodies of requests pass through this process.
    page.set_default_timeout(300_000)
    problems: list[Any] = []
    page.on("pageerror", lambda error: problems.append(error))
    enter(page, target)
    yield page
    page.close()
    assert problems == []
