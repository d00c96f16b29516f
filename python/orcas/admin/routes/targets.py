"""The targets of events over the admin API: their state, and their dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query

from orcas.engine import Refusal
from orcas.targets.dead import DeadLetters
from orcas.targets.delivery import Deliveries

# Dead letters in one answer.
_SHOWN_MAX: Final = 1_000


def add_targets(app: FastAPI, deliveries: Callable[[], Deliveries]) -> None:
    """Add these paths to the application. Not coroutines: dead letters are in files."""

    def dead(name: str) -> DeadLetters:
        try:
            return deliveries().dead(name)
        except KeyError:
            raise Refusal(
                404, "NoSuchTarget", "The server has no target of this name: `orcas events targets` shows them."
            ) from None

    @app.get("/targets")
    def targets() -> dict[str, Any]:
        """The targets to which notifications can send events."""
        return {"targets": deliveries().describe()}

    @app.get("/targets/{name}/dead")
    def list_dead(name: str, limit: Annotated[int, Query(ge=1, le=_SHOWN_MAX)] = 100) -> dict[str, Any]:
        """The dead letters of a target: events that could not be delivered, the oldest first."""
        letters = dead(name).list()
        return {"dead": [asdict(letter) for letter in letters[:limit]], "count": len(letters)}

    @app.post("/targets/{name}/test")
    def test(name: str) -> dict[str, Any]:
        """Send a test message to a target now, once, and report whether the target has taken it."""
        dead(name)
        failure = deliveries().test(name)
        return {"taken": failure is None, "reason": None if failure is None else failure.reason}

    @app.post("/targets/{name}/resend")
    def resend(name: str) -> dict[str, Any]:
        """Send all dead letters of a target again."""
        dead(name)
        return {"resent": deliveries().resend(name)}

    @app.post("/targets/{name}/discard")
    def discard(name: str) -> dict[str, Any]:
        """Discard all dead letters of a target."""
        return {"discarded": dead(name).remove(lambda _: True)}
