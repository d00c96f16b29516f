"""Stores that are open for reading alone: that of a follower of a cluster, that of a standby, and one for salvage.

Whoever uses the engine of such a store closes it. Must not know what uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcas.cluster.opening import followed, looping
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.salvage import salvaged, salvaged_root
from orcas.engine import replace_identities, salvage_core, sealer_of
from orcas.standby import copying

if TYPE_CHECKING:
    from orcas.cluster.member import Member
    from orcas.control.root import Root
    from orcas.engine import Core, SalvageReport
    from orcas.settings.config import Settings
    from orcas.standby.following import Progress


@dataclass(frozen=True, slots=True)
class Readable:
    """A store that is open for reading, and why."""

    core: Core
    root: Root
    kind: str
    # What goes on while the store is served: it is entered last.
    loop: AbstractAsyncContextManager[object]
    # How far it follows another node or server.
    progress: Callable[[], Progress] | None = None
    # The findings, if it is open for salvage.
    report: SalvageReport | None = None


def is_read(settings: Settings, member: Member | None) -> bool:
    """Whether a server opens its store for reading alone."""
    return settings.standby_of is not None or settings.salvage or not (member is None or member.owns)


@asynccontextmanager
async def readable(settings: Settings, member: Member | None) -> AsyncIterator[Readable]:
    """Open a store for reading.

    Raises:
        UnavailableError: it cannot be opened.
    """
    if member is not None:
        async with followed(settings, member) as (core, root):
            yield Readable(core, root, "follower", looping(member, core), member.progress)
    elif settings.standby_of is not None:
        async with copying(settings) as (core, root, following):
            yield Readable(core, root, "standby", following, following.progress)
    else:
        with salvaged(settings.data) as owner:
            core, report = await asyncio.to_thread(salvage_core, settings, IdentitySnapshot.of_root(owner))
            root = salvaged_root(
                settings.data, owner, settings.root_access_key, settings.root_secret_key, sealer_of(core)
            )
            replace_identities(core, IdentitySnapshot.of_root(owner, (root.access_key, root.secret_key)))
            yield Readable(core, root, "salvage", contextlib.nullcontext(), None, report)
