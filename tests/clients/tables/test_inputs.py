"""What the catalog of tables refuses: places, properties and metadata that readers must not follow, odd requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clients.tables.lake import LAKE, catalog_of, rows
from tests.fixtures.clients import package

import orcas

exceptions = package("pyiceberg.exceptions")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    "location",
    [
        "s3://other/t", "file:///etc", "s3://lake", "s3://lake/", "s3://lake/.iceberg/tables", "s3://lake/a/../b",
        "s3://lake//a", "s3://lake/a*", "s3://lake/${aws:username}", "s3://lake/a b", "s3://lake/" + "a" * 500,
    ],
)  # fmt: skip
def test_locations_elsewhere(catalog: Any, namespace: str, location: str) -> None:
    with pytest.raises(exceptions.BadRequestError):
        catalog.create_table((namespace, "t"), schema=rows(0).schema, location=location)
    assert not catalog.table_exists((namespace, "t"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s3.endpoint", "http://example.com"), ("S3.proxy-uri", "http://example.com"), ("py-io-impl", "os.system"),
        ("write.py-location-provider.impl", "os.system"), ("client.region", "x"), ("token", "x"),
        ("write.data.path", "s3://lake/other"), ("write.metadata.path", "s3://other/t"),
    ],
)  # fmt: skip
def test_properties_that_are_settings_of_clients(catalog: Any, namespace: str, name: str, value: str) -> None:
    with pytest.raises(exceptions.BadRequestError):
        catalog.create_table((namespace, "t"), schema=rows(0).schema, properties={name: value})
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    with pytest.raises(exceptions.BadRequestError), table.transaction() as changing:
        changing.set_properties({name: value})
    assert name not in catalog.load_table((namespace, "t")).properties


def test_metadata_from_elsewhere(server: orcas.Server, catalog: Any, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    table.append(rows(0))
    place = table.location().removeprefix(f"s3://{LAKE}/")
    key = table.metadata_location.removeprefix(f"s3://{LAKE}/")
    client = server.client()
    good = json.loads(client.get_object(Bucket=LAKE, Key=key)["Body"].read())

    def register(document: object, name: str = "x.metadata.json") -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        client.put_object(Bucket=LAKE, Key=f"{place}/metadata/{name}", Body=body)
        with pytest.raises(exceptions.BadRequestError):
            catalog.register_table((namespace, "u"), f"s3://{LAKE}/{place}/metadata/{name}")

    snapshot = good["snapshots"][0]
    register({**good, "snapshots": [{**snapshot, "manifest-list": "s3://other/x.avro"}]})
    register({**good, "snapshots": [{**snapshot, "manifest-list": f"s3://{LAKE}/{place}/../x.avro"}]})
    register({**good, "location": f"s3://{LAKE}/elsewhere"})
    register({**good, "properties": {"s3.endpoint": "http://example.com"}})
    register({**good, "metadata-log": [{"metadata-file": "file:///etc/passwd", "timestamp-ms": 1}]})
    register({**good, "current-schema-id": 17})
    register(b"{")
    register(b"[" * 100_000)
    register(good, "x.gz.metadata.json.gz")
    for location in (f"s3://{LAKE}/none/metadata/x.metadata.json", "s3://other/metadata/x.metadata.json", "x"):
        with pytest.raises(exceptions.BadRequestError):
            catalog.register_table((namespace, "u"), location)
    assert not catalog.table_exists((namespace, "u"))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"[" * 100_000, b'{"updates": [{"action": "no-such"}]}', b'{"requirements": 1}', b"\xff",
             b'{"updates": [{"action": "remove-properties", "removals": ["none"]}]}',
             b'{"updates": [{"action": "set-current-schema", "schema-id": 9}]}'],
)  # fmt: skip
def test_requests_that_cannot_be_read(catalog: Any, namespace: str, body: bytes) -> None:
    catalog.create_table((namespace, "t"), schema=rows(0).schema)
    url = catalog.url("namespaces/{namespace}/tables/t", namespace=namespace)
    before = catalog.load_table((namespace, "t")).metadata
    status = catalog._session.post(url, data=body).status_code
    # A commit of nothing changes nothing.
    assert status == (200 if body == b"" else 400)
    assert catalog.load_table((namespace, "t")).metadata == before


def test_a_version_of_the_format_that_cannot_be_written(catalog: Any, namespace: str) -> None:
    for staged in (False, True):
        order = {
            "name": "t", "schema": {"type": "struct", "fields": []}, "properties": {"format-version": "3"},
            "stage-create": staged,
        }  # fmt: skip
        answer = catalog._session.post(catalog.url("namespaces/{namespace}/tables", namespace=namespace), json=order)
        assert (answer.status_code, "version 1 or 2" in answer.json()["error"]["message"]) == (400, True)
    assert catalog.list_tables(namespace) == []


def test_names_that_cannot_be(catalog: Any, namespace: str) -> None:
    for name in ("a\nb", "x" * 256, "\0"):
        with pytest.raises(exceptions.BadRequestError):
            catalog.create_namespace((namespace, name))
        with pytest.raises(exceptions.BadRequestError):
            catalog.create_table((namespace, name), schema=rows(0).schema)
    with pytest.raises(exceptions.BadRequestError):
        catalog.create_namespace(tuple("a" * 17))


def test_buckets_that_are_no_warehouses(server: orcas.Server, catalog: Any) -> None:
    server.client().create_bucket(Bucket="plain")
    for bucket in ("plain", "there-is-none"):
        with pytest.raises(exceptions.RESTError, match="arehouse"):
            catalog_of(server, warehouse=bucket)
        answer = catalog._session.post(
            f"{server.endpoint}/_orcas/iceberg/v1/{bucket}/namespaces", json={"namespace": ["n"]}
        )
        assert answer.status_code == 404
    assert catalog_of(server, warehouse=f"s3://{LAKE}/").properties["prefix"] == LAKE


def test_a_fork_is_no_warehouse_of_its_own(server: orcas.Server, catalog: Any) -> None:
    orcas.buckets.fork(server.client(), LAKE, "copied-lake")
    with pytest.raises(exceptions.BadRequestError, match="copy of the warehouse lake"):
        catalog_of(server, warehouse="copied-lake")
