"""`orcas cp` and `orcas cat`: objects to files and back, and from bucket to bucket."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orcas.cli.options import Where, among, bytes_of, pairs
from orcas.cli.output import print_json, progress, say
from orcas.cli.store.upkeep import opened_for_objects
from orcas.errors import UsageError

if TYPE_CHECKING:
    from orcas.tools.session import Headers
    from orcas.tools.transfers.copy import Copies, Outcome
    from orcas.tools.transfers.removal import Removed

_STREAM = "-"
_ACLS = ("private", "public-read", "public-read-write", "authenticated-read", "bucket-owner-read",
         "bucket-owner-full-control")  # fmt: skip
_SSE = ("AES256", "aws:kms")
_SHOWN_MAX = 10


def _option(name: str, text: str, metavar: str = "TEXT", values: tuple[str, ...] = ()) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=text, autocompletion=among(*values))
    return found


@dataclass(frozen=True, slots=True)
class Stored:
    """Headers with which objects are stored."""

    content_type: Annotated[str | None, _option("--content-type", "In place of the type that its name suggests.")] = (
        None
    )
    cache_control: Annotated[str | None, _option("--cache-control", "Header Cache-Control.")] = None
    content_disposition: Annotated[str | None, _option("--content-disposition", "Header Content-Disposition.")] = None
    content_encoding: Annotated[str | None, _option("--content-encoding", "Header Content-Encoding.")] = None
    content_language: Annotated[str | None, _option("--content-language", "Header Content-Language.")] = None
    expires: Annotated[str | None, _option("--expires", "Header Expires.")] = None
    storage_class: Annotated[str | None, _option("--storage-class", "Its storage class, such as STANDARD.")] = None
    acl: Annotated[str | None, _option("--acl", "A canned ACL.", "NAME", _ACLS)] = None
    sse: Annotated[str | None, _option("--sse", "Encryption: AES256 or aws:kms.", "KIND", _SSE)] = None
    sse_kms_key_id: Annotated[str | None, _option("--sse-kms-key-id", "The key of the keyring.", "KEY")] = None
    metadata: Annotated[
        list[str] | None, _option("--metadata", "User metadata; several with commas, or repeated.", "KEY=VALUE")
    ] = None

    def headers(self) -> Headers:
        """The headers as requests have them.

        Raises:
            UsageError: a value cannot be one of a header.
        """
        given = {
            "content-type": self.content_type, "cache-control": self.cache_control,
            "content-disposition": self.content_disposition, "content-encoding": self.content_encoding,
            "content-language": self.content_language, "expires": self.expires,
            "x-amz-storage-class": self.storage_class, "x-amz-acl": self.acl,
            "x-amz-server-side-encryption": self.sse,
            "x-amz-server-side-encryption-aws-kms-key-id": self.sse_kms_key_id,
        }  # fmt: skip
        metadata = [entry for text in self.metadata or [] for entry in text.split(",")]
        given |= {f"x-amz-meta-{name.lower()}": value for name, value in pairs(metadata, "--metadata")}
        for name, value in given.items():
            if not (name.isascii() and name.isprintable() and " " not in name and (value or "").isprintable()):
                raise UsageError(f"{name} must be printable: correct its option.")
        return [(name.encode(), value.encode()) for name, value in given.items() if value is not None]


Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Everything in a directory, or below a prefix.")]
DryRun = Annotated[bool, typer.Option("--dryrun", "--dry-run", help="Only say what would be done.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print a line for each object.")]


def cp(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="s3://BUCKET/KEY, a file, or - for stdin.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="s3://BUCKET/KEY, a file, or - for stdout.")],
    recursive: Recursive = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    expected: Annotated[
        str, typer.Option("--expected-size", metavar="SIZE", help="About how much stdin has, if more than 156 GiB.")
    ] = "0",
    *,
    stored: Stored,
    where: Where,
) -> None:
    """Copy files to objects, objects to files, or objects to objects, as `aws s3 cp` does.

    A target that ends in a slash, or is a directory or a bucket, gets the name of the source. Downloads are verified and
    appear under their name whole or not at all. Interrupted uploads of files of more than 16 MiB continue when the
    command is run again. With -r, symbolic links of the source are followed, and a download writes nothing outside
    TARGET: objects whose keys are no paths of files fail. `orcas export` writes those as well. Exit code 1: something
    could not be copied.

    From bucket to bucket, an object keeps its headers and metadata unless new ones are given.

    Examples:

        orcas cp picture.jpg s3://photos/2026/

        orcas cp -r s3://photos/2026/ pictures-2026

        orcas cp s3://photos/2026/picture.jpg s3://photos/best.jpg

        tar c pictures | orcas cp - s3://photos/pictures.tar
    """
    from orcas.tools.transfers.files import umask

    mask, headers, size = umask(), stored.headers(), bytes_of(expected, "--expected-size")
    _check(source, target, recursive)
    with _copying(where, headers, dry_run, quiet=quiet, prints=target == _STREAM) as copies:
        if recursive:
            _copy_all(copies, source, target, mask)
        else:
            _copy_one(copies, source, target, mask, size)


def cat(
    sources: Annotated[list[str], typer.Argument(metavar="s3://BUCKET/KEY...", help="Objects.")],
    *,
    where: Where,
) -> None:
    """Print objects, one after the other. Exit code 1: one cannot be read, or is not what the store says that it is.

    Example:

        orcas cat s3://photos/2026/picture.jpg | wc -c
    """
    from orcas.tools.transfers.places import object_of

    places = [object_of(source) for source in sources]
    with _copying(where, [], False, quiet=True, prints=True) as copies:
        for place in places:
            copies.download_stream(place, sys.stdout.buffer)


def _check(source: str, target: str, recursive: bool) -> None:
    """Refuse what cannot be meant, before a store is opened."""
    from orcas.tools.transfers.places import is_place, place_of

    for text in filter(is_place, (source, target)):
        place_of(text)
    if not is_place(source) and not is_place(target):
        raise UsageError("Neither of the two is an object: write one of them as s3://BUCKET/KEY.")
    if recursive and _STREAM in (source, target):
        raise UsageError("-r needs a directory or a prefix, not -: name one.")
    if not is_place(source) and source != _STREAM:
        if not Path(source).exists():
            raise UsageError(f"{source} does not exist: name a file, or an object as s3://BUCKET/KEY.")
        if recursive and not Path(source).is_dir():
            raise UsageError(f"{source} is no directory: leave out -r.")
        if not recursive and Path(source).is_dir():
            raise UsageError(f"{source} is a directory: add -r.")


def _copy_one(copies: Copies, source: str, target: str, mask: int, size: int) -> None:
    from orcas.tools.transfers.files import Tree
    from orcas.tools.transfers.places import is_place, object_of, parts_of, place_of

    if not is_place(source):
        place = place_of(target)
        name = os.path.basename(os.fsencode(source))  # noqa: PTH119 - of bytes
        if source == _STREAM:
            copies.upload_stream(sys.stdin.buffer, object_of(target), size)
        else:
            copies.upload([(os.fsencode(source), place if place.name else place.below(name))])
        return
    place = object_of(source, has_recursive=True)
    if is_place(target):
        to = place_of(target)
        copies.copy([(place, to if to.name else to.below(place.name), copies.find(place).size)])
    elif target == _STREAM or _is_special(target):
        # A copy, so that closing it does not close stdout.
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") if target == _STREAM else Path(target).open("wb") as stream:
            copies.download_stream(place, stream)
    else:
        path = Path(os.path.abspath(target))  # noqa: PTH100 - keeps symlinks
        if not (target.endswith("/") or path.is_dir()):
            copies.download(place, Tree(os.fsencode(path.parent), mask), [os.fsencode(path.name)])
        elif (parts := parts_of(place.name)) is None:
            raise UsageError(f"{source} ends in no name of a file: give one as the target.")
        else:
            copies.download(place, Tree(os.fsencode(path), mask), parts)


def _copy_all(copies: Copies, source: str, target: str, mask: int) -> None:
    from orcas.tools.transfers.files import Tree
    from orcas.tools.transfers.places import is_place, place_of

    if not is_place(source):
        copies.upload_tree(os.fsencode(source), place_of(target).folder)
    elif is_place(target):
        copies.copy_all(place_of(source).folder, place_of(target).folder)
    else:
        copies.download_all(place_of(source).folder, Tree(os.fsencode(os.path.abspath(target)), mask))  # noqa: PTH100


def _is_special(path: str) -> bool:
    """Whether a path leads to a device or a pipe, which must not be replaced."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


