"""Every page in Chromium: both themes, three widths, no findings of axe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_the_first_page_shows_a_bucket(browser: Page, target: Target, bucket: str) -> None:
    browser.reload()
    assert browser.get_by_role("link", name=bucket).is_visible()
