"""`orcas.instant`: upload with any boto3 client, and send only content that the server does not have.

The client hashes the content and sends the hash to the server. If the owner of the bucket has stored the same bytes
before and the client's policies allow `orcas:InstantUpload`, it answers a challenge over a few ranges, and the server
creates the object without receiving the content. In all other cases the client uploads the content as usual, so this
also works with servers other than Orcas.
Must not import boto3 or botocore before it is given a client.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from orcas.http.challenges import read_challenge

# Below the minimum, a server always answers `send`. Above the maximum, a single request cannot upload the content.
_SIZE_MIN: Final = 65_536
_SIZE_MAX: Final = 5 << 30
_BLOCK: Final = 1 << 20
_OK: Final = 200
_RESERVED: Final = frozenset({"Body", "Bucket", "Key", "ChecksumSHA256"})

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


@dataclass(frozen=True)
class InstantResult:
    """The result of an upload: the ETag of the object, whether its bytes were sent, and its size in bytes."""

    etag: str
    transferred: bool
    size: int


@dataclass(frozen=True)
class _Content:
    """The content of a file from `start` on, `size` bytes long."""

    file: BinaryIO
    start: int
    size: int

    def digest(self) -> bytes:
        """The SHA-256 of the whole content."""
        digest = hashlib.sha256()
        for block in self.blocks(0, self.size):
            digest.update(block)
        return digest.digest()

    def blocks(self, first: int, length: int) -> Iterator[bytes]:
        """`length` bytes from `first` on.

        Raises:
            EOFError: the file has been truncated.
        """
        self.file.seek(self.start + first)
        while length:
            block = self.file.read(min(length, _BLOCK))
            if not block:
                raise EOFError("the content was truncated during the upload")
            length -= len(block)
            yield block


def upload(
    client: Any, bucket: str, key: str, source: Source, *, extra_args: Mapping[str, Any] | None = None
) -> InstantResult:
    """Upload a file or bytes, and send the content only if the server does not have it.

    Args:
        client: a boto3 S3 client; its endpoint, credentials and connection settings are used.
        bucket: the bucket of the new object.
        key: the key of the new object.
        source: the content: a path, an open binary file (from its current position), or bytes. A file must be seekable
            and must not change during the upload.
        extra_args: additional arguments of `put_object`, such as `ContentType`, `Metadata` or `IfNoneMatch`. For more
            than 5 GiB of content: additional arguments of `upload_fileobj`.

    Raises:
        ValueError: `extra_args` contains an argument that this function sets itself.
        botocore.exceptions.ClientError: the server rejected the ordinary upload.
    """
    extra = dict(extra_args or {})
    if reserved := _RESERVED & extra.keys():
        raise ValueError(f"extra_args must not contain {', '.join(sorted(reserved))}.")
    with _opened(source) as content:
        if content.size > _SIZE_MAX:
            return _upload_in_parts(client, bucket, key, content, extra)
        digest = content.digest()
        if content.size >= _SIZE_MIN:
            etag = _instant(client, bucket, key, content, digest, extra)
            if etag is not None:
                return InstantResult(etag, transferred=False, size=content.size)
        content.file.seek(content.start)
        checksum = base64.b64encode(digest).decode()
        answer = client.put_object(Bucket=bucket, Key=key, Body=content.file, ChecksumSHA256=checksum, **extra)
        return InstantResult(answer["ETag"], transferred=True, size=content.size)


def _upload_in_parts(client: Any, bucket: str, key: str, content: _Content, extra: dict[str, Any]) -> InstantResult:
    content.file.seek(content.start)
    client.upload_fileobj(content.file, bucket, key, ExtraArgs=extra)
    return InstantResult(client.head_object(Bucket=bucket, Key=key)["ETag"], transferred=True, size=content.size)


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[_Content]:
    with contextlib.ExitStack() as stack:
        if isinstance(source, (str, os.PathLike)):
            file: BinaryIO = stack.enter_context(open(source, "rb"))  # noqa: PTH123 - a path of any kind
        elif isinstance(source, (bytes, bytearray, memoryview)):
            file = io.BytesIO(source)
        else:
            file = source
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        yield _Content(file, start, max(0, size))


def _instant(client: Any, bucket: str, key: str, content: _Content, digest: bytes, extra: dict[str, Any]) -> str | None:
    """The ETag of the object if the server created it without its content; None if the content has to be sent."""
    headers = _headers(client, bucket, key, extra)
    if headers is None:
        return None
    headers["x-amz-orcas-instant-size"] = str(content.size)
    headers["x-amz-orcas-instant-sha256"] = digest.hex()
    offer = _post(client, bucket, key, headers)
    challenge = None if offer is None else read_challenge(offer.content, content.size)
    if challenge is None:
        return None
    headers["x-amz-orcas-instant-challenge"] = challenge.token
    headers["x-amz-orcas-instant-answer"] = challenge.answer(content)
    answer = _post(client, bucket, key, headers)
    if answer is None or answer.content:
        return None
    etag = answer.headers.get("ETag")
    return None if etag is None else str(etag)


def _headers(client: Any, bucket: str, key: str, extra: dict[str, Any]) -> dict[str, str] | None:
    """The headers that `put_object` would send for `extra`; None if `put_object` must report that they are invalid."""
    from botocore.exceptions import ParamValidationError
    from botocore.serialize import create_serializer

    model = client.meta.service_model
    serializer = create_serializer(model.metadata["protocol"])
    try:
        request = serializer.serialize_to_request(
            {"Bucket": bucket, "Key": key, **extra}, model.operation_model("PutObject")
        )
    except ParamValidationError:
        return None
    headers = {str(name): str(value) for name, value in request["headers"].items()}
    return headers if all(value.isascii() for value in headers.values()) else None


def _post(client: Any, bucket: str, key: str, headers: dict[str, str]) -> Any:
    """The response to a signed `POST ?instant` if it is a success, else None."""
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    path = f"{urllib.parse.quote(bucket, safe='')}/{urllib.parse.quote(key, safe='/~')}"
    url = f"{client.meta.endpoint_url.rstrip('/')}/{path}?instant"
    request = AWSRequest(method="POST", url=url, headers=headers)
    try:
        # The client's own signer and connections: its credentials, region, proxies and certificates.
        client._request_signer.sign("PutObject", request)
        response = client._endpoint.http_session.send(request.prepare())
    except BotoCoreError:
        # Leave it to the ordinary upload to detect and report problems with credentials or the connection.
        return None
    return response if response.status_code == _OK else None
