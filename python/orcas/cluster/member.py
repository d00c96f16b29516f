"""A node as a member of its cluster: who owns the log, whether it is time to take it, and what is said about both.

Invariants. An owner serves until 0.8 of the lease after it last sent something that the log took, and a follower takes the
log when nothing came for longer than the lease by its own clock, while it could read the log. So no two nodes answer at the
same time, if their clocks run at about the same speed; that no write is lost depends on no clock. A node never goes from
owner to follower with the store open.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from orcas.cluster.leaving import is_node, read_mark
from orcas.cluster.log import authorities, open_node, without_secrets
from orcas.cluster.score import Measured, bid_share
from orcas.cluster.small import SmallFiles, has_kept, use_kept
from orcas.cluster.view import View
from orcas.control.files import make_directory, write_secret_file
from orcas.engine import Core, Front, LogPlace, StoreError
from orcas.errors import OrcasError, UnavailableError
from orcas.settings.config import Settings
from orcas.standby.following import Progress
from orcas.standby.mark import check_no_standby

if TYPE_CHECKING:
    from orcas.engine import ClusterStep

# Shares of the lease: between two signs of life of the owner, and how long it serves after one.
_BEAT: Final = 1 / 3
_SERVES: Final = 0.8
# Followers wait longer by up to this share, the better ones less. If they waited equally long, all would take the log.
_JITTER: Final = 0.15
# Between two looks at a log with nothing new: each is a request. At most a share of the lease.
_POLL_SECONDS: Final = 0.1
_POLL_SHARE: Final = 1 / 6
_RETRY_SECONDS: Final = 1.0
# Between two readings of the log to its end for reads that wait, and how long one may take; for an answer from where the
# owner should be.
_END_PAUSE_SECONDS: Final = 0.02
_END_SECONDS: Final = 0.4
_REFUSAL_SECONDS: Final = 0.2
# Between two marks, which make the files durable.
_MARK_SECONDS: Final = 10.0
# Between two new beginnings of the log, each of which deletes what was before, and the share of what is kept.
_TRUNCATE_SECONDS: Final = 60.0
_TRUNCATE_SHARE: Final = 1 / 4

log = logging.getLogger("orcas")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns the log, as it says in the log. `released`: it has given it up."""

    name: str
    url: str
    term: int
    # For so many seconds after a message it may answer requests.
    lease_sec: float = 0.0
    released: bool = False
    # The node that is to take it.
    to: str | None = None
    # How well it suits, as of its last message.
    score: float | None = None
    # Whether it has begun to serve, and so listens at its address until its process ends.
    serves: bool = False
    # Whether it acknowledges only what is durable, where buckets do not say otherwise.
    syncs: bool = False


