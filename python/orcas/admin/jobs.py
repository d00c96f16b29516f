"""Jobs: long work for the operator, each in a thread of its own and polled by its id.

Invariants: there are at most `JOBS_MAX` jobs, including finished ones, which are kept for an hour; a job ends before its
store is gone. Must not know what the work is.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from orcas.engine import StoreError
from orcas.errors import OrcasError

JOBS_MAX: Final = 8
KEPT_SECONDS: Final = 3600.0

State = Literal["running", "done", "failed", "cancelled"]


@dataclass
class Work:
    """The work of a job: `run` in a thread, while `progress` and, where there is one, `cancel` are called from others."""

    run: Callable[[], dict[str, Any]]
    progress: Callable[[], dict[str, Any]]
    cancel: Callable[[], None] | None = None


@dataclass
class Job:
    """A piece of work, from its start until it is forgotten."""

    kind: str
    work: Work
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "running"
    result: dict[str, Any] | None = None
    error: str | None = None
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    cancelled: bool = False
    thread: threading.Thread | None = None

    def describe(self) -> dict[str, Any]:
        """The job as clients see it."""
        until = time.monotonic() if self.ended is None else self.ended
        return {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "cancellable": self.work.cancel is not None,
            "progress": self.work.progress(),
            "result": self.result,
            "error": self.error,
            "seconds": round(until - self.started, 3),
        }

    def run(self) -> None:
        """The thread."""
        try:
            result = self.work.run()
        except (StoreError, OrcasError) as error:
            self._end("failed", error=f"{error}.")
        except BaseException as error:  # noqa: BLE001 - a panic in Rust, too: who asked must learn that the job is over
            self._end("failed", error=f"{type(error).__name__}: {error}")
        else:
            self._end("cancelled" if self.cancelled else "done", result=result)

    def _end(self, state: State, *, result: dict[str, Any] | None = None, error: str | None = None) -> None:
        self.result, self.error, self.ended = result, error, time.monotonic()
        # Last, so that whoever sees another state than `running` also sees the result.
        self.state = state


class TooManyJobsError(Exception):
    """As many jobs are running as are allowed."""


class NoThreadError(Exception):
    """The system has given no thread for a job."""


class Jobs:
    """All jobs of a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._closed = False

    def start(self, kind: str, work: Work) -> Job:
        """Begin a job.

        Raises:
            TooManyJobsError: there are `JOBS_MAX` that are not finished, or the server is about to end.
            NoThreadError: the system gives no thread.
        """
        with self._lock:
            self._forget()
            if self._closed or len(self._jobs) >= JOBS_MAX:
                raise TooManyJobsError
            job = Job(kind, work)
            thread = threading.Thread(target=job.run, name=f"orcas-{kind}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                raise NoThreadError from None
            # A job whose thread did not start would be waited for, and would count, for ever.
            job.thread, self._jobs[job.id] = thread, job
            return job

    def find(self, name: str) -> Job | None:
        """The job of that id."""
        with self._lock:
            self._forget()
            return self._jobs.get(name)

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        with self._lock:
            self._forget()
            return sorted(self._jobs.values(), key=lambda job: -job.started)

    def remove(self, job: Job) -> None:
        """Forget a job that is finished."""
        with self._lock:
            if job.state != "running":
                self._jobs.pop(job.id, None)

    def cancel(self) -> None:
        """Accept no more jobs, cancel those that can be cancelled, and wait for their end."""
        for job in self._close():
            if job.work.cancel is not None:
                job.cancelled = True
                job.work.cancel()
                if job.thread is not None:
                    job.thread.join()

    def join(self) -> None:
        """Wait for the other jobs, which end because the store is closing."""
        for job in self._close():
            if job.thread is not None:
                job.thread.join()

    def _close(self) -> list[Job]:
        with self._lock:
            self._closed = True
            return list(self._jobs.values())

    def _forget(self) -> None:
        """Drop jobs that finished long ago, and if there are too many, those that finished first."""
        now = time.monotonic()
        finished = sorted((job for job in self._jobs.values() if job.ended is not None), key=lambda job: job.ended or 0)
        for job in finished:
            if now - (job.ended or 0) > KEPT_SECONDS or len(self._jobs) >= JOBS_MAX:
                del self._jobs[job.id]
