"""Who may do what with the catalog of tables: strangers, users and their policies, and keys for files."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from tests.clients.tables.lake import LAKE, catalog_of, may, numbers, rows, signing, user
from tests.fixtures.clients import package

import orcas
from orcas.http.signing import Keys, sign

exceptions = package("pyiceberg.exceptions")
requests = package("requests")
table_of = package("pyiceberg.table")
updates = package("pyiceberg.table.update")

# The tables of a namespace.
OF_NAMESPACE = "arn:aws:s3tables:*:*:bucket/lake/table/{}/*"

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("credential", ["nobody:secret-of-nobody", "nobody", "a/b:c"])
def test_strangers(server: orcas.Server, credential: str) -> None:
    with pytest.raises((exceptions.OAuthError, exceptions.UnauthorizedError)):
        catalog_of(server, credential)


@pytest.mark.parametrize("header", ["", "Bearer x", "Bearer e30", "Basic eDp5", "Bearer WyJhIiwiYiIsImMiXQ"])
def test_requests_without_a_valid_token(server: orcas.Server, header: str) -> None:
    url = f"{server.endpoint}/_orcas/iceberg/v1/{LAKE}/namespaces"
    answer = requests.get(url, headers={"Authorization": header}, timeout=60)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "NotAuthorizedException"


def signed(server: orcas.Server, method: str, path: str, body: bytes, secret: str, service: str = "s3") -> Any:
    """The answer to a request that says the SHA-256 of its body. Iceberg's clients sign paths percent-encoded once more."""
    host, path = server.endpoint.removeprefix("http://"), f"/_orcas/iceberg/v1/{LAKE}/{path}"
    keys, digest = Keys(server.access_key, secret), hashlib.sha256(body).hexdigest()
    given = [("host", host)]
    given += sign(keys, server.region, service, (method, quote(path, safe="/~"), ""), given, digest)
    return requests.request(method, server.endpoint + path, data=body, headers=dict(given), timeout=60)


def test_signatures(server: orcas.Server, catalog: Any, namespace: str) -> None:
    body = json.dumps({"namespace": [namespace, "a/b c"]}).encode()
    assert signed(server, "POST", "namespaces", body, server.secret_key).status_code == 200
    below = f"namespaces/{namespace}%1Fa%2Fb%20c"
    assert signed(server, "GET", below, b"", server.secret_key).json()["namespace"] == [namespace, "a/b c"]
    assert signed(server, "GET", below, b"", "another-secret").status_code == 401
    assert signed(server, "GET", below, b"", server.secret_key, "s3tables").status_code == 200
    assert signed(server, "GET", below, b"", "another-secret", "s3tables").status_code == 401
    assert signed(server, "GET", below, b"", server.secret_key, "iam").status_code == 401
    assert catalog.namespace_exists((namespace, "a/b c"))


@pytest.mark.parametrize("service", ["s3", "s3tables"])
def test_a_client_that_signs(server: orcas.Server, namespace: str, service: str) -> None:
    mine = signing(server, **{"rest.signing-name": service})
    mine.create_namespace((namespace, "a b/ü"))
    assert mine.list_namespaces((namespace,)) == [(namespace, "a b/ü")]
    name = (namespace, "a b/ü", f"t+{service}")
    table = mine.create_table(name, schema=rows(0).schema)
    table.append(rows(0))
    assert numbers(mine.load_table(name)) == list(range(10))


def test_a_client_that_signs_with_a_session(server: orcas.Server, namespace: str) -> None:
    given = server.client("sts").get_session_token()["Credentials"]
    keys = {
        "access-key-id": given["AccessKeyId"], "secret-access-key": given["SecretAccessKey"],
        "session-token": given["SessionToken"],
    }  # fmt: skip
    assert (namespace,) in signing(server, keys).list_namespaces()
    with pytest.raises(exceptions.UnauthorizedError):
        signing(server, {**keys, "session-token": "x"})


