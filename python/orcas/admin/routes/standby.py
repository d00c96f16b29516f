"""What a standby asks of the server that it follows: rounds, each a backup pin with files of one moment, and their bytes.

For root alone: the files hold the keys of the store.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import FastAPI, Query, Response
from fastapi.responses import StreamingResponse

from orcas.admin.pins import TooManyPinsError
from orcas.control.copied import ControlCopies, digest_of
from orcas.control.files.audit import FOLDER
from orcas.engine import Refusal
from orcas.errors import UnavailableError

if TYPE_CHECKING:
    from orcas.admin.pins import BackupPins
    from orcas.engine import Core

WAIT_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_OTHER_LOG: Final = (
    "The log of this server does not continue the copy: it is that of another store, or was restored, promoted from another"
    " copy or cut by a power loss, or it was compacted while the standby was away for longer than ten minutes."
)
_PIECE: Final = 1 << 20
# Stands for the directory itself, where others name a folder in it.
STORE: Final = "store"
# Every pin has it.
KEY_FILE: Final = "store.keys"


def add_standby(
    app: FastAPI,
    core: Callable[[], Core],
    pins: Callable[[], BackupPins],
    data: Callable[[], Path | None],
    small_files: Callable[[], ControlCopies | None],
) -> None:
    """Add the routes."""

    def copies() -> tuple[Path, ControlCopies]:
        directory, found = data(), small_files()
        if directory is None or found is None:
            raise Refusal(409, "NoFiles", "A store that is open for reading has no standby: follow the store itself.")
        return directory, found

    @app.post(
        "/standby/rounds",
        status_code=201,
        response_model=None,
        responses={
            204: {"description": "No news"},
            409: {"description": "The log is another one, or this is a standby"},
        },
    )
    async def begin(
        standby: Annotated[str, Query(pattern="^([0-9a-f]{16})?$")] = "",
        after: Annotated[int, Query(ge=0)] = 0,
        position: Annotated[str, Query(pattern="^([0-9a-f]{112})?$")] = "",
        control: Annotated[str, Query(max_length=32)] = "",
        wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX)] = 0,
    ) -> dict[str, Any] | Response:
        """Take a backup pin if there are records behind `after`, or small files other than those of the word `control`.

        `standby` is the name of the one that asks, which has the log up to `after`, and so to `position`. Without news for
        `wait` seconds, the status is 204.
        """
        _, found = copies()
        if position and not await asyncio.to_thread(core().continues, bytes.fromhex(position)):
            raise Refusal(409, "OtherLog", _OTHER_LOG)
        if after and standby:
            core().hold_log_for(standby, after)
        end = time.monotonic() + wait
        while True:
            small = await asyncio.to_thread(_small, found)
            if core().applied_sequence() > after or digest_of(small) != control:
                break
            if time.monotonic() >= end:
                return Response(status_code=204)
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            taken = await pins().take(core().pin_for_backup)
        except TooManyPinsError:
            raise Refusal(503, "TooManyBackupPins", "There are too many backup pins.") from None
        # After the pin, so that the keyring has every key that the pinned files need.
        small = await asyncio.to_thread(_small, found)
        audit = await asyncio.to_thread(found.audit)
        taken["files"] += [{"name": name, "length": length} for name, length in audit]
        return taken | {"control": [file._asdict() for file in small], "control_digest": digest_of(small)}

    _add_files(app, pins, copies)


def _add_files(app: FastAPI, pins: Callable[[], BackupPins], copies: Callable[[], tuple[Path, ControlCopies]]) -> None:
    @app.get(
        "/standby/rounds/{pin}/files/{folder}/{name}",
        response_model=None,
        responses={404: {"description": "The round has no such bytes"}, 409: {"description": "This is a standby"}},
    )
    def file(
        pin: str,
        folder: str,
        name: str,
        start: Annotated[int, Query(ge=0)] = 0,
        end: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:
        """The bytes of a file of a round, from `start` to `end`. `folder`: `store` for those directly in the directory."""
        directory, found = copies()
        name = name if folder == STORE else f"{folder}/{name}"
        is_pinned = pins().length_of(pin, KEY_FILE) is not None
        small = found.read(name) if is_pinned else None
        if small is not None:
            return Response(small, media_type="application/octet-stream")
        length = pins().length_of(pin, name)
        if is_pinned and length is None and folder == FOLDER and name in dict(found.audit()):
            length = end
        end = length if end is None else end
        if length is None or end is None or not start <= end <= length:
            raise Refusal(404, "NoSuchFile", "The round has no such bytes. It may have expired.")
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        headers = {"content-length": str(end - start)}
        return StreamingResponse(
            _pieces(descriptor, start, end), media_type="application/octet-stream", headers=headers
        )


def _small(copies: ControlCopies) -> Any:
    try:
        return copies.files()
    except UnavailableError as error:
        raise Refusal(503, "StoreError", str(error)) from None


def _pieces(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    try:
        while start < end:
            piece = os.pread(descriptor, min(_PIECE, end - start), start)
            if not piece:
                # The answer ends early, which its reader notices.
                return
            yield piece
            start += len(piece)
    finally:
        os.close(descriptor)
