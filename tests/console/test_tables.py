"""Pages of tables, before a catalog that answers what a test says; tests/clients/tables has them before the real one."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient
from tests.console.test_rights import tabs
from tests.console.visitors import BASE, Visitor

import orcas.serving.app as serving
from orcas.tables import MOUNT

SENTENCE: Final = "The catalog of tables needs the package pyiceberg: pip install 'orcas-s3[tables]'."
URL: Final = "http://localhost:9000"
KEYS: Final = {"root_access_key": "AKIAEXAMPLE", "root_secret_key": "a-secret-of-tests"}
HOSTILE: Final = ("<script>alert(1)</script>", "'\"><b>", "..", "a/b%2Fc?d#e&f=g", "l" * 255, "{{ 7 * 7 }}", "\u202e")
SCHEMA: Final = {"schema-id": 0, "type": "struct", "fields": [{"id": 1, "name": "n", "type": "long", "required": True}]}
METADATA: Final[dict[str, Any]] = {
    "format-version": 2, "location": "s3://lake/n/t", "last-updated-ms": 1_764_500_000_000, "schemas": [SCHEMA],
    "current-schema-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0,
}  # fmt: skip
REFUSED: Final = (403, {"error": {"message": "Not authorized to perform s3tables:X on Y.", "type": "ForbiddenException",
                                  "code": 403}})  # fmt: skip


class Answers(dict[str, Any]):
    """A catalog that has the answers to some paths, or statuses with them, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = unquote(scope["raw_path"].decode().removeprefix("/_orcas/iceberg/"))
        self.asked.append(f"{scope['method']} {path}")
        found = self.get(path, (404, {"error": {"message": "Nothing.", "type": "NoSuchTableException", "code": 404}}))
        status, told = found if isinstance(found, tuple) else (200, found)
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestClient, Answers]]:
    """A server in this process with such a catalog."""
    app, catalog = serving.create_app(memory=True, **KEYS), Answers()
    vars(app)["_tables"] = {MOUNT: catalog}
    with TestClient(app, base_url=URL, follow_redirects=False) as client:
        yield client, catalog


@pytest.fixture
def catalog(served: tuple[TestClient, Answers]) -> Answers:
    served[1].clear()
    served[1].asked.clear()
    return served[1]


@pytest.fixture
def browser(served: tuple[TestClient, Answers]) -> Visitor:
    """Who has signed in there with the root key."""
    return signed_in(served[0])


def signed_in(client: TestClient) -> Visitor:
    visitor = Visitor(str(client.base_url))
    visitor.close()
    visitor.http = client
    client.cookies.clear()
    assert visitor.sign_in(*KEYS.values()).status_code == 303
    return visitor


def main(page: str) -> str:
    """What a page has below its tabs."""
    return page[page.index("<main") : page.index("</main>")]


def names(*found: str, more: str | None = None) -> dict[str, Any]:
    return {"identifiers": [{"namespace": ["n"], "name": name} for name in found], "next-page-token": more}


def spaces(*found: list[str], more: str | None = None) -> dict[str, Any]:
    return {"namespaces": found, "next-page-token": more}


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda _: None)
    with TestClient(serving.create_app(memory=True, **KEYS), base_url=URL, follow_redirects=False) as client:
        visitor = signed_in(client)
        page = visitor.page("/b/lake/tables")
        table = visitor.get("/b/lake/table?namespace=n&table=t")
    assert SENTENCE in html.unescape(page)
    assert "Namespaces" not in page
    assert table.status_code == 501
    assert SENTENCE in html.unescape(table.text)


def test_the_tab_is_that_of_a_warehouse_which_the_visitor_may_list(
    visitor: Visitor, visitor_with: Callable[..., Visitor], s3: Any, bucket: str
) -> None:
    assert "Tables" not in tabs(visitor.page(f"/b/{bucket}"))
    s3.put_object(Bucket=bucket, Key=".iceberg/warehouse.json.other", Body=b"")
    assert "Tables" not in tabs(visitor.page(f"/b/{bucket}"))
    s3.put_object(Bucket=bucket, Key=".iceberg/warehouse.json", Body=b"{}")
    assert "Tables" in tabs(visitor.page(f"/b/{bucket}"))
    assert "Tables" in tabs(visitor_with("s3:ListBucket").page(f"/b/{bucket}"))
    assert "Tables" not in tabs(visitor_with("orcas:ListSnapshots").page(f"/b/{bucket}/snapshots"))


