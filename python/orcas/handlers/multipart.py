"""Multipart uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive

    from orcas.edge import Request, Response
    from orcas.store import Store


async def create_multipart_upload(store: Store, request: Request, _receive: Receive) -> Response:
    """CreateMultipartUpload."""
    return await store.run(request)


async def upload_part(store: Store, request: Request, receive: Receive) -> Response:
    """UploadPart: small bodies whole, large ones piece by piece."""
    if request.streams:
        return await store.store_body(request, receive)
    return await store.run(request, await store.collect(request, receive))


async def upload_part_copy(store: Store, request: Request, _receive: Receive) -> Response:
    """UploadPartCopy: refers to the source's content."""
    return await store.run(request)


async def complete_multipart_upload(store: Store, request: Request, receive: Receive) -> Response:
    """CompleteMultipartUpload: a document that names the parts."""
    return await store.run(request, await store.collect(request, receive))


async def abort_multipart_upload(store: Store, request: Request, _receive: Receive) -> Response:
    """AbortMultipartUpload."""
    return await store.run(request)
