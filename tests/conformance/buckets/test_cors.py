"""CORS: the rules of a bucket, preflights, and the headers of every answer to a request with an origin."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.targets import refusal
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

ORIGIN = "https://app.example.com"
VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
NOT_ENABLED = "CORSResponse: CORS is not enabled for this bucket."
RULES = [
    {
        "AllowedOrigins": ["https://*.example.com"],
        "AllowedMethods": ["GET", "PUT"],
        "AllowedHeaders": ["x-amz-*", "Content-Type"],
        "ExposeHeaders": ["ETag", "x-amz-request-id"],
        "MaxAgeSeconds": 600,
    },
    {"AllowedOrigins": ["*"], "AllowedMethods": ["HEAD"]},
]
OF_THE_FIRST = {
    "access-control-allow-origin": ORIGIN,
    "access-control-allow-credentials": "true",
    "access-control-allow-methods": "GET, PUT",
    "access-control-expose-headers": "ETag, x-amz-request-id",
    "access-control-max-age": "600",
    "vary": VARY,
}


@pytest.fixture
def ruled(s3: Any, bucket: str) -> str:
    """A bucket with rules, and the object `k`."""
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    s3.put_object(Bucket=bucket, Key="k", Body=b"content")
    return bucket


def cors_of(answer: Answer) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.startswith("access-control-") or k == "vary"}


def preflight(wire: Wire, path: str, origin: str | None, method: str | None, headers: str | None = None) -> Answer:
    """An OPTIONS request as browsers send it: without a signature."""
    names = ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers")
    asked = dict(zip(names, (origin, method, headers), strict=True))
    return wire("OPTIONS", path, headers={k: v for k, v in asked.items() if v is not None}, sign=False)


def test_a_preflight_is_answered_without_a_signature(wire: Wire, ruled: str) -> None:
    for path in (f"/{ruled}", f"/{ruled}/k", f"/{ruled}/not/there"):
        answer = preflight(wire, path, ORIGIN, "PUT", "X-Amz-Date,content-type")
        assert (answer.status, answer.body) == (200, b"")
        assert cors_of(answer) == OF_THE_FIRST | {"access-control-allow-headers": "x-amz-date, content-type"}
        assert answer.headers["x-amz-request-id"]
    answer = preflight(wire, f"/{ruled}", "http://anybody", "HEAD")
    everybody = {"access-control-allow-origin": "*", "access-control-allow-methods": "HEAD", "vary": VARY}
    assert (answer.status, cors_of(answer)) == (200, everybody)


@pytest.mark.parametrize(
    ("origin", "method", "headers"),
    [
        ("https://example.org", "PUT", None),
        (ORIGIN, "DELETE", None),
        (ORIGIN, "PUT", "x-amz-date, x-other"),
        (ORIGIN, "PUT", ",".join(f"x-amz-{number}" for number in range(101))),
        ("https://a\xff.example.com", "PUT", None),
    ],
)
def test_a_preflight_that_no_rule_allows(wire: Wire, ruled: str, origin: str, method: str, headers: str | None) -> None:
    answer = preflight(wire, f"/{ruled}/k", origin, method, headers)
    assert (answer.status, answer.code) == (403, "AccessForbidden")
    assert answer.error["Message"].startswith("CORSResponse: This CORS request is not allowed.")
    assert (answer.error["Method"], answer.error["ResourceType"]) == (method, "OBJECT")
    assert cors_of(answer) == {}


def test_a_preflight_that_says_too_little(wire: Wire, ruled: str) -> None:
    no_origin = "Insufficient information. Origin request header needed."
    no_name = 'Access-Control-Request-Headers "{}" contains invalid character.'
    for origin, method, headers, message in [
        (None, None, None, no_origin),
        (None, "GET", "x-a", no_origin),
        ("", "GET", "x-a", no_origin),
        (ORIGIN, None, None, "Invalid Access-Control-Request-Method: null"),
        (ORIGIN, "PATCH", None, "Invalid Access-Control-Request-Method: PATCH"),
        (ORIGIN, "GET", "x-amz-date,invalid header", no_name.format("invalid header")),
        (ORIGIN, "GET", "x-amz-date, Bad/Header", no_name.format(" Bad/Header")),
        (ORIGIN, "GET", "Non\u0141", no_name.format("Non\u0141")),
    ]:
        answer = preflight(wire, f"/{ruled}", origin, method, headers)
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert answer.error["Message"] == message


def test_a_preflight_does_not_tell_which_buckets_exist(wire: Wire, bucket: str) -> None:
    told = []
    for path in (f"/{bucket}", f"/{bucket}-none", "/"):
        answer = preflight(wire, path, ORIGIN, "GET")
        assert (answer.status, answer.error["ResourceType"]) == (403, "BUCKET")
        told.append((answer.code, answer.error["Message"]))
    assert told == [("AccessForbidden", NOT_ENABLED)] * 3


def test_every_answer_names_an_allowed_origin(wire: Wire, ruled: str) -> None:
    origin = {"Origin": ORIGIN}
    for method, path, status in [
        ("GET", f"/{ruled}", 200),
        ("GET", f"/{ruled}/k", 200),
        ("PUT", f"/{ruled}/new", 200),
        ("GET", f"/{ruled}/none", 404),
    ]:
        answer = wire(method, path, headers=origin)
        assert (answer.status, cors_of(answer)) == (status, OF_THE_FIRST)
    for headers, status in [({"If-None-Match": "*"}, 304), ({"Range": "bytes=99-"}, 416), ({"If-Match": "x"}, 412)]:
        answer = wire("GET", f"/{ruled}/k", headers=origin | headers)
        assert (answer.status, cors_of(answer)) == (status, OF_THE_FIRST)
    # A page must be able to read why it was refused.
    answer = wire("GET", f"/{ruled}/k", headers=origin, sign=False)
    assert (answer.status, answer.code, cors_of(answer)) == (403, "AccessDenied", OF_THE_FIRST)


def test_answers_to_others_name_no_origin(wire: Wire, ruled: str) -> None:
    assert cors_of(wire("GET", f"/{ruled}/k")) == {}
    # No rule applies, and a cache must not return this answer to an allowed origin.
    assert cors_of(wire("GET", f"/{ruled}/k", headers={"Origin": "http://other"})) == {"vary": VARY}
    assert cors_of(wire("DELETE", f"/{ruled}/none", headers={"Origin": ORIGIN})) == {"vary": VARY}
    assert cors_of(wire("GET", f"/{ruled}-none/k", headers={"Origin": ORIGIN})) == {}


def test_large_bodies_and_small_ones_have_the_same_headers(wire: Wire, s3: Any, ruled: str) -> None:
    s3.put_object(Bucket=ruled, Key="large", Body=bytes(1 << 20))
    answer = wire("GET", f"/{ruled}/large", headers={"Origin": ORIGIN})
    assert (answer.status, len(answer.body), cors_of(answer)) == (200, 1 << 20, OF_THE_FIRST)


def test_a_bucket_in_the_host_has_its_own_rules(wire: Wire, ruled: str) -> None:
    headers = {"Host": f"{ruled}.s3.test", "Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
    answer = wire.send("OPTIONS", "/k", headers)
    assert (answer.status, cors_of(answer)) == (200, OF_THE_FIRST)


def test_changed_rules_apply_at_once(wire: Wire, s3: Any, ruled: str) -> None:
    for origin in ("http://one", "http://two"):
        rule = {"AllowedOrigins": [origin], "AllowedMethods": ["GET"]}
        s3.put_bucket_cors(Bucket=ruled, CORSConfiguration={"CORSRules": [rule]})
        assert preflight(wire, f"/{ruled}", origin, "GET").status == 200
        assert preflight(wire, f"/{ruled}", ORIGIN, "GET").status == 403
    s3.delete_bucket_cors(Bucket=ruled)
    assert preflight(wire, f"/{ruled}", "http://two", "GET").error["Message"] == NOT_ENABLED
    assert cors_of(wire("GET", f"/{ruled}/k", headers={"Origin": "http://two"})) == {}


def rule(**more: Any) -> dict[str, Any]:
    return {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]} | more


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([rule()] * 101, "The number of CORS rules should not exceed allowed limit of 100 rules."),
        ([rule(AllowedOrigins=["http://*.*"])], 'AllowedOrigin "http://*.*" can not have more than one wildcard.'),
        ([rule(AllowedHeaders=["*-*"])], 'AllowedHeader "*-*" can not have more than one wildcard.'),
        (
            [rule(AllowedMethods=["PATCH"])],
            "Found unsupported HTTP method in CORS config. Unsupported method is PATCH",
        ),
        (
            [rule(ExposeHeaders=["x-*"])],
            'ExposeHeader "x-*" contains wildcard. We currently do not support wildcard for ExposeHeader.',
        ),
    ],
)
def test_rules_that_s3_refuses(s3: Any, bucket: str, rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"]) == ("InvalidRequest", message)
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")


def test_an_empty_origin_is_that_of_no_page(wire: Wire, s3: Any, bucket: str) -> None:
    rule = {"AllowedOrigins": [""], "AllowedMethods": ["GET"]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    answer = wire("GET", f"/{bucket}", "list-type=2", headers={"Origin": "https://a.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_a_hundred_rules(s3: Any, bucket: str) -> None:
    rules = [rule(ID=str(number)) for number in range(100)]
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == rules
