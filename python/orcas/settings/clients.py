"""The environment variables of AWS's SDKs and command: endpoint, keys, region, and hosts that need no proxy.

Only this module and `orcas.settings.config`, which has Orcas's own settings, read `os.environ`. Must not know a server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from orcas.settings.config import is_loopback

# Clients would combine these with the variables of `client_environment`.
_FOREIGN: Final = ("AWS_SESSION_TOKEN", "AWS_PROFILE")
# Some clients read one of the two, some the other; if both are set, they differ in which one they use.
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_PROXIES: Final = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
# Names of loopback. Some clients expect an IPv6 address in brackets, some without.
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1", "[::1]")


@dataclass(frozen=True, slots=True)
class ClientVariables:
    """The credentials and the region in the variables of AWS's SDKs."""

    access_key: str | None
    secret_key: str | None = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str | None
    ca_bundle: str | None


def client_environment(
    url: str, access_key: str, secret_key: str, region: str, ca: str | None = None
) -> dict[str, str]:
    """The variables by which AWS's SDKs and command find a server, sign for it and trust it: `ca` is a file."""
    variables = {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ENDPOINT_URL_IAM": url,
        "AWS_ENDPOINT_URL_STS": url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }
    return variables if ca is None else variables | {"AWS_CA_BUNDLE": ca}


def client_variables(prefix: str = "") -> ClientVariables:
    """The values of these variables in this process, of those with `prefix` before; an empty one counts as not set."""

    def value(name: str) -> str | None:
        return os.environ.get(prefix + name) or None

    region = value("AWS_REGION") or value("AWS_DEFAULT_REGION")
    return ClientVariables(
        value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"), value("AWS_SESSION_TOKEN"), region,
        value("AWS_CA_BUNDLE"),
    )  # fmt: skip


def server_url(host: str, port: int, *, tls: bool) -> str:
    """The URL of a server; an IPv6 address is put in brackets."""
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_local(url: str) -> bool:
    """Whether the server at `url` is on loopback, which no proxy can reach."""
    return is_loopback(urlsplit(url).hostname or "")


def unproxied_environment(url: str) -> dict[str, str]:
    """`NO_PROXY` and `no_proxy` with the hosts of loopback added, for a server on loopback.

    Empty for any other server: whether it is reached through a proxy is up to the user.
    """
    if not is_local(url):
        return {}
    host = urlsplit(url).hostname or ""
    said = {name: os.environ.get(name) or "" for name in _NO_PROXY}
    variables = {}
    for name in _NO_PROXY:
        # If only one is set, the other must contain its hosts too.
        hosts = [entry.strip() for entry in (said[name] or "".join(said.values())).split(",")]
        # `*` means every host, but only by itself.
        wanted = hosts if hosts == ["*"] else [*hosts, *_LOOPBACK, host]
        variables[name] = ",".join(dict.fromkeys(entry for entry in wanted if entry))
    return variables


def proxied() -> bool:
    """Whether a proxy is set for HTTP."""
    return any(os.environ.get(name) for name in _PROXIES)


def foreign_variables() -> list[str]:
    """Variables that are set and conflict with those of `client_environment`."""
    return [name for name in _FOREIGN if os.environ.get(name)]
