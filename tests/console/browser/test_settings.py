"""The settings of a bucket in Chromium: a rule that removes temporary files, made by clicks; every page accessible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.console.browser.findings import findings
from tests.console.visitors import BASE
from tests.fixtures.targets import Target

from orcas.console.pages.settings.sections import SECTIONS

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_a_rule_that_removes_temporary_files(browser: Page, s3: Any, bucket: str) -> None:
    for key in ("tmp/a", "tmp/b", "kept"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    browser.reload()
    browser.get_by_role("link", name=bucket, exact=True).click()
    browser.get_by_role("navigation", name="Bucket").get_by_role("link", name="Settings").click()
    browser.get_by_role("link", name="Lifecycle rules").click()
    browser.get_by_role("button", name="Add a rule").click()
    browser.get_by_label("Keys that begin with").fill("tmp/")
    browser.get_by_label("Or remove objects on a day").fill("2020-01-01")
    browser.get_by_role("button", name="What would this remove today?").click()
    browser.get_by_text("Counted. Versions and uploads looked at: 2.").wait_for()
    assert browser.locator("#count tbody td").all_inner_texts()[1:3] == ["2", "0"]
    assert findings(browser) == []
    browser.get_by_role("button", name="Change these rules").click()
    assert browser.get_by_label("Keys that begin with").input_value() == "tmp/"
    browser.get_by_role("button", name="What would this remove today?").click()
    browser.get_by_role("button", name="Save these rules").click()
    browser.get_by_text("Lifecycle rules: saved.").wait_for()
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert rule["Filter"] == {"Prefix": "tmp/"}
    assert rule["Status"] == "Enabled"
    assert rule["Expiration"]["Date"].year == 2020


def test_a_long_count_goes_on_by_itself(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    # Each step asks for 200 tags at most.
    for at in range(450):
        s3.put_object(Bucket=bucket, Key=f"k/{at:03}", Body=b"x", Tagging="temporary=yes")
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/settings/lifecycle")
    browser.get_by_role("button", name="Add a rule").click()
    browser.get_by_label("With all these tags").fill("temporary=yes")
    browser.get_by_label("Or remove objects on a day").fill("2020-01-01")
    browser.get_by_role("button", name="What would this remove today?").click()
    browser.get_by_text("Counted. Versions and uploads looked at: 450.").wait_for()
    assert browser.locator("#count tbody td").all_inner_texts()[1] == "450"
    assert browser.get_by_role("link", name="Go on counting").is_hidden()


@pytest.mark.parametrize("slug", ["", "/policy", *(f"/{slug}" for slug in SECTIONS)])
def test_pages_are_accessible(browser: Page, target: Target, s3: Any, bucket: str, slug: str) -> None:
    rule = {"ID": "\u202e<b>", "Filter": {"Prefix": "a" * 200}, "Status": "Enabled", "Expiration": {"Days": 1}}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/settings{slug}")
    for add in browser.get_by_role("button", name="Add a").all():
        add.click()
    browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert findings(browser) == []


def test_a_number_that_is_none_is_shown_where_it_is_folded(browser: Page, target: Target, bucket: str) -> None:
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/settings/lifecycle")
    browser.get_by_role("button", name="Add a rule").click()
    browser.get_by_label("Remove objects after days").fill("-1")
    browser.get_by_text("Change rule 1").click()
    assert browser.get_by_label("Remove objects after days").is_hidden()
    browser.get_by_role("button", name="Save", exact=True).last.click()
    assert browser.get_by_label("Remove objects after days").is_visible()
    assert "Not saved yet" in browser.content()


def test_a_public_bucket_is_asked_about(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/settings/public-access")
    browser.get_by_role("button", name="Remove the block").click()
    browser.get_by_text("would count at once").wait_for()
    assert findings(browser) == []
    browser.get_by_role("button", name="Remove the block all the same").click()
    browser.get_by_text("Public access block: removed.").wait_for()
