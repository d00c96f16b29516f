"""`orcas ls`, `orcas mb` and `orcas presign`: what there is, and links to it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orcas.cli.options import Where
from orcas.cli.output import print_json, say, size, tell
from orcas.cli.store.upkeep import opened_for_objects
from orcas.errors import OrcasError, UnavailableError

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator

    from orcas.tools.session import Session
    from orcas.tools.transfers.places import Place

# Elements of a list that are not text.
_NUMBERS: Final = frozenset({"Size"})
_EXPIRES_MAX: Final = 604_800


def ls(
    place: Annotated[str | None, typer.Argument(metavar="[s3://BUCKET/PREFIX]", help="All buckets if omitted.")] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Also what is below further slashes.")] = False,
    readable: Annotated[bool, typer.Option("--human-readable", help="Sizes in KiB, MiB and GiB.")] = False,
    summarize: Annotated[bool, typer.Option("--summarize", help="Also how many objects and bytes there are.")] = False,
    *,
    where: Where,
) -> None:
    """List buckets, or objects and prefixes in one, as `aws s3 ls` does. Times are those of this machine's time zone.

    Examples:

        orcas ls

        orcas ls s3://photos/2026/

        orcas ls -r s3://photos --summarize
    """
    from orcas.tools.transfers.places import SCHEME, is_place, place_of

    # As in `aws s3 ls`, which needs no scheme.
    asked = None if place in (None, SCHEME) else place_of(place if is_place(place) else SCHEME + place)
    with opened_for_objects(where) as session:
        if asked is None:
            _list_buckets(session, where)
        else:
            _list_objects(session, asked, where, recursive=recursive, readable=readable, summarize=summarize)


def _list_buckets(session: Session, where: Where) -> None:
    from orcas.tools.objects import bucket_entries

    found = [_fields(bucket) for bucket in bucket_entries(session)]
    if where.as_json:
        print_json({"Buckets": found})
        return
    for bucket in found:
        say(f"{_time(bucket['CreationDate'])} {bucket['Name']}")


def _list_objects(
    session: Session, place: Place, where: Where, *, recursive: bool, readable: bool, summarize: bool
) -> None:
    found: dict[str, list[dict[str, Any]]] = {"Contents": [], "CommonPrefixes": []}
    count = objects = total = 0
    for key, entry in _entries(session, place, "" if recursive else "/"):
        count += 1
        objects += "Size" in entry
        total += entry.get("Size", 0)
        if where.as_json:
            found["Contents" if "Size" in entry else "CommonPrefixes"].append(entry)
            continue
        name = key if recursive else key.removeprefix(place.parent)
        shown = name.decode(errors="surrogateescape")
        if "Size" in entry:
            number = size(entry["Size"]) if readable else str(entry["Size"])
            say(f"{_time(entry['LastModified'])} {number:>10} {shown}")
        else:
            say(f"{'PRE':>30} {shown}")
    if where.as_json:
        print_json(found)
    elif summarize:
        say("")
        say(f"Total Objects: {objects}")
        say(f"   Total Size: {size(total) if readable else total}")
    if not count and place.key:
        raise OrcasError(f"No key begins with {place}: give another prefix.")


def _entries(session: Session, place: Place, delimiter: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Key or prefix, and S3's own fields, of all that is below a prefix; of each page, prefixes come first."""
    from orcas.tools.objects import key_of, pages
    from orcas.tools.salvage import text_fields

    for document in pages(session, place.bucket, place.key, delimiter):
        for entry in document.iterfind("{*}CommonPrefixes"):
            prefix = key_of(document, entry, "Prefix")
            yield prefix, text_fields("Prefix", prefix)
        for entry in document.iterfind("{*}Contents"):
            key = key_of(document, entry)
            yield key, _fields(entry) | text_fields("Key", key)


def _fields(entry: ET.Element) -> dict[str, Any]:
    """The elements of an entry of a list that are text or a number, by their names."""
    found = {child.tag.rpartition("}")[2]: child.text or "" for child in entry if not len(child)}
    return {name: int(text) if name in _NUMBERS else text for name, text in found.items()}


def _time(text: str) -> str:
    return dt.datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def mb(
    bucket: Annotated[str, typer.Argument(metavar="s3://BUCKET", help="The bucket to create.")],
    *,
    where: Where,
) -> None:
    """Create a bucket.

    Examples:

        orcas mb s3://pictures

        orcas mb s3://sketches
    """
    from orcas.tools.imports.requests import ObjectError, Side, path_of
    from orcas.tools.session import RefusedError
    from orcas.tools.transfers.places import bucket_of

    name = bucket_of(bucket)
    with opened_for_objects(where) as session:
        try:
            Side(session, is_target=True).ask("PUT", path_of(name))
        except ObjectError as error:
            sentence = f"The bucket {name} cannot be created ({error}): name another one."
            raise RefusedError(error.status, sentence, error.code) from None
    tell({"Name": name}, f"make_bucket: {name}", where.as_json)


def presign(
    place: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="An object.")],
    expires: Annotated[
        int, typer.Option("--expires-in", metavar="SECONDS", min=1, max=_EXPIRES_MAX, help="How long it is valid.")
    ] = 3600,
    *,
    where: Where,
) -> None:
    """Print a link by which anyone can download an object for some time. Nobody looks whether there is one.

    Example:

        orcas presign s3://photos/2026/picture.jpg --expires-in 600
    """
    from orcas.tools.imports.requests import path_of
    from orcas.tools.session import HttpTransport
    from orcas.tools.transfers.places import object_of

    found = object_of(place)
    with opened_for_objects(where) as session:
        if not isinstance(session.transport, HttpTransport):
            raise UnavailableError(
                "No server has the store open, so a link leads nowhere: start it, or give --endpoint."
            )
        url = session.transport.url + session.presigned(path_of(found.bucket, found.key), expires)
    tell({"Url": url}, url, where.as_json)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (ls, mb, presign):
        app.command()(command)
