"""LocalStack's variables as settings of Orcas. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from orcas.errors import ConfigurationError, UsageError
from orcas.settings.config import check_setting
from orcas.settings.values import DOMAIN, boolean

# Of a server that nobody has given any: what LocalStack's clients have.
DEFAULT_KEY: Final = "test"
SERVICES: Final = ("s3", "iam", "sts")
_PORT: Final = 4566
_PORT_MAX: Final = 65_535
_HOST: Final = "localhost.localstack.cloud"
_DATA: Final = "/var/lib/localstack"
# Where init scripts are.
INIT_DIRECTORY: Final = "/etc/localstack/init"
# Those that are used, and those that ask for what is not here.
USED: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_SECRET_ACCESS_KEY", "DATA_DIR", "DEBUG", "DEFAULT_REGION",
    "EDGE_BIND_HOST", "EDGE_PORT", "GATEWAY_LISTEN", "LOCALSTACK_HOST", "LOCALSTACK_HOSTNAME", "LOCALSTACK_INIT_DIR",
    "LS_LOG", "PERSISTENCE", "S3_SKIP_SIGNATURE_VALIDATION", "SERVICES",
)  # fmt: skip
UNUSED: Final = (
    "ACTIVATE_PRO", "ALLOW_NONSTANDARD_REGIONS", "DISABLE_CORS_CHECKS", "DISABLE_CUSTOM_CORS_S3", "DISABLE_EVENTS",
    "DNS_ADDRESS", "DOCKER_FLAGS", "DOCKER_HOST", "EAGER_SERVICE_LOADING", "ENFORCE_IAM", "EXTRA_CORS_ALLOWED_HEADERS",
    "EXTRA_CORS_ALLOWED_ORIGINS", "HOSTNAME_EXTERNAL", "IAM_SOFT_MODE", "LAMBDA_DOCKER_NETWORK", "LAMBDA_EXECUTOR",
    "MAIN_CONTAINER_NAME", "S3_DIR", "SKIP_SSL_CERT_DOWNLOAD", "SNAPSHOT_LOAD_STRATEGY",
    "SNAPSHOT_SAVE_STRATEGY", "STRICT_SERVICE_LOADING", "USE_SSL",
)  # fmt: skip
PREFIX: Final = "LOCALSTACK_"
_ADDRESS: Final = re.compile(r"(?:(?P<host>[^:\[\]]+|\[[0-9a-fA-F:.]+\]):)?(?P<port>[0-9]{1,5})")


@dataclass(slots=True)
class Wanted:
    """The settings that an environment asks for."""

    # By the names of `orcas.settings.config.Settings`.
    settings: dict[str, object] = field(default_factory=dict)
    # Where init scripts are.
    init: str = INIT_DIRECTORY
    # Variables and services without an effect here.
    unused: list[str] = field(default_factory=list)
    absent_services: list[str] = field(default_factory=list)


def wanted(arguments: list[str], environ: Mapping[str, str]) -> Wanted:
    """What `localstack ARGUMENTS` is to do with these variables.

    Raises:
        UsageError: the command line asks for something else than to start.
        ConfigurationError: a variable is wrong.
    """
    if arguments not in ([], ["start"], ["start", "--host"]):
        raise UsageError(
            "Only `localstack start` is here, and it stays in the foreground: leave out what stands behind it."
        )
    # An empty one is as none. Those of LocalStack's own command have a prefix.
    given = {name: value for name, value in environ.items() if value}
    given |= {
        name.removeprefix(PREFIX): value
        for name, value in given.items()
        if name.startswith(PREFIX) and name not in USED and name.removeprefix(PREFIX) in (*USED, *UNUSED)
    }
    made = Wanted(init=given.get("LOCALSTACK_INIT_DIR", INIT_DIRECTORY))
    made.settings = {"localstack": True, "public_access": "open", **_address(given), **_place(given), **_keys(given)}
    region = given.get("DEFAULT_REGION") or given.get("AWS_DEFAULT_REGION")
    if region is not None:
        made.settings["region"] = check_setting("region", region, "DEFAULT_REGION")
    made.settings["domains"] = _domains(given, str(made.settings.get("region", "us-east-1")))
    if _flag(given, "DEBUG") or given.get("LS_LOG", "").lower() in ("debug", "trace", "trace-internal"):
        made.settings["log_level"] = "debug"
    made.settings["any_signature"] = _flag(given, "S3_SKIP_SIGNATURE_VALIDATION")
    named = [service for service in re.split(r"[\s,]+", given.get("SERVICES", "")) if service]
    made.absent_services = [service for service in named if service.partition(":")[0] not in SERVICES]
    known = {PREFIX + name for name in (*USED, *UNUSED)} | {*USED}
    others = [name for name in given if name.startswith(PREFIX) and name not in known]
    made.unused = sorted({name for name in given if name in UNUSED} | set(others))
    return made


def _address(given: Mapping[str, str]) -> dict[str, object]:
    text = given.get("GATEWAY_LISTEN", "").partition(",")[0].strip()
    found = _ADDRESS.fullmatch(text) if text else None
    if text and found is None:
        raise ConfigurationError(f"GATEWAY_LISTEN must be ADDRESS:PORT, not {text!r}.")
    host = (found["host"] if found else None) or given.get("EDGE_BIND_HOST")
    port = (found["port"] if found else None) or given.get("EDGE_PORT") or _PORT
    made: dict[str, object] = {"port": check_setting("port", port, "The port of GATEWAY_LISTEN or EDGE_PORT")}
    return made if host is None else {**made, "host": host.strip("[]")}


def _place(given: Mapping[str, str]) -> dict[str, object]:
    """Everything is gone with the server, unless something else was asked for."""
    directory = given.get("DATA_DIR")
    if directory is None and not _flag(given, "PERSISTENCE"):
        return {"memory": True}
    return {"data": directory or _DATA}


def _keys(given: Mapping[str, str]) -> dict[str, object]:
    user, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
    if user is None or secret is None:
        user = secret = DEFAULT_KEY
    return {
        "root_access_key": check_setting("root_access_key", user, "AWS_ACCESS_KEY_ID"),
        "root_secret_key": check_setting("root_secret_key", secret, "AWS_SECRET_ACCESS_KEY"),
    }


def _domains(given: Mapping[str, str], region: str) -> list[str]:
    """Names below which buckets are hosts."""
    called = "LOCALSTACK_HOST" if "LOCALSTACK_HOST" in given else "LOCALSTACK_HOSTNAME"
    text = given.get(called, _HOST)
    host, colon, port = text.lower().partition(":")
    if not DOMAIN.fullmatch(host) or (colon and not _is_port(port)):
        raise ConfigurationError(f"{called} must be HOST or HOST:PORT, not {text!r}.")
    hosts = [_HOST, host]
    regions = dict.fromkeys((region, "us-east-1"))
    return [f"s3.{middle}{host}" for host in dict.fromkeys(hosts) for middle in ("", *(f"{each}." for each in regions))]


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 0 < int(text) <= _PORT_MAX


def _flag(given: Mapping[str, str], name: str) -> bool:
    try:
        return boolean(given.get(name, "0"))
    except TypeError:
        raise ConfigurationError(f"{name} must be 1 or 0, not {given[name]!r}.") from None