def test_signatures_that_are_refused(server: orcas.Server, namespace: str) -> None:
    with pytest.raises(exceptions.UnauthorizedError, match="SignatureDoesNotMatch"):
        signing(server, {"access-key-id": server.access_key, "secret-access-key": "another"})
    with pytest.raises(exceptions.UnauthorizedError, match="not signed for s3 or s3tables"):
        signing(server, **{"rest.signing-name": "execute-api"})
    # A body that is not the one that was signed, which the head does not say.
    url, keys = f"{server.endpoint}/_orcas/iceberg/v1/{LAKE}/namespaces", signing(server)._session
    request = requests.Request("POST", url, json={"namespace": [namespace, "signed"]})
    adapter, prepared = keys.get_adapter(url), keys.prepare_request(request)
    adapter.add_headers(prepared)
    assert "x-amz-content-sha256" not in prepared.headers
    forged = prepared.body.replace(b"signed", b"forged")
    assert requests.post(url, data=forged, headers=prepared.headers, timeout=60).status_code == 401
    assert requests.post(url, data=prepared.body, headers=prepared.headers, timeout=60).status_code == 200


def test_signatures_for_another_region() -> None:
    with orcas.Server(memory=True, warehouse=LAKE, strict_region=True, region="eu-central-1") as strict:
        assert signing(strict).list_namespaces() == []
        with pytest.raises(exceptions.UnauthorizedError, match="us-east-1"):
            signing(strict, **{"rest.signing-region": "us-east-1"})


class Rights:
    """What users with one policy may do."""

    def __init__(self, server: orcas.Server, catalog: Any, namespace: str) -> None:
        self.server, self.root, self.namespace = server, catalog, namespace
        catalog.create_table((namespace, "t"), schema=rows(0).schema).append(rows(0))

    def catalog(self, *statements: dict[str, Any]) -> Any:
        sees = may("s3tables:GetTableBucket", "arn:aws:s3tables:*:*:bucket/lake")
        return catalog_of(self.server, user(self.server, sees, *statements))


@pytest.fixture
def rights(server: orcas.Server, catalog: Any, namespace: str) -> Rights:
    return Rights(server, catalog, namespace)


def test_a_user_without_rights(server: orcas.Server, rights: Rights) -> None:
    with pytest.raises(exceptions.ForbiddenError):
        catalog_of(server, user(server))
    name, mine = (rights.namespace, "t"), rights.catalog()
    schema = rows(0).schema
    tried: list[Callable[[], Any]] = [
        lambda: mine.load_table(name), lambda: mine.list_tables(rights.namespace), lambda: mine.list_namespaces(),
        lambda: mine.create_namespace("mine"), lambda: mine.create_table((rights.namespace, "u"), schema=schema),
        lambda: mine.drop_table(name), lambda: mine.purge_table(name), lambda: mine.table_exists(name),
        lambda: mine.rename_table(name, (rights.namespace, "u")), lambda: mine.drop_namespace(rights.namespace),
        lambda: mine.load_namespace_properties(rights.namespace), lambda: mine.load_table(("nobody", "t")),
        lambda: mine.register_table((rights.namespace, "u"), f"s3://{LAKE}/x/metadata/1.metadata.json"),
        lambda: mine.update_namespace_properties(rights.namespace, updates={"a": "1"}),
    ]  # fmt: skip
    for each in tried:
        with pytest.raises(exceptions.ForbiddenError):
            each()


def test_a_reader(rights: Rights) -> None:
    own = OF_NAMESPACE.format(rights.namespace)
    mine = rights.catalog(may(["s3tables:GetTableMetadataLocation", "s3tables:GetTableData"], own))
    table = mine.load_table((rights.namespace, "t"))
    assert numbers(table) == list(range(10))
    with pytest.raises((OSError, exceptions.ForbiddenError)):
        table.append(rows(10))
    # Whoever sees metadata alone gets no keys.
    seen = rights.catalog(may("s3tables:GetTableMetadataLocation", own)).load_table((rights.namespace, "t"))
    assert "s3.access-key-id" not in seen.io.properties


