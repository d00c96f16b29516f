"""The key pair of a store's root identity, for the operator's tools, which may lack the settings of the server.

The pair of a running server is in `control.db`. It need not be in the variables of the tool's process, and `root.json` has
only a generated pair.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orcas.control.cipher import is_key_sealed
from orcas.control.files import DATABASE_NAME, NoStoreError, is_locked
from orcas.control.files.lost import is_established
from orcas.control.root import ensure_owner, generated_pair, has_sealed_pair
from orcas.control.sealing import SealedError, Sealer
from orcas.control.store import stored_root_pair
from orcas.errors import ConfigurationError, UnavailableError


def root_pair(
    directory: Path, access_key: str | None, secret_key: str | None, keyring: Callable[[], Sealer | None]
) -> tuple[str, str]:
    """The pair of the server that has the store of `directory` open; else the pair that the next server would use.

    `access_key` and `secret_key` are the pair in the settings of this process, if any. Without one, it is the generated
    pair, else that of the last server. `keyring` opens the keyring, None without a master key; called if it is needed.

    Raises:
        ConfigurationError: there is no pair, or it is sealed and there is no master key.
        UnavailableError: there is no store, or a file is damaged.
    """
    given = (access_key, secret_key) if access_key is not None and secret_key is not None else None
    sealer = None
    if is_key_sealed(directory) or has_sealed_pair(directory):
        try:
            sealer = keyring()
        except (SealedError, UnavailableError):
            if given is None:
                raise
        if sealer is None and given is not None:
            return given
        if sealer is None:
            raise SealedError(
                f"The root key of the store in {directory} is sealed: set ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE, or "
                "ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY."
            )
    stored = stored_root_pair(directory, sealer)
    if stored is not None and is_locked(directory):
        return stored
    if is_established(directory):
        # As a start does, it refuses a store that has lost its identity.
        ensure_owner(directory, established=True)
    pair = given or generated_pair(directory, sealer) or stored
    if pair is None:
        if not (directory / DATABASE_NAME).is_file():
            raise NoStoreError(directory)
        raise ConfigurationError(f"There is no key in {directory}: start `orcas serve` with this directory once.")
    return pair
