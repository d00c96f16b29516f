"""Requests as bytes: plans that are signed and framed."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from typing import Final

from tests.fixtures.checksums import checksum
from tests.fixtures.forms import BOUNDARY, multipart, signed_form
from tests.fixtures.signing import (
    STREAMING,
    STREAMING_TRAILER,
    UNSIGNED,
    UNSIGNED_TRAILER,
    ChunkSigner,
    Header,
    Identity,
    aws_chunked,
    presigned_url,
    presigned_url_of_version_two,
    signed_pairs,
    utc_now,
)

from .drawing import Plan
from .known import Known
from .scene import Scene

_CHUNK: Final = 8192


def identity(scene: Scene, sender: str | None) -> Identity | None:
    """The keys and the clock of a sender; None for one who does not sign."""
    if sender is None:
        return None
    name, _, service = sender.partition("/")
    own = scene.identities.get(name, scene.identities["root"])
    changed: dict[str, Identity] = {
        "wrong secret": replace(own, secret_key="something else"),
        "unknown": replace(own, access_key="AKIDUNKNOWN"),
        "late": replace(own, clock_offset=dt.timedelta(minutes=-20)),
        "early": replace(own, clock_offset=dt.timedelta(days=1)),
        "other region": replace(own, region="eu-west-7"),
        "other service": replace(own, service="lambda"),
        "forged session": replace(scene.identities["session"], session_token="AAAA"),
    }
    found = changed.get(name, own)
    found = replace(found, service=service) if service else found
    # Both servers get the same bytes.
    return replace(found, moment=utc_now())


def rendered(plan: Plan, scene: Scene, known: Known) -> tuple[bytes, bytes]:
    """The bytes of a request for each server. Only what servers make for themselves differs."""
    who = identity(scene, plan.sender)
    texts = [plan.target, *(value for _, value in plan.headers)]
    if not any("⟦" in text for text in texts):
        raw = _bytes(plan, plan.body, who)
        return raw, raw
    first, second = (_bytes(_of(plan, known, side), plan.body, who) for side in (0, 1))
    return first, second


def _of(plan: Plan, known: Known, side: int) -> Plan:
    query = [(name, value if value is None else known.text(value, side)) for name, value in plan.query]
    return replace(plan, query=query, headers=[(name, known.text(value, side)) for name, value in plan.headers])


def _bytes(plan: Plan, body: bytes, who: Identity | None) -> bytes:
    # Header values as the bytes that are sent.
    headers = [("host", plan.host), *((name, value.encode().decode("latin-1")) for name, value in plan.headers)]
    headers = [(name.encode("ascii", "ignore").decode() or "x", value) for name, value in headers]
    url, target = f"http://localhost:9000{plan.target}", plan.target
    if plan.signing == "form":
        headers, body = _form(plan, who, headers)
    elif plan.signing in ("streamed", "streamed with trailer", "unsigned with trailer"):
        headers, body = _streamed(plan, who, headers, url)
    elif who is None:
        pass
    elif plan.signing == "presigned":
        target = presigned_url(who, plan.method, url, 60, {"host": plan.host}).removeprefix("http://localhost:9000")
    elif plan.signing == "version two":
        target = presigned_url_of_version_two(who, plan.method, url, 60).removeprefix("http://localhost:9000")
    else:
        payload = UNSIGNED if plan.signing == "unsigned" else None
        headers = signed_pairs(who, plan.method, url, headers, body, payload)
    if plan.chunks:
        headers.append(("transfer-encoding", "chunked"))
        body = _chunked(body)
    elif body or plan.method in ("PUT", "POST"):
        headers.append(("content-length", str(len(body))))
    lines = [f"{plan.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _chunked(body: bytes) -> bytes:
    pieces = [body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _streamed(plan: Plan, who: Identity | None, headers: list[Header], url: str) -> tuple[list[Header], bytes]:
    payload = {"streamed": STREAMING, "streamed with trailer": STREAMING_TRAILER}.get(plan.signing, UNSIGNED_TRAILER)
    headers = [*headers, ("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(plan.body)))]
    trailers = {}
    if plan.trailer is not None:
        name = f"x-amz-checksum-{plan.trailer.lower()}"
        headers.append(("x-amz-trailer", name))
        trailers = {name: checksum(plan.trailer, plan.body)}
    signer = None
    if who is None:
        headers.append(("x-amz-content-sha256", payload))
    else:
        headers = signed_pairs(who, plan.method, url, headers, b"", payload)
        signer = None if payload == UNSIGNED_TRAILER else ChunkSigner(who, dict(headers))
    return headers, aws_chunked(plan.body, chunk=_CHUNK, signer=signer, trailers=trailers)


def _form(plan: Plan, who: Identity | None, headers: list[Header]) -> tuple[list[Header], bytes]:
    rng = random.Random(f"{plan.path}/{plan.sender}/{len(plan.body)}")
    fields = {"key": plan.key[:900].replace("\n", "") or "k"}
    optional = {
        "acl": "public-read", "success_action_status": "201", "Content-Type": "text/x", "x-amz-meta-m": "1",
        "success_action_redirect": "http://a.example/", "tagging": "<Tagging><TagSet/></Tagging>", "x-ignore-a": "b",
    }  # fmt: skip
    fields |= {name: value for name, value in optional.items() if rng.random() < 0.15}
    if who is not None:
        fields = signed_form(who, plan.bucket, fields)
    if rng.random() < 0.15:
        fields["x-amz-storage-class"] = "GLACIER"
    file = None if rng.random() < 0.05 else plan.body
    after = {"late": "x"} if rng.random() < 0.05 else None
    return [*headers, ("content-type", f"multipart/form-data; boundary={BOUNDARY}")], multipart(
        fields, file, after=after
    )
