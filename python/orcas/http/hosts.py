"""The names by which a server with published keys may be asked: those that nobody else can have.

A page in the developer's browser whose name its owner lets point to this machine (DNS rebinding) is of the same origin as
the server, and could sign with the published keys. Its requests still name their host.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from typing import Final

from orcas.http.refusals import Refusal

FOREIGN: Final = Refusal(
    403,
    "AccessDenied",
    "A server that runs with --dev answers only to localhost, to names below it, to addresses of loopback, and to names "
    "given with --domain: use one of these in the address.",
)


def is_own(hosts: Iterable[bytes], names: Iterable[str]) -> bool:
    """Whether each Host header is of loopback, of localhost or of one of `names`, or of a name below these."""
    return all(_is_own(host.decode("latin-1").strip().lower(), names) for host in hosts)


def _is_own(host: str, names: Iterable[str]) -> bool:
    name, separator, port = host.rpartition(":")
    if not separator or not (port.isdecimal() or not port) or host.endswith("]"):
        name = host
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    name = name.removesuffix(".")
    return any(f".{name}".endswith(f".{own}") for own in ("localhost", *names))
