"""Signed requests as bytes, made before anything is measured. They have the headers that boto3 sends."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.fixtures.signing import UNSIGNED, Identity, presigned_url, signed_pairs
from tests.fixtures.wire import Signed, request_head, request_target

REGION = "us-east-1"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_COVERED = ("x-amz-", "content-type")
_AGENT = "Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux lang/python#3.11 cfg/retry-mode#legacy Botocore/1.40.0"
_UNSIGNED_HEADERS = (
    ("accept-encoding", "identity"),
    ("user-agent", _AGENT),
    ("amz-sdk-invocation-id", "6b9d2f4e-53a5-4f2b-9d0e-0c3f7f1f5a11"),
    ("amz-sdk-request", "attempt=1"),
)


@dataclass(frozen=True)
class Signer:
    """Requests of one identity to one host, signed at one moment and valid for 15 minutes."""

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
        target = request_target(path, sorted((query or {}).items()))
        named = list((headers or {}).items())
        covered = [(name, value) for name, value in named if name.startswith(_COVERED)]
        others = [(name, value) for name, value in named if not name.startswith(_COVERED)]
        pairs = signed_pairs(
            self._identity, method, f"http://{self.host}{target}", [("host", self.host), *covered], payload=payload_hash
        )
        signed = Signed(method, target, [(name.lower(), value) for name, value in pairs], self._identity)
        return signed.head([*others, *_UNSIGNED_HEADERS])

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

    def target(self, path: str, method: str = "GET") -> str:
        """Path and query of a presigned URL, valid for 15 minutes."""
        origin = f"http://{self.host}"
        url = presigned_url(self._identity, method, origin + request_target(path), 900, {"host": self.host})
        return url.removeprefix(origin)

    def presigned(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request that is signed in its query, as somebody sends it who was given a presigned URL."""
        headers = {"host": self.host, "accept": "*/*", "user-agent": "curl/8.14.1"}
        if body:
            headers["content-length"] = str(len(body))
        return request_head(method, self.target(path, method), headers) + body

    def put_head(self, path: str, length: int, sha256: bytes | None = None) -> bytes:
        """The head of a PUT whose body follows unsigned, with a checksum header if `sha256` is given."""
        vouched = {} if sha256 is None else {"x-amz-checksum-sha256": base64.b64encode(sha256).decode()}
        return self.request("PUT", path, None, {"content-length": str(length), **vouched}, UNSIGNED)

    def delete_all(self, bucket: str, keys: list[str]) -> bytes:
        """A DeleteObjects of at most 1,000 keys, none of which needs escaping."""
        return self._delete(bucket, [f"<Key>{key}</Key>" for key in keys])

    def delete_versions(self, bucket: str, key: str, ids: list[str]) -> bytes:
        """A DeleteObjects of at most 1,000 versions of a key that needs no escaping."""
        return self._delete(bucket, [f"<Key>{key}</Key><VersionId>{name}</VersionId>" for name in ids])

    def _delete(self, bucket: str, named: list[str]) -> bytes:
        objects = "".join(f"<Object>{name}</Object>" for name in named)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        headers = {
            "content-length": str(len(body)),
            "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        }
        return self.request("POST", f"/{bucket}", {"delete": ""}, headers, hashlib.sha256(body).hexdigest()) + body
