"""The listener in Rust beside the one in Python, bare hyper and bare uvicorn: CPU time of the server for each request."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any, Final

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Bare, Orcas, Process, scratch
from small import answer_like, cpu_per_request, make_bucket, unique

_CONNECTIONS: Final = 16
_OBJECTS: Final = 1000
_LARGER: Final = 64 << 10
_REPOSITORY: Final = Path(__file__).resolve().parents[1]


class BareHyper(Process):
    """hyper on one thread, which answers as `answers` says."""

    def __init__(self, answers: dict[str, Any]) -> None:
        package = ["--release", "--quiet", "--package", "orcas_front"]
        subprocess.run(["cargo", "build", *package, "--example", "bare_hyper"], cwd=_REPOSITORY, check=True)  # noqa: S607
        # Lines, as the example reads them.
        lines: list[str] = []
        for method, answer in answers.items():
            headers = [f"{name}: {value}" for name, value in answer["headers"]]
            lines += [f"{method} {answer['size']} {len(headers)}", *headers]
        super().__init__(
            [str(_REPOSITORY / "target/release/examples/bare_hyper")], "bare ready", order="\n".join(lines)
        )


def cpu(plan: Plan) -> list[Figure]:
    """Figures listener-get, listener-put, listener-head and listener-64kib."""
    rounds, count = plan.size(9, 3), plan.size(4000, 500)
    used: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, contextlib.ExitStack() as stack:
        orcas = {
            name: stack.enter_context(Orcas(directory / name, settings={**UNSCRUBBED, "ORCAS_LISTENER": name}))
            for name in ("python", "rust")
        }
        for server in orcas.values():
            make_bucket(server, "small")
            signer = server.signer()
            puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)]
            puts += [signer.put(f"/small/larger-{n}", unique(n, _LARGER)) for n in range(16)]
            load.run(server.address, puts, _CONNECTIONS)
        signer = orcas["rust"].signer()
        answers = {
            "PUT": answer_like(orcas["rust"], signer.put("/small/probe", unique(0))),
            "GET": answer_like(orcas["rust"], signer.get("/small/probe")),
        }
        answers["GET"]["size"] = 1024
        bare = {"uvicorn": stack.enter_context(Bare(answers)), "hyper": stack.enter_context(BareHyper(answers))}
        servers: dict[str, Process] = {**orcas, **bare}
        written = _OBJECTS
        for warm in [True] + [False] * rounds:
            for name, process in servers.items():
                signer = orcas.get(name, orcas["rust"]).signer()
                work = {
                    "GET": [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)],
                    "PUT": [signer.put(f"/small/{n:016x}", unique(n)) for n in range(written, written + count)],
                }
                if name in orcas:
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
            ("listener-get-hyper", "1 KiB GET ÷ bare hyper", ("GET", "rust"), ("GET", "hyper"), 2.0),
            ("listener-get-uvicorn", "1 KiB GET ÷ bare uvicorn", ("GET", "rust"), ("GET", "uvicorn"), 0.45),
            ("listener-get", "1 KiB GET, Rust ÷ Python", ("GET", "rust"), ("GET", "python"), None),
            ("listener-put-uvicorn", "durable 1 KiB PUT ÷ bare uvicorn", ("PUT", "rust"), ("PUT", "uvicorn"), 1.3),
            ("listener-put", "durable 1 KiB PUT, Rust ÷ Python", ("PUT", "rust"), ("PUT", "python"), None),
            ("listener-head", "HEAD ÷ GET of 1 KiB", ("HEAD", "rust"), ("GET", "rust"), 0.9),
            ("listener-64kib", "GET of 64 KiB ÷ of 1 KiB", ("GET of 64 KiB", "rust"), ("GET", "rust"), 2.0),
        )
    ]
