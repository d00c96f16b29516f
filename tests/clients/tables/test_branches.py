"""Branches of a warehouse: what they reach, and that nothing that is done in one changes the warehouse."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import random
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.tables.lake import LAKE, catalog_of, may, numbers, rows, signing, user
from tests.clients.tables.test_catalog import transaction
from tests.fixtures.clients import package
from tests.fixtures.commands import command
from tests.fixtures.targets import keys_of

import orcas
from orcas import instant
from orcas.tables.names import bucket_of, place_of
from orcas.tools.session import session_of
from orcas.tools.tables import remove_orphans

exceptions = package("pyiceberg.exceptions")
requests = package("requests")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

Command = Callable[..., Any]
_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    """One of its own, whose warehouse has branches."""
    with orcas.Server(memory=True, warehouse=LAKE) as running:
        yield running


@pytest.fixture
def branch_command(server: orcas.Server) -> Command:
    """`orcas table branch`: its document, or its sentence if it fails."""

    def run(*words: str, code: int = 0) -> Any:
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        shown = () if code else ("--json",)
        said = command("table", "branch", *words, "--endpoint", server.endpoint, *shown, code=code, **keys)
        return said if code else json.loads(said)

    return run


@pytest.fixture
def branch(branch_command: Command, catalog: Any, namespace: str) -> str:
    """A branch of a warehouse in which `t` has ten rows."""
    catalog.create_table((namespace, "t"), schema=rows(0).schema).append(rows(0))
    name = f"{LAKE}@{uuid.uuid4().hex[:8]}"
    branch_command("create", name)
    return name


def objects(server: orcas.Server, bucket: str) -> dict[str, str]:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {each["Key"]: each["ETag"] for page in pages for each in page.get("Contents", [])}


def keys_in(table: Any) -> dict[str, str]:
    """The keys of a table, as boto3 wants them."""
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return {name: table.io.properties[key] for name, key in zip(names, _KEYS, strict=True)}


def client_of(server: orcas.Server, table: Any) -> Any:
    return server.client(**keys_in(table))


def test_a_branch(server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command) -> None:
    before = objects(server, LAKE)
    mine = catalog_of(server, warehouse=branch)
    table = mine.load_table((namespace, "t"))
    table.append(rows(10))
    table.delete("n < 5")
    mine.create_table((namespace, "new"), schema=rows(0).schema).append(rows(0))
    assert numbers(mine.load_table((namespace, "t"))) == list(range(5, 20))
    assert table.location().startswith(f"s3://{LAKE}/")
    mine.purge_table((namespace, "t"))
    assert mine.list_tables(namespace) == [(namespace, "new")]
    assert objects(server, LAKE) == before
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(10))
    assert branch in branch_command("list", LAKE)["branches"]
    assert branch_command("drop", branch) == {"branch": branch}
    assert branch not in branch_command("list", LAKE)["branches"]
    assert not [
        each for each in server.client().list_buckets()["Buckets"] if each["Name"].startswith(bucket_of(branch))
    ]
    with pytest.raises(exceptions.RESTError, match="There is no branch"):
        catalog_of(server, warehouse=branch)
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(10))


def test_upkeep_in_a_branch(server: orcas.Server, catalog: Any, namespace: str, branch: str) -> None:
    """It deletes files that the warehouse still needs, in the branch alone."""
    before, name = objects(server, LAKE), f"{namespace}.t"
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    mine = catalog_of(server, warehouse=branch)
    mine.load_table(name).overwrite(rows(10))
    for words in (("list", branch), ("show", branch, name), ("history", branch, name)):
        assert "t" in command("table", *words, "--endpoint", server.endpoint, **keys)
    first = str(mine.load_table(name).snapshots()[0].snapshot_id)
    command("table", "rollback", branch, name, "--to", first, "--endpoint", server.endpoint, **keys)
    assert numbers(mine.load_table(name)) == list(range(10))
    mine.load_table(name).overwrite(rows(10))
    command("table", "expire", branch, name, "--older-than", "0", "--endpoint", server.endpoint, **keys)
    with session_of(server.client()) as session:
        tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        gone = remove_orphans(session, branch, name, tomorrow, lambda _: None, dry_run=False)
    assert gone.document()["Deleted"] > 0
    assert set(before) - set(objects(server, bucket_of(branch)))
    assert numbers(mine.load_table(name)) == list(range(10, 20))
    assert objects(server, LAKE) == before
    assert numbers(catalog.load_table(name)) == list(range(10))


def test_commits_of_several_tables(catalog: Any, server: orcas.Server, namespace: str, branch: str) -> None:
    """In a branch, and in a warehouse that has one."""
    for each in (catalog, catalog_of(server, warehouse=branch)):
        tables = [each.create_table((namespace, name), schema=rows(0).schema) for name in ("a", "b")]
        url = f"{server.endpoint}/_orcas/iceberg/v1/{'lake' if each is catalog else branch}/transactions/commit"
        answer = each._session.post(url, json=transaction(*((table, ()) for table in tables), namespace=namespace))
        assert answer.status_code == 204
        assert all("done" in each.load_table(table.name()).properties for table in tables)


def test_names_that_cannot_be(server: orcas.Server, branch: str, branch_command: Command) -> None:
    assert "already exists" in branch_command("create", branch, code=1)
    assert "name a branch of it" in branch_command("drop", LAKE, code=1)
    assert "no snapshot" in branch_command("create", f"{LAKE}@other", "--at", "never", code=1)
    for name in (f"{LAKE}@", f"{LAKE}@A", f"{LAKE}@a--b", f"{branch}--base", "@a", "nobody@a", f"{LAKE}@" + "a" * 70):
        branch_command("create", name, code=1)
    for name in (f"{branch}--base", bucket_of(branch)):
        with pytest.raises(exceptions.RESTError):
            catalog_of(server, warehouse=name)


def test_a_branch_of_a_snapshot(server: orcas.Server, catalog: Any, namespace: str, branch_command: Command) -> None:
    table = catalog.create_table((namespace, "t"), schema=rows(0).schema)
    table.append(rows(0))
    at, name = f"s{uuid.uuid4().hex[:8]}", f"{LAKE}@{uuid.uuid4().hex[:8]}"
    orcas.buckets.create_snapshot(server.client(), LAKE, at)
    table.append(rows(10))
    branch_command("create", name, "--at", at)
    orcas.buckets.delete_snapshot(server.client(), LAKE, at)
    assert numbers(catalog_of(server, warehouse=name).load_table((namespace, "t"))) == list(range(10))
    branch_command("drop", name)


def test_what_the_keys_of_a_branch_reach(server: orcas.Server, catalog: Any, namespace: str, branch: str) -> None:
    """Every request that they may send, about the bucket by the name of the warehouse."""
    before, fork = objects(server, LAKE), bucket_of(branch)
    table = catalog_of(server, warehouse=branch).load_table((namespace, "t"))
    s3, root, place = client_of(server, table), server.client(), place_of(table.location(), LAKE)
    key = f"{place}/data/x"
    s3.put_object(Bucket=LAKE, Key=key, Body=b"content")
    assert root.get_object(Bucket=fork, Key=key)["Body"].read() == b"content"
    assert s3.get_object(Bucket=LAKE, Key=key)["Body"].read() == b"content"
    assert s3.head_object(Bucket=LAKE, Key=key)["ContentLength"] == 7
    for listing in (s3.list_objects, s3.list_objects_v2):
        found = listing(Bucket=LAKE, Prefix=f"{place}/")
        assert (found["Name"], key in {each["Key"] for each in found["Contents"]}) == (LAKE, True)
    s3.get_bucket_location(Bucket=LAKE)
    s3.copy_object(Bucket=LAKE, Key=f"{key}-copy", CopySource={"Bucket": LAKE, "Key": key})
    made = s3.create_multipart_upload(Bucket=LAKE, Key=f"{key}-parts")
    upload = {"Bucket": LAKE, "Key": f"{key}-parts", "UploadId": made["UploadId"]}
    assert made["Bucket"] == LAKE
    parts = [s3.upload_part(**upload, PartNumber=1, Body=b"1" * (5 << 20))["ETag"]]
    copied = s3.upload_part_copy(**upload, PartNumber=2, CopySource={"Bucket": LAKE, "Key": key})
    parts.append(copied["CopyPartResult"]["ETag"])
    assert s3.list_parts(**upload)["Bucket"] == LAKE
    listed = {"Parts": [{"PartNumber": at + 1, "ETag": etag} for at, etag in enumerate(parts)]}
    done = s3.complete_multipart_upload(**upload, MultipartUpload=listed)
    assert (done["Bucket"], f"/{LAKE}/" in done["Location"]) == (LAKE, True)
    aborted = s3.create_multipart_upload(Bucket=LAKE, Key=f"{key}-aborted")
    s3.abort_multipart_upload(Bucket=LAKE, Key=f"{key}-aborted", UploadId=aborted["UploadId"])
    for method, body in (("put_object", b"signed"), ("get_object", None)):
        url = s3.generate_presigned_url(method, Params={"Bucket": LAKE, "Key": f"{key}-url"})
        request = urllib.request.Request(url, body, method="GET" if body is None else "PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read() == (b"signed" if body is None else b"")
    form = s3.generate_presigned_post(LAKE, f"{key}-form", ExpiresIn=60)
    sent = package("requests").post(form["url"], data=form["fields"], files={"file": b"form"}, timeout=60)
    assert sent.status_code == 204
    known = b"i" * (1 << 20)
    s3.put_object(Bucket=LAKE, Key=f"{key}-known", Body=known)
    instant.upload(s3, LAKE, f"{key}-instant", known)
    written = {f"{key}{end}" for end in ("", "-copy", "-parts", "-url", "-form", "-known", "-instant")}
    assert set(objects(server, fork)) - set(before) == written
    s3.delete_object(Bucket=LAKE, Key=key)
    shared = [each for each in before if each.startswith(f"{place}/")]
    gone = s3.delete_objects(Bucket=LAKE, Delete={"Objects": [{"Key": each} for each in (*shared, f"{key}-copy")]})
    assert len(gone["Deleted"]) == len(shared) + 1
    assert not set(objects(server, fork)) & {key, f"{key}-copy", *shared}
    assert objects(server, LAKE) == before


def test_what_the_keys_of_a_branch_do_not_reach(
    server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command
) -> None:
    table = catalog_of(server, warehouse=branch).load_table((namespace, "t"))
    s3, place = client_of(server, table), place_of(table.location(), LAKE)
    server.client().put_object(Bucket=LAKE, Key=f"{place}/only-there", Body=b"x")
    config, keys = table.io.properties, keys_in(table)
    denied: list[Callable[[], Any]] = [
        lambda: s3.get_object(Bucket=LAKE, Key=f"{place}/only-there"),
        lambda: s3.get_object(Bucket=LAKE, Key=".iceberg/warehouse.json"),
        lambda: s3.get_object(Bucket=f"{bucket_of(branch)}--base", Key=f"{place}/x"),
        lambda: s3.list_buckets(), lambda: s3.delete_bucket(Bucket=LAKE),
        lambda: server.client("iam", **keys).list_users(),
        lambda: server.client("sts", **keys).get_session_token(),
        lambda: server.client("sts", **keys).get_federation_token(Name="other"),
    ]  # fmt: skip
    for each in denied:
        with pytest.raises(s3.exceptions.ClientError, match=r"AccessDenied|InvalidClientTokenId"):
            each()
    session = {name.removeprefix("s3."): value for name, value in config.items() if name in _KEYS}
    with pytest.raises(exceptions.ForbiddenError):
        signing(server, session, warehouse=branch)
    # After the branch, whoever has a bucket of its name.
    branch_command("drop", branch)
    with pytest.raises(s3.exceptions.ClientError, match=r"NoSuchBucket|AccessDenied"):
        s3.get_object(Bucket=LAKE, Key=f"{place}/only-there")


def test_rights(server: orcas.Server, catalog: Any, namespace: str, branch: str) -> None:
    everything = "arn:aws:s3tables:*:*:bucket/"
    only_lake = user(server, may("s3tables:*", [f"{everything}{LAKE}", f"{everything}{LAKE}/*"]))
    with pytest.raises(exceptions.ForbiddenError):
        catalog_of(server, only_lake, warehouse=branch)
    only_branch = user(server, may("s3tables:*", [f"{everything}{branch}", f"{everything}{branch}/*"]))
    with pytest.raises(exceptions.ForbiddenError):
        catalog_of(server, only_branch)
    mine = catalog_of(server, only_branch, warehouse=branch)
    mine.load_table((namespace, "t")).append(rows(10))
    assert numbers(mine.load_table((namespace, "t"))) == list(range(20))
    for method, path in (("POST", f"{LAKE}@mine"), ("DELETE", branch), ("POST", f"{branch}/merge")):
        answer = mine._session.request(method, f"{server.endpoint}/_orcas/iceberg/branches/{path}", json={})
        assert (answer.status_code, "root alone" in answer.text) == (403, True)


@pytest.mark.parametrize("seed", range(3))
def test_random_operations(
    server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command, seed: int
) -> None:
    """What both sides have is as a model says: what is done on one is never seen on the other."""
    choice = random.Random(seed)
    sides = {LAKE: catalog, branch: catalog_of(server, warehouse=branch)}
    model: dict[str, dict[str, list[int]]] = {side: {"t": list(range(10))} for side in sides}
    for step in range(12):
        side = choice.choice(list(sides))
        tables, mine = model[side], sides[side]
        name = choice.choice(["t", "u"])
        what = choice.choice(["append", "delete", "drop", "files"])
        if name not in tables:
            mine.create_table((namespace, name), schema=rows(0).schema)
            tables[name] = []
        elif what == "append":
            mine.load_table((namespace, name)).append(rows(100 * step))
            tables[name] = tables[name] + list(range(100 * step, 100 * step + 10))
        elif what == "delete":
            limit = choice.randrange(1200)
            mine.load_table((namespace, name)).delete(f"n < {limit}")
            tables[name] = [each for each in tables[name] if each >= limit]
        elif what == "drop":
            mine.purge_table((namespace, name))
            del tables[name]
        else:
            # All files at once, as one who has gone wrong would.
            table = mine.load_table((namespace, name))
            s3, place = client_of(server, table), place_of(table.location(), LAKE)
            found = s3.list_objects_v2(Bucket=LAKE, Prefix=f"{place}/")["Contents"]
            s3.delete_objects(Bucket=LAKE, Delete={"Objects": [{"Key": each["Key"]} for each in found]})
            server.client().delete_object(Bucket=bucket_of(side), Key=f".iceberg/tables/{namespace}/{name}")
            del tables[name]
        for each, expected in model.items():
            assert sorted(sides[each].list_tables(namespace)) == [(namespace, table) for table in sorted(expected)]
            for table, content in expected.items():
                assert numbers(sides[each].load_table((namespace, table))) == sorted(content), (seed, step, each)
    branch_command("drop", branch)
    assert all(numbers(catalog.load_table((namespace, each))) == sorted(has) for each, has in model[LAKE].items())


def test_a_merge(server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command) -> None:
    mine = catalog_of(server, warehouse=branch)
    mine.load_table((namespace, "t")).append(rows(10))
    mine.load_table((namespace, "t")).delete("n < 5")
    mine.create_namespace((namespace, "new"))
    mine.create_table((namespace, "new", "u"), schema=rows(0).schema).append(rows(0))
    # Not in the branch, and not lost by the merge.
    catalog.create_table((namespace, "other"), schema=rows(0).schema).append(rows(50))
    found = {each["name"]: each for each in branch_command("diff", branch)["changes"]}
    changed = found[f"{namespace}.t"]
    assert (changed["change"], changed["by"], changed["branch"]["added"]) == ("changed", "branch", 15)
    assert (changed["branch"]["removed"], changed["warehouse"]["snapshots"]) == (10, 0)
    other = found[f"{namespace}.other"]
    assert (other["change"], other["by"], other["warehouse"]["added"]) == ("created", "warehouse", 10)
    assert found[f"{namespace}.new"]["kind"] == "namespace"
    merged = branch_command("merge", branch)["merged"]
    assert sorted(merged) == [f"{namespace}.new", f"{namespace}.new.u", f"{namespace}.t"]
    assert [each["name"] for each in branch_command("diff", branch)["changes"]] == [f"{namespace}.other"]
    assert branch_command("merge", branch) == {"merged": []}
    branch_command("drop", branch)
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(5, 20))
    assert numbers(catalog.load_table((namespace, "new", "u"))) == list(range(10))
    assert numbers(catalog.load_table((namespace, "other"))) == list(range(50, 60))
    catalog.load_table((namespace, "new", "u")).append(rows(10))
    assert not [key for key in keys_of(server.client(), LAKE) if key.startswith(".iceberg/transactions/")]


@pytest.mark.full
def test_a_server_that_is_killed_while_it_merges(tmp_path: Path) -> None:
    """Of a merge, there is all or nothing."""
    keys = {"root_access_key": "AKIAEXAMPLE", "root_secret_key": "a-secret-of-tests"}
    tables, outcomes = [("n", name) for name in "abcdef"], set()
    for run in range(12):
        directory, branch = tmp_path / str(run), f"{LAKE}@b"
        with orcas.Server(directory, warehouse=LAKE, **keys) as first:
            made = catalog_of(first)
            made.create_namespace("n")
            for name in tables:
                made.create_table(name, schema=rows(0).schema)
            session, url = made._session, f"{first.endpoint}/_orcas/iceberg/branches/{branch}"
            assert session.post(url, json={}).ok
            for name in tables:
                catalog_of(first, warehouse=branch).load_table(name).append(rows(0))
            killer = threading.Timer(run / 100, first.kill)
            killer.start()
            with contextlib.suppress(requests.ConnectionError):
                session.post(f"{url}/merge", json={})
            killer.join()
        with orcas.Server(directory, warehouse=LAKE, **keys) as second:
            merged = [bool(catalog_of(second).load_table(name).snapshots()) for name in tables]
            assert len(set(merged)) == 1, merged
            outcomes |= set(merged)
    assert outcomes == {False, True}


def test_merges_that_are_refused(
    server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command
) -> None:
    """All that stands against one is named, and nothing is changed."""
    mine, fork = catalog_of(server, warehouse=branch), bucket_of(branch)
    mine.load_table((namespace, "t")).append(rows(10))
    catalog.load_table((namespace, "t")).append(rows(20))
    mine.create_table((namespace, "fine"), schema=rows(0).schema).append(rows(0))
    # One that has got the place of another.
    pointer = server.client().get_object(Bucket=LAKE, Key=f".iceberg/tables/{namespace}/t")["Body"].read()
    server.client().put_object(Bucket=fork, Key=f".iceberg/tables/{namespace}/forged", Body=pointer)
    before = objects(server, LAKE)
    said = branch_command("merge", branch, code=1)
    assert f"{namespace}.t was changed in {LAKE} too" in said
    assert f"{namespace}.forged has files in a place that was another's" in said
    assert "fine" not in said
    assert objects(server, LAKE) == before
    mine.drop_table((namespace, "t"))
    assert f"{namespace}.t" in branch_command("merge", branch, code=1)
    assert objects(server, LAKE) == before
    branch_command("drop", branch)


def test_a_table_that_was_dropped_in_a_branch(
    catalog: Any, server: orcas.Server, namespace: str, branch: str, branch_command: Command
) -> None:
    catalog_of(server, warehouse=branch).drop_table((namespace, "t"))
    assert "was dropped or renamed in the branch" in branch_command("merge", branch, code=1)
    catalog.drop_table((namespace, "t"))
    assert branch_command("merge", branch) == {"merged": []}


def test_files_that_a_merge_does_not_take(
    server: orcas.Server, catalog: Any, namespace: str, branch: str, branch_command: Command
) -> None:
    """What was written in both, and what lies in a place of another."""
    mine, fork, client = catalog_of(server, warehouse=branch), bucket_of(branch), server.client()
    mine.load_table((namespace, "t")).append(rows(10))
    table = mine.load_table((namespace, "t"))
    before = objects(server, LAKE)
    written = next(key for key in objects(server, fork) if key not in before and key.endswith(".parquet"))
    client.put_object(Bucket=LAKE, Key=written, Body=b"other")
    assert f"{namespace}.t has files that were written in {LAKE} too" in branch_command("merge", branch, code=1)
    # As the branch has it, such as by an attempt before: it counts as copied.
    client.copy_object(Bucket=LAKE, Key=written, CopySource={"Bucket": fork, "Key": written})
    # The place of a table that the warehouse has made since.
    place = "shared/place"
    mine.create_table((namespace, "u"), schema=rows(0).schema, location=f"s3://{LAKE}/{place}").append(rows(0))
    catalog.create_table((namespace, "v"), schema=rows(0).schema, location=f"s3://{LAKE}/{place}")
    assert f"{namespace}.u has files in a place that was another's" in branch_command("merge", branch, code=1)
    mine.drop_table((namespace, "u"))
    assert branch_command("merge", branch) == {"merged": [f"{namespace}.t"]}
    assert numbers(catalog.load_table((namespace, "t"))) == numbers(table)
    branch_command("drop", branch)


def test_a_merge_of_encrypted_files(tmp_path: Path) -> None:
    """They are copied as they are encrypted, if who merges could have read them."""
    key = base64.b64encode(bytes(range(32))).decode()
    with orcas.Server(tmp_path / "data", warehouse=LAKE, master_key=key) as server:
        lake = catalog_of(server)
        lake.create_namespace("n")
        lake.create_table("n.t", schema=rows(0).schema)
        url = f"{server.endpoint}/_orcas/iceberg/branches/{LAKE}@b"
        assert lake._session.post(url, json={}).ok
        catalog_of(server, warehouse=f"{LAKE}@b").load_table("n.t").append(rows(0))
        rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        server.client().put_bucket_encryption(Bucket=LAKE, ServerSideEncryptionConfiguration={"Rules": [rule]})
        answer = lake._session.post(f"{url}/merge", json={})
        assert (answer.status_code, "default encryption" in answer.json()["error"]["message"]) == (409, True)
        server.client().delete_bucket_encryption(Bucket=LAKE)
        command("key", "create", "reports", "--data", tmp_path / "data", ORCAS_MASTER_KEY=key)
        place = lake.load_table("n.t").location().removeprefix(f"s3://{LAKE}/")
        added = {"Bucket": bucket_of(f"{LAKE}@b"), "Key": f"{place}/data/x", "Body": b"x"}
        for how, said in (
            ({"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}, "stored using a form of Server Side"),
            ({"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/reports"}, "disabled"),
        ):
            server.client().put_object(**added, **how)
            command("key", "disable", "reports", "--data", tmp_path / "data", ORCAS_MASTER_KEY=key)
            answer = lake._session.post(f"{url}/merge", json={})
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True)
            command("key", "enable", "reports", "--data", tmp_path / "data", ORCAS_MASTER_KEY=key)
        assert lake._session.post(f"{url}/merge", json={}).json() == {"merged": ["n.t"]}
        heads = [server.client().head_object(Bucket=each, Key=added["Key"]) for each in (added["Bucket"], LAKE)]
        assert heads[0]["SSEKMSKeyId"] == heads[1]["SSEKMSKeyId"]
