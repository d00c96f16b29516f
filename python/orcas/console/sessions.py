"""Who has signed in to the console: a bounded table in memory, which ends with the process.

A session is found by the hash of the random value in its cookie, so the table tells nobody how to enter. The secret key is
in memory alone, for signing. A session ends by log-out, after a time without use, and at a fixed time after its begin.
Must not know HTTP or pages.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from orcas.http.signing import Keys

COOKIE: Final = "orcas-console"
# Seconds after which a session ends: without use, and in any case.
IDLE_SECONDS: Final = 3600
LIFE_SECONDS: Final = 12 * 3600
# Sessions at a time: of one access key, and of all. The one that was not used for the longest time gives way.
OF_KEY_MAX: Final = 16
SESSIONS_MAX: Final = 1024
# Links of `orcas console`: seconds for which one works, and how many wait at a time.
LINK_SECONDS: Final = 60
_LINKS_MAX: Final = 64
# Messages that wait for the next page.
_FLASHES_MAX: Final = 8
# New keys whose secrets nobody has copied yet.
_MADE_MAX: Final = 8


@dataclass(slots=True)
class Session:
    """One person who has signed in. `arn` says who that is."""

    keys: Keys
    arn: str
    csrf: str
    began: float
    used: float
    # Kind (`done` or `failed`) and text.
    flashes: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_FLASHES_MAX))
    # What the last deletion has left, by which it can be undone: the bucket, and keys with their delete markers.
    undo: tuple[str, list[tuple[str, str]]] = "", []
    # Keys that were made, by their ids, with what their page says, until somebody says that the secret was copied.
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    # What the rules of lifecycle documents would remove, by the names of the counts.
    counts: dict[str, Any] = field(default_factory=dict)
    # The bucket and the folder that were listed last, for the way back from a refusal.
    place: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The end of the ARN, for people."""
        return self.arn.split(":", 5)[-1]

    def keep_made(self, key: str, said: dict[str, Any]) -> None:
        """Keep what a page says of a new key, in place of the oldest one if there are too many."""
        if len(self.made) >= _MADE_MAX:
            del self.made[next(iter(self.made))]
        self.made[key] = said

    def forget(self, bucket: str, keys: Container[str]) -> None:
        """Leave out of `undo` what was restored otherwise."""
        if self.undo[0] == bucket:
            self.undo = bucket, [each for each in self.undo[1] if each[0] not in keys]

    def take_flashes(self) -> list[tuple[str, str]]:
        """The messages that no page has shown yet."""
        taken = list(self.flashes)
        self.flashes.clear()
        return taken


class Sessions:
    """The table; used on the event loop alone. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By the hash of the cookie's value, the least recently used first.
        self._open: dict[bytes, Session] = {}
        # By the hash of the link's code: whose it is, and when it ends.
        self._links: dict[bytes, tuple[Keys, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, keys: Keys, arn: str) -> tuple[str, Session]:
        """A new session, and the value of its cookie, which is never one that the browser had before."""
        now = self._clock()
        self._drop_ended(now)
        of_key = [name for name, other in self._open.items() if other.keys.access_key == keys.access_key]
        if len(of_key) >= OF_KEY_MAX:
            del self._open[of_key[0]]
        elif len(self._open) >= SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        value = secrets.token_urlsafe(32)
        session = Session(keys, arn, secrets.token_urlsafe(32), now, now)
        self._open[_hash(value)] = session
        return value, session

    def find(self, value: str | None, *, by_itself: bool = False) -> Session | None:
        """The session of a cookie; None if there is none, or it has ended.

        `by_itself`: the page asks, and not the person, which does not count as use.
        """
        if not value:
            return None
        name, now = _hash(value), self._clock()
        session = self._open.get(name)
        if session is None:
            return None
        if _has_ended(session, now):
            del self._open[name]
            return None
        if not by_itself:
            session.used = now
            self._open[name] = self._open.pop(name)
        return session

    def end(self, value: str | None) -> None:
        """Revoke the session of a cookie, if there is one."""
        if value:
            self._open.pop(_hash(value), None)

    def link(self, keys: Keys) -> str:
        """The code of a link that signs in once, within `LINK_SECONDS`, with these keys."""
        now = self._clock()
        self._links = {name: kept for name, kept in self._links.items() if kept[1] > now}
        if len(self._links) >= _LINKS_MAX:
            del self._links[next(iter(self._links))]
        code = secrets.token_urlsafe(32)
        self._links[_hash(code)] = keys, now + LINK_SECONDS
        return code

    def redeem(self, code: str) -> Keys | None:
        """The keys of a link, which does not work again; None if it has ended or was used."""
        kept = self._links.pop(_hash(code), None)
        return None if kept is None or kept[1] <= self._clock() else kept[0]

    def _drop_ended(self, now: float) -> None:
        self._open = {name: session for name, session in self._open.items() if not _has_ended(session, now)}


def is_token(session: Session, given: str) -> bool:
    """Whether a form has the token of the session."""
    return hmac.compare_digest(session.csrf.encode(), given.encode("utf-8", "surrogatepass"))


def _has_ended(session: Session, now: float) -> bool:
    return now - session.used > IDLE_SECONDS or now - session.began > LIFE_SECONDS


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
