"""How a command reaches a store: at a URL, through the server that has its directory open, or in this process.

The lock alone decides between the last two: the process that holds it has the store open.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from orcas.control.files import NODE_FOLDER, InUseError, NoStoreError, is_locked
from orcas.control.files.address import read_address, running_at
from orcas.control.sealing import SealedError, Sealer
from orcas.errors import ConfigurationError, UnavailableError
from orcas.settings.clients import client_variables
from orcas.settings.config import Settings
from orcas.tools.session import HttpTransport, RefusedError, Session, transport_of

# How long a node of a cluster may take to open its store in another role.
_ROLE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


def remote(settings: Settings, url: str) -> Session:
    """The server at `url`, with the key of the AWS variables, else the operator's, else that of the data directory.

    Raises:
        ConfigurationError: the URL is not valid, or there is no key.
    """
    transport = HttpTransport(url)
    given = client_variables()
    region = given.region or settings.region
    if given.access_key is not None and given.secret_key is not None:
        token = [(b"x-amz-security-token", given.session_token.encode())] if given.session_token else []
        return Session(transport, (given.access_key, given.secret_key), region, "of AWS_ACCESS_KEY_ID", headers=token)
    if settings.root_access_key is not None and settings.root_secret_key is not None:
        keys = settings.root_access_key, settings.root_secret_key
        return Session(transport, keys, region, "of ORCAS_ROOT_ACCESS_KEY")
    try:
        keys = stored_pair(settings)
    except SealedError:
        raise
    except (ConfigurationError, NoStoreError):
        raise ConfigurationError(
            f"There is no key for {url}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key of that server."
        ) from None
    return Session(transport, keys, region, f"of the store in {settings.data}")


@contextlib.contextmanager
def reached(settings: Settings, endpoint: str | None = None, *, keyring_required: bool = False) -> Iterator[Session]:
    """A session with the store. `keyring_required`: if this process opens it; as of `orcas.engine.open_core`.

    Raises:
        UnavailableError: there is no store, or it cannot be opened or reached.
    """
    with contextlib.ExitStack() as stack:
        if endpoint is not None:
            session = remote(settings, endpoint)
        elif not settings.memory and has_server(settings):
            # To try to open it would end the same way, but import a whole server first.
            session = through_server(settings)
        else:
            from orcas.tools.local import opened

            try:
                session = stack.enter_context(opened(settings, keyring_required=keyring_required))
            except InUseError:
                session = through_server(settings)
        yield stack.enter_context(contextlib.closing(session))


def follower(session: Session) -> dict[str, Any] | None:
    """The node that `session` reaches, as it sees itself, if that is one of a cluster and another one owns its log."""
    if not session.is_remote:
        return None
    # Who may not ask that asks as of any server.
    with contextlib.suppress(RefusedError):
        node: dict[str, Any] | None = session.admin("GET", "about").get("cluster")
        return None if node is None or node["role"] == "owner" else node
    return None


def check_tasks(session: Session) -> None:
    """Whether the server runs the tasks that it tells of: a follower passes the question on.

    Raises:
        UnavailableError: it is a node of a cluster that does not own the log.
    """
    node = follower(session)
    if node is not None:
        owner = node["owner"]
        where = "none at present" if owner is None else f"--endpoint {owner['url']}"
        raise UnavailableError(
            f"The node {node['node']} does not own the log of its cluster and runs no tasks: "
            f"ask the one that does ({where})."
        )


def has_server(settings: Settings) -> bool:
    """Whether a server has the store of `settings.data` open. A node of a cluster that is about to open it is waited for.

    Raises:
        UnavailableError: the node has it not open for long.
    """
    end = time.monotonic() + _ROLE_SECONDS
    while is_locked(settings.data / NODE_FOLDER) and running_at(settings.data) is None:
        if time.monotonic() > end:
            raise UnavailableError(
                f"The node of a cluster in {settings.data} starts, or changes its role, and has no store open: try again in "
                "some seconds."
            )
        time.sleep(_POLL_SECONDS)
    return is_locked(settings.data)


def through_server(settings: Settings) -> Session:
    """The server that has the store of `settings.data`.

    Raises:
        InUseError: the process that has it open is not a server that accepts requests.
    """
    address = read_address(settings.data)
    if address is None:
        raise InUseError(settings.data, silent=True)
    keys = stored_pair(settings, settings.root_access_key, settings.root_secret_key)
    return Session(transport_of(address), keys, address.region, f"of the store in {settings.data}")


def stored_pair(settings: Settings, access_key: str | None = None, secret_key: str | None = None) -> tuple[str, str]:
    """The key pair of the store in `settings.data`, as of `root_pair`; a sealed one is opened with the master key."""
    from orcas.engine import admit, closed_sealer

    def keyring() -> Sealer | None:
        try:
            return closed_sealer(settings)
        except ConfigurationError as error:
            raise SealedError(str(error)) from None

    admit(settings.data)
    # Imports the whole control plane, which a command with a key does without.
    from orcas.control.keys import root_pair

    return root_pair(settings.data, access_key, secret_key, keyring)
