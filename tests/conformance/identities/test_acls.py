"""Access control lists of buckets and objects: who owns, what a list says, and whom it lets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from botocore import UNSIGNED
from botocore.config import Config
from tests.fixtures.keys import admin
from tests.fixtures.signing import Identity
from tests.fixtures.targets import Target, read, refusal
from tests.fixtures.wire import Signer, Wire

pytestmark = pytest.mark.conformance

_GROUPS: Final = "http://acs.amazonaws.com/groups/"
EVERYBODY: Final = f"{_GROUPS}global/AllUsers"
SIGNERS: Final = f"{_GROUPS}global/AuthenticatedUsers"
LOGS: Final = f"{_GROUPS}s3/LogDelivery"
DENIED: Final = (403, "AccessDenied")
DISABLED: Final = (400, "AccessControlListNotSupported")


@dataclass(frozen=True)
class Account:
    """An account, and a client of its root."""

    number: str
    id: str
    keys: dict[str, str]
    s3: Any

    def wire(self, target: Target) -> Wire:
        return Wire(target.server.endpoint, self.identity(target))

    def signer(self, target: Target) -> Signer:
        access_key, secret_key = self.keys.values()
        return replace(Signer.of(target.server), access_key=access_key, secret_key=secret_key)

    def identity(self, target: Target) -> Identity:
        keys = self.keys
        return Identity(keys["aws_access_key_id"], keys["aws_secret_access_key"], target.server.region)


def client(target: Target, **options: Any) -> Any:
    config = {"retries": {"total_max_attempts": 1}} | options.pop("config", {})
    return target.server.client(config=Config(**config), **options)


@pytest.fixture
def accounts(target: Target) -> Iterator[tuple[Account, Account]]:
    """Two accounts other than that of the store's root, on whom nothing is decided."""
    made = []
    for _ in range(2):
        account = admin(target, "POST", "iam", order("CreateAccount", None, AccountName=f"a-{uuid.uuid4().hex}"))[
            "Account"
        ]
        key = admin(target, "POST", "iam", order("CreateAccessKey", account["AccountId"]))["AccessKey"]
        keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
        made.append(Account(account["AccountId"], account["CanonicalId"], keys, client(target, **keys)))
    yield made[0], made[1]
    for account in made:
        account.s3.close()


def order(action: str, account: str | None, **parameters: str) -> dict[str, Any]:
    return {"action": action, "parameters": parameters, "account": account}


@pytest.fixture
def anonymous(target: Target) -> Iterator[Any]:
    made = client(target, config={"signature_version": UNSIGNED})
    yield made
    made.close()


def open_bucket(owner: Account, ownership: str = "ObjectWriter", **options: str) -> str:
    """A bucket whose lists are enabled, and in which nothing is blocked."""
    name = f"acl-{uuid.uuid4().hex}"
    owner.s3.create_bucket(Bucket=name, ObjectOwnership=ownership)
    owner.s3.delete_public_access_block(Bucket=name)
    if options:
        owner.s3.put_bucket_acl(Bucket=name, **options)
    return name


def grants(answer: dict[str, Any]) -> set[tuple[str, str]]:
    """To whom, by id or group, a list gives what."""
    return {(it["Grantee"].get("ID") or it["Grantee"]["URI"], it["Permission"]) for it in answer["Grants"]}


def listed(owner: Account, *given: tuple[str, str]) -> dict[str, Any]:
    """The document of a list."""

    def grantee(name: str) -> dict[str, str]:
        return {"Type": "Group", "URI": name} if name.startswith("http") else {"Type": "CanonicalUser", "ID": name}

    return {"Owner": {"ID": owner.id}, "Grants": [{"Grantee": grantee(who), "Permission": what} for who, what in given]}


def by_policy(bucket: str, **members: Any) -> str:
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": resources}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement | members]})


