"""HTTP/2 beside HTTP/1.1, each plain and with TLS, and one processor beside all: CPU time of the server for signed GETs.

The load is that of h2load, with presigned URLs. bare hyper is the library of the listener without a store; nginx sends the
same bytes from files.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import h2load
import load
import nginx
from figures import Figure, Plan, ratios
from h2load import Done, Way
from listeners import BareHyper
from processes import UNSCRUBBED, Orcas, Process, scratch
from small import answer_like, make_bucket

PROTOCOLS: Final = ("HTTP/1.1", "HTTP/2")
# By size: bytes, objects, requests in flight, and requests a round in a full and in a quick pass.
SIZES: Final = {"1 KiB": (1 << 10, 1000, 64, 20_000, 320), "10 MiB": (10 << 20, 4, 4, 60, 4)}


def _paths(size: str) -> list[str]:
    length, count, *_ = SIZES[size]
    return [f"/bucket/{length}/{n:016x}" for n in range(count)]


def _bodies(size: str) -> Iterator[tuple[str, bytes]]:
    """The objects of a size, each with bytes of its own."""
    for n, path in enumerate(_paths(size)):
        yield path, random.Random(n).randbytes(SIZES[size][0])


def _fill(orcas: Orcas) -> None:
    make_bucket(orcas, "bucket")
    signer = orcas.signer()
    for size in SIZES:
        load.run(orcas.address, (signer.put(path, body) for path, body in _bodies(size)))


def _measured(process: Process, size: str, protocol: str, count: int) -> tuple[float, Done]:
    """Microseconds of the server's CPU time for a GET, and what the load took."""
    length, _, in_flight, *_ = SIZES[size]
    way = Way(True, 1, in_flight) if protocol == "HTTP/2" else Way(False, in_flight, 1)
    signer = process.signer()
    urls = [process.url + signer.target(path) for path in _paths(size)]
    process.settle()
    before = process.cpu_ns()
    done = h2load.run(urls, way, count, length)
    process.settle()
    return (process.cpu_ns() - before) / count / 1000, done


def _servers(place: Path, stack: contextlib.ExitStack, *, compiling: bool) -> dict[str, tuple[Process, Process]]:
    """By its name, each server for HTTP/1.1 and for HTTP/2, which may be the same."""
    orcas = stack.enter_context(Orcas(place / "plain", settings=UNSCRUBBED))
    _fill(orcas)
    with Orcas(place / "secure", settings=UNSCRUBBED) as filled:
        _fill(filled)
    secure = stack.enter_context(Orcas(place / "secure", settings={**UNSCRUBBED, "ORCAS_TLS_SELF_SIGNED": "true"}))
    servers: dict[str, tuple[Process, Process]] = {"Orcas": (orcas, orcas), "Orcas, TLS": (secure, secure)}
    # A quick pass compiles nothing.
    if compiling and shutil.which("cargo"):
        answers = {"GET": answer_like(orcas, orcas.signer().get(_paths("1 KiB")[0]))}
        bare = BareHyper(answers), BareHyper(answers, http2=True)
        servers["bare hyper"] = stack.enter_context(bare[0]), stack.enter_context(bare[1])
    if not nginx.is_installed():
        print(f"http2: nginx is {nginx.MISSING}", file=sys.stderr)
        return servers
    for size in SIZES:
        for path, body in _bodies(size):
            file = place / f"files{path}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
    for name, certificate in (("nginx", None), ("nginx, TLS", (place / "secure/tls.pem").resolve())):
        both = (nginx.Nginx(place, http2=http2, certificate=certificate) for http2 in (False, True))
        servers[name] = stack.enter_context(next(both)), stack.enter_context(next(both))
    return servers


