"""The keys of providers: from a file or URL that the operator has named, or where the provider says that they are.

Whoever registers a provider chooses where the server connects to. So it connects by https alone, to addresses of the public
internet alone, follows no redirection, and reads a bounded answer in a bounded time. Only a URL from the operator may be
private.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from orcas.control.identities.failures import IamError

_BYTES_MAX: Final = 256 * 1024
_KEYS_MAX: Final = 100
_SECONDS_MAX: Final = 5.0
# Keys are used this long, and asked for again at most that often, whatever tokens name.
_FRESH_SECONDS: Final = 3_600
_PAUSE_SECONDS: Final = 60
_PROVIDERS_MAX: Final = 1_000

Keys = dict[str, dict[str, Any]]


def _unreachable(url: str, why: str) -> IamError:
    return IamError("IDPCommunicationError", f"The keys at {url} cannot be read: {why}")


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, also behind a translation of addresses."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is not None:
            return inner.is_global
        if found.teredo is not None or found in ipaddress.ip_network("64::/16"):
            return False
    return found.is_global and not found.is_multicast


class _Connection(http.client.HTTPSConnection):
    """Connects to an address that was looked at, and not to what the name means a moment later."""

    def __init__(self, host: str, port: int, *, anywhere: bool) -> None:
        super().__init__(host, port, timeout=_SECONDS_MAX, context=ssl.create_default_context())
        self._anywhere = anywhere

    def connect(self) -> None:
        """Connect, unless the name has an address that is not to be reached."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        if not self._anywhere and not all(map(is_public, addresses)):
            raise OSError("its address is not one of the public internet")
        self.sock = plain = socket.create_connection((addresses[0], self.port), self.timeout)
        self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self.host)

    def cut(self) -> None:
        """End what another thread waits for: each of its reads may be fast, and all of them slow."""
        with contextlib.suppress(OSError):
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)


def fetch(url: str, *, anywhere: bool) -> Any:
    """The JSON at a URL. Blocks. `anywhere`: also at a private address.

    Raises:
        IamError: it cannot be read.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        raise _unreachable(url, "it is no https URL")
    connection = timer = None
    try:
        connection = _Connection(parts.hostname, parts.port or 443, anywhere=anywhere)
        timer = threading.Timer(_SECONDS_MAX, connection.cut)
        timer.daemon = True
        timer.start()
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"accept": "application/json", "accept-encoding": "identity"})
        response = connection.getresponse()
        if response.status != 200:
            raise _unreachable(url, f"it answers {response.status}, and redirections are not followed")
        content = b""
        while piece := response.read1(65_536):
            content += piece
            if len(content) > _BYTES_MAX:
                raise _unreachable(url, "the answer is too long")
        return json.loads(content)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise _unreachable(url, str(error)) from None
    finally:
        if timer is not None:
            timer.cancel()
        if connection is not None:
            connection.close()


def parse_keys(document: object) -> Keys:
    """The keys of a set by their ids. Those without an id, and those of no kind that verifies, are left out."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > _KEYS_MAX:
        return {}
    found = [key for key in keys if isinstance(key, dict) and isinstance(key.get("kid"), str)]
    return {key["kid"]: key for key in found if key.get("kty") in ("RSA", "EC")}


class KeySets:
    """The keys of all providers, as far as they were asked for; used from one event loop."""

    def __init__(self, get: Callable[..., Any] = fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._get = get
        self._clock = clock
        # By provider: the keys, or why there are none, and the time.
        self._known: dict[str, tuple[Keys | IamError, float]] = {}
        self._asking = asyncio.Lock()

    async def find(self, provider: str, details: dict[str, Any], kid: str) -> dict[str, Any] | None:
        """The key with an id.

        Raises:
            IamError: the keys cannot be read.
        """
        if details.get("jwks_file"):
            return (await asyncio.to_thread(_of_file, Path(details["jwks_file"]))).get(kid)
        async with self._asking:
            keys, at = self._known.get(provider, ({}, float("-inf")))
            age = self._clock() - at
            lacks = isinstance(keys, IamError) or kid not in keys
            if age >= _FRESH_SECONDS or (lacks and age >= _PAUSE_SECONDS):
                try:
                    keys = await asyncio.to_thread(self._read, details)
                except IamError as error:
                    keys = error
                if len(self._known) >= _PROVIDERS_MAX:
                    self._known.clear()
                self._known[provider] = keys, self._clock()
        if isinstance(keys, IamError):
            raise keys
        return keys.get(kid)

    def _read(self, details: dict[str, Any]) -> Keys:
        url = details.get("jwks_url")
        if url:
            return parse_keys(self._get(url, anywhere=True))
        issuer = details["url"]
        described = self._get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", anywhere=False)
        if not isinstance(described, dict) or described.get("issuer") != issuer:
            raise _unreachable(issuer, "it describes another issuer")
        url = described.get("jwks_uri")
        if not isinstance(url, str):
            raise _unreachable(issuer, "it names no jwks_uri")
        return parse_keys(self._get(url, anywhere=False))


def _of_file(path: Path) -> Keys:
    try:
        with path.open("rb") as file:
            return parse_keys(json.loads(file.read(_BYTES_MAX)))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreachable(str(path), str(error)) from None