def test_names_of_strangers(browser: Visitor, catalog: Answers) -> None:
    """They are shown as they are, and links lead back to what has them."""

    def harmless(page: str) -> str:
        assert "l" * 255 in page
        assert "{{ 7 * 7 }}" in page
        assert not [each for each in ("<script>", "<b>", "\u202e") if each in main(page)]
        return page

    catalog |= {"v1/lake/namespaces": spaces(*([name] for name in HOSTILE)), "branches/lake": {"branches": []}}
    found = re.findall(rf'href="{BASE}(/b/lake/tables\?namespace=[^"]+)"', harmless(browser.page("/b/lake/tables")))
    assert len(found) == len(HOSTILE)
    for name, link in zip(HOSTILE, found, strict=True):
        inside = f"v1/lake/namespaces/{name}"
        catalog |= {f"{inside}/tables": names(*HOSTILE), f"{inside}/views": names(*HOSTILE)}
        page = harmless(browser.page(html.unescape(link)))
        tables = re.findall(rf'href="{BASE}(/b/lake/table\?[^"]+)"', page)
        for table, below in zip(HOSTILE, tables, strict=True):
            browser.get(html.unescape(below))
            assert catalog.asked[-1] == f"GET {inside}/tables/{table}"


def test_names_come_in_pages(browser: Visitor, catalog: Answers) -> None:
    catalog["v1/lake/namespaces/n/tables"] = names("t", more="tables/t")
    catalog["v1/lake/namespaces/n/views"] = names("v")
    page = main(browser.page("/b/lake/tables?namespace=n"))
    assert f'href="{BASE}/b/lake/tables?namespace=n&amp;tables=tables%2Ft">More tables' in page
    assert "More views" not in page


def test_a_table(browser: Visitor, catalog: Answers) -> None:
    inner = {"type": "struct", "fields": [{"id": 4, "name": "x", "type": {"type": "list", "element": "int"}}]}
    columns = [*SCHEMA["fields"], {"id": 2, "name": "<i>", "type": {"type": "map", "key": "string", "value": inner}}]
    catalog["v1/lake@b/namespaces/n/tables/t"] = {"metadata": {
        **METADATA, "schemas": [{"schema-id": 7, "fields": []}, {**SCHEMA, "fields": columns}],
        "partition-specs": [{"spec-id": 0, "fields": [{"name": "part", "transform": "bucket[4]", "source-id": 1}]}],
        "properties": {"a": "<b>"}, "current-snapshot-id": 2, "snapshots": [
            {"snapshot-id": 1, "timestamp-ms": 1_764_500_000_000, "summary": {"operation": "append"}},
            {"snapshot-id": 2, "timestamp-ms": 1_764_500_060_000, "summary": {
                "operation": "overwrite", "added-records": "12345", "total-records": "<b>", "total-files-size": "2048"}},
        ],
    }}  # fmt: skip
    page = main(browser.page("/b/lake/table?namespace=n&table=t&branch=b"))
    for said in ("long", "map&lt;string, struct&lt;x: list&lt;int&gt;&gt;&gt;", "bucket[4]", "&lt;b&gt;", "12,345", "2 KiB",
                 "2025-11-30 10:54:20 UTC", 'href="/_orcas/console/b/lake--b?prefix=n%2Ft%2F"'):  # fmt: skip
        assert said in page
    for never in ("<i>", "<b>", "Only the first"):
        assert never not in page
    assert page.index('key">2<') < page.index("present") < page.index('key">1<')


def test_a_table_of_any_size(browser: Visitor, catalog: Answers) -> None:
    catalog["v1/lake/namespaces/n/tables/t"] = {"metadata": {
        **METADATA,
        "schemas": [{"schema-id": 0, "fields": [{"id": at, "name": f"c{at}-" + "x" * 9000, "type": "int"}
                                                for at in range(1000)]}],
        "properties": {f"p{at}": "y" * 9000 for at in range(500)},
        "snapshots": [{"snapshot-id": at, "timestamp-ms": at, "summary": {"operation": "append"}} for at in range(10_000)],
    }}  # fmt: skip
    page = browser.page("/b/lake/table?namespace=n&table=t")
    for said in ("columns of 1,000", "properties of 500", "snapshots of 10,000"):
        assert f"Only the first 200 {said} are shown." in page
    assert len(page) < 1_000_000
    shown = re.findall(r'<tr><td><bdi class="key">(\d+)</bdi>', page)
    assert shown == [str(at) for at in range(9999, 9799, -1)]


