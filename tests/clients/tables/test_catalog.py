"""The catalog of tables: what pyiceberg does with it over a socket, with nothing beside the server."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.clients.tables.lake import LAKE, catalog_of, numbers, rows
from tests.fixtures.clients import package
from tests.fixtures.targets import keys_of

import orcas
from orcas.tables.names import TABLES, TRANSACTIONS, WAREHOUSE
from orcas.tables.objects import Objects
from orcas.tables.warehouses import marker

exceptions = package("pyiceberg.exceptions")
requests = package("requests")
types = package("pyiceberg.types")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def test_a_table(server: orcas.Server, catalog: Any, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    for first in (0, 10, 20):
        table.append(rows(first))
    table.delete("n < 5")
    with table.update_schema() as update:
        update.add_column("more", types.LongType())
    again = catalog.load_table((namespace, "t"))
    assert numbers(again) == list(range(5, 30))
    assert again.scan().to_arrow().column_names == ["n", "s", "more"]
    assert numbers(again, snapshot_id=again.snapshots()[1].snapshot_id) == list(range(20))
    assert catalog.list_tables(namespace) == [(namespace, "t")]
    assert catalog.table_exists((namespace, "t"))
    assert again.metadata_location in {f"s3://{LAKE}/{key}" for key in keys_of(server.client(), LAKE)}


def test_a_table_that_is_created_with_its_first_rows(catalog: Any, namespace: str) -> None:
    with catalog.create_table_transaction((namespace, "t"), schema=rows(0).schema) as creating:
        creating.append(rows(0))
        with pytest.raises(exceptions.NoSuchTableError):
            catalog.load_table((namespace, "t"))
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(10))


def test_names(catalog: Any, namespace: str) -> None:
    odd = (namespace, "a/b.c%2F d+ü", "..")
    for depth in (2, 3):
        catalog.create_namespace(odd[:depth])
    catalog.create_table((*odd, "x.y/z *?"), schema=rows(0).schema).append(rows(0))
    assert numbers(catalog.load_table((*odd, "x.y/z *?"))) == list(range(10))
    assert catalog.list_namespaces((namespace,)) == [odd[:2]]
    assert catalog.list_namespaces(odd[:2]) == [odd]
    assert catalog.list_tables(odd) == [(*odd, "x.y/z *?")]
    assert (namespace,) in catalog.list_namespaces()
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(odd[:2])
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(odd)


def test_namespaces(catalog: Any, namespace: str) -> None:
    with pytest.raises(exceptions.NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    with pytest.raises(exceptions.RESTError):
        catalog.create_namespace(("nobody", "n"))
    catalog.update_namespace_properties(namespace, updates={"a": "1", "b": "2"})
    done = catalog.update_namespace_properties(namespace, removals={"a", "c"}, updates={"d": "3"})
    assert (done.removed, done.missing, done.updated) == (["a"], ["c"], ["d"])
    assert catalog.load_namespace_properties(namespace) == {"b": "2", "d": "3"}
    catalog.drop_namespace(namespace)
    assert not catalog.namespace_exists(namespace)
    with pytest.raises(exceptions.NoSuchNamespaceError):
        catalog.create_table((namespace, "t"), schema=rows(0).schema)


def test_a_table_of_a_namespace_that_is_not_there(catalog: Any, namespace: str) -> None:
    """As Iceberg says it: clients take NAMESPACE.TABLE.files for a table first, and its metadata for the answer to that."""
    catalog.create_table((namespace, "t"), schema=rows(0).schema)
    url = catalog.url("namespaces/{namespace}/tables/files", namespace=f"{namespace}\x1ft")
    for answer in (catalog._session.get(url), catalog._session.post(url, json={})):
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")
        assert answer.json()["error"]["message"] == f"Table does not exist: {namespace}.t.files"


def test_two_writers_sort_one_table(catalog: Any, namespace: str) -> None:
    """Both have seen no sort order, and call theirs number 1."""
    catalog.create_table((namespace, "t"), schema=rows(0).schema)
    url = catalog.url("namespaces/{namespace}/tables/t", namespace=namespace)
    for column in (1, 2):
        order = {"order-id": 1, "fields": [
            {"transform": "identity", "source-id": column, "direction": "asc", "null-order": "nulls-first"},
        ]}  # fmt: skip
        updates = [
            {"action": "add-sort-order", "sort-order": order}, {"action": "set-default-sort-order", "sort-order-id": -1},
        ]  # fmt: skip
        assert catalog._session.post(url, json={"requirements": [], "updates": updates}).status_code == 200
        metadata = catalog.load_table((namespace, "t")).metadata
        assert metadata.default_sort_order_id == column
        assert [each.source_id for each in metadata.sort_orders[-1].fields] == [column]


def test_pages(server: orcas.Server, catalog: Any, namespace: str) -> None:
    names = {(namespace, f"t{number}") for number in range(5)}
    for name in names:
        catalog.create_table(name, schema=rows(0).schema)
        catalog.create_namespace((namespace, name[1]))
    pages = catalog_of(server, **{"rest-page-size": "2"})
    assert set(pages.list_tables(namespace)) == set(catalog.list_tables(namespace)) == names
    assert set(pages.list_namespaces((namespace,))) == set(catalog.list_namespaces((namespace,))) == names


def test_renames(catalog: Any, namespace: str) -> None:
    catalog.create_namespace((namespace, "other"))
    for name in ("a", "b"):
        catalog.create_table((namespace, name), schema=rows(0).schema).append(rows(0))
    catalog.rename_table((namespace, "a"), (namespace, "other", "a"))
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.load_table((namespace, "a"))
    table = catalog.load_table((namespace, "other", "a"))
    table.append(rows(10))
    assert numbers(table) == list(range(20))
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.rename_table((namespace, "b"), (namespace, "other", "a"))
    # The place of the old table is not that of a new one with its name.
    again = catalog.create_table((namespace, "a"), schema=rows(0).schema)
    assert again.location() != table.location()


def test_dropped_and_registered(server: orcas.Server, catalog: Any, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    table.append(rows(0))
    catalog.drop_table((namespace, "t"))
    again = catalog.register_table((namespace, "again"), table.metadata_location)
    again.append(rows(10))
    assert numbers(catalog.load_table((namespace, "again"))) == list(range(20))
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.register_table((namespace, "again"), table.metadata_location)
    with pytest.raises(exceptions.BadRequestError):
        catalog.purge_table((namespace, "again"))


def test_purged(server: orcas.Server, catalog: Any, namespace: str) -> None:
    for name in ("t", "kept"):
        catalog.create_table((namespace, name), schema=rows(0).schema).append(rows(0))
    kept, place = catalog.load_table((namespace, "kept")), catalog.load_table((namespace, "t")).location()
    catalog.purge_table((namespace, "t"))
    assert not [key for key in keys_of(server.client(), LAKE) if f"s3://{LAKE}/{key}".startswith(place)]
    assert numbers(kept) == list(range(10))


def test_concurrent_writers_lose_nothing(server: orcas.Server, catalog: Any, namespace: str) -> None:
    catalog.create_table((namespace, "t"), schema=rows(0).schema)

    def append(number: int) -> list[int]:
        done, mine = [], catalog_of(server)
        for each in range(5):
            first = 1000 * number + 10 * each
            for _ in range(50):
                table = mine.load_table((namespace, "t"))
                with contextlib.suppress(exceptions.CommitFailedException):
                    table.append(rows(first))
                    done += range(first, first + 10)
                    break
        return done

    with ThreadPoolExecutor(8) as threads:
        done = [number for found in threads.map(append, range(8)) for number in found]
    table = catalog.load_table((namespace, "t"))
    assert len(done) == 8 * 5 * 10
    assert numbers(table) == sorted(done)
    assert len(table.snapshots()) == 40


def transaction(*changes: tuple[Any, tuple[Any, ...]], namespace: str) -> dict[str, Any]:
    """A transaction that sets properties of tables as they are."""
    return {
        "table-changes": [
            {
                "identifier": {"namespace": [namespace], "name": table.name()[-1]},
                "requirements": [{"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}, *required],
                "updates": [{"action": "set-properties", "updates": {"done": "yes"}}],
            }
            for table, required in changes
        ]
    }


def test_transactions_over_tables(server: orcas.Server, catalog: Any, namespace: str) -> None:
    tables = [catalog.create_table((namespace, name), schema=rows(0).schema) for name in ("a", "b", "c")]
    bearer = catalog._session.auth.auth_manager.auth_header()
    url = f"{server.endpoint}/_orcas/iceberg/v1/{LAKE}/transactions/commit"

    def commit(*changes: tuple[Any, tuple[Any, ...]]) -> int:
        body = transaction(*changes, namespace=namespace)
        return int(requests.post(url, json=body, headers={"Authorization": bearer}, timeout=60).status_code)

    def done() -> list[bool]:
        return ["done" in catalog.load_table(table.name()).properties for table in tables]

    other = {"type": "assert-current-schema-id", "current-schema-id": 7}
    assert commit((tables[0], ()), (tables[1], (other,))) == 409
    assert done() == [False, False, False]
    assert commit((tables[0], ()), (tables[2], ())) == 204
    assert done() == [True, False, True]
    assert commit((tables[1], ()), (tables[1], ())) == 400
    assert not [key for key in keys_of(server.client(), LAKE) if key.startswith(".iceberg/transactions/")]


def test_a_server_that_is_started_again(tmp_path: Path) -> None:
    keys = {"root_access_key": "AKIAEXAMPLE", "root_secret_key": "a-secret-of-tests"}
    with orcas.Server(tmp_path, warehouse=LAKE, **keys) as first:
        made = catalog_of(first)
        made.create_namespace("n")
        made.create_table("n.t", schema=rows(0).schema).append(rows(0))
        first.kill()
    with orcas.Server(tmp_path, warehouse=LAKE, **keys) as second:
        table = catalog_of(second).load_table("n.t")
        table.append(rows(10))
        assert numbers(table) == list(range(20))


def test_a_warehouse_with_versioning(server: orcas.Server) -> None:
    client = server.client()
    client.create_bucket(Bucket="versioned")
    client.put_object(Bucket="versioned", Key=WAREHOUSE, Body=marker("versioned"))
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    mine = catalog_of(server, warehouse="versioned")
    mine.create_namespace("n")
    tables = [mine.create_table(("n", name), schema=rows(0).schema) for name in ("a", "b")]
    tables[0].append(rows(0))
    assert numbers(mine.load_table("n.a")) == list(range(10))
    with pytest.raises(exceptions.RESTError, match="without versioning"):
        mine.rename_table("n.a", "n.c")
    url = f"{server.endpoint}/_orcas/iceberg/v1/versioned/transactions/commit"
    body = transaction(*((table, ()) for table in tables), namespace="n")
    assert mine._session.post(url, json=body).status_code == 204
    assert all("done" in mine.load_table(table.name()).properties for table in tables)
    left = client.list_object_versions(Bucket="versioned", Prefix=TRANSACTIONS)
    assert ("Versions" in left, "DeleteMarkers" in left) == (False, False)
    mine.purge_table("n.a")
    assert mine.list_tables("n") == [("n", "b")]


@pytest.mark.parametrize(("code", "status", "kind"), [
    ("InternalError", 500, "CommitStateUnknownException"), ("ServiceUnavailable", 500, "CommitStateUnknownException"),
    ("SlowDown", 503, "SlowDownException"),
])  # fmt: skip
def test_a_commit_of_which_nobody_knows_whether_it_was_made(
    monkeypatch: pytest.MonkeyPatch, code: str, status: int, kind: str
) -> None:
    """Clients delete what they have written for a commit, unless they are told so."""
    ask, failing = Objects._ask, [False]

    async def failed(self: Objects, method: str, bucket: str, key: str = "", **others: Any) -> Any:
        answer = await ask(self, method, bucket, key, **others)
        if failing[0] and method == "PUT" and key.startswith(TABLES):
            answer.status, answer.body = 503, f"<Error><Code>{code}</Code></Error>".encode()
        return answer

    monkeypatch.setattr(Objects, "_ask", failed)
    keys = {"root_access_key": "AKIAEXAMPLE", "root_secret_key": "a-secret-of-tests"}
    app = orcas.create_app(memory=True, warehouse=LAKE, **keys)
    with TestClient(app, base_url="http://localhost/_orcas/iceberg/v1") as client:
        order = {"grant_type": "client_credentials", "client_id": "AKIAEXAMPLE", "client_secret": "a-secret-of-tests"}
        client.headers["authorization"] = f"Bearer {client.post('/oauth/tokens', data=order).json()['access_token']}"
        assert client.post(f"/{LAKE}/namespaces", json={"namespace": ["n"]}).status_code == 200
        schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": False}]}
        tables = f"/{LAKE}/namespaces/n/tables"
        assert client.post(tables, json={"name": "t", "schema": schema}).status_code == 200
        failing[0] = True
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        answer = client.post(f"{tables}/t", json=change)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
