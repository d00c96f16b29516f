"""The check and the repair of a store that is not open: directly from its files, without an engine.

A check changes nothing, and also works on a store that can no longer be opened.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final

from orcas.admin.tools import readable
from orcas.control.cipher import read_cipher
from orcas.control.database import check_database, restore_database, secure_database
from orcas.control.files import DATABASE_NAME, NoStoreError, locked
from orcas.control.files.lost import find_lost, give_up
from orcas.control.root import known_owner
from orcas.engine import CheckOptions, CheckProgress, admit, check_closed, closed_sealer, repair_closed
from orcas.errors import ConfigurationError, UnavailableError
from orcas.settings.config import Settings
from orcas.standby.mark import check_no_standby
from orcas.tools.copies.keyring import lost_keyring

Advance = Callable[[str, int, int], None]

_LOOK_SECONDS: Final = 0.2


def check_stopped(
    settings: Settings, options: CheckOptions, advance: Advance, *, repair: bool, accept_loss: bool = False
) -> dict[str, Any]:
    """Check the store of `settings.data`; with `repair` its index is built from the log first where that is needed, and
    with `accept_loss` a damaged log is rewritten without what is lost, and control files that are lost are given up.

    Raises:
        InUseError: another process has it.
        UnavailableError: there is none, or it cannot be read.
    """
    admit(settings.data)
    if not (settings.data / "log").is_dir():
        raise NoStoreError(settings.data)
    if repair:
        check_no_standby(settings.data)
    with locked(settings.data):
        progress = CheckProgress()
        # In another thread, so that this one receives Ctrl-C and can cancel it.
        outcome: list[Any] = []

        def run() -> Any:
            if repair:
                return repair_closed(settings, progress, accept_loss=accept_loss)
            return check_closed(settings, progress, options)

        thread = threading.Thread(target=_run, args=(run, outcome), name="orcas-check")
        thread.start()
        try:
            while thread.is_alive():
                advance(progress.phase, progress.done_bytes, progress.total_bytes)
                thread.join(_LOOK_SECONDS)
        except BaseException:
            progress.cancel()
            thread.join()
            raise
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        lost = [*find_lost(settings.data), *lost_keyring(settings.data)]
        given_up = give_up(settings.data, lost) if accept_loss else []
        lost = [name for name in lost if name not in given_up]
        damage, denied = _identities(settings, repair=repair and not lost)
        files = {"lost_files": lost, "files_given_up": given_up}
        return {**readable(result), **files, "damaged_identities": damage, "denied": denied}


def _identities(settings: Settings, *, repair: bool) -> tuple[str | None, list[str]]:
    """The problems of the database of identities, and the identities that are denied everything by them."""
    path, keys = settings.data / DATABASE_NAME, []
    # Without a key that is lost or sealed, the digests of rows cannot be verified.
    with contextlib.suppress(UnavailableError, ConfigurationError):
        cipher = read_cipher(settings.data, closed_sealer(settings))
        keys = [] if cipher is None else cipher.digests()
    if repair and keys:
        restore_database(path, keys, known_owner(settings.data) or "")
        secure_database(path, keys, None, is_new=False)
    return check_database(path, keys)


def _run(run: Callable[[], Any], outcome: list[Any]) -> None:
    try:
        outcome.append(run())
    except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
        outcome.append(error)
