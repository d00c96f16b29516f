"""How a command gets at a store: at a URL; through the server that has its directory; or in this process.

Which of the last two is decided by the lock alone: whoever holds it owns the store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from orcas.config import Settings
from orcas.control.address import read_address
from orcas.control.files import InUseError
from orcas.control.root import read_root
from orcas.errors import UnavailableError
from orcas.tools.session import HttpTransport, Session


def remote(settings: Settings, url: str) -> Session:
    """The server at `url`, with the key of the environment or of the data directory.

    Raises:
        ConfigurationError: the URL is none, or there is no key.
    """
    keys = read_root(settings.data, settings.root_access_key, settings.root_secret_key)
    return Session(HttpTransport(url), keys, settings.region)


@contextlib.contextmanager
def reached(settings: Settings, endpoint: str | None = None) -> Iterator[Session]:
    """A session with the store.

    Raises:
        UnavailableError: there is no store, or it cannot be opened or reached.
    """
    with contextlib.ExitStack() as stack:
        if endpoint is not None:
            session = remote(settings, endpoint)
        else:
            from orcas.tools.local import opened

            try:
                session = stack.enter_context(opened(settings))
            except InUseError as error:
                session = through_server(settings, error)
        yield stack.enter_context(contextlib.closing(session))


def through_server(settings: Settings, in_use: InUseError) -> Session:
    """The server that has the store of `settings.data`.

    Raises:
        UnavailableError: whoever has it is no server that takes requests.
    """
    url = read_address(settings.data)
    if url is None:
        raise UnavailableError(f"{in_use} It is no server that takes requests yet.")
    return remote(settings, url)
