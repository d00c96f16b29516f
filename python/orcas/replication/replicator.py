"""The replication of a server: a flow for each route that rules lead along, with the targets that it has.

It looks for new rules twice a second, so a rule is in effect soon after its document was stored; where it begins stands in
the document. Tells the core how far copies are. Made on the event loop that serves the requests of copies.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orcas.control.origins import ReplicationTarget
from orcas.control.root import Root
from orcas.replication.rules import Route, Rules, routes_of
from orcas.replication.state import DIRECTORY, load, path_of
from orcas.telemetry.replication import RouteCounts

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from orcas.engine import Core
    from orcas.iam.directory import Directory
    from orcas.replication.flow import Flow
    from orcas.settings.config import Settings
    from orcas.tools.session import Session

TARGETS_MAX: Final = 100
_LOOK_SEC: Final = 0.5
# When the server stops: what is under way may end.
_FINISH_SEC: Final = 2.0
_END_SEC: Final = 3.0

log = logging.getLogger("orcas.replication")


class Replicator:
    """The flows of a server. `app` takes the requests by which copies read."""

    def __init__(self, core: Core, app: ASGIApp, root: Root, region: str, data: Path, *, runs: bool) -> None:
        self.targets: dict[str, ReplicationTarget] = {}
        self._core = core
        self._app = app
        self._root = root
        self._region = region
        self._data = data
        self._runs = runs
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(8, "orcas-replication-read")
        self._flows: dict[Route, Flow] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look, name="orcas-replication", daemon=True)

    def start(self) -> None:
        """Begin to copy."""
        if self._runs:
            self._looking.start()

    def close(self) -> None:
        """End all flows; what was under way is looked at again by the next server. Blocks for a short time."""
        self._stop.set()
        if self._looking.is_alive():
            self._looking.join(_END_SEC)
        with self._lock:
            flows, self._flows = list(self._flows.values()), {}
        _end(flows)
        self._threads.shutdown(wait=False)

    def replace(self, targets: dict[str, ReplicationTarget]) -> None:
        """Use these targets from now on."""
        former, self.targets = self.targets, targets
        self._core.set_replication_targets(list(targets))
        changed = {name for name in former if former[name] != targets.get(name)}
        with self._lock:
            gone = [self._flows.pop(route) for route in list(self._flows) if route.target in changed]
        _end(gone)

    def describe(self) -> list[dict[str, Any]]:
        """How each flow is."""
        with self._lock:
            flows = [self._flows[route] for route in sorted(self._flows, key=lambda route: route.text)]
        return [flow.describe() for flow in flows]

    def counts(self) -> list[RouteCounts]:
        """The metrics of each route."""
        return [
            {
                "bucket": it["bucket"], "target": f"{it['target']}/{it['to']}", "results": it["results"],
                "failures": it["failures"], "bytes": it["bytes"], "exceptions": len(it["exceptions"]),
                "behind_sec": it["behind_sec"], "pending": it["pending"]["changes"],
                "pending_bytes": it["pending"]["bytes"],
            }
            for it in self.describe()
        ]  # fmt: skip

    def retry(self, bucket: str, *, everything: bool) -> int | None:
        """Try the exceptions of a bucket soon; how many there are. None: it is not replicated.

        `everything`: compare all that rules are about, and copy what differs.
        """
        with self._lock:
            flows = [flow for route, flow in self._flows.items() if route.bucket == bucket]
        return sum(flow.retry(everything=everything) for flow in flows) if flows else None

    def verify(self, bucket: str, after: bytes, *, metadata: bool) -> dict[str, Any] | None:
        """The next keys of a bucket, compared with the copies along each route. None: it is not replicated.

        Raises:
            RuleError: a side cannot be read.
        """
        from orcas.replication.orders import verified

        with self._lock:
            flows = [flow for route, flow in self._flows.items() if route.bucket == bucket]
        found = [(flow.route, verified(flow.copier, flow.rules, after, metadata=metadata)) for flow in flows]
        if not found:
            return None
        # All continue behind the key up to which each was compared.
        last = min((page["after"] for _, page in found if not page["done"]), default="")
        differences = [
            {**entry, "to": f"{route.target}/{route.to}"} for route, page in found for entry in page["differences"]
        ]
        return {
            "compared": max(page["compared"] for _, page in found), "differences": differences, "after": last,
            "done": all(page["done"] for _, page in found),
        }  # fmt: skip

    def here(self) -> Session:
        """Requests to this server, by root, from another thread than that of the event loop."""
        from orcas.replication.client import OwnSession
        from orcas.tools.inside import LocalTransport

        return OwnSession(LocalTransport(self._app, self._loop, self._threads), self._root, self._region)

    def _look(self) -> None:
        failed, seen, routes = False, -1, dict[Route, Rules]()
        self._forget_others()
        while not self._stop.wait(_LOOK_SEC):
            try:
                # Asked first: rules that are published meanwhile are read now or at the next look, and never missed.
                published = self._core.published_sequence()
                if published != seen:
                    routes, seen = routes_of(self._core.replicated_buckets()), published
                # Also without new rules: targets may be known that were not.
                self._reconcile(routes)
                failed = False
            except Exception as error:  # noqa: BLE001 - logged, and tried again
                if not failed and not self._stop.is_set():
                    log.error("The rules of replication cannot be followed: %s", error)
                failed = True

    def _forget_others(self) -> None:
        """Remove the files of routes whose rules were removed while no server looked."""
        kept = {path_of(self._data, route) for route in routes_of(self._core.replicated_buckets())}
        for path in (self._data / DIRECTORY).glob("*.json"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _reconcile(self, routes: dict[Route, Rules]) -> None:
        """Begin and end flows so that there is one for each route whose target is known."""
        with self._lock:
            gone = {route: self._flows.pop(route) for route in list(self._flows) if route not in routes}
            for route, flow in self._flows.items():
                flow.rules = routes[route]
            new = [route for route in routes if route not in self._flows]
        _end(list(gone.values()))
        for route in gone:
            path_of(self._data, route).unlink(missing_ok=True)
        for route in new:
            target = self.targets.get(route.target)
            if target is not None and target.damage is None:
                flow = self._flow(route, routes[route], target)
                with self._lock:
                    self._flows[route] = flow
                flow.start()
        if gone or new:
            self._show()

    def _flow(self, route: Route, rules: Rules, target: ReplicationTarget) -> Flow:
        # The client is imported when it is first needed.
        from orcas.replication.client import session_of
        from orcas.replication.copying import Copier
        from orcas.replication.flow import Flow

        (self._data / DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        state = load(self._data, route)
        if state.after is None and state.walk is None:
            state.sequence = rules.begins_after
            state.save(route)
        stop = threading.Event()
        copier = Copier(route, self._root.owner, self.here(), session_of(target), stop)
        return Flow(self._core, route, rules, state, copier, stop, target.concurrency, self._show)

    def _show(self) -> None:
        """Tell the core how far the copies of each bucket are: as far as those that are least far."""
        with self._lock:
            flows = list(self._flows.items())
        rows: dict[int, tuple[int, int, list[bytes], bytes | None]] = {}
        for route, flow in flows:
            done, failed, walked = flow.progress()
            if route.bucket_id in rows:
                _, other_done, other_failed, other_walked = rows[route.bucket_id]
                marks = [mark for mark in (walked, other_walked) if mark is not None]
                done, failed, walked = min(done, other_done), failed + other_failed, min(marks, default=None)
            rows[route.bucket_id] = (route.bucket_id, done, failed, walked)
        self._core.show_replication(list(rows.values()))


def _end(flows: list[Flow]) -> None:
    for flow in flows:
        flow.stop.set()
    until = time.monotonic() + _FINISH_SEC
    for flow in flows:
        if flow.is_alive():
            flow.join(max(0.0, until - time.monotonic()))
    for flow in flows:
        flow.end()
    until = time.monotonic() + _END_SEC
    for flow in flows:
        if flow.is_alive():
            flow.join(max(0.0, until - time.monotonic()))


async def replicator_of(
    core: Core, app: ASGIApp, root: Root, settings: Settings, directory: Directory | None, *, runs: bool
) -> Replicator:
    """That of a store. A command copies nothing, nor does a store that is open for salvage or a standby.

    Raises:
        UnavailableError: the targets cannot be read.
    """
    replicator = Replicator(core, app, root, settings.region, settings.data, runs=runs and directory is not None)
    if runs and directory is not None:
        replicator.replace(await directory.servers(ReplicationTarget))
    return replicator
