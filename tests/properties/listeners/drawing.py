"""Draws requests: who sends what to which address, as a `Plan` that is not signed yet.

Operations, their methods and their names in the query are those of the table that the core is held to; their other
parameters and headers are those of botocore's service model.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.fixtures.checksums import ALGORITHMS, DIGESTS, checksum, content_md5
from tests.fixtures.signing import Header
from tests.fixtures.tables.parameters import members_of

from .bodies import CONTENTS, ETAGS, document
from .known import Known
from .scene import BUCKETS, DOMAIN, WEBSITES, Scene

_TABLE: Final = Path(__file__).parents[3] / "rust_core" / "crates" / "s3" / "src" / "testdata" / "operations.tsv"
_OURS: Final = (
    ("InstantUpload", "POST", "/bucket/key?instant", ""),
    ("MoveObject", "PUT", "/bucket/key", "x-amz-move-source"),
    ("PutBucketSettings", "PUT", "/bucket?orcas-settings", ""),
    ("UploadPartCopy", "PUT", "/bucket/key?partNumber=2&uploadId=1", "x-amz-copy-source"),
)
# More often than the others.
_FREQUENT: Final = (
    "PutObject", "GetObject", "HeadObject", "DeleteObject", "CopyObject", "ListObjectsV2", "ListObjectVersions",
    "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "DeleteObjects", "GetObjectAttributes",
    "PutObjectTagging", "PutBucketPolicy", "PutObjectAcl", "PutBucketVersioning",
)  # fmt: skip
CONTENT_OPERATIONS: Final = ("PutObject", "UploadPart", "PutObjectAnnotation")
KEYS: Final = (
    "k", "a/b", "é", "index.html", "big", "a b+c%2F", "up", "new", "new/er", "away", "absent", "a/", "//", "../x", ".",
    "a\nb", "\U0010ffff", "z" * 1024, "z" * 1025, "_orcas/health/live", "*'(),:;@!$&=~", "a\\b", "\x7f", "a?b#c",
)  # fmt: skip
_ABSENT: Final = ("absent", "made-1", "made-2", "ab", "Upper", "a..b", "_orcas", "x" * 64, "1.2.3.4")
_SENDERS: Final = (
    *("root",) * 10, *("ann",) * 3, *("ben",) * 2, "cem", "session", *(None,) * 3, "wrong secret", "unknown",
    "late", "early", "other region", "other service", "forged session",
)  # fmt: skip
_SIGNING: Final = (*("whole",) * 5, *("unsigned",) * 3, "presigned", "presigned", "version two")
_DATES: Final = (
    "Thu, 01 Jan 2099 00:00:00 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "2099-01-01T00:00:00Z",
    "yesterday",
    "",
)
_NUMBERS: Final = ("0", "1", "2", "3", "5", "999", "1000", "10001", "-1", "", "x", "+1", "99999999999999999999", "1.5")
_ANYTHING: Final = ("", "x", "true", "FALSE", "null", "é", "a  b", "a,b", '"x"', "*", "0" * 300, "%41", "a;b=c", "url")
# Values by the name of the header or parameter, as it is in the request and in lower case.
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "annotationname": ("x", "y", "a b", ""),
    "cache-control": ("no-store", "max-age=1, must-revalidate"),
    "content-encoding": ("gzip", "aws-chunked", "aws-chunked,gzip", "identity"),
    "content-type": ("text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "é"),
    "delimiter": ("/", "", "a", "é", "%2F"),
    "encoding-type": ("url", "URL", ""),
    "expires": _DATES,
    "id": ("1", "", "a b"),
    "range": (
        "bytes=0-4",
        "bytes=5-",
        "bytes=-3",
        "bytes=0-0,2-3",
        "bytes=9-1",
        "bytes=99999999-",
        "bytes=-0",
        "bytes=0-",
        "octets=0-1",
        "bytes=",
        "bytes=a-b",
        "bytes = 0-4",
        "bytes=0-99999999999999999999",
    ),
    "x-amz-acl": ("private", "public-read", "bucket-owner-full-control", "nobody"),
    "x-amz-bypass-governance-retention": ("true", "false", "TRUE"),
    "x-amz-checksum-algorithm": (*ALGORITHMS, "crc32", "CRC16"),
    "x-amz-checksum-mode": ("ENABLED", "DISABLED", "enabled"),
    "x-amz-checksum-type": ("FULL_OBJECT", "COMPOSITE", "x"),
    "x-amz-copy-source-range": ("bytes=0-4", "bytes=5-99999999", "bytes=3-1", "x"),
    "x-amz-decoded-content-length": _NUMBERS,
    "x-amz-expected-bucket-owner": ("{owner}", "000000000000", "111122223333"),
    "x-amz-metadata-directive": ("COPY", "REPLACE", "x"),
    "x-amz-object-attributes": ("ETag,ObjectSize", "Checksum,ObjectParts,StorageClass", "Nothing", ""),
    "x-amz-object-lock-legal-hold": ("ON", "OFF", "x"),
    "x-amz-object-lock-mode": ("GOVERNANCE", "COMPLIANCE", "x"),
    "x-amz-object-lock-retain-until-date": ("2199-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "x"),
    "x-amz-object-ownership": ("BucketOwnerEnforced", "ObjectWriter", "x"),
    "x-amz-server-side-encryption": ("AES256", "aws:kms", "x"),
    "x-amz-server-side-encryption-customer-algorithm": ("AES256",),
    "x-amz-server-side-encryption-customer-key": ("A" * 43 + "=", "x"),
    "x-amz-server-side-encryption-customer-key-md5": ("cLyPS3KoaSFGi/joRB3OUQ==", "x"),
    "x-amz-storage-class": ("STANDARD", "GLACIER", "STANDARD_IA", "x"),
    "x-amz-tagging": ("a=b", "a=b&c=d%20e", "a=b&a=c", "=", "%zz", "a" * 129 + "=b"),
    "x-amz-tagging-directive": ("COPY", "REPLACE", "x"),
    "x-amz-website-redirect-location": ("/k", "https://h/", "k", "/é"),
    "x-amz-write-offset-bytes": ("0", "10", "300", "5"),
}
# Headers that clients send with any request. Those of `changing` are not signed: the application does not get headers of
# the connection, and no client signs them.
_COMMON: Final[tuple[Header, ...]] = (
    ("user-agent", "aws-sdk-java/2.20"), ("accept", "*/*"), ("accept", "text/html"), ("accept-encoding", "gzip"),
    ("cookie", "a=b; c=d"), ("origin", "http://a.example"), ("origin", "http://b.test"), ("x-forwarded-for", "192.0.2.1"),
    ("x-forwarded-proto", "https"), ("forwarded", "for=192.0.2.1"), ("x-amz-request-payer", "requester"),
    ("amz-sdk-invocation-id", "x"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("referer", "http://a.example/"),
    ("x-amz-user-agent", "é"), ("date", _DATES[0]),
    ("expect", "100-continue"), ("x-http-method-override", "DELETE"), ("content-language", "de"),
    ("if-match", "*"), ("if-none-match", "*"), ("if-match", ETAGS[1]), ("if-none-match", f"W/{ETAGS[1]}, {ETAGS[2]}"),
    ("if-modified-since", _DATES[0]), ("if-modified-since", _DATES[1]), ("if-unmodified-since", _DATES[1]),
    ("if-unmodified-since", _DATES[3]), ("if-range", ETAGS[1]), ("x-amz-object-size", "5"), ("x-id", "GetObject"),
    ("x-amz-security-token", "x"), ("x-amz-content-sha256", "x"),
)  # fmt: skip


@dataclass
class Plan:
    """A request to be signed. Path and query are encoded; `⟦…⟧` stands for what each server has its own value of."""

    operation: str
    method: str
    host: str
    path: str
    query: list[tuple[str, str | None]] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    body: bytes = b""
    sender: str | None = "root"
    signing: str = "whole"
    # How the body is framed: with its length, or in chunks of HTTP.
    chunks: bool = False
    # The algorithm of a checksum in the trailer of a body in the framing of AWS.
    trailer: str | None = None
    bucket: str = ""
    key: str = ""

    @property
    def target(self) -> str:
        """Path and query."""
        query = "&".join(name if value is None else f"{name}={value}" for name, value in self.query)
        return f"{self.path}?{query}" if self.query else self.path


@cache
def operations() -> list[tuple[str, str, str, str]]:
    """Name, method, address and header of each operation, the frequent ones more than once."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    rows = [tuple(line.split("\t")[:4]) for line in lines]
    all_rows: list[Any] = [*rows, *_OURS]
    return [row for row in all_rows for _ in range(8 if row[0] in _FREQUENT else 1)]


