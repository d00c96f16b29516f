"""Signing in to the console, and what protects a session."""

from __future__ import annotations

import asyncio
import html
import re
import ssl
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from tests.console.visitors import BASE, Visitor, visitor_of
from tests.fixtures.commands import command
from tests.fixtures.targets import Target, running

from orcas.console.guard import REFRESH, Guard
from orcas.console.sessions import IDLE_SECONDS, LIFE_SECONDS, LINK_SECONDS, OF_KEY_MAX, SESSIONS_MAX, Sessions
from orcas.http.signing import Keys

COOKIE = "orcas-console"


def test_sign_in_shows_the_buckets(visitor: Visitor, bucket: str) -> None:
    assert visitor.lists(bucket)


@pytest.mark.parametrize("secret", ["wrong-secret-key", "", "with\nline", "\x7f"])
def test_wrong_keys_are_refused(stranger: Visitor, target: Target, secret: str) -> None:
    answer = stranger.sign_in(target.server.access_key, secret)
    assert answer.status_code == 403
    assert "is wrong" in answer.text
    assert not stranger.is_signed_in
    if secret:
        assert secret not in answer.text


def test_without_a_session_every_page_leads_to_sign_in(stranger: Visitor) -> None:
    answer = stranger.get("/b/some?prefix=a%2Fb")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{BASE}/sign-in?next=%2Fb%2Fsome%3Fprefix%3Da%252Fb"


def test_sign_in_goes_where_one_wanted_to_go_and_nowhere_else(stranger: Visitor, target: Target) -> None:
    keys = target.server.access_key, target.server.secret_key
    for wanted in ("/b/some?prefix=a%2Fb", "//evil.example/", "https://evil.example/", "\\evil.example", ""):
        location = stranger.sign_in(*keys, next=wanted).headers["location"]
        assert location.startswith(f"{BASE}/"), location


def test_the_cookie_is_of_the_console_alone(stranger: Visitor, target: Target) -> None:
    answer = stranger.sign_in(target.server.access_key, target.server.secret_key)
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert attributes == {"httponly", "samesite=strict", f"path={BASE}"}
    # It is worth nothing at the S3 API, nor is a signature at the console.
    value = stranger.http.cookies[stranger.cookie]
    assert httpx.get(f"{target.server.endpoint}/", cookies={stranger.cookie: value}, trust_env=False).status_code == 403
    signed = target.wire("GET", f"{BASE}/")
    assert signed.status in (303, 307)


def test_the_cookie_is_secure_under_tls(tmp_path: Any) -> None:
    with running(tmp_path, tls_self_signed=True) as target:
        visitor = Visitor(target.server.endpoint)
        trusting = ssl.create_default_context(cafile=target.server.ca)
        visitor.http = httpx.Client(base_url=target.server.endpoint, verify=trusting, trust_env=False)
        answer = visitor.sign_in(target.server.access_key, target.server.secret_key)
        assert "; Secure" in answer.headers["set-cookie"]
        visitor.close()


def test_session_fixation_gives_nothing(stranger: Visitor, target: Target) -> None:
    """A value that somebody has put into the browser is never that of a session."""
    stranger.http.cookies.set(stranger.cookie, "prepared", path=BASE, domain="127.0.0.1")
    answer = stranger.http.post(
        f"{BASE}/sign-in", headers={"origin": stranger.url},
        data={"access_key": target.server.access_key, "secret_key": target.server.secret_key},
    )  # fmt: skip
    assert answer.status_code == 303
    assert not answer.headers["set-cookie"].startswith(f"{stranger.cookie}=prepared")
    prepared = httpx.get(f"{stranger.url}{BASE}/", cookies={stranger.cookie: "prepared"}, trust_env=False)
    assert prepared.status_code == 303


def test_signing_in_again_ends_the_session_before(visitor: Visitor, target: Target) -> None:
    former = visitor.http.cookies[visitor.cookie]
    assert visitor.sign_in(target.server.access_key, target.server.secret_key).status_code == 303
    again = httpx.get(f"{visitor.url}{BASE}/", cookies={visitor.cookie: former}, trust_env=False)
    assert again.status_code == 303


def test_two_servers_on_one_host_keep_their_sessions(visitor: Visitor) -> None:
    """Browsers send the cookies of all ports of a host to each of them."""
    with running(None) as target:
        other = visitor_of(target, signed_in=False)
        other.http.cookies = visitor.http.cookies
        assert other.sign_in(target.server.access_key, target.server.secret_key).status_code == 303
        visitor.http.cookies = other.http.cookies
        assert visitor.get("/").status_code == 200
        assert other.get("/").status_code == 200
        other.close()


