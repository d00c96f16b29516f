"""The API of S3 Tables, as boto3's client sends it, beside pyiceberg on the same tables."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from tests.clients.tables.lake import LAKE, catalog_of, may, numbers, rows, user
from tests.fixtures.clients import package
from tests.fixtures.targets import keys_of

import orcas
from orcas.http.signing import Keys, sign

metadata = package("pyiceberg.table.metadata")
partitioning = package("pyiceberg.partitioning")
requests = package("requests")
schema = package("pyiceberg.schema")
sorting = package("pyiceberg.table.sorting")
types = package("pyiceberg.types")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

SCHEMA = {"fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string", "required": False}]}


@pytest.fixture(scope="module")
def account(server: orcas.Server) -> str:
    return str(server.client("sts").get_caller_identity()["Account"])


@pytest.fixture
def client(server: orcas.Server) -> Iterator[Any]:
    made = server.client("s3tables")
    yield made
    made.close()


@pytest.fixture
def lake(account: str) -> str:
    """The ARN of the warehouse."""
    return f"arn:aws:s3tables:us-east-1:{account}:bucket/{LAKE}"


@pytest.fixture
def new_bucket(client: Any) -> str:
    """The ARN of a new table bucket."""
    return str(client.create_table_bucket(name=f"b-{uuid.uuid4().hex[:8]}")["arn"])


def create(client: Any, bucket: str, namespace: str, name: str, **iceberg: Any) -> dict[str, Any]:
    made: dict[str, Any] = client.create_table(
        tableBucketARN=bucket, namespace=namespace, name=name, format="ICEBERG",
        metadata={"iceberg": {"schema": SCHEMA} | iceberg},
    )  # fmt: skip
    return made


def refused(code: str, call: Callable[..., Any], **given: Any) -> str:
    """What is said by the refusal with this code."""
    with pytest.raises(ClientError) as caught:
        call(**given)
    error = caught.value.response["Error"]
    assert error["Code"] == code, error
    return str(error["Message"])


def quoted(arn: str) -> str:
    return quote(arn, safe="")


def sent(server: orcas.Server, method: str, path: str, body: bytes, query: str = "") -> int:
    """The status of a request that boto3 would not send."""
    path, digest = f"/_orcas/s3tables/{path}", hashlib.sha256(body).hexdigest()
    given = [("host", server.endpoint.removeprefix("http://"))]
    target, keys = (method, quote(path, safe="/~"), query), Keys(server.access_key, server.secret_key)
    given += sign(keys, server.region, "s3tables", target, given, digest)
    url = f"{server.endpoint}{path}{'?' if query else ''}{query}"
    return int(requests.request(method, url, data=body, headers=dict(given), timeout=60).status_code)


def pages(client: Any, name: str, entries: str, size: int, **given: Any) -> tuple[int, list[Any]]:
    """How many pages a list has, and its entries."""
    found = list(client.get_paginator(name).paginate(PaginationConfig={"PageSize": size}, **given))
    return len(found), [each for page in found for each in page[entries]]


def test_table_buckets(server: orcas.Server, client: Any, account: str, lake: str) -> None:
    made = client.create_table_bucket(name="made-here")["arn"]
    assert made == lake.replace(f"/{LAKE}", "/made-here")
    found = client.get_table_bucket(tableBucketARN=made)
    assert (found["name"], found["arn"], found["ownerAccountId"]) == ("made-here", made, account)
    assert catalog_of(server, warehouse="made-here").list_namespaces() == []
    server.client().create_bucket(Bucket="made-plain")
    _, listed = pages(client, "list_table_buckets", "tableBuckets", 1, prefix="made-")
    assert [(each["arn"], each["createdAt"]) for each in listed] == [(made, found["createdAt"])]
    count, listed = pages(client, "list_table_buckets", "tableBuckets", 1)
    assert {made, lake} <= {each["arn"] for each in listed}
    assert count >= len(listed) >= 2
    assert client.list_table_buckets(type="aws")["tableBuckets"] == []
    for name in ("made-here", "made-plain"):
        assert "orcas table warehouse create" in refused("ConflictException", client.create_table_bucket, name=name)
    client.delete_table_bucket(tableBucketARN=made)
    assert "made-here" not in {each["Name"] for each in server.client().list_buckets()["Buckets"]}
    refused("NotFoundException", client.get_table_bucket, tableBucketARN=made)


def test_a_table_bucket_that_was_half_made(server: orcas.Server, client: Any, account: str, lake: str) -> None:
    """As a server leaves it that is killed in between: a bucket with a tag, which is no warehouse yet."""
    s3 = server.client()

    def half_made(name: str, tag: str) -> str:
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": [{"Key": tag, "Value": ""}]})
        arn = lake.replace(f"/{LAKE}", f"/{name}")
        refused("NotFoundException", client.get_table_bucket, tableBucketARN=arn)
        return arn

    mine, other = half_made("half-made", "orcas:table-bucket"), half_made("half-other", "another")
    assert client.create_table_bucket(name="half-made")["arn"] == mine
    client.create_namespace(tableBucketARN=mine, namespace=["n"])
    refused("ConflictException", client.create_table_bucket, name="half-made")
    refused("ConflictException", client.create_table_bucket, name="half-other")
    refused("NotFoundException", client.get_table_bucket, tableBucketARN=other)
    # The tag is gone with that.
    client.create_table_bucket(name="half-none")
    for name in ("half-made", "half-none"):
        with pytest.raises(ClientError, match="NoSuchTagSet"):
            s3.get_bucket_tagging(Bucket=name)


def test_only_an_empty_table_bucket_is_deleted(server: orcas.Server, client: Any, new_bucket: str) -> None:
    bucket, s3 = new_bucket.rpartition("/")[2], server.client()

    def kept() -> str:
        said = refused("ConflictException", client.delete_table_bucket, tableBucketARN=new_bucket)
        client.get_table_bucket(tableBucketARN=new_bucket)
        return said

    client.create_namespace(tableBucketARN=new_bucket, namespace=["n"])
    assert "not empty" in kept()
    client.delete_namespace(tableBucketARN=new_bucket, namespace="n")
    s3.put_object(Bucket=bucket, Key="other", Body=b"x")
    assert "not empty" in kept()
    s3.delete_object(Bucket=bucket, Key="other")
    url = f"{server.endpoint}/_orcas/iceberg/branches/{bucket}@b"
    session = catalog_of(server, warehouse=bucket)._session
    assert session.post(url, json={}).status_code == 201
    assert "orcas table branch drop" in kept()
    branch = f"{new_bucket}@b"
    assert client.list_namespaces(tableBucketARN=branch)["namespaces"] == []
    assert "branch" in refused("BadRequestException", client.delete_table_bucket, tableBucketARN=branch)
    assert session.delete(url).status_code == 200
    # What is there is all that counts, but a bucket keeps its versions.
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert "versions" in kept()


def test_namespaces(client: Any, account: str, new_bucket: str) -> None:
    made = client.create_namespace(tableBucketARN=new_bucket, namespace=["a"])
    assert (made["tableBucketARN"], made["namespace"]) == (new_bucket, ["a"])
    for name in ("a.b", "c%20d"):
        client.create_namespace(tableBucketARN=new_bucket, namespace=[name])
    refused("ConflictException", client.create_namespace, tableBucketARN=new_bucket, namespace=["a"])
    refused("NotFoundException", client.create_namespace, tableBucketARN=new_bucket, namespace=["none.b"])
    count, listed = pages(client, "list_namespaces", "namespaces", 2, tableBucketARN=new_bucket)
    assert (count, [each["namespace"] for each in listed]) == (2, [["a"], ["a.b"], ["c%20d"]])
    for each in listed:
        [name] = each["namespace"]
        found = client.get_namespace(tableBucketARN=new_bucket, namespace=name)
        assert (found["namespace"], found["createdBy"], found["ownerAccountId"]) == ([name], account, account)
    some = client.list_namespaces(tableBucketARN=new_bucket, prefix="a.")["namespaces"]
    assert [each["namespace"] for each in some] == [["a.b"]]
    refused("ConflictException", client.delete_namespace, tableBucketARN=new_bucket, namespace="a")
    client.delete_namespace(tableBucketARN=new_bucket, namespace="a.b")
    refused("NotFoundException", client.get_namespace, tableBucketARN=new_bucket, namespace="a.b")


def test_a_table_that_pyiceberg_reads(client: Any, catalog: Any, lake: str, namespace: str, account: str) -> None:
    made = client.create_table(
        tableBucketARN=lake, namespace=namespace, name="t", format="ICEBERG",
        metadata={"iceberg": {
            "schema": {"fields": [{"id": 7, **SCHEMA["fields"][0]}, {"id": 9, **SCHEMA["fields"][1]}]},
            "partitionSpec": {"fields": [{"sourceId": 9, "transform": "identity", "name": "s"}]},
            "writeOrder": {"orderId": 1, "fields": [
                {"sourceId": 7, "transform": "identity", "direction": "desc", "nullOrder": "nulls-last"},
            ]},
            "properties": {"a": "1"},
        }},
    )  # fmt: skip
    table = catalog.load_table((namespace, "t"))
    assert [(field.name, str(field.field_type)) for field in table.schema().fields] == [("n", "long"), ("s", "string")]
    assert [field.name for field in table.spec().fields] == ["s"]
    assert table.sort_order().fields[0].direction.name == "DESC"
    assert table.properties["a"] == "1"
    found = client.get_table(tableBucketARN=lake, namespace=namespace, name="t")
    assert (found["tableARN"], found["versionToken"]) == (made["tableARN"], made["versionToken"])
    assert made["tableARN"] == f"{lake}/table/{namespace}/t"
    assert (found["metadataLocation"], found["warehouseLocation"]) == (table.metadata_location, table.location())
    assert (found["name"], found["namespace"], found["type"], found["format"]) == (
        "t",
        [namespace],
        "customer",
        "ICEBERG",
    )
    assert {found[name] for name in ("createdBy", "modifiedBy", "ownerAccountId")} == {account}
    table.append(rows(0))
    after = client.get_table(tableArn=made["tableARN"])
    assert after["metadataLocation"] == table.metadata_location
    assert after["versionToken"] != found["versionToken"]
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(10))


def test_columns_with_types_of_their_own(client: Any, catalog: Any, lake: str, namespace: str) -> None:
    inner = {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "double", "required": True}]}
    schema = {
        "type": "struct", "identifierFieldIds": [1],
        "fields": [
            {"id": 1, "name": "n", "type": "long", "required": True, "doc": "a number"},
            {"id": 2, "name": "at", "type": inner, "required": False},
        ],
    }  # fmt: skip
    metadata = {"iceberg": {"schemaV2": schema}}
    client.create_table(tableBucketARN=lake, namespace=namespace, name="t", format="ICEBERG", metadata=metadata)
    known = catalog.load_table((namespace, "t")).schema()
    assert (known.identifier_field_names(), known.find_field("at.x").field_id) == ({"n"}, 3)
    assert known.find_field("n").doc == "a number"


def test_tables_that_pyiceberg_makes(client: Any, catalog: Any, lake: str, namespace: str) -> None:
    catalog.create_namespace((namespace, "a b"))
    names = [(namespace, "t1"), (namespace, "t2"), (namespace, "x.y/z"), (namespace, "a b", "t")]
    for name in names:
        catalog.create_table(name, schema=rows(0).schema)
    count, listed = pages(client, "list_tables", "tables", 2, tableBucketARN=lake, namespace=namespace)
    assert (count, [each["name"] for each in listed]) == (2, ["t1", "t2", "x%2Ey%2Fz"])
    some = client.list_tables(tableBucketARN=lake, namespace=namespace, prefix="t")["tables"]
    assert [each["name"] for each in some] == ["t1", "t2"]
    _, listed = pages(client, "list_tables", "tables", 3, tableBucketARN=lake)
    mine = [each for each in listed if each["namespace"][0].partition(".")[0] == namespace]
    assert (*mine[0]["namespace"], mine[0]["name"]) == (f"{namespace}.a%20b", "t")
    locations = set()
    for each in mine:
        by_arn = client.get_table(tableArn=each["tableARN"])
        named = {"namespace": each["namespace"][0], "name": each["name"]}
        by_name = client.get_table_metadata_location(tableBucketARN=lake, **named)
        assert by_arn["metadataLocation"] == by_name["metadataLocation"]
        assert by_arn["modifiedAt"] == each["modifiedAt"].replace(microsecond=0)
        locations.add(by_name["metadataLocation"])
    assert locations == {catalog.load_table(name).metadata_location for name in names}


def test_a_version_token_is_a_condition(
    server: orcas.Server, client: Any, catalog: Any, lake: str, namespace: str
) -> None:
    create(client, lake, namespace, "t")
    named: dict[str, Any] = {"tableBucketARN": lake, "namespace": namespace, "name": "t"}
    first = client.get_table_metadata_location(**named)
    table = catalog.load_table((namespace, "t"))
    table.append(rows(0))
    old = {"versionToken": first["versionToken"], "metadataLocation": first["metadataLocation"]}
    refused("ConflictException", client.update_table_metadata_location, **named, **old)
    refused("ConflictException", client.rename_table, **named, newName="u", versionToken=first["versionToken"])
    refused("ConflictException", client.delete_table, **named, versionToken=first["versionToken"])
    for token in ("x", '"', "ü", "a,b", "*", "x" * 5000):
        refused("ConflictException", client.rename_table, **named, newName="u", versionToken=token)
        refused("ConflictException", client.delete_table, **named, versionToken=token)
        refused("ConflictException", client.update_table_metadata_location, **named, **{**old, "versionToken": token})
    # Back to what it was, and on with a file that the client has written.
    now = client.get_table_metadata_location(**named)
    done = client.update_table_metadata_location(**named, **{**old, "versionToken": now["versionToken"]})
    assert (done["metadataLocation"], done["name"]) == (first["metadataLocation"], "t")
    assert numbers(catalog.load_table((namespace, "t"))) == []
    key = now["metadataLocation"].removeprefix(f"s3://{LAKE}/")
    own = f"{key.rpartition('/')[0]}/00007-own.metadata.json"
    server.client().copy_object(Bucket=LAKE, Key=own, CopySource={"Bucket": LAKE, "Key": key})
    location = f"s3://{LAKE}/{own}"
    last = client.update_table_metadata_location(**named, versionToken=done["versionToken"], metadataLocation=location)
    table = catalog.load_table((namespace, "t"))
    assert (table.metadata_location, numbers(table)) == (location, list(range(10)))
    table.append(rows(10))
    refused("ConflictException", client.delete_table, **named, versionToken=last["versionToken"])
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(20))


def test_a_table_without_columns(server: orcas.Server, client: Any, catalog: Any, lake: str, namespace: str) -> None:
    """As Java's catalog for S3 Tables makes one: it asks where, writes a metadata file of its own, and names that."""
    named: dict[str, Any] = {"tableBucketARN": lake, "namespace": namespace, "name": "t"}
    made = client.create_table(**named, format="ICEBERG")
    first = client.get_table_metadata_location(**named)
    assert first["versionToken"] == made["versionToken"]
    assert catalog.load_table((namespace, "t")).schema().fields == ()

    def updated(columns: Any, token: str) -> Any:
        written = metadata.new_table_metadata(
            columns, partitioning.UNPARTITIONED_PARTITION_SPEC, sorting.UNSORTED_SORT_ORDER, first["warehouseLocation"]
        )
        location = f"{first['warehouseLocation']}/metadata/00000-{uuid.uuid4()}.metadata.json"
        body = written.model_dump_json().encode()
        server.client().put_object(Bucket=LAKE, Key=location.removeprefix(f"s3://{LAKE}/"), Body=body)
        return client.update_table_metadata_location(**named, versionToken=token, metadataLocation=location)

    columns = schema.Schema(types.NestedField(1, "n", types.LongType()), types.NestedField(2, "s", types.StringType()))
    refused("ConflictException", updated, columns=columns, token="another")
    done = updated(columns, first["versionToken"])
    table = catalog.load_table((namespace, "t"))
    assert (table.metadata_location, table.location()) == (done["metadataLocation"], first["warehouseLocation"])
    # From now on it is that table.
    refused("BadRequestException", updated, columns=columns, token=done["versionToken"])
    table.append(rows(0))
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(10))
    client.delete_table(**named)


