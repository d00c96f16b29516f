"""Large objects: throughput of a download, cost of an upload, and memory for 1 GiB up and down."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import boto3

import load
import nginx
from figures import Figure, Plan, ratios
from orcas import _core
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Bare, Orcas, Process, scratch
from signing import REGION
from small import make_bucket

_DOWNLOAD_BYTES = 10 << 20
_UPLOAD_BYTES = 10 << 20
# Name, connections, PUTs per round in a full and in a quick pass, goal.
_UPLOADS = (("put-10mib-cpu", 1, 16, 4, 1.4), ("put-10mib-lanes-cpu", 8, 64, 16, 0.8))
_HASHED_TIMES = 8
_GIB = 1 << 30
_BUFFER_BYTES = 1 << 20
_MEMORY_MIB = 96.0


def throughput(plan: Plan) -> list[Figure]:
    """Figures get-10mib and get-10mib-cpu."""
    rounds, count = plan.size(9, 3), plan.size(30, 5)
    rates: dict[str, list[float]] = {"orcas": [], "bare": []}
    cpu_ms: dict[str, list[float]] = {"orcas": [], "bare": []}
    buffer = bytearray(_BUFFER_BYTES)
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "large")
        load.upload(orcas.address, orcas.signer().put_head("/large/ten", _DOWNLOAD_BYTES), _DOWNLOAD_BYTES)
        probe = load.exchange(orcas.address, orcas.signer().get("/large/ten"))
        headers = [(name, value) for name, value in probe.headers.items() if name != "date"]
        with Bare({"GET": {"headers": headers, "size": _DOWNLOAD_BYTES}}) as bare:
            for warm in [True] + [False] * rounds:
                for name, process in (("orcas", orcas), ("bare", bare)):
                    request = orcas.signer().get("/large/ten")
                    used, started = process.cpu_ns(), time.perf_counter()
                    with load.connect(process.address) as connected:
                        for _ in range(count):
                            load.download(connected, request, buffer)
                    seconds = time.perf_counter() - started
                    if not warm:
                        rates[name].append(count * _DOWNLOAD_BYTES / seconds / (1 << 20))
                        cpu_ms[name].append((process.cpu_ns() - used) / count / 1e6)
    what = "throughput of a 10 MiB GET on one connection ÷ bare uvicorn from memory"
    detail = {"mib_a_second": rates, "server_cpu_ms": cpu_ms, "requests": count}
    cpu = "server CPU of a 10 MiB GET, every block verified ÷ bare uvicorn from memory"
    return [
        Figure("get-10mib", what, ratios(rates["orcas"], rates["bare"]), 0.5, at_least=True, detail=detail),
        Figure("get-10mib-cpu", cpu, ratios(cpu_ms["orcas"], cpu_ms["bare"]), 1.8, detail=detail),
    ]


def sendfile(plan: Plan) -> list[Figure]:
    """Figure get-10mib-nginx."""
    if not nginx.is_installed():
        print(f"nginx: {nginx.MISSING}", file=sys.stderr)
        return []
    rounds, count = plan.size(9, 3), plan.size(100, 5)
    cpu_ms: dict[str, list[float]] = {"orcas": [], "nginx": []}
    buffer, body = bytearray(_BUFFER_BYTES), os.urandom(_DOWNLOAD_BYTES)
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "large")
        load.exchange(orcas.address, orcas.signer().put("/large/ten", body))
        (directory / "files/large").mkdir(parents=True)
        (directory / "files/large/ten").write_bytes(body)
        with nginx.Nginx(directory) as files:
            servers: dict[str, Process] = {"orcas": orcas, "nginx": files}
            for warm in [True] + [False] * rounds:
                for name, process in servers.items():
                    request = orcas.signer().get("/large/ten")
                    process.settle()
                    used = process.cpu_ns()
                    with load.connect(process.address) as connected:
                        for _ in range(count):
                            load.download(connected, request, buffer)
                    process.settle()
                    if not warm:
                        cpu_ms[name].append((process.cpu_ns() - used) / count / 1e6)
    what = "server CPU of a 10 MiB GET, every block verified ÷ nginx that sends the file with sendfile"
    detail = {"server_cpu_ms": cpu_ms, "requests": count}
    return [Figure("get-10mib-nginx", what, ratios(cpu_ms["orcas"], cpu_ms["nginx"]), 1.5, detail=detail)]


def upload_cost(plan: Plan) -> list[Figure]:
    """Figures put-10mib-cpu and put-10mib-lanes-cpu: new bytes, without a SHA-256."""
    rounds = plan.size(9, 3)
    cpu_ms: dict[str, list[float]] = {name: [] for name, *_ in _UPLOADS}
    mib_a_second: dict[str, list[float]] = {name: [] for name, *_ in _UPLOADS}
    md5_ms: list[float] = []
    hashlib_ms: list[float] = []
    body = os.urandom(_UPLOAD_BYTES)
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "large")
        for number in range(-1, rounds):
            for name, connections, full, quick, _ in _UPLOADS:
                count = plan.size(full, quick)
                signer = orcas.signer()
                heads = [signer.put_head(f"/large/{name}/{number}/{n}", _UPLOAD_BYTES) for n in range(count)]
                orcas.settle()
                used, started = orcas.cpu_ns(), time.perf_counter()
                with ThreadPoolExecutor(connections) as threads:
                    for put in [threads.submit(load.upload, orcas.address, head, _UPLOAD_BYTES) for head in heads]:
                        put.result()
                seconds = time.perf_counter() - started
                orcas.settle()
                if number >= 0:
                    cpu_ms[name].append((orcas.cpu_ns() - used) / count / 1e6)
                    mib_a_second[name].append(count * _UPLOAD_BYTES / seconds / (1 << 20))
            if number >= 0:
                md5_ms.append(_hashing_ms(_core.md5, body))
                hashlib_ms.append(_hashing_ms(lambda content: hashlib.md5(content, usedforsecurity=False), body))
    made = []
    for name, connections, full, quick, goal in _UPLOADS:
        ways = "1 connection" if connections == 1 else f"{connections} connections"
        what = f"server CPU of a PUT of 10 MiB, {ways} ÷ CPU of the MD5 of as many bytes, one message"
        detail = {"server_cpu_ms": cpu_ms[name], "md5_ms": md5_ms, "hashlib_md5_ms": hashlib_ms}
        detail |= {"mib_a_second": mib_a_second[name], "requests": plan.size(full, quick), "durability": "sync"}
        made.append(Figure(name, what, ratios(cpu_ms[name], md5_ms), goal, detail=detail))
    return made


def _hashing_ms(digest: Callable[[bytes], object], body: bytes) -> float:
    """CPU time of this process for one digest of a body."""
    began = time.process_time_ns()
    for _ in range(_HASHED_TIMES):
        digest(body)
    return (time.process_time_ns() - began) / _HASHED_TIMES / 1e6


def memory(plan: Plan) -> list[Figure]:
    """Figures upload-memory and download-memory; each round has a new server."""
    rounds, length = plan.size(3, 1), plan.size(_GIB, _GIB // 8)
    up: list[float] = []
    down: list[float] = []
    rates: dict[str, list[float]] = {"upload": [], "download": []}
    buffer = bytearray(_BUFFER_BYTES)
    for _ in range(rounds):
        with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
            make_bucket(orcas, "large")
            load.exchange(orcas.address, orcas.signer().put("/large/warm", b"warm"))
            load.exchange(orcas.address, orcas.signer().get("/large/warm"))
            orcas.settle()
            idle = orcas.rss_mib()
            orcas.forget_peak()
            started = time.perf_counter()
            load.upload(orcas.address, orcas.signer().put_head("/large/gib", length), length)
            rates["upload"].append(length / (time.perf_counter() - started) / (1 << 20))
            up.append(orcas.peak_rss_mib() - idle)
            orcas.settle()
            orcas.forget_peak()
            started = time.perf_counter()
            with load.connect(orcas.address) as connected:
                load.download(connected, orcas.signer().get("/large/gib"), buffer)
            rates["download"].append(length / (time.perf_counter() - started) / (1 << 20))
            down.append(orcas.peak_rss_mib() - idle)
    detail = {"mib_a_second": rates, "bytes": length}
    with_boto3 = _boto3_memory(rounds, plan, length)
    return [
        Figure("upload-memory", "peak memory of a 1 GiB PUT above idle", up, _MEMORY_MIB, unit="MiB", detail=detail),
        Figure("download-memory", "peak memory of a 1 GiB GET above idle", down, _MEMORY_MIB, unit="MiB"),
        Figure(
            "boto3-memory",
            "peak memory of 1 GiB up and down with boto3, 10 parts at a time, above idle",
            with_boto3,
            _MEMORY_MIB,
            unit="MiB",
        ),
    ]


def _boto3_memory(rounds: int, plan: Plan, length: int) -> list[float]:
    """boto3's own transfers: a multipart upload and ranged downloads over ten connections."""
    peaks: list[float] = []
    for _ in range(rounds):
        with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
            client = boto3.client(
                "s3",
                endpoint_url=orcas.url,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
                region_name=REGION,
            )
            client.create_bucket(Bucket="large")
            client.put_object(Bucket="large", Key="warm", Body=b"warm")
            file = directory / "file"
            with file.open("wb") as out:
                for _ in range(length // _BUFFER_BYTES):
                    out.write(os.urandom(_BUFFER_BYTES))
            orcas.settle()
            idle = orcas.rss_mib()
            orcas.forget_peak()
            client.upload_file(str(file), "large", "gib")
            client.download_file("large", "gib", str(file))
            peaks.append(orcas.peak_rss_mib() - idle)
    return peaks
