"""The paths of the admin API for the keys of the keyring, under `/_orcas/admin/keys`.

A new master key arrives in the signed body of a request. It is never logged, and no response contains it.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI
from pydantic import ConfigDict, Field, SecretStr

from orcas.admin.routes.orders import Name, Order
from orcas.admin.upkeep import check_presence
from orcas.engine import Core, Keyring, Refusal
from orcas.errors import ConfigurationError, UnavailableError
from orcas.settings.config import check_setting
from orcas.settings.values import SCRYPT_N

log = logging.getLogger("orcas")

_NO_KEYRING: dict[int | str, dict[str, Any]] = {409: {"description": "The store has no keyring, or it is not open"}}


class KeyBody(Order):
    """The name of a new key."""

    name: Name


class ActionBody(Order):
    """An action on a key, by its name or its id. Only `destroy` has more fields."""

    key: Name
    action: Literal["rotate", "disable", "enable", "destroy", "cancel"]
    days: int = Field(default=7, ge=0, le=30)
    lose_content: bool = False


class MasterBody(Order):
    """The new master key or the new passphrase. `scrypt_n`: N of scrypt from now on, a power of two."""

    model_config = ConfigDict(hide_input_in_errors=True)
    key: SecretStr | None = None
    passphrase: SecretStr | None = None
    scrypt_n: int | None = Field(default=None, ge=SCRYPT_N[0], le=SCRYPT_N[-1])


def _why_absent(directory: Path | None) -> str:
    """Why the store in `directory` has no keyring, and what to do."""
    try:
        if directory is not None:
            check_presence(directory)
    except UnavailableError as error:
        return str(error)
    return (
        "The store has no keyring: set ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE and start the server, "
        "or run `orcas key create`."
    )


def add_keys(app: FastAPI, core: Callable[[], Core], directory: Callable[[], Path | None]) -> None:
    """Add these paths to the application. Not coroutines: a change waits for the disk, so FastAPI does it in a thread."""

    def keyring() -> Keyring:
        found = core().keyring()
        if found is None:
            raise Refusal(409, "NoKeyring", _why_absent(directory()))
        if isinstance(found, str):
            raise Refusal(409, "KeyringNotOpen", f"{found[:1].upper()}{found[1:]}.")
        return found

    @app.get("/keys", responses=_NO_KEYRING)
    def keys() -> dict[str, Any]:
        """All keys with their states, the N of scrypt if there is a passphrase, and counters of the cache of data keys."""
        opened = keyring()
        hits, misses, entries = opened.counts()
        return {
            "generation": opened.generation(),
            "scrypt_n": opened.scrypt_n(),
            "cache": {"hits": hits, "misses": misses, "entries": entries},
            "keys": [_readable(key) for key in opened.list_keys()],
        }

    @app.post("/keys", status_code=201)
    def create(order: Annotated[KeyBody, Body()]) -> dict[str, Any]:
        """Create a key."""
        with _change(keyring()) as opened:
            opened.create(order.name)
        log.info("Key %s was created", order.name)
        return {}

    @app.post("/keys/action", responses={404: {"description": "There is no such key"}})
    def act(order: Annotated[ActionBody, Body()]) -> dict[str, Any]:
        """Rotate, disable or enable a key, schedule its destruction, or cancel that."""
        with _change(keyring()) as opened:
            _act(opened, order)
        log.info("Key %s: %s", order.key, order.action)
        return {}

    @app.post("/keys/accept-older")
    def accept_older() -> dict[str, Any]:
        """Accept an older keyring that was put back, and give up newer copies."""
        with _change(keyring()) as opened:
            opened.accept_older()
        log.warning("The older keyring was accepted: newer copies are no longer valid")
        return {}

    @app.put("/keys/master")
    def master(order: Annotated[MasterBody, Body()]) -> dict[str, Any]:
        """Seal the keyring under another master key. No content is written again."""
        if (order.key is None) == (order.passphrase is None):
            raise Refusal(400, "InvalidRequest", "Give either a key or a passphrase.")
        if order.scrypt_n is not None and (order.passphrase is None or order.scrypt_n not in SCRYPT_N):
            raise Refusal(400, "InvalidRequest", "scrypt_n is a power of two, for a passphrase.")
        with _change(keyring()) as opened:
            # What the settings do not take would lock the operator out.
            key = _secret("master_key", order.key, "The new master key")
            passphrase = _secret("master_passphrase", order.passphrase, "The new passphrase")
            opened.change_master(key, passphrase, order.scrypt_n)
        log.info("The master key was changed")
        return {}


@contextmanager
def _change(opened: Keyring) -> Iterator[Keyring]:
    try:
        yield opened
    except Refusal as refusal:
        status, _, message = refusal.args
        if status == 503:
            log.warning("A change of the keyring is incomplete: %s", message)
        raise


def _secret(setting: str, given: SecretStr | None, called: str) -> str | None:
    if given is None:
        return None
    try:
        given.get_secret_value().encode()
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can hold.
        raise Refusal(400, "InvalidRequest", f"{called} must be Unicode text.") from None
    try:
        checked: str = check_setting(setting, given.get_secret_value(), called)
    except ConfigurationError as error:
        raise Refusal(400, "InvalidRequest", str(error)) from None
    return checked


def _act(keyring: Keyring, order: ActionBody) -> None:
    match order.action:
        case "rotate":
            keyring.rotate(order.key)
        case "disable":
            keyring.disable(order.key)
        case "enable":
            keyring.enable(order.key)
        case "destroy":
            keyring.destroy(order.key, order.days, order.lose_content)
        case "cancel":
            keyring.cancel_destruction(order.key)


def _readable(key: Any) -> dict[str, Any]:
    due_ms = key["due_ms"]
    shown = {name: key[name] for name in ("id", "name", "state", "versions", "data_keys")}
    return {**shown, "created": _time(key["created_ms"]), "destruction": None if due_ms is None else _time(due_ms)}


def _time(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
