"""Every page in Chromium: both themes, three widths, no findings of axe; and the keyboard alone."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.browser.findings import findings
from tests.console.visitors import BASE
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS = (320, 768, 1280)
# Levels A and AA, and what axe itself recommends.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = {
    "buckets": "/", "new-bucket": "/buckets/new", "objects": "/b/{b}", "search": "/b/{b}?find=text",
    "deleted": "/b/{b}?deleted=yes", "then": "/b/{b}?at=2100-01-01", "publish": "/b/{b}/publish?prefix=folder/",
    "same": "/b/{b}?same=x", "empty": "/b/{b}?prefix=x", "text": "/b/{b}/object?key=a.txt",
    "table": "/b/{b}/object?key=a.csv",
    "page": "/b/{b}/object?key=a.html", "image": "/b/{b}/object?key=a.svg", "history": "/b/{b}/versions?key=a.txt",
    "share": "/b/{b}/share?key=a.txt&seconds=3600", "snapshots": "/b/{b}/snapshots", "remove": "/b/{b}/remove",
    "tables": "/b/{w}/tables",
    "error": "/b/no-such-bucket", "compare": "/b/{b}/versions/compare?key=a.txt&old={old}&new={new}",
    "list": "/b/{l}/settings/acl", "no-list": "/b/{b}/object/acl?key=a.txt", "open": "/open",
}  # fmt: skip


def screenshots() -> Path | None:
    """Where pictures of all pages go, if they are wanted."""
    return Path("target/console/pages") if "CI" in os.environ else None


@pytest.fixture(scope="module")
def shown(targets: Any) -> dict[str, str]:
    """A bucket with something for every page, one that everybody may read, and a warehouse; what their pages are called."""
    s3, bucket = targets("memory").client(), f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=bucket, Key="a.txt", Body=b"one\n", ContentType="text/plain", Tagging="a=b")["VersionId"]
    new = s3.put_object(Bucket=bucket, Key="a.txt", Body=b"two\n" * 100, Metadata={"k": "v"})["VersionId"]
    for key, body in (
        ("a.csv", b"a,b\n1,\n"),
        ("a.html", b"<p>x"),
        ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    ):
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    s3.put_object(Bucket=bucket, Key="folder/right\u202eleft", Body=b"")
    listed = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=listed, ObjectOwnership="ObjectWriter")
    s3.delete_public_access_block(Bucket=listed)
    s3.put_bucket_acl(Bucket=listed, ACL="public-read")
    lake = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=lake)
    marker = json.dumps({"format": 1, "name": lake}).encode()
    s3.put_object(Bucket=lake, Key=".iceberg/warehouse.json", Body=marker)
    return {"b": bucket, "old": old, "new": new, "l": listed, "w": lake}


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Page, target: Target, shown: dict[str, str], name: str) -> None:
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser.goto(target.server.endpoint + BASE + PAGES[name].format(**shown))
    for summary in browser.locator("summary").all():
        summary.click()
    browser.evaluate(axe)
    themes: tuple[Any, ...] = ("light", "dark")
    for theme, width in itertools.product(themes, WIDTHS):
        browser.emulate_media(color_scheme=theme)
        browser.set_viewport_size({"width": width, "height": 800})
        wide = browser.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide at {width}"
        # A frame has another origin, in which axe cannot look.
        options = {"runOnly": {"type": "tag", "values": TAGS}, "iframes": False}
        found = browser.evaluate("options => axe.run(document, options)", options)
        lines = [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]
        assert lines == [], f"{name} {theme} {width}"
        if (place := screenshots()) is not None:
            place.mkdir(parents=True, exist_ok=True)
            browser.screenshot(path=place / f"{name}-{theme}-{width}.png", full_page=True)


def test_axe_finds_nothing_at_sign_in(browser: Page, target: Target) -> None:
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser.get_by_role("button", name="Sign out").click()
    browser.wait_for_url("**/sign-in")
    browser.evaluate(axe)
    assert browser.evaluate("axe.run().then(found => found.violations.map(each => each.id))") == []


def test_who_may_not_list_buckets_goes_on(browser: Page, target: Target, s3: Any, iam: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="home/anna/a.txt")
    name = f"u-{uuid.uuid4().hex[:12]}"
    iam.create_user(UserName=name)
    allowed = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"}
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps({"Statement": [allowed]}))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    browser.get_by_role("button", name="Sign out").click()
    browser.get_by_label("Access key").fill(key["AccessKeyId"])
    browser.get_by_label("Secret key").fill(key["SecretAccessKey"])
    browser.get_by_role("button", name="Sign in").click()
    browser.get_by_text("Your key may not list the buckets").wait_for()
    browser.keyboard.press("/")
    browser.keyboard.type(bucket)
    browser.keyboard.press("Tab")
    browser.keyboard.type("home/")
    browser.keyboard.press("Enter")
    browser.get_by_role("link", name="anna/").wait_for()


def test_the_first_page_is_small(browser: Page, target: Target, bucket: str) -> None:
    requests: list[int] = []
    browser.on("response", lambda answer: requests.append(len(answer.body())))
    browser.goto(target.server.endpoint + BASE + "/", wait_until="networkidle")
    assert browser.get_by_role("link", name=bucket).is_visible()
    assert 0 < len(requests) <= 12
    assert sum(requests) <= 150 * 1024


def test_the_list_draws_requests_by_day(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    for number in range(3):
        s3.put_object(Bucket=bucket, Key=f"k{number}")
    browser.goto(f"{target.server.endpoint}{BASE}/?prefix={bucket}")
    line = browser.locator("[data-requests]").get_by_role("img")
    line.wait_for()
    assert "today, at most" in (line.locator("title").text_content() or "")
    assert line.locator("path").get_attribute("d")
    # The page itself asks for the settings of the bucket, and that counts.
    assert int(browser.locator("[data-requests]").inner_text()) >= 3
    assert findings(browser) == []


def test_a_part_of_an_object_is_downloaded(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="letters.txt", Body=b"abcdefgh", ContentType="text/plain")
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/object?key=letters.txt")
    browser.get_by_text("Download a part").click()
    browser.get_by_label("First byte").fill("2")
    browser.get_by_label("Last byte").fill("4")
    with browser.expect_download() as download:
        browser.get_by_role("button", name="Download the part").click()
    assert download.value.suggested_filename == "letters.txt.bytes-2-4"
    assert Path(download.value.path()).read_bytes() == b"cde"


def test_the_keyboard_alone_suffices(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    """Find a bucket, open it, choose an object, delete it and undo it, go back to the buckets."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("first", "second"):
        s3.put_object(Bucket=bucket, Key=key)
    browser.goto(target.server.endpoint + BASE + "/")
    keys = browser.keyboard
    keys.press("/")
    keys.type(bucket)
    keys.press("Enter")
    browser.wait_for_url(f"**/?prefix={bucket}")
    keys.press("j")
    keys.press("Enter")
    browser.wait_for_url(f"**/b/{bucket}")
    keys.press("j")
    keys.press("j")
    keys.press("x")
    assert browser.get_by_label("Choose second").is_checked()
    assert browser.get_by_text("Chosen on this page: 1 object, 0 B").is_visible()
    browser.get_by_role("button", name="Delete").focus()
    keys.press("Enter")
    browser.wait_for_url("**/confirm-delete")
    # A page gives the focus when it is drawn, which may be after it has loaded. Enter alone keeps what is there.
    browser.locator("a:focus", has_text="Keep them").wait_for()
    keys.press("Tab")
    keys.press("Enter")
    browser.get_by_text("1 object deleted.").wait_for()
    browser.get_by_role("button", name="Undo the deletion").focus()
    keys.press("Enter")
    browser.get_by_text("1 object restored.").wait_for()
    keys.press("?")
    assert browser.get_by_role("dialog").is_visible()
    keys.press("Escape")
    keys.press("g")
    keys.press("b")
    browser.wait_for_url(target.server.endpoint + BASE + "/")


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/", "Name begins with"), ("/b/{b}", "Name contains"), ("/b/{b}?find=text", "Name contains"),
        ("/requests", "Bucket"), ("/users/audit", "By or about the user"),
        ("/b/{b}/object?key=a.txt", None), ("/b/{b}/share?key=a.txt", None),
    ],
)  # fmt: skip
def test_a_slash_goes_to_the_search_field(
    browser: Page, target: Target, shown: dict[str, str], path: str, label: str | None
) -> None:
    browser.goto(target.server.endpoint + BASE + path.format(**shown))
    browser.keyboard.press("/")
    browser.keyboard.type("k")
    if label is None:
        assert browser.evaluate("document.activeElement === document.body")
    else:
        field = browser.get_by_label(label, exact=True)
        assert field.evaluate("field => field === document.activeElement")
        assert field.input_value() == "k"


