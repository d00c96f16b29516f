"""The console's pages of tables, before the real catalog: what they show of it, and to whom."""

from __future__ import annotations

import html
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.clients.tables.lake import LAKE, catalog_of, may, numbers, rows, user
from tests.console.visitors import Visitor

import orcas

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

SignIn = Callable[..., Visitor]
ODD = "a b/<i>\"'&%2F.."


@pytest.fixture
def sign_in(server: orcas.Server) -> Iterator[SignIn]:
    """Signs in with a credential of `user`; without one, with the root key."""
    made: list[Visitor] = []

    def signed_in(credential: str = "") -> Visitor:
        made.append(Visitor(server.endpoint))
        keys = credential.split(":") if credential else (server.access_key, server.secret_key)
        assert made[-1].sign_in(*keys).status_code == 303
        return made[-1]

    yield signed_in
    for each in made:
        each.close()


@pytest.fixture
def table(catalog: Any, namespace: str) -> Any:
    made = catalog.create_table((namespace, "t"), schema=rows(0).schema, properties={"said": "<b>"})
    made.append(rows(0, 1234))
    made.delete("n < 5")
    return made


def test_a_table(sign_in: SignIn, catalog: Any, namespace: str, table: Any) -> None:
    catalog.create_namespace((namespace, ODD))
    catalog.create_table((namespace, ODD, ODD), schema=rows(0).schema)
    root, shown = sign_in(), html.escape(ODD).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    assert f"/b/{LAKE}/tables" in root.page(f"/b/{LAKE}")
    assert f"namespace={namespace}" in root.page(f"/b/{LAKE}/tables")
    assert shown in root.page(f"/b/{LAKE}/tables?namespace={namespace}")
    below = f"namespace={namespace}{quote(chr(0x1F) + ODD, safe='')}"
    assert f"table={quote(ODD, safe='')}" in root.page(f"/b/{LAKE}/tables?{below}")
    assert shown in root.page(f"/b/{LAKE}/table?{below}&table={quote(ODD, safe='')}")
    page = root.page(f"/b/{LAKE}/table?namespace={namespace}&table=t")
    for said in ("1,229", "1,234", "overwrite", "append", "&lt;b&gt;", "not partitioned", table.location()):
        assert said in page
    for snapshot in table.metadata.snapshots:
        assert str(snapshot.snapshot_id) in page
    assert root.get(f"/b/{LAKE}/table?namespace={namespace}&table=none").status_code == 404
    assert root.get("/b/none/tables").status_code == 404


def test_rights(server: orcas.Server, sign_in: SignIn, catalog: Any, namespace: str, table: Any) -> None:
    lake = f"arn:aws:s3tables:*:*:bucket/{LAKE}"
    pages = [f"/b/{LAKE}/tables", f"/b/{LAKE}/tables?namespace={namespace}",
             f"/b/{LAKE}/table?namespace={namespace}&table=t"]  # fmt: skip
    names = may(["s3tables:ListNamespaces"], lake)
    tables = {**may(["s3tables:ListTables"], lake),
              "Condition": {"StringEquals": {"s3tables:namespace": namespace}}}  # fmt: skip
    metadata = may("s3tables:GetTableMetadataLocation", f"{lake}/table/{namespace}/*")
    for statements in ((), (names,), (names, tables), (names, tables, metadata)):
        visitor = sign_in(user(server, *statements))
        answers = [visitor.get(path) for path in pages]
        expected = [200 if at < len(statements) else 403 for at in range(3)]
        assert [answer.status_code for answer in answers] == expected
        if not statements:
            assert namespace not in answers[0].text
        for answer in answers:
            assert (f"{namespace}/t-" in answer.text) is (len(statements) == 3 and answer is answers[2])
            assert "Make a branch" not in answer.text
    assert "Not authorized to perform s3tables:ListTables" in answers[0].text
    catalog.create_namespace((namespace, "below"))
    assert "below" in visitor.page(pages[1])


def test_a_branch(server: orcas.Server, sign_in: SignIn, catalog: Any, namespace: str, table: Any) -> None:
    root, name = sign_in(), f"b{uuid.uuid4().hex[:8]}"
    branch = f"/b/{LAKE}/tables?branch={name}"
    assert f"The branch {name} was made." in root.done(f"/b/{LAKE}/tables/create", {"branch": name})
    mine = catalog_of(server, warehouse=f"{LAKE}@{name}")
    mine.load_table((namespace, "t")).append(rows(5000))
    assert f"{namespace}.t" in root.page(branch)
    overview = root.page(f"/b/{LAKE}/tables").partition(f'branch={name}"')[2].partition("</tr>")[0]
    assert "<time datetime=" in overview
    assert '<td class="num">1</td>' in overview
    both = [root.page(f"/b/{LAKE}/table?namespace={namespace}&table=t{more}") for more in ("", f"&branch={name}")]
    assert ["1,239" in page for page in both] == [False, True]
    assert f"/b/{LAKE}--{name}?prefix=" in both[1]
    everything = sign_in(user(server, may("s3tables:*", "*")))
    assert "Merge" not in everything.page(branch)
    for do in ("create", "merge", "drop"):
        said = everything.done(f"/b/{LAKE}/tables/{do}", {"branch": name})
        assert "sign in with the root key" in said
    assert f"The branch {name} was merged." in root.done(f"/b/{LAKE}/tables/merge", {"branch": name})
    assert len(numbers(catalog.load_table((namespace, "t")))) == 1239
    assert "Nothing." in root.page(branch)
    assert f"The branch {name} was dropped." in root.done(f"/b/{LAKE}/tables/drop", {"branch": name})
    assert root.get(branch).status_code == 404
    for wrong in ("", "A", "a/../b", f"{name}@x", '"><b>'):
        said = root.done(f"/b/{LAKE}/tables/create", {"branch": wrong})
        assert "The branch was not made" in said
        assert "<b>" not in said


def test_a_key_that_is_deleted(server: orcas.Server, sign_in: SignIn) -> None:
    credential = user(server, may("s3tables:*", "*"))
    visitor = sign_in(credential)
    visitor.page(f"/b/{LAKE}/tables")
    iam, key = server.client("iam"), credential.partition(":")[0]
    iam.delete_access_key(UserName=iam.get_access_key_last_used(AccessKeyId=key)["UserName"], AccessKeyId=key)
    assert "/sign-in" in visitor.get(f"/b/{LAKE}/tables").headers["location"]
