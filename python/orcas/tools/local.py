"""Access to a store that no server has open: the application runs in this process, on its own event loop, without sockets.

Engine, signatures and responses are those of a server. Leaving the context closes the store in order.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import uvloop

from orcas.control.files import NoStoreError
from orcas.control.files.lost import is_established
from orcas.engine import admit
from orcas.serving.app import Orcas, open_store
from orcas.settings.config import Settings
from orcas.tools.inside import LocalTransport
from orcas.tools.session import Session


@contextlib.contextmanager
def opened(settings: Settings, *, keyring_required: bool = False) -> Iterator[Session]:
    """Open the store of `settings.data`, which must be one.

    `keyring_required`: as of `orcas.engine.open_core`.

    Raises:
        InUseError: another process has it.
        UnavailableError: there is none, or it cannot be opened.
    """
    admit(settings.data)
    if not settings.salvage and not is_established(settings.data):
        raise NoStoreError(settings.data)
    # SQLite creates the index with the permissions that the umask allows: only for the owner.
    os.umask(0o077)
    # It serves no requests to be logged.
    opener = functools.partial(open_store, keyring_required=keyring_required, serves=False)
    app = Orcas(replace(settings, access_log=None), opener)
    ready: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = concurrent.futures.Future()
    ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def hold_open() -> None:
        stop = asyncio.Event()
        async with app.router.lifespan_context(app):
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(hold_open())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            (ended if ready.done() else ready).set_exception(error)
        else:
            ended.set_result(None)

    thread = threading.Thread(target=run, name="orcas-store", daemon=True)
    thread.start()
    loop, stop = ready.result()
    store = app.store
    assert store is not None
    try:
        root = store.root
        keys, key_owner = (root.access_key, root.secret_key), f"of the store in {settings.data}"
        yield Session(LocalTransport(app, loop), keys, settings.region, key_owner, salvage=store.salvage)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        ended.result()