@contextlib.contextmanager
def _copying(where: Where, headers: Headers, dry_run: bool, *, quiet: bool, prints: bool) -> Iterator[Copies]:
    """Copies, and in the end what became of them: said, and an error if something failed.

    `prints`: stdout is for the content of objects.
    """
    from orcas.tools.transfers.copy import Copies, Shown

    shown = not (where.as_json or quiet or prints)
    with (
        interruptible(),
        opened_for_objects(where) as session,
        progress(shown=shown) as advance,
        Copies(session, headers, Shown(say if shown else lambda _: None, advance, dry_run)) as copies,
    ):
        yield copies
    done = copies.done
    if where.as_json:
        if not prints:
            print_json(done.document())
    else:
        if shown and done.objects + done.failed != 1:
            say(f"copied: {done.objects}")
        if done.left_out:
            say(f"Left out, because they are no files: {done.left_out}", err=True)
        if done.unverified:
            say(f"The store knows no digest to verify these objects with: {done.unverified}", err=True)
        # The only one is in the sentence at the end.
        for failure in done.failures[:_SHOWN_MAX] if done.failed > 1 else ():
            say(f"{failure['Key']}: {failure['Message']}", err=True)
    refuse_failed("copied", done)


def refuse_failed(done: str, counts: Outcome | Removed) -> None:
    """End the command if something could not be done; `done` says what, such as "copied"."""
    from orcas.tools.session import RefusedError

    if counts.failed:
        first = counts.failures[0]
        raise RefusedError(
            0,
            f"Objects that could not be {done}: {counts.failed}, such as {first['Key']}, because {first['Message']}: remove "
            "the cause, and run it again.",
            first["Code"],
        )


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, so that it leaves no unfinished file either."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (cp, cat):
        app.command()(command)