def test_metadata_of_others(server: orcas.Server, client: Any, catalog: Any, lake: str, namespace: str) -> None:
    for name in ("t", "u"):
        create(client, lake, namespace, name)
    named: dict[str, Any] = {"tableBucketARN": lake, "namespace": namespace, "name": "t"}
    mine = client.get_table_metadata_location(**named)
    other = client.get_table_metadata_location(**{**named, "name": "u"})
    folder = mine["metadataLocation"].rpartition("/")[0]
    s3 = server.client()

    def put(name: str, **changes: Any) -> str:
        key = mine["metadataLocation"].removeprefix(f"s3://{LAKE}/")
        told = json.loads(s3.get_object(Bucket=LAKE, Key=key)["Body"].read()) | changes
        location = f"{folder}/{name}.metadata.json"
        s3.put_object(Bucket=LAKE, Key=location.removeprefix(f"s3://{LAKE}/"), Body=json.dumps(told))
        return location

    for location in (
        other["metadataLocation"], f"{folder}/none.metadata.json", f"{folder}/../x.metadata.json", "x",
        f"{folder}/x.txt", "s3://other/t/metadata/x.metadata.json", f"s3://{LAKE}/.iceberg/metadata/x.metadata.json",
        put("uuid", **{"table-uuid": str(uuid.uuid4())}), put("place", location=f"s3://{LAKE}/elsewhere"),
        put("setting", properties={"s3.endpoint": "http://example.com"}), put("none", **{"current-schema-id": 9}),
    ):  # fmt: skip
        given = {"versionToken": mine["versionToken"], "metadataLocation": location}
        refused("BadRequestException", client.update_table_metadata_location, **named, **given)
    assert client.get_table_metadata_location(**named)["versionToken"] == mine["versionToken"]
    catalog.load_table((namespace, "t")).append(rows(0))


