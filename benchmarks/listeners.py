"""The listener beside bare hyper and bare uvicorn: CPU time of the server for each request, memory of idle connections,
and what it takes to pass a request on.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import load
import orcas
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Bare, Orcas, Process, scratch
from small import answer_like, cpu_per_request, make_bucket, unique

_CONNECTIONS: Final = 16
_OBJECTS: Final = 1000
_LARGER: Final = 64 << 10
# Before memory is counted, so that what all connections share is there.
_WARM_CONNECTIONS: Final = 300
_REPOSITORY: Final = Path(__file__).resolve().parents[1]


class BareHyper(Process):
    """hyper on one thread, which answers as `answers` says, over HTTP/1.1 or over HTTP/2 without TLS."""

    def __init__(self, answers: dict[str, Any], *, http2: bool = False) -> None:
        package = ["--release", "--quiet", "--package", "orcas_front"]
        subprocess.run(["cargo", "build", *package, "--example", "bare_hyper"], cwd=_REPOSITORY, check=True)  # noqa: S607
        # Lines, as the example reads them.
        lines: list[str] = []
        for method, answer in answers.items():
            headers = [f"{name}: {value}" for name, value in answer["headers"]]
            lines += [f"{method} {answer['size']} {len(headers)}", *headers]
        program = str(_REPOSITORY / "target/release/examples/bare_hyper")
        super().__init__([program, *["http2"] * http2], "bare ready", order="\n".join(lines))


def cpu(plan: Plan) -> list[Figure]:
    """Figures listener-get, listener-put, listener-head and listener-64kib."""
    rounds, count = plan.size(9, 3), plan.size(4000, 500)
    used: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, contextlib.ExitStack() as stack:
        server = stack.enter_context(Orcas(directory / "store", settings=UNSCRUBBED))
        make_bucket(server, "small")
        signer = server.signer()
        puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)]
        puts += [signer.put(f"/small/larger-{n}", unique(n, _LARGER)) for n in range(16)]
        load.run(server.address, puts, _CONNECTIONS)
        answers = {
            "PUT": answer_like(server, signer.put("/small/probe", unique(0))),
            "GET": answer_like(server, signer.get("/small/probe")),
        }
        answers["GET"]["size"] = 1024
        bare = {"uvicorn": stack.enter_context(Bare(answers)), "hyper": stack.enter_context(BareHyper(answers))}
        servers: dict[str, Process] = {"orcas": server, **bare}
        written = _OBJECTS
        for warm in [True] + [False] * rounds:
            for name, process in servers.items():
                work = {
                    "GET": [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)],
                    "PUT": [signer.put(f"/small/{n:016x}", unique(n)) for n in range(written, written + count)],
                }
                if process is server:
                    work["HEAD"] = [signer.request("HEAD", f"/small/{n % _OBJECTS:016x}") for n in range(count)]
                    work["GET of 64 KiB"] = [signer.get(f"/small/larger-{n % 16}") for n in range(count // 4)]
                for kind, requests in work.items():
                    microseconds = cpu_per_request(process, requests)
                    if not warm:
                        used.setdefault((kind, name), []).append(microseconds)
            written += count
    detail = {f"{kind}, {name}": [round(value, 2) for value in values] for (kind, name), values in used.items()}
    return [
        Figure(name, f"server CPU of a signed {what}", ratios(used[above], used[below]), goal, detail=detail)
        for name, what, above, below, goal in (
            ("listener-get-hyper", "1 KiB GET ÷ bare hyper", ("GET", "orcas"), ("GET", "hyper"), 2.0),
            ("listener-get-uvicorn", "1 KiB GET ÷ bare uvicorn", ("GET", "orcas"), ("GET", "uvicorn"), 0.45),
            ("listener-put-uvicorn", "durable 1 KiB PUT ÷ bare uvicorn", ("PUT", "orcas"), ("PUT", "uvicorn"), 1.3),
            ("listener-head", "HEAD ÷ GET of 1 KiB", ("HEAD", "orcas"), ("GET", "orcas"), 0.9),
            ("listener-64kib", "GET of 64 KiB ÷ of 1 KiB", ("GET of 64 KiB", "orcas"), ("GET", "orcas"), 2.0),
        )
    ]


def memory(plan: Plan) -> list[Figure]:
    """Figures connection-memory and connection-memory-tls: of connections that have had an answer and are idle."""
    count, rounds = plan.size(3000, 200), plan.size(3, 1)
    made = []
    for name, secure, goal in (("connection-memory", False, 16.0), ("connection-memory-tls", True, 40.0)):
        taken = [_idle_kib(secure, count) for _ in range(rounds)]
        what = f"resident memory of an idle connection{' with TLS' if secure else ''}"
        made.append(Figure(name, what, taken, goal, unit="KiB", detail={"connections": count}))
    return made


def _idle_kib(secure: bool, count: int) -> float:
    settings: dict[str, Any] = {"tls_self_signed": secure, "idle_timeout_sec": 600}
    with orcas.Server(memory=True, **settings) as server, contextlib.ExitStack() as held:
        place = urlsplit(server.endpoint)
        context = ssl.create_default_context(cafile=server.ca) if secure else None

        def connect() -> None:
            connection = held.enter_context(socket.create_connection((place.hostname, place.port)))
            if context is not None:
                connection = held.enter_context(context.wrap_socket(connection, server_hostname="localhost"))
            connection.sendall(b"GET /bucket/key HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while b"</Error>" not in answer:
                answer += connection.recv(65536)

        for _ in range(_WARM_CONNECTIONS):
            connect()
        time.sleep(1)
        before = _rss_kib(server.pid)
        for _ in range(count):
            connect()
        time.sleep(1)
        return (_rss_kib(server.pid) - before) / count


def _rss_kib(pid: int) -> int:
    return next(
        int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    )


# The application under uvicorn.
_HOSTED: Final = """
import socket, uvicorn, orcas
listener = socket.create_server(("127.0.0.1", 0))
print("bare ready http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(orcas.create_app(memory=True), log_config=None)).run(sockets=[listener])
"""


def passed_on(plan: Plan) -> list[Figure]:
    """Figure passed-on: what the way over the private socket adds to a request that the application answers."""
    rounds, count = plan.size(9, 3), plan.size(1000, 100)
    took: dict[str, list[float]] = {}
    with Orcas(settings=UNSCRUBBED) as server, Process([sys.executable, "-c", _HOSTED], "bare ready") as hosted:
        for warm in [True] + [False] * rounds:
            for name, process in (("orcas serve", server), ("uvicorn", hosted)):
                request = f"GET /_orcas/health/live HTTP/1.1\r\nHost: {process.address[0]}\r\n\r\n".encode()
                nanoseconds = load.run(process.address, [request] * count, connections=1)
                if not warm:
                    took.setdefault(name, []).append(statistics.median(nanoseconds) / 1000)
    added = [there - here for there, here in zip(took["orcas serve"], took["uvicorn"], strict=True)]
    what = "median time of a request that the application answers: orcas serve, less the application under uvicorn"
    return [Figure("passed-on", what, added, 150.0, unit="µs", detail=dict(took))]