def test_lists_of_a_new_bucket_are_disabled(accounts: tuple[Account, Account]) -> None:
    me, other = accounts
    s3, bucket = me.s3, f"acl-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    for more in ({"ACL": "public-read"}, {"GrantRead": f"id={other.id}"}):
        assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"", **more) == DISABLED
        assert refusal(s3.create_multipart_upload, Bucket=bucket, Key="k", **more) == DISABLED
        assert refusal(s3.put_bucket_acl, Bucket=bucket, **more) == DISABLED
        refused = refusal(s3.create_bucket, Bucket=f"{bucket[:-1]}x", **more)
        assert refused == (400, "InvalidBucketAclWithObjectOwnership")
    s3.put_object(Bucket=bucket, Key="k", Body=b"", ACL="bucket-owner-full-control")
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="bucket-owner-full-control")
    s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=listed(me, (me.id, "FULL_CONTROL")))
    document = listed(me, (me.id, "FULL_CONTROL"), (other.id, "READ"))
    assert refusal(s3.put_object_acl, Bucket=bucket, Key="k", AccessControlPolicy=document) == DISABLED
    for acl in (s3.get_bucket_acl(Bucket=bucket), s3.get_object_acl(Bucket=bucket, Key="k")):
        assert (acl["Owner"]["ID"], grants(acl)) == (me.id, {(me.id, "FULL_CONTROL")})


def test_the_header_of_a_new_bucket_says_who_owns_its_objects(accounts: tuple[Account, Account]) -> None:
    me, other = accounts
    for ownership in ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        bucket = f"acl-{uuid.uuid4().hex}"
        me.s3.create_bucket(Bucket=bucket, ObjectOwnership=ownership)
        controls = me.s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]
        assert controls == {"Rules": [{"ObjectOwnership": ownership}]}
    bucket = f"acl-{uuid.uuid4().hex}"
    me.s3.create_bucket(Bucket=bucket, ObjectOwnership="ObjectWriter", GrantRead=f"id={other.id}")
    assert grants(me.s3.get_bucket_acl(Bucket=bucket)) == {(other.id, "READ")}
    # Whatever is public is blocked in a new bucket.
    public = {"ObjectOwnership": "ObjectWriter", "ACL": "public-read"}
    refused = refusal(me.s3.create_bucket, Bucket=f"{bucket[:-1]}x", **public)
    assert refused == (400, "InvalidBucketAclWithBlockPublicAccessError")