@cache
def _parameters(operation: str, location: str) -> list[tuple[str, tuple[str, ...]]]:
    """The names of an operation's parameters in the query or in headers, and values of them."""
    try:
        members = members_of(operation)
    except Exception:  # noqa: BLE001 - botocore's is no more specific: one of Orcas's own operations
        return []
    found = []
    for member in members.values():
        if member.serialization.get("location") == location:
            name = member.serialization["name"]
            found.append((name, (*_values_of(name), *(getattr(member, "enum", None) or ()))))
    return found


def _values_of(name: str) -> tuple[str, ...]:
    lower = name.lower()
    if lower in _VALUES:
        return _VALUES[lower]
    if "if-match" in lower or "if-none-match" in lower:
        return (*ETAGS[:3], "*", "x", ETAGS[1].strip('"'))
    if "since" in lower or "date" in lower:
        return _DATES
    if any(part in lower for part in ("max-", "number", "size", "length", "bytes")):
        return _NUMBERS
    if any(part in lower for part in ("prefix", "marker", "after")):
        return ("", "a", "a/", "k", "é", "\x01")
    return _ANYTHING


def encoded(rng: random.Random, text: str, safe: str) -> str:
    """`text` percent-encoded, now and then in a way that clients do not choose."""
    choice = rng.random()
    if choice < 0.9:
        return quote(text, safe=safe)
    if choice < 0.93:
        return quote(text, safe=safe + "+!$'()*,:;@=&")
    if choice < 0.96:
        return "".join(f"%{byte:02x}" for byte in text.encode())
    return quote(text, safe=safe) + rng.choice(
        ("%", "%z", "%zz", "%00", "%C3", "%ff", "+", "%2f", "%2e%2e", ";x", "%25")
    )


