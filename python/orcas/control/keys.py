"""With which keys the root of a store signs: for the tools of its operator, who may not have what its server was given.

A running server's pair is in `control.db`, whoever set it: the operator's variables may be those of another process, and
`root.json` has only what was generated.
"""

from __future__ import annotations

from pathlib import Path

from orcas.control.files import is_locked
from orcas.control.root import generated_pair
from orcas.control.store import stored_root_pair
from orcas.errors import ConfigurationError


def root_pair(directory: Path, access_key: str | None, secret_key: str | None) -> tuple[str, str]:
    """The pair of the server that has the store of `directory`; if there is none, the one that the next would have.

    `access_key` and `secret_key` are the operator's, if this process knows any. Where it knows none, none was generated,
    and the last server had one, it is that.

    Raises:
        ConfigurationError: nobody has given or generated one yet.
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
