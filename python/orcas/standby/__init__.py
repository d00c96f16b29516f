"""A standby: a copy of a store that is in use, kept up to date from its server, for reading until it is promoted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from orcas.control.files import KEYRING_NAMES, ROOT_NAME, NoStoreError, locked, make_directory
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.keys import root_pair
from orcas.control.root import Root, known_owner
from orcas.control.salvage import salvaged_root
from orcas.engine import (
    Core,
    close_core,
    closed_sealer,
    follow,
    reopen_keyring,
    replace_identities,
    sealer_of,
    standby_core,
)
from orcas.errors import ConfigurationError, UnavailableError, UsageError
from orcas.settings.clients import client_variables
from orcas.settings.config import Settings
from orcas.standby.copy import Copy, check_directory
from orcas.standby.following import Following
from orcas.standby.source import Source
from orcas.tools.session import HttpTransport, Session

# A first copy of more than this is reported on as it goes.
_REPORTED_BYTES: Final = 64 << 20

log = logging.getLogger("orcas")


@asynccontextmanager
async def copying(settings: Settings) -> AsyncIterator[tuple[Core, Root, Following]]:
    """Open the standby in `settings.data`: the store, its root identity, and what keeps it up to date once it is entered.

    The first copy is completed before that. If the server is not reachable, what was copied before is opened. Whoever uses
    the store closes it.

    Raises:
        ConfigurationError: the address is not valid, or there is no key.
        UnavailableError: there is no complete copy, or it cannot be opened.
    """
    assert settings.standby_of is not None
    url, directory = settings.standby_of, settings.data
    with contextlib.closing(Source(_session(settings, url), url)) as source:
        make_directory(directory)
        check_directory(directory)
        with locked(directory):
            copy = await asyncio.to_thread(_complete, directory, source)
            owner = known_owner(directory) or ""
            core = await asyncio.to_thread(standby_core, settings, IdentitySnapshot.of_root(owner))
            try:
                root = _use_root(settings, core)
            except BaseException:
                await asyncio.to_thread(close_core, core)
                raise
            yield (
                core,
                root,
                Following(copy, functools.partial(follow, core), functools.partial(_changed, settings, core)),
            )


def _session(settings: Settings, url: str) -> Session:
    """Requests to the server, with the key of the AWS variables, else the operator's, else that of the copy."""
    try:
        transport = HttpTransport(url)
    except UsageError:
        raise UsageError(f"--from must be http://HOST:PORT or https://HOST:PORT, not {url}.") from None
    given = client_variables()
    if given.access_key is not None and given.secret_key is not None:
        return Session(transport, (given.access_key, given.secret_key), settings.region, "of AWS_ACCESS_KEY_ID")
    keys = settings.root_access_key, settings.root_secret_key
    try:
        pair = root_pair(settings.data, *keys, functools.partial(closed_sealer, settings))
    except (ConfigurationError, NoStoreError):
        raise ConfigurationError(
            f"There is no key for {url}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the root key of that server."
        ) from None
    return Session(transport, pair, settings.region, f"of the copy in {settings.data}")


def _complete(directory: Path, source: Source) -> Copy:
    """The copy, after a first round, if the server can be reached or nothing was copied before."""
    copy = Copy(directory, source)
    reported = 0

    def advance(done: int, total: int) -> None:
        nonlocal reported
        if total > _REPORTED_BYTES and done * 10 // total > reported:
            reported = done * 10 // total
            log.info("The standby has copied %d of %d MiB", done >> 20, total >> 20)

    try:
        brought = copy.bring(0, advance)
    except UnavailableError as error:
        if not copy.mark.is_complete:
            raise
        log.warning("The standby shows what it has, because it cannot follow %s: %s", source.url, error)
    else:
        copy.forget([] if brought is None else brought.given_up)
    return copy


def _use_root(settings: Settings, core: Core) -> Root:
    """Let root, as the copy has it, sign requests."""
    owner = known_owner(settings.data) or ""
    root = salvaged_root(settings.data, owner, settings.root_access_key, settings.root_secret_key, sealer_of(core))
    replace_identities(core, IdentitySnapshot.of_root(owner, (root.access_key, root.secret_key)))
    return root


def _changed(settings: Settings, core: Core, names: list[str]) -> None:
    """Small files are new."""
    if not {*KEYRING_NAMES}.isdisjoint(names):
        reopen_keyring(core, settings)
    if ROOT_NAME in names:
        _use_root(settings, core)