def test_emptying_a_bucket_shows_progress(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{number}")
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/remove")
    button = browser.get_by_role("button", name="Empty the bucket")
    assert button.is_disabled()
    browser.locator("#f-confirm").fill(bucket)
    button.click()
    browser.get_by_text("5 versions removed.").wait_for()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_emptying_goes_on_after_the_connection_was_lost(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{number}")
    browser.clock.install()
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}/remove")
    lost: list[str] = []
    browser.route("**/empty", lambda route: (lost.append(route.request.url), route.abort("connectionreset")))
    browser.locator("#f-confirm").fill(bucket)
    browser.get_by_role("button", name="Empty the bucket").click()
    again = browser.get_by_role("button", name="Go on")
    for _ in range(4):
        browser.get_by_text("The connection was lost; trying again.").wait_for()
        browser.clock.run_for(60_000)
    again.wait_for()
    assert len(lost) == 5
    assert browser.get_by_text("The connection was lost. So far: 0.").is_visible()
    browser.unroute("**/empty")
    again.click()
    browser.get_by_text("5 versions removed.").wait_for()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_search_goes_on_by_itself(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda number: s3.put_object(Bucket=bucket, Key=f"{number:04}-{('name', 'other')[number % 2]}"),
                range(1300),
            )
        )
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}")
    browser.get_by_label("Name contains").fill("NAME")
    browser.keyboard.press("Enter")
    # The second step has the rest of the keys.
    browser.get_by_text("650 of 1,300 keys below").wait_for()
    assert browser.locator("#chosen tbody tr").count() == 650
    browser.get_by_label("Choose all on this page").check()
    assert browser.get_by_text("Chosen on this page: 650 objects, 0 B").is_visible()