def test_renamed_and_deleted(server: orcas.Server, client: Any, catalog: Any, lake: str, namespace: str) -> None:
    create(client, lake, namespace, "t")
    create(client, lake, namespace, "taken")
    client.create_namespace(tableBucketARN=lake, namespace=[f"{namespace}.b"])
    named: dict[str, Any] = {"tableBucketARN": lake, "namespace": namespace, "name": "t"}
    refused("ConflictException", client.rename_table, **named, newName="taken")
    refused("NotFoundException", client.rename_table, **named, newNamespaceName="none")
    client.rename_table(**named, newNamespaceName=f"{namespace}.b", newName="u")
    refused("NotFoundException", client.get_table, **named)
    table = catalog.load_table((namespace, "b", "u"))
    table.append(rows(0))
    moved = {**named, "namespace": f"{namespace}.b", "name": "u"}
    token = client.get_table(**moved)["versionToken"]
    client.delete_table(**moved, versionToken=token)
    refused("NotFoundException", client.delete_table, **moved)
    # The catalog has made its place, so its files go with it.
    place = table.location()
    assert not [key for key in keys_of(server.client(), LAKE) if f"s3://{LAKE}/{key}".startswith(place)]
    given = catalog.create_table((namespace, "given"), schema=rows(0).schema, location=f"s3://{LAKE}/{namespace}/given")
    client.delete_table(**{**named, "name": "given"})
    assert given.metadata_location.removeprefix(f"s3://{LAKE}/") in keys_of(server.client(), LAKE)


