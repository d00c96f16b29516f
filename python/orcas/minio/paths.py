"""What MinIO answers beside S3, below `/minio/`: health and metrics. What else is there is refused with a sentence."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from orcas.admin.health import StoreHealth
    from orcas.admin.metrics import Reader
    from orcas.settings.config import Settings

PREFIX: Final = "/minio"
# Where MinIO has its pages of metrics. Here, each is the page of all.
_METRICS: Final = (
    "/prometheus/metrics", "/v2/metrics/cluster", "/v2/metrics/node", "/v2/metrics/bucket", "/v2/metrics/resource",
)  # fmt: skip
_READS: Final = ("GET", "HEAD")
# Seconds by which the clock of who made a token may differ.
_SKEW: Final = 60
_CODE: Final = "AllAccessDisabled"
_MESSAGE: Final = "The paths below /minio are those of MinIO's own services, so a bucket cannot have this name here."
_DOCUMENT: Final = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{_CODE}</Code><Message>{_MESSAGE}</Message></Error>'
).encode()


class Root(Protocol):
    """Whose secret signs tokens of readers."""

    @property
    def access_key(self) -> str:
        """The access key."""

    @property
    def secret_key(self) -> str:
        """Its secret."""


def router(
    settings: Settings, health: Callable[[], StoreHealth], reader: Reader, root: Callable[[], Root]
) -> APIRouter:
    """Health and metrics. The functions are called for each request."""
    routes = APIRouter(tags=["minio"])

    async def live() -> Response:
        """Whether the process answers requests."""
        return Response()

    async def cluster(maintenance: bool = False) -> Response:
        """Whether new content is accepted. With `maintenance`: whether it still would be without this server."""
        if maintenance:
            return Response(status_code=412)
        found = await run_in_threadpool(health)
        return Response(status_code=200 if found.writable else 503, headers={"x-minio-write-quorum": "1"})

    async def readable(maintenance: bool = False) -> Response:
        """Whether objects can be read. `maintenance` as of `cluster`."""
        if maintenance:
            return Response(status_code=412)
        found = await run_in_threadpool(health)
        return Response(
            status_code=503 if found.status in {"damaged", "no-owner"} else 200, headers={"x-minio-read-quorum": "1"}
        )

    for path, answer in (
        ("live", live), ("ready", readable), ("cluster", cluster), ("cluster/read", readable),
    ):  # fmt: skip
        routes.add_api_route(f"/health/{path}", answer, methods=list(_READS), response_model=None)

    async def metrics(request: Request) -> Response:
        """All metrics of Orcas, for a reader with a token that `mc admin prometheus generate` has made."""
        if not settings.metrics_public and not _is_token(request.headers.get("authorization", ""), root()):
            return Response(status_code=403)
        return await reader.answer(request)

    if settings.metrics:
        for path in _METRICS:
            routes.add_api_route(path, metrics, methods=list(_READS), response_model=None)
    return routes


class Refusing:
    """Answers what is none of the above, whatever its method."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        note_cause(scope, _CODE, _MESSAGE)
        await Response(_DOCUMENT, 403, media_type="application/xml")(scope, receive, send)


def _is_token(authorization: str, root: Root) -> bool:
    """Whether root has signed the token (RFC 7519, HS512), and it has not ended."""
    kind, _, token = authorization.partition(" ")
    parts = token.split(".")
    if kind.lower() != "bearer" or len(parts) != 3:
        return False
    try:
        header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts)
        wanted = hmac.digest(root.secret_key.encode(), f"{parts[0]}.{parts[1]}".encode("ascii"), hashlib.sha512)
        if not hmac.compare_digest(signature, wanted):
            return False
        said, named = json.loads(claims), json.loads(header)
        ends = said.get("exp")
        return (
            named.get("alg") == "HS512"
            and said.get("iss") == "prometheus"
            and said.get("sub") == root.access_key
            and isinstance(ends, (int, float))
            and ends > time.time() - _SKEW
        )
    except (ValueError, binascii.Error, AttributeError, UnicodeError):
        return False
