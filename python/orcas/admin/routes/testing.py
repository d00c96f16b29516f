"""Faults, the clock, the record of requests and the reset of a store in memory, over the admin API."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI
from pydantic import Field

from orcas.admin.routes.orders import Name, Order
from orcas.admin.schedule import Schedule
from orcas.admin.testing.control import TestControl
from orcas.admin.testing.faults import Kind, Rule
from orcas.engine import Refusal

# A hundred years: what is further ahead has no date.
_AHEAD_MAX: Final = 100 * 366 * 86_400_000
_COUNT_MAX: Final = 1 << 31


class FaultBody(Order):
    """A fault and the requests that get it. Bucket and key are patterns with `*`, `?` and `[…]`.

    `nth`: only this request of those that fit. `times`: so many at most. `share`: so many of them, from 0 to 1, at random.
    `seconds` of latency, `code` of an error, `bytes` that a truncated body keeps, `bytes_per_second` of a slow one.
    """

    fault: Kind
    operations: list[Name] | None = Field(default=None, max_length=100)
    bucket: Name | None = None
    key: Name | None = None
    nth: int | None = Field(default=None, ge=1, le=_COUNT_MAX)
    times: int | None = Field(default=None, ge=1, le=_COUNT_MAX)
    share: float = Field(default=1.0, ge=0, le=1)
    seed: int = Field(default=0, ge=0, le=_COUNT_MAX)
    seconds: float = Field(default=1.0, ge=0, le=3600)
    code: Name = "InternalError"
    bytes: int = Field(default=0, ge=0, le=1 << 46)
    bytes_per_second: int = Field(default=1024, ge=1, le=_COUNT_MAX)


class ClockBody(Order):
    """How far the clock of the store is ahead of that of the machine, or what it shows now: milliseconds since 1970.

    A negative `ahead_ms` sets it behind. `lifecycle`: then remove what has expired.
    """

    ahead_ms: int | None = None
    now_ms: int | None = None
    lifecycle: bool = True


def add_testing(app: FastAPI, testing: Callable[[], TestControl | None], schedule: Callable[[], Schedule]) -> None:
    """Add these paths to the application. Coroutines, but for the reset: rules and record belong to the loop."""

    def control() -> TestControl:
        found = testing()
        if found is None:
            message = "Faults, clock, record and reset are for tests: start the server with --memory."
            raise Refusal(403, "NotInMemory", message)
        return found

    @app.post("/test/reset")
    def reset() -> dict[str, Any]:
        """Empty the store, forget faults and record, and set the clock to the time of the machine."""
        control().reset()
        return {}

    @app.delete("/test/buckets/{name}", responses={404: {"description": "There is no such bucket"}})
    def drop(name: str) -> dict[str, Any]:
        """Delete a bucket with all that it has, locked or not, and its snapshots."""
        control().drop(name)
        return {}

    _add_clock(app, control, schedule)

    @app.post("/test/faults", status_code=201, responses={400: {"description": "The fault is not valid"}})
    async def add(order: Annotated[FaultBody, Body()]) -> dict[str, Any]:
        """Give a fault to requests from now on."""
        return _described(control().add_rule(**order.model_dump()))

    @app.get("/test/faults")
    async def faults() -> dict[str, Any]:
        """All faults, with how many requests fitted and how many got the fault."""
        return {"faults": [_described(rule) for rule in control().rules()]}

    @app.delete("/test/faults")
    async def delete_all() -> dict[str, Any]:
        """Delete all faults."""
        control().delete_rules()
        return {}

    @app.delete("/test/faults/{number}", responses={400: {"description": "That is no number"}})
    async def delete(number: int) -> dict[str, Any]:
        """Delete a fault."""
        control().delete_rules(number)
        return {}

    @app.post("/test/requests")
    async def begin() -> dict[str, Any]:
        """Begin an empty record of S3 requests."""
        control().record(on=True)
        return {}

    @app.get("/test/requests", responses={409: {"description": "No record has begun"}})
    async def requests() -> dict[str, Any]:
        """The newest requests since the record began, at most 10,000."""
        return {"requests": control().recorded()}

    @app.delete("/test/requests")
    async def end() -> dict[str, Any]:
        """End the record."""
        control().record(on=False)
        return {}


def _add_clock(app: FastAPI, control: Callable[[], TestControl], schedule: Callable[[], Schedule]) -> None:
    @app.get("/test/clock")
    async def clock() -> dict[str, Any]:
        """How far the clock of the store is ahead of that of the machine, in milliseconds; negative: behind it."""
        return {"ahead_ms": control().ahead_ms}

    @app.put("/test/clock", responses={400: {"description": "That is no time for a clock"}})
    async def set_clock(order: Annotated[ClockBody, Body()]) -> dict[str, Any]:
        """Set the clock of the store: objects expire, locks and presigned URLs end. Signatures stay valid."""
        control().set_clock(_ahead_ms(order))
        if order.lifecycle and schedule().find("lifecycle") is not None:
            return {"lifecycle": dict(await schedule().run("lifecycle"))}
        return {"lifecycle": None}


def _ahead_ms(order: ClockBody) -> int:
    """How far ahead of the clock of the machine an order sets that of the store.

    Raises:
        Refusal: it says that twice or not at all, or names a time that the clock cannot have.
    """
    if (order.ahead_ms is None) == (order.now_ms is None):
        raise Refusal(400, "InvalidRequest", "The clock needs either ahead_ms or now_ms: give one of them.")
    machine_ms = time.time_ns() // 1_000_000
    ahead_ms = order.ahead_ms if order.now_ms is None else order.now_ms - machine_ms
    assert ahead_ms is not None, "one of the two is given"
    if not -machine_ms <= ahead_ms <= _AHEAD_MAX:
        message = "The clock can be set to times from 1970 to a hundred years from now: give one of them."
        raise Refusal(400, "InvalidRequest", message)
    return ahead_ms


def _described(rule: Rule) -> dict[str, Any]:
    return {
        name: value
        for name, value in ((entry.name, getattr(rule, entry.name)) for entry in dataclasses.fields(rule))
        if name not in ("methods", "random") and value is not None
    }
