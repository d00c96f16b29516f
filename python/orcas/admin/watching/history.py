"""The last hour of a server: a look at its metrics every ten seconds, kept in memory and bounded.

It begins and ends with the store. The page of metrics is made and read in a thread, which gives up the GIL often, so that
requests do not wait for it. Must not know how it is shown.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from orcas.telemetry.activity import document
from orcas.telemetry.samples import Between, Page

INTERVAL_SECONDS: Final = 10.0
SAMPLES_MAX: Final = 360
# The first look, so that a command that opens a store for a moment has none.
_FIRST_SECONDS: Final = 2.0
_FILES: Final = ("log", "pack", "index", "index-wal")

log = logging.getLogger("orcas")

Sample = dict[str, float | None]


class History:
    """Samples, the oldest first. `read`: the page of metrics in the older format. Used from one event loop."""

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._before: Page | None = None
        self._latest: dict[str, Any] | None = None
        self._failing = False

    async def run(self) -> None:
        """Take a sample at each interval, until it is cancelled."""
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            try:
                await self.sample()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                if not self._failing:
                    log.warning("The metrics cannot be read, and the history of the server has a gap: %s", error)
                self._failing = True
            else:
                self._failing = False
            await asyncio.sleep(INTERVAL_SECONDS)

    async def sample(self) -> None:
        """Take one now."""
        moment = time.monotonic()
        text = await self._read()
        before = self._before
        self._before, sample, latest = await asyncio.to_thread(_look, text, moment, before)
        if sample is not None:
            self._samples.append(sample)
            self._latest = latest

    async def describe(self) -> bytes:
        """The history as JSON: values of all samples by name, and the latest interval; null before there is one."""
        return await asyncio.to_thread(_encoded, list(self._samples), self._latest)


def _encoded(samples: list[Sample], latest: dict[str, Any] | None) -> bytes:
    names = samples[0] if samples else ()
    columns = {name: [sample[name] for sample in samples] for name in names}
    return json.dumps({"interval_sec": INTERVAL_SECONDS, "samples": columns, "latest": latest}).encode()


def _look(text: str, moment: float, before: Page | None) -> tuple[Page, Sample | None, dict[str, Any] | None]:
    now = Page.parsed(text, moment)
    if before is None:
        return now, None, None
    look = Between(before, now)
    seen = document(look)
    return now, _sample(look, seen), seen


def _sample(look: Between, seen: dict[str, Any]) -> Sample:
    """The numbers of an interval that are drawn, rates for each second."""
    now, commits, content = look.now, seen["commits"], seen["content"]
    sample: Sample = {
        "requests_per_sec": look.rate("orcas_requests_total"),
        "errors_per_sec": look.rate("orcas_errors_total"),
        "failures_per_sec": look.rate("orcas_requests_total", result="5xx"),
        "p50_sec": look.quantile(0.5, "http_request_duration_seconds"),
        "p99_sec": look.quantile(0.99, "http_request_duration_seconds"),
        "received_bytes_per_sec": look.rate("orcas_request_body_bytes_total"),
        "sent_bytes_per_sec": look.rate("orcas_response_body_bytes_total"),
        "commits_per_sec": commits["per_sec"],
        "records_per_commit": commits["batch_records"],
        "sync_p50_sec": commits["sync_p50_sec"],
        "sync_p99_sec": commits["sync_p99_sec"],
        "connections": seen["connections"],
        "in_flight": seen["in_flight"],
        "index_lag_bytes": seen["index_lag_bytes"],
        "disk_free_bytes": seen["disk_free_bytes"],
        "dead_bytes": content["dead"],
        "stored_bytes": content["stored"],
        "cpu_share": look.rate("process_cpu_seconds_total"),
        "memory_bytes": now.value("process_resident_memory_bytes"),
        "objects_cache_hit_rate": seen["cache_hit_rates"]["objects"],
    }
    sample |= {f"{kind}_file_bytes": now.value("orcas_file_bytes", kind=kind) for kind in _FILES}
    # An hour of all digits would be a quarter of a megabyte.
    short = {name: None if value is None else float(f"{value:.4g}") for name, value in sample.items()}
    return {"time": round(time.time(), 1), **short}
