"""Websites of buckets: their documents through boto3, and what everybody gets under the host for websites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.serving import serving
from tests.fixtures.targets import refusal
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

HOST = "web.test"
INDEX = {"IndexDocument": {"Suffix": "index.html"}}
PAGES = INDEX | {"ErrorDocument": {"Key": "errors/404.html"}}
OPEN = {
    "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False,
}  # fmt: skip

Get = Callable[..., Answer]


def publish(client: Any, bucket: str, document: dict[str, Any] = PAGES) -> None:
    client.put_bucket_website(Bucket=bucket, WebsiteConfiguration=document)
    client.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=OPEN)


@pytest.fixture
def site(s3: Any, bucket: str) -> str:
    """A bucket with a website of a few pages."""
    publish(s3, bucket)
    for key in ("index.html", "docs/index.html", "errors/404.html", "plain.txt"):
        s3.put_object(Bucket=bucket, Key=key, Body=f"<p>{key}".encode(), ContentType="text/html", Metadata={"m": "1"})
    return bucket


@pytest.fixture
def get(wire: Wire, site: str) -> Get:
    """Asks the website, without a signature."""

    def ask(path: str = "/", method: str = "GET", host: str = f"{site}.{HOST}", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return wire.send(method, path, {"Host": host} | named)

    return ask


def told(answer: Answer) -> tuple[int, str]:
    """Status and code of an error page."""
    code = answer.headers["x-amz-error-code"]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not answer.body or f"<li>Code: {code}</li>".encode() in answer.body
    assert not answer.body or b"<title>%d " % answer.status in answer.body
    return answer.status, code


def test_pages(get: Get) -> None:
    for path, page in [
        ("/", "index.html"), ("/index.html", "index.html"), ("/docs/", "docs/index.html"), ("/plain.txt", "plain.txt"),
        ("/%64ocs/index%2Ehtml", "docs/index.html"), ("/?list-type=2", "index.html"), ("/plain.txt?acl", "plain.txt"),
        ("/plain.txt?versionId=!&response-content-type=x", "plain.txt"), ("/plain.txt?X-Amz-Signature=0", "plain.txt"),
        ("/?events=s3%3AObjectCreated%3A%2A", "index.html"),
    ]:  # fmt: skip
        answer = get(path)
        assert (answer.status, answer.body) == (200, f"<p>{page}".encode()), path
        assert (answer.headers["content-type"], answer.headers["x-amz-meta-m"]) == ("text/html", "1")
        head = get(path, "HEAD")
        assert (head.status, head.headers["content-length"]) == (200, answer.headers["content-length"])


def test_a_directory_without_its_slash(get: Get) -> None:
    answer = get("/docs")
    assert (answer.status, answer.headers["location"], answer.body) == (302, "/docs/", b"")


def test_missing_pages_have_the_error_document(get: Get, s3: Any, site: str) -> None:
    for path in ("/none", "/none/", "/docs/none", "/" + "k" * 1024):
        answer = get(path)
        assert (answer.status, answer.body) == (404, b"<p>errors/404.html"), path
        assert answer.headers["x-amz-error-code"] == "NoSuchKey"
        wanted = path[1:] + ("index.html" if path.endswith("/") else "")
        assert answer.headers["x-amz-error-detail-key"] == wanted
    # What a request asks of a page it does not ask of the error document.
    answer = get("/none", Range="bytes=0-1", If_None_Match="*")
    assert (answer.status, answer.body) == (404, b"<p>errors/404.html")
    s3.delete_object(Bucket=site, Key="errors/404.html")
    answer = get("/%3Cb%3Enone")
    assert told(answer) == (404, "NoSuchKey")
    assert b"<li>Key: &lt;b&gt;none</li>" in answer.body
    assert answer.headers["x-amz-error-detail-key"] == "%3Cb%3Enone"
    second = "<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>\n<ul>\n"
    second += "<li>Code: NoSuchKey</li>\n<li>Message: The specified key does not exist.</li>\n"
    assert (second + "<li>Key: errors/404.html</li>\n</ul>\n<hr/>").encode() in answer.body
    assert b"<li>Key: none/index.html</li>" in get("/none/").body
    assert told(get("/none", "HEAD")) == (404, "NoSuchKey")


def test_ranges_and_conditions(get: Get) -> None:
    answer = get("/plain.txt", Range="bytes=3-7")
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, b"plain", "bytes 3-7/12")
    etag = answer.headers["etag"]
    assert get("/plain.txt", If_None_Match=etag).status == 304
    assert told(get("/plain.txt", If_Match='"0"')) == (412, "PreconditionFailed")
    assert told(get("/plain.txt", Range="bytes=99-")) == (416, "InvalidRange")


def test_nobody_learns_tags_or_locks(get: Get, s3: Any, site: str) -> None:
    s3.put_object(Bucket=site, Key="tagged", Body=b"x", Tagging="secret=1")
    assert "x-amz-tagging-count" not in get("/tagged").headers
    assert "x-amz-tagging-count" in s3.get_object(Bucket=site, Key="tagged")["ResponseMetadata"]["HTTPHeaders"]


def test_objects_that_lead_elsewhere(get: Get, s3: Any, site: str) -> None:
    for location in ("/docs/", "https://example.org/x?y"):
        s3.put_object(Bucket=site, Key="moved", Body=b"x", WebsiteRedirectLocation=location)
        answer = get("/moved")
        assert (answer.status, answer.headers["location"], answer.body) == (301, location, b"")


def test_an_error_document_may_lead_elsewhere(get: Get, s3: Any, site: str) -> None:
    for location in ("/docs/", "https://example.org/lost"):
        s3.put_object(Bucket=site, Key="errors/404.html", Body=b"x", WebsiteRedirectLocation=location)
        for method in ("GET", "HEAD"):
            answer = get("/none", method)
            assert (answer.status, answer.headers["location"], answer.body) == (301, location, b"")
    # Where the document leads is not looked for again, also if that is missing.
    s3.put_object(Bucket=site, Key="errors/404.html", Body=b"x", WebsiteRedirectLocation="/none")
    assert get("/none").status == 301


def test_rules(get: Get, s3: Any, site: str) -> None:
    rules = [
        {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "docs/"}},
        {
            "Condition": {"KeyPrefixEquals": "gone/", "HttpErrorCodeReturnedEquals": "404"},
            "Redirect": {"HostName": "example.org", "Protocol": "https", "HttpRedirectCode": "307"},
        },
        {"Condition": {"HttpErrorCodeReturnedEquals": "404"}, "Redirect": {"ReplaceKeyWith": "plain.txt"}},
    ]
    document = PAGES | {"RoutingRules": rules}
    s3.put_bucket_website(Bucket=site, WebsiteConfiguration=document)
    answer = s3.get_bucket_website(Bucket=site)
    assert {name: answer[name] for name in document} == document
    for path, status, location in [
        ("/old/a%20b", 301, "/docs/a%20b"),
        ("/gone/x", 307, "https://example.org/gone/x"),
        ("/other", 301, "/plain.txt"),
    ]:
        answer = get(path)
        assert (answer.status, answer.headers["location"]) == (status, location), path
    assert get("/docs/").status == 200


def test_everything_leads_elsewhere(get: Get, s3: Any, site: str) -> None:
    s3.put_bucket_website(Bucket=site, WebsiteConfiguration={"RedirectAllRequestsTo": {"HostName": "example.org"}})
    answer = get("/docs/x?y")
    assert (answer.status, answer.headers["location"]) == (301, "//example.org/docs/x")


def test_only_what_the_owner_has_published_is_public(get: Get, s3: Any, site: str) -> None:
    assert get().status == 200
    for block in ("BlockPublicPolicy", "RestrictPublicBuckets"):
        s3.put_public_access_block(Bucket=site, PublicAccessBlockConfiguration=OPEN | {block: True})
        assert told(get()) == (403, "AccessDenied")
    s3.delete_public_access_block(Bucket=site)
    assert get().status == 200
    s3.delete_bucket_website(Bucket=site)
    assert told(get()) == (404, "NoSuchWebsiteConfiguration")


def test_a_new_bucket_blocks_its_website(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="index.html", Body=b"x")
    host = {"Host": f"{bucket}.{HOST}"}
    assert told(wire.send("GET", "/", host)) == (404, "NoSuchWebsiteConfiguration")
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=INDEX)
    assert told(wire.send("GET", "/", host)) == (403, "AccessDenied")


def test_versions(get: Get, s3: Any, site: str) -> None:
    s3.put_bucket_versioning(Bucket=site, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=site, Key="plain.txt", Body=b"new")
    assert get("/plain.txt").body == b"new"
    s3.delete_object(Bucket=site, Key="plain.txt")
    assert get("/plain.txt").status == 404


def test_hosts(get: Get, s3: Any, site: str, bucket: str) -> None:
    for host in (f"{site}.{HOST}", f"{site.upper()}.Web.TEST:80", f"{site}.{HOST}."):
        assert get(host=host).status == 200, host
    for host in (HOST, f".{HOST}", f"no-such-bucket.{HOST}", f"a_b.{HOST}", f"x.{site}.{HOST}", f"%2e.{HOST}"):
        assert told(get(host=host)) == (404, "NoSuchWebsiteConfiguration"), host
    # Not below the host: the API, which wants a signature.
    for host in (f"{site}.{HOST}.org", f"{site}.x{HOST}", f"{site}-{HOST}", f"{site}.{HOST}:x"):
        answer = get(f"/{bucket}", host=host)
        assert (answer.status, answer.code) in {(403, "AccessDenied"), (400, "")}, host


def test_nothing_else_is_reachable(get: Get, wire: Wire, s3: Any, site: str) -> None:
    """Neither a signature nor a method, a path or a parameter leads to the API or to the control plane."""
    host = {"Host": f"{site}.{HOST}"}
    for method in ("PUT", "POST", "DELETE", "OPTIONS", "PATCH"):
        for path in ("/", "/plain.txt", "/plain.txt?acl", "/?website", "/?delete"):
            answer = wire(method, *path.partition("?")[::2], headers=host, body=b"x" if method != "OPTIONS" else b"")
            assert told(answer) == (405, "MethodNotAllowed"), (method, path)
            assert answer.headers["allow"] == "GET, HEAD"
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    assert told(wire.send("POST", "/", host | form, b"--x--")) == (405, "MethodNotAllowed")
    for path in ("/_orcas/health/live", "/_orcas/admin/keys", "/_orcas/", f"/{site}", f"/{site}/plain.txt"):
        assert get(path).status == 404, path
        assert wire("GET", path, headers=host).status == 404, path
    assert wire("GET", "/", "list-type=2", headers=host).body == b"<p>index.html"
    assert wire("GET", "/", "events=s3%3AObjectCreated%3A%2A", headers=host).body == b"<p>index.html"
    assert wire("GET", "/", headers={"Host": HOST}).status == 404
    assert s3.head_object(Bucket=site, Key="plain.txt")["ContentLength"] == 12


@pytest.mark.parametrize(
    "path", ["/../plain.txt", "/docs/../plain.txt", "//plain.txt", "/%2Fplain.txt", "/./", "/docs//", "/\\", "/%00"]
)
def test_paths_are_keys_and_nothing_else(get: Get, path: str) -> None:
    assert get(path).status == 404


def test_paths_that_name_no_key(get: Get) -> None:
    assert told(get("/%zz")) == (400, "InvalidURI")
    assert told(get("/%ff")) == (400, "InvalidURI")
    assert told(get("/" + "k" * 1025)) == (400, "KeyTooLongError")


def test_no_key_becomes_another_host(get: Get, s3: Any, site: str) -> None:
    s3.put_object(Bucket=site, Key="/example.org/index.html", Body=b"x")
    answer = get("//example.org")
    assert (answer.status, answer.headers["location"]) == (302, "/%2Fexample.org/")
    answer = get(answer.headers["location"])
    assert (answer.status, answer.body) == (200, b"x")


def test_pages_of_other_origins(get: Get, s3: Any, site: str) -> None:
    rule = {"AllowedOrigins": ["http://a.test"], "AllowedMethods": ["GET"]}
    s3.put_bucket_cors(Bucket=site, CORSConfiguration={"CORSRules": [rule]})
    assert get(Origin="http://a.test").headers["access-control-allow-origin"] == "http://a.test"
    assert "access-control-allow-origin" not in get(Origin="http://b.test").headers


def test_documents_that_s3_refuses(s3: Any, bucket: str) -> None:
    def put(**document: Any) -> tuple[int, str]:
        return refusal(s3.put_bucket_website, Bucket=bucket, WebsiteConfiguration=document)

    everything = {"RedirectAllRequestsTo": {"HostName": "example.org"}}
    rule = {"Redirect": {"ReplaceKeyWith": "x"}}
    assert put() == (400, "InvalidArgument")
    assert put(**INDEX, **everything) == (400, "InvalidArgument")
    assert put(IndexDocument={"Suffix": "a/b"}) == (400, "InvalidArgument")
    assert put(RedirectAllRequestsTo={"HostName": "x", "Protocol": "ftp"}) == (400, "InvalidRequest")
    assert put(**INDEX, RoutingRules=[rule] * 51) == (400, "InvalidRequest")
    assert put(**INDEX, RoutingRules=[rule | {"Condition": {}}]) == (400, "InvalidRequest")
    assert refusal(s3.get_bucket_website, Bucket=bucket) == (404, "NoSuchWebsiteConfiguration")
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=INDEX | {"RoutingRules": [rule] * 50})
    assert len(s3.get_bucket_website(Bucket=bucket)["RoutingRules"]) == 50


def test_websites_are_off_unless_an_operator_turns_them_on(tmp_path: Path) -> None:
    with serving(tmp_path, level="warning", form="json") as server:
        server.client().create_bucket(Bucket="site")
        publish(server.client(), "site")
        answer = server.wire.send("GET", "/", {"Host": f"site.{HOST}"})
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert not any("public" in line["message"] for line in server.lines())
        server.stop()
    with serving(tmp_path, level="warning", form="json", ORCAS_WEBSITE_HOST=HOST) as server:
        server.client().put_object(Bucket="site", Key="index.html", Body=b"home")
        assert server.wire.send("GET", "/", {"Host": f"site.{HOST}"}).body == b"home"
        levels = [line["level"] for line in server.lines() if line["message"].startswith("Websites are public")]
        assert levels == ["warning"]
