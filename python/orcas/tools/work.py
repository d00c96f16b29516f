"""Jobs of the admin API, for the client that waits for them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from orcas.errors import OrcasError
from orcas.tools.session import Session

_POLL_SECONDS: Final = (0.05, 0.1, 0.2, 0.5)

Watch = Callable[[dict[str, Any]], None]


def run_job(
    session: Session,
    kind: str,
    watch: Watch,
    order: dict[str, Any] | None = None,
    path: str | None = None,
    jobs: str = "jobs",
) -> dict[str, Any]:
    """Start a job, show `watch` its progress until it ends, and give its result. Interrupted, it ends the job.

    `path` is where it is started, if that is not its kind; `jobs` where it is polled.

    Raises:
        OrcasError: the job failed or was cancelled.
    """
    job = session.admin("POST", path or kind, order)
    name = job["id"]
    polls = 0
    try:
        while job["state"] == "running":
            watch(job["progress"])
            time.sleep(_POLL_SECONDS[min(polls, len(_POLL_SECONDS) - 1)])
            polls += 1
            job = session.admin("GET", f"{jobs}/{name}")
    except KeyboardInterrupt:
        with contextlib.suppress(OrcasError):
            session.admin("DELETE", f"{jobs}/{name}")
        raise
    watch(job["progress"])
    if job["state"] != "done":
        why = str(job["error"] or job["state"]).rstrip(".")
        raise OrcasError(f"The {kind} failed ({why}): remove the cause, and run it again.")
    with contextlib.suppress(OrcasError):
        session.admin("DELETE", f"{jobs}/{name}")
    result: dict[str, Any] = job["result"]
    return result
