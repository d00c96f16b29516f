"""Signed requests as raw bytes, made before anything is measured. The headers are the ones that boto3 sends."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.fixtures.signing import UNSIGNED, Identity, signed_headers

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

    @property
    def _identity(self) -> Identity:
        return Identity(self.access_key, self.secret_key, REGION, moment=self.moment)

    def request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        payload_hash: str = _EMPTY_SHA256,
    ) -> bytes:
        """The head of a request; `path` and `query` are not yet encoded."""
        path = quote(path, safe="/-_.~")
        target = f"{path}?{urlencode(sorted(query.items()), safe='-_.~', quote_via=quote)}" if query else path
        covered = {
            name: value for name, value in (headers or {}).items() if name.startswith(("x-amz-", "content-type"))
        }
        signed = signed_headers(
            self._identity, method, f"http://{self.host}{target}", {"host": self.host, **covered}, payload=payload_hash
        )
        signed = {name.lower(): value for name, value in signed.items()}
        authorization = signed.pop("authorization")
        sent = {
            **signed,
            **(headers or {}),
            "accept-encoding": "identity",
            "user-agent": _AGENT,
            "amz-sdk-invocation-id": "6b9d2f4e-53a5-4f2b-9d0e-0c3f7f1f5a11",
            "amz-sdk-request": "attempt=1",
            "authorization": authorization,
        }
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
        return self.request("PUT", path, None, {"content-length": str(length), **vouched}, UNSIGNED)

    def delete_all(self, bucket: str, keys: list[str]) -> bytes:
        """A DeleteObjects of at most 1,000 keys, none of which needs escaping."""
        objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        headers = {
            "content-length": str(len(body)),
            "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        }
        return self.request("POST", f"/{bucket}", {"delete": ""}, headers, hashlib.sha256(body).hexdigest()) + body
