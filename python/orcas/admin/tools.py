"""What an operator has done to an open store, without HTTP: work for jobs, and reports in a form for JSON.

A server has them from its start on, so nothing here imports FastAPI or pydantic.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Final

from orcas.admin.jobs import Jobs, NoThreadError, TooManyJobsError, Work
from orcas.admin.schedule import Schedule
from orcas.control.files import DATABASE_NAME
from orcas.engine import CheckProgress, Core, Refusal, SealProgress
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.iam.directory import Directory

# What those are told who want to seal something.
NO_MASTER_KEY: Final = (
    "Sealing needs the keyring of the store: set ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_PASSPHRASE_FILE, for a running"
    " server where it starts."
)
# Where the admin API is mounted.
MOUNT: Final = "/_orcas/admin"


class Tools:
    """The operator's tools of one open store, and their jobs. Made on the event loop that serves them.

    `identities`: None for a store that is open for salvage.
    """

    def __init__(self, core: Core, schedule: Schedule, identities: Directory | None, *, move_objects_max: int) -> None:
        self._core = core
        self._schedule = schedule
        self._identities = identities
        self._loop = asyncio.get_running_loop()
        self._move_objects_max = move_objects_max
        self.jobs = Jobs()
        # Held by the job that seals what is stored.
        self._sealing = threading.Lock()

    def start(self, kind: str, work: Work) -> dict[str, Any]:
        """Begin a job.

        Raises:
            Refusal: there are too many, or there is no thread for it.
        """
        try:
            return self.jobs.start(kind, work).describe()
        except TooManyJobsError:
            raise Refusal(503, "TooManyJobs", "Too many jobs are running: wait for one, or delete it.") from None
        except NoThreadError:
            message = (
                "The system gives the server no thread for the job: raise its limit of threads, or try again later."
            )
            raise Refusal(503, "NoThread", message) from None

    def reclaim(self, *, compact: bool) -> Work:
        """The work of a reclamation. The background thread may have done most of it already."""

        def run() -> dict[str, Any]:
            done = dict(self._core.reclaim(compact))
            return {**done, "since_start": dict(self._core.reclaim_progress()["total"])}

        return Work(run, lambda: dict(self._core.reclaim_progress()))

    def seal(self) -> Work:
        """The work of sealing what was stored without encryption. Cancelled, it keeps what it has done.

        Raises:
            Refusal: there is no master key.
        """
        maintenance = self._core.maintenance()
        if not maintenance.can_seal():
            raise Refusal(400, "NoMasterKey", NO_MASTER_KEY)
        progress = SealProgress()

        def run() -> dict[str, Any]:
            if not self._sealing.acquire(blocking=False):
                raise OrcasError("Another job is sealing what is stored")
            try:
                return dict(maintenance.seal_stored(progress))
            finally:
                self._sealing.release()

        def state() -> dict[str, Any]:
            return {
                "seen": progress.seen, "versions": progress.versions, "bytes": progress.bytes,
                "stored_bytes": progress.stored_bytes, "finishing": progress.finishing,
            }  # fmt: skip

        return Work(run, state, progress.cancel)

    def move(self, source: tuple[str, str], target: tuple[str, str], *, overwrite: bool) -> dict[str, int]:
        """Move all objects of a bucket and prefix to another. Blocks.

        Raises:
            Refusal: nothing was moved.
        """
        objects, size = self._core.move_prefix(source, target, overwrite, self._move_objects_max)
        return {"objects": objects, "bytes": size}

    def task(self, name: str) -> Work:
        """The work of a run of a periodic task. Cancelled, it no longer waits; a run that has begun goes on.

        Raises:
            Refusal: there is none of that name.
        """
        task = self._schedule.find(name)
        if task is None:
            raise Refusal(
                404,
                "NoSuchTask",
                "There is no task of this name, or the settings turn it off: `orcas tasks list` shows them.",
            )

        left: Future[None] = Future()

        def run() -> dict[str, Any]:
            asked = asyncio.run_coroutine_threadsafe(self._schedule.run(name), self._loop)
            # At once, if that was before.
            left.add_done_callback(lambda _: asked.cancel())
            try:
                return dict(asked.result())
            except CancelledError:
                return {}

        def leave() -> None:
            left.cancel()

        return Work(run, task.progress, leave)

    def check(self, *, read_content: bool, threads: int, bytes_per_sec: int) -> Work:
        """The work of a check; `bytes_per_sec` 0 sets no bound."""
        progress = CheckProgress()

        def run() -> dict[str, Any]:
            report = readable(self._core.check(progress, read_content, threads, bytes_per_sec))
            # The database of identities is damaged on the disk as long as it is not what is in memory.
            found = [] if self._identities is None else self._identities.damaged()
            damage = f"{DATABASE_NAME} is damaged" if DATABASE_NAME in found else None
            return {**report, "damaged_identities": damage, "denied": [name for name in found if name != DATABASE_NAME]}

        return Work(run, lambda: describe(progress), progress.cancel)


def totals_of(logical: int, stored: int, dead: int) -> dict[str, int]:
    """The content of the store in bytes. `shared` is what sharing saves, as in the metrics: logical less stored bytes."""
    return {"logical": logical, "stored": stored, "shared": max(0, logical - stored), "dead": dead}


def describe(progress: CheckProgress) -> dict[str, Any]:
    """The progress of a check, for JSON."""
    return {"phase": progress.phase, "done_bytes": progress.done_bytes, "total_bytes": progress.total_bytes}


def readable(report: Any) -> dict[str, Any]:
    """The report of a check for JSON: keys as text, and also in base64 if they are not UTF-8."""
    given_up = report.get("given_up")
    if given_up is not None:
        given_up = {**given_up, "losses": _readable(given_up["losses"])}
    return {**report, "losses": _readable(report["losses"]), "given_up": given_up}


def _readable(found: list[Any]) -> list[dict[str, Any]]:
    losses = []
    for loss in found:
        key: bytes = loss["key"]
        text = {"key": key.decode(errors="backslashreplace")}
        try:
            key.decode()
        except UnicodeDecodeError:
            text["key_base64"] = base64.b64encode(key).decode()
        losses.append({**loss, **text})
    return losses
