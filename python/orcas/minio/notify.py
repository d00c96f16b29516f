"""MinIO's variables for receivers of events, as tables of a file of targets: webhooks, Kafka, and NATS with JetStream."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any, Final

from orcas.errors import ConfigurationError
from orcas.settings.values import boolean

PREFIX: Final = "MINIO_NOTIFY_"
# Of each kind, what of its variables is used, and what begins like those and is not.
_USED: Final = {
    "WEBHOOK": ("ENABLE", "ENDPOINT", "AUTH_TOKEN"),
    "KAFKA": (
        "ENABLE", "BROKERS", "TOPIC", "TLS", "SASL", "SASL_USERNAME", "SASL_PASSWORD", "SASL_MECHANISM",
        "CLIENT_TLS_CERT", "CLIENT_TLS_KEY",
    ),
    "NATS": (
        "ENABLE", "ADDRESS", "SUBJECT", "JETSTREAM", "USERNAME", "PASSWORD", "TOKEN", "TLS", "CERT_AUTHORITY",
        "CLIENT_CERT", "CLIENT_KEY",
    ),
}  # fmt: skip
_UNUSED: Final = ("TLS_SKIP_VERIFY", "TLS_CLIENT_AUTH", "TLS_HANDSHAKE_FIRST")
_MECHANISMS: Final = {"plain": "PLAIN", "sha256": "SCRAM-SHA-256", "sha512": "SCRAM-SHA-512"}
# The name of a target without one.
_UNNAMED: Final = "_"

# By the name of a target, what a file of targets has of it.
Targets = dict[str, dict[str, Any]]


def targets_of(variables: Mapping[str, str]) -> tuple[Targets, set[str]]:
    """The targets that are enabled, and the variables that are used.

    Raises:
        ConfigurationError: a variable is missing or wrong.
    """
    said: dict[tuple[str, str], dict[str, str]] = {}
    used = set()
    for variable, value in sorted(variables.items()):
        kind, _, rest = variable.removeprefix(PREFIX).partition("_")
        # Of several keys, the longest: SASL_USERNAME is not SASL of a target USERNAME.
        keys = sorted((*_USED.get(kind, ()), *_UNUSED), key=len, reverse=True)
        key = next((key for key in keys if rest == key or rest.startswith(f"{key}_")), None)
        if key is not None and key in _USED.get(kind, ()):
            said.setdefault((kind, rest[len(key) + 1 :] or _UNNAMED), {})[key] = value
            used.add(variable)
    found: Targets = {}
    for (kind, name), values in said.items():
        given = _Given(kind, name, values)
        if not given.flag("ENABLE"):
            continue
        if name in found:
            raise ConfigurationError(f"Two targets of events have the name {name}: rename one of them.")
        found[name] = {**_TABLES[kind](given), "private": True, "format": "minio"}
    return found, used


class _Given:
    """What is said of one target."""

    def __init__(self, kind: str, name: str, values: Mapping[str, str]) -> None:
        self._kind, self.name, self._values = kind, name, values

    def variable(self, key: str) -> str:
        """The name of a variable."""
        return f"{PREFIX}{self._kind}_{key}" + ("" if self.name == _UNNAMED else f"_{self.name}")

    def text(self, key: str) -> str:
        """A value that must be there."""
        if key not in self._values:
            raise ConfigurationError(f"The target {self.name} is enabled without {self.variable(key)}: set it.")
        return self._values[key]

    def flag(self, key: str) -> bool:
        """A switch, which is off without a value."""
        try:
            return boolean(self._values.get(key, "off"))
        except TypeError:
            raise ConfigurationError(f"{self.variable(key)} must be on or off, not {self._values[key]!r}.") from None

    def some(self, **names: str) -> dict[str, str]:
        """The values that are there, by their names in a file of targets."""
        return {name: self._values[key] for name, key in names.items() if key in self._values}


def _webhook(given: _Given) -> dict[str, Any]:
    # Receivers of MinIO do not look at signatures.
    made = {"url": given.text("ENDPOINT"), "secret": base64.b64encode(secrets.token_bytes(32)).decode()}
    for token in given.some(token="AUTH_TOKEN").values():  # noqa: S106 - the name of a variable
        made["authorization"] = token if " " in token else f"Bearer {token}"
    return made


def _kafka(given: _Given) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "kafka", "brokers": [broker.strip() for broker in given.text("BROKERS").split(",")],
        "topic": given.text("TOPIC"), "tls": given.flag("TLS"),
        **given.some(cert_file="CLIENT_TLS_CERT", key_file="CLIENT_TLS_KEY"),
    }  # fmt: skip
    if given.flag("SASL"):
        called = given.some(name="SASL_MECHANISM").get("name", "plain")
        if called.lower() not in _MECHANISMS:
            wanted = ", ".join(_MECHANISMS)
            raise ConfigurationError(f"{given.variable('SASL_MECHANISM')} must be one of {wanted}, not {called!r}.")
        user, password = given.text("SASL_USERNAME"), given.text("SASL_PASSWORD")
        made |= {"sasl": _MECHANISMS[called.lower()], "user": user, "password": password}
    return made


def _nats(given: _Given) -> dict[str, Any]:
    if not given.flag("JETSTREAM"):
        raise ConfigurationError(
            f"The target {given.name} is of NATS without JetStream, which confirms nothing: make a stream for its "
            f"subject, and set {given.variable('JETSTREAM')}."
        )
    files = given.some(ca_file="CERT_AUTHORITY", cert_file="CLIENT_CERT", key_file="CLIENT_KEY")
    scheme = "tls" if given.flag("TLS") or files else "nats"
    return {
        "type": "nats", "servers": [f"{scheme}://{given.text('ADDRESS')}"], "subject": given.text("SUBJECT"), **files,
        **given.some(user="USERNAME", password="PASSWORD", token="TOKEN"),  # noqa: S106 - names of variables
    }  # fmt: skip


_TABLES: Final = {"WEBHOOK": _webhook, "KAFKA": _kafka, "NATS": _nats}
