"""`orcas cluster`: the nodes that share a log, and which of them takes writes."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orcas.cli.options import Commands, Data, Where
from orcas.cli.output import print_found, print_json, print_table, waiting
from orcas.cli.store.upkeep import settings_of
from orcas.errors import OrcasError, UnavailableError, UsageError

if TYPE_CHECKING:
    from orcas.tools.session import Session

_NODE: Final = re.compile("[0-9a-f]{8}")

To = Annotated[
    str | None, typer.Option("--to", metavar="NODE", help="The node that is to take it (default: the first to come).")
]

Nodes = Annotated[list[str] | None, typer.Argument(metavar="URL", help="The nodes to compare with the owner.")]
NoContent = Annotated[bool, typer.Option("--no-content", help="Do not read the content of objects.")]
From = Annotated[str, typer.Option("--from", metavar="URL", help="The node that owns the log.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    cluster = Commands(help="Nodes that share a log, and one of which takes writes.")
    for command in (status, move, verify, join, leave):
        cluster.command()(command)
    app.add_typer(cluster, name="cluster")


def status(where: Where) -> None:
    """Show this node, its role, and the node that owns the log.

    The score says how well a node suits as the owner, from 0 to 1. It is that of the node itself and that of the owner; the
    scores of other nodes it does not know.

    Exit code 1: no node owns the log, or this one cannot follow it.

    Example:

        orcas cluster status --endpoint http://10.0.0.2:9000
    """
    with contextlib.closing(_session(where)) as session:
        found = session.admin("GET", "cluster")
    if where.as_json:
        print_json(found)
    else:
        print_table(("", "cluster"), _rows(found))
    if found["error"] is not None:
        raise OrcasError(f"The node cannot follow the log ({found['error']}): see whether the store of the log is up.")
    if found["owner"] is None:
        raise OrcasError("No node owns the log at present: start one, or wait until one has taken it.")


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    owner = found["owner"]
    # Earlier nodes do not tell the score of the owner.
    known = None if owner is None else owner.get("score")
    of_owner = "" if known is None or found["role"] == "owner" else f"; of the owner {known}"
    return [
        ("node", f"{found['node']} at {found['url']}"),
        ("role", found["role"]),
        ("owner", "none" if owner is None else f"{owner['node']} at {owner['url']}"),
        ("score", f"{found['score']}{of_owner}"),
        ("log", found["log"]),
        ("term", str(found["term"])),
        ("entries", str(found["next"])),
        ("last news", f"{found['silent_sec']} s ago"),
    ]


def move(to: To = None, *, where: Where) -> None:
    """Let another node own the log, before this one is upgraded or stopped.

    Requests wait for a second or so meanwhile. Any node may be asked.

    Example:

        orcas cluster move --to 1c2d3e4f
    """
    if to is not None and not _NODE.fullmatch(to):
        raise UsageError(
            f"--to must be the name of a node, which has 8 hexadecimal digits, not {to}: `orcas cluster status` of that "
            "node shows it."
        )
    with contextlib.closing(_session(where)) as session:
        found = session.admin("GET", "cluster")
    owner = found["owner"]
    if owner is None:
        raise OrcasError("No node owns the log at present: there is nothing to move.")
    with contextlib.closing(_session(where, owner["url"])) as session:
        session.admin("POST", "cluster/move", {"to": to})
    sys.stdout.write(f"{owner['node']} has given up the log; `orcas cluster status` shows who owns it now.\n")


def verify(nodes: Nodes = None, no_content: NoContent = False, *, where: Where) -> None:
    """Compare the copies of nodes: each reads its own files, and its log must be the beginning of that of the owner.

    Compared are the chain of hashes over all records of the store's log, as the disk of each node has it, and the SHA-256
    of the small files (identities, root key, quotas). Content is not sent: each node checks its own with the checksums that
    the log has of it, and its index with the log, as `orcas fsck` does. So copies with the same log that are whole have the
    same content. Not compared are events, usage and the audit log, which are of each node, and bytes that nothing refers
    to.

    Nodes serve meanwhile. Without URLs, it is the node of --data or --endpoint, and the owner of the log.

    Exit code 1: a node differs, is damaged, or could not be compared.

    Example:

        orcas cluster verify http://10.0.0.1:9000 http://10.0.0.2:9000
    """
    from orcas.tools.nodes import DIFFERS, UNKNOWN, compare
    from orcas.tools.reach import remote

    settings = settings_of(where.data)
    with contextlib.ExitStack() as stack, waiting(shown=not where.as_json) as advance:

        def reach(url: str | None) -> Session:
            found = _session(where) if url is None else remote(settings, url)
            return stack.enter_context(contextlib.closing(found))

        asked = [reach(url) for url in nodes or (None,)]
        found = compare(asked, reach, advance, read_content=not no_content)
    rows = [(each["node"], each["role"], each["url"], each["state"], each["finding"] or "") for each in found]
    print_found({"nodes": found}, where.as_json, ("Node", "Role", "Address", "Copy", "Why"), rows)
    wrong, unknown = (
        ", ".join(each["node"] for each in found if each["state"] == state) for state in (DIFFERS, UNKNOWN)
    )
    if wrong:
        raise OrcasError(
            f"Nodes that differ or are damaged: {wrong}: stop each, and start it in an empty directory; move the log "
            "away from an owner first, with `orcas cluster move`."
        )
    if unknown:
        raise OrcasError(f"Nodes that could not be compared: {unknown}: remove the cause, and run it again.")


def join(source: From, data: Data = None) -> None:
    """Copy the files of a node into an empty directory, for a new node of the cluster.

    Only needed when the log does not have everything any more, which `orcas serve --log` says. The key is the root key of
    the cluster, in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Then start the node.

    Example:

        orcas cluster join --from http://10.0.0.2:9000 --data /srv/s3
    """
    from orcas.cluster.joining import join as copy_node
    from orcas.settings.config import resolve
    from orcas.tools.reach import remote

    settings = resolve({"data": data}).settings
    with contextlib.closing(remote(settings, source)) as session:
        copy_node(settings.data, session, source, lambda _done, _all: None)
    sys.stdout.write(f"{settings.data} has a copy of {source}.\n")
    sys.stdout.write(f"Start the node: orcas serve --log URL --data {settings.data}\n")


def _session(where: Where, endpoint: str | None = None) -> Session:
    from orcas.cli.server.status import server_of

    settings = settings_of(where.data)
    session = server_of(settings, endpoint or where.endpoint)
    if session is None:
        raise UnavailableError(f"No server has the store in {settings.data} open: start it, or give --endpoint URL.")
    return session


def leave(data: Data = None) -> None:
    """Make the directory of a stopped node a store of its own, which `orcas serve` opens without a log.

    It has what this node had read of the log. Other nodes of the cluster are not concerned, and do not see what this store
    stores from then on.

    Example:

        orcas cluster leave --data /srv/s3
    """
    from orcas.cluster.leaving import leave as make_store
    from orcas.control.files import InUseError, is_running
    from orcas.settings.config import resolve

    directory = resolve({"data": data}).settings.data
    if is_running(directory):
        raise InUseError(directory)
    make_store(directory)
    sys.stdout.write(f"{directory} is a store of its own now.\n")
    sys.stdout.write(f"Check it: orcas fsck --data {directory}\nStart it: orcas serve --data {directory}\n")