def test_deleted_objects_come_back_by_clicks(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=bucket, Key="gone", Body=b"k")
    s3.delete_object(Bucket=bucket, Key="gone")
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}")
    assert browser.get_by_role("link", name="gone").count() == 0
    browser.get_by_text("Deleted and earlier").click()
    browser.get_by_label("Show deleted and versions").check()
    browser.get_by_label("Choose gone").check()
    browser.get_by_role("button", name="Undelete").click()
    browser.get_by_text("1 object restored.").wait_for()
    assert s3.get_object(Bucket=bucket, Key="gone")["Body"].read() == b"k"


def test_a_phone_shows_the_list_on_its_first_screen(browser: Page, target: Target, shown: dict[str, str]) -> None:
    browser.set_viewport_size({"width": 390, "height": 844})
    browser.goto(f"{target.server.endpoint}{BASE}/b/{shown['b']}")
    top = browser.locator("#listing").bounding_box()
    head = browser.locator("header.top").bounding_box()
    assert top is not None
    assert top["y"] < 422
    assert head is not None
    assert head["height"] < 60


def test_a_theme_is_kept(browser: Page) -> None:
    browser.emulate_media(color_scheme="light")
    browser.get_by_label("Switch between dark and light").click()
    browser.reload()
    assert browser.locator("html").get_attribute("data-theme") == "dark"
    browser.get_by_label("Switch between dark and light").click()
    browser.evaluate("localStorage.clear()")


def test_times_are_those_of_the_viewer(browser: Page, s3: Any, bucket: str, target: Target) -> None:
    cdp = browser.context.new_cdp_session(browser)
    cdp.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    s3.put_object(Bucket=bucket, Key="k")
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}")
    time = browser.locator("tbody time").first
    assert re.fullmatch(r"Asia/Tokyo; .* UTC", time.get_attribute("title") or "")
    assert "UTC" not in (time.text_content() or "")
