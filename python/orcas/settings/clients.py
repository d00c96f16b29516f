"""The environment variables of AWS's SDKs and command: endpoint, keys, region, and hosts that need no proxy.

Only this module and `orcas.settings.config`, which has Orcas's own settings, read `os.environ`. Must not know a server.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from orcas.settings.config import environment, is_loopback

# Where the API of S3 Tables is served.
S3_TABLES: Final = "/_orcas/s3tables"
# With the variables of `client_environment`, these would lead to another server or take other credentials: the keys of a
# session, profiles, roles and metadata services, endpoints of single services and of variants of services.
_FOREIGN: Final = frozenset({
    "AWS_ACCESS_KEY", "AWS_AUTH_SCHEME_PREFERENCE", "AWS_CREDENTIAL_EXPIRATION", "AWS_CREDENTIAL_FILE",
    "AWS_DEFAULT_PROFILE", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_METADATA_ENDPOINT", "AWS_PROFILE", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT", "AWS_S3_USE_ARN_REGION", "AWS_SECRET_KEY",
    "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN", "AWS_SKIP_SIGNATURE", "AWS_STS_REGIONAL_ENDPOINTS", "AWS_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT", "BOTO_CONFIG",
})  # fmt: skip
_FOREIGN_PREFIXES: Final = (
    "AWS_BEARER_TOKEN_", "AWS_CONTAINER_", "AWS_CSM_", "AWS_EC2_METADATA_", "AWS_ENDPOINT", "AWS_SIGV4A_",
    "AWS_WEB_IDENTITY_",
)  # fmt: skip
# The first that is set counts.
S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
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
    """The variables by which AWS's SDKs and command find a server, sign for it and trust it: `ca` is a file.

    All services of AWS are at `url`, S3 Tables below it, and no file or metadata service says otherwise, once
    `foreign_variables` are unset.
    """
    variables = {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ENDPOINT_URL_IAM": url,
        "AWS_ENDPOINT_URL_STS": url,
        "AWS_ENDPOINT_URL_S3TABLES": url + S3_TABLES,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        # Some services have hosts below that of the endpoint, which would be looked for in the network.
        "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
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


def s3_endpoint() -> str | None:
    """The URL that the variables of AWS's SDKs name for S3; None if they name none."""
    if (os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") or "").lower() == "true":
        return None
    return next((url for name in S3_ENDPOINTS if (url := os.environ.get(name))), None)


@contextlib.contextmanager
def isolated(
    url: str, access_key: str, secret_key: str, region: str, ca: str | None = None
) -> Iterator[dict[str, str]]:
    """Have all AWS clients use the server at `url` for a `with` block, in this process and in children that it starts.

    The block gets the variables that are set.
    """
    variables = client_environment(url, access_key, secret_key, region, ca) | unproxied_environment(url)
    with environment({**dict.fromkeys(foreign_variables()), **variables}), _without_default_session():
        yield variables


@contextlib.contextmanager
def _without_default_session() -> Iterator[None]:
    """Let `boto3.client` read the variables anew: its default session keeps the keys that it found first."""
    former = getattr(sys.modules.get("boto3"), "DEFAULT_SESSION", None)

    def replace(session: object) -> None:
        if (boto3 := sys.modules.get("boto3")) is not None:
            boto3.DEFAULT_SESSION = session  # type: ignore[attr-defined]

    replace(None)
    try:
        yield
    finally:
        replace(former)


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
    """Variables that are set and must not be beside those of `client_environment`."""
    ours = client_environment("", "", "", "")
    return sorted(
        name for name in os.environ if name not in ours and (name in _FOREIGN or name.startswith(_FOREIGN_PREFIXES))
    )
