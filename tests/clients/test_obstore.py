"""obstore: the Rust crate `object_store`, which DataFusion, delta-rs, polars and others use as well."""

from __future__ import annotations

import asyncio
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from tests.clients.conftest import Web
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, package
from tests.fixtures.targets import MIB, Target, content, keys_of, read

obstore = package("obstore")
exceptions = package("obstore.exceptions")
stores = package("obstore.store")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def store_of(target: Target, bucket: str, **others: Any) -> Any:
    server = target.server
    settings = {"access_key_id": server.access_key, "secret_access_key": server.secret_key} | others
    return stores.S3Store(
        bucket, endpoint=server.endpoint, region=server.region, client_options={"allow_http": True},
        retry_config={"max_retries": 0}, **settings,
    )  # fmt: skip


@pytest.fixture
def store(target: Target, bucket: str) -> Any:
    return store_of(target, bucket)


def whole(store: Any, key: str) -> bytes:
    return bytes(obstore.get(store, key).bytes())


@pytest.mark.parametrize("key", AWKWARD)
def test_objects(store: Any, s3: Any, bucket: str, key: str) -> None:
    for size in (0, 300, 12 * MIB + 1):
        obstore.put(store, key, content(size), chunk_size=5 * MIB)
        assert whole(store, key) == content(size)
    assert s3.head_object(Bucket=bucket, Key=key)["ETag"].endswith('-3"')
    data = content(12 * MIB + 1)
    assert bytes(obstore.get_range(store, key, start=7, end=17)) == data[7:17]
    pieces = obstore.get_ranges(store, key, starts=[0, 9 * MIB], ends=[10, 9 * MIB + 10])
    assert [bytes(piece) for piece in pieces] == [data[:10], data[9 * MIB : 9 * MIB + 10]]
    obstore.copy(store, key, "copy")
    obstore.rename(store, key, "renamed")
    assert keys_of(s3, bucket) == ["copy", "renamed"]
    assert read(s3, bucket, "renamed") == data


def test_attributes_and_tags(store: Any, s3: Any, bucket: str) -> None:
    attributes = {"Content-Type": "x/y", "Cache-Control": "no-cache", "m": "1"}
    obstore.put(store, "k", b"x", attributes=attributes, tags={"a b": "1+ü"})
    assert dict(obstore.get(store, "k").attributes) == attributes
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a b", "Value": "1+ü"}]
    with obstore.open_writer(store, "w", attributes=attributes, buffer_size=5 * MIB) as writer:
        for number in range(11):
            writer.write(content(MIB, number))
    assert whole(store, "w") == b"".join(content(MIB, number) for number in range(11))
    assert obstore.head(store, "w")["size"] == 11 * MIB


def test_listings(target: Target, listed: str, store: Any) -> None:
    pages = list(obstore.list(store_of(target, listed), chunk_size=400))
    assert sum(map(len, pages)) == MANY
    assert len(obstore.list_with_delimiter(store_of(target, listed))["common_prefixes"]) == 1
    after = obstore.list(store_of(target, listed), offset="page/1090").collect()
    assert [entry["path"] for entry in after] == [f"page/{number}" for number in range(1091, MANY)]
    for key in AWKWARD:
        obstore.put(store, key, b"")
    assert {entry["path"] for entry in obstore.list(store).collect()} == set(AWKWARD)
    obstore.delete(store, list(AWKWARD))
    assert obstore.list(store).collect() == []


def test_conditional_writes(store: Any) -> None:
    obstore.put(store, "k", b"1", mode="create")
    with pytest.raises(exceptions.AlreadyExistsError):
        obstore.put(store, "k", b"2", mode="create")
    version = obstore.head(store, "k")
    obstore.put(store, "k", b"3", mode={"e_tag": version["e_tag"]})
    with pytest.raises(exceptions.PreconditionError):
        obstore.put(store, "k", b"4", mode={"e_tag": version["e_tag"]})
    assert whole(store, "k") == b"3"
    with pytest.raises(exceptions.PreconditionError):
        obstore.get(store, "k", options={"if_match": version["e_tag"]})
    with pytest.raises(exceptions.NotModifiedError):
        obstore.get(store, "k", options={"if_none_match": obstore.head(store, "k")["e_tag"]})


@pytest.mark.parametrize("way", ["header:if-none-match:*", "multipart"])
def test_copies_that_replace_nothing(target: Target, bucket: str, way: str) -> None:
    store = store_of(target, bucket, copy_if_not_exists=way)
    obstore.put(store, "a", b"1")
    obstore.copy(store, "a", "b", overwrite=False)
    with pytest.raises(exceptions.AlreadyExistsError):
        obstore.copy(store, "a", "b", overwrite=False)
    assert whole(store, "b") == b"1"


async def test_one_of_many_creates(store: Any) -> None:
    async def create(number: int) -> bool:
        try:
            await obstore.put_async(store, "k", str(number).encode(), mode="create")
        except exceptions.AlreadyExistsError:
            return False
        return True

    won = await asyncio.gather(*(create(number) for number in range(64)))
    assert won.count(True) == 1
    assert whole(store, "k") == str(won.index(True)).encode()


def test_signed_addresses(store: Any) -> None:
    obstore.put(store, "a b+ü", b"content")
    address = obstore.sign(store, "GET", "a b+ü", timedelta(seconds=60))
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.read() == b"content"


def test_checksums_and_unsigned_payloads(target: Target, bucket: str) -> None:
    for settings in ({"checksum_algorithm": "SHA256"}, {"unsigned_payload": True}):
        store = store_of(target, bucket, **settings)
        for size in (10, 6 * MIB):
            obstore.put(store, "k", content(size), chunk_size=5 * MIB)
            assert whole(store, "k") == content(size)


def test_errors(target: Target, store: Any, bucket: str) -> None:
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "none")
    with pytest.raises(FileNotFoundError):
        obstore.put(store_of(target, f"{bucket}-none"), "k", b"x")
    with pytest.raises(exceptions.BaseError, match=r"SignatureDoesNotMatch|403"):
        obstore.put(store_of(target, bucket, secret_access_key=WRONG_SECRET), "k", b"x")


def test_a_web_identity(web: Web) -> None:
    """Its requests to STS have their parameters in the query, and no body."""
    endpoint = web.server.endpoint
    store = stores.S3Store(
        "photos", endpoint=endpoint, endpoint_url_sts=endpoint, region="us-east-1", role_arn=web.role,
        web_identity_token_file=str(web.token),
    )  # fmt: skip
    obstore.put(store, "k", b"x")
    assert whole(store, "k") == b"x"
