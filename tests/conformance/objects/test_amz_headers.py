"""Every `x-amz-*` header of a request is implemented, without effect, or refused by name; none is ignored.

The service model of botocore says which headers an operation takes. A header of the model that is not in the tables
below must be refused, and so must one that a newer model adds, until it is implemented and listed here.
"""

from __future__ import annotations

import uuid
from email.utils import formatdate
from typing import Any, Final

import botocore.session
import pytest
from tests.fixtures.checksums import ALGORITHMS
from tests.fixtures.operations import EXTENSIONS, IMPLEMENTED, Call, Scene, make_scene, send
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

NOW: Final = "now"
_CONDITIONS: Final = {
    "if-match": "x",
    "if-none-match": "*",
    # The time of the request: one that is still to come is ignored.
    "if-modified-since": NOW,
    "if-unmodified-since": "Fri, 01 Jan 1971 00:00:00 GMT",
}
# Headers that Orcas implements, each with a value that its operations must not accept.
IMPLEMENTED_HEADERS: Final = {
    **{f"x-amz-checksum-{name}": "x" for name in ("algorithm", "mode", "type")},
    **{f"x-amz-checksum-{name.lower()}": "x" for name in ALGORITHMS},
    **{f"x-amz-copy-source-{name}": value for name, value in _CONDITIONS.items()},
    **{f"x-amz-rename-source-{name}": value for name, value in _CONDITIONS.items()},
    "x-amz-client-token": "x y",
    "x-amz-copy-source": "x",
    "x-amz-copy-source-range": "x",
    "x-amz-expected-bucket-owner": "x",
    "x-amz-if-match-last-modified-time": "x",
    "x-amz-if-match-size": "x",
    "x-amz-metadata-directive": "x",
    "x-amz-mp-object-size": "1",
    "x-amz-object-annotation-directive": "x",
    "x-amz-object-attributes": "x",
    "x-amz-object-if-match": "x",
    "x-amz-part-number-marker": "x",
    "x-amz-rename-source": "",
    "x-amz-sdk-checksum-algorithm": "x",
    "x-amz-source-expected-bucket-owner": "x",
    "x-amz-server-side-encryption": "x",
    **{f"x-amz-server-side-encryption-{name}": "x" for name in ("aws-kms-key-id", "bucket-key-enabled", "context")},
    **{
        f"x-amz-{of}server-side-encryption-customer-{name}": "x"
        for of in ("", "copy-source-")
        for name in ("algorithm", "key", "key-md5")
    },
    "x-amz-bucket-object-lock-enabled": "x",
    "x-amz-bypass-governance-retention": "x",
    "x-amz-object-lock-legal-hold": "x",
    "x-amz-object-lock-mode": "x",
    "x-amz-object-ownership": "x",
    "x-amz-object-lock-retain-until-date": "x",
    "x-amz-storage-class": "x",
    "x-amz-tagging": "a=1&a=2",
    "x-amz-tagging-directive": "x",
    "x-amz-transition-default-minimum-object-size": "x",
    "x-amz-website-redirect-location": "x",
    "x-amz-write-offset-bytes": "x",
}
# Headers whose every value is accepted.
FREE: Final = {
    # Root may always change a policy.
    "x-amz-confirm-remove-self-bucket-access",
    "x-amz-max-parts",
    "x-amz-meta-",
    "x-amz-optional-object-attributes",
    "x-amz-request-payer",
}
# Headers of which some values are implemented: one of these, and one that is refused.
VALUES: Final = {
    "x-amz-bucket-namespace": ("global", "account-regional"),
}
# ACLs of new buckets are disabled.
ACLS: Final = {
    "x-amz-acl", "x-amz-grant-full-control", "x-amz-grant-read", "x-amz-grant-read-acp", "x-amz-grant-write",
    "x-amz-grant-write-acp",
}  # fmt: skip
# One that gives everybody something.
PUBLIC: Final = {"x-amz-acl": "public-read"}
GRANT: Final = "uri=http://acs.amazonaws.com/groups/global/AllUsers"
ACLS_400: Final = {"AccessControlListNotSupported", "InvalidBucketAclWithObjectOwnership"}
# Headers of clients and proxies, which are in no model.
HARMLESS: Final = (
    "x-amz-user-agent",
    "x-amz-api-version",
    "x-amz-te",
    "x-amz-cf-id",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amz-sdk-request",
)
UNKNOWN: Final = ("x-amz-unheard-of", "x-amz-mfa-2", "x-amz-meta")
MODELLED: Final = [name for name in IMPLEMENTED if name not in EXTENSIONS]


def headers_of(operation: str) -> list[str]:
    """The `x-amz-*` headers that the service model gives an operation, in lower case."""
    shape = botocore.session.get_session().get_service_model("s3").operation_model(operation).input_shape
    members = [] if shape is None else [member.serialization for member in shape.members.values()]
    names = [at["name"].lower() for at in members if at.get("location") in {"header", "headers"}]
    return sorted(name for name in names if name.startswith("x-amz-"))


