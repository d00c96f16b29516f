"""STS over HTTP: boto3 gets temporary credentials, and what they may do, until they end."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import json
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.fixtures.iam.tokens import ISSUER, Provider

import orcas
from orcas.testing import Control

pytestmark = pytest.mark.conformance

ONCE = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
FULL = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def statement(effect: str = "Allow", action: Any = "s3:*", resource: Any = "*", **more: Any) -> str:
    one = {"Effect": effect, "Action": action, "Resource": resource, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [one]})


def trust(principal: Any, action: Any = "sts:AssumeRole", **more: Any) -> str:
    one = {"Effect": "Allow", "Principal": principal, "Action": action, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [one]})


class Place:
    """A server in memory with a bucket, a user who may nothing, and a provider."""

    def __init__(self, server: orcas.Server, control: Control, provider: Provider) -> None:
        self.server, self.control, self.provider = server, control, provider
        self.iam, self.s3, self.sts = (self.client(name) for name in ("iam", "s3", "sts"))
        self.account = self.sts.get_caller_identity()["Account"]
        self.s3.create_bucket(Bucket="photos")
        self.s3.put_object(Bucket="photos", Key="a", Body=b"x")

    def client(self, service: str, credentials: dict[str, Any] | None = None) -> Any:
        given = credentials or {}
        named = {
            "aws_access_key_id": given.get("AccessKeyId"), "aws_secret_access_key": given.get("SecretAccessKey"),
            "aws_session_token": given.get("SessionToken"),
        }  # fmt: skip
        return self.server.client(service, config=ONCE, **{name: value for name, value in named.items() if value})

    def user(self, document: str | None = None) -> tuple[str, dict[str, Any]]:
        name = f"u-{uuid.uuid4().hex[:12]}"
        self.iam.create_user(UserName=name)
        if document is not None:
            self.iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=document)
        return f"arn:aws:iam::{self.account}:user/{name}", self.iam.create_access_key(UserName=name)["AccessKey"]

    def role(self, document: str, policy: str | None = FULL, **more: Any) -> tuple[str, str]:
        name = f"r-{uuid.uuid4().hex[:12]}"
        arn = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=document, **more)["Role"]["Arn"]
        if policy is not None:
            self.iam.attach_role_policy(RoleName=name, PolicyArn=policy)
        return name, str(arn)

    def web(self, role: str, token: str, **more: Any) -> dict[str, Any]:
        unsigned = self.server.client("sts", config=ONCE)
        found: dict[str, Any] = unsigned.assume_role_with_web_identity(
            RoleArn=role, RoleSessionName="web", WebIdentityToken=token, **more
        )
        return found

    def reads(self, credentials: dict[str, Any]) -> str:
        """The code of the answer to a read; empty if it is allowed."""
        return code_of(self.client("s3", credentials).get_object, Bucket="photos", Key="a")

    def writes(self, credentials: dict[str, Any]) -> str:
        return code_of(self.client("s3", credentials).put_object, Bucket="photos", Key="b", Body=b"")


def code_of(call: Any, **given: Any) -> str:
    try:
        call(**given)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    provider, directory = Provider(), tmp_path_factory.mktemp("sts")
    provider.write(directory / "keys.json")
    file = directory / "identities.toml"
    file.write_text(f'[providers."{ISSUER}"]\nclient_ids = ["app", "other-app"]\njwks_file = "keys.json"\n')
    with orcas.Server(memory=True, identities_file=str(file)) as server, Control(server) as control:
        yield Place(server, control, provider)


@pytest.fixture
def assumed(place: Place) -> tuple[str, str, Any]:
    """A role, and a client of STS that may assume it."""
    user, key = place.user()
    name, arn = place.role(trust({"AWS": user}))
    return name, arn, place.client("sts", key)


def test_a_session_of_a_role_until_it_expires(place: Place, assumed: Any) -> None:
    name, arn, sts = assumed
    made = sts.assume_role(RoleArn=arn, RoleSessionName="session", DurationSeconds=900)
    credentials = made["Credentials"]
    identity = place.client("sts", credentials).get_caller_identity()
    session = f"arn:aws:sts::{place.account}:assumed-role/{name}/session"
    assert (identity["Arn"], identity["UserId"]) == (session, made["AssumedRoleUser"]["AssumedRoleId"])
    assert made["AssumedRoleUser"]["Arn"] == session
    assert credentials["AccessKeyId"].startswith("ASIA")
    assert (place.reads(credentials), place.writes(credentials)) == ("", "")
    url = place.client("s3", credentials).generate_presigned_url("get_object", Params={"Bucket": "photos", "Key": "a"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"x"
    place.control.advance(dt.timedelta(seconds=901))
    assert place.reads(credentials) == "ExpiredToken"
    assert code_of(place.client("sts", credentials).get_caller_identity) == "ExpiredToken"


def test_a_path_makes_nobody_a_session_of_a_role(place: Place) -> None:
    """Paths take colons, on AWS as well: a user must not become a role by where its name stands."""
    name, arn = place.role(trust({"AWS": place.account}), policy=None)
    granted = json.loads(statement(action="s3:GetObject", resource="arn:aws:s3:::photos/*", Principal={"AWS": arn}))
    place.s3.put_bucket_policy(Bucket="photos", Policy=json.dumps(granted))
    user = f"u-{uuid.uuid4().hex[:12]}"
    made = place.iam.create_user(UserName=user, Path=f"/dev/:assumed-role/{name}/")["User"]["Arn"]
    key = place.iam.create_access_key(UserName=user)["AccessKey"]
    assert place.reads(key) == "AccessDenied"
    # What denies by name finds it.
    own = json.loads(statement(Action="s3:*"))
    own["Statement"] += json.loads(
        statement("Deny", "s3:GetObject", Condition={"StringEquals": {"aws:username": user}})
    )["Statement"]
    place.iam.put_user_policy(UserName=user, PolicyName="own", PolicyDocument=json.dumps(own))
    assert (place.reads(key), place.writes(key)) == ("AccessDenied", "")
    asked = {"PolicySourceArn": made, "ActionNames": ["s3:GetObject", "s3:PutObject"]}
    found = place.iam.simulate_principal_policy(**asked)["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["explicitDeny", "allowed"]
    place.s3.delete_bucket_policy(Bucket="photos")


@pytest.mark.parametrize("path", ["/", "/a:policy/", "/:assumed-role/x/"])
def test_a_session_ends_with_its_role_whatever_its_path(place: Place, path: str) -> None:
    user, key = place.user()
    name, arn = place.role(trust({"AWS": user}), Path=path)
    sts = place.client("sts", key)
    credentials = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    assert place.reads(credentials) == ""
    place.iam.detach_role_policy(RoleName=name, PolicyArn=FULL)
    place.iam.delete_role(RoleName=name)
    assert place.reads(credentials) == "InvalidToken"


def test_a_form_of_a_session(place: Place, assumed: Any) -> None:
    import httpx

    _, arn, sts = assumed
    s3 = place.client("s3", sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"])
    form = s3.generate_presigned_post("photos", "form")
    sent = {"data": form["fields"], "files": {"file": b"y"}}
    assert httpx.post(form["url"], **sent).status_code == 204
    for token, expected in (("", "InvalidAccessKeyId"), ("AAAA", "InvalidToken")):
        answer = httpx.post(form["url"], **{**sent, "data": {**form["fields"], "x-amz-security-token": token}})
        assert expected in answer.text, answer.text


def test_tokens_and_keys_belong_together(place: Place, assumed: Any) -> None:
    _, arn, sts = assumed
    made, other = (sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"] for _ in range(2))
    root = {"AccessKeyId": place.server.access_key, "SecretAccessKey": place.server.secret_key}
    token = made["SessionToken"]
    for changed, expected, of_sts in (
        ({**made, "SessionToken": ""}, "InvalidAccessKeyId", "InvalidClientTokenId"),
        ({**made, "SessionToken": other["SessionToken"]}, "InvalidAccessKeyId", "InvalidClientTokenId"),
        ({**made, "SessionToken": token[:-8]}, "InvalidToken", "InvalidClientTokenId"),
        ({**made, "SessionToken": "AAAA" + token}, "InvalidToken", "InvalidClientTokenId"),
        ({**root, "SessionToken": token}, "InvalidAccessKeyId", "InvalidClientTokenId"),
        ({**root, "SessionToken": "x"}, "InvalidToken", "InvalidClientTokenId"),
        ({**made, "SecretAccessKey": "x" * 40}, "SignatureDoesNotMatch", "SignatureDoesNotMatch"),
    ):
        if changed["SessionToken"]:
            assert place.reads(changed) == expected
            assert code_of(place.client("sts", changed).get_caller_identity) == of_sts
        else:
            assert place.reads(changed) == expected


def test_session_policies_intersect_and_never_grant(place: Place, assumed: Any) -> None:
    name, arn, sts = assumed

    def session(**more: Any) -> Any:
        return sts.assume_role(RoleArn=arn, RoleSessionName="session", **more)["Credentials"]

    read, write = statement(action="s3:GetObject"), statement(action="s3:PutObject")
    read_only = [{"arn": READ_ONLY}]
    for given, expected in (
        ({"Policy": read}, ("", "AccessDenied")),
        ({"PolicyArns": read_only}, ("", "AccessDenied")),
        ({"PolicyArns": read_only, "Policy": write}, ("", "")),
        ({"Policy": statement("Deny", "s3:GetObject"), "PolicyArns": [{"arn": FULL}]}, ("AccessDenied", "")),
    ):
        made = session(**given)
        assert (place.reads(made), place.writes(made)) == expected, given
    wide = session(Policy=statement())
    place.iam.detach_role_policy(RoleName=name, PolicyArn=FULL)
    assert (place.reads(wide), place.writes(wide)) == ("AccessDenied", "AccessDenied")
    assert code_of(session, Policy=statement(resource=["arn:aws:s3:::" + "x" * 2048])) == "ValidationError"
    assert code_of(session, PolicyArns=[{"arn": FULL}] * 11) == "ValidationError"
    assert code_of(session, PolicyArns=[{"arn": FULL + "x"}]) == "ValidationError"
    assert code_of(session, Policy='{"Statement": []}') == "MalformedPolicyDocument"
    assert code_of(session, SourceIdentity="ann") == "ValidationError"
    with pytest.raises(ClientError, match="'serialNumber' failed to satisfy constraint: is not supported"):
        session(SerialNumber="arn:aws:iam::111122223333:mfa/ann")


def test_a_role_needs_its_own_policy_and_that_of_who_assumes_it(place: Place) -> None:
    root = f"arn:aws:iam::{place.account}:root"
    nobody, nobodys = place.user()
    _, anybodys = place.user(statement(action="sts:AssumeRole"))
    # Its account is trusted, which passes that on by a policy; itself; another one.
    for trusted, expected in ((root, ("AccessDenied", "")), (nobody, ("", "AccessDenied"))):
        _, arn = place.role(trust({"AWS": trusted}))
        given = {"RoleArn": arn, "RoleSessionName": "session"}
        found = [code_of(place.client("sts", key).assume_role, **given) for key in (nobodys, anybodys)]
        assert tuple(found) == expected, trusted
    _, arn = place.role(trust({"AWS": root}, Condition={"StringEquals": {"sts:ExternalId": "secret"}}))
    sts = place.client("sts", anybodys)
    for more, code in (({}, "AccessDenied"), ({"ExternalId": "other"}, "AccessDenied"), ({"ExternalId": "secret"}, "")):
        assert code_of(sts.assume_role, RoleArn=arn, RoleSessionName="session", **more) == code
    _, arn = place.role(trust({"AWS": root}, Condition={"StringLike": {"sts:RoleSessionName": "ann-*"}}))
    for name, code in (("bob", "AccessDenied"), ("ann-1", "")):
        assert code_of(sts.assume_role, RoleArn=arn, RoleSessionName=name) == code


def test_sts_login_enumeration(place: Place) -> None:
    """Whoever may not assume a role does not learn whether it exists, and neither does a token of nobody."""
    _, key = place.user()
    _, arn = place.role(trust({"AWS": f"arn:aws:iam::{place.account}:root"}))
    other, told = arn[:-1] + "-", []
    for role in (arn, other):
        with pytest.raises(ClientError) as caught:
            place.client("sts", key).assume_role(RoleArn=role, RoleSessionName="session")
        told.append(str(caught.value).replace(role, "ROLE"))
        with pytest.raises(ClientError) as caught:
            place.web(role, place.provider.token())
        told.append(str(caught.value))
    assert told[:2] == told[2:]


def test_how_long_a_session_lasts(place: Place) -> None:
    user, key = place.user()
    name, arn = place.role(trust({"AWS": user}), MaxSessionDuration=7200)
    sts = place.client("sts", key)
    for seconds, code in ((899, "ValidationError"), (900, ""), (7200, ""), (7201, "ValidationError")):
        given = {"RoleArn": arn, "RoleSessionName": "session", "DurationSeconds": seconds}
        assert code_of(sts.assume_role, **given) == code, seconds
    first = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    place.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=statement(action="sts:AssumeRole"))
    _, second = place.role(trust({"AWS": arn}), MaxSessionDuration=7200)
    chained = place.client("sts", first)
    given = {"RoleArn": second, "RoleSessionName": "session"}
    assert code_of(chained.assume_role, **given, DurationSeconds=7200) == "ValidationError"
    made = chained.assume_role(**given)["Credentials"]
    assert place.reads(made) == ""


def test_a_session_ends_with_its_role_and_changes_with_it(place: Place, assumed: Any) -> None:
    name, arn, sts = assumed
    made = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    place.iam.detach_role_policy(RoleName=name, PolicyArn=FULL)
    assert place.reads(made) == "AccessDenied"
    place.iam.attach_role_policy(RoleName=name, PolicyArn=FULL)
    assert place.reads(made) == ""
    place.iam.detach_role_policy(RoleName=name, PolicyArn=FULL)
    place.iam.delete_role(RoleName=name)
    assert place.reads(made) == "InvalidToken"
    # Another one of the same name is another one.
    place.iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust({"AWS": arn.replace(f"role/{name}", "root")}))
    place.iam.attach_role_policy(RoleName=name, PolicyArn=FULL)
    assert place.reads(made) == "InvalidToken"


def test_sessions_that_were_issued_before_a_time_are_revoked(place: Place, assumed: Any) -> None:
    name, arn, sts = assumed
    old = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    revoked = old["Expiration"] - dt.timedelta(seconds=3599)
    condition = {"DateLessThan": {"aws:TokenIssueTime": revoked.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    document = statement("Deny", "*", Condition=condition)
    place.iam.put_role_policy(RoleName=name, PolicyName="AWSRevokeOlderSessions", PolicyDocument=document)
    place.control.advance(dt.timedelta(seconds=2))
    new = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    assert (place.reads(old), place.reads(new)) == ("AccessDenied", "")


def test_temporary_credentials_are_without_a_second_factor(place: Place) -> None:
    """As on AWS, a key that is no temporary one does not say either."""
    name, arn = place.role(trust({"AWS": place.account}))
    condition = {"Bool": {"aws:MultiFactorAuthPresent": "false"}}
    denial = statement("Deny", "s3:*", Condition=condition)
    place.iam.put_role_policy(RoleName=name, PolicyName="factor", PolicyDocument=denial)
    user, key = place.user(statement())
    place.iam.put_user_policy(UserName=user.rpartition("/")[2], PolicyName="factor", PolicyDocument=denial)
    own = place.client("sts", key).get_session_token()["Credentials"]
    role = place.sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    assert [place.reads(each) for each in (key, own, role)] == ["", "AccessDenied", "AccessDenied"]


def test_session_tags(place: Place) -> None:
    user, key = place.user()
    condition = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
    _, plain = place.role(trust({"AWS": user}))
    name, arn = place.role(trust({"AWS": user}, ["sts:AssumeRole", "sts:TagSession"]), policy=None)
    place.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=statement(Condition=condition))
    sts, given = place.client("sts", key), {"RoleArn": arn, "RoleSessionName": "session"}
    red = [{"Key": "team", "Value": "red"}]
    tagged = sts.assume_role(**given, Tags=red)["Credentials"]
    assert (place.reads(tagged), place.reads(sts.assume_role(**given)["Credentials"])) == ("", "AccessDenied")
    assert code_of(sts.assume_role, RoleArn=plain, RoleSessionName="session", Tags=red) == "AccessDenied"
    place.iam.tag_role(RoleName=name, Tags=red)
    assert place.reads(sts.assume_role(**given)["Credentials"]) == ""
    assert (
        place.reads(sts.assume_role(**given, Tags=[{"Key": "Team", "Value": "blue"}])["Credentials"]) == "AccessDenied"
    )
    assert code_of(sts.assume_role, **given, TransitiveTagKeys=["team"]) == "ValidationError"


def test_transitive_tags_are_handed_on(place: Place) -> None:
    user, key = place.user()
    both = ["sts:AssumeRole", "sts:TagSession"]
    name, first = place.role(trust({"AWS": user}, both), policy=None)
    place.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=statement(action=both))
    other, second = place.role(trust({"AWS": first}, both), policy=None)
    condition = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
    place.iam.put_role_policy(RoleName=other, PolicyName="own", PolicyDocument=statement(Condition=condition))
    red, given = [{"Key": "team", "Value": "red"}], {"RoleArn": second, "RoleSessionName": "session"}
    sts = place.client("sts", key)
    for keys, expected in ((["team"], ""), ([], "AccessDenied")):
        made = sts.assume_role(RoleArn=first, RoleSessionName="session", Tags=red, TransitiveTagKeys=keys)[
            "Credentials"
        ]
        chained = place.client("sts", made)
        assert place.reads(chained.assume_role(**given)["Credentials"]) == expected
        changed = code_of(chained.assume_role, **given, Tags=[{"Key": "team", "Value": "blue"}])
        assert changed == ("ValidationError" if keys else "")


def test_a_session_of_a_user(place: Place) -> None:
    user, key = place.user(statement())
    sts = place.client("sts", key)
    made = sts.get_session_token()["Credentials"]
    assert place.client("sts", made).get_caller_identity()["Arn"] == user
    assert (place.reads(made), code_of(place.client("sts", made).get_session_token)) == ("", "AccessDenied")
    assert code_of(place.client("iam", made).list_users) == "InvalidClientTokenId"
    place.iam.update_access_key(UserName=user.rpartition("/")[2], AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert place.reads(made) == "InvalidToken"
    of_root = place.sts.get_session_token()["Credentials"]
    assert (place.reads(of_root), code_of(place.client("iam", of_root).list_users)) == ("", "InvalidClientTokenId")


def test_a_federated_user_without_a_policy_may_nothing(place: Place) -> None:
    _, key = place.user(statement(action=["s3:*", "sts:GetFederationToken"]))
    _, others = place.user(statement())
    sts = place.client("sts", key)
    made = sts.get_federation_token(Name="bob")
    assert made["FederatedUser"]["Arn"] == f"arn:aws:sts::{place.account}:federated-user/bob"
    assert place.client("sts", made["Credentials"]).get_caller_identity()["UserId"] == f"{place.account}:bob"
    assert place.reads(made["Credentials"]) == "AccessDenied"
    narrow = sts.get_federation_token(Name="bob", Policy=statement(action="s3:GetObject"))["Credentials"]
    assert (place.reads(narrow), place.writes(narrow)) == ("", "AccessDenied")
    assert code_of(place.client("sts", others).get_federation_token, Name="bob") == "AccessDenied"
    of_root = place.sts.get_federation_token(Name="bob", Policy=statement(action="s3:GetObject"))["Credentials"]
    assert (place.reads(of_root), place.writes(of_root)) == ("", "AccessDenied")
    assert place.reads(place.sts.get_federation_token(Name="bob")["Credentials"]) == "AccessDenied"


def test_a_session_may_call_iam_as_far_as_its_role_may(place: Place, assumed: Any) -> None:
    name, arn, sts = assumed
    place.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=statement(action="iam:List*"))
    made = sts.assume_role(RoleArn=arn, RoleSessionName="session")["Credentials"]
    iam = place.client("iam", made)
    assert iam.list_users()["Users"]
    assert code_of(iam.create_user, UserName="x") == "AccessDenied"
    assert code_of(iam.list_access_keys) in {"ValidationError", "AccessDenied"}
    narrow = sts.assume_role(RoleArn=arn, RoleSessionName="session", Policy=statement())["Credentials"]
    assert code_of(place.client("iam", narrow).list_users) == "AccessDenied"


def test_everybody_may_know_who_it_is(place: Place) -> None:
    user, key = place.user(statement("Deny", "*"))
    assert place.client("sts", key).get_caller_identity()["Arn"] == user
    wrong = {**key, "SecretAccessKey": "x" * 40}
    assert code_of(place.client("sts", wrong).get_caller_identity) == "SignatureDoesNotMatch"


@pytest.fixture
def web_role(place: Place) -> str:
    provider = f"arn:aws:iam::{place.account}:oidc-provider/{ISSUER.removeprefix('https://')}"
    condition = {"StringEquals": {f"{ISSUER.removeprefix('https://')}:aud": "app", f"{ISSUER[8:]}:sub": "ann"}}
    action = ["sts:AssumeRoleWithWebIdentity", "sts:TagSession"]
    return place.role(trust({"Federated": provider}, action, Condition=condition))[1]


@pytest.mark.parametrize("kid", ["rsa", "ec"])
def test_a_web_identity(place: Place, web_role: str, kid: str) -> None:
    """The set of keys has no certificates: `x5c` is not needed."""
    tags = {"principal_tags": {"team": ["red"]}, "transitive_tag_keys": ["team"]}
    made = place.web(web_role, place.provider.token(kid, **{"https://aws.amazon.com/tags": tags}))
    assert (made["Audience"], made["SubjectFromWebIdentityToken"]) == ("app", "ann")
    assert place.reads(made["Credentials"]) == ""
    assert place.client("sts", made["Credentials"]).get_caller_identity()["Arn"].endswith("/web")


def test_a_web_identity_that_the_role_does_not_trust(place: Place, web_role: str) -> None:
    for changed in ({"sub": "bob"}, {"aud": "other-app"}):
        assert code_of(place.web, role=web_role, token=place.provider.token(**changed)) == "AccessDenied"
    plain = place.role(trust({"AWS": f"arn:aws:iam::{place.account}:root"}))[1]
    assert code_of(place.web, role=plain, token=place.provider.token()) == "AccessDenied"


def refused(place: Place, role: str, token: str) -> str:
    return code_of(place.web, role=role, token=token)


def with_secret(claims: dict[str, Any], secret: bytes, **header: Any) -> str:
    """A token that anybody makes who knows what is public; PyJWT refuses to."""
    parts = [json.dumps({"alg": "HS256", "kid": "rsa", **header}).encode(), json.dumps(claims).encode()]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = hmac.digest(secret, signed, "sha256")
    return f"{signed.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_jwt_algorithm_confusion(place: Place, web_role: str) -> None:
    """No key at all; the public key as the secret of an HMAC; a key of RSA for a curve; another key."""
    provider = place.provider
    public = json.dumps(provider.key_set()["keys"][0])
    forged = [
        jwt.encode(provider.claims(), None, "none", {"kid": "rsa"}),
        with_secret(provider.claims(), public.encode()),
        with_secret(provider.claims(), provider.pem()),
        with_secret(provider.claims(), b""),
        jwt.encode(provider.claims(), provider.keys["ec"], "ES256", {"kid": "rsa"}),
        jwt.encode(provider.claims(), provider.keys["rsa"], "RS256", {"kid": "ec"}),
        Provider().token(),
        provider.token(headers={"crit": ["exp"]}),
        # What a header offers as a key is not looked at.
        Provider().token(headers={"jwk": Provider().key_set()["keys"][0], "jku": "https://evil.example"}),
    ]
    head, body, signature = provider.token().split(".")
    forged += [f"{head}.{body}.", f"{head}.{body}", f"{head}.{body[:-2]}AA.{signature}", "a.b.c", "....", "x" * 20_000]
    for token in forged:
        assert refused(place, web_role, token) == "InvalidIdentityToken", token[:200]


def test_jwt_without_audience(place: Place, web_role: str) -> None:
    for audience in (None, "unknown", [], ["unknown"], 1):
        assert refused(place, web_role, place.provider.token(aud=audience)) == "InvalidIdentityToken", audience
    assert refused(place, web_role, place.provider.token(aud=["unknown", "app"])) == ""


def test_jwt_without_exp(place: Place, web_role: str) -> None:
    for ends in (None, "tomorrow", True, 1e12, float("inf")):
        assert refused(place, web_role, place.provider.token(exp=ends)) == "InvalidIdentityToken", ends
    for ends in (0, int(time.time()) - 1):
        assert refused(place, web_role, place.provider.token(exp=ends)) == "ExpiredTokenException"
    later = int(time.time()) + 100_000_000
    assert refused(place, web_role, place.provider.token(nbf=later, exp=later + 1)) == "InvalidIdentityToken"
    assert refused(place, web_role, place.provider.token(sub=None)) == "InvalidIdentityToken"


def test_jwt_with_an_unknown_kid(place: Place, web_role: str) -> None:
    for kid in ("unknown", "", "../rsa"):
        assert refused(place, web_role, place.provider.token(headers={"kid": kid})) == "InvalidIdentityToken", kid
    for kid in (None, 1, ["rsa"]):
        token = with_secret(place.provider.claims(), b"", alg="RS256", kid=kid)
        assert refused(place, web_role, token) == "InvalidIdentityToken", kid


def test_an_issuer_that_is_not_registered(place: Place, web_role: str) -> None:
    """Nothing is fetched for it: the token says it, and nobody has verified that."""
    for issuer in ("https://evil.example", ISSUER + "/", ISSUER.upper(), "http://169.254.169.254", "file:///etc", None):
        assert refused(place, web_role, place.provider.token(iss=issuer)) == "InvalidIdentityToken", issuer


def test_web_tags_that_a_session_cannot_have(place: Place, web_role: str) -> None:
    for tags in (1, {"principal_tags": 1}, {"principal_tags": {"a": ["b", "c"]}}, {"transitive_tag_keys": ["a"]}):
        token = place.provider.token(**{"https://aws.amazon.com/tags": tags})
        assert refused(place, web_role, token) == "InvalidIdentityToken", tags


def test_providers_are_managed(place: Place) -> None:
    url, thumbprint = "https://other.example/x", "0" * 40
    made = place.iam.create_open_id_connect_provider(
        Url=url, ClientIDList=["a"], ThumbprintList=[thumbprint], Tags=[{"Key": "k", "Value": "v"}]
    )
    arn = {"OpenIDConnectProviderArn": made["OpenIDConnectProviderArn"]}
    place.iam.add_client_id_to_open_id_connect_provider(**arn, ClientID="b")
    place.iam.remove_client_id_from_open_id_connect_provider(**arn, ClientID="a")
    place.iam.update_open_id_connect_provider_thumbprint(**arn, ThumbprintList=["1" * 40])
    found = place.iam.get_open_id_connect_provider(**arn)
    assert (found["Url"], found["ClientIDList"], found["ThumbprintList"]) == ("other.example/x", ["b"], ["1" * 40])
    assert {"Arn": arn["OpenIDConnectProviderArn"]} in place.iam.list_open_id_connect_providers()[
        "OpenIDConnectProviderList"
    ]
    again = code_of(place.iam.create_open_id_connect_provider, Url=url, ClientIDList=["a"])
    assert again == "EntityAlreadyExists"
    place.iam.delete_open_id_connect_provider(**arn)
    assert code_of(place.iam.get_open_id_connect_provider, **arn) == "NoSuchEntity"
    for bad in ("http://plain.example", "https://", "https://a b.example", "https://user@host.example"):
        assert code_of(place.iam.create_open_id_connect_provider, Url=bad, ClientIDList=["a"]) == "ValidationError", bad
    # Only the operator's file says where keys are.
    assert "JwksUrl" not in found


def test_a_provider_whose_keys_cannot_be_read(place: Place, web_role: str, tmp_path: Path) -> None:
    """Loopback: a provider that anybody may register leads to no address of this machine."""
    url = "https://127.0.0.1"
    place.iam.create_open_id_connect_provider(Url=url, ClientIDList=["app"])
    local = Provider(url)
    with pytest.raises(ClientError, match="IDPCommunicationError") as answer:
        place.web(web_role, local.token())
    assert "127.0.0.1" not in str(answer.value), "where keys are is for the log"
