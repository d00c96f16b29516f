"""The ARNs of targets that the console shows beside the form of notifications."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from orcas.console.calls import Visit
from orcas.console.pages.settings import offers

JOBS = "arn:aws:sqs:us-east-1:123456789012:jobs"


def test_each_target_is_shown_by_an_arn_that_the_form_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"hook": "webhook", JOBS: "sqs", "arn:aws:events": "eventbridge"}

    async def admin(*_: Any) -> dict[str, Any]:
        return {"targets": [{"name": "a", "destination": name, "type": kind} for name, kind in found.items()]}

    monkeypatch.setattr(offers, "admin", admin)
    shown = asyncio.run(offers.known_targets(cast("Visit", None)))
    assert shown == [("arn:aws:sqs:::hook", "webhook", "a"), (JOBS, "sqs", "a")]
