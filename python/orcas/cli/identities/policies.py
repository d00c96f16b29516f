"""Commands for policies: managed ones, and what a policy allows."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

import typer

from orcas.cli.identities.calls import Iam, iam, read_document
from orcas.cli.identities.options import InAccount, Path_, PolicyName
from orcas.cli.options import AsJson, Commands, among, pairs
from orcas.cli.output import print_found, print_json, say, tell
from orcas.errors import ConfigurationError, UsageError
from orcas.iam.removal import deletion_of
from orcas.process.failures import EXIT_NOT_ALLOWED

policy_app = Commands(help="Policies: create, change and delete them, check them, and explain decisions.")

_KINDS: Final = ("identity", "bucket", "session", "boundary", "trust")
_DECISIONS: Final = {"allowed": "allowed", "explicitDeny": "denied by a statement", "implicitDeny": "not allowed"}

# Actions that are not called as an operation.
_LISTS: Final = ("ListAllMyBuckets", "ListBucket", "ListBucketMultipartUploads", "ListBucketVersions")
_SIMILARITY_MIN: Final = 0.6

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the policy.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The policy, in AWS's language, as JSON.")]


@policy_app.command()
def create(name: Name, file: File, path: Path_ = "/", *, where: InAccount) -> None:
    """Create a policy, which can then be attached to users, groups and roles.

    Example:

        orcas policy create write-reports write-photos.json
    """
    with iam(where) as store:
        made = store.call("CreatePolicy", PolicyName=name, Path=path, PolicyDocument=read_document(file))["Policy"]
    tell({"Policy": made}, f"policy {name} created", where.as_json)


@policy_app.command()
def update(name: PolicyName, file: File, *, where: InAccount) -> None:
    """Replace a policy. Of the former versions, the newest four stay.

    Example:

        orcas policy update write-reports write-photos.json
    """
    document = read_document(file)
    with iam(where) as store:
        arn = store.policy(name)
        versions = list(store.all("ListPolicyVersions", "Versions", PolicyArn=arn))
        spare = [version for version in versions if not version["IsDefaultVersion"]]
        if len(versions) == 5:
            store.call("DeletePolicyVersion", PolicyArn=arn, VersionId=spare[-1]["VersionId"])
        made = store.call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
    version = made["PolicyVersion"]["VersionId"]
    tell({"PolicyArn": arn, **made}, f"policy {name} has version {version}", where.as_json)


@policy_app.command("list")
def list_policies(*, where: InAccount) -> None:
    """List the policies, those that come with Orcas included.

    Example:

        orcas policy list
    """
    with iam(where) as store:
        found = list(store.all("ListPolicies", "Policies"))
    rows = [(each["PolicyName"], each["AttachmentCount"], each["DefaultVersionId"], each["Arn"]) for each in found]
    print_found({"Policies": found}, where.as_json, ("Policy", "Attached", "Version", "ARN"), rows)


@policy_app.command()
def show(name: PolicyName, *, where: InAccount) -> None:
    """Print a policy.

    Example:

        orcas policy show AmazonS3ReadOnlyAccess
    """
    with iam(where) as store:
        arn = store.policy(name)
        found = store.call("GetPolicy", PolicyArn=arn)["Policy"]
        version = store.call("GetPolicyVersion", PolicyArn=arn, VersionId=found["DefaultVersionId"])["PolicyVersion"]
    document = unquote(version["Document"])
    if where.as_json:
        print_json({"Policy": found, "PolicyVersion": {**version, "Document": json.loads(document)}})
    else:
        for line in document.splitlines():
            say(line)


@policy_app.command()
def delete(name: PolicyName, *, where: InAccount) -> None:
    """Delete a policy that is attached to nothing, with all its versions.

    Example:

        orcas policy delete write-reports
    """
    with iam(where) as store:
        arn = store.policy(name)
        for action, parameters in deletion_of(arn, store.all("ListPolicyVersions", "Versions", PolicyArn=arn)):
            store.call(action, **parameters)
    tell({"PolicyArn": arn}, f"policy {name} is deleted", where.as_json)


@policy_app.command()
def check(
    file: File,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            autocompletion=among(*_KINDS),
            help="identity, bucket, session, boundary or trust.",
        ),
    ] = "identity",
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="NAME", help="The bucket of a bucket policy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a policy, and warn of what never matches or allows more than it says. Needs no store.

    Example:

        orcas policy check write-photos.json
    """
    from orcas.engine import check_policy

    if kind not in _KINDS:
        raise UsageError(f"--kind must be one of {', '.join(_KINDS)}, not {kind}.")
    text = read_document(file)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not valid: {error}; correct it.") from None
    try:
        warnings = check_policy(text, "resource" if kind == "bucket" else kind, bucket)
    except ValueError as error:
        other = _kind_with_principals(document) if kind in ("identity", "session", "boundary") else None
        reason = str(error).rstrip(".")
        if other is not None:
            raise ConfigurationError(f"{file} is not valid: {reason}; check it with --kind {other}.") from None
        raise ConfigurationError(f"{file} is not valid: {reason}; correct it.") from None
    if as_json:
        print_json({"warnings": warnings})
        return
    for warning in warnings:
        say(warning)
    sys.stdout.write("" if warnings else "valid\n")


