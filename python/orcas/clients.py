"""What AWS's SDKs and command read of the environment: endpoint, keys, region, and which hosts no proxy is asked for.

Beside `orcas.config`, which owns Orcas's own settings, the only reader of `os.environ`. Must not know a server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from orcas.config import is_loopback

# With the variables of `client_environment` these would be taken for parts of the same credentials.
_FOREIGN: Final = ("AWS_SESSION_TOKEN", "AWS_PROFILE")
# Every client reads one case or the other, and where both are set they differ in which one counts.
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_PROXIES: Final = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
# What clients compare a loopback address with; some want an IPv6 address in brackets, some without.
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1", "[::1]")


@dataclass(frozen=True, slots=True)
class ClientVariables:
    """What the variables of AWS's SDKs say of who signs, and for which region."""

    access_key: str | None
    secret_key: str | None = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str | None


def client_environment(url: str, access_key: str, secret_key: str, region: str) -> dict[str, str]:
    """The variables by which AWS's SDKs and command find a server and sign for it."""
    return {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }


def client_variables() -> ClientVariables:
    """The variables of `client_environment` as this process has them; an empty one counts as absent."""

    def value(name: str) -> str | None:
        return os.environ.get(name) or None

    region = value("AWS_REGION") or value("AWS_DEFAULT_REGION")
    return ClientVariables(
        value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"), value("AWS_SESSION_TOKEN"), region
    )


def http_url(host: str, port: int) -> str:
    """The URL of a server; an IPv6 address is put in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(url: str) -> bool:
    """Whether the server at `url` is on this machine's loopback, where no proxy finds it."""
    return is_loopback(urlsplit(url).hostname or "")


def unproxied_environment(url: str) -> dict[str, str]:
    """The variables that keep requests to a server on loopback away from proxies: those that are set, and more hosts.

    Empty where the server is elsewhere: whether it is reached through a proxy is the user's to say.
    """
    if not is_local(url):
        return {}
    host = urlsplit(url).hostname or ""
    said = {name: os.environ.get(name) or "" for name in _NO_PROXY}
    variables = {}
    for name in _NO_PROXY:
        # A client that reads the other case today must not lose what that one says.
        hosts = [entry.strip() for entry in (said[name] or "".join(said.values())).split(",")]
        # `*` means every host only where it stands alone.
        wanted = hosts if hosts == ["*"] else [*hosts, *_LOOPBACK, host]
        variables[name] = ",".join(dict.fromkeys(entry for entry in wanted if entry))
    return variables


def proxied() -> bool:
    """Whether requests over HTTP go to a proxy unless something says otherwise."""
    return any(os.environ.get(name) for name in _PROXIES)


def foreign_variables() -> list[str]:
    """Variables that are set and do not go with those of `client_environment`."""
    return [name for name in _FOREIGN if os.environ.get(name)]
