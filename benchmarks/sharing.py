"""The cost of sharing when nothing can be shared, and what it saves otherwise."""

from __future__ import annotations

import hashlib
import os
import random
import statistics
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch, stored_bytes
from small import cpu_per_request, make_bucket

_MIB = 1 << 20
_GIB = 1 << 30
_CONNECTIONS = 16
# Sizes, and PUTs of each per round in a full and in a quick pass.
_OVERHEAD = (
    ("1k", 1 << 10, 4000, 300),
    ("10k", 10 << 10, 2000, 200),
    ("100k", 100 << 10, 600, 60),
    ("1m", _MIB, 150, 16),
)
_REPEATED_BYTES = 10 * _MIB
_INSERTED_BYTES = _MIB


@dataclass(frozen=True)
class Body:
    """`length` random bytes, generated again from `seed` instead of kept in memory."""

    seed: int
    length: int

    def pieces(self) -> Iterator[bytes]:
        """All bytes, 1 MiB at a time."""
        source = random.Random(self.seed)
        for offset in range(0, self.length, _MIB):
            yield source.randbytes(_MIB)[: self.length - offset]

    @cached_property
    def sha256(self) -> bytes:
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.digest()

    def ranges(self, wanted: list[tuple[int, int]]) -> bytes:
        """The bytes of some ranges, first and last included, in their order."""
        needed = {block for first, last in wanted for block in range(first // _MIB, last // _MIB + 1)}
        pieces = {number: piece for number, piece in enumerate(self.pieces()) if number in needed}
        found = bytearray()
        for first, last in wanted:
            for block in range(first // _MIB, last // _MIB + 1):
                found += pieces[block][max(0, first - block * _MIB) : last + 1 - block * _MIB]
        return bytes(found)


def overhead(plan: Plan) -> list[Figure]:
    """Figures share-1k to share-1m: all content is new."""
    rounds = plan.size(9, 3)
    levels = ("full", "off")
    microseconds: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        for level in levels:
            make_bucket(orcas, level, ref_level=level)
        written = 0
        for number in range(-1, rounds):
            for name, length, full, quick in _OVERHEAD:
                count = plan.size(full, quick)
                # The order alternates between rounds.
                for level in levels if number % 2 else reversed(levels):
                    signer = orcas.signer()
                    keys = range(written, written + count)
                    puts = [signer.put(f"/{level}/{key:016x}", os.urandom(length)) for key in keys]
                    written += count
                    used = cpu_per_request(orcas, puts)
                    if number >= 0:
                        microseconds.setdefault((name, level), []).append(used)
    made = []
    for name, _, full, quick in _OVERHEAD:
        ours = {level: microseconds[name, level] for level in levels}
        what = f"server CPU of a PUT of {name[:-1]} {name[-1].upper()}iB of new bytes, RefLevel FULL ÷ OFF"
        detail = {"microseconds": ours, "requests": plan.size(full, quick), "connections": _CONNECTIONS}
        detail |= {"durability": "sync"}
        made.append(Figure(f"share-{name}", what, ratios(ours["full"], ours["off"]), 1.15, detail=detail))
    return made


def repeated(plan: Plan) -> list[Figure]:
    """Figure repeat-10mib: PUTs of new and of already stored bytes, alternating on one connection."""
    rounds, count = plan.size(9, 3), plan.size(8, 2)
    took_ms: dict[str, list[float]] = {name: [] for name in ("new", "stored", "new unsigned", "stored unsigned")}
    same = os.urandom(_REPEATED_BYTES)
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "full", ref_level="full")
        load.exchange(orcas.address, orcas.signer().put("/full/first", same))
        for number in range(-1, rounds):
            once: dict[str, list[float]] = {name: [] for name in took_ms}
            for turn in range(count):
                for name, samples in once.items():
                    body = same if name.startswith("stored") else os.urandom(_REPEATED_BYTES)
                    path = f"/full/{name.replace(' ', '-')}/{number}/{turn}"
                    signer = orcas.signer()
                    signed = not name.endswith("unsigned")
                    put = signer.put(path, body) if signed else signer.put_head(path, len(body)) + body
                    samples.append(load.run(orcas.address, [put], connections=1)[0] / 1e6)
            if number >= 0:
                for name, samples in once.items():
                    took_ms[name].append(statistics.median(samples))
        orcas.settle()
        # The bytes of the two variants with new content, and the content that the other two repeat.
        expected = (2 * count * (rounds + 1) + 1) * _REPEATED_BYTES
        stored = stored_bytes(directory / "data", "full")
        if stored != expected:
            raise RuntimeError(f"{stored} bytes are stored instead of {expected}: repeated content is not shared")
    what = "latency of a PUT of 10 MiB that is stored already ÷ of new bytes, signed payload, 1 connection"
    detail = {"milliseconds": took_ms, "requests": count, "durability": "sync"}
    detail["unsigned payload"] = ratios(took_ms["stored unsigned"], took_ms["new unsigned"])
    return [Figure("repeat-10mib", what, ratios(took_ms["stored"], took_ms["new"]), 0.8, detail=detail)]


def _timed(orcas: Orcas, request: bytes) -> tuple[bytes, float]:
    started = time.perf_counter()
    answer = load.exchange(orcas.address, request)
    return answer.body, time.perf_counter() - started


def _instant_seconds(orcas: Orcas, path: str, body: Body) -> float:
    """The seconds of both requests of an instant upload, without the client's work between them."""
    named = {
        "content-length": "0",
        "x-amz-orcas-instant-size": str(body.length),
        "x-amz-orcas-instant-sha256": body.sha256.hex(),
    }
    document, offered = _timed(orcas, orcas.signer().request("POST", path, {"instant": ""}, named))
    challenge = ET.fromstring(document)  # noqa: S314 - from the server under measurement
    if challenge.findtext("{*}Status") != "challenge":
        raise RuntimeError(f"the upload of {path} cannot be instant: {document!r}")
    ranges = [(int(place.attrib["first"]), int(place.attrib["last"])) for place in challenge.findall("{*}Range")]
    nonce = bytes.fromhex(challenge.findtext("{*}Nonce") or "")
    answer = {
        "x-amz-orcas-instant-challenge": challenge.findtext("{*}Challenge") or "",
        "x-amz-orcas-instant-answer": hashlib.sha256(nonce + body.ranges(ranges)).hexdigest(),
    }
    _, proved = _timed(orcas, orcas.signer().request("POST", path, {"instant": ""}, named | answer))
    return offered + proved


def without_bytes(plan: Plan) -> list[Figure]:
    """Figures instant-1gib and copy-1gib: creating a large object without sending it, beside an upload."""
    rounds, length, copies = plan.size(5, 1), plan.size(_GIB, 32 * _MIB), plan.size(20, 5)
    body = Body(1, length)
    seconds: dict[str, list[float]] = {"ordinary": [], "instant": []}
    copy_ms: list[float] = []
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "large")
        load.send(orcas.address, orcas.signer().put_head("/large/source", length, body.sha256), body.pieces())
        for number in range(rounds):
            orcas.settle()
            # The cheapest ordinary upload: new bytes each time, and no SHA-256 to verify.
            started = time.perf_counter()
            load.upload(orcas.address, orcas.signer().put_head(f"/large/ordinary-{number}", length), length)
            seconds["ordinary"].append(time.perf_counter() - started)
            orcas.settle()
            seconds["instant"].append(_instant_seconds(orcas, f"/large/instant-{number}", body))
            signer = orcas.signer()
            source = {"content-length": "0", "x-amz-copy-source": "/large/source"}
            requests = [signer.request("PUT", f"/large/copy-{number}-{n}", None, source) for n in range(copies)]
            copy_ms.append(statistics.median(load.run(orcas.address, requests, connections=1)) / 1e6)
        orcas.settle()
        stored = stored_bytes(directory / "data", "large")
        if stored != (rounds + 1) * length:
            raise RuntimeError(f"{stored} bytes are stored instead of {(rounds + 1) * length}: something was copied")
    what = "instant upload of 1 GiB, both requests ÷ ordinary upload of 1 GiB of new bytes, 1 connection"
    detail = {"seconds": seconds, "bytes": length, "durability": "sync"}
    return [
        Figure("instant-1gib", what, ratios(seconds["instant"], seconds["ordinary"]), 0.01, detail=detail),
        Figure("copy-1gib", "CopyObject of 1 GiB", copy_ms, 10.0, unit="ms", detail={"requests": copies}),
    ]


def edited(plan: Plan) -> list[Figure]:
    """Figure cdc-insert: a file that is already stored, with some bytes inserted at its start."""
    rounds, length = plan.size(3, 1), plan.size(_GIB, 64 * _MIB)
    added: dict[str, list[float]] = {"content-defined": [], "fixed": []}
    for number in range(rounds):
        with scratch(plan.directory) as directory, Orcas(directory / "data", settings=UNSCRUBBED) as orcas:
            for chunking, grown in added.items():
                grown.append(_inserted_mib(directory / "data", orcas, chunking, number, length))
    what = "1 MiB inserted at the start of a file of 1 GiB, bytes stored anew with content-defined chunking"
    detail = {"mib_by_chunking": added, "bytes": length}
    return [Figure("cdc-insert", what, added["content-defined"], 16.0, unit="MiB", detail=detail)]


def _inserted_mib(data: Path, orcas: Orcas, chunking: str, number: int, length: int) -> float:
    """How much a bucket grows by the edited file."""
    make_bucket(orcas, chunking, chunking=chunking)
    # Different bytes for each bucket, because buckets share content too.
    seed = 2 * number + (chunking == "fixed")
    file, inserted = Body(seed, length), Body(1_000 + seed, _INSERTED_BYTES)
    load.send(orcas.address, orcas.signer().put_head(f"/{chunking}/before", length), file.pieces())
    orcas.settle()
    before = stored_bytes(data, chunking)
    head = orcas.signer().put_head(f"/{chunking}/after", _INSERTED_BYTES + length)
    load.send(orcas.address, head, (piece for body in (inserted, file) for piece in body.pieces()))
    orcas.settle()
    return (stored_bytes(data, chunking) - before) / _MIB