@pytest.mark.parametrize(
    ("canned", "given"),
    {
        "private": set(),
        "public-read": {(EVERYBODY, "READ")},
        "public-read-write": {(EVERYBODY, "READ"), (EVERYBODY, "WRITE")},
        "authenticated-read": {(SIGNERS, "READ")},
        "log-delivery-write": {(LOGS, "WRITE"), (LOGS, "READ_ACP")},
        "bucket-owner-read": set(),
        "bucket-owner-full-control": set(),
        "aws-exec-read": set(),
    }.items(),
)
def test_a_canned_list_gives_what_s3_says(
    accounts: tuple[Account, Account], canned: str, given: set[tuple[str, str]]
) -> None:
    me, _ = accounts
    s3, bucket = me.s3, open_bucket(me)
    expected = {(me.id, "FULL_CONTROL"), *given}
    s3.put_bucket_acl(Bucket=bucket, ACL=canned)
    assert grants(s3.get_bucket_acl(Bucket=bucket)) == expected
    s3.put_object(Bucket=bucket, Key="put", Body=b"", ACL=canned)
    s3.put_object(Bucket=bucket, Key="later", Body=b"")
    s3.put_object_acl(Bucket=bucket, Key="later", ACL=canned)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/later", ACL=canned)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", ACL=canned)["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
    for key in ("put", "later", "copy", "parts"):
        acl = s3.get_object_acl(Bucket=bucket, Key=key)
        assert (acl["Owner"]["ID"], grants(acl)) == (me.id, expected), key
    # It goes with the bytes as little as the owner of the source does.
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/put")
    assert grants(s3.get_object_acl(Bucket=bucket, Key="copy")) == {(me.id, "FULL_CONTROL")}


def test_headers_and_documents_name_grantees(accounts: tuple[Account, Account]) -> None:
    me, other = accounts
    s3, bucket = me.s3, open_bucket(me)
    s3.put_object(
        Bucket=bucket, Key="k", Body=b"", GrantRead=f'id="{other.id}", uri="{EVERYBODY}"', GrantReadACP=f"id={me.id}"
    )
    assert grants(s3.get_object_acl(Bucket=bucket, Key="k")) == {
        (other.id, "READ"), (EVERYBODY, "READ"), (me.id, "READ_ACP"),
    }  # fmt: skip
    document = listed(me, (me.id, "FULL_CONTROL"), (other.id, "WRITE_ACP"), (SIGNERS, "READ"))
    for put, get, place in (
        (s3.put_bucket_acl, s3.get_bucket_acl, {"Bucket": bucket}),
        (s3.put_object_acl, s3.get_object_acl, {"Bucket": bucket, "Key": "k"}),
    ):
        put(**place, AccessControlPolicy=document)
        answer = get(**place)
        assert grants(answer) == {(me.id, "FULL_CONTROL"), (other.id, "WRITE_ACP"), (SIGNERS, "READ")}
        # What is read can be written back.
        put(**place, AccessControlPolicy={"Owner": answer["Owner"], "Grants": answer["Grants"]})
        assert get(**place)["Grants"] == answer["Grants"]


def test_lists_that_s3_refuses_are_refused_and_change_nothing(
    accounts: tuple[Account, Account], target: Target
) -> None:
    me, other = accounts
    s3, bucket = me.s3, open_bucket(me)
    s3.put_object(Bucket=bucket, Key="k", Body=b"", GrantRead=f"id={other.id}")
    place = {"Bucket": bucket, "Key": "k"}
    for more, expected in (
        ({"GrantRead": "id=0000"}, (400, "InvalidArgument")),
        ({"GrantRead": "uri=http://example.com/"}, (400, "InvalidArgument")),
        ({"GrantRead": other.id}, (400, "InvalidArgument")),
        ({"GrantRead": "emailAddress=a@example.com"}, (400, "UnresolvableGrantByEmailAddress")),
        ({"GrantRead": f"id={other.id}", "ACL": "private"}, (400, "InvalidRequest")),
        ({"ACL": "public"}, (400, "InvalidArgument")),
    ):
        for put in (s3.put_object, s3.put_object_acl):
            assert refusal(put, **place, **more) == expected, more
    for document, expected in (
        (listed(other, (me.id, "FULL_CONTROL")), DENIED),
        (listed(me, ("00ff", "READ")), (400, "InvalidArgument")),
        (listed(me, (me.id, "ALL")), (400, "MalformedACLError")),
    ):
        assert refusal(s3.put_object_acl, **place, AccessControlPolicy=document) == expected
        assert refusal(s3.put_bucket_acl, Bucket=bucket, AccessControlPolicy=document) == expected
    answer = me.wire(target)("PUT", f"/{bucket}/k", "acl", body=b"<AccessControlPolicy/>")
    assert (answer.status, answer.code) == (400, "MalformedACLError")
    assert grants(s3.get_object_acl(**place)) == {(other.id, "READ")}


@pytest.mark.parametrize("ownership", ["BucketOwnerPreferred", "ObjectWriter"])
def test_the_writer_owns_an_object_unless_the_bucket_says_otherwise(
    accounts: tuple[Account, Account], ownership: str
) -> None:
    me, other = accounts
    bucket = open_bucket(me, ownership, GrantWrite=f"id={other.id}", GrantRead=f"id={other.id}")
    other.s3.put_object(Bucket=bucket, Key="theirs", Body=b"theirs")
    other.s3.put_object(Bucket=bucket, Key="shared", Body=b"shared", ACL="bucket-owner-full-control")
    other.s3.put_object(Bucket=bucket, Key="shown", Body=b"shown", ACL="bucket-owner-read")
    me.s3.put_object(Bucket=bucket, Key="mine", Body=b"mine")
    given = me if ownership == "BucketOwnerPreferred" else other
    owners = {"mine": me.id, "shared": given.id, "shown": other.id, "theirs": other.id}
    for found in (
        me.s3.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"],
        me.s3.list_objects(Bucket=bucket)["Contents"],
        me.s3.list_object_versions(Bucket=bucket)["Versions"],
    ):
        assert {one["Key"]: one["Owner"]["ID"] for one in found} == owners
    for who in (me, other):
        who.s3.create_multipart_upload(Bucket=bucket, Key=who.id)
    uploads = me.s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert {one["Key"]: one["Owner"]["ID"] for one in uploads} == {me.id: me.id, other.id: other.id}
    # The account of the bucket has no right to read what another one owns, but may delete it.
    assert refusal(me.s3.get_object, Bucket=bucket, Key="theirs") == DENIED
    assert refusal(me.s3.get_object_acl, Bucket=bucket, Key="theirs") == DENIED
    assert refusal(me.s3.put_object_acl, Bucket=bucket, Key="theirs", ACL="public-read") == DENIED
    assert read(me.s3, bucket, "shared") == b"shared"
    assert read(me.s3, bucket, "shown") == b"shown"
    assert refusal(me.s3.get_object_acl, Bucket=bucket, Key="shown") == DENIED
    assert read(other.s3, bucket, "theirs") == b"theirs"
    assert refusal(other.s3.get_object, Bucket=bucket, Key="mine") == DENIED
    # What it shares later makes no difference to whose it is.
    other.s3.put_object_acl(Bucket=bucket, Key="theirs", ACL="bucket-owner-full-control")
    acl = me.s3.get_object_acl(Bucket=bucket, Key="theirs")
    assert (acl["Owner"]["ID"], grants(acl)) == (other.id, {(other.id, "FULL_CONTROL"), (me.id, "FULL_CONTROL")})
    me.s3.delete_object(Bucket=bucket, Key="theirs")
    # Once lists are disabled, the bucket's account owns everything.
    me.s3.put_bucket_acl(Bucket=bucket, ACL="private")
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    me.s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    assert refusal(other.s3.get_object, Bucket=bucket, Key="shown") == DENIED
    acl = me.s3.get_object_acl(Bucket=bucket, Key="shown")
    assert (acl["Owner"]["ID"], grants(acl)) == (me.id, {(me.id, "FULL_CONTROL")})


def test_ownership_is_not_enforced_over_a_list_that_gives_something(accounts: tuple[Account, Account]) -> None:
    me, other = accounts
    bucket = open_bucket(me, GrantRead=f"id={other.id}")
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    refused = refusal(me.s3.put_bucket_ownership_controls, Bucket=bucket, OwnershipControls=enforced)
    assert refused == (400, "InvalidBucketAclWithObjectOwnership")
    assert grants(me.s3.get_bucket_acl(Bucket=bucket)) == {(other.id, "READ")}


def asked(who: Any, bucket: str) -> set[str]:
    """What of all that lists can give `who` is let do."""
    other = f"new-{uuid.uuid4().hex}"
    calls = {
        "get": lambda: who.get_object(Bucket=bucket, Key="k"),
        "head": lambda: who.head_object(Bucket=bucket, Key="k"),
        "get acl": lambda: who.get_object_acl(Bucket=bucket, Key="k"),
        "put acl": lambda: who.put_object_acl(Bucket=bucket, Key="k", GrantWriteACP=f"uri={EVERYBODY}"),
        "list": lambda: who.list_objects_v2(Bucket=bucket),
        "versions": lambda: who.list_object_versions(Bucket=bucket),
        "uploads": lambda: who.list_multipart_uploads(Bucket=bucket),
        "put": lambda: who.put_object(Bucket=bucket, Key=other, Body=b""),
        "delete": lambda: who.delete_object(Bucket=bucket, Key=other),
        "get bucket acl": lambda: who.get_bucket_acl(Bucket=bucket),
        "tags": lambda: who.get_object_tagging(Bucket=bucket, Key="k"),
        "policy": lambda: who.get_bucket_policy(Bucket=bucket),
    }
    done = set()
    for name, call in calls.items():
        try:
            call()
        except who.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403, name
        else:
            done.add(name)
    return done


OBJECT: Final = {"READ": {"get", "head"}, "READ_ACP": {"get acl"}, "WRITE_ACP": {"put acl"}, "WRITE": set[str]()}
BUCKET: Final = {
    "READ": {"list", "versions", "uploads"}, "READ_ACP": {"get bucket acl"}, "WRITE": {"put", "delete"},
    "WRITE_ACP": set[str](),
}  # fmt: skip


@pytest.mark.parametrize("permission", [*OBJECT, "FULL_CONTROL"])
def test_a_grant_gives_what_it_names_to_whom_it_names(
    accounts: tuple[Account, Account], anonymous: Any, permission: str
) -> None:
    me, other = accounts
    of = {"object": OBJECT, "bucket": BUCKET}
    for kind, table in of.items():
        given = set[str]().union(*table.values()) if permission == "FULL_CONTROL" else table[permission]
        for grantee, allowed in ((other.id, (given, set())), (SIGNERS, (given, set())), (EVERYBODY, (given, given))):
            bucket = open_bucket(me)
            document = listed(me, (grantee, permission))
            me.s3.put_object(Bucket=bucket, Key="k", Body=b"content")
            for who, expected in zip((other.s3, anonymous), allowed, strict=True):
                if kind == "object":
                    me.s3.put_object_acl(Bucket=bucket, Key="k", AccessControlPolicy=document)
                else:
                    me.s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=document)
                assert asked(who, bucket) == expected, (kind, grantee)
    bucket = open_bucket(me, GrantWriteACP=f"id={other.id}")
    other.s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=listed(me, (other.id, "READ")))
    assert grants(me.s3.get_bucket_acl(Bucket=bucket)) == {(other.id, "READ")}


