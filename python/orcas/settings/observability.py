"""The settings for watching a server: metrics and the access log. Part of `orcas.settings.config.Settings`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orcas.settings.values import boolean, directory, integer, number, setting, text

_MIB: Final = 1024 * 1024
_URL: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{16,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilitySettings:
    """The settings of what operators can see of a server."""

    metrics: bool = setting(
        True, "count requests, and serve all metrics at `/_orcas/metrics`; if off, that path answers 404", boolean
    )
    metrics_token: str | None = setting(
        None,
        "bearer token that readers of the metrics must send; if not set, only clients on this machine may read them",
        text, secret=True, pattern=_TOKEN, requirement="16 to 256 visible ASCII characters",
    )  # fmt: skip
    metrics_public: bool = setting(
        False, "let everybody who reaches the server read the metrics, without a token", boolean
    )
    metrics_buckets: int = setting(
        100, "maximum number of buckets that metrics name, those with the most bytes; all others are summed", integer,
        unit="buckets", low=0, high=10_000,
    )  # fmt: skip
    access_log: Path | None = setting(
        None, "file to which a line of JSON is written for each S3 request; `~` is expanded; if not set, there is none",
        directory,
    )  # fmt: skip
    access_log_max_size: int = setting(
        64 * _MIB, "size at which the access log is renamed and a new file is begun", integer,
        unit="bytes", low=64 * 1024, high=1024 * 1024 * _MIB,
    )  # fmt: skip
    access_log_files: int = setting(
        8, "number of renamed files of the access log that are kept", integer, unit="files", low=0, high=1000
    )
    usage_interval_sec: int = setting(
        60, "time between two times at which usage is written down; 0 means that no usage is kept", integer,
        unit="seconds", low=0, high=60,
    )  # fmt: skip
    usage_retention_days: int = setting(400, "time for which usage is kept", integer, unit="days", low=1, high=36_500)
    price_gb_month: float = setting(
        0.0, "price of a GB-month of stored bytes, in any currency", number, unit="per GB-month", low=0, high=1_000_000
    )
    price_writes: float = setting(
        0.0,
        "price of a thousand PUT, COPY, POST and LIST requests",
        number,
        unit="per 1000 requests",
        low=0,
        high=1_000_000,
    )
    price_reads: float = setting(
        0.0, "price of a thousand GET and HEAD requests", number, unit="per 1000 requests", low=0, high=1_000_000
    )
    price_gb_in: float = setting(0.0, "price of a GB that clients send", number, unit="per GB", low=0, high=1_000_000)
    price_gb_out: float = setting(
        0.0, "price of a GB that is sent to clients", number, unit="per GB", low=0, high=1_000_000
    )
    slow_request_ms: int = setting(
        0, "time from which on a request is reported in the log, with its stages; 0 turns this off", integer,
        unit="milliseconds", low=0, high=3_600_000,
    )  # fmt: skip
    traces_endpoint: str | None = setting(
        None, "URL to which spans of traced requests are sent (OTLP over HTTP); if not set, no request is traced", text,
        pattern=_URL, requirement="an http or https URL, such as http://127.0.0.1:4318/v1/traces",
    )  # fmt: skip
    traces_ratio: float = setting(
        0.01, "share of the requests without a trace context that are traced; with one, the caller has decided", number,
        low=0, high=1,
    )  # fmt: skip
    traces_asked_per_sec: int = setting(
        100,
        "requests of verified senders that are traced in a second because their callers trace them; and as many of others, "
        "which are anonymous or refused, for whatever reason", integer, unit="requests per second", low=0, high=100_000,
    )  # fmt: skip
    log_delivery_sec: int = setting(
        300, "longest time until records of requests to a logged bucket are delivered", integer,
        unit="seconds", low=1, high=86_400,
    )  # fmt: skip
    log_delivery_size: int = setting(
        _MIB, "size at which records of a bucket are delivered at once", integer,
        unit="bytes", low=4096, high=8 * _MIB,
    )  # fmt: skip

    def prices(self) -> tuple[float, float, float, float, float]:
        """The prices of GB-months, of a thousand writes and reads, and of GB in and out."""
        return self.price_gb_month, self.price_writes, self.price_reads, self.price_gb_in, self.price_gb_out
