"""The pages about the server in Chromium: what axe finds, refreshes, events as they come, and that nothing hostile runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from tests.console.browser.findings import findings
from tests.console.visitors import BASE, enter
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.signing import Identity
from tests.fixtures.targets import Target, refusal, running
from tests.fixtures.wire import Wire

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATHS: Final = (
    "/health", "/settings", "/licences", "/live", "/requests", "/events", "/tasks", "/disk", "/usage", "/usage?by=day",
    "/keyring", "/log", "/cluster",
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
    # By this mark, refreshes do not keep the session open.
    with browser.expect_request(lambda request: request.headers.get("x-orcas-refresh") == "yes"):
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


def test_long_values_leave_the_columns_wide_and_are_there_on_demand(browser: Page, target: Target, bucket: str) -> None:
    browser.set_viewport_size({"width": 1280, "height": 800})
    browser.goto(target.server.endpoint + BASE + f"/requests?bucket={bucket}")
    key = "long/" * 100
    refusal(target.client().get_object, Bucket=bucket, Key=key)
    row = browser.get_by_role("row").filter(has_text="NoSuchKey").first
    row.wait_for()
    browser.get_by_role("button", name="Pause").click()
    widths = row.evaluate("row => [...row.cells].map(cell => cell.offsetWidth)")
    assert min(widths) >= 40, widths
    assert row.evaluate("row => row.offsetHeight") < 200
    value = row.locator("summary .key").filter(has_text="long/")
    before = value.evaluate("value => value.offsetHeight")
    value.click()
    assert value.evaluate("value => value.offsetHeight") > 2 * before


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


def test_a_key_is_destroyed_once_its_name_was_typed(browser: Page, tmp_path: Path) -> None:
    with running(tmp_path, master_key=MASTER_KEY) as sealed:
        enter(browser, sealed)
        browser.goto(sealed.server.endpoint + BASE + "/keyring")
        browser.get_by_label("Name", exact=True).fill("old")
        browser.get_by_role("button", name="Create", exact=True).click()
        browser.get_by_text("Key old was created.").wait_for()
        assert findings(browser) == []
        browser.get_by_role("link", name="Destroy … old").click()
        button = browser.get_by_role("button", name="Destroy the key")
        button.wait_for()
        assert button.is_disabled()
        assert findings(browser) == []
        browser.get_by_label("When").select_option("0")
        browser.locator("#f-confirm").fill("old")
        button.click()
        browser.get_by_text("Key old is destroyed.").wait_for()


def test_hostile_lines_of_the_log_do_nothing(browser: Page, tmp_path: Path) -> None:
    with running(tmp_path, log_level="info") as target:
        enter(browser, target)
        server = target.server
        wrong = Wire(server.endpoint, Identity(server.access_key, "wrong", server.region))
        assert wrong("GET", "/hostile-log/" + quote(HOSTILE)).status == 403
        browser.goto(server.endpoint + BASE + "/log?search=hostile-log")
        browser.get_by_text("Request refused").wait_for()
        assert browser.locator("main img").count() == 0
        assert "\x1b" not in browser.content()
        assert findings(browser) == []
        # All lines, with their times and fields.
        browser.goto(server.endpoint + BASE + "/log")
        assert findings(browser) == []
