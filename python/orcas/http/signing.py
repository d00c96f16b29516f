"""Signature Version 4 of requests of any service, and presigned S3 requests for browsers. Pure."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that sign. `token`: of temporary credentials."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def encode_query(query: Mapping[str, str]) -> str:
    """A query string whose names are sorted, as signatures cover it."""
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items(), key=_encoded))


def sign(
    keys: Keys, region: str, service: str, request: tuple[str, str, str], headers: Headers, payload: str
) -> Headers:
    """The headers that sign a request, besides `headers`, which are lower-case, have `host` and are all signed.

    Args:
        keys: who signs.
        region: for which the signature is.
        service: such as `s3`, `iam` or `sqs`.
        request: method, raw path and query string as of `encode_query`. Services other than S3 sign a path that was
            percent-encoded once more.
        headers: of the request.
        payload: the SHA-256 of the body in hexadecimal, or `UNSIGNED-PAYLOAD`.
    """
    now, scope = _now(region, service)
    added = [("x-amz-date", now), ("x-amz-content-sha256", payload)]
    if keys.token is not None:
        added.append(("x-amz-security-token", keys.token))
    names, signature = _signature(keys, now, scope, request, [*headers, *added], payload)
    authorization = f"{_ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return [*added, ("authorization", authorization)]


def presign(
    keys: Keys, region: str, request: tuple[str, str, Mapping[str, str]], headers: Headers, seconds: int
) -> str:
    """The query string of a presigned S3 request that is valid for `seconds`. `headers` must be sent with it."""
    method, path, query = request
    now, scope = _now(region, "s3")
    signed = dict(query) | {
        "X-Amz-Algorithm": _ALGORITHM, "X-Amz-Credential": f"{keys.access_key}/{scope}", "X-Amz-Date": now,
        "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": ";".join(sorted(name for name, _ in headers)),
    }  # fmt: skip
    if keys.token is not None:
        signed["X-Amz-Security-Token"] = keys.token
    text = encode_query(signed)
    _, signature = _signature(keys, now, scope, (method, path, text), headers, UNSIGNED)
    return f"{text}&X-Amz-Signature={signature}"


def _signature(
    keys: Keys, now: str, scope: str, request: tuple[str, str, str], headers: Headers, payload: str
) -> tuple[str, str]:
    method, path, query = request
    ordered = sorted((name, " ".join(value.split())) for name, value in headers)
    names = ";".join(name for name, _ in ordered)
    lines = "".join(f"{name}:{value}\n" for name, value in ordered)
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"AWS4" + keys.secret_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, f"{_ALGORITHM}\n{now}\n{scope}\n{digest}".encode(), "sha256")
    return names, signed.hex()


def _now(region: str, service: str) -> tuple[str, str]:
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return now, f"{now[:8]}/{region}/{service}/aws4_request"


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _encoded(pair: tuple[str, str]) -> tuple[str, str]:
    return _quoted(pair[0]), _quoted(pair[1])
