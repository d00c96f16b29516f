"""The periodic tasks of an open store: which there are, when each is due, and what it calls.

Work that follows something else is not among them: reclamation follows deletions, deliveries follow events and records.
Must not know how time is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orcas.admin.schedule import Clock, Result, Task, in_thread
from orcas.admin.upkeep import destroy_due
from orcas.engine import Keyring
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orcas.admin.metering import UsageKeeper
    from orcas.engine import Core
    from orcas.settings.config import Settings

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0


class ClockGuard:
    """Keeps work that deletes by age from running right after the clock of the machine was set.

    For one run only: whatever somebody still uses then has a time of the new clock before the next run.
    """

    def __init__(self, clock: Clock, seconds: float, work: Callable[[], Mapping[str, object]]) -> None:
        """`seconds`: how far the clock may be set, or the machine sleep, between two runs."""
        self._clock, self._seconds, self._work = clock, seconds, work
        self._offset = clock.now() - clock.awake()

    def __call__(self) -> Result:
        """One run.

        Raises:
            OrcasError: the clock was set since the last one.
        """
        before, self._offset = self._offset, self._clock.now() - self._clock.awake()
        if abs(self._offset - before) > self._seconds:
            hours = (self._offset - before) / 3600
            msg = f"The clock was set by {hours:+.1f} hours, or the machine slept. The next run uses the new time"
            raise OrcasError(msg)
        return dict(self._work())


def tasks_of(core: Core, settings: Settings, usage: UsageKeeper | None, clock: Clock, *, keyring: bool) -> list[Task]:
    """The tasks of a store that takes writes. `usage` is kept if it is given, and the keyring looked after if `keyring`."""
    work = core.maintenance()
    tasks = [
        Task(
            "lifecycle",
            "remove what has expired according to the lifecycle rules of buckets",
            settings.lifecycle_interval_sec,
            in_thread("lifecycle", lambda: dict(work.run_lifecycle())),
            outlasts=True,
            progress=lambda: dict(core.lifecycle_progress()),
        )
    ]
    days = settings.abort_uploads_after_days
    if days:
        tasks.append(
            Task(
                "uploads",
                "abort multipart uploads that have received nothing for ORCAS_ABORT_UPLOADS_AFTER_DAYS",
                settings.lifecycle_interval_sec,
                in_thread(
                    "uploads",
                    ClockGuard(clock, days * settings.lifecycle_day_sec / 2, lambda: work.abort_abandoned(days)),
                ),
                outlasts=True,
            )
        )
    if settings.scrub_bytes_per_sec:
        tasks.append(
            Task(
                "scrub", "read everything and look for damage", _DAY, in_thread("scrub", lambda: _scrub(core)),
                first=0, outlasts=True, progress=lambda: dict(core.scrub_progress()),
            )
        )  # fmt: skip
    if settings.events_enabled:
        tasks.append(
            Task(
                "events", "remove events that are older than ORCAS_EVENTS_RETENTION_SEC", _MINUTE,
                in_thread("events", lambda: _expire_events(core)), outlasts=True,
            )
        )  # fmt: skip
    if usage is not None:
        tasks.append(
            Task(
                "usage",
                "save the counts of requests and the sizes of buckets",
                settings.usage_interval_sec,
                usage.roll_up,
                first=0,
            )
        )
    opened = core.keyring()
    if keyring and isinstance(opened, Keyring):
        tasks.append(
            Task(
                "keyring", "destroy keys that are due, and complete interrupted writes", _MINUTE,
                in_thread("keyring", lambda: {"destroyed": destroy_due(opened, settings.data)}), first=0,
            )
        )  # fmt: skip
    return tasks


def log_store_task(ask: Callable[[], Mapping[str, object]]) -> Task:
    """The task of the owner of a cluster, by which `ask` asks the store of the log whether it keeps its promises."""
    about = "ask the bucket of the log whether it keeps what the log rests on"
    return Task("log-store", about, _HOUR, in_thread("log-store", ask), outlasts=True)


def _expire_events(core: Core) -> Result:
    core.maintenance().expire_events()
    return {}


def _scrub(core: Core) -> dict[str, Any]:
    core.maintenance().scrub()
    progress = core.scrub_progress()
    return {"bytes": progress["done_bytes"], "damaged": progress["damaged_total"]}
