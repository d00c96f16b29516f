"""The shared log as the settings name it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from orcas.engine import ClusterNode, StoreError
from orcas.errors import ConfigurationError, UnavailableError
from orcas.settings.clients import client_variables

if TYPE_CHECKING:
    from orcas.settings.config import Settings

_CALL_SECONDS: Final = 5.0
# After it, a node that has not heard what has become of a batch gives up the log and asks it.
_DEADLINE_SECONDS: Final = 15.0


def open_node(settings: Settings) -> ClusterNode:
    """Open the log of the cluster for the store in `settings.data`. Blocks.

    Raises:
        ConfigurationError: there are no credentials.
        UnavailableError: the store of the log cannot be used, or the directory is of another log.
    """
    url = settings.cluster_log
    assert url is not None
    credentials = None
    given = client_variables()
    if url.startswith("s3://"):
        if given.access_key is None or given.secret_key is None:
            raise ConfigurationError(
                "There is no key for the bucket of --log: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            )
        credentials = given.access_key, given.secret_key, given.session_token
    try:
        return ClusterNode(settings.data, {
            "url": url, "log": without_secrets(url), "credentials": credentials,
            "authorities": authorities(), "call_timeout_sec": _CALL_SECONDS,
            "deadline_sec": _DEADLINE_SECONDS,
        })  # fmt: skip
    except StoreError as error:
        raise UnavailableError(f"The log of the cluster, {without_secrets(url)}, cannot be used: {error}.") from None


def without_secrets(url: str) -> str:
    """The URL of a log without user, password and parameters other than the name of the log."""
    parts = urlsplit(url)
    names = "&".join(pair for pair in parts.query.split("&") if pair.startswith("log="))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, names, ""))


def authorities() -> str:
    """Certificates of the authorities that this machine trusts, as PEM, with those of AWS_CA_BUNDLE.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    try:
        context = ssl.create_default_context()
        if (bundle := client_variables().ca_bundle) is not None:
            context.load_verify_locations(bundle)
    except OSError as error:
        raise ConfigurationError(f"AWS_CA_BUNDLE names a file that cannot be used: {error}.") from None
    return "".join(ssl.DER_cert_to_PEM_cert(found) for found in context.get_ca_certs(binary_form=True))
