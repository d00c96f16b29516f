"""Nodes of a cluster on one machine with the store of their log: durable writes, takeovers, and a node that begins."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import load
from figures import Figure, Plan
from processes import ACCESS_KEY, KEYS, SECRET_KEY, UNSCRUBBED, Orcas, Process, scratch
from small import unique

_LEASE_SECONDS = 6
_CONNECTIONS = 64
_POLL_SECONDS = 0.005
# Writes before something happens.
_BEFORE = 50
_DEADLINE_SECONDS = 60
_AWS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


class Node(Process):
    """`orcas serve --log`."""

    def __init__(self, data: Path, log: str) -> None:
        port = _free_port()
        settings = {"ORCAS_CLUSTER_LEASE_SEC": str(_LEASE_SECONDS), "ORCAS_TRUSTED_PROXIES": "127.0.0.1"}
        super().__init__(
            [
                sys.executable, "-m", "orcas", "serve", "--data", str(data), "--port", str(port),
                "--log", log, "--node-url", f"http://127.0.0.1:{port}",
            ],
            "orcas ready",
            environment=KEYS | UNSCRUBBED | _AWS | settings,
        )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _database(directory: Path) -> Iterator[Callable[[], str]]:
    """A PostgreSQL server, and the URLs of new logs in it."""
    programs = Path(shutil.which("initdb") or "/usr/lib/postgresql/15/bin/initdb").resolve().parent
    owner = {} if os.geteuid() else {"user": "postgres"}
    folder, port = directory / "postgresql", _free_port()
    folder.mkdir()
    if owner:
        shutil.chown(folder, "postgres")
        for parent in folder.parents[:4]:
            with contextlib.suppress(PermissionError):
                parent.chmod(0o755)

    def run(program: str, *words: str) -> None:
        line = [str(programs / program), "-D", str(folder / "data"), *words]
        subprocess.run(line, check=True, capture_output=True, **owner)  # type: ignore[call-overload]

    run("initdb", "-U", "orcas", "--auth=trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    run("pg_ctl", "-w", "-l", str(folder / "server.log"), "-o", options, "start")
    try:
        yield lambda: f"postgresql://orcas@127.0.0.1:{port}/postgres?log=log{secrets.token_hex(6)}"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")


@contextlib.contextmanager
def _bucket(directory: Path) -> Iterator[Callable[[], str]]:
    """A server whose bucket has logs, and the URLs of new ones."""
    with Orcas(directory / "bucket", settings=UNSCRUBBED) as orcas:
        load.answer(orcas.address, orcas.signer().put("/logs", b""))
        yield lambda: f"s3://logs/{secrets.token_hex(6)}?endpoint={orcas.url}"


def cluster(plan: Plan) -> list[Figure]:
    """Figures cluster-put-…, cluster-get-…, cluster-killed-…, cluster-moved-… and cluster-fresh-…, of both kinds of logs."""
    return [
        *_figures(plan, "rows", _database, 5_000),
        *of_a_bucket(plan),
    ]


def of_a_bucket(plan: Plan) -> list[Figure]:
    """Those with the log as objects, which need nothing but Orcas."""
    return _figures(plan, "objects", _bucket, 4_000)


def _figures(
    plan: Plan, kind: str, store: Callable[[Path], contextlib.AbstractContextManager[Callable[[], str]]], goal: int
) -> list[Figure]:
    puts, alone, passed, killed, moved, fresh = [], [], [], [], [], []
    reads: list[_Reads] = []
    count = plan.size(20_000, 2_000)
    with scratch(plan.directory) as directory, store(directory) as log_url:
        for number in range(plan.size(5, 1)):
            place = directory / f"{kind}{number}"
            place.mkdir()
            with Orcas(place / "alone", settings=UNSCRUBBED) as orcas:
                alone.append(_put(orcas, count))
            url = log_url()
            first, second = Node(place / "first", url), Node(place / "second", url)
            try:
                puts.append(_put(first, count))
                passed.append(_slower(first, second))
                reads.append(_reads(first, second, plan.size(40_000, 2_000)))
                began = time.monotonic()
                with Node(place / "third", url):
                    fresh.append(time.monotonic() - began)
                moved.append(_without_writes(second, functools.partial(_move, first)))
                killed.append(_without_writes(first, functools.partial(second.stop, signal.SIGKILL)))
            finally:
                first.stop()
                with contextlib.suppress(ProcessLookupError, ValueError):
                    second.stop()
    detail = {"puts": count, "bytes": 1024, "connections": _CONNECTIONS, "lease_sec": _LEASE_SECONDS}
    of = f"with the log as {kind}"
    return [
        Figure(f"cluster-put-{kind}", f"durable PUTs of 1 KiB a second, {_CONNECTIONS} connections, {of}", puts, goal,
               at_least=True, unit="/s", detail=detail),
        Figure(f"cluster-put-ratio-{kind}", f"durable PUTs of 1 KiB a second, {of} ÷ a server alone",
               [mine / other for mine, other in zip(puts, alone, strict=True)], detail=detail),
        Figure(f"cluster-get-{kind}", f"how much longer a GET of 1 KiB takes at a follower, p50, {of}", passed, 1.0,
               unit="ms"),
        Figure(f"cluster-reads-{kind}", f"reads of three nodes ÷ one, each with a processor, {of}",
               [found.of_three() for found in reads], 2.7, at_least=True,
               detail={"us_each": [found.us() for found in reads]}),
        Figure(f"cluster-killed-{kind}", f"from the kill of the owner to the next write, {of}", killed,
               _LEASE_SECONDS + 2.0, unit="s", detail=detail),
        Figure(f"cluster-moved-{kind}", f"from `orcas cluster move` to the next write, {of}", moved, 1.0, unit="s"),
        Figure(f"cluster-fresh-{kind}", f"ready with an empty directory, {count} objects in the log, {of}", fresh,
               unit="s", detail=detail),
    ]  # fmt: skip


def _put(server: Process, count: int) -> float:
    """Durable PUTs a second."""
    signer = server.signer()
    load.answer(server.address, signer.put("/small", b""))
    requests = [signer.put(f"/small/{number:08x}", unique(number, 1024)) for number in range(count)]
    began = time.monotonic()
    load.run(server.address, requests, _CONNECTIONS)
    return count / (time.monotonic() - began)


def _slower(owner: Process, follower: Process) -> float:
    took = []
    for server in (follower, owner):
        signer = server.signer()
        found = sorted(load.run(server.address, [signer.get(f"/small/{n:08x}") for n in range(1000)], 1))
        took.append(found[len(found) // 2])
    return (took[0] - took[1]) / 1e6


@dataclass(frozen=True)
class _Reads:
    """Processor time of a read, in nanoseconds: of the owner for its own, of a follower, and of the owner for that."""

    alone: float
    follower: float
    asked: float

    def of_three(self) -> float:
        """Reads of three nodes ÷ those of the owner alone, if each has a processor, and followers take all they can."""
        left = 1 - 2 * self.asked / self.follower
        return (left / self.alone + 2 / self.follower) * self.alone

    def us(self) -> list[float]:
        """In microseconds."""
        return [round(each / 1000, 1) for each in (self.alone, self.follower, self.asked)]


def _reads(owner: Process, follower: Process, count: int) -> _Reads:
    def used(server: Process) -> tuple[float, float]:
        for node in (owner, follower):
            node.settle()
        before = owner.cpu_ns(), follower.cpu_ns()
        signer = server.signer()
        load.run(server.address, [signer.get(f"/small/{n % 1000:08x}") for n in range(count)], _CONNECTIONS)
        return (owner.cpu_ns() - before[0]) / count, (follower.cpu_ns() - before[1]) / count

    alone, _ = used(owner)
    asked, following = used(follower)
    return _Reads(alone, following, asked)


def _move(node: Process) -> None:
    _admin(node, "POST", "cluster/move", b"{}")


def _owns(node: Process) -> bool:
    with contextlib.suppress(OSError, load.UnexpectedResponseError):
        return bool(json.loads(_admin(node, "GET", "cluster"))["role"] == "owner")
    return False


def _admin(node: Process, method: str, path: str, body: bytes = b"") -> bytes:
    headers = {"content-length": str(len(body)), "x-amz-orcas-nonce": secrets.token_hex(8)}
    if body:
        headers["content-type"] = "application/json"
    digest = hashlib.sha256(body).hexdigest()
    head = node.signer().request(method, f"/_orcas/admin/{path}", None, headers, digest)
    return load.answer(node.address, head + body)[1]


def _without_writes(server: Process, cause: Callable[[], object]) -> float:
    """The longest time between two writes through `server` from shortly before the cause until `server` owns the log."""
    began = time.monotonic()
    written: list[float] = [began]
    number, is_caused, owned = 0, False, 0.0
    while time.monotonic() - began < _DEADLINE_SECONDS:
        number += 1
        with contextlib.suppress(OSError, load.UnexpectedResponseError):
            load.answer(server.address, server.signer().put(f"/small/{secrets.token_hex(8)}", b"x"))
            written.append(time.monotonic())
        if not is_caused and number > _BEFORE:
            cause()
            is_caused = True
        if is_caused and not owned and _owns(server):
            owned = time.monotonic()
        if owned and written[-1] > owned:
            return max(later - earlier for earlier, later in itertools.pairwise(written))
        time.sleep(_POLL_SECONDS)
    raise RuntimeError("nothing was written any more")
