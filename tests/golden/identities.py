"""The golden store with identities: `python -m tests.golden.identities NAME` makes it.

Accounts, users, groups, a role, a provider, policies, keys whose secrets are sealed, limits, the policy and the list of a
bucket, and the audit log of all that. What the manifest says of them is what the answers of a server say.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.fixtures.targets import Target
from tests.golden.kinds import plain
from tests.golden.make import HERE, Store, pack, serving

from orcas.control.audit import verify as verify_audit
from orcas.control.files.audit import read_audit
from orcas.tools.session import HttpTransport, Session

BUCKET: Final = "shared"
PATH: Final = "/teams/red/"
PLACE: Final = HERE / "identities"


def policy(effect: str, action: Any, resource: str, **more: Any) -> str:
    statement = {"Sid": "one", "Effect": effect, "Action": action, "Resource": resource, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


READ: Final = policy("Allow", "s3:Get*", f"arn:aws:s3:::{BUCKET}/*")
NARROW: Final = policy("Allow", "s3:*", f"arn:aws:s3:::{BUCKET}/a*")
TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "ACCOUNT"}}],
}


def call(target: Target, action: str, account: str | None = None, **parameters: Any) -> Any:
    """An action of IAM by the operator."""
    server = target.server
    with contextlib.closing(HttpTransport(server.endpoint)) as transport:
        session = Session(transport, (server.access_key, server.secret_key), server.region)
        return session.admin("POST", "iam", {"action": action, "parameters": parameters, "account": account})


def fill(target: Target) -> dict[str, Any]:
    """Makes the identities. Returns the keys of users, by what they are for."""
    call(target, "CreateAccount", AccountName="research")
    accounts = {each["AccountName"]: each for each in call(target, "ListAccounts")["Accounts"]}
    research = accounts.pop("research")
    (own,) = accounts.values()
    arn = call(target, "CreatePolicy", PolicyName="read", Path=PATH, PolicyDocument=READ)["Policy"]["Arn"]
    call(target, "CreatePolicyVersion", PolicyArn=arn, PolicyDocument=READ.replace("one", "two"), SetAsDefault=True)
    for name, more in (("alice", {"Path": PATH}), ("bob", {"PermissionsBoundary": arn})):
        call(target, "CreateUser", UserName=name, Tags=[{"Key": "team", "Value": "röd"}], **more)
        call(target, "AttachUserPolicy", UserName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    call(target, "CreateGroup", GroupName="readers", Path=PATH)
    call(target, "AttachGroupPolicy", GroupName="readers", PolicyArn=arn)
    call(target, "PutGroupPolicy", GroupName="readers", PolicyName="own", PolicyDocument=NARROW)
    call(target, "AddUserToGroup", GroupName="readers", UserName="bob")
    call(target, "PutUserPolicy", UserName="alice", PolicyName="own", PolicyDocument=policy("Allow", "sts:*", "*"))
    trust = json.dumps(TRUST).replace("ACCOUNT", own["AccountId"])
    call(target, "CreateRole", RoleName="reader", AssumeRolePolicyDocument=trust, MaxSessionDuration=7200)
    call(target, "AttachRolePolicy", RoleName="reader", PolicyArn=arn)
    call(target, "CreateOpenIDConnectProvider", Url="https://issuer.example/x", ClientIDList=["app"])
    keys = {
        "alice": call(target, "CreateAccessKey", UserName="alice"),
        "inactive": call(target, "CreateAccessKey", UserName="alice"),
        "narrow": call(target, "CreateAccessKey", UserName="alice", SessionPolicy=NARROW),
        "bob": call(target, "CreateAccessKey", UserName="bob"),
        "research": call(target, "CreateAccessKey", account=research["AccountId"]),
    }
    made = {name: key["AccessKey"] for name, key in keys.items()}
    inactive = made["inactive"]["AccessKeyId"]
    call(target, "UpdateAccessKey", UserName="alice", AccessKeyId=inactive, Status="Inactive")
    call(target, "PutLimits", UserName="bob", RequestsPerSecond=1000, BytesPerSecond=0)
    call(target, "CreateUser", UserName="gone")
    call(target, "DeleteUser", UserName="gone")
    s3 = target.client()
    controls: Any = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=BUCKET, OwnershipControls=controls)
    s3.put_bucket_policy(
        Bucket=BUCKET, Policy=policy("Deny", "s3:DeleteObject", f"arn:aws:s3:::{BUCKET}/*", Principal="*")
    )
    s3.put_bucket_acl(Bucket=BUCKET, GrantRead=f"id={research['CanonicalId']}")
    return {name: [key["AccessKeyId"], key["SecretAccessKey"]] for name, key in made.items()}


def described(target: Target) -> dict[str, Any]:
    """What a server says of its identities."""
    accounts = call(target, "ListAccounts")["Accounts"]
    said: dict[str, Any] = {"accounts": sorted(accounts, key=lambda each: str(each["AccountId"]))}
    for account in said["accounts"]:
        number = account["AccountId"]
        said[number] = call(target, "GetAccountAuthorizationDetails", account=number, MaxItems=1000)
    said["keys"] = {
        name: call(target, "ListAccessKeys", UserName=name)["AccessKeyMetadata"] for name in ("alice", "bob")
    }
    said["providers"] = call(target, "ListOpenIDConnectProviders")
    said["limits"] = call(target, "GetLimits", UserName="bob")
    s3 = target.client()
    said["bucket"] = [plain(s3.get_bucket_policy(Bucket=BUCKET)), plain(s3.get_bucket_acl(Bucket=BUCKET))]
    # As JSON has it.
    return dict(json.loads(json.dumps(said)))


def denied(request: Any, **parameters: str) -> str:
    """The code of the refusal; empty if there is none."""
    from botocore.exceptions import ClientError

    try:
        request(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def verify(target: Target, manifest: dict[str, Any]) -> None:
    """Whether identities, secrets and decisions are as they were left."""
    said = manifest["identities"]
    assert described(target) == said["described"]

    def client(service: str, keys: list[str]) -> Any:
        options = dict(zip(("aws_access_key_id", "aws_secret_access_key", "aws_session_token"), keys, strict=False))
        return target.server.client(service, **options)

    codes = {}
    for name, keys in said["keys"].items():
        s3 = client("s3", keys)
        read = {key: denied(s3.get_object, Bucket=BUCKET, Key=key) for key in ("a", "b")}
        codes[name] = [*read.values(), denied(s3.list_objects_v2, Bucket=BUCKET)]
        s3.close()
    no = "AccessDenied"
    assert codes == {
        "alice": ["", "", ""], "inactive": ["InvalidAccessKeyId"] * 3, "narrow": ["", no, no], "bob": ["", "", no],
        "research": [no, no, ""],
    }  # fmt: skip
    sts = client("sts", said["keys"]["alice"])
    role = f"arn:aws:iam::{sts.get_caller_identity()['Account']}:role/reader"
    made = sts.assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    s3 = client("s3", [made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"]])
    assert (denied(s3.get_object, Bucket=BUCKET, Key="b"), denied(s3.list_objects_v2, Bucket=BUCKET)) == ("", no)
    s3.close()
    sts.close()


def audited(data: Path, manifest: dict[str, Any]) -> None:
    """Whether the audit log is whole, and still says what it said."""
    verify_audit(data)
    lines = [read.content for read in read_audit(data)]
    assert lines[: len(manifest["identities"]["audit"])] == manifest["identities"]["audit"]


def main(version: str) -> None:
    name = f"{version}-closed"
    if (PLACE / f"{name}.json").exists():
        raise SystemExit(f"{name}: golden stores never change. Give the new one another name.")
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        with serving(data) as store:
            store.make_bucket(BUCKET)
            for key in ("a", "b"):
                store.put(BUCKET, key, key.encode())
            manifest = filled(store)
        manifest["identities"]["audit"] = [read.content for read in read_audit(data)]
        pack(data, name, manifest | {"end": "closed"}, PLACE)


def filled(store: Store) -> dict[str, Any]:
    keys = fill(store.target)
    store.manifest["identities"] = {"keys": keys, "described": described(store.target)}
    verify(store.target, store.manifest)
    return store.manifest


if __name__ == "__main__":
    main(*sys.argv[1:])
