"""The policies that MinIO brings along, by their names."""

from __future__ import annotations

from typing import Any, Final


def _policy(actions: list[str], resource: str = "arn:aws:s3:::*") -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": actions, "Resource": [resource]}
    return {"Version": "2012-10-17", "Statement": [statement]}


BUILT_IN: Final = {
    "readwrite": _policy(["s3:*"]),
    "readonly": _policy(["s3:GetBucketLocation", "s3:GetObject"]),
    "writeonly": _policy(["s3:PutObject"]),
    # Here, what somebody may do beside S3 is IAM's. Server information is root's alone.
    "consoleAdmin": _policy(["s3:*", "iam:*", "sts:*"], "*"),
    "diagnostics": _policy(["s3:ListAllMyBuckets"]),
}
