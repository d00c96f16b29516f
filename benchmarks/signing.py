"""Signed requests as raw bytes, made before anything is measured. The headers are the ones that boto3 sends."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import zlib
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

REGION = "us-east-1"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_AGENT = "Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux lang/python#3.11 cfg/retry-mode#legacy Botocore/1.40.0"


@dataclass(frozen=True)
class Signer:
    """Signature V4 in the header, for one host and one moment: requests are good for 15 minutes."""

    access_key: str
    secret_key: str
    host: str
    moment: dt.datetime

    @cached_property
    def _key(self) -> bytes:
        key = f"AWS4{self.secret_key}".encode()
        for part in (self._day, REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key

    @property
    def _day(self) -> str:
        return f"{self.moment:%Y%m%d}"

    def request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        payload_hash: str = _EMPTY_SHA256,
    ) -> bytes:
        """The head of a request; `path` and `query` are not yet encoded."""
        stamp = f"{self.moment:%Y%m%dT%H%M%SZ}"
        path = quote(path, safe="/-_.~")
        query_text = "&".join(
            f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted((query or {}).items())
        )
        signed = {
            "host": self.host,
            "x-amz-content-sha256": payload_hash,
            "x-amz-date": stamp,
            **{name: value for name, value in (headers or {}).items() if name.startswith(("x-amz-", "content-type"))},
        }
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = f"{method}\n{path}\n{query_text}\n{lines}\n{names}\n{payload_hash}"
        scope = f"{self._day}/{REGION}/s3/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key, to_sign.encode(), "sha256").hex()
        sent = {
            **signed,
            **(headers or {}),
            "accept-encoding": "identity",
            "user-agent": _AGENT,
            "amz-sdk-invocation-id": "6b9d2f4e-53a5-4f2b-9d0e-0c3f7f1f5a11",
            "amz-sdk-request": "attempt=1",
            "authorization": f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}",
        }
        target = f"{path}?{query_text}" if query_text else path
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        return head.encode() + b"\r\n"

    def get(self, path: str, query: dict[str, str] | None = None) -> bytes:
        """A GET, of an object or of a list."""
        headers = {} if query else {"x-amz-checksum-mode": "ENABLED"}
        return self.request("GET", path, query, headers)

    def put(self, path: str, body: bytes) -> bytes:
        """A PUT with its body, hashed and with the CRC-32 that boto3 adds."""
        headers = {
            "content-length": str(len(body)),
            "x-amz-sdk-checksum-algorithm": "CRC32",
            "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        }
        return self.request("PUT", path, None, headers, hashlib.sha256(body).hexdigest()) + body

    def put_head(self, path: str, length: int, sha256: bytes | None = None) -> bytes:
        """The head of a PUT whose body follows unsigned, but vouched for by its `sha256` if that is given."""
        vouched = {} if sha256 is None else {"x-amz-checksum-sha256": base64.b64encode(sha256).decode()}
        return self.request("PUT", path, None, {"content-length": str(length), **vouched}, "UNSIGNED-PAYLOAD")

    def delete_all(self, bucket: str, keys: list[str]) -> bytes:
        """A DeleteObjects of at most 1,000 keys, none of which needs escaping."""
        objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        headers = {
            "content-length": str(len(body)),
            "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        }
        return self.request("POST", f"/{bucket}", {"delete": ""}, headers, hashlib.sha256(body).hexdigest()) + body
