"""What becomes of deliveries when the journal, the disk or the target fails: a source that follows a script."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.fixtures.events.receivers import Received, receiving
from tests.fixtures.waiting import wait_until

from orcas.targets import delivery
from orcas.targets.delivery import Deliveries, Delivery
from orcas.targets.kinds import WebhookTarget
from orcas.targets.sending import Message
from orcas.targets.webhook import WebhookSender


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_PAUSE_SEC", 0.05)
    monkeypatch.setattr(delivery, "_RETRY_SEC", 0.01)


def event(number: int, key: str = "k") -> Delivery:
    record = {"s3": {"object": {"key": key, "size": number}}}
    message = json.dumps({"Records": [record]}).encode()
    return {"id": str(number), "time_ms": number, "bucket": "photos", "key": key, "message": message, "is_test": False}


class Journal:
    """Events from 1 on, in looks of three; places are numbers. Begins at its end if nobody says where."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.fails = 0
        self.oldest = 0
        self.begins: list[str | None] = []

    def deliveries(self, _target: str, after: str | None, /) -> Reader:
        self.begins.append(after)
        return Reader(self, self.count if after is None else int(after))


class Reader:
    def __init__(self, journal: Journal, place: int) -> None:
        self._journal, self._place = journal, place

    def after(self) -> str:
        return str(self._place)

    def next(self, _wait_ms: int, /) -> tuple[Sequence[Delivery], str, bool]:
        if self._journal.fails:
            self._journal.fails -= 1
            raise RuntimeError("the journal cannot be read")
        lost = self._place < self._journal.oldest
        first = max(self._place, self._journal.oldest)
        found = [
            event(number, f"k{number % 2}") for number in range(first + 1, min(first + 3, self._journal.count) + 1)
        ]
        if not found:
            threading.Event().wait(0.01)
        self._place = first + len(found)
        return found, str(self._place), lost


def running(journal: Journal, url: str, data: Path, attempts: int = 3) -> Deliveries:
    target = WebhookTarget(
        name="hook", url=urlsplit(url), secret=b"s" * 32, private=True, attempts=attempts, timeout_sec=5
    )
    deliveries = Deliveries(journal, {"hook": target}, data)
    deliveries.start()
    return deliveries


def has_begun(data: Path) -> bool:
    """Whether it is known where the target begins: what the journal gets from now on is delivered."""
    return (data / "webhooks" / "hook.json").exists()


def place(data: Path) -> str:
    return str(json.loads((data / "webhooks" / "hook.json").read_text())["after"])


def test_a_new_target_begins_with_new_events_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(4)
    with receiving() as receiver:
        first = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path) and place(tmp_path) == "4")
        first.close()
        journal.count = 9
        second = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: len(receiver.received) == 5 and place(tmp_path) == "9")
        second.close()
    assert journal.begins == [None, "4"]


@pytest.mark.parametrize("content", [None, b"", b'{"aft', b"[]", b"\xff"])
def test_a_target_whose_place_is_lost_begins_with_new_events(tmp_path: Path, content: bytes | None) -> None:
    """The file is missing, empty, cut off, or has other bytes."""
    journal = Journal(4)
    file = tmp_path / "webhooks" / "hook.json"
    with receiving() as receiver:
        first = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path) and place(tmp_path) == "4")
        first.close()
        file.unlink() if content is None else file.write_bytes(content)
        journal.count = 6
        second = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: len(journal.begins) == 2 and file.exists() and file.read_bytes() != content)
        assert place(tmp_path) == "6"
        journal.count = 8
        assert wait_until(lambda: place(tmp_path) == "8")
        second.close()
        assert len(receiver.received) == 2
    assert journal.begins == [None, None]


def test_a_journal_that_fails_is_read_again_and_a_gap_is_counted(tmp_path: Path) -> None:
    journal = Journal(0)
    with receiving() as receiver:
        deliveries = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.fails, journal.oldest, journal.count = 2, 3, 6
        assert wait_until(lambda: len(receiver.received) == 3)
        deliveries.close()
        (state,) = deliveries.describe()
    assert [one.headers["webhook-id"] for one in receiver.received if one.key == "k0"] == ["4", "6"]
    assert (state["gaps"], state["delivered"], state["failing"]) == (1, 3, None)


def test_nothing_is_skipped_if_a_dead_letter_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(0)
    full: Iterator[bool] = iter([True, True])
    real = delivery.DeadLetters.add

    def add(self: delivery.DeadLetters, letter: delivery.Letter) -> None:
        if next(full, False):
            raise OSError(28, "No space left on device")
        real(self, letter)

    monkeypatch.setattr(delivery.DeadLetters, "add", add)

    def refuse(received: Received) -> int:
        return 500 if received.headers["webhook-id"] == "1" else 200

    with receiving(refuse) as receiver:
        deliveries = running(journal, receiver.url, tmp_path, attempts=1)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 2
        assert wait_until(lambda: len(deliveries.dead("hook")) == 1)
        assert wait_until(lambda: place(tmp_path) == "2")
        deliveries.close()
    assert [letter.id for letter in deliveries.dead("hook").list()] == ["1"]
    assert {one.headers["webhook-id"] for one in receiver.received} == {"1", "2"}