def client_of(server: orcas.Server, *statements: dict[str, Any]) -> Any:
    """A client of a new user with these rights."""
    access_key, _, secret = user(server, *statements).partition(":")
    return server.client("s3tables", aws_access_key_id=access_key, aws_secret_access_key=secret)


def test_a_user_without_rights(server: orcas.Server, client: Any, lake: str, namespace: str) -> None:
    create(client, lake, namespace, "t")
    mine = client_of(server, may("s3:*", "*"))
    in_lake = {"tableBucketARN": lake}
    of = {**in_lake, "namespace": namespace}
    table, none = {**of, "name": "t"}, {**of, "name": "none"}
    token = client.get_table_metadata_location(**table)
    update = {name: token[name] for name in ("versionToken", "metadataLocation")}
    metadata = {"iceberg": {"schema": SCHEMA}}
    tried: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (mine.list_table_buckets, {}), (mine.get_table_bucket, in_lake), (mine.create_table_bucket, {"name": "theirs"}),
        (mine.delete_table_bucket, in_lake), (mine.create_namespace, {**in_lake, "namespace": ["theirs"]}),
        (mine.list_namespaces, in_lake), (mine.get_namespace, of), (mine.delete_namespace, of), (mine.list_tables, of),
        (mine.create_table, {**none, "format": "ICEBERG", "metadata": metadata}), (mine.get_table, table),
        # Neither do they learn what there is.
        (mine.get_table, none), (mine.get_table_bucket, {"tableBucketARN": lake.replace(LAKE, "there-is-none")}),
        (mine.rename_table, {**table, "newName": "u"}), (mine.delete_table, table), (mine.delete_table, none),
        (mine.get_table_metadata_location, table), (mine.update_table_metadata_location, {**table, **update}),
    ]  # fmt: skip
    for call, given in tried:
        assert "Not authorized to perform s3tables:" in refused("ForbiddenException", call, **given)
    assert "theirs" not in {each["Name"] for each in server.client().list_buckets()["Buckets"]}
    assert client.get_table_metadata_location(**table)["versionToken"] == token["versionToken"]


