"""Draws requests for what is not S3: IAM and STS, Orcas's own paths, other services of AWS, browsers."""

from __future__ import annotations

import json
import random
from typing import Final
from urllib.parse import urlencode

from tests.fixtures.signing import Header

from .drawing import Plan

_POLICY: Final = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}
)
_ACTIONS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("iam", {"Action": "ListUsers"}),
    ("iam", {"Action": "GetUser", "UserName": "ann"}),
    ("iam", {"Action": "GetUser"}),
    ("iam", {"Action": "CreateUser", "UserName": "dia"}),
    ("iam", {"Action": "DeleteUser", "UserName": "dia"}),
    ("iam", {"Action": "CreateUser", "UserName": "not a name"}),
    ("iam", {"Action": "ListAccessKeys", "UserName": "ben"}),
    ("iam", {"Action": "PutUserPolicy", "UserName": "dia", "PolicyName": "own", "PolicyDocument": _POLICY}),
    ("iam", {"Action": "ListUserPolicies", "UserName": "ben"}),
    ("iam", {"Action": "Nothing"}),
    ("sts", {"Action": "GetCallerIdentity"}),
    ("sts", {"Action": "GetSessionToken", "DurationSeconds": "900"}),
    ("sts", {"Action": "AssumeRole", "RoleArn": "arn:aws:iam::111122223333:role/x", "RoleSessionName": "s"}),
    (
        "sts",
        {"Action": "AssumeRoleWithWebIdentity", "RoleArn": "x", "RoleSessionName": "s", "WebIdentityToken": "a.b.c"},
    ),
)
_VERSIONS: Final = {"iam": "2010-05-08", "sts": "2011-06-15"}
# Under `/_orcas/`. What answers with numbers of the process or of the machine is not compared, and is not asked.
_PATHS: Final = (
    "health/live", "health/ready", "health/writable", "health", "", "events", "docs", "openapi.json", "console", "console/",
    "console/buckets", "console/../x", "nothing", "%61dmin/jobs", "admin", "admin/jobs", "admin/quotas", "admin/origins",
    "admin/targets", "admin/keys", "admin/buckets/plain/snapshots", "admin/buckets/absent/snapshots", "admin/tasks/none",
    "admin/licences", "admin/test/clock", "admin//jobs", "metrics/x",
)  # fmt: skip
_ORDERS: Final = (
    ("POST", "admin/buckets/plain/snapshots", {"name": "s"}),
    ("DELETE", "admin/buckets/plain/snapshots/s", None),
    ("PUT", "admin/quotas", {"bucket": "empty", "bytes": 1000, "objects": 10}),
    ("POST", "admin/iam", {"action": "ListAccounts"}),
    ("POST", "admin/tasks/none", None),
    ("DELETE", "admin/origins/plain", None),
)
_FORM: Final[Header] = ("content-type", "application/x-www-form-urlencoded; charset=utf-8")


def query(rng: random.Random) -> Plan:
    """IAM or STS, in a form or in the query."""
    service, parameters = rng.choice(_ACTIONS)
    version = _VERSIONS[service] if rng.random() < 0.95 else "2000-01-01"
    text = urlencode({**parameters, "Version": version})
    plan = Plan(
        "Query", "POST", "localhost:9000", "/", sender=f"{rng.choice(('root', 'root', 'ann', 'ben', 'cem'))}/{service}"
    )
    if rng.random() < 0.1:
        plan.sender = rng.choice((None, "wrong secret", "ann", "late"))
    if rng.random() < 0.6:
        plan.headers.append(_FORM)
        plan.body = text.encode()
        plan.chunks = rng.random() < 0.1
    else:
        plan.method = rng.choice(("GET", "POST"))
        plan.query = [(name, value) for name, _, value in (pair.partition("=") for pair in text.split("&"))]
        plan.signing = rng.choice(("whole", "whole", "presigned"))
    if rng.random() < 0.05:
        plan.host = rng.choice(("plain.s3.test", "public.web.test", "iam.amazonaws.com"))
    return plan


def own(rng: random.Random) -> Plan:
    """Orcas's own paths."""
    sender = rng.choice(("root", "root", "root", "ann", None))
    plan = Plan("Own", "GET", "localhost:9000", f"/_orcas/{rng.choice(_PATHS)}", sender=sender)
    plan.headers.append(("x-amz-orcas-nonce", rng.randbytes(8).hex()))
    if rng.random() < 0.3:
        plan.method, path, order = rng.choice(_ORDERS)
        plan.path = f"/_orcas/{path}"
        if order is not None:
            plan.body = json.dumps(order).encode()
            plan.headers.append(("content-type", "application/json"))
            plan.chunks = rng.random() < 0.1
    elif rng.random() < 0.15:
        plan.method = rng.choice(("HEAD", "OPTIONS", "POST", "PUT", "DELETE"))
    if plan.path.endswith("/events"):
        # A stream without an end.
        plan.sender = None
    if rng.random() < 0.05:
        plan.host = "public.s3.test"
    return plan


def foreign(rng: random.Random) -> Plan:
    """Clients of other services of AWS, which are pointed here by mistake."""
    plan = Plan(
        "Foreign", "POST", "localhost:9000", "/", sender=rng.choice((None, "root/dynamodb", "root/sqs", "ann/kms"))
    )
    kind = rng.choice(("target", "query", "path"))
    if kind == "target":
        plan.headers += [
            ("x-amz-target", "DynamoDB_20120810.ListTables"),
            ("content-type", "application/x-amz-json-1.0"),
        ]
        plan.body = b"{}"
    elif kind == "query":
        plan.headers.append(_FORM)
        plan.body = b"Action=ListQueues&Version=2012-11-05"
    else:
        plan.method, plan.path = "GET", "/2015-03-31/functions/"
    return plan


def visit(rng: random.Random) -> Plan:
    """Somebody opens the address in a browser."""
    plan = Plan("Visit", "GET", "localhost:9000", rng.choice(("/", "/", "/plain", "/favicon.ico")), sender=None)
    plan.headers += [("accept", "text/html,application/xhtml+xml"), ("accept-language", "de")]
    if rng.random() < 0.2:
        plan.query = [("x", None)]
    if rng.random() < 0.2:
        plan.host = rng.choice(("plain.s3.test", "absent.web.test", "[::1]:9000"))
    return plan
