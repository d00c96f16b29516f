"""The settings for watching a server: metrics and the access log. Part of `orcas.config.Settings`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orcas.values import boolean, directory, integer, setting, text

_MIB: Final = 1024 * 1024
_TOKEN: Final = re.compile(r"[\x21-\x7e]{16,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What operators can see of a server."""

    metrics: bool = setting(
        True, "count requests, and serve all metrics at `/_orcas/metrics`; if off, that path answers 404", boolean
    )
    metrics_token: str | None = setting(
        None,
        "bearer token that readers of the metrics must send; if not set, only clients on this machine may read them",
        text, secret=True, pattern=_TOKEN, requirement="16 to 256 visible ASCII characters",
    )  # fmt: skip
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
    slow_request_ms: int = setting(
        0, "time from which on a request is reported in the log, with its stages; 0 turns this off", integer,
        unit="milliseconds", low=0, high=3_600_000,
    )  # fmt: skip
    log_delivery_sec: int = setting(
        300, "longest time until records of requests to a logged bucket are delivered", integer,
        unit="seconds", low=1, high=86_400,
    )  # fmt: skip
    log_delivery_size: int = setting(
        _MIB, "size at which records of a bucket are delivered at once", integer,
        unit="bytes", low=4096, high=8 * _MIB,
    )  # fmt: skip