def test_a_user_of_one_namespace(server: orcas.Server, client: Any, lake: str, namespace: str) -> None:
    mine = client_of(server, may("s3tables:*", f"{lake}/table/{namespace}/*"))
    create(mine, lake, namespace, "t")
    named: dict[str, Any] = {"tableBucketARN": lake, "namespace": namespace, "name": "t"}
    now = mine.get_table_metadata_location(**named)
    given = {name: now[name] for name in ("versionToken", "metadataLocation")}
    mine.update_table_metadata_location(**named, **given)
    client.create_namespace(tableBucketARN=lake, namespace=[f"{namespace}.b"])
    refused("ForbiddenException", mine.rename_table, **named, newNamespaceName=f"{namespace}.b")
    refused("ForbiddenException", mine.get_table, **{**named, "namespace": f"{namespace}.b"})
    refused("ForbiddenException", mine.list_tables, tableBucketARN=lake, namespace=namespace)
    lists = may("s3tables:ListTables", lake) | {"Condition": {"StringEquals": {"s3tables:namespace": namespace}}}
    reader = client_of(server, lists)
    assert [each["name"] for each in reader.list_tables(tableBucketARN=lake, namespace=namespace)["tables"]] == ["t"]
    refused("ForbiddenException", reader.list_tables, tableBucketARN=lake)
    mine.delete_table(**named)


