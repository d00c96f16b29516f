"""Operations on buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive

    from orcas.edge import Request, Response
    from orcas.store import Store


async def list_buckets(store: Store, request: Request, _receive: Receive) -> Response:
    """ListBuckets: the caller's buckets, from memory."""
    return await store.run(request)


async def create_bucket(store: Store, request: Request, receive: Receive) -> Response:
    """CreateBucket, with an optional configuration document."""
    return await store.run(request, await store.collect(request, receive))


async def head_bucket(store: Store, request: Request, _receive: Receive) -> Response:
    """HeadBucket, from memory."""
    return await store.run(request)


async def delete_bucket(store: Store, request: Request, _receive: Receive) -> Response:
    """DeleteBucket; refused while it holds objects."""
    return await store.run(request)


async def get_bucket_location(store: Store, request: Request, _receive: Receive) -> Response:
    """GetBucketLocation, from memory."""
    return await store.run(request)


async def put_bucket_settings(store: Store, request: Request, _receive: Receive) -> Response:
    """The settings extension: changes what a bucket has for itself."""
    return await store.run(request)
