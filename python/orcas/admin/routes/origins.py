"""Origins of buckets over the admin API, under `/_orcas/admin/origins`.

The secret of a key arrives in the signed body of a request. It is never logged, and no response contains it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Body, FastAPI, Request
from pydantic import ConfigDict, Field, SecretStr

from orcas.admin.routes.orders import Name, Order
from orcas.control.origins import Origin
from orcas.engine import Core, Refusal
from orcas.iam.directory import Directory
from orcas.origins.pulling import ORIGINS_MAX, Pulls

log = logging.getLogger("orcas")

Text = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[\x21-\x7e]+$")]


class OriginBody(Order):
    """The origin of a bucket, in place of what it had. Without a key, requests to it are not signed."""

    model_config = ConfigDict(hide_input_in_errors=True)
    bucket: Name
    url: Text
    source: Text
    region: Text = "us-east-1"
    access_key: Text | None = None
    secret_key: Annotated[SecretStr, Field(min_length=1, max_length=1024)] | None = None
    private: bool = False
    object_bytes_max: int = Field(default=5 << 30, ge=0, le=5 << 40)
    timeout_sec: int = Field(default=15, ge=1, le=60)


def add_origins(
    app: FastAPI,
    core: Callable[[], Core],
    identities: Callable[[], Directory | None],
    pulls_now: Callable[[], Pulls],
) -> None:
    """Add these paths to the application. Coroutines: origins belong to the loop."""

    def used() -> tuple[Directory, Pulls]:
        directory = identities()
        if directory is None:
            raise Refusal(409, "NoOrigins", "A store that is open for salvage has no origins.")
        return directory, pulls_now()

    async def change(request: Request, bucket: str, origin: Origin | None) -> dict[str, Any]:
        directory, pulls = used()
        client = request.scope.get("client")
        pulls.replace(await directory.change_server(Origin, bucket, origin, client[0] if client else None))
        return {}

    @app.get("/origins", responses={409: {"description": "The store is open for salvage"}})
    async def origins() -> dict[str, Any]:
        """All origins, with what has become of fetches since the start."""
        directory, pulls = used()
        # A command has not loaded them.
        pulls.replace(await directory.servers(Origin))
        return {"origins": pulls.describe()}

    @app.put(
        "/origins",
        responses={400: {"description": "The origin is not valid"}, 404: {"description": "There is no such bucket"}},
    )
    async def put(request: Request, order: Annotated[OriginBody, Body()]) -> dict[str, Any]:
        """Let a bucket stand for a bucket on another S3 server, in place of the one that it stood for."""
        _, pulls = used()
        number = core().bucket_id(order.bucket)
        if number is None:
            raise _no_bucket()
        if order.bucket not in pulls.buckets and len(pulls.buckets) >= ORIGINS_MAX:
            raise Refusal(400, "TooManyOrigins", f"At most {ORIGINS_MAX} buckets can have an origin: remove one.")
        done = await change(request, order.bucket, _origin(order, number))
        log.info("The origin of bucket %s was set", order.bucket)
        return done

    @app.delete("/origins/{bucket}", responses={404: {"description": "The bucket has no origin"}})
    async def remove(request: Request, bucket: str) -> dict[str, Any]:
        """Let a bucket stand for itself. Objects that were fetched stay."""
        directory, _ = used()
        if bucket not in await directory.servers(Origin):
            raise Refusal(
                404, "NoSuchOrigin", "This bucket has no origin: `orcas origin show` shows those that have one."
            )
        done = await change(request, bucket, None)
        log.info("The origin of bucket %s was removed", bucket)
        return done


def _no_bucket() -> Refusal:
    return Refusal(404, "NoSuchBucket", "There is no bucket of this name: create it, or name another one.")


def _origin(order: OriginBody, number: int) -> Origin:
    try:
        url = urlsplit(order.url)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid or order.url != f"{url.scheme}://{url.netloc}" or url.username is not None or "/" in order.source:
        raise Refusal(
            400, "InvalidRequest", "url must be http://HOST:PORT or https://HOST:PORT, and source the name of a bucket."
        )
    secret = None if order.secret_key is None else order.secret_key.get_secret_value()
    if (order.access_key is None) != (secret is None):
        raise Refusal(400, "InvalidRequest", "Give both access_key and secret_key, or neither.")
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise Refusal(400, "InvalidRequest", "secret_key must be printable ASCII text.")
    given = order.model_dump(exclude={"secret_key"})
    return Origin(**given, bucket_id=number, secret_key=secret or "")
