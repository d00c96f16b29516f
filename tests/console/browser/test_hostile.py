"""What strangers have stored, on every page about it: nothing of it runs, and no request leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from tests.console.visitors import BASE
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "https://evil.invalid"
SCRIPT = f"<script>window.hacked=1;fetch('{EVIL}/script')</script>"
# Each ends where a page might put it: in text, in an attribute, in an address, in a script.
TEXTS = (
    SCRIPT, f'"><img src={EVIL}/img onerror=alert(1)>', f"'><svg onload=alert(1)><a href={EVIL}>", "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}", "</textarea></pre></title><script>alert(1)</script>", "\u202ethgir\u202c to left", "\x1b[2J\x07",
    f"//{EVIL[8:]}/x", "line\nend",
)  # fmt: skip
BLOCKED = "csp"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><image href="{EVIL}/svg"/></svg>'
BODIES = {
    "page.html": (f"<h1>Page</h1>{SCRIPT}<img src={EVIL}/page><form action={EVIL}>", "text/html"),
    "picture.svg": (SVG, "image/svg+xml"),
    "polyglot.png": (f"GIF89a/*{SCRIPT}*/", "text/html"),
    "sheet.csv": (f"a,b\n{SCRIPT.replace(',', '')},=cmd()\n", "text/csv"),
    "data.json": ('{"</pre><script>alert(1)</script>": 1}', "application/json"),
    "note.txt": (f"</pre>{SCRIPT}", "text/plain"),
    "feed.xml": (
        f'<?xml-stylesheet href="{EVIL}/x.xsl"?><x xmlns="http://www.w3.org/1999/xhtml">{SCRIPT}</x>',
        "text/xml",
    ),
}


class Watch:
    """Whatever runs, or leaves."""

    def __init__(self, page: Page, endpoint: str) -> None:
        self.found: list[str] = []
        self._host = urlsplit(endpoint).netloc
        page.on("dialog", self._dialog)
        page.on("requestfinished", self._request)
        page.on("requestfailed", self._request)
        page.on("popup", lambda popup: self.found.append(f"popup {popup.url}"))

    def _dialog(self, dialog: Any) -> None:
        self.found.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        # One that the policy of the page holds back is reported, too, but never leaves.
        if request.failure == BLOCKED or parts.scheme in ("data", "blob") or parts.netloc == self._host:
            return
        self.found.append(f"request {request.url} {request.failure}")


@pytest.fixture
def watch(browser: Page, target: Target) -> Watch:
    return Watch(browser, target.server.endpoint)


def visit(browser: Page, target: Target, path: str) -> None:
    browser.goto(target.server.endpoint + BASE + path)
    assert browser.evaluate("typeof window.hacked") == "undefined", path


def test_the_watch_sees_what_runs_and_leaves(browser: Page, watch: Watch) -> None:
    browser.goto("about:blank")
    browser.set_content(f"<img src={EVIL}/seen onerror=alert(1)>")
    browser.wait_for_load_state("networkidle")
    assert [found.split()[0] for found in watch.found] == ["request", "dialog"]


def test_hostile_names_run_nothing(browser: Page, watch: Watch, target: Target, s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for text in TEXTS:
        s3.put_object(Bucket=bucket, Key=text, Body=text.encode(), ContentType="text/plain")
        s3.put_object(Bucket=bucket, Key=f"folder/{text}/x", Body=text.encode(), ContentType="text/plain")
    visit(browser, target, f"/b/{bucket}")
    for text in TEXTS:
        key = quote(text, safe="")
        for path in (
            f"/b/{bucket}?prefix={key}", f"/b/{bucket}?find={key}", f"/b/{bucket}?prefix=folder%2F{key}%2F",
            f"/b/{bucket}?prefix={key}&deleted=yes", f"/b/{bucket}?at={key}", f"/b/{bucket}/publish?prefix={key}",
            f"/b/{bucket}/object?key={key}", f"/b/{bucket}/object/acl?key={key}",
            f"/b/{bucket}/versions?key={key}", f"/b/{bucket}/object?key={key}&version={key}",
            f"/b/{bucket}/share?key={key}&seconds=3600", f"/b/{key}", f"/?prefix={key}", f"/sign-in?next={key}", f"/{key}",
            f"/open?bucket={key}&prefix={key}", f"/open?bucket={bucket}&prefix={key}",
        ):  # fmt: skip
            visit(browser, target, path)
    visit(browser, target, f"/b/{bucket}?prefix=folder%2F")
    browser.get_by_label("Choose all").check()
    browser.get_by_role("button", name="Delete").click()
    browser.wait_for_load_state()
    assert watch.found == []


def test_a_bucket_may_be_called_as_what_all_objects_of_scripts_have(browser: Page, target: Target, s3: Any) -> None:
    s3.create_bucket(Bucket="constructor")
    visit(browser, target, "/?prefix=constructor")
    browser.locator("[data-requests] path").wait_for(state="attached")
    s3.delete_bucket(Bucket="constructor")


def test_hostile_objects_run_nothing(browser: Page, watch: Watch, target: Target, s3: Any, bucket: str) -> None:
    metadata = {"evil": SCRIPT, "link": f"<a href={EVIL}>"}
    for key, (body, kind) in BODIES.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body.encode(), ContentType=kind, Metadata=metadata)
    for key in BODIES:
        visit(browser, target, f"/b/{bucket}/object?key={key}")
        for summary in browser.locator("summary").all():
            summary.click()
        browser.wait_for_load_state("networkidle")
        assert browser.evaluate("typeof window.hacked") == "undefined", key
    assert watch.found == []


def test_an_object_in_a_frame_cannot_reach_the_console(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    """The frame has an origin of its own, and no script."""
    body = "<p id=out>still</p><script>document.getElementById('out').textContent = parent.document.title</script>"
    s3.put_object(Bucket=bucket, Key="a.html", Body=body.encode(), ContentType="text/html")
    visit(browser, target, f"/b/{bucket}/object?key=a.html")
    browser.get_by_text("As a page, without scripts").click()
    frame = browser.frame_locator("iframe.preview")
    assert frame.locator("#out").text_content() == "still"
    assert browser.locator("iframe.preview").get_attribute("sandbox") == ""
