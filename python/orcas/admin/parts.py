"""The parts of an open store that the admin API serves. Its routers get those that they need, not all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orcas.admin.metering import UsageKeeper
    from orcas.admin.pins import BackupPins
    from orcas.admin.schedule import Schedule
    from orcas.admin.testing.control import TestControl
    from orcas.admin.tools import Tools
    from orcas.cluster.member import Member
    from orcas.control.copied import ControlCopies
    from orcas.engine import Core
    from orcas.iam.directory import Directory
    from orcas.origins.pulling import Pulls
    from orcas.replication.replicator import Replicator
    from orcas.standby.following import Progress
    from orcas.targets.delivery import Deliveries
    from orcas.telemetry.watching import RequestWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one open store."""

    core: Core
    tools: Tools
    pins: BackupPins
    schedule: Schedule
    deliveries: Deliveries
    # Fetches objects that buckets lack from their origins.
    pulls: Pulls
    # Copies what changes to other servers.
    replicator: Replicator
    # The newest requests, while somebody watches.
    watch: RequestWatch
    # What standbys ask for; None for a store that is open for reading.
    copies: ControlCopies | None
    # How this is as a standby; None if it is none.
    standby: Callable[[], Progress] | None
    # The node of a cluster whose store it is; None for any other.
    member: Member | None
    # None if usage is not kept.
    usage: UsageKeeper | None
    # The data directory; None for a store that is open for salvage.
    directory: Path | None
    # None for a store that is open for salvage.
    identities: Directory | None
    # What tests ask of a store in memory; None for any other store.
    testing: TestControl | None
