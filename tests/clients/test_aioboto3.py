"""aioboto3: the same idioms as coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import io
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, package
from tests.fixtures.targets import MIB, Target, content

aioboto3 = package("aioboto3")
transfer = package("boto3.s3.transfer")
exceptions = package("botocore.exceptions")
config = package("botocore.config")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

IN_PARTS = transfer.TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=5 * MIB)


def options(target: Target, **others: str) -> dict[str, Any]:
    """What leads a client or a resource to the server."""
    server = target.server
    return {
        "endpoint_url": server.endpoint, "aws_access_key_id": server.access_key, "region_name": server.region,
        "aws_secret_access_key": server.secret_key, "config": config.Config(retries={"total_max_attempts": 1}), **others,
    }  # fmt: skip


@pytest.fixture
async def client(target: Target) -> AsyncIterator[Any]:
    """A client as users have it."""
    async with aioboto3.Session().client("s3", **options(target)) as opened:
        yield opened


async def body(client: Any, bucket: str, key: str) -> bytes:
    answer = await client.get_object(Bucket=bucket, Key=key)
    async with answer["Body"] as stream:
        data: bytes = await stream.read()
    return data


async def test_many_requests_at_once(client: Any, bucket: str) -> None:
    bodies = {key: content(1000, number) for number, key in enumerate([*AWKWARD, *map(str, range(100))])}
    await asyncio.gather(*(client.put_object(Bucket=bucket, Key=key, Body=data) for key, data in bodies.items()))
    found = await asyncio.gather(*(body(client, bucket, key) for key in bodies))
    assert found == list(bodies.values())


async def test_managed_transfers(client: Any, bucket: str) -> None:
    data = content(12 * MIB + 1)
    await client.upload_fileobj(io.BytesIO(data), bucket, "a b+ü", Config=IN_PARTS)
    head = await client.head_object(Bucket=bucket, Key="a b+ü")
    assert "-" in head["ETag"]
    into = io.BytesIO()
    await client.download_fileobj(bucket, "a b+ü", into, Config=IN_PARTS)
    assert into.getvalue() == data
    await client.copy({"Bucket": bucket, "Key": "a b+ü"}, bucket, "copy")
    assert await body(client, bucket, "copy") == data


async def test_a_body_in_pieces(client: Any, bucket: str) -> None:
    data = content(9 * MIB)
    await client.put_object(Bucket=bucket, Key="k", Body=data)
    answer = await client.get_object(Bucket=bucket, Key="k")
    pieces = [piece async for piece in answer["Body"].iter_chunks(100_000)]
    assert b"".join(pieces) == data


async def test_listings(client: Any, listed: str) -> None:
    keys = []
    async for page in client.get_paginator("list_objects_v2").paginate(Bucket=listed):
        keys += [entry["Key"] for entry in page["Contents"]]
    assert keys == [f"page/{number:04}" for number in range(MANY)]


async def test_resources(target: Target, bucket: str) -> None:
    async with aioboto3.Session().resource("s3", **options(target)) as resource:
        box = await resource.Bucket(bucket)
        versioning = await box.Versioning()
        await versioning.enable()
        for key in AWKWARD:
            await box.put_object(Key=key, Body=b"1")
        assert {entry.key async for entry in box.objects.all()} == set(AWKWARD)
        await box.objects.all().delete()
        versions = [entry async for entry in box.object_versions.all()]
        assert len(versions) == 2 * len(AWKWARD)
        await box.object_versions.delete()
        await box.delete()


async def test_waiters_and_presigned_addresses(client: Any, bucket: str) -> None:
    await client.put_object(Bucket=bucket, Key="a b", Body=b"content")
    await client.get_waiter("object_exists").wait(Bucket=bucket, Key="a b")
    names = {"Bucket": bucket, "Key": "a b"}
    address = await client.generate_presigned_url("get_object", Params=names)

    def fetch() -> bytes:
        with contextlib.closing(urllib.request.urlopen(address, timeout=30)) as response:
            found: bytes = response.read()
        return found

    assert await asyncio.to_thread(fetch) == b"content"


async def test_errors(target: Target, client: Any, bucket: str) -> None:
    with pytest.raises(client.exceptions.NoSuchKey):
        await client.get_object(Bucket=bucket, Key="none")
    with pytest.raises(client.exceptions.NoSuchBucket):
        await client.list_objects_v2(Bucket=f"{bucket}-none")
    await client.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(exceptions.ClientError, match="PreconditionFailed"):
        await client.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    wrong = options(target, aws_secret_access_key=WRONG_SECRET)
    async with aioboto3.Session().client("s3", **wrong) as other:
        with pytest.raises(exceptions.ClientError, match="SignatureDoesNotMatch"):
            await other.list_objects_v2(Bucket=bucket)
