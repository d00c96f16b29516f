"""Errors as S3 answers them, about arguments: those that conflict, that no header can show and that are no numbers,
documents with characters that XML forbids, and copies that change nothing.

The rows follow answers of S3 that others have recorded: <https://github.com/versity/versitygw> (its issues 1215, 1398,
1423, 1554, 1601, 1656, 1806, 2075 and 2155, and `tests/integration`), <https://github.com/localstack/localstack> (copies),
<https://github.com/brekkylab/backlot> (conflicting parameters).
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

import pytest
from tests.fixtures.signing import UNSIGNED_TRAILER
from tests.fixtures.tables.error_cases import MALFORMED, Case, argument, lock, make_scene, parts, retention, tags
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

TAGGING_FORM = (
    "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name "
    "duplicates."
)
NOT_LATIN = "Header value cannot be represented using ISO-8859-1."
ONTO_ITSELF = (
    "This copy request is illegal because it is trying to copy an object to itself without changing the object's "
    "metadata, storage class, website redirect location or encryption attributes."
)


def conflict(request: str, *names: str) -> Case:
    return Case(request, 400, "InvalidArgument", f"Conflicting query string parameters: {', '.join(names)}",
                fields=argument("ResourceType", names[0]))  # fmt: skip


def website(condition: str, redirect: str) -> str:
    inner = f"<Condition>{condition}<KeyPrefixEquals>a</KeyPrefixEquals></Condition><Redirect>{redirect}</Redirect>"
    rule = f"<RoutingRules><RoutingRule>{inner}</RoutingRule></RoutingRules>"
    index = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>"
    return f"<WebsiteConfiguration>{index}{rule}</WebsiteConfiguration>"


CONFLICTS = [
    # In alphabetical order, whatever their order in the query.
    conflict("GET /{b}?policy&acl", "acl", "policy"),
    conflict("PUT /{b}?versioning&tagging=&acl", "acl", "tagging", "versioning"),
    conflict("GET /{b}?uploads&uploadId={u}", "uploadId", "uploads"),
    conflict("GET /{b}-none?uploads&versions", "uploads", "versions"),
    conflict("POST /{b}/up?uploads&uploadId={u}", "uploadId", "uploads"),
    conflict("DELETE /{b}/up?uploadId={u}&tagging", "tagging", "uploadId"),
    conflict("PUT /{b}/up?acl&partNumber=2&uploadId={u}", "acl", "partNumber", "uploadId"),
    conflict("GET /{b}/k?partNumber=1&tagging", "partNumber", "tagging"),
    conflict("GET /{b}/k?annotationName=a&acl", "acl", "annotationName"),
    Case("GET /{b}?uploadId={u}", 400, "InvalidRequest", "A key must be specified"),
    Case("PUT /{b}?partNumber=1", 400, "InvalidRequest", "Object must have a valid key name."),
    Case("POST /{b}?uploadId={u}", 400, "InvalidArgument",
         "You can only specify a copy source header for copy requests.", headers={"x-amz-copy-source": "{b}/k"},
         fields=argument("x-amz-copy-source", "{b}/k")),
    Case("PUT /{b}?partNumber=1&uploadId={u}", 405, "MethodNotAllowed",
         fields={"Method": "PUT", "ResourceType": "PART"}),
]  # fmt: skip

OVERRIDES = [
    *(
        Case(f"GET /{{b}}/k?response-{name}={quote(value)}", 400, "InvalidArgument", NOT_LATIN,
             fields=argument(f"response-{name}", value))
        for name, value in [
            ("content-type", "text/\u2013"), ("content-encoding", "\u6587"), ("content-language", "\U0001f451"),
            ("content-disposition", 'attachment; filename="a \u2013 b"'), ("cache-control", "\u0142"),
            ("expires", "\u20ac"),
        ]
    ),
    *(
        Case(f"GET /{{b}}/k?response-content-disposition={escape}", 400, "InvalidArgument", NOT_LATIN)
        for escape in ("a%0D%0Ab:c", "%00", "%1B", "%7F", "%E9")
    ),
    *(
        Case(f"GET /{{b}}/k?{name}=dummy", 400, "InvalidArgument",
             f"{name} is not in the set of overridable response headers. Please refer to the S3 API documentation for "
             "a complete list of overridable response headers.", fields=argument(name, "dummy"))
        for name in ("response-gibberish", "response-", "response-Content-Type", "response-etag")
    ),
]  # fmt: skip

HEADERS = [
    *(
        Case("PUT /{b}/new", 400, "InvalidArgument", TAGGING_FORM, headers={"x-amz-tagging": value}, body="x",
             fields=argument("x-amz-tagging", value))
        for value in ("=", "=a", "a=b&=", "a%", "a=%E9")
    ),
    Case("POST /{b}/up?uploads", 400, "InvalidArgument", TAGGING_FORM, headers={"x-amz-tagging": "="}),
    Case("PUT /{b}/new", 411, "MissingContentLength", "You must provide the Content-Length HTTP header.",
         headers={"x-amz-decoded-content-length": "x", "x-amz-trailer": "x-amz-checksum-crc32"}, body="0",
         payload=UNSIGNED_TRAILER),
    Case("PUT /{b}/new", 400, "InvalidArgument",
         "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
         "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "
         "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 "
         "value.", body="x", payload="none", fields=argument("x-amz-content-sha256", "none")),
    Case("PUT /{b}/new", 400, "XAmzContentSHA256Mismatch",
         "The provided 'x-amz-content-sha256' header does not match what was computed.", body="x", payload="0" * 64,
         fields={"ClientComputedContentSHA256": "0" * 64,
                 "S3ComputedContentSHA256": hashlib.sha256(b"x").hexdigest()}),
    *(
        Case(request, 400, "InvalidRequest", "The value of x-amz-content-sha256 header is invalid.", body="0",
             payload=UNSIGNED_TRAILER)
        for request in ("PUT /{b}?ownershipControls", "PUT /{b}?tagging", "PUT /{b}/k?tagging", "POST /{b}?delete")
    ),
    *(
        Case("POST /{b}/up?uploadId={u}", 400, "InvalidRequest",
             f"Value for x-amz-mp-object-size header is {fault}: '{value}'", headers={"x-amz-mp-object-size": value},
             body=parts((1, "{etag}")))
        for value, fault in [("size", "invalid"), ("1.0", "invalid"), ("-1", "less than zero")]
    ),
]  # fmt: skip

COPIES = [
    # A name for what is so anyway is no change, unless it is one of those that the message lists.
    *(
        Case("PUT /{b}/k", 400, "InvalidRequest", ONTO_ITSELF, headers={"x-amz-copy-source": "{b}/k", **headers})
        for headers in (
            {}, {"x-amz-metadata-directive": "COPY"}, {"x-amz-acl": "private"}, {"x-amz-tagging-directive": "REPLACE"},
        )
    ),
    Case("PUT /{b}/copy", 400, "MetadataTooLarge",
         headers={"x-amz-copy-source": "{b}/k", "x-amz-meta-a": "v" * 2048},
         fields={"Size": "2049", "MaxSizeAllowed": "2048"}),
]  # fmt: skip

WEBSITES = [
    Case("PUT /{b}?website", 400, "InvalidArgument", "The ErrorDocument Key is not well formed",
         body="<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key/>"
         "</ErrorDocument></WebsiteConfiguration>", fields=argument("ErrorDocument", "")),
    *(
        Case("PUT /{b}?website", 400, code, message,
             body=website(f"<HttpErrorCodeReturnedEquals>{error}</HttpErrorCodeReturnedEquals>",
                          f"<HttpRedirectCode>{redirect}</HttpRedirectCode>"))
        for error, redirect, code, message in [
            ("418", "301", "InvalidRequest",
             "The provided HTTP error code (418) is not valid. Valid codes are 4XX or 5XX."),
            ("404", "306", "InvalidRequest",
             "The provided HTTP redirect code (306) is not valid. Valid codes are 3XX except 300."),
            ("4xx", "301", "MalformedXML", MALFORMED),
            ("404", "x", "MalformedXML", MALFORMED),
        ]
    ),
]  # fmt: skip

# One for each operation that reads a document, which is right but for the character in the place of `~`.
DOCUMENTS = {
    "PUT /{b}-2": "<CreateBucketConfiguration><LocationConstraint>eu-west-1~</LocationConstraint>"
    "</CreateBucketConfiguration>",
    "POST /{b}?delete": "<Delete><Object><Key>k</Key></Object><Object><Key>k~</Key></Object></Delete>",
    "POST /{v}?delete": "<Delete><Quiet>true</Quiet><Object><Key>k~</Key></Object></Delete>",
    "POST /{b}/up?uploadId={u}": parts((1, "{etag}~")),
    "POST /{b}/k?restore": "<RestoreRequest><Days>1~</Days></RestoreRequest>",
    "PUT /{b}/k?tagging": tags(("a~", "b")),
    "PUT /{b}?abac": "<AbacStatus><Status>Disabled~</Status></AbacStatus>",
    "PUT /{b}?accelerate": "<AccelerateConfiguration><Status>Suspended~</Status></AccelerateConfiguration>",
    "PUT /{b}?cors": "<CORSConfiguration><CORSRule><ID>a~</ID><AllowedOrigin>*</AllowedOrigin>"
    "<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
    "PUT /{b}?lifecycle": "<LifecycleConfiguration><Rule><Filter><Prefix>a~</Prefix></Filter><Status>Enabled</Status>"
    "<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
    "PUT /{b}?logging": "<BucketLoggingStatus><LoggingEnabled><TargetBucket>{b}</TargetBucket>"
    "<TargetPrefix>a~</TargetPrefix></LoggingEnabled></BucketLoggingStatus>",
    "PUT /{b}?notification": "<NotificationConfiguration><QueueConfiguration><Id>a~</Id><Queue>arn:aws:sqs:::a</Queue>"
    "<Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>",
    "PUT /{b}?ownershipControls": "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter~</ObjectOwnership></Rule>"
    "</OwnershipControls>",
    "PUT /{b}?publicAccessBlock": "<PublicAccessBlockConfiguration><BlockPublicAcls>true~</BlockPublicAcls>"
    "</PublicAccessBlockConfiguration>",
    "PUT /{b}?requestPayment": "<RequestPaymentConfiguration><Payer>Requester~</Payer></RequestPaymentConfiguration>",
    "PUT /{b}?tagging": tags(("a", "b~")),
    "PUT /{b}?versioning": "<VersioningConfiguration><Status>Enabled~</Status></VersioningConfiguration>",
    "PUT /{b}?website": website("", "<ReplaceKeyWith>a~</ReplaceKeyWith>"),
    "PUT /{l}?object-lock": lock("<Days>1~</Days>"),
    "PUT /{l}/k?legal-hold": "<LegalHold><Status>ON~</Status></LegalHold>",
    "PUT /{l}/k?retention": retention("2099-01-01T00:00:00Z~"),
}
FORBIDDEN = [
    *(
        Case(request, 400, "MalformedXML", MALFORMED, body=document.replace("~", character))
        for request, document in DOCUMENTS.items()
        for character in ("\x10", "&#x10;")
    ),
    *(
        Case("POST /{b}?delete", 400, "MalformedXML", MALFORMED,
             body=f"<Delete><Object><Key>k</Key></Object><Object><Key>{text}</Key></Object></Delete>")
        for text in ("\0", "&#0;", "&#31;", "\ufffe", "&#xFFFF;", "<!--\x01-->a", "<![CDATA[\x02]]>")
    ),
    Case("PUT /{b}?acl", 400, "MalformedACLError", MALFORMED,
         body="<AccessControlPolicy><Owner><ID>&#x10;</ID></Owner></AccessControlPolicy>"),
]  # fmt: skip

TABLE = [*CONFLICTS, *OVERRIDES, *HEADERS, *COPIES, *WEBSITES, *FORBIDDEN]


@pytest.fixture(scope="module")
def scene(targets: Any) -> dict[str, str]:
    return make_scene(targets("disk").client())


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_an_error_is_that_of_s3(wire: Wire, scene: dict[str, str], case: Case) -> None:
    case.check(wire, scene)


def test_an_error_of_a_head_has_the_status_alone(wire: Wire, scene: dict[str, str]) -> None:
    for query in ("response-gibberish=a", "response-expires=%E2%80%93", "response-expires=%0A", "acl&tagging"):
        answer = wire("HEAD", f"/{scene['b']}/k", query)
        assert (answer.status, answer.body) == (400, b""), query


def test_the_table_changes_nothing(wire: Wire, scene: dict[str, str]) -> None:
    def entries(name: str) -> list[str]:
        document = wire("GET", f"/{scene[name]}", "versions").document()
        return [entry.tag for entry in document if entry.find("Key") is not None]

    assert [entries(name) for name in "bvl"] == [["Version"], ["DeleteMarker", "Version"], ["Version"]]
    assert wire("HEAD", f"/{scene['b']}-2").status == 404
