"""The table of batch writes in the report that Orcas started from, measured again cell by cell.

Both sides of a cell take the same signed PUTs of new bytes. *On* is Orcas with batch writes. *Off* is what the report
calls off: a file, a directory entry and a database transaction for each object (`file_each.py`). *Append* is Orcas
without batch writes, which is one append to its log.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

import in_process
from figures import Plan
from file_each import FileEachDispatcher
from in_process import Application
from processes import ACCESS_KEY, KEYS, SECRET_KEY, UNSCRUBBED, Process, scratch
from side_by_side import Peer, bench, rates
from signing import Signer
from turns import in_threads, in_turn

Cell = tuple[str, int]
# By cell and side: PUTs a second, one number a round.
Rates = dict[tuple[Cell, str], list[float]]

SIZES = {"1 KiB": 1 << 10, "4 KiB": 4 << 10, "64 KiB": 64 << 10}
IN_FLIGHT = (1, 10, 50, 100)
# Operations a second: batch writes on, and off.
REPORT: dict[Cell, tuple[int, int]] = {
    ("1 KiB", 1): (18_660, 4_339), ("1 KiB", 10): (31_373, 4_551),
    ("1 KiB", 50): (29_131, 3_089), ("1 KiB", 100): (9_272, 1_570),
    ("4 KiB", 1): (13_901, 3_837), ("4 KiB", 10): (41_611, 2_901),
    ("4 KiB", 50): (36_420, 2_569), ("4 KiB", 100): (47_236, 2_032),
    ("64 KiB", 1): (4_775, 2_799), ("64 KiB", 10): (12_643, 3_968),
    ("64 KiB", 50): (21_381, 3_524), ("64 KiB", 100): (20_438, 2_622),
}  # fmt: skip
# What an answer promises: durability of Orcas, and kind of the store of files.
PROMISES = {"memory": ("buffered", "cached"), "disk": ("sync", "synced")}
_PROGRAM = Path(__file__).with_name("file_each.py")
_OFF = UNSCRUBBED | {"ORCAS_BATCH_WRITE_ENABLED": "false"}


def cells(plan: Plan) -> list[Cell]:
    """Those of the report; two of them in a quick pass."""
    return [("1 KiB", 1), ("4 KiB", 10)] if plan.quick else list(REPORT)


def _measure(sides: Iterable[str], plan: Plan, rate: Callable[[str, Cell, int], float]) -> Rates:
    """Every cell and side once in each round. The first round, which fills caches, does not count."""
    found: Rates = {}
    arms = [(side, cell) for side in sides for cell in cells(plan)]
    for number, (side, cell) in in_turn(arms, plan.size(4, 2)):
        measured = rate(side, cell, number)
        if number:
            found.setdefault((cell, side), []).append(measured)
    return found


def in_one_process(plan: Plan, promise: str) -> Rates:
    """As in the report: client and server in one process, without a socket. *Nothing* answers without storing."""
    durability, kind = PROMISES[promise]
    with scratch(plan.directory) as place, contextlib.ExitStack() as stack:

        def behind(name: str) -> Callable[[Any], Any]:
            return lambda dispatcher: FileEachDispatcher(dispatcher, place / f"files-{name}", name)

        applications = {
            side: stack.enter_context(Application(place / side, durability, wrap))
            for side, wrap in (("on", None), ("off", behind(kind)), ("nothing", behind("nothing")))
        }

        def rate(side: str, cell: Cell, number: int) -> float:
            signer = Signer(ACCESS_KEY, SECRET_KEY, in_process.HOST, dt.datetime.now(dt.UTC))
            full = 200 if kind == "synced" and side == "off" else 400 if cell[0] == "64 KiB" else 1000
            count = plan.size(full, 30)
            puts = [
                signer.put(f"/batch/{cell[0][:-4]}/{cell[1]}/{number}/{n}", os.urandom(SIZES[cell[0]]))
                for n in range(count)
            ]
            seconds, _ = applications[side].run(puts, cell[1])
            return count / seconds

        for application in applications.values():
            signer = Signer(ACCESS_KEY, SECRET_KEY, in_process.HOST, dt.datetime.now(dt.UTC))
            application.run([signer.request("PUT", "/batch", headers={"content-length": "0"})])
        return _measure(applications, plan, rate)


@contextlib.contextmanager
def _servers(plan: Plan, promise: str) -> Iterator[dict[str, Process]]:
    durability, kind = PROMISES[promise]
    with scratch(plan.directory) as place:

        def server(name: str, kind: str, settings: dict[str, str]) -> Process:
            order = {"data": str(place / name), "objects": str(place / "files"), "kind": kind}
            environment = {**KEYS, **settings, "ORCAS_DURABILITY": durability}
            return Process([sys.executable, str(_PROGRAM)], "files ready", order=order, environment=environment)

        with (
            server("off", kind, UNSCRUBBED) as off,
            server("append", "orcas", _OFF) as append,
            server("on", "orcas", UNSCRUBBED) as on,
        ):
            yield {"off": off, "append": append, "on": on}


def over_sockets(plan: Plan, promise: str) -> Rates:
    """Over sockets, under the load of `orcas bench`, which is made in Rust."""
    workload = f"""
    mix = {{ put = 1 }}
    seconds = {plan.size(3, 1) / 10}
    warmup_seconds = {plan.size(1, 0) / 10}
    # The store of files has no GET.
    verify = false
    """ + "".join(
        f'\n[[case]]\nname = "{size} {count}"\nsize = "{size.replace(" ", "")}"\nconnections = {count}'
        for size, count in cells(plan)
    )
    with _servers(plan, promise) as servers:
        peers = {side: Peer(server.url, ACCESS_KEY, SECRET_KEY) for side, server in servers.items()}
        measured = bench(peers, workload, plan.size(3, 1))
    for case, results in measured.items():
        for side, result in results.items():
            if not result["ok"]:
                raise RuntimeError(f"{case}, {side}: {result['total']['operations']}")
    return {
        ((size, count), side): rates(result)
        for size, count in cells(plan)
        for side, result in measured[f"{size} {count}"].items()
    }


def through_boto3(plan: Plan, promise: str) -> Rates:
    """The same through boto3, with as many threads in this process: what a Python program sees."""
    count = plan.size(80, 12)
    with _servers(plan, promise) as servers:
        clients = {
            side: boto3.client(
                "s3",
                endpoint_url=server.url,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
                region_name="us-east-1",
                config=Config(max_pool_connections=max(IN_FLIGHT), retries={"total_max_attempts": 1}),
            )
            for side, server in servers.items()
        }
        for client in clients.values():
            client.create_bucket(Bucket="batch")

        def rate(side: str, cell: Cell, number: int) -> float:
            client = clients[side]
            todo = [(f"{cell}/{number}/{n}", os.urandom(SIZES[cell[0]])) for n in range(count)]
            servers[side].settle(0.1)
            put = functools.partial(client.put_object, Bucket="batch")
            seconds, _ = in_threads(cell[1], (functools.partial(put, Key=key, Body=body) for key, body in todo))
            return count / seconds

        return _measure(("on", "off"), plan, rate)
