"""The pages about the server in Chromium: what axe finds, refreshes, events as they come, and that nothing hostile runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.console.browser.findings import findings
from tests.console.visitors import BASE
from tests.fixtures.targets import Target, refusal

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATHS: Final = (
    "/health", "/settings", "/licences", "/live", "/requests", "/events", "/tasks", "/disk", "/usage", "/usage?by=day",
    "/keyring", "/log",
)  # fmt: skip
HOSTILE: Final = "<img src=x onerror=alert(1)>\x1b[31m\u202egpj.exe\"'&"


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing(browser: Page, target: Target, bucket: str, path: str) -> None:
    # Looked at once, so that requests are kept; then there is something to show.
    browser.goto(target.server.endpoint + BASE + path)
    target.client().put_object(Bucket=bucket, Key="some", Body=b"1")
    refusal(target.client().get_object, Bucket=bucket, Key=HOSTILE)
    browser.goto(target.server.endpoint + BASE + path)
    assert findings(browser) == []


def test_the_page_refreshes_itself_until_it_is_paused(browser: Page, target: Target, bucket: str) -> None:
    browser.goto(target.server.endpoint + BASE + f"/requests?bucket={bucket}")
    target.client().put_object(Bucket=bucket, Key="first", Body=b"1")
    browser.get_by_role("cell", name="first", exact=True).wait_for()
    browser.get_by_role("button", name="Pause").click()
    assert browser.get_by_role("button", name="Pause").get_attribute("aria-pressed") == "true"


def test_hostile_requests_are_shown_and_do_nothing(browser: Page, target: Target, bucket: str) -> None:
    said: list[Any] = []
    browser.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    browser.on(
        "request", lambda sent: said.append(sent.url) if not sent.url.startswith(target.server.endpoint) else None
    )
    browser.goto(target.server.endpoint + BASE + f"/requests?bucket={bucket}")
    refusal(target.client().get_object, Bucket=bucket, Key=HOSTILE)
    row = browser.get_by_role("row").filter(has_text="NoSuchKey").first
    row.wait_for()
    text = row.inner_text()
    assert "<img src=x onerror=alert(1)>" in text
    assert "U+001B" in text
    assert "U+202E" in text
    assert browser.locator("img").count() == 0
    assert [entry for entry in said if not str(entry).startswith("data:")] == []


def test_events_come_as_they_happen(browser: Page, target: Target, bucket: str) -> None:
    browser.goto(target.server.endpoint + BASE + f"/events?bucket={bucket}")
    browser.get_by_text("Listening.").wait_for()
    target.client().put_object(Bucket=bucket, Key=HOSTILE, Body=b"12345")
    row = browser.locator("#events tr").first
    row.wait_for()
    text = row.inner_text()
    assert "ObjectCreated:Put" in text
    assert "U+001B" in text
    assert "U+202E" in text
    assert "<img" in text
    assert browser.locator("#events img").count() == 0
    browser.get_by_role("button", name="Pause").click()
    browser.get_by_text("Paused.").wait_for()


def test_a_check_is_run_by_clicks(browser: Page, target: Target) -> None:
    browser.goto(target.server.endpoint + BASE + "/tasks")
    browser.get_by_role("button", name="Quick check").click()
    browser.locator("#jobs tr").filter(has_text="done").first.wait_for()