@pytest.mark.parametrize(
    "metadata",
    [
        {}, [], None, {**METADATA, "schemas": 1}, {**METADATA, "snapshots": [1]}, {**METADATA, "location": "\ud800"},
        {**METADATA, "last-updated-ms": 10**30}, {**METADATA, "properties": "x"},
        {**METADATA, "snapshots": [{"snapshot-id": 1, "timestamp-ms": float("nan")}]},
        {**METADATA, "schemas": [{"fields": [{"id": [], "name": "n", "type": "int"}]}]},
    ],
)  # fmt: skip
def test_metadata_that_is_none(browser: Visitor, catalog: Answers, metadata: Any) -> None:
    catalog["v1/lake/namespaces/n/tables/t"] = {"metadata": metadata}
    answer = browser.get("/b/lake/table?namespace=n&table=t")
    assert (answer.status_code, "metadata of this table cannot be read" in answer.text) == (502, True)


@pytest.mark.parametrize("text", [b'{"metadata": ' + b"[" * 100_000, b'{"metadata": x}'])
def test_metadata_that_is_no_json(browser: Visitor, catalog: Answers, text: bytes) -> None:
    catalog["v1/lake/namespaces/n/tables/t"] = text
    assert browser.get("/b/lake/table?namespace=n&table=t").status_code == 502


def test_metadata_that_is_too_long(browser: Visitor, catalog: Answers) -> None:
    catalog["v1/lake/namespaces/n/tables/t"] = b"x" * (17 << 20)
    answer = browser.get("/b/lake/table?namespace=n&table=t")
    assert (answer.status_code, "The commands of `orcas` show it." in answer.text) == (502, True)


def test_what_the_catalog_refuses(browser: Visitor, catalog: Answers) -> None:
    catalog["v1/lake/namespaces"] = REFUSED
    refused = browser.get("/b/lake/tables")
    assert refused.status_code == 403
    assert "Ask whoever manages the users of your account" in refused.text
    assert "Sign in with another key" in refused.text
    catalog["v1/lake/namespaces"], catalog["branches/lake"] = spaces(["seen"]), REFUSED
    page = main(browser.page("/b/lake/tables"))
    assert "seen" in page
    assert "Not authorized to perform s3tables:X" in page


def test_keys_that_the_catalog_no_longer_knows_end_the_session(browser: Visitor, catalog: Answers) -> None:
    catalog["v1/lake/namespaces"] = 401, {"error": {"message": "x", "type": "NotAuthorizedException", "code": 401}}
    answer = browser.get("/b/lake/tables")
    assert (answer.status_code, "/sign-in?next=" in answer.headers["location"]) == (303, True)
    assert browser.get("/").status_code == 303


def test_branches(browser: Visitor, catalog: Answers) -> None:
    changes = [
        {"name": "n.<t>", "kind": "table", "change": "changed", "by": "branch"},
        {"name": "n.v", "kind": "view", "change": "changed", "by": "branch"},
        {"name": "n.u", "kind": "table", "change": "changed", "by": "warehouse"},
    ]
    named = [f"b{at}" for at in range(300)]
    catalog["branches/lake"] = {"branches": [f"lake@{name}" for name in named]}
    catalog |= {f"branches/lake@{name}/changes": {"changes": changes} for name in named}
    catalog |= {"v1/lake/namespaces": spaces(), "v1/lake@b1/namespaces": spaces(["n"])}
    page = main(browser.page("/b/lake/tables"))
    rows = re.findall(r'branch=(\w+)">.*?<td class="num">([^<]*)</td>', page)
    assert [count for _, count in rows] == ["1"] * 10 + ["—"] * 190
    assert "Only the first 200 branches are shown." in page
    assert sum("changes" in asked for asked in catalog.asked) == 10
    page = main(browser.page("/b/lake/tables?branch=b1"))
    assert "n.&lt;t&gt;" in page
    assert page.count("<td>branch</td>") == 2
    assert f'href="{BASE}/b/lake/tables?branch=b1&amp;namespace=n"' in page


@pytest.mark.parametrize(
    ("do", "order", "status"),
    [("create", "POST branches/lake@b", 200), ("merge", "POST branches/lake@b/merge", 200),
     ("drop", "DELETE branches/lake@b", 200), ("else", "", 404)],
)  # fmt: skip
def test_what_is_done_with_a_branch(browser: Visitor, catalog: Answers, do: str, order: str, status: int) -> None:
    catalog |= {"v1/lake/namespaces": spaces(), "v1/lake@b/namespaces": spaces(), "branches/lake": {"branches": []}}
    catalog |= {order.partition(" ")[2]: {}, "branches/lake@b/changes": {"changes": []}}
    answer = browser.post(f"/b/lake/tables/{do}", {"branch": "b"})
    if status == 404:
        assert (answer.status_code, catalog.asked) == (404, [])
        return
    assert catalog.asked == [order]
    assert "The branch b was" in browser.page(answer.headers["location"].removeprefix(BASE))
    catalog[order.partition(" ")[2]] = REFUSED
    said = browser.done(f"/b/lake/tables/{do}", {"branch": "b"})
    assert "The branch was not" in said
