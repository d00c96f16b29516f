"""The identities of an open store: of a server from its start on, of a command from the first use on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from orcas.control.files import DATABASE_NAME
from orcas.control.identities.failures import IamError
from orcas.control.identities.service import Identities
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.origins import Server
from orcas.control.root import Root, ephemeral_root
from orcas.control.store import Control, open_control
from orcas.engine import Access, Core, replace_identities, sealer_of
from orcas.errors import UnavailableError
from orcas.iam.file import Declared, apply_identities
from orcas.settings.config import Settings


class Directory:
    """Opens the control store, and lets the engine know its identities."""

    def __init__(self, core: Core, settings: Settings, stack: contextlib.AsyncExitStack) -> None:
        self._core = core
        self._settings = settings
        self._stack = stack
        self._control: Control | None = None
        self._access = Access(None)
        self._opening = asyncio.Lock()

    async def serve(self, declared: Declared | None) -> Root:
        """Open the control store, and let its identities, made as `declared`, sign requests. The root of the store.

        Raises:
            ConfigurationError: what is declared cannot be applied.
            UnavailableError: the control store is unreadable or damaged.
        """
        control = self._control = await self._open(follows=True)
        self._access = Access(self._core)
        try:
            self._access.replace(await control.load_snapshot())
        except ValueError as error:
            raise UnavailableError(
                f"{self._settings.data / DATABASE_NAME} cannot be used: {error}; check the file and its disk, and try again."
            ) from None
        identities = control.identities(self._access)
        await identities.open_sessions()
        if declared is not None:
            await apply_identities(declared, identities)
        return control.root

    def damaged(self) -> list[str]:
        """The identities that are denied everything, since what decided about them was damaged, and the database, while
        it is."""
        control = self._control
        if control is None:
            return []
        return [*control.denied, *([DATABASE_NAME] if control.is_damaged else [])]

    async def control(self) -> Control:
        """The control store, which is open from now on.

        Raises:
            UnavailableError: it is unreadable or damaged.
        """
        async with self._opening:
            if self._control is None:
                self._control = await self._open(follows=False)
            return self._control

    async def servers(self, kind: type[Server]) -> dict[str, Server]:
        """The origins of buckets, or the targets of replication.

        Raises:
            UnavailableError: they cannot be read.
        """
        return await (await self.control()).load_servers(kind)

    async def change_server(
        self, kind: type[Server], name: str, server: Server | None, address: str | None
    ) -> dict[str, Server]:
        """Set an origin or a target, or remove it. All of its kind from now on.

        Raises:
            UnavailableError: it cannot be written, or the control store is unreadable or damaged.
        """
        await self.identities()
        await (await self.control()).change_server(kind, name, server, address)
        return await self.servers(kind)

    async def identities(self) -> Identities:
        """The identities of the store.

        Raises:
            UnavailableError: the control store is unreadable or damaged.
        """
        return (await self.control()).identities(self._access)

    async def audit(
        self, operation: str, about: dict[str, str], actor: str, access_key: str | None, address: str | None
    ) -> Callable[[], Awaitable[None]]:
        """Write down who is about to change who may do what. Returns what says that this has failed.

        Raises:
            UnavailableError: it cannot be written.
        """
        try:
            return await (await self.identities()).note(operation, about, actor, access_key, address)
        except IamError as error:
            raise UnavailableError(error.message) from None

    async def _open(self, *, follows: bool) -> Control:
        settings = self._settings
        keys = settings.root_access_key, settings.root_secret_key
        opened = open_control(settings.data, *keys, sealer_of(self._core), follows=follows)
        return await self._stack.enter_async_context(opened)


@asynccontextmanager
async def directory_of(
    core: Core, settings: Settings, owner: str, declared: Declared | None, *, serves: bool
) -> AsyncIterator[tuple[Root, Directory]]:
    """The directory of an open store, and the root that signs its own requests.

    `serves`: identities have keys, and are made as `declared`. Otherwise the root alone has a pair, of this process only.

    Raises:
        ConfigurationError: what is declared cannot be applied.
        UnavailableError: the control store of a server is unreadable or damaged.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = Directory(core, settings, stack)
        if serves:
            root = await directory.serve(declared)
        else:
            root = ephemeral_root(owner)
            replace_identities(core, IdentitySnapshot.of_root(owner, (root.access_key, root.secret_key)))
        yield root, directory
