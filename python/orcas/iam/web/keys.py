"""The keys of providers: from a file or URL that the operator has named, or where the provider says that they are.

Whoever registers a provider chooses where the server connects to. So it connects by https alone, to addresses of the public
internet alone, follows no redirection, and reads a bounded answer in a bounded time. Only a URL from the operator may be
private. Each provider is asked in a thread of its own, so a slow one is waited for by those alone who name it.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from orcas.control.identities.failures import IamError
from orcas.targets.addresses import NotPublicError, connect

_BYTES_MAX: Final = 256 * 1024
_KEYS_MAX: Final = 100
# For all that a provider is asked at once.
_SECONDS_MAX: Final = 5.0
# More for the thread that asks to notice that this has passed.
_GRACE_SECONDS: Final = 0.5
# Keys are used this long, and asked for again at most that often, whatever tokens name.
_FRESH_SECONDS: Final = 3_600
_PAUSE_SECONDS: Final = 60
_PROVIDERS_MAX: Final = 1_000
# Providers that are being asked, and requests that wait for one of them: each keeps its form.
_ASKED_MAX: Final = 64
_WAITING_MAX: Final = 256

Keys = dict[str, dict[str, Any]]


def _unreachable(place: str, why: str) -> IamError:
    """Where the keys are, and why they cannot be read, is for the operator, and not for who sends a token."""
    return IamError(
        "IDPCommunicationError",
        "The keys of the identity provider cannot be read; the log of the server says why.",
        f"{place}: {why}",
    )


class _Connection(http.client.HTTPSConnection):
    """Connects to an address that was looked at, and not to what the name means a moment later."""

    def __init__(self, url: SplitResult, left: Callable[[], float], *, anywhere: bool) -> None:
        super().__init__(url.hostname or "", url.port, timeout=_SECONDS_MAX)
        self._url = url
        self._left = left
        self._anywhere = anywhere
        # Also when the answer says that the connection ends with it: then `sock` is None while the answer is read.
        self._live: socket.socket | None = None
        self._cut = False

    def connect(self) -> None:
        """Connect, unless the name has no address that may be reached."""
        self.sock = self._live = connect(self._url, private=self._anywhere, left=self._left)
        if self._cut:
            self.cut()

    def cut(self) -> None:
        """End what another thread waits for: each of its reads may be fast, and all of them slow."""
        self._cut = True
        with contextlib.suppress(OSError):
            if self._live is not None:
                self._live.shutdown(socket.SHUT_RDWR)


def fetch(url: str, *, anywhere: bool, until: float) -> Any:
    """The JSON at a URL. Blocks, until that time of the monotonic clock. `anywhere`: also at a private address.

    Raises:
        IamError: it cannot be read.
    """

    def left() -> float:
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("nothing came in time")
        return seconds

    timer = connection = None
    try:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.username is not None:
            raise _unreachable(url, "it is no https URL")
        connection = _Connection(parts, left, anywhere=anywhere)
        timer = threading.Timer(left(), connection.cut)
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
        left()
        return json.loads(content)
    except NotPublicError:
        raise _unreachable(url, "it has no address of the public internet") from None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, RuntimeError) as error:
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


@dataclass
class _Asked:
    """A provider that is being asked, and how many requests wait for that."""

    answer: asyncio.Future[Keys | IamError]
    waiting: int = 0


class KeySets:
    """The keys of all providers, as far as they were asked for; used from one event loop."""

    def __init__(self, get: Callable[..., Any] = fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._get = get
        self._clock = clock
        # By provider: the keys, or why there are none, and the time.
        self._known: dict[str, tuple[Keys | IamError, float]] = {}
        self._asked: dict[str, _Asked] = {}
        # Threads that ask, among them those whose answer nobody waits for any more.
        self._threads = 0

    async def find(self, provider: str, details: dict[str, Any], kid: str) -> dict[str, Any] | None:
        """The key with an id.

        Raises:
            IamError: the keys cannot be read.
        """
        if details.get("jwks_file"):
            return (await asyncio.to_thread(_of_file, Path(details["jwks_file"]))).get(kid)
        keys, at = self._known.get(provider, ({}, float("-inf")))
        age = self._clock() - at
        lacks = isinstance(keys, IamError) or kid not in keys
        if age >= _FRESH_SECONDS or (lacks and age >= _PAUSE_SECONDS):
            keys = await self._ask(provider, details)
        if isinstance(keys, IamError):
            raise keys
        return keys.get(kid)

    async def _ask(self, provider: str, details: dict[str, Any]) -> Keys | IamError:
        """The keys of the provider, for all who ask meanwhile."""
        asked = self._asked.get(provider)
        if asked is None:
            if self._threads >= _ASKED_MAX:
                return _unreachable(details["url"], f"{_ASKED_MAX} other providers are being asked")
            asked = self._asked[provider] = _Asked(self._begin(details))
            asked.answer.add_done_callback(lambda answer: self._keep(provider, answer))
        if asked.waiting >= _WAITING_MAX:
            return _unreachable(details["url"], f"{_WAITING_MAX} requests wait for its keys")
        asked.waiting += 1
        try:
            return await asyncio.shield(asked.answer)
        finally:
            asked.waiting -= 1

    def _begin(self, details: dict[str, Any]) -> asyncio.Future[Keys | IamError]:
        """Ask in a thread that nothing waits for at the end of the process: looking a name up has no bound of its own."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Keys | IamError] = loop.create_future()

        def give(keys: Keys | IamError) -> None:
            if not answer.done():
                answer.set_result(keys)

        def end(keys: Keys | IamError) -> None:
            self._threads -= 1
            give(keys)

        def run() -> None:
            keys: Keys | IamError
            try:
                keys = self._read(details)
            except IamError as error:
                keys = error
            except Exception as error:  # noqa: BLE001 - for the log
                keys = _unreachable(details["url"], f"{type(error).__name__}: {error}")
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, keys)

        try:
            threading.Thread(target=run, name="orcas-keys", daemon=True).start()
        except RuntimeError as error:
            give(_unreachable(details["url"], str(error)))
            return answer
        self._threads += 1
        late = loop.call_later(
            _SECONDS_MAX + _GRACE_SECONDS, give, _unreachable(details["url"], "nothing came in time")
        )
        answer.add_done_callback(lambda _: late.cancel())
        return answer

    def _keep(self, provider: str, answer: asyncio.Future[Keys | IamError]) -> None:
        del self._asked[provider]
        if not answer.cancelled():
            if len(self._known) >= _PROVIDERS_MAX:
                self._known.clear()
            self._known[provider] = answer.result(), self._clock()

    def _read(self, details: dict[str, Any]) -> Keys:
        url, until = details.get("jwks_url"), time.monotonic() + _SECONDS_MAX
        if url:
            return parse_keys(self._get(url, anywhere=True, until=until))
        issuer = details["url"]
        described = self._get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", anywhere=False, until=until)
        if not isinstance(described, dict) or described.get("issuer") != issuer:
            raise _unreachable(issuer, "it describes another issuer")
        url = described.get("jwks_uri")
        if not isinstance(url, str):
            raise _unreachable(issuer, "it names no jwks_uri")
        return parse_keys(self._get(url, anywhere=False, until=until))


def _of_file(path: Path) -> Keys:
    try:
        with path.open("rb") as file:
            return parse_keys(json.loads(file.read(_BYTES_MAX)))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreachable(str(path), str(error)) from None
