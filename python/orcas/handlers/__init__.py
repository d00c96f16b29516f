"""One coroutine for each S3 operation, by the operation's name; typed request in, response out.

What S3 says about an operation (its input, its errors, its documents) is Rust's: a handler decides how the body is taken
in and when the operation runs. No XML, header names, SQL or paths in here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from orcas.edge import OPERATIONS, Request, Response
from orcas.handlers import buckets, listing, multipart, objects

if TYPE_CHECKING:
    from starlette.types import Receive

    from orcas.store import Store

Handler = Callable[["Store", Request, "Receive"], Awaitable[Response]]

_BY_NAME: Final[dict[str, Handler]] = {
    "ListBuckets": buckets.list_buckets,
    "CreateBucket": buckets.create_bucket,
    "HeadBucket": buckets.head_bucket,
    "DeleteBucket": buckets.delete_bucket,
    "GetBucketLocation": buckets.get_bucket_location,
    "PutBucketSettings": buckets.put_bucket_settings,
    "GetObject": objects.get_object,
    "HeadObject": objects.head_object,
    "PutObject": objects.put_object,
    "InstantUpload": objects.instant_upload,
    "DeleteObject": objects.delete_object,
    "DeleteObjects": objects.delete_objects,
    "CopyObject": objects.copy_object,
    "RenameObject": objects.rename_object,
    "MoveObject": objects.move_object,
    "ListObjects": listing.list_objects,
    "ListObjectsV2": listing.list_objects_v2,
    "ListMultipartUploads": listing.list_multipart_uploads,
    "ListParts": listing.list_parts,
    "CreateMultipartUpload": multipart.create_multipart_upload,
    "UploadPart": multipart.upload_part,
    "UploadPartCopy": multipart.upload_part_copy,
    "CompleteMultipartUpload": multipart.complete_multipart_upload,
    "AbortMultipartUpload": multipart.abort_multipart_upload,
}


async def _unbuilt(_store: Store, request: Request, _receive: Receive) -> Response:
    raise NotImplementedError(f"{OPERATIONS[request.operation]} was accepted but has no handler")


# By `Request.operation`. What has no handler is refused by Rust before it comes here.
HANDLERS: Final[tuple[Handler, ...]] = tuple(_BY_NAME.get(name, _unbuilt) for name in OPERATIONS)
