"""Which addresses are public: deliveries connect to no others, unless a target is marked private."""

from __future__ import annotations

import ipaddress
from typing import Final

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also if it only wraps another."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast
