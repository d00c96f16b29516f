"""The page for browsers. Clients of S3 still get the error document, and no page loads anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.fixtures.signing import Identity, presigned_url, signed_headers
from tests.fixtures.targets import Target

import orcas
from orcas.admin.docs import page
from orcas.serving.app import Orcas
from orcas.settings.config import resolve

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "user-agent": "Mozilla/5.0"}


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True) as running:
        yield running


def ask(
    server: orcas.Server, target: str, headers: dict[str, str], method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    named = {"host": urlsplit(server.endpoint).netloc, **headers}
    answer = Target(server).wire.send(method, target, named)
    return answer.status, dict(answer.headers), answer.body.decode()


def loads_nothing(text: str) -> bool:
    """Check that there is no element that loads something, and no address of another host."""
    return not re.search(r"<(script|link|img|iframe|object|embed)\b|\bsrc=|@import|url\(|https?://|[\"']//", text)


def test_a_browser_is_shown_a_page(server: orcas.Server) -> None:
    for host in ({}, {"host": f"bucket.localhost:{urlsplit(server.endpoint).port}"}):
        status, headers, text = ask(server, "/", BROWSER | host)
        # It is still the same refusal.
        assert status == 403
        assert headers["x-amz-request-id"]
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "orcas env --data DIR" in text
        assert loads_nothing(text)
        assert server.secret_key not in text


def test_clients_of_s3_see_what_they_saw(server: orcas.Server) -> None:
    identity = Identity(server.access_key, server.secret_key, server.region)
    url = f"{server.endpoint}/"
    signed = {name: value for name, value in signed_headers(identity, "GET", url, {}).items() if name != "host"}
    presigned = presigned_url(identity, "GET", url).removeprefix(server.endpoint)
    refused = [
        ("/", {}), ("/", {"accept": "*/*"}), ("/", {"accept": "application/xml"}), ("/bucket", BROWSER), ("/?x=1", BROWSER),
        ("/", BROWSER | {"authorization": "AWS4-HMAC-SHA256 nonsense"}),
        ("/", BROWSER | signed | {"x-amz-date": "20200101T000000Z"}),
    ]  # fmt: skip
    for target, headers in refused:
        status, given, text = ask(server, target, headers)
        assert status >= 400
        assert given["content-type"] == "application/xml"
        assert text.startswith("<?xml")
        assert "vary" not in given
    for target, headers in (("/", BROWSER | signed), (presigned, BROWSER)):
        status, given, text = ask(server, target, headers)
        assert (status, given["content-type"]) == (200, "application/xml")
        assert "ListAllMyBucketsResult" in text
    assert ask(server, "/", BROWSER, "HEAD")[2] == ""
    assert ask(server, "/", BROWSER, "POST")[2].startswith("<?xml")


def test_the_documentation_is_whole_and_loads_nothing(server: orcas.Server) -> None:
    status, headers, text = ask(server, "/_orcas/docs", BROWSER)
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert loads_nothing(text)
    app = Orcas(resolve({"data": "/nowhere"}, ambient=False).settings)
    routes = {f"/_orcas/admin{route.path}" for route in app._admin.routes}  # type: ignore[attr-defined]
    documented = set(re.findall(r"<code>[A-Z]+ (/[^<]*)</code>", text))
    health = {route for route in documented if route.startswith("/_orcas/health/")}
    assert {"/_orcas/health/live", "/_orcas/health/ready"} <= health
    assert documented == routes | health | {"/_orcas/metrics", "/_orcas/events"}
    assert {"/_orcas/admin/stats", "/_orcas/admin/jobs/{name}"} <= documented
    assert "bytes_per_sec" in text
    assert "<code>damaged</code>" in text
    assert "`" not in text
    # Every route has a description, and so have its answers; what they contain is escaped.
    for item in app.openapi()["paths"].values():
        for operation in item.values():
            assert operation["description"]
            assert all(
                answer["description"] not in ("", "Successful Response") for answer in operation["responses"].values()
            )
    for path, statuses in (
        ("health/live", {"200"}), ("health/ready", {"200", "503"}), ("health/writable", {"200", "503"}),
        ("metrics", {"200", "401", "403"}), ("admin/stats", {"200", "403", "413", "503"}),
    ):  # fmt: skip
        assert set(app.openapi()["paths"][f"/_orcas/{path}"]["get"]["responses"]) == statuses
    document = app.openapi()
    document["paths"]["/<script>"] = document["paths"]["/_orcas/health/live"]
    assert "<script>" not in page(document)
