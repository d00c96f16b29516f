"""The workloads of `orcas bench` through boto3: `python benchmarks/boto3_load.py [ENDPOINT] [--workload NAME|FILE]…`.

Shows what a user of boto3 gets, and how much of it is the cost of boto3: the CPU time of the clients stands beside that
of the server. Connections are threads, distributed over processes. Nothing is retried.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from orcas.bench.bucket import Bucket
from orcas.bench.processes import cpu_seconds, settle
from orcas.bench.servers import OWN, Keys, Reached, Wanted, check_url, running
from orcas.bench.workload import Case, read_workload
from orcas.cli.output import print_table
from orcas.errors import OrcasError

_BASE_BYTES = 1 << 20
_HEAD_BYTES = 32


@dataclass
class Tally:
    """What the threads of one process counted."""

    took_ns: dict[str, list[int]] = field(default_factory=dict)
    bytes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Bodies:
    """Bodies derived from their key: a digest of the key, then a slice of shared random bytes."""

    def __init__(self, case: Case) -> None:
        self._case = case
        base = random.Random(case.seed).randbytes(_BASE_BYTES)
        self._base = base * (2 + max(case.size.largest, case.part_size) // _BASE_BYTES)

    def size_of(self, key: str) -> int:
        """Bytes of an object."""
        sizes = self._case.size
        drawn = random.Random(f"{self._case.seed}/{key}")
        if sizes.range:
            low, high = sizes.range
            return int(low * (high / low) ** drawn.random())
        return drawn.choices([size for size, _ in sizes.weighted], [weight for _, weight in sizes.weighted])[0]

    def body(self, key: str, size: int) -> bytes:
        """All of an object, or of a part."""
        if self._case.content == "identical":
            return self._base[:size]
        digest = hashlib.sha256(f"{self._case.seed}/{key}".encode()).digest()
        start = int.from_bytes(digest[:4], "big") % _BASE_BYTES
        return (digest + self._base[start : start + max(0, size - _HEAD_BYTES)])[:size]


class Connection:
    """One thread, which sends one request after the other."""

    def __init__(self, client: Any, bucket: str, case: Case, number: int) -> None:
        self._client, self._bucket, self._case = client, bucket, case
        self._bodies = Bodies(case)
        self._name = f"{number:04x}"
        self._random = random.Random(f"{case.seed}/{number}")
        self._made = 0
        # A thread deletes only its own objects, so that no other thread misses one.
        self._own: list[str] = []
        self._operations: dict[str, Callable[[], int]] = {
            "put": self._put, "get": self._get, "head": self._head, "list": self._list, "delete": self._delete,
            "copy": self._copy, "multipart": self._multipart,
        }  # fmt: skip

    def run(self, ends: Callable[[], bool], tally: Tally, lock: threading.Lock) -> None:
        """Run until `ends`."""
        names, weights = list(self._case.mix), list(self._case.mix.values())
        while not ends():
            name = self._random.choices(names, weights)[0]
            if name == "delete" and not self._own:
                name = "put"
            started = time.perf_counter_ns()
            try:
                moved = self._operations[name]()
            except ClientError as error:
                answer = error.response
                told = f"{answer['ResponseMetadata']['HTTPStatusCode']} {answer['Error']['Code']}"
            except BotoCoreError as error:
                told = type(error).__name__
            except WrongError:
                told = "wrong"
            else:
                took = time.perf_counter_ns() - started
                with lock:
                    tally.took_ns.setdefault(name, []).append(took)
                    tally.bytes[name] += moved
                continue
            with lock:
                tally.wrong += told == "wrong"
                tally.errors[f"{name}: {told}"] += told != "wrong"

    def fill(self, numbers: range) -> None:
        """Write the objects that must exist before the measurement."""
        for number in numbers:
            key = prepared(number)
            body = self._bodies.body(key, self._bodies.size_of(key))
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body)

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}/{self._random.getrandbits(32):08x}-{self._name}{self._made:08x}"

    def _some(self) -> str:
        return prepared(self._random.randrange(self._case.keys))

    def _put(self) -> int:
        key = self._new("o")
        size = self._bodies.size_of(key)
        self._client.put_object(Bucket=self._bucket, Key=key, Body=self._bodies.body(key, size))
        self._own.append(key)
        return size

    def _get(self) -> int:
        key = self._some()
        found = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        if self._case.verify and found != self._bodies.body(key, self._bodies.size_of(key)):
            raise WrongError
        return len(found)

    def _head(self) -> int:
        key = self._some()
        if self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"] != self._bodies.size_of(key):
            raise WrongError
        return 0

    def _list(self) -> int:
        self._client.list_objects_v2(
            Bucket=self._bucket, Prefix="o/", MaxKeys=self._case.list_page, StartAfter=self._some()
        )
        return 0

    def _delete(self) -> int:
        self._client.delete_object(Bucket=self._bucket, Key=self._own.pop(self._random.randrange(len(self._own))))
        return 0

    def _copy(self) -> int:
        source = {"Bucket": self._bucket, "Key": self._some()}
        self._client.copy_object(Bucket=self._bucket, Key=self._new("c"), CopySource=source)
        return 0

    def _multipart(self) -> int:
        place = {"Bucket": self._bucket, "Key": self._new("m")}
        upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        parts = []
        for number in range(1, self._case.parts + 1):
            body = self._bodies.body(f"{place['Key']}/{number}", self._case.part_size)
            etag = self._client.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
        self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        return self._case.parts * self._case.part_size


class WrongError(Exception):
    """An answer differs from what was stored."""


def prepared(number: int) -> str:
    """The key of an object that exists before the measurement."""
    return f"o/{hashlib.sha256(str(number).encode()).hexdigest()[:8]}-{number:08x}"


def _client(server: Reached, case: Case, connections: int) -> Any:
    options = {"payload_signing_enabled": case.payload == "signed", "addressing_style": "path"}
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=connections, s3=options)
    return boto3.session.Session().client(
        "s3", endpoint_url=server.url, aws_access_key_id=server.access_key, aws_secret_access_key=server.secret_key,
        aws_session_token=server.session_token, region_name=server.region, config=config,
    )  # fmt: skip


def _process(server: Reached, bucket: str, case: Case, numbers: range, together: Any, told: Any) -> None:
    """The main function of a child process: runs its share of the connections and reports their counts."""
    client = _client(server, case, len(numbers))
    connections = [Connection(client, bucket, case, number) for number in numbers]
    try:
        for connection, number in zip(connections, numbers, strict=True):
            connection.fill(range(number, case.keys, case.connections))
    except (BotoCoreError, ClientError) as error:
        told.put(f"An object could not be put: {error}")
        together.abort()
        return
    tally, lock = Tally(), threading.Lock()
    shares = {number: len(range(number, case.count or 0, case.connections)) for number in numbers}
    together.wait()
    started, cpu = time.perf_counter(), time.process_time()

    def ends(number: int) -> bool:
        if case.seconds is not None:
            return time.perf_counter() - started >= case.seconds
        shares[number] -= 1
        return shares[number] < 0

    threads = [
        threading.Thread(target=connection.run, args=(lambda number=number: ends(number), tally, lock))
        for connection, number in zip(connections, numbers, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds, tally.cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    told.put(tally)


def measure(case: Case, server: Reached, processes: int) -> dict[str, Any]:
    """One case on one server."""
    context = multiprocessing.get_context("spawn")
    processes = min(processes, case.connections)
    together, told = context.Barrier(processes + 1), context.Queue()
    bucket = Bucket(server)
    with bucket.made():
        shares = [range(at, case.connections, processes) for at in range(processes)]
        children = [
            context.Process(target=_process, args=(server, bucket.name, case, share, together, told), daemon=True)
            for share in shares
        ]
        for child in children:
            child.start()
        try:
            together.wait()
        except threading.BrokenBarrierError:
            raise OrcasError(told.get()) from None
        before = cpu_seconds(server.pids)
        tallies = [told.get() for _ in children]
        settle(server.pids)
        after = cpu_seconds(server.pids)
        for child in children:
            child.join()
    return _figures(tallies, None if before is None or after is None else after - before)


def _figures(tallies: list[Tally], server_cpu_seconds: float | None) -> dict[str, Any]:
    seconds = max(tally.seconds for tally in tallies)
    took: dict[str, list[int]] = {}
    moved: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for tally in tallies:
        for name, values in tally.took_ns.items():
            took.setdefault(name, []).extend(values)
        moved += tally.bytes
        errors += tally.errors
    done = sum(len(values) for values in took.values())
    client_cpu_seconds = sum(tally.cpu_seconds for tally in tallies)
    operations = {}
    for name, values in took.items():
        ranked = statistics.quantiles(sorted(values), n=1000, method="inclusive") if len(values) > 1 else values * 999
        quantiles = {
            "p50": ranked[499],
            "p90": ranked[899],
            "p99": ranked[989],
            "p999": ranked[998],
            "max": max(values),
        }
        operations[name] = {
            "done": len(values),
            "operations_per_second": len(values) / seconds,
            "bytes_per_second": moved[name] / seconds,
            "latency_ms": {at: value / 1e6 for at, value in quantiles.items()},
        }
    return {
        "seconds": seconds,
        "done": done,
        "operations_per_second": done / seconds,
        "client_cpu_us_per_operation": client_cpu_seconds / done * 1e6 if done else None,
        "server_cpu_us_per_operation": server_cpu_seconds / done * 1e6 if done and server_cpu_seconds else None,
        "errors": dict(errors),
        "wrong": sum(tally.wrong for tally in tallies),
        "operations": operations,
    }


def main() -> int:
    """Measure, and print tables or a JSON document."""
    parser = argparse.ArgumentParser(description="The workloads of `orcas bench` through boto3.")
    parser.add_argument("endpoint", nargs="?", default=OWN, help="http://HOST:PORT; without it a server is started")
    parser.add_argument("--workload", default="operations", metavar="NAME|FILE")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="among which connections are shared out")
    parser.add_argument("--connections", type=int, metavar="N")
    parser.add_argument("--count", type=int, metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S")
    parser.add_argument("--size")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the store of a started server is made")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    names = ("connections", "count", "seconds", "size")
    overrides = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    results = {}
    try:
        workload = read_workload(given.workload, overrides)
        for case in workload.cases:
            if case.overwrite:
                raise OrcasError("Objects are never written again here: a workload with overwrite needs orcas bench.")
            with running(Wanted(url=check_url(given.endpoint), keys=Keys()), case.server, given.data) as server:
                results[case.name] = measure(case, server, given.processes)
    except OrcasError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if given.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
    else:
        _print(results)
    return int(any(result["wrong"] or result["errors"] for result in results.values()))


def _print(results: dict[str, dict[str, Any]]) -> None:
    rows, costs = [], []
    for case, result in results.items():
        for name, operation in result["operations"].items():
            latencies = [f"{value:.3g}" for value in operation["latency_ms"].values()]
            rate = f"{operation['operations_per_second']:.0f}"
            rows.append(
                [case, name, operation["done"], rate, f"{operation['bytes_per_second'] / 2**20:.1f}", *latencies]
            )
        each = (result["client_cpu_us_per_operation"], result["server_cpu_us_per_operation"])
        costs.append([case, *("unknown" if value is None else f"{value:.0f}" for value in each)])
    print_table(["Case", "Operation", "Done", "per s", "MiB/s", "p50 ms", "p90", "p99", "p99.9", "max"], rows, right=2)
    print_table(["Case", "boto3: CPU µs each", "Server: CPU µs each"], costs, right=1)
    for case, result in results.items():
        for told, count in {**result["errors"], **({"WRONG": result["wrong"]} if result["wrong"] else {})}.items():
            print(f"{case}: {told}, {count} times")


if __name__ == "__main__":
    sys.exit(main())
