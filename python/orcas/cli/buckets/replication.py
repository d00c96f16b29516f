"""Commands for replication: replication target add, list, remove and test; add, status, retry and verify."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from orcas.cli.options import Commands, Where, bytes_of
from orcas.cli.output import print_json, print_table, say, size, tell
from orcas.cli.store.upkeep import ask
from orcas.errors import OrcasError, UsageError

replication_app = Commands(help="Continuous copies of buckets at other S3 servers.")
target_app = Commands(help="The servers that buckets can be replicated to.")
replication_app.add_typer(target_app, name="target")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a target, as rules have it.")]
Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="A bucket of this store.")]
_LOOK_SEC: Final = 0.5


@target_app.command("add")
def add_target(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="http(s)://HOST[:PORT] of an S3 server.")],
    access_key: Annotated[str, typer.Option("--access-key", metavar="K", help="The access key that writes there.")],
    secret_key: Annotated[
        str | None, typer.Option("--secret-key", metavar="S", help="Its secret key; by default from standard input.")
    ] = None,
    region: Annotated[str, typer.Option("--region", help="The region of the server.")] = "us-east-1",
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="CA certificates in PEM, if not those of the system.")
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="Its address may be one of a private network or of the machine of the server."),
    ] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Keys at a time for a route.")] = 16,
    bandwidth: Annotated[
        str, typer.Option("--bandwidth", metavar="SIZE", help="Bytes a second for a route at most, such as 10 MiB.")
    ] = "",
    *,
    where: Where,
) -> None:
    """Add a target, or replace one, after asking it whether the key is right. The secret key is stored encrypted.

    Example:

        orcas replication target add backup https://s3.example.org --access-key AKIA... < secret.txt
    """
    if secret_key is None:
        secret_key = sys.stdin.readline().strip()
    if not secret_key:
        raise UsageError("There is no secret key: give it with --secret-key, or on standard input.")
    order: dict[str, Any] = {
        "name": name, "url": url.rstrip("/"), "access_key": access_key, "secret_key": secret_key, "region": region,
        "private": private, "concurrency": concurrency,
    }  # fmt: skip
    if bandwidth:
        order["bytes_per_sec"] = bytes_of(bandwidth, "--bandwidth")
    if ca is not None:
        try:
            order["ca"] = ca.expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{ca} cannot be read: {error}; name a file with certificates in PEM.") from None
    ask(where, "PUT", "replication/targets", order)
    shown = {field: value for field, value in order.items() if field not in ("secret_key", "ca")}
    tell(shown, f"the target {name} is {url}", where.as_json)


@target_app.command("list")
def list_targets(*, where: Where) -> None:
    """List the targets.

    Example:

        orcas replication target list
    """
    targets = ask(where, "GET", "replication")["targets"]
    if where.as_json:
        print_json({"targets": targets})
        return
    rows = [(it["name"], it["url"], it["region"], it["access_key"], it["damage"] or "") for it in targets]
    print_table(("Target", "Address", "Region", "Access key", "Damage"), rows)


@target_app.command("remove")
def remove_target(name: Name, *, where: Where) -> None:
    """Remove a target and its key. Rules that name it copy nothing until there is a target of its name again.

    Example:

        orcas replication target remove backup
    """
    ask(where, "DELETE", f"replication/targets/{quote(name, safe='')}")
    tell({"name": name}, f"the target {name} is removed", where.as_json)


@target_app.command("test")
def test_target(name: Name, *, where: Where) -> None:
    """Ask a target of a running server now whether it answers, and whether its key is right.

    Example:

        orcas replication target test backup
    """
    found = ask(where, "POST", f"replication/targets/{quote(name, safe='')}/test", {})
    if not found["answers"]:
        raise OrcasError(found["reason"])
    tell({"name": name, **found}, f"the target {name} answers, and takes the key", where.as_json)


@replication_app.command()
def add(
    bucket: Bucket,
    to: Annotated[str, typer.Option("--to", metavar="NAME/BUCKET", help="A target, and the bucket there.")],
    prefix: Annotated[str, typer.Option("--prefix", help="Only objects whose keys begin like this.")] = "",
    existing: Annotated[bool, typer.Option("--existing", help="Also what exists already.")] = False,
    markers: Annotated[bool, typer.Option("--delete-markers", help="Also delete markers.")] = False,
    *,
    where: Where,
) -> None:
    """Add a rule to a bucket of a running server: from now on, what changes in it is copied. Both buckets need versioning.

    Example:

        orcas replication add photos --to backup/photos --existing
    """
    target, _, there = to.partition("/")
    if not there:
        raise UsageError(f"{to} names no bucket: write NAME/BUCKET.")
    order = {
        "bucket": bucket, "target": target, "to": there, "prefix": prefix, "existing": existing, "markers": markers,
    }  # fmt: skip
    found = ask(where, "POST", "replication/rules", order)
    tell({**order, **found}, f"bucket {bucket} is replicated to {to}", where.as_json)


@replication_app.command()
def status(
    bucket: Annotated[str | None, typer.Argument(metavar="BUCKET", help="Only this bucket.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until everything that has changed so far was copied.")
    ] = False,
    *,
    where: Where,
) -> None:
    """Show how far copies are, and what could not be copied. Ends with 1 if anything could not be.

    Example:

        orcas replication status --wait
    """
    until = None
    while True:
        found = ask(where, "GET", "replication")
        routes = [it for it in found["routes"] if bucket in (None, it["bucket"])]
        if bucket is not None and not routes:
            raise OrcasError(f"No rule replicates the bucket {bucket}: `orcas replication add` adds one.")
        until = found["sequence"] if until is None else until
        left = [it for it in routes if it["sequence"] < until or (it["walk"] is not None and not it["walk"]["done"])]
        if not wait or not left or any(it["full"] for it in left):
            break
        time.sleep(_LOOK_SEC)
    if where.as_json:
        print_json({"routes": routes})
    else:
        _show(routes)
    if any(it["exceptions"] or it["failing"] for it in routes):
        raise typer.Exit(1)


@replication_app.command()
def retry(
    bucket: Bucket,
    everything: Annotated[
        bool, typer.Option("--all", help="Compare everything that rules are about, and copy what differs.")
    ] = False,
    *,
    where: Where,
) -> None:
    """Try again soon what could not be copied of BUCKET.

    With --all, both sides are compared, as is needed after a snapshot was restored or the bucket of the target was emptied.

    Examples:

        orcas replication retry photos

        orcas replication retry photos --all
    """
    found = ask(where, "POST", "replication/retry", {"bucket": bucket, "everything": everything})
    tell(found, f"{found['retried']} exceptions of {bucket} are tried again", where.as_json)


@replication_app.command()
def verify(
    bucket: Bucket,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Compare metadata and tags as well, key by key.")
    ] = False,
    after: Annotated[str, typer.Option("--after", metavar="KEY", help="Continue behind this key.")] = "",
    *,
    where: Where,
) -> None:
    """Compare BUCKET with its copies by names, sizes and ETags, and print what differs. Ends with 1 if anything does.

    If it was interrupted, continue with --after and the last key that it printed.

    Example:

        orcas replication verify photos
    """
    compared, differences = 0, list[dict[str, Any]]()
    while True:
        order = {"bucket": bucket, "after": after, "metadata": metadata}
        page = ask(where, "POST", "replication/verify", order)
        compared += page["compared"]
        differences += page["differences"]
        if not where.as_json:
            for it in page["differences"]:
                say(f"{it['differs']}: {it['key']} ({it['to']})")
        if page["done"]:
            break
        after = page["after"]
    if where.as_json:
        print_json({"compared": compared, "differences": differences})
    else:
        tell({}, f"{compared} keys compared, {len(differences)} differ", where.as_json)
    if differences:
        raise typer.Exit(1)


def _show(routes: list[dict[str, Any]]) -> None:
    rows = [
        (
            it["bucket"],
            f"{it['target']}/{it['to']}",
            it["results"].get("copied", 0),
            size(it["bytes"]),
            f"{it['pending']['changes']}{'+' if it['pending']['more'] else ''}",
            f"{it['behind_sec']:.0f} s",
            "" if it["walk"] is None else "done" if it["walk"]["done"] else "under way",
            len(it["exceptions"]),
            it["failing"] or "",
        )
        for it in routes
    ]
    print_table(("Bucket", "To", "Copied", "Bytes", "Pending", "Behind", "Existing", "Exceptions", "Failing"), rows)
    problems = [
        (it["bucket"], problem["key"], problem["tries"], problem["reason"])
        for it in routes
        for problem in it["exceptions"]
    ]
    if problems:
        print_table(("Bucket", "Key", "Tries", "Reason"), problems)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(replication_app, name="replication")
