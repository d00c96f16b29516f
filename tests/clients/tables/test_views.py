"""Views, through pyiceberg where it has them, and by requests where it has not: replacing and renaming."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.clients.tables.lake import LAKE, catalog_of, may, rows, user
from tests.fixtures.clients import package
from tests.fixtures.targets import keys_of

import orcas

exceptions = package("pyiceberg.exceptions")
schemas = package("pyiceberg.schema")
types = package("pyiceberg.types")
metadata = package("pyiceberg.view.metadata")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def version(sql: str, schema: int = 0, **dialects: str) -> Any:
    shown = [{"type": "sql", "sql": text, "dialect": name} for name, text in {"spark": sql, **dialects}.items()]
    return metadata.ViewVersion(
        schema_id=schema, representations=shown, summary={"by": "test"}, default_namespace=("n",), timestamp_ms=1
    )


def schema(*names: str) -> Any:
    fields = (types.NestedField(number, name, types.LongType()) for number, name in enumerate(names, 1))
    return schemas.Schema(*fields)


def replace(catalog: Any, name: tuple[str, str], *updates: dict[str, Any], **others: Any) -> Any:
    url = catalog.url("namespaces/{namespace}/views/{view}", namespace=name[0], view=name[1])
    return catalog._session.post(url, json={"updates": updates, "requirements": [], **others})


def new_version(sql: str, schema: int = -1) -> dict[str, Any]:
    return {"action": "add-view-version", "view-version": version(sql, schema).model_dump(by_alias=True, mode="json")}


CURRENT = {"action": "set-current-view-version", "view-version-id": -1}


def test_a_view(server: orcas.Server, catalog: Any, namespace: str) -> None:
    # pyiceberg creates views of other names percent-encoded.
    name = (namespace, "v")
    made = catalog.create_view(name, schema("n"), version("SELECT 1", trino="SELECT 2"), properties={"a": "b"})
    found = catalog.load_view(name)
    assert found == made
    assert found.sql_for("spark").sql == "SELECT 1"
    assert found.sql_for("trino").sql == "SELECT 2"
    assert (found.properties, found.current_version().schema_id) == ({"a": "b"}, found.schema().schema_id)
    assert catalog.view_exists(name)
    assert catalog.list_views(namespace) == [name]
    assert catalog.list_tables(namespace) == []
    with pytest.raises(exceptions.ViewAlreadyExistsError):
        catalog.create_view(name, schema("n"), version("SELECT 1"))
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    place = found.location().removeprefix(f"s3://{LAKE}/")
    [file] = [key for key in keys_of(server.client(), LAKE) if key.startswith(f"{place}/")]
    catalog.drop_view(name)
    assert not catalog.view_exists(name)
    for absent in (lambda: catalog.load_view(name), lambda: catalog.drop_view(name)):
        with pytest.raises(exceptions.NoSuchViewError):
            absent()
    again = catalog.register_view((namespace, "again"), f"s3://{LAKE}/{file}")
    assert again.metadata == found.metadata


def test_versions_of_a_view(catalog: Any, namespace: str) -> None:
    name = (namespace, "v")
    first = catalog.create_view(name, schema("n"), version("SELECT 1"))
    wide = {
        "action": "add-schema",
        "schema": schema("n", "m").model_dump(by_alias=True, mode="json"),
        "last-column-id": 2,
    }
    mine = [{"type": "assert-view-uuid", "uuid": str(first.uuid())}]
    answer = replace(catalog, name, wide, new_version("SELECT 2"), CURRENT, requirements=mine)
    assert answer.status_code == 200, answer.text
    second = catalog.load_view(name)
    assert (second.sql_for("spark").sql, second.schema().column_names) == ("SELECT 2", ["n", "m"])
    assert (second.uuid(), len(second.versions), len(second.history())) == (first.uuid(), 2, 2)
    back = {"action": "set-current-view-version", "view-version-id": 1}
    changes = (
        {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
        {"action": "remove-properties", "removals": ["a"]},
    )
    assert replace(catalog, name, back, *changes).status_code == 200
    third = catalog.load_view(name)
    assert (third.sql_for("spark").sql, third.schema().column_names, third.properties) == (
        "SELECT 1",
        ["n"],
        {"b": "2"},
    )
    for number in range(15):
        assert replace(catalog, name, new_version(f"SELECT {number}", 0), CURRENT).status_code == 200
    last = catalog.load_view(name)
    assert (last.sql_for("spark").sql, len(last.versions), len(last.history())) == ("SELECT 14", 10, 10)


@pytest.mark.parametrize(
    ("updates", "status"),
    [
        ([{"action": "set-current-view-version", "view-version-id": 7}], 400),
        ([CURRENT], 400), ([new_version("SELECT 2")], 400), ([new_version("SELECT 2", 7)], 400),
        ([{"action": "set-location", "location": "s3://lake/elsewhere"}], 400), ([{"action": "no-such"}], 400),
        ([{"action": "set-properties", "updates": {"s3.endpoint": "http://example.com"}}], 400),
        ([{"action": "set-properties", "updates": {"version.history.num-entries": "many"}}], 400),
        ([{"action": "assign-uuid", "uuid": str(uuid.uuid4())}], 400),
        ([{"action": "upgrade-format-version", "format-version": 2}], 400),
        ([{"action": "remove-snapshots", "snapshot-ids": [1]}], 400),
    ],
)  # fmt: skip
def test_changes_that_cannot_be(catalog: Any, namespace: str, updates: list[Any], status: int) -> None:
    before = catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1"))
    assert replace(catalog, (namespace, "v"), *updates).status_code == status
    assert catalog.load_view((namespace, "v")) == before


def test_views_that_cannot_be(catalog: Any, namespace: str) -> None:
    with pytest.raises(exceptions.BadRequestError, match="multiple queries for dialect"):
        catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1", SPARK="SELECT 2"))
    with pytest.raises(exceptions.BadRequestError):
        catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1"), location="s3://other/v")
    with pytest.raises(exceptions.RESTError, match="Namespace does not exist: nobody"):
        catalog.create_view(("nobody", "v"), schema("n"), version("SELECT 1"))
    other = [{"type": "assert-view-uuid", "uuid": str(uuid.uuid4())}]
    catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1"))
    assert replace(catalog, (namespace, "v"), requirements=other).status_code == 409
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    # A table is no view, nor the other way round.
    url = catalog.url("namespaces/{namespace}/register-view", namespace=namespace)
    answer = catalog._session.post(url, json={"name": "u", "metadata-location": table.metadata_location})
    assert answer.status_code == 400
    assert catalog.list_views(namespace) == [(namespace, "v")]


def test_a_name_is_that_of_a_table_or_of_a_view(catalog: Any, namespace: str) -> None:
    catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1"))
    catalog.create_table((namespace, "t"), schema=rows(0).schema)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.create_table((namespace, "v"), schema=rows(0).schema)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.create_table_transaction((namespace, "v"), schema=rows(0).schema)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.rename_table((namespace, "t"), (namespace, "v"))
    with pytest.raises(exceptions.ViewAlreadyExistsError):
        catalog.create_view((namespace, "t"), schema("n"), version("SELECT 1"))


def renamed(catalog: Any, source: tuple[str, str], target: tuple[str, str]) -> int:
    body = {
        which: {"namespace": [name[0]], "name": name[1]}
        for which, name in (("source", source), ("destination", target))
    }
    return int(catalog._session.post(catalog.url("views/rename"), json=body).status_code)


def test_renamed_views(catalog: Any, namespace: str) -> None:
    for name in ("v", "w"):
        catalog.create_view((namespace, name), schema("n"), version(f"SELECT '{name}'"))
    catalog.create_table((namespace, "t"), schema=rows(0).schema)
    assert renamed(catalog, (namespace, "v"), (namespace, "x")) == 204
    assert renamed(catalog, (namespace, "v"), (namespace, "y")) == 404
    assert renamed(catalog, (namespace, "w"), (namespace, "x")) == 409
    assert renamed(catalog, (namespace, "w"), (namespace, "t")) == 409
    assert renamed(catalog, (namespace, "w"), ("nobody", "w")) == 404
    assert set(catalog.list_views(namespace)) == {(namespace, "w"), (namespace, "x")}
    assert catalog.load_view((namespace, "x")).sql_for("spark").sql == "SELECT 'v'"
    assert replace(catalog, (namespace, "x"), new_version("SELECT 2", 0), CURRENT).status_code == 200


def test_who_may_use_views(server: orcas.Server, catalog: Any, namespace: str) -> None:
    catalog.create_view((namespace, "v"), schema("n"), version("SELECT 1"))
    sees = may("s3tables:GetTableBucket", "arn:aws:s3tables:*:*:bucket/lake")
    own = f"arn:aws:s3tables:*:*:bucket/lake/table/{namespace}/v"
    reader = catalog_of(server, user(server, sees, may("s3tables:GetTableMetadataLocation", own)))
    assert reader.load_view((namespace, "v")).sql_for("spark").sql == "SELECT 1"
    for denied in (
        lambda: reader.drop_view((namespace, "v")), lambda: reader.list_views(namespace),
        lambda: reader.create_view((namespace, "w"), schema("n"), version("SELECT 1")),
        lambda: reader.view_exists((namespace, "v")), lambda: reader.load_view((namespace, "w")),
    ):  # fmt: skip
        with pytest.raises(exceptions.ForbiddenError):
            denied()
    assert replace(reader, (namespace, "v"), new_version("SELECT 2", 0), CURRENT).status_code == 403
    assert renamed(reader, (namespace, "v"), (namespace, "w")) == 403