def cases() -> list[tuple[str, str]]:
    return [(operation, header) for operation in MODELLED for header in headers_of(operation)]


class Asker:
    """Sends the call of an operation with additional headers, into a new scene each time."""

    def __init__(self, wire: Wire, s3: Any) -> None:
        self.wire = wire
        self.s3 = s3

    def scene(self) -> Scene:
        bucket = f"t-{uuid.uuid4().hex}"
        self.s3.create_bucket(Bucket=bucket)
        return make_scene(self.s3, bucket)

    def __call__(self, operation: str, headers: dict[str, str], scene: Scene | None = None) -> Answer:
        call = IMPLEMENTED[operation]
        more = Call(call.method, call.path, call.query, call.headers | headers, call.body)
        answer = send(self.wire, scene or self.scene(), more)
        assert isinstance(answer, Answer)
        return answer


@pytest.fixture
def ask(wire: Wire, s3: Any) -> Asker:
    return Asker(wire, s3)


def is_refused(answer: Answer, operation: str, header: str) -> bool:
    """Whether the answer says that the named header is not implemented."""
    if answer.status != 501:
        return False
    return IMPLEMENTED[operation].method == "HEAD" or header in answer.error["Message"]


def test_the_tables_name_each_header_of_the_model_once() -> None:
    model = {name for operation in MODELLED for name in headers_of(operation)}
    listed = [*IMPLEMENTED_HEADERS, *FREE, *VALUES, *ACLS]
    assert set(listed) <= model
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(("operation", "header"), cases())
def test_headers_of_the_service_model(ask: Asker, operation: str, header: str) -> None:
    succeeds = IMPLEMENTED[operation].succeeds
    if header in IMPLEMENTED_HEADERS:
        value = IMPLEMENTED_HEADERS[header]
        scene = ask.scene()
        answer = ask(operation, {header: formatdate(usegmt=True) if value == NOW else value}, scene)
        assert 400 <= answer.status < 500, answer.body
    elif header in FREE:
        name = header + "x" if header.endswith("-") else header
        assert ask(operation, {name: "1"}).status == succeeds
    elif header in ACLS:
        # Beside the ACL that the request has, grants are an error of their own.
        both = header != "x-amz-acl" and "x-amz-acl" in IMPLEMENTED[operation].headers
        codes = {"InvalidRequest"} if both else ACLS_400
        assert ask(operation, {header: PUBLIC.get(header, GRANT)}).code in codes
    elif header in VALUES:
        accepted, refused = VALUES[header]
        assert ask(operation, {header: accepted}).status == succeeds
        assert is_refused(ask(operation, {header: refused}), operation, header)
    else:
        assert is_refused(ask(operation, {header: "1"}), operation, header)


@pytest.mark.parametrize("operation", IMPLEMENTED)
def test_headers_of_no_model(ask: Asker, operation: str) -> None:
    scene = ask.scene()
    before = scene.state()
    for header in UNKNOWN:
        assert is_refused(ask(operation, {header: "1"}, scene), operation, header), header
    assert ask(operation, {"x-amz-checksum-crc33": "1"}, scene).status == 400
    assert scene.state() == before
    assert ask(operation, dict.fromkeys(HARMLESS, "1"), scene).status == IMPLEMENTED[operation].succeeds


def test_a_copy_of_a_range_and_a_move_that_changes_metadata_are_refused(ask: Asker) -> None:
    for operation, header, value in (
        ("CopyObject", "x-amz-copy-source-range", "bytes=0-1"),
        ("MoveObject", "x-amz-copy-source-range", "bytes=0-1"),
        ("MoveObject", "x-amz-metadata-directive", "REPLACE"),
        ("MoveObject", "x-amz-checksum-algorithm", "SHA256"),
    ):
        assert is_refused(ask(operation, {header: value}), operation, header), (operation, header)


@pytest.mark.parametrize("version", ["presign", "presign_version_two"])
def test_a_presigned_query_is_held_to_the_same(wire: Wire, s3: Any, bucket: str, version: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for header, value, status in (
        ("x-amz-bypass-governance-retention", "x", 400),
        ("X-Amz-Mfa", "serial 123456", 501),
        ("x-amz-unheard-of", "1", 501),
        ("x-amz-user-agent", "1", 204),
    ):
        name = header if version == "presign" else header.lower()
        if version == "presign":
            url = wire.presign("DELETE", f"/{bucket}/k", f"{name}={value.replace(' ', '%20')}")
        else:
            url = wire.presign_version_two("DELETE", f"/{bucket}/k", headers={name: value})
        assert wire.send("DELETE", url, {"Host": wire.netloc}).status == status, header
