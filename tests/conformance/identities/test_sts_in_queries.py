"""IAM and STS with their parameters in the query: presigned, signed in a header, and with a token of a provider alone."""

from __future__ import annotations

import http.client
import json
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.edge.test_access_log import wait_for
from tests.fixtures.iam.tokens import ISSUER, Provider
from tests.fixtures.serving import serving

import orcas

pytestmark = pytest.mark.conformance

IDENTITY = "Action=GetCallerIdentity&Version=2011-06-15"


@dataclass
class Answer:
    status: int
    body: str

    def find(self, name: str) -> str:
        """The text of the first element with this name; empty if there is none."""
        found = (element for element in ET.fromstring(self.body).iter() if element.tag.rpartition("}")[2] == name)
        return next((element.text or "" for element in found), "")


class Place:
    """A server with the keys of a provider, and a role that its tokens may assume."""

    def __init__(self, server: orcas.Server, provider: Provider) -> None:
        self.server, self.provider = server, provider
        self.iam, self.sts = server.client("iam"), server.client("sts")
        account = self.sts.get_caller_identity()["Account"]
        principal = {"Federated": f"arn:aws:iam::{account}:oidc-provider/{ISSUER.removeprefix('https://')}"}
        one = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRoleWithWebIdentity"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [one]})
        self.role = self.iam.create_role(RoleName="web", AssumeRolePolicyDocument=document)["Role"]["Arn"]
        self.iam.attach_role_policy(RoleName="web", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        self.iam.create_user(UserName="ann")
        self.key = self.iam.create_access_key(UserName="ann")["AccessKey"]
        server.client("s3").create_bucket(Bucket="photos")

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        """The answer to a request that is sent as it stands here."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.server.endpoint).netloc, timeout=30)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode())
        finally:
            connection.close()

    def signed(
        self, method: str, query: str, *keys: str, service: str = "sts", body: bytes = b"", extra: str = "", **more: str
    ) -> Answer:
        """The same, signed in a header. `extra`: what is added to the query before it is sent and signed."""
        request = AWSRequest(method, f"{self.server.endpoint}/?{query}{extra}", data=body)
        for name, value in more.items():
            request.headers[name] = value
        pair = keys or (self.key["AccessKeyId"], self.key["SecretAccessKey"])
        SigV4Auth(Credentials(*pair), service, "us-east-1").add_auth(request)
        given = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        return self.ask(method, f"/?{query}{extra}", body or None, **given)

    def presigned(self, client: Any, method: str) -> str:
        """The target of a presigned URL."""
        url = urllib.parse.urlsplit(client.generate_presigned_url(method, HttpMethod="GET"))
        return f"/?{url.query}"

    def web(self, token: str) -> str:
        given = {"RoleArn": self.role, "RoleSessionName": "web", "WebIdentityToken": token, "Version": "2011-06-15"}
        return "/?" + urllib.parse.urlencode({"Action": "AssumeRoleWithWebIdentity", **given})

    def session(self) -> Any:
        return self.server.client(
            "sts", aws_access_key_id=self.key["AccessKeyId"], aws_secret_access_key=self.key["SecretAccessKey"]
        ).get_session_token()["Credentials"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory, provider = tmp_path_factory.mktemp("queries"), Provider()
    provider.write(directory / "keys.json")
    file = directory / "identities.toml"
    file.write_text(f'[providers."{ISSUER}"]\nclient_ids = ["app"]\njwks_file = "keys.json"\n')
    with orcas.Server(memory=True, identities_file=str(file)) as server:
        yield Place(server, provider)


def test_who_signs_by_a_presigned_url(place: Place) -> None:
    """As brokers of tokens use it: whoever has the URL learns who signed it."""
    assert place.ask("GET", place.presigned(place.sts, "get_caller_identity")).find("Arn").endswith(":root")
    made = place.session()
    session = place.server.client(
        "sts", aws_access_key_id=made["AccessKeyId"], aws_secret_access_key=made["SecretAccessKey"],
        aws_session_token=made["SessionToken"],
    )  # fmt: skip
    target = place.presigned(session, "get_caller_identity")
    assert place.ask("GET", target).find("Arn").endswith(":user/ann")
    for changed in (
        target.replace("GetCallerIdentity", "GetSessionToken"), target.replace("Expires=3600", "Expires=3601"),
        target.replace("X-Amz-Signature=", "X-Amz-Signature=0"), f"{target}&Name=more",
    ):  # fmt: skip
        answer = place.ask("GET", changed)
        assert (answer.status, answer.find("Code")) == (403, "SignatureDoesNotMatch"), answer.body
    answer = place.ask("POST", target)
    assert (answer.status, answer.find("Code")) == (403, "SignatureDoesNotMatch"), "the method is signed"


def test_iam_by_a_presigned_url(place: Place) -> None:
    assert place.ask("GET", place.presigned(place.iam, "list_users")).find("UserName") == "ann"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_parameters_in_a_signed_query(place: Place, method: str) -> None:
    assert place.signed(method, IDENTITY).find("Arn").endswith(":user/ann")
    root = place.server.access_key, place.server.secret_key
    query = "Action=ListUsers&Version=2010-05-08"
    assert place.signed(method, query, *root, service="iam").find("UserName") == "ann"
    answer = place.signed(method, query, *root)
    assert (answer.status, answer.find("Code")) == (400, "InvalidAction"), "the service is signed"
    answer = place.signed(method, IDENTITY, place.key["AccessKeyId"], "wrong")
    assert (answer.status, answer.find("Code")) == (403, "SignatureDoesNotMatch")


def test_parameters_in_query_and_form(place: Place) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = place.signed("POST", "Action=GetCallerIdentity", body=b"Version=2011-06-15", **form)
    assert answer.find("Arn").endswith(":user/ann")
    answer = place.signed("POST", IDENTITY, body=b"Version=2011-06-15", **form)
    assert (answer.status, answer.find("Code")) == (400, "MalformedQueryString")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_web_identity_in_a_query(place: Place, method: str) -> None:
    """As clients on the crate object_store and minio-py send it: no body, no form."""
    answer = place.ask(method, place.web(place.provider.token()))
    s3 = place.server.client(
        "s3", aws_access_key_id=answer.find("AccessKeyId"), aws_secret_access_key=answer.find("SecretAccessKey"),
        aws_session_token=answer.find("SessionToken"),
    )  # fmt: skip
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["photos"]
    answer = place.ask(method, place.web(place.provider.token(aud="other")))
    assert (answer.status, answer.find("Code")) == (400, "InvalidIdentityToken")


@pytest.mark.parametrize("query", [IDENTITY, "Action=ListUsers&Version=2010-05-08", "Action=", "Action=ListBuckets"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_else_is_answered_without_a_signature(place: Place, method: str, query: str) -> None:
    for more in ("", "&X-Amz-Security-Token=x", "&WebIdentityToken=x"):
        answer = place.ask(method, f"/?{query}{more}")
        assert (answer.status, answer.find("Code")) == (403, "MissingAuthenticationToken")
    answer = place.ask(method, f"/?{query}&X-Amz-Credential=x%2F20260101%2Fus-east-1%2Fsts%2Faws4_request")
    assert (answer.status, answer.find("Code")) == (403, "IncompleteSignature")


def test_a_token_is_no_use_with_another_key(place: Place) -> None:
    """However its name is written, and wherever it stands."""
    token = urllib.parse.quote(place.session()["SessionToken"], safe="")
    for name in (
        "X-Amz-Security-Token",
        "x-amz-security-token",
        "X-Amz-Secur%69ty-Token",
        "X-Amz-%53%65curity%2DToken",
    ):
        for header in ({}, {"x-amz-security-token": ""}):
            answer = place.signed("GET", IDENTITY, extra=f"&{name}={token}", **header)
            assert answer.status == 403 or answer.find("Arn").endswith(":user/ann"), (name, answer.body)
            root = place.server.access_key, place.server.secret_key
            answer = place.signed("GET", IDENTITY, *root, extra=f"&{name}={token}", **header)
            assert answer.status == 403 or answer.find("Arn").endswith(":root"), (name, answer.body)


def test_requests_of_s3_stay_those_of_s3(place: Place) -> None:
    s3 = place.server.client("s3")
    s3.put_object(Bucket="photos", Key="a", Body=b"x")
    assert [bucket["Name"] for bucket in s3.list_buckets(Prefix="pho")["Buckets"]] == ["photos"]
    url = urllib.parse.urlsplit(s3.generate_presigned_url("list_buckets"))
    assert place.ask("GET", f"/?{url.query}").find("Name") == "photos"
    port = urllib.parse.urlsplit(place.server.endpoint).port
    for method in ("GET", "POST"):
        answer = place.ask(method, f"/?{IDENTITY}", host=f"photos.localhost:{port}")
        assert not answer.find("Arn"), "of a bucket"
        answer = place.ask(method, f"/photos?{IDENTITY}")
        assert not answer.find("Arn")
    assert place.ask("POST", "/").find("Code") == "MethodNotAllowed"
    assert place.ask("PUT", f"/?{IDENTITY}").find("Code") == "MethodNotAllowed"


def test_what_opens_something_is_in_no_log(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with serving(tmp_path, level="debug", form="json", ORCAS_ACCESS_LOG=str(path)) as running:
        sts = running.client("sts")
        made = sts.get_session_token()["Credentials"]
        session = running.client(
            "sts", aws_access_key_id=made["AccessKeyId"], aws_secret_access_key=made["SecretAccessKey"],
            aws_session_token=made["SessionToken"],
        )  # fmt: skip
        url = urllib.parse.urlsplit(session.generate_presigned_url("get_caller_identity", HttpMethod="GET")).query
        token = place.provider.token()
        for query in (place.web(token)[2:], url):
            for at in ("/", "/photos", "/photos/key", "/_orcas/health/live", "/_orcas/none"):
                for method in ("GET", "POST", "PUT"):
                    running.wire.send(method, f"{at}?{query}", {"Host": running.wire.netloc})
        assert running.wire("GET", "/last").status == 404
        wait_for(path, lambda lines: any(line.get("bucket") == "last" for line in lines))
        logs = path.read_text(encoding="utf-8") + running.text()
        sent = urllib.parse.parse_qs(url)
        for secret in (token, sent["X-Amz-Security-Token"][0], sent["X-Amz-Signature"][0]):
            for shown in (secret, urllib.parse.quote(secret, safe=""), secret[-40:]):
                assert shown not in logs