def test_a_writer_of_one_namespace(rights: Rights) -> None:
    rights.root.create_namespace((rights.namespace, "other"))
    rights.root.create_table((rights.namespace, "other", "t"), schema=rows(0).schema)
    mine = rights.catalog(may("s3tables:*", OF_NAMESPACE.format(rights.namespace)))
    table = mine.load_table((rights.namespace, "t"))
    table.append(rows(10))
    with mine.create_table_transaction((rights.namespace, "new"), schema=rows(0).schema) as creating:
        creating.append(rows(0))
    assert numbers(mine.load_table((rights.namespace, "new"))) == list(range(10))
    with pytest.raises(exceptions.ForbiddenError):
        mine.load_table((rights.namespace, "other", "t"))
    with pytest.raises(exceptions.ForbiddenError):
        mine.rename_table((rights.namespace, "t"), (rights.namespace, "other", "u"))


def test_rights_by_conditions(rights: Rights) -> None:
    condition = {"StringEquals": {"s3tables:namespace": rights.namespace}}
    mine = rights.catalog({**may("s3tables:*", "*"), "Condition": condition})
    assert mine.list_tables(rights.namespace) == [(rights.namespace, "t")]
    with pytest.raises(exceptions.ForbiddenError):
        mine.list_namespaces()


def test_keys_reach_one_table(server: orcas.Server, catalog: Any, namespace: str) -> None:
    one, other = (catalog.create_table((namespace, name), schema=rows(0).schema) for name in ("one", "other"))
    config = one.io.properties
    client = server.client(
        aws_access_key_id=config["s3.access-key-id"], aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config["s3.session-token"],
    )  # fmt: skip
    place = one.location().removeprefix(f"s3://{LAKE}/")
    client.put_object(Bucket=LAKE, Key=f"{place}/data/x", Body=b"x")
    assert client.list_objects_v2(Bucket=LAKE, Prefix=f"{place}/")["KeyCount"] == 2
    elsewhere = [other.metadata_location.removeprefix(f"s3://{LAKE}/"), ".iceberg/warehouse.json", f"{place}x/y"]
    for key in elsewhere:
        for forbidden in (
            lambda key=key: client.get_object(Bucket=LAKE, Key=key),
            lambda key=key: client.put_object(Bucket=LAKE, Key=key, Body=b""),
            lambda key=key: client.delete_object(Bucket=LAKE, Key=key),
            lambda key=key: client.list_objects_v2(Bucket=LAKE, Prefix=key),
        ):
            with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
                forbidden()


def test_a_location_needs_rights_to_its_objects(rights: Rights) -> None:
    mine = rights.catalog(may("s3tables:*", OF_NAMESPACE.format(rights.namespace)))
    taken = rights.root.load_table((rights.namespace, "t"))
    for location in (f"s3://{LAKE}/free", taken.location()):
        with pytest.raises(exceptions.ForbiddenError):
            mine.create_table((rights.namespace, "new"), schema=rows(0).schema, location=location)
        with pytest.raises(exceptions.ForbiddenError):
            mine.create_table_transaction(
                (rights.namespace, "new"), schema=rows(0).schema, location=location
            ).commit_transaction()
    with pytest.raises(exceptions.ForbiddenError):
        mine.register_table((rights.namespace, "new"), taken.metadata_location)
    # Not even a commit without a stage before it.
    assign = updates.AssignUUIDUpdate(uuid=uuid.uuid4())
    order = table_of.CommitTableRequest(
        identifier={"namespace": [rights.namespace], "name": "new"}, requirements=(updates.AssertCreate(),),
        updates=(assign, updates.SetLocationUpdate(location=taken.location())),
    )  # fmt: skip
    url = mine.url("namespaces/{namespace}/tables/new", namespace=rights.namespace)
    assert mine._session.post(url, data=order.model_dump_json()).status_code == 403
    given = rights.catalog(may("s3tables:*", "*"), may("s3:*", f"arn:aws:s3:::{LAKE}/free/*"))
    table = given.create_table((rights.namespace, "new"), schema=rows(0).schema, location=f"s3://{LAKE}/free/t")
    table.append(rows(0))
    assert table.location() == f"s3://{LAKE}/free/t"
