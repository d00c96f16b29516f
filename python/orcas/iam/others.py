"""Requests for services of AWS that Orcas does not have: they say which, in the form in which their clients read errors.

Where all of AWS is to be at Orcas, as in tests, a client of another service is told so and reaches nobody else. Pure.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope

CODE: Final = "NotImplemented"
STATUS: Final = 501
# What is here, by the names in signatures.
_OWN: Final = frozenset({"s3", "iam", "sts"})
_SIGNED: Final = re.compile(rb"AWS4-[\w-]+ Credential=[^/,\s]+/\d{8}/(?:[\w-]+/)?([\w-]{1,64})/aws4_request\b")
# Of a request that nobody signs: `DynamoDB_20120810.ListTables`.
_TARGET: Final = re.compile(rb"(\w{1,64})\.\w{1,128}")
_FORM: Final = b"application/x-www-form-urlencoded"
# Services with paths whose documents are XML; those of all others are JSON.
_XML: Final = frozenset({"route53", "cloudfront"})


def other_service(scope: Scope) -> str | None:
    """The service that a request is for, if it is of AWS and not here."""
    found: re.Match[bytes] | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            found = _SIGNED.match(value)
            break
        if name == b"x-amz-target":
            found = found or _TARGET.fullmatch(value)
    if found is None:
        return None
    service = found[1].decode()
    return None if service in _OWN or service.startswith(("s3-", "s3express")) else service


def sentence(service: str) -> str:
    """The sentence about a service that is not here."""
    return f"Orcas has S3, IAM and STS, not {service}: send requests for it to another server."


def document(scope: Scope, service: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of the answer."""
    said, more = sentence(service), []
    headers = dict(scope["headers"])
    if headers.get(b"content-type", b"").startswith(_FORM) or service in _XML:
        kind = b"text/xml"
        error = f"<Error><Type>Sender</Type><Code>{CODE}</Code><Message>{said}</Message></Error>"
        # EC2 has a form of its own.
        for outer in ("Errors", "Response") if service == "ec2" else ("ErrorResponse",):
            error = f"<{outer}>{error}</{outer}>"
        body = error.encode()
    elif headers.get(b"smithy-protocol") == b"rpc-v2-cbor":
        kind, more = b"application/cbor", [(b"smithy-protocol", b"rpc-v2-cbor")]
        # A map with two entries.
        body = b"\xa2" + b"".join(map(_cbor, ("__type", CODE, "message", said)))
    else:
        kind = b"application/x-amz-json-1.1" if b"x-amz-target" in headers else b"application/json"
        body = json.dumps({"__type": CODE, "message": said}).encode()
    return [
        (b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"x-amzn-errortype", CODE.encode()), *more,
    ], body  # fmt: skip


def _cbor(text: str) -> bytes:
    """A text of less than 256 bytes."""
    raw = text.encode()
    return (bytes([0x60 + len(raw)]) if len(raw) < 24 else bytes([0x78, len(raw)])) + raw
