"""The targets of events: a TOML file with one table for each.

Everything in it is checked before anything uses it, and every mistake is a `ConfigurationError`. A secret is in the file,
or in a file of its own; no message shows one.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import SplitResult, urlsplit

from orcas.errors import ConfigurationError
from orcas.settings.config import Settings

TARGETS_MAX: Final = 100
ATTEMPTS_MAX: Final = 20
TIMEOUT_SEC_MAX: Final = 60
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX: Final = "whsec_"
# Bytes of a secret, as Standard Webhooks has them.
_SECRET_LEN: Final = range(24, 65)
_URL_LEN_MAX: Final = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where events are delivered, and how.

    `private`: its address may be one of a private network or of this machine. `attempts` in all, before an event becomes
    a dead letter.
    """

    name: str
    url: SplitResult
    secret: bytes = field(repr=False)
    format: Literal["s3", "cloudevents"] = "s3"
    private: bool = False
    attempts: int = 10
    timeout_sec: int = 15


def read_targets(path: Path | None) -> dict[str, Target]:
    """The targets in the file, by name. None if there is no file.

    Raises:
        ConfigurationError: the file cannot be read, or says something wrong.
    """
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The targets in {path} cannot be read: {error}.") from None
    if len(document) > TARGETS_MAX:
        raise ConfigurationError(f"{path} has {len(document)} targets: there may be {TARGETS_MAX}.")
    return {name: _target(path, name, table) for name, table in document.items()}


def check_targets(settings: Settings) -> None:
    """Called before a server opens the store.

    Raises:
        ConfigurationError: there are targets, and no events; or the file of targets is wrong.
    """
    if read_targets(settings.event_targets_file) and not settings.events_enabled:
        raise ConfigurationError("ORCAS_EVENT_TARGETS_FILE needs events: ORCAS_EVENTS_ENABLED must not be false.")


def _target(path: Path, name: str, table: object) -> Target:
    where = f"The target {name} in {path}"
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where} needs a name of 1 to 64 letters, digits, underscores and hyphens.")
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where} must be a table: [{name}].")
    values: dict[str, Any] = dict(table)
    url = _url(where, values.pop("url", None))
    secret = _secret(where, values.pop("secret", None), values.pop("secret_file", None))
    form = values.pop("format", "s3")
    if form not in ("s3", "cloudevents"):
        raise ConfigurationError(f"{where} has the format {form!r}: it may be s3 or cloudevents.")
    private = values.pop("private", False)
    if not isinstance(private, bool):
        raise ConfigurationError(f"{where} must have true or false for private.")
    attempts = _number(where, "attempts", values.pop("attempts", 10), ATTEMPTS_MAX)
    timeout_sec = _number(where, "timeout_sec", values.pop("timeout_sec", 15), TIMEOUT_SEC_MAX)
    if values:
        raise ConfigurationError(f"{where} sets {min(values)}, which no target has.")
    return Target(
        name=name, url=url, secret=secret, format=cast('Literal["s3", "cloudevents"]', form), private=private,
        attempts=attempts, timeout_sec=timeout_sec,
    )  # fmt: skip


def _url(where: str, value: object) -> SplitResult:
    if not isinstance(value, str) or not value.isascii() or len(value) > _URL_LEN_MAX:
        raise ConfigurationError(f"{where} needs a url of at most {_URL_LEN_MAX} ASCII characters.")
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        raise ConfigurationError(f"{where} has a url that is none.") from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ConfigurationError(f"{where} needs a url that begins with https:// or http:// and a host.")
    if url.username is not None or url.password is not None or url.fragment:
        raise ConfigurationError(f"{where} has a url with a user or a fragment: neither is sent.")
    if re.search(r"[\x00-\x20\x7f]", value):
        raise ConfigurationError(f"{where} has a url with blanks.")
    return url


def _secret(where: str, value: object, file: object) -> bytes:
    if (value is None) == (file is None):
        raise ConfigurationError(f"{where} needs either secret or secret_file.")
    if file is not None:
        try:
            value = Path(str(file)).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{where} names a secret_file that cannot be read: {error}.") from None
    try:
        secret = base64.b64decode(str(value).removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) not in _SECRET_LEN:
        wanted = f"{_SECRET_LEN.start} to {_SECRET_LEN.stop - 1} bytes in base64"
        raise ConfigurationError(f"{where} needs a secret of {wanted}, with or without {_PREFIX} before it.")
    return secret


def _number(where: str, name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{where} must have {name} from 1 to {most}.")
    return value
