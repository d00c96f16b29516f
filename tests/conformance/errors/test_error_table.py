"""Errors as S3 answers them: status, code, message and the further elements of the document.

The rows follow the API reference of AWS and answers of S3 that others have recorded, above all
<https://github.com/localstack/localstack/tree/main/tests/aws/services/s3> (`*.snapshot.json`).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.fixtures.tables.error_cases import MALFORMED, Case, argument, lock, make_scene, parts, retention, tags
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

OTHER_MD5 = base64.b64encode(bytes(16)).decode()
BODY_MD5 = base64.b64encode(hashlib.md5(b"0123456789", usedforsecurity=False).digest()).decode()
UNKNOWN_VERSION = "0f" * 16
UNKNOWN_UPLOAD = "0e" * 16
EVERYBODY = "uri=http://acs.amazonaws.com/groups/global/AllUsers"
RANGE_FORM = (
    "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based "
    "offsets of the first and last bytes to copy"
)
TAGGING_FORM = (
    "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name "
    "duplicates."
)
NO_PART = (
    "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified "
    "entity tag may not match the part's entity tag."
)
NO_BYTES_MD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="
RESTORE = "<RestoreRequest><Days>1</Days></RestoreRequest>"
NO_HEADER = "A header you provided implies functionality that is not implemented"
TWO_CONDITIONS = "Multiple conditional request headers present in the request"
NO_UPLOAD = (
    "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
    "completed."
)


def no_value(header: str) -> dict[str, str]:
    message = f"We don't accept the provided value of {header} header for this API"
    return {"Header": header, "additionalMessage": message}


def acl(owner: str, permission: str) -> str:
    grant = f"<Grant><Grantee><ID>wrong-id</ID></Grantee><Permission>{permission}</Permission></Grant>"
    grants = f"<AccessControlList>{grant}</AccessControlList>"
    return f"<AccessControlPolicy><Owner><ID>{owner}</ID></Owner>{grants}</AccessControlPolicy>"


NAMES = [
    Case("GET /{b}-none", 404, "NoSuchBucket", "The specified bucket does not exist", fields={"BucketName": "{b}-none"}),
    Case("GET /{b}-none/k", 404, "NoSuchBucket", fields={"BucketName": "{b}-none"}),
    Case("PUT /{b}-none/k", 404, "NoSuchBucket", body="x", fields={"BucketName": "{b}-none"}),
    Case("DELETE /{b}", 409, "BucketNotEmpty", "The bucket you tried to delete is not empty",
         fields={"BucketName": "{b}"}),
    Case("DELETE /{v}", 409, "BucketNotEmpty",
         "The bucket you tried to delete is not empty. You must delete all versions in the bucket.",
         fields={"BucketName": "{v}"}),
    Case("PUT /Upper", 400, "InvalidBucketName", "The specified bucket is not valid.", fields={"BucketName": "Upper"}),
    Case("PUT /192.168.5.4", 400, "InvalidBucketName", fields={"BucketName": "192.168.5.4"}),
    *(Case(f"PUT /{name}", 400, "InvalidBucketName") for name in ("xn--a", "a..b", "ab")),
    Case("GET /{b}/none", 404, "NoSuchKey", "The specified key does not exist.", fields={"Key": "none"}),
    Case("GET /{b}/none?tagging", 404, "NoSuchKey", fields={"Key": "none"}),
    Case("PUT /{b}/none?tagging", 404, "NoSuchKey", body=tags(("a", "b")), fields={"Key": "none"}),
    Case("DELETE /{b}/none?tagging", 404, "NoSuchKey", fields={"Key": "none"}),
    Case("GET /{b}/none?acl", 404, "NoSuchKey", fields={"Key": "none"}),
    Case("GET /{b}/none?attributes", 404, "NoSuchKey", headers={"x-amz-object-attributes": "ETag"},
         fields={"Key": "none"}),
    Case(f"GET /{{v}}/k?versionId={UNKNOWN_VERSION}", 404, "NoSuchVersion", "The specified version does not exist.",
         fields={"Key": "k", "VersionId": UNKNOWN_VERSION}),
    Case(f"PUT /{{v}}/k?tagging&versionId={UNKNOWN_VERSION}", 404, "NoSuchVersion", body=tags(("a", "b")),
         fields={"Key": "k", "VersionId": UNKNOWN_VERSION}),
    Case("GET /{v}/k?versionId=nonsense", 400, "InvalidArgument", "Invalid version id specified",
         fields=argument("versionId", "nonsense")),
    Case("GET /{v}/k?versionId=", 400, "InvalidArgument", "Version id cannot be the empty string"),
    Case("GET /{v}/k?versionId={marker}", 405, "MethodNotAllowed",
         "The specified method is not allowed against this resource.",
         fields={"Method": "GET", "ResourceType": "DeleteMarker"}),
    Case("PUT /{v}/k?tagging&versionId={marker}", 405, "MethodNotAllowed", body=tags(("a", "b")),
         fields={"Method": "PUT", "ResourceType": "DeleteMarker"}),
    *(
        Case(request, 405, "MethodNotAllowed", body=body,
             fields={"Method": request.partition(" ")[0], "ResourceType": "DeleteMarker"})
        for request, body in [
            ("GET /{v}/k?tagging", ""), ("PUT /{v}/k?tagging", tags(("a", "b"))), ("DELETE /{v}/k?tagging", ""),
        ]
    ),
    Case("PUT /{v}/k?acl", 405, "MethodNotAllowed", headers={"x-amz-acl": "private"},
         fields={"Method": "PUT", "ResourceType": "DeleteMarker"}),
    Case("GET /{v}/k?acl", 404, "NoSuchKey", fields={"Key": "k"}),
    Case("DELETE /{v}/k?tagging&versionId={marker}", 405, "MethodNotAllowed",
         fields={"Method": "DELETE", "ResourceType": "DeleteMarker"}),
    Case("GET /{b}/" + "k" * 1025, 400, "KeyTooLongError", "Your key is too long",
         fields={"Size": "1025", "MaxSizeAllowed": "1024"}),
    Case("GET /{b}/%ff", 400, "InvalidURI", "Couldn't parse the specified URI."),
]  # fmt: skip

METHODS = [
    Case("DELETE /", 405, "MethodNotAllowed", fields={"Method": "DELETE", "ResourceType": "SERVICE"}),
    Case("PATCH /{b}", 405, "MethodNotAllowed", fields={"Method": "PATCH", "ResourceType": "BUCKET"}),
    Case("PATCH /{b}/k", 405, "MethodNotAllowed", fields={"Method": "PATCH", "ResourceType": "OBJECT"}),
    Case("POST /{b}/k", 405, "MethodNotAllowed", fields={"Method": "POST", "ResourceType": "OBJECT"}),
    Case("DELETE /{b}?acl", 405, "MethodNotAllowed", fields={"Method": "DELETE", "ResourceType": "BUCKET"}),
    Case("DELETE /{b}?versioning", 405, "MethodNotAllowed"),
    Case("POST /{b}?location", 405, "MethodNotAllowed"),
    Case("PUT /{b}/k?torrent", 405, "MethodNotAllowed"),
    Case("PUT /{b}/k?uploadId={u}", 405, "MethodNotAllowed", body="x",
         fields={"Method": "PUT", "ResourceType": "UPLOAD"}),
    Case("PUT /{b}/k?partNumber=1", 400, "InvalidArgument",
         "This operation does not accept partNumber without uploadId", body="x",
         fields=argument("partNumber", "partNumber")),
    Case("GET /{b}/k?versions", 400, "InvalidRequest",
         "There is no such thing as the ?versions sub-resource for a key"),
    Case("GET /{b}/k?policy", 400, "InvalidRequest", "There is no such thing as the ?policy sub-resource for a key"),
    Case("GET /{b}/k?uploads", 400, "InvalidRequest", "Key is not expected for the GET method ?uploads subresource"),
    Case("GET /{b}?torrent", 400, "InvalidRequest"),
    Case("GET /?acl", 400, "InvalidRequest"),
    Case("GET /{b}?acl&policy", 400, "InvalidArgument", "Conflicting query string parameters: acl, policy",
         fields={"ArgumentName": "ResourceType"}),
    Case("POST /{b}", 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold",
         body="x", fields={"Condition": "Bucket POST must be of the enclosure-type multipart/form-data"}),
    Case("GET /{b}/k", 400, "InvalidArgument", "You can only specify a copy source header for copy requests.",
         headers={"x-amz-copy-source": "{b}/k"}, fields=argument("x-amz-copy-source", "{b}/k")),
]  # fmt: skip

LISTS = [
    Case("GET /{b}?max-keys=-1", 400, "InvalidArgument",
         "Argument maxKeys must be an integer between 0 and 2147483647", fields=argument("maxKeys", "-1")),
    Case("GET /{b}?list-type=2&max-keys=x", 400, "InvalidArgument",
         "Provided max-keys not an integer or within integer range", fields=argument("max-keys", "x")),
    Case("GET /{b}?encoding-type=", 400, "InvalidArgument", "Invalid Encoding Method specified in Request",
         fields={"ArgumentName": "encoding-type"}),
    Case("GET /{b}?list-type=2&encoding-type=x", 400, "InvalidArgument",
         "Invalid Encoding Method specified in Request", fields=argument("encoding-type", "x")),
    Case("GET /{b}?list-type=2&continuation-token=x", 400, "InvalidArgument",
         "The continuation token provided is incorrect", fields={"ArgumentName": "continuation-token"}),
    Case("GET /{b}?versions&version-id-marker=null", 400, "InvalidArgument",
         "A version-id marker cannot be specified without a key marker.",
         fields={"ArgumentName": "version-id-marker"}),
    Case("GET /{b}?versions&key-marker=a&version-id-marker=", 400, "InvalidArgument",
         "A version-id marker cannot be empty.", fields={"ArgumentName": "version-id-marker"}),
    Case("GET /{b}?uploads&max-uploads=-1", 400, "InvalidArgument",
         "Argument max-uploads must be an integer between 0 and 2147483647"),
    Case("GET /{b}?uploads&key-marker=a&upload-id-marker=x", 400, "InvalidArgument", "Invalid uploadId marker",
         fields=argument("upload-id-marker", "x")),
    Case("GET /?max-buckets=0", 400, "InvalidArgument",
         "Argument max-buckets must be an integer between 1 and 10000.", fields=argument("max-buckets", "0")),
]  # fmt: skip

READS = [
    Case("GET /{b}/k", 416, "InvalidRange", "The requested range is not satisfiable", headers={"Range": "bytes=100-200"},
         fields={"RangeRequested": "bytes=100-200", "ActualObjectSize": "10"}),
    Case("GET /{b}/k", 416, "InvalidRange", headers={"Range": "bytes=-0"},
         fields={"RangeRequested": "bytes=-0", "ActualObjectSize": "10"}),
    Case("GET /{b}/k?partNumber=2", 416, "InvalidPartNumber", "The requested partnumber is not satisfiable",
         fields={"ActualPartCount": "1", "PartNumberRequested": "2"}),
    Case("GET /{b}/k?partNumber=0", 400, "InvalidArgument",
         "Part number must be an integer between 1 and 10000, inclusive", fields=argument("partNumber", "0")),
    Case("GET /{b}/k?partNumber=1", 400, "InvalidRequest",
         "Cannot specify both Range header and partNumber query parameter", headers={"Range": "bytes=0-1"}),
    Case("GET /{b}/k", 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold",
         headers={"If-Match": '"x"'}, fields={"Condition": "If-Match"}),
    Case("GET /{b}/k", 412, "PreconditionFailed", headers={"If-Unmodified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"},
         fields={"Condition": "If-Unmodified-Since"}),
    Case("GET /{b}/k?attributes", 400, "InvalidRequest",
         "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty"),
    Case("GET /{b}/k?attributes", 400, "InvalidArgument", "Invalid attribute name specified.",
         headers={"x-amz-object-attributes": "Colour"}, fields={"ArgumentName": "x-amz-object-attributes"}),
    *(
        Case(request, 400, "InvalidArgument", "x-amz-server-side-encryption header is not supported for this operation.",
             headers={"x-amz-server-side-encryption": "AES256"}, body=body,
             fields=argument("x-amz-server-side-encryption", "AES256"))
        for request, body in [("GET /{b}/k", ""), ("PUT /{b}/up?partNumber=1&uploadId={u}", "x")]
    ),
    Case("GET /{b}/k", 400, "InvalidRequest", "Value for x-amz-checksum-mode header is invalid.",
         headers={"x-amz-checksum-mode": "DISABLED"}),
]  # fmt: skip

UPLOADS = [
    Case("PUT /{b}/new", 400, "InvalidDigest", "The Content-MD5 you specified was invalid.",
         headers={"Content-MD5": "000"}, body="0123456789", fields={"Content-MD5": "000"}),
    Case("PUT /{b}/new", 400, "BadDigest", "The Content-MD5 you specified did not match what we received.",
         headers={"Content-MD5": OTHER_MD5}, body="0123456789",
         fields={"ExpectedDigest": "0" * 32, "CalculatedDigest": BODY_MD5}),
    Case("PUT /{b}/new", 400, "BadDigest", "The CRC32 you specified did not match the calculated checksum.",
         headers={"x-amz-checksum-crc32": "AAAAAA=="}, body="0123456789"),
    Case("PUT /{b}/new", 400, "InvalidRequest", "Value for x-amz-checksum-sha256 header is invalid.",
         headers={"x-amz-checksum-sha256": "bad"}, body="0123456789"),
    Case("PUT /{b}/new", 400, "InvalidRequest",
         "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
         headers={"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="}, body="x"),
    Case("PUT /{b}/new", 400, "InvalidStorageClass", "The storage class you specified is not valid",
         headers={"x-amz-storage-class": "OUTPOSTS"}, body="x", fields={"StorageClassRequested": "OUTPOSTS"}),
    Case("PUT /{b}/new", 400, "InvalidArgument", TAGGING_FORM, headers={"x-amz-tagging": "a=1&a=2"}, body="x",
         fields=argument("x-amz-tagging", "a=1&a=2")),
    Case("PUT /{b}/new", 400, "InvalidTag", "Your TagKey cannot be prefixed with aws:",
         headers={"x-amz-tagging": "aws%3Aa=1"}, body="x", fields={"TagKey": "aws:a"}),
    Case("PUT /{b}/new", 400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size",
         headers={"x-amz-meta-a": "v" * 2048}, body="x", fields={"Size": "2049", "MaxSizeAllowed": "2048"}),
    Case("PUT /{b}/new", 400, "InvalidRedirectLocation",
         "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
         headers={"x-amz-website-redirect-location": "x"}, body="x"),
    Case("PUT /{b}/new", 400, "InvalidArgument", headers={"x-amz-acl": "fake-acl"}, body="x",
         fields=argument("x-amz-acl", "fake-acl")),
    Case("PUT /{b}/new", 400, "AccessControlListNotSupported", "The bucket does not allow ACLs",
         headers={"x-amz-acl": "public-read"}, body="x"),
    Case("PUT /{b}/new", 400, "AccessControlListNotSupported", headers={"x-amz-grant-read": EVERYBODY}, body="x"),
    Case("PUT /{b}/k", 412, "PreconditionFailed", headers={"If-None-Match": "*"}, body="x",
         fields={"Condition": "If-None-Match"}),
    Case("PUT /{b}/k", 412, "PreconditionFailed", headers={"If-Match": '"x"'}, body="x",
         fields={"Condition": "If-Match"}),
    Case("PUT /{b}/none", 404, "NoSuchKey", headers={"If-Match": '"x"'}, body="x", fields={"Key": "none"}),
    Case("PUT /{b}/k", 501, "NotImplemented", NO_HEADER, headers={"If-None-Match": '"x"'}, body="x",
         fields=no_value("If-None-Match")),
    Case("PUT /{b}/k", 501, "NotImplemented", NO_HEADER, headers={"If-Match": "*"}, body="x",
         fields=no_value("If-Match")),
    Case("PUT /{b}/copy", 501, "NotImplemented", NO_HEADER,
         headers={"x-amz-copy-source": "{b}/k", "If-Match": "*"}, fields=no_value("If-Match")),
    Case("PUT /{b}/k", 501, "NotImplemented", NO_HEADER, headers={"If-Match": '"x"', "If-None-Match": "*"}, body="x",
         fields={"Header": "If-Match,If-None-Match", "additionalMessage": TWO_CONDITIONS}),
]  # fmt: skip

COPIES = [
    Case("PUT /{b}/copy", 400, "InvalidArgument", "Invalid copy source object key",
         headers={"x-amz-copy-source": "{b}"}, fields=argument("x-amz-copy-source", "{b}")),
    Case("PUT /{b}/copy", 400, "InvalidArgument", "Invalid copy source encoding",
         headers={"x-amz-copy-source": "{b}/%zz"}),
    Case("PUT /{b}/copy", 404, "NoSuchKey", headers={"x-amz-copy-source": "{b}/none"}, fields={"Key": "none"}),
    Case("PUT /{b}/copy", 404, "NoSuchBucket", headers={"x-amz-copy-source": "{b}-none/k"},
         fields={"BucketName": "{b}-none"}),
    Case("PUT /{b}/copy", 400, "InvalidRequest",
         "The source of a copy request may not specifically refer to a delete marker by version id.",
         headers={"x-amz-copy-source": "{v}/k?versionId={marker}"}),
    Case("PUT /{b}/k", 400, "InvalidRequest",
         "This copy request is illegal because it is trying to copy an object to itself without changing the object's "
         "metadata, storage class, website redirect location or encryption attributes.",
         headers={"x-amz-copy-source": "{b}/k"}),
    Case("PUT /{b}/copy", 412, "PreconditionFailed",
         headers={"x-amz-copy-source": "{b}/k", "x-amz-copy-source-if-match": '"x"'},
         fields={"Condition": "x-amz-copy-source-If-Match"}),
    Case("PUT /{b}/copy", 412, "PreconditionFailed",
         headers={"x-amz-copy-source": "{b}/k",
                  "x-amz-copy-source-if-unmodified-since": "Mon, 01 Jan 2001 00:00:00 GMT"},
         fields={"Condition": "x-amz-copy-source-If-Unmodified-Since"}),
    Case("PUT /{b}/copy", 400, "InvalidArgument", "Unknown metadata directive.",
         headers={"x-amz-copy-source": "{b}/k", "x-amz-metadata-directive": "MOVE"},
         fields=argument("x-amz-metadata-directive", "MOVE")),
    *(
        Case("PUT /{b}/up?partNumber=2&uploadId={u}", 400, "InvalidArgument", RANGE_FORM,
             headers={"x-amz-copy-source": "{b}/k", "x-amz-copy-source-range": value},
             fields=argument("x-amz-copy-source-range", value))
        for value in ("0-8", "bytes=1-0", "bytes=-1-", "bytes=0--1", "bytes=0-1,3-4,7-9", "bytes=-", "bytes=1-")
    ),
    Case("PUT /{b}/up?partNumber=2&uploadId={u}", 400, "InvalidArgument",
         "Range specified is not valid for source object of size: 10",
         headers={"x-amz-copy-source": "{b}/k", "x-amz-copy-source-range": "bytes=0-100"},
         fields=argument("x-amz-copy-source-range", "bytes=0-100")),
    Case("PUT /{b}/up?partNumber=2&uploadId={u}", 400, "InvalidRequest",
         "The specified copy range is invalid for the source object size",
         headers={"x-amz-copy-source": "{b}/k", "x-amz-copy-source-range": "bytes=100-200"}),
]  # fmt: skip

MULTIPART = [
    *(
        Case(f"{request}uploadId={UNKNOWN_UPLOAD}", 404, "NoSuchUpload", NO_UPLOAD, body=body,
             fields={"UploadId": UNKNOWN_UPLOAD})
        for request, body in [
            ("PUT /{b}/up?partNumber=1&", "x"),
            ("POST /{b}/up?", parts((1, "0" * 32))),
            ("DELETE /{b}/up?", ""),
            ("GET /{b}/up?", ""),
        ]
    ),
    Case("PUT /{b}/up?partNumber=1&uploadId=fakeid", 404, "NoSuchUpload", body="x", fields={"UploadId": "fakeid"}),
    Case("PUT /{b}/another?partNumber=1&uploadId={u}", 404, "NoSuchUpload", body="x", fields={"UploadId": "{u}"}),
    Case("PUT /{b}/up?partNumber=-1&uploadId={u}", 400, "InvalidArgument",
         "Part number must be an integer between 1 and 10000, inclusive", body="x", fields=argument("partNumber", "-1")),
    Case("POST /{b}/up?uploadId={u}", 400, "InvalidPart", NO_PART, body=parts((2, "{etag}")),
         fields={"UploadId": "{u}", "PartNumber": "2", "ETag": "{etag}"}),
    Case("POST /{b}/up?uploadId={u}", 400, "InvalidPart", NO_PART, body=parts((1, "f" * 32)),
         fields={"UploadId": "{u}", "PartNumber": "1", "ETag": "f" * 32}),
    Case("POST /{b}/up?uploadId={u}", 400, "InvalidPartOrder",
         "The list of parts was not in ascending order. Parts must be ordered by part number.",
         body=parts((3, "{etag}"), (1, "{etag}")), fields={"UploadId": "{u}"}),
    Case("POST /{b}/up?uploadId={u}", 400, "EntityTooSmall",
         "Your proposed upload is smaller than the minimum allowed size", body=parts((1, "{etag}"), (3, "{etag}")),
         fields={"ProposedSize": "4", "MinSizeAllowed": "5242880", "PartNumber": "1", "ETag": "{etag}"}),
    *(Case("POST /{b}/up?uploadId={u}", 400, "InvalidArgument", "PartNumber must be >= 1",
           body=parts((number, "{etag}")), fields=argument("PartNumber", str(number))) for number in (0, -4)),
    Case("POST /{b}/up?uploadId={u}", 400, "MalformedXML", MALFORMED, body="<Other/>"),
    Case("POST /{b}/up?uploadId={u}", 400, "InvalidRequest", "You must specify at least one part"),
    Case("POST /{b}/up?uploadId={u}", 400, "InvalidRequest",
         "The provided 'x-amz-mp-object-size' header value 5 does not match what was computed: 4",
         headers={"x-amz-mp-object-size": "5"}, body=parts((1, "{etag}"))),
    Case("POST /{b}/up?uploads", 400, "InvalidRequest",
         "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
         headers={"x-amz-checksum-type": "COMPOSITE"}),
    Case("POST /{b}/up?uploads", 400, "InvalidRequest",
         "The FULL_OBJECT checksum type cannot be used with the sha256 checksum algorithm.",
         headers={"x-amz-checksum-type": "FULL_OBJECT", "x-amz-checksum-algorithm": "SHA256"}),
]  # fmt: skip

LOCKS = [
    Case("DELETE /{b}/k", 400, "InvalidArgument",
         "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.",
         headers={"x-amz-bypass-governance-retention": "true"},
         fields={"ArgumentName": "x-amz-bypass-governance-retention"}),
    Case("DELETE /{b}/k", 400, "InvalidArgument", headers={"x-amz-bypass-governance-retention": "false"},
         fields={"ArgumentName": "x-amz-bypass-governance-retention"}),
    Case("POST /{b}?delete", 400, "InvalidArgument", "The value must be true or false",
         headers={"x-amz-bypass-governance-retention": "x"},
         body="<Delete><Object><Key>k</Key></Object></Delete>",
         fields=argument("x-amz-bypass-governance-retention", "x")),
    Case("GET /{b}/k?retention", 400, "InvalidRequest", "Bucket is missing Object Lock Configuration"),
    Case("PUT /{b}/k?retention", 400, "InvalidRequest", "Bucket is missing Object Lock Configuration",
         body=retention("2099-01-01T00:00:00Z")),
    Case("PUT /{l}/k?legal-hold", 400, "MalformedXML", MALFORMED, headers={"Content-MD5": NO_BYTES_MD5}),
    Case("GET /{l}/k?retention", 404, "NoSuchObjectLockConfiguration",
         "The specified object does not have a ObjectLock configuration"),
    Case("PUT /{l}/k?retention", 400, "InvalidArgument", "The retain until date must be in the future!",
         body=retention("2020-01-01T00:00:00Z"), fields={"ArgumentName": "RetainUntilDate"}),
    Case("GET /{b}?object-lock", 404, "ObjectLockConfigurationNotFoundError",
         "Object Lock configuration does not exist for this bucket", fields={"BucketName": "{b}"}),
    Case("PUT /{b}?object-lock", 409, "InvalidBucketState",
         "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration", body=lock("<Days>1</Days>")),
    Case("PUT /{l}?object-lock", 400, "InvalidArgument", "Default retention period must be a positive integer value.",
         body=lock("<Days>0</Days>"), fields={"ArgumentName": "Days"}),
    Case("PUT /{l}?object-lock", 400, "InvalidArgument", "Default retention period too large.",
         body=lock("<Years>101</Years>"), fields={"ArgumentName": "Years"}),
    Case("PUT /{l}?object-lock", 400, "MalformedXML", MALFORMED, body=lock("<Days>1</Days><Years>1</Years>")),
    Case("PUT /{l}?versioning", 409, "InvalidBucketState",
         "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
         body="<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"),
    Case("PUT /{l}/new", 400, "InvalidArgument",
         "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
         headers={"x-amz-object-lock-mode": "GOVERNANCE"}, body="x",
         fields={"ArgumentName": "x-amz-object-lock-retain-until-date"}),
    Case("PUT /{l}/new", 400, "InvalidArgument", "Unknown wormMode directive.",
         headers={"x-amz-object-lock-mode": "BAD", "x-amz-object-lock-retain-until-date": "2099-01-01T00:00:00Z"},
         body="x", fields=argument("x-amz-object-lock-mode", "BAD")),
]  # fmt: skip

CONFIGURATIONS = [
    Case("PUT /{b}?versioning", 400, "IllegalVersioningConfigurationException",
         "The Versioning element must be specified", body="<VersioningConfiguration/>"),
    Case("GET /{b}?tagging", 404, "NoSuchTagSet", "The TagSet does not exist", fields={"BucketName": "{b}"}),
    Case("GET /{b}?cors", 404, "NoSuchCORSConfiguration", "The CORS configuration does not exist",
         fields={"BucketName": "{b}"}),
    Case("PUT /{b}?tagging", 400, "InvalidTag", "Cannot provide multiple Tags with the same key",
         body=tags(("a", "1"), ("a", "2")), fields={"TagKey": "a"}),
    Case("PUT /{b}?tagging", 400, "InvalidTag", "System tags cannot be added/updated by requester",
         body=tags(("aws:a", "1")), fields={"TagKey": "aws:a"}),
    Case("PUT /{b}?tagging", 400, "InvalidTag", "The TagValue you have provided is invalid",
         body=tags(("a", "1,2")), fields={"TagKey": "a", "TagValue": "1,2"}),
    Case("PUT /{b}/k?tagging", 400, "InvalidTag", "Your TagKey cannot be prefixed with aws:",
         body=tags(("aws:a", "1")), fields={"TagKey": "aws:a"}),
    Case("PUT /{b}/k?tagging", 400, "InvalidTag", "The TagKey you have provided is invalid",
         body=tags(("a,b", "1")), fields={"TagKey": "a,b"}),
    Case("PUT /{b}/k?tagging", 400, "BadRequest", "Object tags cannot be greater than 10",
         body=tags(*((str(n), "") for n in range(11)))),
    Case("PUT /{b}?acl", 400, "MissingSecurityHeader", "Your request was missing a required header",
         fields={"MissingHeaderName": "x-amz-acl"}),
    Case("PUT /{b}?acl", 400, "MalformedACLError", MALFORMED, body="<AccessControlPolicy/>"),
    Case("PUT /{b}?acl", 400, "UnexpectedContent", "This request does not support content",
         headers={"x-amz-acl": "private"}, body="<AccessControlPolicy/>"),
    Case("PUT /{b}?acl", 400, "UnexpectedContent", headers={"x-amz-grant-read": "nobody"},
         body="<AccessControlPolicy/>"),
    Case("PUT /{b}?acl", 400, "InvalidRequest", "Specifying both Canned ACLs and Header Grants is not allowed",
         headers={"x-amz-acl": "private", "x-amz-grant-read": "nobody"}),
    Case("PUT /{b}/k?acl", 400, "InvalidArgument", "Invalid id", headers={"x-amz-grant-read": "id=wrong-id"},
         fields=argument("id", "wrong-id")),
    Case("PUT /{b}?acl", 400, "InvalidArgument", "Invalid group uri", headers={"x-amz-grant-read": "uri=http://none"},
         fields=argument("uri", "http://none")),
    Case("PUT /{b}?acl", 400, "InvalidArgument", "Invalid id", body=acl("wrong-id", "READ"),
         fields=argument("CanonicalUser/ID", "wrong-id")),
    Case("PUT /{b}?acl", 400, "MalformedACLError", MALFORMED, body=acl("wrong-id", "ALL")),
    Case("PUT /{b}?acl", 400, "AccessControlListNotSupported", headers={"x-amz-acl": "public-read"}),
    Case("PUT /{b}/k?acl", 400, "AccessControlListNotSupported", headers={"x-amz-grant-full-control": EVERYBODY}),
    Case("PUT /{b}-2", 400, "InvalidBucketAclWithObjectOwnership",
         "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
         headers={"x-amz-acl": "public-read"}),
    Case("PUT /{b}-2", 400, "InvalidArgument", "Invalid x-amz-object-ownership header: Me",
         headers={"x-amz-object-ownership": "Me"}, fields={"ArgumentName": "x-amz-object-ownership"}),
    Case("PUT /{b}-2", 400, "InvalidLocationConstraint", "The specified location-constraint is not valid",
         body="<CreateBucketConfiguration><LocationConstraint>No_Region</LocationConstraint>"
         "</CreateBucketConfiguration>", fields={"LocationConstraint": "No_Region"}),
    Case("PUT /{b}?versioning", 400, "MissingRequestBodyError", "Request Body is empty"),
    Case("PUT /{b}?requestPayment", 400, "MalformedXML", MALFORMED,
         body="<RequestPaymentConfiguration><Payer>Me</Payer></RequestPaymentConfiguration>"),
    Case("PUT /{b}?cors", 400, "InvalidRequest",
         "Found unsupported HTTP method in CORS config. Unsupported method is MYMETHOD",
         body="<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>MYMETHOD</AllowedMethod>"
         "</CORSRule></CORSConfiguration>"),
    Case("POST /{b}/k?restore", 403, "InvalidObjectState", body=RESTORE,
         message="Restore is not allowed for the object's current storage class"),
    Case("POST /{b}/k?restore", 400, "InvalidArgument", "restoration days should be at least 1",
         body=RESTORE.replace("1", "0"), fields=argument("Days", "0")),
    Case("POST /{b}/no?restore", 404, "NoSuchKey", body=RESTORE),
    Case("POST /{b}?delete", 400, "InvalidRequest",
         "Missing required header for this request: Content-MD5 OR x-amz-checksum-*", headers={"content-md5": "-"},
         body="<Delete><Object><Key>k</Key></Object></Delete>"),
    *(Case(f"PUT {request}", 400, "InvalidRequest",
           "Missing required header for this request: Content-MD5 OR x-amz-checksum-*", headers={"content-md5": "-"},
           body=body)
      for request, body in (
          ("/{b}?tagging", tags(("k", "v"))), ("/{b}?cors", "<CORSConfiguration/>"),
          ("/{b}?lifecycle", "<LifecycleConfiguration/>"), ("/{l}?object-lock", "<ObjectLockConfiguration/>"),
          ("/{l}/k?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>"),
          ("/{l}/k?retention", "<Retention/>"),
      )),
]  # fmt: skip

TABLE = [*NAMES, *METHODS, *LISTS, *READS, *UPLOADS, *COPIES, *MULTIPART, *LOCKS, *CONFIGURATIONS]


@pytest.fixture(scope="module")
def scene(targets: Any) -> dict[str, str]:
    return make_scene(targets("disk").client())


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_an_error_is_that_of_s3(wire: Wire, scene: dict[str, str], case: Case) -> None:
    case.check(wire, scene)


def test_the_table_changes_nothing(wire: Wire, scene: dict[str, str]) -> None:
    for name in ("b", "v", "l"):
        keys = wire("GET", f"/{scene[name]}", "list-type=2").document().findall("Contents/Key")
        assert [key.text for key in keys] == ([] if name == "v" else ["k"])
