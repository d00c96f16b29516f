"""The file of targets: TOML, with one table for each target, whose `type` names its kind.

Everything in it is checked before anything uses it, and every mistake is a `ConfigurationError`. A secret is in the file,
or in a file of its own; no message shows one.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from orcas.errors import ConfigurationError
from orcas.settings.config import Settings
from orcas.targets.kinds import AwsTarget, KafkaTarget, NatsTarget, Service, Target, Tls, WebhookTarget
from orcas.targets.senders import check_client
from orcas.targets.table import Table

TARGETS_MAX: Final = 100
ATTEMPTS_MAX: Final = 20
TIMEOUT_SEC_MAX: Final = 60
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX: Final = "whsec_"
# Bytes of a secret, as Standard Webhooks has them.
_SECRET_LEN: Final = range(24, 65)
_URL_LEN_MAX: Final = 2_048
_HEADER: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,4094}[\x21-\x7e])?")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
# What stands between dots. What begins with $ is of the server; * and > are patterns.
_PART: Final = r"(?:[^\s.*>{}$\x00-\x1f\x7f]|\{bucket\})+"
_SUBJECT: Final = re.compile(rf"(?=.{{1,255}}$){_PART}(?:\.{_PART})*")
_STREAM: Final = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")
# What an ARN begins with: the region and the account.
_OWNER: Final = r"(?P<region>[a-z0-9-]{1,32}):(?P<account>[0-9]{12})"
_ARNS: Final[dict[Service, tuple[re.Pattern[str], str]]] = {
    "sqs": (re.compile(rf"arn:aws:sqs:{_OWNER}:(?P<resource>[\w-]{{1,80}})", re.ASCII), ":QUEUE"),
    "sns": (re.compile(rf"arn:aws:sns:{_OWNER}:(?P<resource>[\w-]{{1,256}})", re.ASCII), ":TOPIC"),
    "lambda": (
        re.compile(
            rf"arn:aws:lambda:{_OWNER}:function:(?P<resource>[\w-]{{1,64}})(:(?P<qualifier>[\w$-]{{1,128}}))?", re.ASCII
        ),
        ":function:NAME, with or without a version or alias behind it",
    ),
    "eventbridge": (
        re.compile(rf"arn:aws:events:{_OWNER}:event-bus/(?P<resource>[\w./-]{{1,256}})", re.ASCII), ":event-bus/NAME",
    ),
}  # fmt: skip
_ACCESS_KEY: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)
_SOURCE: Final = re.compile(r"[\w./-]{1,256}", re.ASCII)
_CREDENTIALS: Final = ("BEGIN NATS USER JWT", "BEGIN USER NKEY SEED")


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
        raise ConfigurationError(
            f"The targets in {path} cannot be read: {error}; correct the file, or give this user access."
        ) from None
    if len(document) > TARGETS_MAX:
        raise ConfigurationError(f"{path} has {len(document)} targets, but there must be at most {TARGETS_MAX}.")
    targets = {name: _target(path, name, table) for name, table in document.items()}
    _check_destinations(path, targets)
    return targets


def check_targets(settings: Settings) -> None:
    """Called before a server opens the store.

    Raises:
        ConfigurationError: there are targets, and no events; the file of targets is wrong; or a client is not installed.
    """
    targets = read_targets(settings.event_targets_file)
    if targets and not settings.events_enabled:
        raise ConfigurationError("ORCAS_EVENT_TARGETS_FILE needs events: set ORCAS_EVENTS_ENABLED to true.")
    for target in targets.values():
        check_client(target)


def _check_destinations(path: Path, targets: dict[str, Target]) -> None:
    """Whether notifications can tell the targets apart: an ARN also names the target that is called as its resource."""
    found: dict[str, str] = {}
    for target in targets.values():
        other = found.setdefault(target.destination, target.name)
        if other != target.name:
            raise ConfigurationError(
                f"The targets {other} and {target.name} in {path} are both for {target.destination}: remove one of them."
            )
        if not isinstance(target, AwsTarget) or target.kind == "eventbridge" or target.qualifier is not None:
            continue
        if (same := targets.get(target.resource)) is not None and not isinstance(same, AwsTarget):
            raise ConfigurationError(
                f"The target {same.name} in {path} would get the events for {target.arn}, too: rename it."
            )


def _target(path: Path, name: str, values: object) -> Target:
    where = f"The target {name} in {path}"
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where} needs a name of 1 to 64 letters, digits, underscores and hyphens.")
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where} must be a table: [{name}].")
    table = Table(where, values)
    kind = table.choice("type", tuple(_KINDS)) or "webhook"
    common: dict[str, Any] = {
        "name": name,
        "format": table.choice("format", ("s3", "cloudevents", "minio")) or "s3",
        "private": table.flag("private"),
        "attempts": table.number("attempts", 10, ATTEMPTS_MAX),
        "timeout_sec": table.number("timeout_sec", 15, TIMEOUT_SEC_MAX),
    }
    target = _KINDS[kind](table, common)
    if left := table.left():
        raise ConfigurationError(f"{where} sets {left}, which no target of the type {kind} has.")
    return target


def _webhook(table: Table, common: dict[str, Any]) -> Target:
    url, authorization = _url(table, "url"), table.secret("authorization")
    if authorization is not None and not _HEADER.fullmatch(authorization):
        raise table.wrong("needs an authorization of 1 to 4096 visible ASCII characters and spaces")
    if authorization is not None and url.scheme != "https" and not common["private"]:
        raise table.wrong("would send its authorization in the clear: it needs an https URL, or private = true")
    return WebhookTarget(**common, url=url, secret=_secret(table), authorization=authorization)


def _kafka(table: Table, common: dict[str, Any]) -> Target:
    brokers = table.texts("brokers", "an address as HOST:PORT", _is_broker)
    topic = table.matching("topic", _TOPIC, "1 to 249 letters, digits, dots, underscores and hyphens")
    tls = _tls(table, wanted=table.flag("tls"), otherwise="without tls = true")
    sasl = table.choice("sasl", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
    user, password = table.text("user"), table.secret("password")
    if not (sasl is None) == (user is None) == (password is None):
        raise table.wrong("needs all of sasl, user and password, or none of them")
    if sasl == "PLAIN" and tls is None and not common["private"]:
        raise table.wrong("would send its password in the clear: it needs tls = true, or SCRAM, or private = true")
    return KafkaTarget(
        **common, brokers=brokers, topic=topic, tls=tls, sasl=sasl, user=user, password=password
    )  # fmt: skip


def _nats(table: Table, common: dict[str, Any]) -> Target:
    servers = table.texts("servers", "an address as nats://HOST or tls://HOST, with or without a port", _is_server)
    schemes = {server.partition(":")[0] for server in servers}
    if len(schemes) > 1:
        raise table.wrong("has servers with nats:// and with tls://: all of them need the same")
    tls = _tls(table, wanted=schemes == {"tls"}, otherwise="and servers without tls://")
    subject = table.matching(
        "subject", _SUBJECT, "tokens between dots, without patterns; {bucket} is that of the event"
    )
    stream = table.matching("stream", _STREAM, "the name of a stream") if "stream" in table else None
    user, password, token = table.text("user"), table.secret("password"), table.secret("token")
    credentials = table.secret("credentials")
    if (user is None) != (password is None):
        raise table.wrong("needs both user and password, or neither")
    if sum(value is not None for value in (user, token, credentials)) > 1:
        raise table.wrong("has more than one of user, token and credentials")
    if credentials is not None and not all(part in credentials for part in _CREDENTIALS):
        raise table.wrong("needs credentials with a JWT and a seed, as nsc writes them")
    if (password or token) and tls is None and not common["private"]:
        raise table.wrong("would send its password or token in the clear: it needs tls:// servers, or private = true")
    return NatsTarget(
        **common, servers=servers, subject=subject, stream=stream, tls=tls, user=user, password=password, token=token,
        credentials=credentials,
    )  # fmt: skip


def _aws(kind: Service) -> Callable[[Table, dict[str, Any]], Target]:
    def read(table: Table, common: dict[str, Any]) -> Target:
        pattern, wanted = _ARNS[kind]
        arn = table.text("arn") or ""
        if arn.endswith(".fifo"):
            raise table.wrong("has the arn of a FIFO queue or topic: S3 sends events to standard ones alone")
        if (parts := pattern.fullmatch(arn)) is None:
            service = pattern.pattern.split(":")[2]
            raise table.wrong(f"needs an arn: arn:aws:{service}:REGION:ACCOUNT{wanted}, with an account of 12 digits")
        endpoint = _url(table, "endpoint")
        if endpoint.path.strip("/") or endpoint.query:
            raise table.wrong("has an endpoint with a path: it needs one such as https://sqs.us-east-1.amazonaws.com")
        access_key, secret_key = table.secret("access_key"), table.secret("secret_key")
        if access_key is None or not _ACCESS_KEY.fullmatch(access_key) or secret_key is None:
            raise table.wrong("needs an access_key and a secret_key, or files of them")
        if kind == "eventbridge":
            if common["format"] != "s3":
                raise table.wrong("has a format, and EventBridge takes events in its own alone")
            common["format"] = "eventbridge"
            if "source" in table:
                common["source"] = table.matching("source", _SOURCE, "1 to 256 letters, digits and any of _ . / -")
        common |= parts.groupdict()
        return AwsTarget(
            **common, kind=kind, arn=arn, endpoint=endpoint, access_key=access_key, secret_key=secret_key
        )  # fmt: skip

    return read


_KINDS: Final[dict[str, Callable[[Table, dict[str, Any]], Target]]] = {
    "webhook": _webhook, "kafka": _kafka, "nats": _nats, "sqs": _aws("sqs"), "sns": _aws("sns"),
    "lambda": _aws("lambda"), "eventbridge": _aws("eventbridge"),
}  # fmt: skip


def _is_broker(text: str) -> bool:
    url = urlsplit(f"//{text}")
    return bool(url.hostname and url.port) and url.netloc == text and url.username is None


def _is_server(text: str) -> bool:
    url = urlsplit(text)
    plain = url.scheme in ("nats", "tls") and bool(url.hostname) and url.port != 0 and url.username is None
    return plain and text == f"{url.scheme}://{url.netloc}"


def _tls(table: Table, *, wanted: bool, otherwise: str) -> Tls | None:
    tls = Tls(ca_file=table.path("ca_file"), cert_file=table.path("cert_file"), key_file=table.path("key_file"))
    if not wanted:
        if tls != Tls():
            raise table.wrong(f"has files for TLS {otherwise}")
        return None
    if tls.key_file is not None and tls.cert_file is None:
        raise table.wrong("has a key_file, and no cert_file")
    try:
        tls.context()
    except OSError as error:
        raise table.wrong(f"has files for TLS that cannot be used: {error}") from None
    return tls


def _url(table: Table, name: str) -> SplitResult:
    value = table.text(name)
    if value is None or not value.isascii() or len(value) > _URL_LEN_MAX:
        raise table.wrong(f"needs {name}: a URL of at most {_URL_LEN_MAX} ASCII characters")
    try:
        url = urlsplit(value)
        is_good = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise table.wrong(f"needs {name}: a URL that begins with https:// or http:// and a host")
    if url.username is not None or url.password is not None or url.fragment:
        raise table.wrong(f"has a user or a fragment in {name}: neither is sent")
    if re.search(r"[\x00-\x20\x7f]", value):
        raise table.wrong(f"has blanks in {name}")
    return url


def _secret(table: Table) -> bytes:
    text = table.secret("secret")
    if text is None:
        raise table.wrong("needs either secret or secret_file")
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) not in _SECRET_LEN:
        wanted = f"{_SECRET_LEN.start} to {_SECRET_LEN.stop - 1} bytes in base64"
        raise table.wrong(f"needs a secret of {wanted}, with or without {_PREFIX} before it")
    return secret
