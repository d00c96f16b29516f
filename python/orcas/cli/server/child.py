"""The process behind `orcas.Server`: reads settings and keys from stdin and prints one line of JSON.

It ends with its parent: when stdin reaches its end or, if another process still holds the other end of the pipe open,
when the parent's id has changed. Only `orcas.server` starts it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from orcas.errors import UnavailableError
from orcas.process.failures import explain
from orcas.settings.config import Resolved, resolve

if TYPE_CHECKING:
    from orcas.control.files.address import Address
    from orcas.serving.app import OpenStore

_POLL_SECONDS: Final = 1.0


def main() -> None:
    """Read one line of JSON, `{"parent": pid, "settings": {…}}`, and serve until the parent ends or sends a signal."""
    try:
        _serve()
    except BaseException as error:  # noqa: BLE001 - the parent shows this message
        sys.exit(explain(error, "the server"))


def _serve() -> None:
    # As in `orcas serve`: the server turns collections on when it is ready.
    gc.disable()
    from orcas.cli.server.serving import serve_with

    line = sys.stdin.buffer.readline()
    if not line:
        raise UnavailableError("The process that requested a server has ended: start another one.")
    order = json.loads(line)
    threading.Thread(target=_watch, args=(order["parent"],), daemon=True).start()

    def announce(address: Address, store: OpenStore) -> None:
        line = {"access_key": store.root.access_key, "secret_key": store.root.secret_key, **asdict(address)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    resolved = resolve(order["settings"], ambient=False)
    # There is no command line: a program has chosen them.
    sources = {name: "program" if source == "command line" else source for name, source in resolved.sources.items()}
    serve_with(Resolved(resolved.settings, sources), announce, owned=True)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            break
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
