"""Visitors of the console: a client that keeps cookies and sends forms as browsers do, and Chromium."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page

BASE: Final = "/_orcas/console"
# Chromium talks to nobody but the server under test.
CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass
class Visitor:
    """One browser, as far as HTTP goes. `paths` are below the console."""

    url: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=60, headers={"user-agent": "Browser/1"})

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(BASE + path, **options)

    def page(self, path: str) -> str:
        """The text of a page, which must be one."""
        answer = self.get(path, follow_redirects=True)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.text

    def lists(self, bucket: str) -> bool:
        """Whether the first page lists a bucket; asked for by name, because others may fill that page."""
        return f'data-bucket="{bucket}"' in self.page(f"/?prefix={bucket}")

    @property
    def cookie(self) -> str:
        """The name of the cookie of the session."""
        return f"orcas-console-{httpx.URL(self.url).port}"

    def token(self) -> str:
        """The token of the session, as every page has it."""
        found = re.search(r'data-csrf="([^"]+)"', self.page("/"))
        assert found is not None
        return html.unescape(found[1])

    def post(self, path: str, form: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Send a form from a page of the console; `headers` replace those of a browser, without them if empty."""
        sent = {"origin": self.url, "sec-fetch-site": "same-origin"} | headers
        given = {"_csrf": self.token()} | (form or {}) if self.is_signed_in else form
        return self.http.post(BASE + path, data=given, headers={name: text for name, text in sent.items() if text})

    def done(self, path: str, form: dict[str, Any] | None = None) -> str:
        """Send a form that must be carried out; the page that follows."""
        answer = self.post(path, form)
        assert answer.status_code == 303, f"{path}: {answer.status_code} {answer.text}"
        return self.page(answer.headers["location"].removeprefix(BASE))

    @property
    def is_signed_in(self) -> bool:
        return self.cookie in self.http.cookies

    def sign_in(self, access_key: str, secret_key: str, **form: str) -> httpx.Response:
        return self.post("/sign-in", {"access_key": access_key, "secret_key": secret_key, **form})

    def close(self) -> None:
        self.http.close()


def shown(text: str, name: str) -> str:
    """The element with this id, as text."""
    found = re.search(rf'id="{name}">([^<]*)<', text)
    assert found is not None, text
    return html.unescape(found[1])


def asked(text: str, action: str) -> str:
    """What the page says that an action costs, before its button. There is no other button for it on the page."""
    question = re.compile(r'<details class="ask">.*?</details>', re.DOTALL)
    found = [each for each in question.findall(text) if action in each]
    assert found, action
    assert action not in question.sub("", text)
    cost = re.search(r"<p>(.*?)</p>", found[0], re.DOTALL)
    assert cost is not None
    return cost[1]


def area(text: str) -> str:
    """What the editor has."""
    return html.unescape(re.findall(r'<textarea[^>]*name="document"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)[0])


def enter(page: Page, target: Target) -> None:
    """Sign in with the root key in Chromium."""
    page.goto(target.server.endpoint + BASE + "/sign-in")
    page.get_by_label("Access key").fill(target.server.access_key)
    page.get_by_label("Secret key").fill(target.server.secret_key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(target.server.endpoint + BASE + "/")


def visitor_of(target: Target, *, signed_in: bool = True) -> Visitor:
    """A visitor of a server; with the root key unless told otherwise."""
    visitor = Visitor(target.server.endpoint)
    if signed_in:
        answer = visitor.sign_in(target.server.access_key, target.server.secret_key)
        assert answer.status_code == 303, answer.text
    return visitor
