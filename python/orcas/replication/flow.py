"""A flow: the thread that copies along one route, from the place in the journal that it keeps.

A key is copied by one thread at a time and in the order of its changes, of which the last of a look counts. What fails for
its own sake becomes an exception; if the target fails, the place waits, and one key is tried until it answers again.
Every pause doubles, up to two minutes for the target and an hour for an exception. Must not know how a key is copied.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orcas.errors import OrcasError, UnavailableError
from orcas.process.backoff import backoff
from orcas.replication.rules import Route, Rules, routes_of
from orcas.replication.state import EXCEPTIONS_MAX, Change, Problem, State, Walk
from orcas.replication.walking import next_page
from orcas.targets.addresses import NotPublicError
from orcas.tools.imports.requests import ChangedError, ObjectError, StoppedError

if TYPE_CHECKING:
    from orcas.engine import Core, ReplicatedEvents
    from orcas.replication.copying import Copier

_WAIT_MS: Final = 500
# Without changes, the place is written this often: what is looked at again after a restart is bounded.
_SAVE_SEC: Final = 60.0
_AGAIN_SEC: Final = 5.0
# The first and the longest pause after a failure, of which up to a half is left out: of the target, and of an exception.
_PAUSE_SEC: Final = 2.0
_PAUSE_SEC_MAX: Final = 120.0
_PROBLEM_SEC: Final = 20.0
_PROBLEM_SEC_MAX: Final = 3600.0
# So often a key is tried whose failure may be that of the target, although the target answers.
_TRIES_MAX: Final = 5
# What is counted of the changes that wait: so many of them, and looks at the journal.
_PENDING_MAX: Final = 10_000
_PENDING_LOOKS_MAX: Final = 200
# Exceptions that are tried again in one turn.
_PROBLEMS_AT_ONCE: Final = 64
_REASON_MAX: Final = 300
_NOT_TRIED: Final = "NotTried"
_NO_ANSWER: Final = "NoAnswer"
# Refusals that are not about the object.
_OF_TARGET: Final = frozenset(
    {
        "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "ExpiredToken", "NoSuchBucket",
        "AuthorizationHeaderMalformed", "InsufficientCapacity", "XMinioStorageFull",
    }
)  # fmt: skip

log = logging.getLogger("orcas.replication")


@dataclass(slots=True)
class Numbers:
    """What a flow did since the start."""

    results: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


@dataclass(slots=True)
class _Failed:
    """A failure of one key. `of_target`: others would fail as well."""

    code: str
    reason: str
    of_target: bool


def _pause_after(failures: int) -> float:
    return backoff(failures, _PAUSE_SEC, _PAUSE_SEC_MAX)


class _Stopped(Exception):  # noqa: N818 - a signal
    """The flow ends."""


class Flow(threading.Thread):
    """One route.

    Args:
        core: the engine.
        route, rules, state: what is copied, where to, and how far that is.
        copier: copies a key.
        stop: ends it, and the copier.
        concurrency: keys at a time.
        changed: is told when the state changed.
    """

    def __init__(
        self,
        core: Core,
        route: Route,
        rules: Rules,
        state: State,
        copier: Copier,
        stop: threading.Event,
        concurrency: int,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(name=f"orcas-replication-{route.target}", daemon=True)
        self.route = route
        self.rules = rules
        self.state = state
        self.numbers = Numbers()
        self.stop = stop
        self._core = core
        self.copier = copier
        self._concurrency = concurrency
        self._changed = changed
        self._lock = threading.Lock()
        self._retry = threading.Event()
        self._rewalk = threading.Event()
        self._failing: str | None = None
        self._is_full = False
        self._since = time.time()
        # What was under way before a crash may be at the target.
        self._is_careful = True
        self._reader: ReplicatedEvents | None = None
        # Failures in a row of walks, and of exceptions that were tried again.
        self._walks_failed, self._tries_failed, self._quiet_until = 0, 0, 0.0

    def run(self) -> None:
        """Copy until the flow is stopped."""
        with (
            contextlib.closing(self.copier),
            ThreadPoolExecutor(self._concurrency, thread_name_prefix=self.name) as threads,
        ):
            while not self.stop.is_set():
                try:
                    self._follow(threads)
                    return
                except _Stopped:
                    return
                except Exception as error:  # noqa: BLE001 - logged; what was not copied is read again
                    if not self.stop.is_set():
                        log.error("The replication of %s cannot go on: %s", self.route.text, error)
                        self.stop.wait(_AGAIN_SEC)

    def end(self) -> None:
        """Give up what is under way."""
        self.stop.set()
        self.copier.abort()

    def retry(self, *, everything: bool) -> int:
        """Try the exceptions soon, and return how many there are. `everything`: compare all that rules are about."""
        if everything:
            self._rewalk.set()
        self._retry.set()
        return len(self.state.problems)

    def describe(self) -> dict[str, Any]:
        """How the flow is. `behind_sec`: the age of the oldest change that was not looked at."""
        pending = self._pending()
        with self._lock:
            state, walk = self.state, self.state.walk
            problems = sorted(state.problems.items())
            return {
                "bucket": self.route.bucket, "target": self.route.target, "to": self.route.to,
                "sequence": state.sequence, "behind_sec": round(max(0.0, time.time() - self._since), 1),
                "pending": pending, "failing": self._failing, "full": self._is_full, "bytes": self.numbers.bytes,
                "results": dict(self.numbers.results), "failures": dict(self.numbers.failures),
                "walk": None if walk is None else {"done": walk.is_done, "after": walk.mark.decode(errors="replace")},
                "exceptions": [
                    {"key": key.decode(errors="replace"), "code": problem.code, "reason": problem.reason,
                     "tries": problem.tries, "since": problem.since, "next": problem.next}
                    for key, problem in problems
                ],
            }  # fmt: skip

    def _pending(self) -> dict[str, Any]:
        """The changes behind the place that rules may be about, and the bytes of their content. `more` than were counted?"""
        with self._lock:
            after, sequence, rules = self.state.after, self.state.sequence, self.rules
        changes = size = 0
        reader = self._core.replicated_events(self.route.bucket_id, after, max(sequence, rules.begins_after))
        for _ in range(_PENDING_LOOKS_MAX if reader is not None else 0):
            read = reader.next(0) if reader is not None and changes < _PENDING_MAX else None
            if read is None:
                break
            found, _, reached, _ = read
            for key, name, version, _, bytes_ in found:
                change = _change_of(name, version)
                if change is not None and rules.may_apply(key):
                    changes += 1
                    size += bytes_ if change.content else 0
            if reached == sequence:
                return {"changes": changes, "bytes": size, "more": False}
            sequence = reached
        return {"changes": changes, "bytes": size, "more": reader is not None}

    def progress(self) -> tuple[int, list[bytes], bytes | None]:
        """The sequence up to which changes were looked at, the keys that failed, the mark of the walk (None: it is done)."""
        with self._lock:
            walk = self.state.walk
            return self.state.sequence, list(self.state.problems), None if walk is None or walk.is_done else walk.mark

    def _follow(self, threads: ThreadPoolExecutor) -> None:
        state = self.state
        reader = self._core.replicated_events(self.route.bucket_id, state.after, self.rules.begins_after)
        if reader is None:
            return
        is_first, self._reader = self._reader is None, reader
        # Whoever was to hear of them before a restart may not have.
        for key, problem in list(state.problems.items()) if is_first else ():
            self._tell(key, problem)
        if state.after is None:
            state.sequence = max(state.sequence, self.rules.begins_after)
        is_new = state.after is None and state.walk is None
        saved = 0.0
        while not self.stop.is_set():
            if self._rewalk.is_set():
                self._rewalk.clear()
                self._set_walk(Walk(self.rules.scope, everything=True))
            self._look_for_walk()
            walks = state.walk is not None and not state.walk.is_done
            read = reader.next(0 if walks else _WAIT_MS)
            if read is None:
                return
            found, after, sequence, lost = read
            if lost and is_new:
                self._hold()
            is_new = False
            if lost:
                log.error("Changes of %s are gone from the journal: everything is compared", self.route.text)
                self._set_walk(Walk(self.rules.scope, everything=True))
            changes: dict[bytes, Change] = {}
            if found:
                self._since = found[0][3] / 1000
                self.rules = self._rules_now()
                changes = _merged(found, self.rules)
            if changes:
                walk = state.walk
                lacks = walk is not None and walk.everything and not walk.is_done
                self._bring(threads, changes, careful=self._is_careful or lacks)
                self._is_careful = False
            with self._lock:
                state.after, state.sequence = after, sequence
                # What comes behind a change is not older; if there was none, everything was looked at up to now.
                self._since = found[-1][3] / 1000 if found else time.time()
            tried = self._try_problems(threads)
            walked = walks and self._walk(threads)
            if changes or tried or walked or lost or time.monotonic() - saved > _SAVE_SEC:
                self._save()
                saved = time.monotonic()
            elif found:
                self._changed()

    def _rules_now(self) -> Rules:
        """The rules after changes were read, so that they hold for what came after their document was stored.

        Raises:
            _Stopped: the flow ends, because there are none any more.
        """
        while (rules := routes_of(self._core.replicated_buckets()).get(self.route)) is None:
            self._pause(_WAIT_MS / 1000)
        return rules

    def _hold(self) -> None:
        """Wait until somebody wants both sides compared: a store that was restored may have less than the target.

        Raises:
            _Stopped: the flow ends before that.
        """
        with self._lock:
            self._failing = "its place in the journal is not known, as in a store that was restored"
        log.error(
            "The replication of %s waits, because %s: `orcas replication retry --all` begins it",
            self.route.text, self._failing,
        )  # fmt: skip
        while not self._rewalk.is_set():
            self._pause(_WAIT_MS / 1000)
        self._rewalk.clear()
        with self._lock:
            self._failing = None

    def _save(self) -> None:
        self.state.save(self.route)
        self._changed()

    def _set_walk(self, walk: Walk | None) -> None:
        with self._lock:
            self.state.walk = walk

    def _look_for_walk(self) -> None:
        """Begin a walk if rules want something that existed before, of which there was none yet."""
        existing, walk = self.rules.of_existing(), self.state.walk
        if existing is not None and (walk is None or any(part not in walk.scope for part in existing.scope)):
            self._set_walk(Walk(existing.scope))

    def _walk(self, threads: ThreadPoolExecutor) -> bool:
        """Look at the next keys, and bring over what the target has not; whether that was possible."""
        walk = self.state.walk
        assert walk is not None
        rules = self.rules if walk.everything else self.rules.of_existing()
        if rules is None:
            self._set_walk(None)
            return True
        try:
            page = next_page(
                self.copier.here, self.route.bucket, self.copier.there, self.route.to, rules.prefix, walk.mark
            )
        except (ObjectError, OrcasError, NotPublicError) as error:
            self._note_failure(_failure(error))
            self._walks_failed += 1
            self._pause(_pause_after(self._walks_failed))
            return False
        self._walks_failed = 0
        self._note_answer()
        changes = {
            difference.key: Change(
                content=not difference.is_gone, notes=not difference.is_gone, marker=difference.is_gone
            )
            for difference in page.differences
            if rules.may_apply(difference.key) and (walk.everything or not difference.is_gone)
        }
        self._bring(threads, changes, careful=True)
        with self._lock:
            walk.mark, walk.is_done = page.last, page.is_end
            self.numbers.results["compared"] += page.compared
        return True

    def _bring(self, threads: ThreadPoolExecutor, changes: dict[bytes, Change], *, careful: bool) -> None:
        """Returns when each is copied or an exception.

        Raises:
            _Stopped: the flow ends before that.
        """
        with self._lock:
            earlier = {key: problem.change for key, problem in self.state.problems.items() if key in changes}
        left = {key: change.after(earlier.get(key)) for key, change in changes.items()}
        tries: Counter[bytes] = Counter()
        failures, is_down = 0, False
        while left:
            # A target that is down gets one request, which tells when it is up.
            now = dict(list(left.items())[:1]) if is_down else left
            failed = self._attempt(threads, now, careful=careful or bool(tries))
            left = {key: change for key, change in left.items() if key not in now or key in failed}
            for key, failure in failed.items():
                if failure.code == _NOT_TRIED:
                    continue
                tries[key] += 1
                if failure.of_target and not (tries[key] >= _TRIES_MAX and self._answers(failure)):
                    continue
                if self._add_problem(key, left[key], failure):
                    del left[key]
            is_down = any(failure.of_target for key, failure in failed.items() if key in left)
            if left and (is_down or self._is_full):
                failures += 1
                self._pause(_pause_after(failures))
                if self._is_full:
                    self._try_problems(threads)
            else:
                failures = 0

    def _attempt(
        self, threads: ThreadPoolExecutor, changes: dict[bytes, Change], *, careful: bool
    ) -> dict[bytes, _Failed]:
        """Try each once, until the target fails. Those that failed, or were not tried."""
        ends = threading.Event()

        def one(key: bytes, change: Change) -> _Failed | None:
            if ends.is_set() or self.stop.is_set():
                return _Failed(_NOT_TRIED, "", of_target=True)
            failure = self._copy(key, change, careful=careful)
            if failure is not None and failure.of_target:
                ends.set()
            return failure

        running = {key: threads.submit(one, key, change) for key, change in changes.items()}
        failed = {key: failure for key, future in running.items() if (failure := future.result()) is not None}
        if self.stop.is_set():
            raise _Stopped
        return failed

    def _copy(self, key: bytes, change: Change, *, careful: bool) -> _Failed | None:
        try:
            result, sent = self.copier.copy(key, change, self.rules, careful=careful)
        except StoppedError:
            return _Failed(_NOT_TRIED, "", of_target=True)
        except (ObjectError, OrcasError, NotPublicError) as error:
            failure = _failure(error)
            self._note_failure(failure)
            return failure
        except Exception as error:  # noqa: BLE001 - a target may answer anything, which must not stop the others
            failure = _Failed("Unexpected", f"{type(error).__name__}: {error}"[:_REASON_MAX], of_target=False)
            self._note_failure(failure)
            return failure
        with self._lock:
            self.numbers.results[result] += 1
            self.numbers.bytes += sent
            self.state.problems.pop(key, None)
            self._is_full = len(self.state.problems) >= EXCEPTIONS_MAX
        if result not in ("skipped", "gone"):
            self._note_answer()
        return None

    def _note_answer(self) -> None:
        with self._lock:
            before, self._failing = self._failing, None
        if before is not None:
            log.info("The replication of %s goes on", self.route.text)

    def _note_failure(self, failure: _Failed) -> None:
        if self.stop.is_set():
            return
        with self._lock:
            self.numbers.failures[failure.code] += 1
            before = self._failing
            if failure.of_target:
                self._failing = failure.reason
        if failure.of_target and before is None:
            log.warning(
                "The target of the replication of %s fails, and changes wait: %s. "
                "`orcas replication status` shows how it is", self.route.text, failure.reason,
            )  # fmt: skip

    def _add_problem(self, key: bytes, change: Change, failure: _Failed) -> bool:
        """Make a key an exception, or keep it one. False: there is no room for another."""
        now = time.time()
        with self._lock:
            former, was_full = self.state.problems.get(key), self._is_full
            has_room = former is not None or len(self.state.problems) < EXCEPTIONS_MAX
            tries, since = (1, now) if former is None else (former.tries + 1, former.since)
            wait = backoff(tries, _PROBLEM_SEC, _PROBLEM_SEC_MAX)
            problem = Problem(change, failure.code, failure.reason, tries, since, now + wait)
            if has_room:
                self.state.problems[key] = problem
            else:
                self._is_full = True
        if has_room and former is None:
            self._tell(key, problem)
        elif not has_room and not was_full:
            log.error(
                "The replication of %s has as many exceptions as it may have, and waits: "
                "`orcas replication status` lists them", self.route.text,
            )  # fmt: skip
        return has_room

    def _tell(self, key: bytes, problem: Problem) -> None:
        """Tell the targets of notifications of an exception."""
        change, since_ms = problem.change, int(problem.since * 1000)
        destination = f"{self.route.target}/{self.route.to}"
        if self._reader is not None:
            self._reader.tell_failed(key, change.version, destination, change.marker, since_ms, problem.code)

    def _try_problems(self, threads: ThreadPoolExecutor) -> bool:
        """Try exceptions that are due, once. Whether there were any."""
        everything, now = self._retry.is_set(), time.time()
        if not everything and now < self._quiet_until:
            return False
        with self._lock:
            due = {key: it.change for key, it in self.state.problems.items() if everything or it.next <= now}
        chosen = dict(list(due.items())[: None if everything else _PROBLEMS_AT_ONCE])
        self._retry.clear()
        if not chosen:
            return False
        failed = self._attempt(threads, chosen, careful=True)
        for key, failure in failed.items():
            if failure.code != _NOT_TRIED:
                self._add_problem(key, chosen[key], failure)
        if any(failure.of_target for failure in failed.values()):
            self._tries_failed += 1
            self._quiet_until = now + _pause_after(self._tries_failed)
        else:
            self._tries_failed = 0
        return True

    def _answers(self, failure: _Failed) -> bool:
        """Whether the target has its bucket, so that what fails is about a key."""
        if failure.code == _NO_ANSWER:
            return False
        try:
            self.copier.probe()
        except (ObjectError, OrcasError, NotPublicError):
            return False
        return True

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise _Stopped


def _merged(found: Sequence[tuple[bytes, str, str, int, int]], rules: Rules) -> dict[bytes, Change]:
    """What is to be brought over of each key, by its last change; the oldest first."""
    changes: dict[bytes, Change] = {}
    for key, name, version, _, _ in found:
        change = _change_of(name, version)
        if change is not None and rules.may_apply(key):
            changes[key] = change.after(changes.pop(key, None))
    return changes


def _change_of(name: str, version: str) -> Change | None:
    """None for what is not copied: removals of versions, and whatever lifecycle rules do."""
    if name.startswith("ObjectCreated:"):
        return Change(version, content=True, notes=name == "ObjectCreated:Copy")
    if name == "ObjectRemoved:DeleteMarkerCreated":
        return Change(version, marker=True)
    if name.startswith("ObjectTagging:"):
        return Change(version, tags=True)
    if name == "ObjectRetention:Put":
        return Change(version, lock=True)
    if name.startswith("ObjectAnnotation:"):
        return Change(version, notes=True)
    return None


def _failure(error: Exception) -> _Failed:
    reason = str(error)[:_REASON_MAX]
    if isinstance(error, NotPublicError):
        return _Failed("NotPublic", "the target has no public address, and is not marked private", of_target=True)
    if isinstance(error, ChangedError) or not isinstance(error, ObjectError):
        code = "Changed" if isinstance(error, ChangedError) else _NO_ANSWER
        return _Failed(code, reason, of_target=isinstance(error, (UnavailableError, ChangedError)))
    is_missing = error.status == http.client.NOT_FOUND and error.code == "NoSuchBucket"
    return _Failed(error.code, reason, of_target=error.is_busy or is_missing or error.code in _OF_TARGET)
