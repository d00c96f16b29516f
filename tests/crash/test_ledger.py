"""The ledger itself: histories that it must accept, and histories that it must reject."""

from __future__ import annotations

from .ledger import ABSENT, NEVER, Change, Ledger, Value

A, B, C = Value("a", 1), Value("b", 2), Value("c", 3)


def ledger(*changes: tuple[Value | None, float, float]) -> Ledger:
    return Ledger({"k": [Change("k", value, began, ended) for value, began, ended in changes]})


def reads(history: Ledger, began: float = 100, ended: float = 101) -> set[Value | None]:
    return {value for value in (A, B, C, ABSENT) if history.find("k", value, began=began, ended=ended)}


def test_the_last_acknowledged_change_holds() -> None:
    assert reads(ledger((A, 1, 2), (B, 3, 4))) == {B}
    assert reads(ledger((A, 1, 2), (ABSENT, 3, 4))) == {ABSENT}


def test_changes_at_the_same_time_may_have_come_in_any_order() -> None:
    assert reads(ledger((A, 1, 4), (B, 2, 3))) == {A, B}
    assert reads(ledger((A, 1, 4), (B, 2, 3), (C, 5, 6))) == {C}


def test_an_unanswered_change_may_or_may_not_have_happened() -> None:
    assert reads(ledger((A, 1, 2), (B, 3, NEVER))) == {A, B}
    # A later change may even have replaced it already.
    assert reads(ledger((A, 1, NEVER), (B, 3, 4))) == {A, B}
    assert reads(ledger((A, 1, NEVER))) == {A, ABSENT}


def test_a_refused_change_did_not_happen() -> None:
    history = ledger((A, 1, 2), (B, 3, 4))
    history.refuse(history.changes["k"][1])
    assert reads(history) == {A}


def test_a_read_sees_nothing_that_began_after_it() -> None:
    assert reads(ledger((A, 1, 2), (B, 3, 4)), began=2.1, ended=2.5) == {A}
    assert reads(ledger((A, 1, 2), (B, 3, 4)), began=2.1, ended=3.5) == {A, B}


def test_settling_ends_doubt() -> None:
    history = ledger((A, 1, NEVER), (B, 1, NEVER))
    history.settle("k", A)
    assert history.legal("k") == [A]
