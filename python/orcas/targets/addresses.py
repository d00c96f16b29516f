"""Connections to addresses that were checked: to public ones alone, unless their owner is marked private.

A name is resolved for each connection, which then goes to one of the addresses that were checked, so a name cannot change
its meaning in between.

The networks are listed here, because `ipaddress` answers differently from one version of Python to the next. They are those
that IANA's registries of special-purpose addresses do not call globally reachable.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult

_CONNECT_SEC_MAX: Final = 5.0

_SPECIAL_V4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
# Nothing else of IPv6 is assigned to hosts of the internet.
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
# Teredo, benchmarks and other protocols, and two networks for documentation.
_SPECIAL_V6: Final = tuple(ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
# Addresses that a gateway or this machine turns into the IPv4 address in their last 32 bits.
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4: Final = ipaddress.IPv6Network("2002::/16")
# The upper half of an interface identifier of ISATAP; the lower half is an IPv4 address.
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


class NotPublicError(Exception):
    """The address may not be connected to."""


def connect(
    url: SplitResult, *, private: bool, left: Callable[[], float], context: ssl.SSLContext | None = None
) -> socket.socket:
    """A connection to the host of `url`, with TLS if it says so, which `context` verifies.

    `private`: addresses that are not public will do. `left`: seconds that are left.

    Raises:
        NotPublicError: the host has no address that will do.
        OSError: it cannot be reached, or cannot prove its name.
    """
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [entry for entry in found if private or is_public(str(entry[4][0]))]
    if not allowed:
        raise NotPublicError
    error: OSError | None = None
    for family, kind, protocol, _, address in allowed:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(min(_CONNECT_SEC_MAX, left()))
            connection.connect(address)
            if url.scheme == "https":
                context = context or ssl.create_default_context()
                connection = context.wrap_socket(connection, server_hostname=host)
        except OSError as failed:
            connection.close()
            error = failed
            continue
        return connection
    raise error or TimeoutError


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet. The IPv4 addresses in one of IPv6 must be, too."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return _is_public_v4(address)
    number = int(address)
    if address in _MAPPED or address in _NAT64:
        return _is_public_v4(_inner(number))
    if address not in _GLOBAL_UNICAST or any(address in network for network in _SPECIAL_V6):
        return False
    if address in _6TO4 and not _is_public_v4(_inner(number >> 80)):
        return False
    return (number >> 32) & 0xFFFF_FFFF not in _ISATAP or _is_public_v4(_inner(number))


def _inner(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFF_FFFF)


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return not any(address in network for network in _SPECIAL_V4)