def test_a_denial_of_a_policy_wins_over_every_list(accounts: tuple[Account, Account], anonymous: Any) -> None:
    me, other = accounts
    bucket = open_bucket(me, ACL="public-read-write")
    other.s3.put_object(Bucket=bucket, Key="k", Body=b"", ACL="public-read")
    assert {"get", "list", "put"} <= asked(anonymous, bucket)
    me.s3.put_bucket_policy(
        Bucket=bucket, Policy=by_policy(bucket, Effect="Deny", Action=["s3:GetObject", "s3:ListBucket"])
    )
    for who in (other.s3, anonymous):
        assert asked(who, bucket) & {"get", "head", "list", "put"} == {"put"}


def test_a_public_access_block_stops_public_lists(accounts: tuple[Account, Account], anonymous: Any) -> None:
    me, other = accounts
    s3, bucket = me.s3, open_bucket(me)
    document = listed(me, (me.id, "FULL_CONTROL"), (EVERYBODY, "READ"), (other.id, "READ"))
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    s3.put_object_acl(Bucket=bucket, Key="k", AccessControlPolicy=document)
    s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=document)
    block = dict.fromkeys(("IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), False)
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block | {"BlockPublicAcls": True})
    # Those that are there go on; new ones are refused, whoever is meant by everybody.
    assert {"get", "list"} <= asked(anonymous, bucket)
    for more in ({"ACL": "public-read"}, {"ACL": "authenticated-read"}, {"GrantRead": f"uri={EVERYBODY}"}):
        assert refusal(s3.put_object, Bucket=bucket, Key="k", **more) == DENIED
        assert refusal(s3.put_object_acl, Bucket=bucket, Key="k", **more) == DENIED
        assert refusal(s3.put_bucket_acl, Bucket=bucket, **more) == DENIED
        assert refusal(s3.copy_object, Bucket=bucket, Key="c", CopySource=f"{bucket}/k", **more) == DENIED
        assert refusal(s3.create_multipart_upload, Bucket=bucket, Key="k", **more) == DENIED
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block | {"IgnorePublicAcls": True})
    assert asked(anonymous, bucket) == set()
    assert {"get", "list"} <= asked(other.s3, bucket)
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    assert refusal(anonymous.get_object, Bucket=bucket, Key="k") == DENIED