def test_what_is_refused_leads_on(visitor: Visitor) -> None:
    """A person gets a page with a way on, a script the sentence."""
    for headers in ({"sec-fetch-site": "cross-site"}, {}):
        refused = visitor.post("/sign-out", {"_csrf": "x"}, accept="text/html", **headers)
        assert refused.status_code == 403
        assert f'<a href="{BASE}/">' in refused.text
    assert "<" not in visitor.post("/sign-out", {"_csrf": "x"}).text


def test_sign_out_revokes(visitor: Visitor) -> None:
    value = visitor.http.cookies[visitor.cookie]
    assert visitor.post("/sign-out").headers["location"] == f"{BASE}/sign-in"
    again = httpx.get(f"{visitor.url}{BASE}/", cookies={visitor.cookie: value}, trust_env=False)
    assert again.status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example", "sec-fetch-site": ""},
        {"origin": "null", "sec-fetch-site": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "", "sec-fetch-site": ""},
    ],
)
def test_csrf_a_form_of_another_site_is_refused(visitor: Visitor, headers: dict[str, str]) -> None:
    assert visitor.post("/sign-out", **headers).status_code == 403
    assert visitor.get("/").status_code == 200


@pytest.mark.parametrize("token", ["", "x", "é"])
def test_csrf_a_form_without_the_token_of_the_session_is_refused(visitor: Visitor, token: str) -> None:
    assert visitor.post("/sign-out", {"_csrf": token}).status_code == 403
    assert visitor.get("/").status_code == 200


def test_csrf_the_token_of_another_session_is_refused(visitor: Visitor, target: Target) -> None:
    other = visitor_of(target)
    assert visitor.post("/sign-out", {"_csrf": other.token()}).status_code == 403
    other.close()


def test_clickjacking_no_site_may_frame_a_page(visitor: Visitor, stranger: Visitor) -> None:
    for answer in (visitor.get("/"), stranger.get("/sign-in"), visitor.get("/no-such-page")):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"


def test_pages_have_a_strict_policy(visitor: Visitor) -> None:
    answer = visitor.get("/")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    nonce = re.findall(r'nonce="([^"]+)"', answer.text)[0]
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == f"'nonce-{nonce}'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert " style=" not in answer.text
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son[a-z]+=", answer.text)
    assert nonce not in visitor.get("/").text


def test_static_files_are_kept_by_their_hash(visitor: Visitor) -> None:
    paths = re.findall(r'"(/_orcas/console/static/[^"]+)"', visitor.page("/"))
    assert paths
    for path in paths:
        answer = visitor.http.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert visitor.http.get(f"{BASE}/static/0000000000000000/style.css").status_code == 404


def test_a_link_from_another_site_opens_the_page_after_all(visitor: Visitor) -> None:
    """The browser withholds the cookie of a link on another site: the page opens itself again."""
    answer = httpx.get(f"{visitor.url}{BASE}/", headers={"sec-fetch-site": "cross-site"}, trust_env=False)
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' in answer.text


def test_a_large_form_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/sign-out", {"more": "x" * (1 << 20)}).status_code == 413


@pytest.mark.parametrize("named", [False, True])
def test_a_form_outlives_its_session(target: Target, visitor: Visitor, s3: Any, bucket: str, *, named: bool) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"k")
    place, typed = f"/b/{bucket}/object/tags?key=k", {"_csrf": visitor.token(), "tags": "a=x+y\r\nc=d e"}
    visitor.http.cookies.clear()
    asked = visitor.post(place, typed)
    assert asked.status_code == 403
    assert "what you have typed is kept" in asked.text
    hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', asked.text))
    form = {name: html.unescape(text) for name, text in hidden.items()}
    secret = target.server.secret_key if named else "wrong"
    answer = visitor.sign_in(target.server.access_key, secret, **form)
    if not named:
        assert answer.status_code == 403
        assert hidden.items() <= dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', answer.text)).items()
        return
    page = answer.text
    fields = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page)
    action = html.unescape(re.findall(r'<form method="post" action="([^"]+tags[^"]+)"', page)[0])
    sent = {name: html.unescape(text) for name, text in fields}
    assert "_csrf" in sent
    assert visitor.http.post(action, data=sent, headers={"origin": visitor.url}).status_code == 303
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [
        {"Key": "a", "Value": "x+y"}, {"Key": "c", "Value": "d e"},
    ]  # fmt: skip
    assert action.startswith(BASE)


def test_a_form_of_a_script_or_another_site_is_not_kept(visitor: Visitor, bucket: str) -> None:
    visitor.http.cookies.clear()
    for headers in ({"accept": "application/json"}, {"origin": "https://evil.example"}):
        answer = visitor.post(f"/b/{bucket}/undo", {"prefix": "kept"}, **headers)
        assert answer.status_code == 403
        assert "kept" not in answer.text


