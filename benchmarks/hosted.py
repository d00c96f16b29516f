"""The application under uvicorn, in a process of its own: for comparisons in which a part of it is replaced by Python."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable

import uvicorn
import uvloop

from orcas.serving.app import Orcas


async def _serve(app: Orcas, word: str, prepare: Callable[[], None]) -> None:
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with app.lifespan():
            prepare()
            sys.stdout.write(f"{word} ready http://127.0.0.1:{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            await uvicorn.Server(config).serve(sockets=[listener])


def serve(app: Orcas, word: str, prepare: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal. `prepare` is called when the store is open; then a line with `word` and the address follows."""
    os.umask(0o077)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, word, prepare))