class Drawing:
    """Draws from one source of chance, over one scene."""

    def __init__(self, rng: random.Random, scene: Scene, known: Known) -> None:
        self.rng, self.scene, self.known = rng, scene, known

    def maybe(self, probability: float) -> bool:
        """True as often as that."""
        return self.rng.random() < probability

    def bucket(self) -> str:
        """A bucket, usually one that exists."""
        return self.rng.choice(_ABSENT if self.maybe(0.12) else BUCKETS)

    def key(self) -> str:
        """A key, usually one that exists."""
        return self.rng.choice(KEYS[:8] if self.maybe(0.7) else KEYS)

    def call(self) -> Plan:
        """One of the operations."""
        rng = self.rng
        operation, method, address, header = rng.choice(operations())
        path, _, query = address.partition("?")
        plan = Plan(operation, method, f"localhost:{rng.choice((9000, 9000, 80))}", "/", bucket=self.bucket())
        if path.count("/") == 1 and path != "/bucket":
            plan.bucket, plan.path = "", path
        else:
            plan.key = self.key() if path.count("/") > 1 else ""
            self.address(plan)
        for part in filter(None, query.split("&")):
            name, found, value = part.partition("=")
            plan.query.append((name, self.named(name, value, plan) if found else None))
        self._parameters(plan)
        if header:
            plan.headers.append((header, self.source()))
        if operation in CONTENT_OPERATIONS:
            self._content(plan)
        elif method in ("PUT", "POST"):
            plan.body = document(rng, operation, plan.bucket, self.scene.owner)
            if self.maybe(0.85):
                plan.headers.append(("content-md5", content_md5(plan.body)))
            elif self.maybe(0.5):
                plan.headers.append(("x-amz-checksum-sha256", checksum("SHA256", plan.body)))
        elif self.maybe(0.04):
            plan.body = rng.choice(CONTENTS[:4])
        self.sign(plan)
        return plan

    def address(self, plan: Plan) -> None:
        """Path and host of an address, in one of the styles."""
        choice = self.rng.random()
        key = encoded(self.rng, plan.key, "/-_.~")
        slash = "/" if plan.key or self.maybe(0.1) else ""
        if choice < 0.8:
            plan.path = f"/{encoded(self.rng, plan.bucket, '-_.~')}{slash}{key}"
            return
        plan.path = f"/{key}"
        domain = DOMAIN if choice < 0.92 else WEBSITES if choice < 0.95 else "localhost"
        plan.host = f"{plan.bucket}.{domain}{self.rng.choice(('', ':9000', ':', '.'))}"
        if self.maybe(0.1):
            plan.host = plan.host.upper()

    def named(self, name: str, value: str, plan: Plan) -> str:
        """A value of a parameter that says which operation it is."""
        if self.maybe(0.9):
            if name == "uploadId":
                return self.known.upload(self.rng, plan.bucket, plan.key)
            if name == "annotationName":
                return self.rng.choice(("x", "y"))
            return self.rng.choice(("1", "3", "2")) if name == "partNumber" else value
        return quote(self.rng.choice(_NUMBERS), safe="")

    def _parameters(self, plan: Plan) -> None:
        rng = self.rng
        for name, values in _parameters(plan.operation, "querystring"):
            if name == "versionId" and plan.bucket == "versioned" and self.maybe(0.4):
                plan.query.append((name, self.known.version(rng, plan.bucket, plan.key)))
            elif self.maybe(0.15):
                plan.query.append((name, encoded(rng, rng.choice(values), "-_.~")))
        if self.maybe(0.04):
            plan.query.append(
                (rng.choice(("x", "x-id", "versionId", "uploads", "acl", "cors", "", "events", "a%20b")), None)
            )
        for name, values in _parameters(plan.operation, "header"):
            if self.maybe(0.06):
                plan.headers.append((name, rng.choice(values).replace("{owner}", self.scene.owner)))
        if self.maybe(0.1):
            value = rng.choice(("1", "é", "", " a  b ", "\t", "x" * 2100))
            plan.headers.append((f"x-amz-meta-{rng.choice(('m', 'M-1', 'a.b', 'ü'))}", value))
        while self.maybe(0.2):
            plan.headers.append(rng.choice(_COMMON))

    def source(self) -> str:
        """The value of a header that names an object to copy."""
        bucket, key = self.bucket(), self.key()
        if key.startswith("z"):
            key = "k"
        form = self.rng.choice(("{}/{}", "/{}/{}", "{}%2F{}", "{}", "arn:aws:s3:::{}/{}"))
        text = form.format(bucket, encoded(self.rng, key, "/-_.~"))
        if self.maybe(0.2):
            text += f"?versionId={self.known.version(self.rng, bucket, key)}"
        return text

    def _content(self, plan: Plan) -> None:
        rng = self.rng
        content = plan.body = rng.choice(CONTENTS)
        algorithm = rng.choice(ALGORITHMS)
        if self.maybe(0.2):
            given = content if self.maybe(0.8) else b"other"
            value = base64.b64encode(DIGESTS[algorithm](given)).decode()
            plan.headers.append((f"x-amz-checksum-{algorithm.lower()}", value))
        if self.maybe(0.1):
            plan.headers.append(("content-md5", content_md5(content if self.maybe(0.8) else b"other")))
        if self.maybe(0.3):
            plan.signing = rng.choice(("streamed", "streamed with trailer", "unsigned with trailer"))
            plan.trailer = algorithm if plan.signing != "streamed" else None

    def sign(self, plan: Plan) -> None:
        """Who sends it, and how it says so."""
        plan.sender = self.rng.choice(_SENDERS)
        if plan.signing == "whole":
            plan.signing = self.rng.choice(_SIGNING)
        plan.chunks = bool(plan.body) and self.maybe(0.06)

    def form(self) -> Plan:
        """A form as browsers send them; its fields are signed instead of its head."""
        plan = Plan("PostObject", "POST", "localhost:9000", "/", bucket=self.bucket(), key=self.key(), signing="form")
        self.address(plan)
        if plan.path.startswith(f"/{plan.bucket}"):
            plan.path = f"/{plan.bucket}"
        plan.body, plan.sender = self.rng.choice(CONTENTS), self.rng.choice(_SENDERS)
        plan.chunks = self.maybe(0.1)
        return plan

    def question(self) -> Plan:
        """A browser's question whether it may send a request to another site."""
        plan = Plan("Options", "OPTIONS", "localhost:9000", "/", bucket=self.bucket(), key=self.key(), sender=None)
        self.address(plan)
        given = (
            ("origin", self.rng.choice(("http://a.example", "https://a.example", "null", ""))),
            ("access-control-request-method", self.rng.choice(("PUT", "GET", "PATCH", "get", ""))),
            ("access-control-request-headers", self.rng.choice(("x-amz-acl, X-Amz-Date", "content-type", ",", "é"))),
        )
        plan.headers = [pair for pair in given if self.maybe(0.85)]
        return plan

    def page(self) -> Plan:
        """What a visitor of a website asks for."""
        bucket = self.rng.choice(("public", "public", "public", "plain", "absent"))
        plan = Plan(
            "Website", self.rng.choice(("GET", "GET", "HEAD", "POST")), f"{bucket}.{WEBSITES}", "/", sender=None
        )
        plan.bucket, plan.key = bucket, self.rng.choice((*KEYS, "", ""))
        plan.path = f"/{encoded(self.rng, plan.key, '/-_.~')}"
        while self.maybe(0.3):
            plan.headers.append(self.rng.choice(_COMMON))
        if self.maybe(0.2):
            plan.headers.append(("range", self.rng.choice(_VALUES["range"])))
        return plan
