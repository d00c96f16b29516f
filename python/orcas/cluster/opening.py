"""The store of a follower, and the loop of a node, for as long as an application serves."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orcas.cluster.member import Member
from orcas.control.files import locked
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.root import Root, known_owner
from orcas.control.salvage import salvaged_root
from orcas.engine import Core, close_core, replace_identities, sealer_of, standby_core
from orcas.settings.config import Settings


@asynccontextmanager
async def followed(settings: Settings, member: Member) -> AsyncIterator[tuple[Core, Root]]:
    """The store of a follower, open for reading. Whoever uses it closes it.

    Raises:
        UnavailableError: it cannot be opened.
    """
    with locked(settings.data):
        # The first pack of the owner would make it; what counts and checks files looks for it before.
        (settings.data / "chunks").mkdir(mode=0o700, exist_ok=True)
        owner = known_owner(settings.data) or ""
        core = await asyncio.to_thread(standby_core, settings, IdentitySnapshot.of_root(owner))
        try:
            pair = settings.root_access_key, settings.root_secret_key
            root = salvaged_root(settings.data, owner, *pair, sealer_of(core))
            member.keys = root.access_key, root.secret_key
            replace_identities(core, IdentitySnapshot.of_root(owner, member.keys))
        except BaseException:
            await asyncio.to_thread(close_core, core)
            raise
        yield core, root


@asynccontextmanager
async def looping(member: Member, core: Core) -> AsyncIterator[None]:
    """The loop of the present role, while this is entered."""
    loop = functools.partial(member.run_owner if member.owns else member.run_follower, core)
    thread = threading.Thread(target=loop, name="orcas-cluster", daemon=True)
    thread.start()
    try:
        yield
    finally:
        member.end()
        await asyncio.to_thread(thread.join)
