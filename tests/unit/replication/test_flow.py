"""A flow against a journal and a target that are models: what it keeps holds whatever fails, and wherever it is ended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.waiting import wait_until

from orcas.errors import UnavailableError
from orcas.replication import flow as flows
from orcas.replication import state as states
from orcas.replication.flow import Flow
from orcas.replication.rules import Route, Rules
from orcas.replication.state import Change, State, load
from orcas.replication.walking import Difference, Page
from orcas.tools.imports.requests import ObjectError

ROUTE = Route(1, "here", "t", "there")
RULE: dict[str, Any] = {
    "id": "r", "enabled": True, "priority": 1, "prefix": b"", "tags": [], "markers": True, "existing": False,
    "of_named_keys": False, "target": "t", "to": "there", "storage_class": None, "key_id": None, "begins_after": 0,
}  # fmt: skip


class Journal:
    """The changes of a bucket, and the bucket after them. `lost`: how many of the first are gone."""

    def __init__(self) -> None:
        self.changes: list[tuple[bytes, str]] = []
        self.bucket: dict[bytes, int] = {}
        self.lost = 0
        # The exceptions that targets of notifications hear of: key, since when, and why.
        self.told: list[tuple[bytes, int, str]] = []
        self.lock = threading.Lock()

    def put(self, key: bytes) -> None:
        with self.lock:
            self.changes.append((key, "ObjectCreated:Put"))
            self.bucket[key] = len(self.changes)

    def delete(self, key: bytes) -> None:
        with self.lock:
            self.changes.append((key, "ObjectRemoved:DeleteMarkerCreated"))
            self.bucket.pop(key, None)

    def replicated_buckets(self) -> list[dict[str, Any]]:
        return [{"name": ROUTE.bucket, "id": ROUTE.bucket_id, "rules": [RULE]}]

    def replicated_events(self, _bucket: int, after: str | None, begins_after: int) -> Reader:
        return Reader(self, begins_after if after is None else int(after))


class Reader:
    def __init__(self, journal: Journal, place: int) -> None:
        self.journal = journal
        self.place = place

    def next(self, wait_ms: int) -> Any:
        journal = self.journal
        with journal.lock:
            lost = self.place < journal.lost
            first = max(self.place, journal.lost)
            found = [(key, name, "v", int(time.time() * 1000), 1) for key, name in journal.changes[first : first + 5]]
            self.place = first + len(found)
        if not found:
            time.sleep(min(wait_ms, 5) / 1000)
        return found, str(self.place), self.place, lost

    def tell_failed(
        self,
        key: bytes,
        _version: str,
        destination: str,
        _is_marker: bool,
        since_ms: int,
        reason: str,
    ) -> None:
        assert destination == "t/there"
        self.journal.told.append((key, since_ms, reason))


class Model:
    """A target. `fails` decides on each copy; a copy that fails changes nothing."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.bucket: dict[bytes, int] = {}
        self.fails: Callable[[bytes], Exception | None] = lambda _: None
        self.calls = 0
        self.under_way: set[bytes] = set()
        self.here: Any = None
        self.there: Any = None

    def copy(self, key: bytes, _change: Change, _rules: Rules, *, careful: bool) -> tuple[str, int]:
        assert key not in self.under_way, "one key at a time"
        self.under_way.add(key)
        try:
            self.calls += 1
            failure = self.fails(key)
            if failure is not None:
                raise failure
            now = self.journal.bucket.get(key)
            if now is None:
                return "marked" if self.bucket.pop(key, None) is not None else "present", 0
            if careful and self.bucket.get(key) == now:
                return "present", 0
            self.bucket[key] = now
            return "copied", 1
        finally:
            self.under_way.discard(key)

    def probe(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of milliseconds."""
    for name in ("_PAUSE_SEC", "_PROBLEM_SEC"):
        monkeypatch.setattr(flows, name, 0.001)
    monkeypatch.setattr(flows, "_PAUSE_SEC_MAX", 0.005)
    monkeypatch.setattr(flows, "_PROBLEM_SEC_MAX", 0.01)


def started(journal: Journal, model: Model, data: Path, rules: Rules | None = None) -> Flow:
    (data / states.DIRECTORY).mkdir(exist_ok=True)
    flow = Flow(
        journal, ROUTE, rules or Rules([RULE]), load(data, ROUTE), model,  # type: ignore[arg-type, list-item]
        threading.Event(), 3, lambda: None,
    )  # fmt: skip
    flow.start()
    return flow


def ended(flow: Flow) -> State:
    flow.end()
    flow.join(10)
    assert not flow.is_alive()
    return flow.state


def is_caught_up(flow: Flow, journal: Journal) -> Callable[[], bool]:
    return lambda: flow.state.after == str(len(journal.changes)) and not flow.state.problems


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_whatever_fails_and_wherever_it_ends(tmp_path: Path, seed: int) -> None:
    chance, journal = random.Random(seed), Journal()
    model = Model(journal)
    failures = (
        None, None, None, ObjectError("no", 403, "AccessDenied", at_target=True), UnavailableError("gone."),
        ObjectError("busy", 503, "SlowDown", at_target=True), KeyError("etag"),
    )  # fmt: skip
    model.fails = lambda _: chance.choice(failures)
    for _ in range(8):
        flow = started(journal, model, tmp_path)
        for _ in range(chance.randrange(40)):
            key = b"k%d" % chance.randrange(12)
            chance.choice((journal.put, journal.put, journal.delete))(key)
        wait_until(lambda: chance.random() < 0.2)
        ended(flow)
        # Behind the place that is kept, everything is right or listed.
        kept = load(tmp_path, ROUTE)
        done = int(kept.after or 0)
        behind = {key for key, _ in journal.changes[done:]}
        for key in {key for key, _ in journal.changes[:done]} - behind - kept.problems.keys():
            assert model.bucket.get(key) == journal.bucket.get(key), key
    model.fails = lambda _: None
    flow = started(journal, model, tmp_path)
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert model.bucket == journal.bucket


def test_what_is_not_copied_is_not_written_down(tmp_path: Path) -> None:
    journal = Journal()
    flow = started(journal, Model(journal), tmp_path)
    journal.put(b"k")
    assert wait_until(lambda: load(tmp_path, ROUTE).after == "1")
    kept = flow.state.path.read_bytes()
    with journal.lock:
        journal.changes += [(b"k", "ObjectRemoved:Delete")] * 20
    assert wait_until(is_caught_up(flow, journal))
    assert flow.state.path.read_bytes() == kept
    journal.put(b"k")
    assert wait_until(lambda: load(tmp_path, ROUTE).after == "22")
    ended(flow)


def test_a_full_list_of_exceptions_stops_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "EXCEPTIONS_MAX", 4)
    journal = Journal()
    model = Model(journal)
    model.fails = lambda _: ObjectError("no", 403, "AccessDenied", at_target=True)
    for number in range(20):
        journal.put(b"k%d" % number)
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: flow.describe()["full"])
    assert len(flow.state.problems) == 4
    assert int(flow.state.after or 0) < 5
    model.fails = lambda _: None
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert model.bucket == journal.bucket


def test_a_target_that_is_away_gets_one_request_at_a_time(tmp_path: Path) -> None:
    journal = Journal()
    model = Model(journal)
    model.fails = lambda _: UnavailableError("gone.")
    for number in range(100):
        journal.put(b"k%d" % number)
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: flow.numbers.failures["NoAnswer"] > 20)
    # At the beginning, one for each thread.
    assert model.calls <= flow.numbers.failures["NoAnswer"] + 3
    assert flow.describe()["failing"] == "gone."
    model.fails = lambda _: None
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert model.bucket == journal.bucket


def test_a_key_that_always_makes_the_target_fail_becomes_an_exception(tmp_path: Path) -> None:
    journal = Journal()
    model = Model(journal)
    model.fails = lambda key: ObjectError("failed", 500, "InternalError", at_target=True) if key == b"bad" else None
    for key in (b"a", b"bad", b"c"):
        journal.put(key)
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: b"bad" in flow.state.problems)
    assert wait_until(lambda: model.bucket.keys() == {b"a", b"c"})
    ended(flow)


def test_an_exception_is_told_once_and_again_after_a_restart(tmp_path: Path) -> None:
    journal = Journal()
    model = Model(journal)
    model.fails = lambda _: ObjectError("no", 403, "AccessDenied", at_target=True)
    journal.put(b"k")
    flow = started(journal, model, tmp_path)
    # Beside the first try, it is tried again.
    assert wait_until(lambda: flow.numbers.failures["AccessDenied"] > 3)
    assert wait_until(lambda: bool(load(tmp_path, ROUTE).problems))
    ended(flow)
    assert [(key, reason) for key, _, reason in journal.told] == [(b"k", "AccessDenied")]
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: len(journal.told) == 2)
    assert journal.told[0] == journal.told[1]
    model.fails = lambda _: None
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert len(journal.told) == 2


def test_what_is_gone_from_the_journal_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()
    model = Model(journal)
    for number in range(30):
        journal.put(b"k%02d" % number)
    journal.lost = 20
    (tmp_path / states.DIRECTORY).mkdir()
    State(states.path_of(tmp_path, ROUTE), after="5").save(ROUTE)

    def page(_here: Any, _bucket: str, _there: Any, _to: str, _prefix: bytes, mark: bytes) -> Any:
        keys = [key for key in sorted(journal.bucket) if key > mark][:7]
        found = [
            Difference(key, is_missing=True, is_gone=False)
            for key in keys
            if model.bucket.get(key) != journal.bucket[key]
        ]
        return Page(found, len(keys), keys[-1] if keys else mark, len(keys) < 7)

    monkeypatch.setattr(flows, "next_page", page)
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: flow.state.walk is not None and flow.state.walk.is_done)
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert model.bucket == journal.bucket


def test_a_store_that_was_restored_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()
    model = Model(journal)
    for number in range(9):
        journal.put(b"k%d" % number)
    journal.lost = 2
    monkeypatch.setattr(flows, "_WAIT_MS", 1)
    monkeypatch.setattr(flows, "next_page", lambda *_: Page([], 0, b"", is_end=True))
    flow = started(journal, model, tmp_path)
    assert wait_until(lambda: flow.describe()["failing"] is not None)
    assert model.calls == 0
    flow.retry(everything=True)
    assert wait_until(is_caught_up(flow, journal))
    ended(flow)
    assert model.bucket.keys() == {b"k%d" % number for number in range(2, 9)}


def test_a_file_that_cannot_be_read_is_as_if_everything_were_unknown(tmp_path: Path) -> None:
    journal = Journal()
    flow = started(journal, Model(journal), tmp_path)
    assert wait_until(lambda: flow.state.path.exists())
    path = ended(flow).path
    path.write_bytes(path.read_bytes()[:-5])
    found = load(tmp_path, ROUTE)
    assert (found.after, found.walk is not None and found.walk.everything) == (None, True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ObjectCreated:Put", "ObjectTagging:Put"], Change("1", content=True)),
        (["ObjectTagging:Put", "ObjectRetention:Put"], Change("1", tags=True, lock=True)),
        (["ObjectTagging:Put", "ObjectCreated:Copy"], Change("1", content=True, notes=True)),
        (["ObjectCreated:Put", "ObjectAnnotation:Put"], Change("0", content=True, notes=True)),
        (["ObjectAnnotation:Delete", "ObjectTagging:Put"], Change("1", tags=True, notes=True)),
        (["ObjectCreated:Put", "ObjectRemoved:DeleteMarkerCreated", "ObjectTagging:Put"], Change("1", marker=True)),
        (["ObjectCreated:Put", "LifecycleExpiration:DeleteMarkerCreated"], Change("0", content=True)),
        (["ObjectRemoved:Delete", "ObjectAcl:Put", "LifecycleExpiration:Delete"], None),
    ],
)
def test_changes_of_a_key_are_brought_over_as_one(names: list[str], expected: Change | None) -> None:
    found = [(b"k", name, str(min(at, 1)), 0, 0) for at, name in enumerate(names)]
    merged = flows._merged(found, Rules([RULE])).get(b"k")  # type: ignore[list-item]
    if expected is not None:
        assert merged is not None
        expected = replace(expected, version=merged.version)
    assert merged == expected
