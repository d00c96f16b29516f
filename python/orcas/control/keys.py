"""The key pair of a store's root identity, for the operator's tools, which may not have the settings of the server.

The pair of a running server is in `control.db`. It need not be in the variables of the tool's process, and `root.json` has
only a generated pair.
"""

from __future__ import annotations

from pathlib import Path

from orcas.control.files import is_locked
from orcas.control.root import generated_pair
from orcas.control.store import stored_root_pair
from orcas.errors import ConfigurationError


def root_pair(directory: Path, access_key: str | None, secret_key: str | None) -> tuple[str, str]:
    """The pair of the server that has the store of `directory` open; else the pair that the next server would use.

    `access_key` and `secret_key` are the pair in the settings of this process, if any. Without one, it is the generated
    pair, else that of the last server.

    Raises:
        ConfigurationError: there is no pair yet.
        UnavailableError: a file is damaged.
    """
    stored = stored_root_pair(directory)
    if stored is not None and is_locked(directory):
        return stored
    if access_key is not None and secret_key is not None:
        return access_key, secret_key
    pair = generated_pair(directory) or stored
    if pair is None:
        raise ConfigurationError(f"There is no key in {directory} yet: start `orcas serve` with this directory once.")
    return pair