def test_wrong_keys_lock_the_address_out(tmp_path: Any) -> None:
    with running(tmp_path, lockout_failures=3, lockout_loopback=True) as target:
        visitor = visitor_of(target, signed_in=False)
        answers = [visitor.sign_in(target.server.access_key, "wrong-secret-key") for _ in range(8)]
        assert "too many wrong keys" in answers[-1].text
        assert "is wrong" in answers[0].text
        right = visitor.sign_in(target.server.access_key, target.server.secret_key)
        assert right.status_code == 403
        visitor.close()


def test_the_console_can_be_turned_off(tmp_path: Any) -> None:
    with running(tmp_path, console=False) as target:
        for path in (BASE, f"{BASE}/", f"{BASE}/sign-in"):
            assert httpx.get(target.server.endpoint + path, trust_env=False).status_code == 404
        said = command("console", "--data", str(tmp_path), "--print", code=1)
        assert said == "orcas: The server has no console: start it with ORCAS_CONSOLE=true."


def test_the_command_opens_the_console_by_a_link_that_works_once(tmp_path: Any) -> None:
    with running(tmp_path) as target:
        link = command("console", "--data", str(tmp_path), "--print").strip()
        assert link.startswith(f"{target.server.endpoint}{BASE}/link?code=")
        visitor = Visitor(target.server.endpoint)
        answer = visitor.http.get(link)
        assert answer.headers["location"] == f"{BASE}/"
        assert "Buckets" in visitor.page("/")
        assert "was used, or has ended" in httpx.get(link, trust_env=False).text
        visitor.close()
        # Nobody else gets one.
        assert httpx.post(f"{target.server.endpoint}{BASE}/links", trust_env=False).status_code == 403


def test_the_page_of_the_server_leads_to_the_console(target: Target, tmp_path: Any) -> None:
    accept = {"accept": "text/html"}
    assert f'href="{BASE}/"' in httpx.get(f"{target.server.endpoint}/", headers=accept, trust_env=False).text
    with running(tmp_path, console=False) as without:
        assert BASE not in httpx.get(f"{without.server.endpoint}/", headers=accept, trust_env=False).text


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


KEYS = Keys("key", "secret")


def test_a_session_ends_without_use_and_in_any_case() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    idle, _ = sessions.begin(KEYS, "arn")
    busy, _ = sessions.begin(KEYS, "arn")
    for _ in range(LIFE_SECONDS // IDLE_SECONDS):
        clock.now += IDLE_SECONDS
        assert sessions.find(busy) is not None
    clock.now += 1
    assert sessions.find(busy) is None
    assert sessions.find(idle) is None
    assert len(sessions) == 0


@pytest.mark.parametrize("headers", [{REFRESH: "yes"}, {"accept": "text/event-stream"}])
def test_a_page_that_refreshes_itself_keeps_no_session_open(headers: dict[str, str]) -> None:
    clock = Clock()
    sessions = Sessions(clock)
    guard = Middleware(Guard, server=None, sessions=sessions, region="us-east-1")
    pages = Starlette(routes=[Route("/live", lambda _: PlainTextResponse("live"))], middleware=[guard])
    app = Starlette(routes=[Mount(BASE, pages)])
    value, _ = sessions.begin(KEYS, "arn")

    async def status(more: dict[str, str]) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answer = await client.get(f"{BASE}/live", headers={"cookie": f"{COOKIE}={value}"} | more)
        return answer.status_code

    clock.now += IDLE_SECONDS - 10
    assert asyncio.run(status({})) == 200
    for _ in range(IDLE_SECONDS // 10):
        clock.now += 10
        assert asyncio.run(status(headers)) == 200
    clock.now += 10
    assert asyncio.run(status(headers)) == 303
    assert len(sessions) == 0


def test_a_refresh_moves_no_session_before_others() -> None:
    sessions = Sessions(Clock())
    refreshed, used = (sessions.begin(KEYS, "arn")[0] for _ in range(2))
    for _ in range(100):
        assert sessions.find(refreshed, by_itself=True) is not None
    for _ in range(OF_KEY_MAX - 1):
        sessions.begin(KEYS, "arn")
    assert sessions.find(refreshed) is None
    assert sessions.find(used) is not None


def test_the_table_of_sessions_is_bounded() -> None:
    sessions = Sessions(Clock())
    of_one = [sessions.begin(KEYS, "arn")[0] for _ in range(100)]
    assert 0 < len(sessions) < 100
    assert sessions.find(of_one[-1]) is not None
    for number in range(SESSIONS_MAX + 10):
        sessions.begin(Keys(f"key-{number}", "secret"), "arn")
    assert len(sessions) == SESSIONS_MAX


def test_a_link_works_once_and_not_for_long() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    code = sessions.link(KEYS)
    assert sessions.redeem(code) == KEYS
    assert sessions.redeem(code) is None
    late = sessions.link(KEYS)
    clock.now += LINK_SECONDS
    assert sessions.redeem(late) is None
    for _ in range(1000):
        sessions.link(KEYS)
    assert len(sessions._links) < 100
