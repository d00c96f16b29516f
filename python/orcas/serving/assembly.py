"""The parts of an open store, put together for the application that serves them."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import TYPE_CHECKING

from orcas.admin.maintenance import log_store_task, tasks_of
from orcas.admin.metering import UsageKeeper
from orcas.admin.parts import Parts
from orcas.admin.pins import BackupPins
from orcas.admin.schedule import Clock, Schedule, Task
from orcas.admin.tools import Tools
from orcas.cluster.promises import check_promises, has_bucket
from orcas.control.copied import ControlCopies
from orcas.control.quotas import ensure_quotas
from orcas.control.root import Root
from orcas.engine import Core
from orcas.errors import ConfigurationError
from orcas.iam.directory import Directory
from orcas.origins.pulling import Pulls, pulls_of
from orcas.replication.replicator import Replicator, replicator_of
from orcas.s3.delivery import create_buckets, warn_of_hidden
from orcas.s3.dispatch import Dispatcher
from orcas.settings.config import Settings
from orcas.tables import NEEDED
from orcas.targets.delivery import Deliveries
from orcas.targets.file import read_targets
from orcas.telemetry.watching import RequestWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from orcas.admin.testing.control import TestControl
    from orcas.cluster.member import Member
    from orcas.standby.following import Progress


async def exchanges_of(
    core: Core, app: ASGIApp, root: Root, settings: Settings, directory: Directory | None, how: tuple[bool, bool]
) -> tuple[Pulls, Replicator]:
    """What asks other servers. What is fetched is stored, and what is copied is read, through the dispatcher."""
    serves, delivers = how
    pulls = await pulls_of(core, app, root, settings, directory, serves=serves)
    return pulls, await replicator_of(core, app, root, settings, directory, runs=delivers)


def parts_of(
    core: Core,
    settings: Settings,
    *,
    pulls: Pulls,
    replicator: Replicator,
    directory: Directory | None,
    clock: Clock,
    standby: Callable[[], Progress] | None,
    member: Member | None,
    delivers: bool,
    serves: bool,
    reads: bool,
) -> Parts:
    """The parts of a store for the admin API. One that is open for reading, a standby or for salvage, has no tasks."""
    usage: UsageKeeper | None = None
    tasks: list[Task] = []
    if not reads:
        core.usage().set_owner_quotas([(owner, *quota) for owner, quota in ensure_quotas(settings.data).items()])
        if settings.usage_interval_sec:
            usage = UsageKeeper(core.usage(), settings.data, settings.usage_retention_days, settings.prices())
        # In a command, only a report opens the file of usage.
        tasks = tasks_of(core, settings, usage if serves else None, clock, keyring=delivers)
        if member is not None and has_bucket(settings):
            tasks.append(log_store_task(functools.partial(check_promises, settings)))
    schedule, logs = Schedule(tasks, clock), core.request_logs()
    return Parts(
        core=core,
        tools=Tools(core, schedule, directory, move_objects_max=settings.move_objects_max),
        pins=BackupPins(),
        schedule=schedule,
        deliveries=Deliveries(core, read_targets(settings.event_targets_file) if delivers else {}, settings.data),
        pulls=pulls,
        replicator=replicator,
        watch=RequestWatch(logs if settings.access_log is None else None, logs),
        usage=usage,
        directory=settings.data if standby is not None or not reads else None,
        copies=None if reads else ControlCopies(settings.data),
        standby=standby,
        member=member,
        identities=directory,
        testing=_test_control(core, settings),
    )


def _test_control(core: Core, settings: Settings) -> TestControl | None:
    """The faults, clock and record of a store in memory; None for any other."""
    if not settings.memory:
        return None
    from orcas.admin.testing.control import TestControl

    return TestControl(core, settings.domains, settings.website_host)


async def prepare(core: Core, settings: Settings, root: Root, dispatcher: Dispatcher) -> None:
    """Create the buckets that the settings name, and let one be a warehouse of tables.

    Raises:
        ConfigurationError: one cannot be created, or cannot be a warehouse.
    """
    await create_buckets(settings, root, dispatcher.perform)
    await warn_of_hidden(settings, root, dispatcher.perform)
    bucket = settings.warehouse
    if bucket is None:
        return
    if find_spec("pyiceberg") is None:
        raise ConfigurationError(NEEDED)
    from orcas.tables.failures import TableError
    from orcas.tables.objects import Objects
    from orcas.tables.warehouses import create_warehouse

    try:
        await create_warehouse(Objects(lambda: dispatcher, lambda: root, lambda: core, settings.region), bucket)
    except TableError as error:
        raise ConfigurationError(
            f"The bucket {bucket} of ORCAS_WAREHOUSE cannot be a warehouse ({error.message}): name another one."
        ) from None
