"""`orcas status` and `orcas stop`: whether a server runs, how it is, and its end."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orcas.cli.options import Where
from orcas.cli.output import counted, print_found, size, tell
from orcas.cli.store.upkeep import settings_of
from orcas.errors import OrcasError, UnavailableError
from orcas.process.failures import EXIT_NOT_RUNNING

if TYPE_CHECKING:
    from orcas.settings.config import Settings
    from orcas.tools.session import HttpTransport, Session

_POLL_SECONDS: Final = 0.1
# More than a server waits for requests that are under way.
_STOP_SECONDS: Final = 60.0


Ready = Annotated[
    bool, typer.Option("--ready", help="Only whether it answers requests, which needs no key: for health checks.")
]


def status(ready: Ready = False, *, where: Where) -> None:
    """Show whether a server runs, where, since when, on which store, how full that is, and what is wrong.

    Exit code 1: something is wrong, and the sentence says what. Exit code 3: no server has the store open.

    With --ready, a server that takes no content is well, because it has objects to serve, and the exit code is 0 or not.

    Examples:

        orcas status

        orcas status --ready
    """
    from orcas.cluster.leaving import is_node

    if ready:
        url = ready_url(where)
        tell({"ready": True, "url": url}, f"ready: {url}", where.as_json)
        return
    settings = settings_of(where.data)
    session = server_of(settings, where.endpoint)
    if session is None:
        shown: dict[str, Any] = {"running": False, "data": str(settings.data), **_of_disk(settings)}
        rows = [("state", "no server runs"), ("store", shown["data"]), ("disk", f"{size(shown['free'])} free")]
        start = "orcas serve --log URL --node-url URL" if is_node(settings.data) else "orcas serve"
        print_found(shown, where.as_json, ("", "status"), [*rows, ("to start", start)])
        raise typer.Exit(EXIT_NOT_RUNNING)
    with contextlib.closing(session):
        shown = _document(session, settings, where.endpoint)
    print_found(shown, where.as_json, ("", "status"), _rows(shown))
    if shown["wrong"]:
        raise OrcasError(f"The server is not well ({'; '.join(shown['wrong'])}): see `orcas stats`, and its log.")


def ready_url(where: Where) -> str:
    """The URL of the server, which answers requests.

    Raises:
        OrcasError: it does not, or there is none.
    """
    from orcas.control.files.address import running_at
    from orcas.tools.session import HttpTransport, transport_of

    settings = settings_of(where.data)
    if where.endpoint is not None:
        transport = HttpTransport(where.endpoint)
    elif (address := running_at(settings.data)) is not None:
        transport = transport_of(address)
    else:
        raise UnavailableError(f"No server has the store in {settings.data} open: start it, or wait for it.")
    with contextlib.closing(transport):
        status, content = _health(transport, "ready")
    if status != HTTPStatus.OK:
        raise OrcasError(
            f"The server at {transport.host} is not ready ({content[:200]}): see `orcas status`, and its log."
        )
    return transport.url


def _health(transport: HttpTransport, path: str) -> tuple[int, str]:
    """Status and body of what a server answers to everybody about itself."""
    host = [(b"host", transport.host.encode())]
    with transport.exchange("GET", f"/_orcas/health/{path}", "", host, b"") as answer:
        return answer.status, answer.read().decode(errors="replace").strip()


def server_of(settings: Settings, endpoint: str | None) -> Session | None:
    """The server at `endpoint`, or the one that has the store open; None if there is none."""
    from orcas.tools.reach import has_server, remote, through_server

    if endpoint is not None:
        return remote(settings, endpoint)
    return through_server(settings) if has_server(settings) else None


def _of_disk(settings: Settings) -> dict[str, int]:
    import shutil

    place = next(path for path in (settings.data, *settings.data.parents) if path.exists())
    found = shutil.disk_usage(place)
    return {"free": found.free, "total": found.total}


def _document(session: Session, settings: Settings, endpoint: str | None) -> dict[str, Any]:
    """The report of the server about itself, and its problems."""
    from orcas.tools.session import HttpTransport

    about, disk, stats = (session.admin("GET", path) for path in ("about", "disk", "stats"))
    assert isinstance(session.transport, HttpTransport)
    health = about["health"]
    standby, node = about["standby"], about.get("cluster")
    # A standby is read-only, and well.
    is_well = health["status"] == ("ok" if standby is None or node is not None else "read-only")
    failing = [f"the task {task['name']} fails: {task['error']}" for task in stats["tasks"] if task["error"]]
    wrong = [
        *([] if is_well else [f"{health['status']}: {health['detail'] or health['reason']}"]),
        *([_not_following(standby, node)] if standby and standby["error"] else []),
        *([f"damaged identities: {len(about['damaged_identities'])}"] if about["damaged_identities"] else []),
        *failing,
    ]
    return {
        "running": True, "url": session.transport.url, "version": about["versions"]["orcas"],
        "since": dt.datetime.fromtimestamp(about["started"], dt.UTC).isoformat(timespec="seconds"),
        "data": None if endpoint is not None else str(settings.data), "health": health["status"],
        "writable": health["writable"], "durability": health["durability"], "memory": about["memory_bytes"],
        "buckets": len(stats["buckets"]), "objects": sum(bucket["objects"] for bucket in stats["buckets"]),
        "store": disk["store"], "free": disk["free"], "total": disk["total"], "reserve": disk["reserve"], "standby": standby,
        "cluster": node, "wrong": wrong,
    }  # fmt: skip


def _not_following(standby: dict[str, Any], node: dict[str, Any] | None) -> str:
    followed = standby["url"] if node is None else f"the log of the cluster, {node['log']}"
    return f"it does not follow {followed}: {standby['error']}"


def _rows(shown: dict[str, Any]) -> list[tuple[str, str]]:
    up = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(shown["since"])
    hours, minutes = divmod(int(up.total_seconds()) // 60, 60)
    place = [("store", shown["data"])] if shown["data"] is not None else []
    accepts = "" if shown["writable"] else ", accepts no content"
    standby, node = shown["standby"], shown["cluster"]
    content = f"{counted(shown['objects'], 'object')} in {counted(shown['buckets'], 'bucket')}"
    return [
        ("state", f"running, {shown['health']}{accepts}" if standby is None else _behind(standby, node)),
        *([] if node is None else [("owner", _owner(node))]),
        ("address", shown["url"]),
        ("since", f"{shown['since']}, {hours} h {minutes} min"),
        ("version", shown["version"]),
        *place,
        ("durability", shown["durability"]),
        ("content", f"{content}, {size(shown['store'])} on the disk"),
        ("disk", f"{size(shown['free'])} free of {size(shown['total'])}; {size(shown['reserve'])} must stay free"),
        ("memory", size(shown["memory"])),
        ("wrong", "; ".join(shown["wrong"]) or "nothing"),
    ]


def _owner(node: dict[str, Any]) -> str:
    owner = node["owner"]
    if node["role"] == "owner":
        return f"this node, {node['node']}"
    return "none" if owner is None else f"{owner['node']} at {owner['url']}"


def _behind(standby: dict[str, Any], node: dict[str, Any] | None) -> str:
    behind = standby["behind_sec"]
    lag = "never reached" if behind is None else f"at most {behind:.1f} s behind"
    if node is not None:
        return f"follower {node['node']} of a cluster up to entry {node['next']} of its log, {lag}"
    return f"standby of {standby['url']} up to record {standby['sequence']}, {lag}"


def stop(*, where: Where) -> None:
    """Stop a running server: it answers the requests that are under way, and closes its store.

    A server that a service manager or a container runs is stopped there: it would be started again.

    Example:

        orcas stop
    """
    settings = settings_of(where.data)
    session = server_of(settings, where.endpoint)
    if session is None:
        raise UnavailableError(f"No server has the store in {settings.data} open: there is nothing to stop.")
    with contextlib.closing(session):
        session.admin("POST", "stop")
        host = session.transport.host
    deadline = time.monotonic() + _STOP_SECONDS
    while _runs(settings, where.endpoint):
        if time.monotonic() > deadline:
            raise OrcasError(
                f"The server at {host} was told to stop and still runs, or runs again: stop the service or the container "
                "that runs it, or end its process."
            )
        time.sleep(_POLL_SECONDS)
    tell({"stopped": host}, f"the server at {host} has stopped", where.as_json)


def _runs(settings: Settings, endpoint: str | None) -> bool:
    """Whether there is still a server."""
    from orcas.control.files import is_running
    from orcas.tools.session import HttpTransport

    if endpoint is None:
        return is_running(settings.data)
    with contextlib.closing(HttpTransport(endpoint)) as transport, contextlib.suppress(UnavailableError):
        return bool(json.loads(_health(transport, "live")[1]))
    return False


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    for command in (status, stop):
        app.command()(command)
