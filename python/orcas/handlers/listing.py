"""Pages of objects, uploads and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive

    from orcas.edge import Request, Response
    from orcas.store import Store


async def list_objects(store: Store, request: Request, _receive: Receive) -> Response:
    """ListObjects, the first version."""
    return await store.run(request)


async def list_objects_v2(store: Store, request: Request, _receive: Receive) -> Response:
    """ListObjectsV2."""
    return await store.run(request)


async def list_multipart_uploads(store: Store, request: Request, _receive: Receive) -> Response:
    """ListMultipartUploads."""
    return await store.run(request)


async def list_parts(store: Store, request: Request, _receive: Receive) -> Response:
    """ListParts."""
    return await store.run(request)