class Member:
    """This node. `run_owner` and `run_follower` are loops of a thread of their own; `leave` ends the present role."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = self.directory = settings.data
        self.node = open_node(settings)
        # A log that cannot be used leaves nothing behind.
        make_directory(settings.data)
        # Of certificates of the other nodes.
        self._authorities = authorities()
        self.name = _name_of(settings.data)
        self.region = settings.region
        self.log = without_secrets(settings.cluster_log or "")
        self._owner: Owner | None = None
        self._term = self._next = 0
        self._heard = time.monotonic()
        # When what this node last heard was everything; None before.
        self._as_of: float | None = None
        self._error: str | None = None
        # How well this node suits as the owner, and what chance adds to that.
        self.measured, self._chance = Measured(), random.random()  # noqa: S311 - spreads bids
        # The root key, with which a follower may ask the owner for the log.
        self.keys: tuple[str, str] | None = None
        self.owns = False
        # Whether this process listens at its address, which it does to its end.
        self._listens = False
        # Whether this node takes the log if nobody owns it, before it has its next role.
        self._bids = True
        # What the store of a follower shows, and what its owner showed last, as it has noted.
        self._view: View | None = None
        self._noted: int | None = None
        # The last question about all of the log, and whether this node shows that; not before when the next is answered.
        self._ended = 0, False
        self._ends_from = 0.0
        self._stop = threading.Event()
        self._served_until = 0.0
        self._small: SmallFiles | None = None
        # The node that is to take the log from this one, and until when this one leaves it to others.
        self._wanted: str | None = None
        self._leaves_until = 0.0
        # Called when requests are to be answered by another node: its URL, or None if there is none.
        self.redirect: Callable[[str | None], None] = lambda _: None
        # Called when this node answers them for so many seconds.
        self.here: Callable[[float], None] = lambda _: None
        # Called with the buckets that have an origin.
        self._pull: Callable[[list[str]], None] = lambda _: None
        self.leave: Callable[[], None] = lambda: None

    # What both roles show.

    @property
    def owner(self) -> Owner | None:
        """Who owns the log, as far as it is known here."""
        return self._owner

    def is_served(self) -> bool:
        """Whether this node answers requests, or knows one that does and has heard of it within its lease."""
        if self.owns:
            return time.monotonic() < self._served_until
        owner = self._owner
        silent = time.monotonic() - self._heard
        return (
            owner is not None
            and not owner.released
            and silent <= max(self._settings.cluster_lease_sec, owner.lease_sec)
        )

    def progress(self) -> Progress:
        """How far a follower is, as a standby shows it."""
        behind = None if self._as_of is None else max(time.monotonic() - self._as_of, 0.0)
        return Progress(self._owner.url if self._owner else self.log, self._next, 0, behind, self._error)

    def is_complete(self) -> bool:
        """Whether a follower had everything that the log has a moment ago."""
        behind = self.progress().behind_sec
        return self._error is None and behind is not None and behind < _BEAT * self._settings.cluster_lease_sec

    def status(self) -> dict[str, Any]:
        """The cluster as this node sees it."""
        owner, mark = self._owner, read_mark(self._directory)
        # An owner reads nothing of the log, but its mark is in front of what it has read before.
        position = max(self._next, mark["next"] if mark is not None else 0)
        score = round(self.measured.score(), 2)
        known = None if owner is None or owner.released else owner
        return {
            "node": self.name,
            "url": self._settings.cluster_url,
            "log": self.log,
            "role": "owner" if self.owns else "follower",
            "owner": known and {"node": known.name, "url": known.url, "score": score if self.owns else known.score},
            "term": self._term,
            "next": position,
            "mark": mark,
            "score": score,
            "silent_sec": 0.0 if self.owns else round(time.monotonic() - self._heard, 1),
            "error": self._error,
        }

    # Before a role begins. The store is not open.

    def prepare(self) -> None:
        """Read the log to its end, and take it if nobody owns it. Blocks until this node has a role.

        Raises:
            UnavailableError: the directory is of another store. At the first time also: the store of the log cannot be used.
        """
        self._check_directory()
        while self._bids or not has_kept(self._directory):
            try:
                ended = self._catch_up()
                if ended and self._is_free() and self._take():
                    break
            except UnavailableError as error:
                if self._as_of is None or not has_kept(self._directory):
                    raise
                # As a follower it answers, and goes on when it can.
                log.warning("%s It tries again", error)
                break
            if ended and has_kept(self._directory) and self._owner is not None:
                break
            time.sleep(_POLL_SECONDS)
        self._bids = False
        use_kept(self._directory)

    def _check_directory(self) -> None:
        check_no_standby(self._directory)
        self._brings = not is_node(self._directory) and (self._directory / "store.keys").exists()
        if not self._brings and not is_node(self._directory):
            self.node.mark()

    def _catch_up(self) -> bool:
        """Apply what is new; the store is not open. Whether that was everything."""
        try:
            brought = self.node.follow()
        except StoreError as error:
            raise UnavailableError(f"This node cannot follow the log of its cluster: {error}.") from None
        except ValueError:
            raise self._other_store() from None
        self._note(brought)
        self.node.give_up(brought["given_up"])
        return bool(brought["at_the_end"])

    def _other_store(self) -> UnavailableError:
        return UnavailableError(
            f"{self._directory} has a store of its own, and the log of the cluster, {self.log}, has another one: name "
            "an empty directory with --data, or an unused log with --log."
        )

    def _is_free(self) -> bool:
        """Whether nobody owns the log, or its owner is this node before it was started anew, or is silent for too long."""
        owner = self._owner
        if owner is None:
            # An owner says who it is at once.
            return self._next == 0 or self._until_bid() <= 0
        if time.monotonic() < self._leaves_until:
            return False
        if owner.released:
            # Whoever is named may not be there.
            waited = time.monotonic() - self._heard
            return owner.to in (None, self.name) or waited > _BEAT * self._settings.cluster_lease_sec
        return self._was_owner() or self._until_bid() <= 0

    def _was_owner(self) -> bool:
        """Whether the owner is this node, before it was started anew. A directory that was copied has another's name."""
        owner = self._owner
        return owner is not None and (owner.name, owner.url) == (self.name, self._settings.cluster_url)

    def _until_bid(self) -> float:
        """Seconds until the owner, if it stays silent, has been so for too long."""
        lease = max(self._settings.cluster_lease_sec, self._owner.lease_sec if self._owner else 0.0)
        waits = lease * (1 + _JITTER * bid_share(self.measured.score(), self._chance))
        return self._heard + waits - time.monotonic()

    def _take(self) -> bool:
        """Take the log. Whether it was this node that got it."""
        try:
            taken = self.node.take()
        except StoreError as error:
            raise UnavailableError(f"This node cannot take the log of its cluster: {error}.") from None
        except ValueError:
            raise self._other_store() from None
        self._heard = time.monotonic()
        if taken is None:
            return False
        self._note(taken)
        try:
            if self._brings:
                log.info("The store in %s is brought into the log of the cluster", self._directory)
                self.node.append_all()
                self._brings = False
                self.node.mark()
            self._say({})
            if taken["notes"]:
                self._wait_for_other()
            sent = time.monotonic()
            self._say({})
        except StoreError as error:
            log.warning("This node had taken the log of its cluster, and lost it: %s", error)
            self.node.step_down()
            return False
        self._serve(sent)
        self.owns = True
        lease = self._settings.cluster_lease_sec
        self._owner = Owner(self.name, self._settings.cluster_url or "", taken["term"], lease)
        log.info("This node owns the log of the cluster, in term %d", taken["term"])
        return True

    def _wait_for_other(self) -> None:
        """Wait until an owner that showed life just before this node took the log answers no more."""
        owner = self._owner
        if owner is None or owner.released or self._was_owner():
            return
        lease = self._settings.cluster_lease_sec
        until = time.monotonic() + max(owner.lease_sec, lease)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, lease * _BEAT))
            self._say({})

    # The owner.

    def opened(self) -> None:
        """Bring the small files to the other nodes, before the store is served. Blocks.

        Raises:
            UnavailableError: this node does not own the log any more.
        """
        self._small = SmallFiles(self._directory, self.node)
        try:
            self._small.bring()
        except StoreError as error:
            raise UnavailableError(f"This node does not own the log of its cluster any more: {error}.") from None

    def bring(self) -> None:
        """Bring what has changed in the small files to the other nodes. Blocks.

        Raises:
            StoreError: this node does not own the log any more.
        """
        if self._small is not None:
            self._small.bring()

    def run_owner(self, core: Core) -> None:
        """Serve while the log takes signs of life, until `end`, or until this node does not own the log any more."""
        lease, kept = self._settings.cluster_lease_sec, self._settings.cluster_keep_sec
        truncates = min(_TRUNCATE_SECONDS, kept * _TRUNCATE_SHARE)
        # Places that were marked, with the times of it: the oldest becomes the beginning of the log in the end.
        marks: deque[tuple[float, LogPlace]] = deque()
        marked = time.monotonic()
        # With the first message, followers learn that this node serves.
        while not self._listens and time.monotonic() < marked + lease * _BEAT and not self._stop.wait(_POLL_SECONDS):
            pass
        while True:
            sent = time.monotonic()
            try:
                self._say({"shown": core.published_sequence(), "serves": self._listens})
                if time.monotonic() > self._served_until:
                    log.warning("The log of the cluster took nothing for too long: requests were refused meanwhile")
                self._serve(sent)
                self.node.renew()
                self.bring()
                if sent - marked > min(_MARK_SECONDS, truncates):
                    place, marked = self.node.mark(), sent
                    if not marks or sent - marks[-1][0] > truncates:
                        marks.append((sent, place))
                    if sent - marks[0][0] > kept:
                        self.node.truncate(marks[0][1])
                        marks.popleft()
            except (OrcasError, StoreError) as error:
                log.error("The owner of the log of the cluster cannot go on as it should: %s", error)
            if (over := self.node.over()) is not None:
                log.warning("This node does not own the log of the cluster any more, and follows it: %s", over)
                self.redirect(None)
                self.leave()
                return
            if self._stop.wait(min(lease * _BEAT, _MARK_SECONDS)):
                return

    def _serve(self, sent: float) -> None:
        """Serve for a share of the lease since a message was sent that the log took."""
        self._served_until = sent + _SERVES * self._settings.cluster_lease_sec
        self.here(max(self._served_until - time.monotonic(), 0.0))

    def give_up(self, to: str | None) -> None:
        """Let another node take the log, and follow it."""
        self._wanted, self._leaves_until = to, time.monotonic() + self._settings.cluster_lease_sec
        self.leave()

    def served_by(self, front: Front) -> None:
        """Let this front answer requests, or pass them on. Called when it has begun."""
        self._listens = True

        def redirect(url: str | None) -> None:
            front.set_owner(url, self._authorities)

        self.redirect, self.here, self._pull = redirect, front.be_owner, front.set_origins
        if self.owns:
            front.be_owner(max(self._served_until - time.monotonic(), 0.0))
        else:
            redirect(self._url())
            if self._view is not None:
                front.set_origins(self._view.pulled)

    # The follower.

    def run_follower(self, core: Core) -> None:
        """Follow the log with an open store, until `end`, or until it is time to take it."""
        view = self._view = View(self._settings, core, self.node)
        marked = looked = time.monotonic()
        shown: str | None = None
        pause, longest = 0.0, max(_POLL_SHARE * self._settings.cluster_lease_sec, _POLL_SECONDS)
        while not self._stop.is_set():
            wanted = self.node.wait(max(looked + pause - time.monotonic(), 0.0))
            is_due = time.monotonic() >= looked + pause
            try:
                if wanted is not None:
                    self._answer(view, wanted)
                ended, news = self._follow(view) if is_due else (False, False)
                if is_due and self._error is not None:
                    log.info("This node follows the log of the cluster again")
                    self._error = None
                    self._heard = time.monotonic()
                if time.monotonic() - marked > _MARK_SECONDS:
                    self.node.mark()
                    marked = time.monotonic()
            except (OrcasError, StoreError) as error:
                if self._error is None:
                    log.warning("This node cannot follow the log of the cluster: %s. It tries again", error)
                self._error = str(error)
                looked, pause = time.monotonic(), _RETRY_SECONDS
                continue
            if self._url() != shown:
                shown = self._url()
                self.redirect(shown)
            if is_due:
                looked = time.monotonic()
                pause = _POLL_SECONDS if news else min(max(2 * pause, _POLL_SECONDS), longest)
            if ended and self._is_free():
                self._bids = True
                self.redirect(None)
                self.leave()
                return
            if is_due and not ended:
                pause = 0.0
            elif (left := self._until_bid()) > 0:
                # Not past the time of the bid, which says who of several followers is first.
                pause = min(pause, time.monotonic() - looked + left)

    def _follow(self, view: View) -> tuple[bool, bool]:
        """Apply what is new, and show it. Whether that was everything, and whether it was anything."""
        if not self.node.glance():
            self._as_of = time.monotonic()
            self._show(view, None)
            return True, False
        brought = self._step(view)
        self._show(view, None)
        return brought["at_the_end"], bool(brought["entries"])

    def _answer(self, view: View, wanted: tuple[int, int, int, int] | int) -> None:
        """Show what reads wait for."""
        if isinstance(wanted, int):
            is_shown = False
            try:
                is_shown = self._show_end(view)
            finally:
                self._ended = wanted, is_shown
                view.tell(self._term, self._next, self._ended)
            return
        _, sequence, position, last = wanted
        while self._next < position and self._step(view, (position, last))["entries"]:
            pass
        self._show(view, sequence)

    def _show_end(self, view: View) -> bool:
        """Show everything that the log has from now on. Whether this does: no owner may answer with less afterwards."""
        early = self._ends_from - time.monotonic()
        if early > _END_PAUSE_SECONDS:
            # A moment ago the log could not be read.
            return False
        self._stop.wait(max(early, 0.0))
        self._ends_from = time.monotonic() + _RETRY_SECONDS
        # It fails at once where the rest would try for long.
        self.node.glance()
        # The first end may be one that was found before the reads came.
        ends, until = 0, time.monotonic() + _END_SECONDS
        while ends < 2 and time.monotonic() < until:
            ends += self._step(view)["at_the_end"]
        self._ends_from = time.monotonic() + _END_PAUSE_SECONDS
        self._show(view, None)
        if ends < 2 or view.is_stale:
            return False
        owner = self._owner
        if self._url() is not None and owner is not None:
            if owner.syncs and view.is_known():
                return True
            # Another one that owns the log has read all of it before it serves.
            if not owner.serves or not self._is_refused(owner):
                return False
        view.show_all()
        return True

    def _is_refused(self, owner: Owner) -> bool:
        """Whether nothing listens at the address of a node."""
        parts = urlsplit(owner.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return self.node.is_refused(parts.hostname or "", port, _REFUSAL_SECONDS)

    def _step(self, view: View, until: tuple[int, int] | None = None) -> ClusterStep:
        brought = self.node.follow(until)
        self._note(brought)
        view.take(brought)
        return brought

    def _show(self, view: View, known: int | None) -> None:
        """Show up to this record and to what the owner has noted, which it has shown."""
        found = [each for each in (known, self._noted) if each is not None]
        self._noted = None
        if view.load():
            self._pull(view.pulled)
        if found:
            view.show(max(found))
        view.tell(self._term, self._next, self._ended)

    def _url(self) -> str | None:
        """The address of the node that owns the log."""
        return None if self._owner is None or self._owner.released else self._owner.url

    # Both.

    def end(self) -> None:
        """End the loop of the role."""
        self._stop.set()
        self.node.wake()

    def ended(self, *, stopped: bool) -> None:
        """The store is closed. `stopped`: the node ends; otherwise it has another role now. Blocks."""
        self._stop = threading.Event()
        self._small = None
        self.redirect, self.here, self._pull, self.leave = lambda _: None, lambda _: None, lambda _: None, lambda: None
        self.node.show(None)
        if not self.owns:
            with contextlib.suppress(StoreError):
                if self._view is not None:
                    self.node.give_up(self._view.rest())
                self.node.mark()
            self._view = None
            return
        self.owns = False
        if self.node.over() is None:
            with contextlib.suppress(StoreError):
                self.node.mark()
                self._say({"released": True, "to": self._wanted})
        self._wanted = None
        if not stopped:
            self._owner = None
            self._heard = time.monotonic()
            self.node.step_down()

    def _say(self, more: dict[str, object]) -> None:
        lease = self._settings.cluster_lease_sec
        said = {"node": self.name, "url": self._settings.cluster_url, "lease_sec": lease, **more}
        said["score"] = round(self.measured.score(), 2)
        said["durability"] = self._settings.durability
        self.node.note(json.dumps(said).encode())

    def _note(self, brought: ClusterStep) -> None:
        now = time.monotonic()
        if brought["entries"] or self._as_of is None:
            self._heard = now
        if brought["at_the_end"]:
            self._as_of = now
        self._term, self._next = max(self._term, brought["term"]), brought["next"]
        for note in brought["notes"]:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(note)
                lease, is_free = float(said["lease_sec"]), bool(said.get("released"))
                found = float(said["score"]) if "score" in said else None
                self._owner = Owner(
                    said["node"], said["url"], self._term, lease, is_free, said.get("to"), found,
                    serves=bool(said.get("serves")), syncs=said.get("durability") == "sync",
                )  # fmt: skip
                self._noted = said.get("shown", self._noted)


def _name_of(directory: Path) -> str:
    """The name of the node in this directory, which it keeps."""
    path = directory / "cluster.node" / "name"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        name = secrets.token_hex(4)
        write_secret_file(path, name.encode())
        return name