def test_wrong_signatures(server: orcas.Server, lake: str) -> None:
    wrong = server.client("s3tables", aws_secret_access_key="another")
    assert "SignatureDoesNotMatch" in refused("ForbiddenException", wrong.list_namespaces, tableBucketARN=lake)
    answer = requests.get(f"{server.endpoint}/_orcas/s3tables/buckets", timeout=60)
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (403, "ForbiddenException")


def test_what_there_is_not(client: Any, lake: str, namespace: str) -> None:
    in_lake = {"tableBucketARN": lake}
    table = {**in_lake, "namespace": namespace, "name": "t"}
    encryption = {"encryptionConfiguration": {"sseAlgorithm": "AES256"}}
    unsupported: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (client.get_table_bucket_policy, in_lake, "orcas policy create"),
        (client.put_table_policy, {**table, "resourcePolicy": "{}"}, "orcas policy create"),
        (client.get_table_bucket_maintenance_configuration, in_lake, "orcas table expire"),
        (client.get_table_maintenance_job_status, table, "orcas table orphans"),
        (client.put_table_bucket_encryption, {**in_lake, **encryption}, "PutBucketEncryption"),
        (client.create_table_bucket, {"name": "sealed", **encryption}, "PutBucketEncryption"),
        (client.create_table, {**table, "format": "ICEBERG", "tags": {"a": "b"}}, "PutBucketTagging"),
        (client.tag_resource, {"resourceArn": lake, "tags": {"a": "b"}}, "PutBucketTagging"),
        (client.get_table_bucket_replication, {"tableBucketARN": lake}, "orcas replication add"),
    ]  # fmt: skip
    for call, given, instead in unsupported:
        assert instead in refused("NotImplementedException", call, **given)
    refused("NotFoundException", client.get_table_bucket, tableBucketARN=lake.replace("bucket/lake", "bucket/sealed"))


