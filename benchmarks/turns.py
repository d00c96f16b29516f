"""Work in turns: what is compared, in an order that changes, and jobs on threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any


def in_threads(count: int, jobs: Iterable[Callable[[], object]]) -> tuple[float, list[float]]:
    """Run jobs on `count` threads, each as soon as one is free. Seconds in all, and milliseconds of each job."""
    waiting = iter(jobs)
    taking = threading.Lock()
    taken: list[float] = []
    failed: list[BaseException] = []

    def work() -> None:
        while not failed:
            with taking:
                job = next(waiting, None)
            if job is None:
                return
            began = time.perf_counter()
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                failed.append(error)
                return
            taken.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=work) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failed:
        raise failed[0]
    return seconds, taken


def in_turn(arms: Iterable[Any], rounds: int, seed: int = 1) -> Iterable[tuple[int, Any]]:
    """Every arm once in each round, in an order that changes: a machine is not the same from one minute to the next."""
    arms = list(arms)
    order = random.Random(seed)
    for number in range(rounds):
        for arm in order.sample(arms, len(arms)):
            yield number, arm