def test_only_whoever_may_list_learns_that_a_key_is_missing(accounts: tuple[Account, Account], anonymous: Any) -> None:
    me, other = accounts
    bucket = open_bucket(me)
    me.s3.put_object(Bucket=bucket, Key="k", Body=b"")
    for more in ({}, {"VersionId": "null"}, {"VersionId": "0" * 32}, {"VersionId": "malformed"}):
        for who in (other.s3, anonymous):
            for call in (who.get_object, who.get_object_acl):
                found = {refusal(call, Bucket=bucket, Key=key, **more) for key in ("k", "none")}
                assert found == {DENIED}, more
    me.s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    for who in (other.s3, anonymous):
        assert refusal(who.get_object, Bucket=bucket, Key="none") == (404, "NoSuchKey")
        assert refusal(who.put_object_acl, Bucket=bucket, Key="none", ACL="public-read") == (404, "NoSuchKey")
        assert refusal(who.get_object, Bucket=bucket, Key="none", VersionId="null") == (404, "NoSuchVersion")
        assert refusal(who.get_object, Bucket=bucket, Key="k") == DENIED


@pytest.mark.parametrize("existed", [False, True])
def test_a_list_is_decided_on_again_when_its_body_has_come(
    accounts: tuple[Account, Account], target: Target, existed: bool
) -> None:
    me, other = accounts
    bucket = open_bucket(me, ACL="public-read-write")
    if existed:
        other.s3.put_object(Bucket=bucket, Key="k", Body=b"theirs")
    owner = other if existed else me
    body = (
        f"<AccessControlPolicy><Owner><ID>{owner.id}</ID></Owner><AccessControlList><Grant><Grantee><ID>{other.id}</ID>"
        "</Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>"
    ).encode()
    signer = other.signer(target)
    request = bytes(signer.request("PUT", f"/{bucket}/k", [("acl", "")], body=body))
    with signer.connect() as connection:
        connection.send(request[: -len(body)])
        # The head has been read when another request on a later connection has been answered.
        other.s3.list_objects_v2(Bucket=bucket)
        me.s3.put_object(Bucket=bucket, Key="k", Body=b"mine")
        connection.push(request[-len(body) :])
        assert connection.response("PUT").status in (403, 404)
    assert grants(me.s3.get_object_acl(Bucket=bucket, Key="k")) == {(me.id, "FULL_CONTROL")}
    assert refusal(other.s3.get_object, Bucket=bucket, Key="k") == DENIED


