"""Commands for the origins of buckets: origin set, show and remove."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from orcas.cli.options import Commands, Where, bytes_of
from orcas.cli.output import print_found, size, tell
from orcas.cli.store.upkeep import ask
from orcas.errors import OrcasError, UsageError

origin_app = Commands(help="Origins of buckets: other S3 servers, from which objects are fetched when they are read.")

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="A bucket of this store.")]


@origin_app.command("set")
def set_origin(
    bucket: Bucket,
    place: Annotated[str, typer.Argument(metavar="URL", help="http(s)://HOST[:PORT]/BUCKET of another S3 server.")],
    profile: Annotated[
        str | None,
        typer.Option("--source-profile", metavar="NAME", help="The profile in ~/.aws with its key; needs boto3."),
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--source-unsigned", help="The origin is public: do not sign the requests to it.")
    ] = False,
    private: Annotated[
        bool,
        typer.Option("--private", help="Its address may be one of a private network or of the machine of the server."),
    ] = False,
    most: Annotated[
        str, typer.Option("--max-object-size", metavar="SIZE", help="Maximum bytes of an object, such as 500 MiB.")
    ] = "5GiB",
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, max=60, metavar="SECONDS", help="How long the origin may be silent.")
    ] = 15,
    *,
    where: Where,
) -> None:
    """Let BUCKET stand for a bucket on another S3 server: an object that is read and not here is fetched from there.

    Objects are verified, and stored before they are sent. They are never fetched again, nor replaced. The key of the
    origin comes from the variables SOURCE_AWS_ACCESS_KEY_ID and SOURCE_AWS_SECRET_ACCESS_KEY, and is stored encrypted.
    `orcas quota` limits what the bucket may hold.

    Examples:

        orcas origin set photos https://s3.eu-central-1.amazonaws.com/my-photos

        orcas origin set models https://minio.internal:9000/models --private --max-object-size 2GiB
    """
    from orcas.tools.imports.places import keys_of, server_of

    url, source = server_of(place)
    if not source:
        raise UsageError(f"{place} names no bucket: add /BUCKET to it.")
    if not private and _is_own(url):
        raise UsageError(f"{url} is of a private network or of this machine: add --private.")
    order: dict[str, Any] = {
        "bucket": bucket, "url": url, "source": source, "private": private,
        "object_bytes_max": bytes_of(most, "--max-object-size"), "timeout_sec": timeout,
    }  # fmt: skip
    shown = dict(order)
    if not unsigned:
        (access_key, secret_key), token, region = keys_of(url, profile)
        if token:
            raise UsageError("The key of the origin has a session token, so it will end: give one that lasts.")
        order |= {"access_key": access_key, "secret_key": secret_key, "region": region}
        shown |= {"access_key": access_key, "region": region}
    ask(where, "PUT", "origins", order)
    tell(shown, f"the origin of bucket {bucket} is {url}/{source}", where.as_json)


@origin_app.command()
def show(
    bucket: Annotated[str | None, typer.Argument(metavar="BUCKET", help="Only this bucket.")] = None,
    *,
    where: Where,
) -> None:
    """Show the origins of buckets, and what a running server has fetched from them since it started.

    Example:

        orcas origin show
    """
    found = ask(where, "GET", "origins")["origins"]
    if bucket is not None:
        found = [origin for origin in found if origin["bucket"] == bucket]
        if not found:
            raise OrcasError(f"The bucket {bucket} has no origin: `orcas origin set` gives it one.")
    rows = [
        (
            origin["bucket"],
            f"{origin['url']}/{origin['source']}",
            origin["fetches"].get("stored", 0),
            size(origin["bytes"]),
            sum(count for result, count in origin["fetches"].items() if result not in ("stored", "missing")),
            origin["last_failure"] or "",
        )
        for origin in found
    ]
    print_found(
        {"origins": found}, where.as_json, ("Bucket", "Origin", "Fetched", "Bytes", "Failed", "Last failure"), rows
    )


@origin_app.command()
def remove(bucket: Bucket, *, where: Where) -> None:
    """Remove the origin of BUCKET, and the key that was stored for it. Objects that were fetched stay.

    Example:

        orcas origin remove models
    """
    ask(where, "DELETE", f"origins/{quote(bucket, safe='')}")
    tell({"bucket": bucket}, f"bucket {bucket} has no origin", where.as_json)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(origin_app, name="origin")


def _is_own(url: str) -> bool:
    """Whether a URL has an address, not a name, of a private network or of a machine itself."""
    from orcas.targets.addresses import is_public

    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return not is_public(host)
    return host == "localhost"
