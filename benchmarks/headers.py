"""Header formatting: single values in Rust and in Python, and the cost of a whole request with each."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import criterion
import load
import plain_headers as plain
from figures import Figure, Plan, ratios
from orcas import _core
from processes import KEYS, UNSCRUBBED, Orcas, Process, scratch
from signing import Signer
from small import cpu_per_request, make_bucket, unique

_CONTENT_TYPE = "application/octet-stream"
_LISTED = 100
# The headers in which two answers to one request differ.
_UNLIKE = re.compile(rb"(\r\n(?:date|x-amz-request-id): )[^\r]*")
_FIVE = "five headers of a GET"
# The line that the suite prints for each value and each way before it measures it.
_ALLOCATED = re.compile(r"^(.+)/(\w+): (\d+) allocations a call$", re.MULTILINE)
# Criterion's group, figure, goal in nanoseconds.
_VALUES = (
    ("etag", "etag-ns", 8.0),
    ("content-length", "content-length-ns", 4.0),
    ("last-modified, hit", "last-modified-ns", 4.0),
    ("content-range", "content-range-ns", 12.0),
)


def values(plan: Plan) -> list[Figure]:
    """Figures etag-ns to content-range-ns, headers-rust and headers-python."""
    rounds = plan.size(9, 2)
    optimised: dict[str, list[float]] = {}
    straightforward: dict[str, list[float]] = {}
    through_pyo3, in_python = [], []
    with scratch(plan.directory) as directory:
        for _ in range(rounds):
            for way, into in (("optimised", optimised), ("straightforward", straightforward)):
                for group, cost in in_rust(plan, directory, way).items():
                    into.setdefault(group, []).append(cost.nanoseconds)
            through_pyo3.append(_nanoseconds(_core.set_object_headers_with_content_type, _CONTENT_TYPE.encode()))
            in_python.append(_nanoseconds(plain.object_headers, _CONTENT_TYPE))
    figures = [
        Figure(
            name,
            f"one value: {group}, in Rust",
            optimised[group],
            goal,
            unit="ns",
            detail={"straightforward_ns": straightforward[group]},
        )
        for group, name, goal in _VALUES
    ]
    detail = {"optimised_ns": optimised, "straightforward_ns": straightforward}
    rust = ratios(optimised[_FIVE], straightforward[_FIVE])
    figures.append(Figure("headers-rust", f"{_FIVE} ÷ straightforward Rust", rust, 0.2, detail=detail))
    python = ratios(through_pyo3, in_python)
    detail = {"through_pyo3_ns": through_pyo3, "python_ns": in_python}
    figures.append(Figure("headers-python", f"{_FIVE}, called from Python ÷ plain Python", python, 0.1, detail=detail))
    return figures


@dataclass(frozen=True)
class Cost:
    """Median time and allocations of a call."""

    nanoseconds: float
    allocations: int


def in_rust(plan: Plan, directory: Path, way: str) -> dict[str, Cost]:
    """Every group of the Criterion suite by name, for one way; Criterion's files go to `directory`.

    Raises:
        RuntimeError: it could not be compiled, or the product's way allocated memory.
    """
    printed, medians = criterion.run(plan, directory, "headers", f"/{way}$")
    allocations = {(group, of): int(count) for group, of, count in _ALLOCATED.findall(printed)}
    return {group: Cost(median, allocations[group, of]) for (group, of), median in medians.items() if of == way}


def _nanoseconds(call: Callable[..., object], content_type: object) -> float:
    """The time of a call, each for another object."""
    objects = [(n.to_bytes(4, "big") * 4, 0, 7 ** (n % 9), (20_000 - n) * 86_400_000, content_type) for n in range(256)]
    started = time.perf_counter_ns()
    for _ in range(20):
        for values_of_object in objects:
            call(*values_of_object)
    return (time.perf_counter_ns() - started) / (20 * len(objects))


class Ways(Orcas):
    """`header_ways` over a store on the disk that is measured."""

    def __init__(self, data: Path) -> None:
        module = Path(__file__).with_name("header_ways.py")
        Process.__init__(self, [sys.executable, str(module)], "ways ready", {"data": str(data)}, KEYS | UNSCRUBBED)

    def choose(self, way: str) -> None:
        """Choose the formatter from now on."""
        load.exchange(
            self.address, f"POST /_orcas/benchmark/{way} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".encode()
        )


_REQUEST_GOAL = 0.95
_WAYS = ("rust", "python", "python-fields")
_OPERATIONS = (
    ("get", "a signed 1 KiB GET", "python"),
    ("head", "a signed HEAD", "python"),
    ("put", "a signed 1 KiB PUT", "python"),
    ("list", f"a list of {_LISTED}", "python"),
    ("list-fields", f"a list of {_LISTED}, with LastModified and ETag of its entries", "python-fields"),
)


def requests(plan: Plan) -> list[Figure]:
    """Figures headers-get, headers-head, headers-put, headers-list and headers-list-fields."""
    rounds, count = plan.size(15, 3), plan.size(4000, 400)
    microseconds: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, Ways(directory / "data") as server:
        # Every PUT stores its content, although it is the same in every round.
        make_bucket(server, "read")
        make_bucket(server, "written", ref_level="off")
        signer = server.signer()
        load.run(server.address, [signer.put(f"/read/{n:016x}", unique(n)) for n in range(count)])
        for way in _WAYS:
            # Here plain Python learns the values.
            server.choose(way)
            for made in _requests(server.signer(), count).values():
                load.run(server.address, made)
        _check_same(server, count)
        for round_number in range(rounds):
            # The order is reversed in every other round.
            for way in _WAYS[:: 1 if round_number % 2 else -1]:
                server.choose(way)
                made = _requests(server.signer(), count)
                for operation in ["list"] if way == "python-fields" else made:
                    used = cpu_per_request(server, made[operation])
                    microseconds.setdefault((operation, way), []).append(used)
        _check_same(server, count)
    figures = []
    for name, what, way in _OPERATIONS:
        operation = name.removesuffix("-fields")
        rust, python = microseconds[operation, "rust"], microseconds[operation, way]
        detail = {"microseconds": {"rust": rust, "python": python}, "connections": 16, "durability": "sync"}
        what = f"server CPU of {what}: headers in Rust ÷ in plain Python"
        figures.append(Figure(f"headers-{name}", what, ratios(rust, python), _REQUEST_GOAL, detail=detail))
    return figures


def _requests(signer: Signer, count: int) -> dict[str, list[bytes]]:
    """`count` requests of each operation, but fewer lists, because each of those is more work."""
    listing = {"list-type": "2", "max-keys": str(_LISTED)}
    checked = {"x-amz-checksum-mode": "ENABLED"}
    return {
        "get": [signer.get(f"/read/{n:016x}") for n in range(count)],
        "head": [signer.request("HEAD", f"/read/{n:016x}", headers=checked) for n in range(count)],
        "put": [signer.put(f"/written/{n:016x}", unique(n)) for n in range(count)],
        "list": [signer.get("/read", listing) for _ in range(count // 4)],
    }


def _comparable(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    return _UNLIKE.sub(rb"\1", head), body


def _check_same(server: Ways, count: int) -> None:
    """Check that every way answers the same bytes, except the date and the request id.

    Raises:
        RuntimeError: one does not.
    """
    answers = []
    for way in _WAYS:
        server.choose(way)
        made = _requests(server.signer(), count)
        sent = [request for requests_made in made.values() for request in requests_made[:: max(1, count // 20)]]
        answers.append([_comparable(*load.answer(server.address, request)) for request in sent])
    for others in answers[1:]:
        for one, other in zip(answers[0], others, strict=True):
            if one != other:
                raise RuntimeError(f"Rust says {one!r}, plain Python {other!r}")