@pytest.mark.parametrize(
    "arn",
    [
        "lake", "arn:aws:s3:::lake", "arn:aws:s3tables:us-east-1:{}:bucket/", "arn:aws:s3tables:us-east-1:{}:bucket/a/b",
        "arn:aws:s3tables:us-east-1:{}:bucket/../lake", "arn:aws:s3tables:us-east-1:{}:bucket/lake/table/a",
    ],
)  # fmt: skip
def test_arns_that_cannot_be(client: Any, account: str, arn: str) -> None:
    refused("BadRequestException", client.list_namespaces, tableBucketARN=arn.format(account))
    refused("BadRequestException", client.get_table, tableBucketARN=arn.format(account), namespace="n", name="t")


def test_table_buckets_of_others(client: Any, lake: str, account: str) -> None:
    other = lake.replace(account, "123456789012")
    assert "another account" in refused("ForbiddenException", client.list_tables, tableBucketARN=other)


@pytest.mark.parametrize("name", ["a\nb", "x" * 256, "a..b", "%00", "."])
def test_names_that_cannot_be(client: Any, lake: str, namespace: str, name: str) -> None:
    refused("BadRequestException", client.create_namespace, tableBucketARN=lake, namespace=[name])
    if "." not in name:
        given = {"tableBucketARN": lake, "namespace": namespace, "name": name}
        metadata = {"iceberg": {"schema": SCHEMA}}
        refused("BadRequestException", client.create_table, **given, format="ICEBERG", metadata=metadata)
        refused("BadRequestException", client.get_table, **given)
    for bucket in ("Upper", "-ab", "a_b", "192.168.0.1", "lake@b", "x" * 64):
        refused("BadRequestException", client.create_table_bucket, name=bucket)


@pytest.mark.parametrize(
    "iceberg",
    [
        {}, {"schema": {"fields": []}, "writeOrder": 1}, {"schema": {"fields": [{"name": "n"}]}}, {"schema": 1},
        {"schema": {"fields": [1]}}, {"schema": {"fields": [{"name": "n", "type": "none"}]}}, {"schemaV2": []},
        {"schema": {"fields": [{"id": 1, "name": "n", "type": "long"}, {"name": "m", "type": "long"}]}},
        {"schema": SCHEMA, "partitionSpec": {"fields": [{"source-id": 7, "transform": "identity", "name": "x"}]}},
        {"schema": SCHEMA, "partitionSpec": {"fields": [None]}}, {"schema": SCHEMA, "partitionSpec": {}},
        {"schema": SCHEMA, "writeOrder": {"order-id": 1, "fields": [1]}}, {"schema": SCHEMA, "properties": {"a": []}},
        {"schema": SCHEMA, "properties": {"s3.endpoint": "http://example.com"}},
        {"schema": SCHEMA, "properties": {"format-version": "x"}}, {"schema": {**SCHEMA, "type": "list"}},
    ],
)  # fmt: skip
def test_tables_that_cannot_be(server: orcas.Server, lake: str, namespace: str, iceberg: Any) -> None:
    body = {"name": "t", "format": "ICEBERG", "metadata": {"iceberg": iceberg}}
    assert sent(server, "PUT", f"tables/{quoted(lake)}/{namespace}", json.dumps(body).encode()) == 400


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"name": "t"}', b'{"name": 1, "format": "ICEBERG"}',
             b'{"name": "t", "format": "ICEBERG", "metadata": {}}', b'{"name": "t", "format": "ICEBERG", "metadata": []}'],
)  # fmt: skip
def test_bodies_that_cannot_be_read(server: orcas.Server, lake: str, namespace: str, body: bytes) -> None:
    assert sent(server, "PUT", f"tables/{quoted(lake)}/{namespace}", body) == 400
    assert sent(server, "PUT", "buckets", body if body != b'{"name": "t"}' else b"{}") == 400


def test_requests_that_are_too_large(server: orcas.Server, client: Any, lake: str) -> None:
    # The listener alone refuses it, for the memory that it would take.
    assert sent(server, "PUT", "buckets", b" " * (8 << 20) + b"{}") == 503
    for size in ("0", "1001", "-1", "x", "1" * 5000):
        assert sent(server, "GET", f"namespaces/{quoted(lake)}", b"", f"maxNamespaces={size}") == 400
    refused("BadRequestException", client.list_namespaces, tableBucketARN=lake, continuationToken="x")
    assert client.list_namespaces(tableBucketARN=lake, prefix="../" * 80)["namespaces"] == []
