"""What trusted proxies say of a request: the client that sent it to them, and whether it used TLS.

A header counts only if a trusted proxy sent the request, and of its list only what the trusted proxies at its end have
added: everything before may be the client's own invention. Must not know connections.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# An address as these headers write it: IPv6 may be in brackets, and a port may follow brackets or an IPv4 address.
_NODE: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]+)?|([0-9.]+)(?::[0-9]+)?|([0-9A-Fa-f:.]+)")
# The parameters of `Forwarded` that count (RFC 7239).
_PARAMETER: Final = re.compile(r'(?i)(?:^|;)\s*(for|proto)\s*=\s*(?:"([^"]*)"|([^\s;"]*))')


class Proxies:
    """The proxies that are trusted."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks: list[Network] = [ipaddress.ip_network(network) for network in networks]

    def trusts(self, host: str) -> bool:
        """Whether `host` is one of them."""
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def origin(self, host: str, headers: list[tuple[bytes, bytes]]) -> tuple[str, str | None]:
        """The client of a request that the trusted proxy `host` has passed on, and its scheme, if the proxy says it."""
        proto = _last(_values(headers, b"x-forwarded-proto"))
        nodes = _values(headers, b"x-forwarded-for")
        if not nodes and (elements := _values(headers, b"forwarded")):
            said = [dict(_parameters(element)) for element in elements]
            nodes = [element.get("for", "") for element in said]
            proto = proto or said[-1].get("proto", "").lower()
        return self._client(host, nodes), proto if proto in ("http", "https") else None

    def _client(self, host: str, nodes: list[str]) -> str:
        """The last address of the list that is not a trusted proxy's, else the first one that proxies have said."""
        client = host
        for node in reversed(nodes):
            address = _address(node)
            if address is None:
                break
            client = str(address)
            if not self.trusts(client):
                break
        return client


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    """The elements of a list that may be spread over several headers."""
    lines = [value.decode("latin-1") for name, value in headers if name == wanted]
    return [element.strip() for element in ",".join(lines).split(",")] if lines else []


def _last(values: list[str]) -> str:
    return values[-1].lower() if values else ""


def _parameters(element: str) -> Iterator[tuple[str, str]]:
    for name, quoted, plain in _PARAMETER.findall(element):
        yield name.lower(), quoted or plain


def _address(node: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    found = _NODE.fullmatch(node)
    if found is None:
        return None
    try:
        address = ipaddress.ip_address(next(filter(None, found.groups())))
    except ValueError:
        return None
    # As a socket for both versions shows IPv4.
    return getattr(address, "ipv4_mapped", None) or address