def test_a_target_whose_dead_letters_are_at_their_limit_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.targets.dead.LETTERS_MAX", 2)
    journal = Journal(0)
    status = [500]
    with receiving(lambda _: status[0]) as receiver:
        deliveries = running(journal, receiver.url, tmp_path, attempts=1)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 2
        assert wait_until(lambda: len(deliveries.dead("hook")) == 2)
        status[0], journal.count = 200, 3
        assert not wait_until(lambda: len(receiver.received) > 2, 0.3)
        assert deliveries.resend("hook") == 2
        assert wait_until(lambda: len(receiver.received) == 5)
        assert len(deliveries.dead("hook")) == 0
        deliveries.close()


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 40])
def test_lost_dead_letters_cost_nothing_else(tmp_path: Path, content: bytes | None) -> None:
    """The file is missing, empty, or has other bytes."""
    journal = Journal(0)
    status = [500]
    with receiving(lambda _: status[0]) as receiver:
        first = running(journal, receiver.url, tmp_path, attempts=1)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 2
        assert wait_until(lambda: len(first.dead("hook")) == 2)
        assert wait_until(lambda: place(tmp_path) == "2")
        first.close()
        (file,) = (tmp_path / "webhooks").glob("hook.dead*")
        file.unlink() if content is None else file.write_bytes(content)
        status[0], journal.count = 200, 4
        second = running(journal, receiver.url, tmp_path, attempts=1)
        assert wait_until(lambda: place(tmp_path) == "4")
        assert second.dead("hook").list() == []
        status[0], journal.count = 500, 5
        assert wait_until(lambda: [letter.id for letter in second.dead("hook").list()] == ["5"])
        second.close()
    assert sorted(one.headers["webhook-id"] for one in receiver.received) == ["1", "2", "3", "4", "5"]


def test_attempts_are_counted_by_what_becomes_of_them(tmp_path: Path) -> None:
    journal = Journal(0)
    statuses = iter([500, 500, 200, 500, 500, 500])
    with receiving(lambda _: next(statuses)) as receiver:
        deliveries = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path))
        began_ms = time.time_ns() // 1_000_000
        journal.count = 1
        assert wait_until(lambda: deliveries.counts()[0]["after"] == "1")
        journal.count = 2
        assert wait_until(lambda: deliveries.counts()[0]["after"] == "2")
        # Looks that find nothing say that it lacks nothing up to now.
        assert wait_until(lambda: deliveries.counts()[0]["since_ms"] >= began_ms)
        deliveries.close()
        (counts,) = deliveries.counts()
    assert (counts["ok"], counts["retried"], counts["dead"], counts["waiting"]) == (1, 4, 1, 1)


def test_a_target_lacks_what_is_under_way(tmp_path: Path) -> None:
    journal, release = Journal(0), threading.Event()

    def hold(_: Received) -> int:
        release.wait(30)
        return 200

    with receiving(hold) as receiver:
        deliveries = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 3
        assert wait_until(lambda: len(receiver.received) == 2)
        (counts,) = deliveries.counts()
        # The times of these events are their numbers.
        assert (counts["after"], counts["since_ms"]) == ("0", 1)
        release.set()
        assert wait_until(lambda: deliveries.counts()[0]["after"] == "3")
        deliveries.close()


def test_a_key_whose_events_are_refused_stops_no_other_key(tmp_path: Path) -> None:
    journal = Journal(0)

    def refuse(received: Received) -> int:
        return 500 if received.key == "k1" else 200

    with receiving(refuse) as receiver:
        deliveries = running(journal, receiver.url, tmp_path)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 12
        assert wait_until(lambda: place(tmp_path) == "12")
        deliveries.close()
        (counts,) = deliveries.counts()
    taken = [one.headers["webhook-id"] for one in receiver.received if one.key == "k0"]
    assert taken == [str(number) for number in range(2, 13, 2)]
    assert [letter.id for letter in deliveries.dead("hook").list()] == [str(number) for number in range(1, 13, 2)]
    assert (counts["ok"], counts["retried"], counts["dead"]) == (6, 12, 6)


def test_a_retried_event_does_not_hold_up_the_other_lanes_of_its_group(tmp_path: Path) -> None:
    journal = Journal(0)
    # Of three events, the second one goes through another sender than the others.
    assert len({zlib.crc32(f"photos/k{number}".encode()) % 4 for number in range(2)}) == 2

    def refuse(received: Received) -> int:
        others = [one for one in receiver.received if one.key == "k0"]
        return 200 if received.key == "k0" or others else 500

    with receiving(refuse) as receiver:
        deliveries = running(journal, receiver.url, tmp_path, attempts=20)
        assert wait_until(lambda: has_begun(tmp_path))
        journal.count = 3
        assert wait_until(lambda: place(tmp_path) == "3")
        deliveries.close()
    assert {one.headers["webhook-id"] for one in receiver.received} == {"1", "2", "3"}
    assert len(deliveries.dead("hook")) == 0


def test_a_host_that_no_name_can_be_is_a_failure() -> None:
    url = urlsplit(f"http://{'a' * 64}.example/")
    sender = WebhookSender(WebhookTarget(name="hook", url=url, secret=b"s" * 24))
    failure = sender.send(Message("1", "photos", "key", b"{}", "application/json"))
    assert failure is not None
    assert failure.reason.startswith("UnicodeError")
