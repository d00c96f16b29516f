"""Operations on single objects, and the deletion of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive

    from orcas.edge import Request, Response
    from orcas.store import Store


async def get_object(store: Store, request: Request, _receive: Receive) -> Response:
    """GetObject; at once when memory or the page cache has it."""
    return await store.run(request)


async def head_object(store: Store, request: Request, _receive: Receive) -> Response:
    """HeadObject; at once when memory has it."""
    return await store.run(request)


async def put_object(store: Store, request: Request, receive: Receive) -> Response:
    """PutObject: small bodies whole, large ones piece by piece."""
    if request.streams:
        return await store.store_body(request, receive)
    return await store.run(request, await store.collect(request, receive))


async def instant_upload(store: Store, request: Request, _receive: Receive) -> Response:
    """The instant extension: an object made of bytes that are stored already."""
    return await store.run(request)


async def delete_object(store: Store, request: Request, _receive: Receive) -> Response:
    """DeleteObject."""
    return await store.run(request)


async def delete_objects(store: Store, request: Request, receive: Receive) -> Response:
    """DeleteObjects: a document of up to 1,000 keys."""
    return await store.run(request, await store.collect(request, receive))


async def copy_object(store: Store, request: Request, _receive: Receive) -> Response:
    """CopyObject: refers to the source's content."""
    return await store.run(request)


async def rename_object(store: Store, request: Request, _receive: Receive) -> Response:
    """RenameObject: atomic, within a bucket."""
    return await store.run(request)


async def move_object(store: Store, request: Request, _receive: Receive) -> Response:
    """The move extension: atomic, also across buckets."""
    return await store.run(request)
