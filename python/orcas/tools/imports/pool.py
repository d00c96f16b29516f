"""Threads that copy objects, several at a time: what may go away is tried again, and the first fatal error ends everything.

Must not know what is copied, or what is done about one object that fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Final, TypeVar

from orcas.errors import UnavailableError
from orcas.tools.imports.requests import ObjectError, StoppedError

PAUSES_SECONDS: Final = (0.2, 1.0, 3.0)
# Objects that wait for a thread, for each thread.
_WAITING: Final = 8
_T = TypeVar("_T")


def insist(work: Callable[[], _T], stop: threading.Event) -> _T:
    """Do `work`, again after what may go away.

    Raises:
        StoppedError: everything was stopped.
        ObjectError: it fails for good.
        UnavailableError: one of the servers is gone.
    """
    for pause in (*PAUSES_SECONDS, None):
        if stop.is_set():
            raise StoppedError
        try:
            return work()
        except (ObjectError, UnavailableError) as error:
            if pause is None or (isinstance(error, ObjectError) and not error.is_transient):
                raise
        stop.wait(pause)
    raise AssertionError("the last attempt returns or raises")


def each(threads: ThreadPoolExecutor, work: Callable[[int], _T], numbers: range) -> list[_T]:
    """What `work` gives for each number, several at a time. In the end, whatever that is, none of it runs any more."""
    futures = [threads.submit(work, number) for number in numbers]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


class Pool:
    """The threads. Leaving the block waits for them; leaving it with an error stops them."""

    def __init__(self, threads: int, name: str) -> None:
        self.stop = threading.Event()
        self._size = threads * (_WAITING + 1)
        self._room = threading.BoundedSemaphore(self._size)
        self._threads = ThreadPoolExecutor(threads, name)
        self._lock = threading.Lock()
        self._fatal: BaseException | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is not None:
            self.stop.set()
        self._threads.shutdown(cancel_futures=kind is not None)

    def submit(self, work: Callable[[], None], failed: Callable[[ObjectError], None]) -> None:
        """Do `work` in a thread; `failed` is called there if it fails for good.

        Raises:
            BaseException: the fatal error of earlier work.
        """
        self._room.acquire()
        if self._fatal is not None:
            self._room.release()
            raise self._fatal
        self._threads.submit(self._try, work, failed).add_done_callback(lambda _: self._room.release())

    def wait(self) -> None:
        """Wait until everything that was submitted is done.

        Raises:
            BaseException: the fatal error of any of it.
        """
        for _ in range(self._size):
            self._room.acquire()
        for _ in range(self._size):
            self._room.release()
        if self._fatal is not None:
            raise self._fatal

    def end(self, error: BaseException) -> None:
        """Stop everything; the first reason is the one that is raised."""
        with self._lock:
            self._fatal = self._fatal or error
        self.stop.set()

    def _try(self, work: Callable[[], None], failed: Callable[[ObjectError], None]) -> None:
        try:
            insist(work, self.stop)
        except StoppedError:
            return
        except ObjectError as error:
            failed(error)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            self.end(error)
