"""`quotas.json`: the quotas of owners. Those of buckets are with their buckets, in the log.

Kept twice (`twice.py`), and noted in `root.json`: a store that lost both copies does not start as if it had no quotas.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from orcas.control.files import GIVE_UP, QUOTAS_NAME, LaterVersionError
from orcas.control.files.twice import read_twice, secure, write_twice
from orcas.control.root import note_files
from orcas.errors import UnavailableError

FORMAT: Final = 1
# Bytes and objects; None means no limit.
Quota = tuple[int | None, int | None]


def read_quotas(directory: Path) -> dict[str, Quota]:
    """The quotas by owner.

    Raises:
        LaterVersionError: a later version of Orcas has written it.
        UnavailableError: the file is damaged or cannot be read. Without it, quotas would not hold.
    """
    content = read_twice(directory / QUOTAS_NAME)
    if content is None:
        return {}
    try:
        document = json.loads(content)
        if type(document["format"]) is int and document["format"] > FORMAT:
            raise LaterVersionError(directory / QUOTAS_NAME)
        if document["format"] != FORMAT:
            raise ValueError
        return {
            owner: (_limit(quota["bytes"]), _limit(quota["objects"])) for owner, quota in document["owners"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnavailableError(
            f"{directory / QUOTAS_NAME} is damaged: restore it from a backup, or run {GIVE_UP} and set the quotas of owners "
            "again."
        ) from None


def ensure_quotas(directory: Path) -> dict[str, Quota]:
    """The quotas at a start, which repairs the file and its copy. The caller holds the control lock.

    Raises:
        UnavailableError: as of `read_quotas`.
    """
    quotas = read_quotas(directory)
    secure(directory / QUOTAS_NAME)
    return quotas


def write_quotas(directory: Path, quotas: dict[str, Quota]) -> None:
    """Replace them, durably.

    Raises:
        UnavailableError: the file cannot be written.
    """
    owners = {owner: {"bytes": size, "objects": objects} for owner, (size, objects) in sorted(quotas.items())}
    write_twice(directory / QUOTAS_NAME, json.dumps({"format": FORMAT, "owners": owners}, indent=2).encode())
    note_files(directory, [QUOTAS_NAME])


def _limit(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ValueError
    return value