def test_users_have_what_their_account_is_given_by_their_own_policies(
    accounts: tuple[Account, Account], target: Target
) -> None:
    me, other = accounts
    bucket = open_bucket(me)
    me.s3.put_object(Bucket=bucket, Key="k", Body=b"", GrantRead=f"id={other.id}")
    me.s3.put_object(Bucket=bucket, Key="public", Body=b"", ACL="public-read")
    iam = target.server.client("iam", **other.keys)
    users = {}
    for name, action in {"reader": "s3:Get*", "putter": "s3:PutObject"}.items():
        name = f"{name}-{uuid.uuid4().hex[:8]}"
        iam.create_user(UserName=name)
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(document))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
        users[action] = client(target, **keys)
    iam.close()
    reader, putter = users.values()
    for key in ("k", "public"):
        assert read(reader, bucket, key) == b""
        assert refusal(putter.get_object, Bucket=bucket, Key=key) == DENIED
    # A list in the head of an upload is an action of its own.
    own = open_bucket(other)
    putter.put_object(Bucket=own, Key="k", Body=b"")
    assert refusal(putter.put_object, Bucket=own, Key="k", Body=b"", ACL="public-read") == DENIED
    assert refusal(putter.put_object, Bucket=own, Key="k", Body=b"", GrantRead=f"id={me.id}") == DENIED
    for each in users.values():
        each.close()


def test_conditions_see_the_list_that_is_asked_for(accounts: tuple[Account, Account]) -> None:
    me, other = accounts
    for key, value, good, bad in (
        ("s3:x-amz-acl", "bucket-owner-full-control", {"ACL": "bucket-owner-full-control"}, {"ACL": "private"}),
        (
            "s3:x-amz-grant-full-control",
            f"id={me.id}",
            {"GrantFullControl": f"id={me.id}"},
            {"GrantRead": f"id={me.id}"},
        ),
    ):
        bucket = open_bucket(me)
        condition = {"StringEquals": {key: value}}
        principal = {"AWS": other.number}
        policy = by_policy(bucket, Action=["s3:PutObject", "s3:PutObjectAcl"], Principal=principal, Condition=condition)
        me.s3.put_bucket_policy(Bucket=bucket, Policy=policy)
        other.s3.put_object(Bucket=bucket, Key="k", Body=b"", **good)
        assert refusal(other.s3.put_object, Bucket=bucket, Key="k", Body=b"", **bad) == DENIED
        assert refusal(other.s3.put_object, Bucket=bucket, Key="k", Body=b"") == DENIED


def test_each_version_has_its_list(accounts: tuple[Account, Account], anonymous: Any) -> None:
    me, other = accounts
    s3, bucket = me.s3, open_bucket(me)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(Bucket=bucket, Key="k", Body=b"old", ACL="public-read")["VersionId"]
    new = s3.put_object(Bucket=bucket, Key="k", Body=b"new")["VersionId"]
    assert read(anonymous, bucket, "k", VersionId=old) == b"old"
    assert refusal(anonymous.get_object, Bucket=bucket, Key="k") == DENIED
    assert refusal(anonymous.get_object, Bucket=bucket, Key="k", VersionId=new) == DENIED
    s3.put_object_acl(Bucket=bucket, Key="k", VersionId=old, GrantRead=f"id={other.id}")
    assert refusal(anonymous.get_object, Bucket=bucket, Key="k", VersionId=old) == DENIED
    assert read(other.s3, bucket, "k", VersionId=old) == b"old"
    assert grants(s3.get_object_acl(Bucket=bucket, Key="k", VersionId=old)) == {(other.id, "READ")}
    assert grants(s3.get_object_acl(Bucket=bucket, Key="k")) == {(me.id, "FULL_CONTROL")}
    # Time and content stay when a list changes.
    found = s3.head_object(Bucket=bucket, Key="k", VersionId=old)
    assert (found["ETag"], found["VersionId"]) == ('"149603e6c03516362a8da23f624db945"', old)