def http2(plan: Plan) -> list[Figure]:
    """Figures http2-1kib and http2-10mib, with TLS, and of other servers."""
    if not h2load.is_installed():
        print(f"http2: {h2load.MISSING}", file=sys.stderr)
        return []
    used: dict[tuple[str, str], dict[str, list[float]]] = {}
    rates: dict[tuple[str, str], dict[str, list[float]]] = {}
    with scratch(plan.directory) as directory, contextlib.ExitStack() as stack:
        servers = _servers(directory, stack, compiling=not plan.quick)
        for warm in [True] + [False] * plan.size(9, 1):
            for size, (*_, full, quick) in SIZES.items():
                for name, pair in servers.items():
                    # It has one answer.
                    if (name, size) == ("bare hyper", "10 MiB"):
                        continue
                    count = plan.size(full, quick)
                    for protocol, process in zip(PROTOCOLS, pair, strict=True):
                        microseconds, done = _measured(process, size, protocol, count)
                        if not warm:
                            used.setdefault((size, name), {}).setdefault(protocol, []).append(microseconds)
                            rates.setdefault((size, name), {}).setdefault(protocol, []).append(count / done.seconds)
    made = []
    for (size, name), microseconds in used.items():
        in_flight = SIZES[size][2]
        what = f"server CPU of a GET of {size}, {in_flight} streams of a connection ÷ {in_flight} connections, {name}"
        label = f"http2-{size}-{name}".replace("-Orcas", "").replace(", ", "-").replace(" ", "")
        over_under = ratios(microseconds["HTTP/2"], microseconds["HTTP/1.1"])
        detail = {"size": size, "server": name, "microseconds": microseconds, "a_second": rates[size, name]}
        goal = 1.5 if (size, name) == ("1 KiB", "Orcas") else None
        made.append(Figure(label.lower(), what, over_under, goal, detail=detail))
    return made


def processors(plan: Plan) -> list[Figure]:
    """Figures processors-cpu and processors-rate, for each power of two of processors, and for all."""
    if not h2load.is_installed():
        print(f"processors: {h2load.MISSING}", file=sys.stderr)
        return []
    every = os.cpu_count() or 1
    numbers = [*(1 << power for power in range(every.bit_length()) if 1 << power < every), every]
    count = plan.size(40_000, 320)
    cpu: dict[int, list[float]] = {number: [] for number in numbers}
    rates: dict[int, list[float]] = {number: [] for number in numbers}
    with scratch(plan.directory) as directory, contextlib.ExitStack() as stack:
        servers = {
            number: stack.enter_context(Orcas(directory / str(number), settings=UNSCRUBBED, processors=number))
            for number in numbers
        }
        for number, orcas in servers.items():
            _fill(orcas)
            tasks = Path(f"/proc/{orcas.pid}/task").iterdir()
            if sum((task / "comm").read_text() == "orcas-front\n" for task in tasks) != number:
                raise RuntimeError(f"not {number} threads of the listener")
        for warm in [True] + [False] * plan.size(9, 1):
            for number, orcas in servers.items():
                microseconds, done = _measured(orcas, "1 KiB", "HTTP/1.1", count)
                if not warm:
                    cpu[number].append(microseconds)
                    # h2load takes some of the processors' time; the server can have the rest, but of no more than its own.
                    left = every * done.seconds - done.client_seconds
                    rates[number].append(count / min(done.seconds, left / number))
    made = []
    # By the number of processors; nobody has said more about others.
    goals = {2: 1.8, 8: 6.5}
    detail = {"microseconds": cpu, "requests_a_second": rates, "requests": count}
    for number in numbers[1:]:
        on = f"{number} processors ÷ on 1"
        names = [f"processors-{what}{'' if number == every else f'-{number}'}" for what in ("cpu", "rate")]
        what = f"requests a second of the processor time that the client leaves, the same, on {on}"
        cost = f"server CPU of a presigned 1 KiB GET, 64 connections, the server on {on}"
        made += [
            Figure(names[0], cost, ratios(cpu[number], cpu[1]), detail=detail),
            Figure(names[1], what, ratios(rates[number], rates[1]), goals.get(number), at_least=True),
        ]
    return made