def _kind_with_principals(document: Any) -> str | None:
    """The kind of a policy that names principals; None if it names none."""
    statements = document.get("Statement") if isinstance(document, dict) else None
    for statement in statements if isinstance(statements, list) else [statements]:
        if isinstance(statement, dict) and not statement.keys().isdisjoint({"Principal", "NotPrincipal"}):
            return "bucket" if "Resource" in statement or "NotResource" in statement else "trust"
    return None


@policy_app.command()
def explain(
    user: Annotated[
        str, typer.Argument(metavar="USER", help="Name of a user, or an access key; role/NAME or group/NAME of others.")
    ],
    action: Annotated[str, typer.Argument(metavar="ACTION", help="Such as s3:GetObject.")],
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="An ARN, or BUCKET or BUCKET/KEY.")],
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context", metavar="KEY=VALUE", help="A key of conditions, such as aws:SourceIp; may be repeated."
        ),
    ] = None,
    bucket_policy: Annotated[
        Path | None,
        typer.Option(
            "--bucket-policy", metavar="FILE", help="A policy of the bucket, in place of the one that it has."
        ),
    ] = None,
    *,
    where: InAccount,
) -> None:
    """Say whether somebody may do something, and which statement decides. The exit code is 3 if not.

    The policies of the user and that of the bucket decide, with the context that is given. Access control lists, public
    access blocks, and whether a key is active are not looked at.

    Example:

        orcas policy explain alice s3:PutObject photos/summer.jpg
    """
    arn = resource if resource.startswith("arn:") or resource == "*" else f"arn:aws:s3:::{resource}"
    kind, _, name = user.rpartition("/")
    called = (kind or "user").capitalize()
    if called not in {"User", "Role", "Group"}:
        raise UsageError(f"{user} must be a user, role/NAME or group/NAME.")
    _check_action(action)
    entries = [{"ContextKeyName": key, "ContextKeyValues": [value]} for key, value in pairs(context or [], "--context")]
    policy = None if bucket_policy is None else read_document(bucket_policy)
    with iam(where) as store:
        source, key = _source(store, called, name)
        owner, stored = _bucket(store, arn)
        (result,) = store.call(
            "SimulatePrincipalPolicy", PolicySourceArn=source, ActionNames=[action], ResourceArns=[arn],
            ContextEntries=entries, ResourcePolicy=stored if policy is None else policy, ResourceOwner=owner,
            AccessKeyId=key,
        )["EvaluationResults"]  # fmt: skip
    matched = [
        each["SourcePolicyId"].replace("resource statement", "bucket policy statement", 1)
        if each["SourcePolicyType"] == "resource"
        else each["SourcePolicyId"]
        for each in result["MatchedStatements"]
    ]
    allowed = result["EvalDecision"] == "allowed"
    if where.as_json:
        print_json(result)
    else:
        why = f", by {'; '.join(matched)}" if matched else "" if allowed else ": no statement allows it"
        say(f"{_DECISIONS[result['EvalDecision']]}{why}")
    if not allowed:
        raise typer.Exit(EXIT_NOT_ALLOWED)


def _check_action(action: str) -> None:
    """Refuse a word that cannot be an action, and an action that S3 does not have: no statement would ever allow it."""
    if not _is_action(action):
        raise UsageError(f"There is no action {action}{_closest_action(action)}")


def _is_action(action: str) -> bool:
    from orcas.engine import check_policy

    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    try:
        return not check_policy(json.dumps({"Statement": [statement]}), "identity")
    except ValueError:
        return False


def _closest_action(action: str) -> str:
    """The end of a message about an unknown action: most actions are called as an operation, or as one on a version."""
    from orcas.engine import OPERATIONS

    names = {name.lower(): name for operation in (*OPERATIONS, *_LISTS) for name in (operation, f"{operation}Version")}
    close = difflib.get_close_matches(action.rpartition(":")[2].lower(), names, n=len(names), cutoff=_SIMILARITY_MIN)
    known = next((names[name] for name in close if _is_action(f"s3:{names[name]}")), None)
    return ": name one such as s3:GetObject." if known is None else f": did you mean s3:{known}?"


def _bucket(store: Iam, arn: str) -> tuple[str | None, str | None]:
    """Account and policy of the bucket of a resource; None if there is no bucket, or no policy."""
    from orcas.control.identities.names import account_number
    from orcas.tools.objects import bucket_owner, bucket_policy

    name = arn.removeprefix("arn:aws:s3:::").partition("/")[0]
    if not arn.startswith("arn:aws:s3:::") or not name or "*" in name or "?" in name:
        return None, None
    owner = bucket_owner(store.session, name)
    return (None, None) if owner is None else (account_number(owner), bucket_policy(store.session, name))


def _source(store: Iam, kind: str, name: str) -> tuple[str, str | None]:
    """The ARN of a user, role or group; of an access key that of its user, and the key."""
    from orcas.tools.session import RefusedError

    try:
        return str(store.call(f"Get{kind}", **{f"{kind}Name": name})[kind]["Arn"]), None
    except RefusedError as error:
        if kind != "User" or error.code != "NoSuchEntity":
            raise
        missing = error
    try:
        user = store.call("GetAccessKeyLastUsed", AccessKeyId=name)["UserName"]
        return str(store.call("GetUser", UserName=user)["User"]["Arn"]), name
    except RefusedError as error:
        raise missing if error.code == "NoSuchEntity" else error from None


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(policy_app, name="policy")
