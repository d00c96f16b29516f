"""Policies that AWS manages, as far as they are about S3 and IAM: every account can attach them, nobody can change them."""

from __future__ import annotations

import json
from typing import Any, Final

from orcas.control.identities.records import Document, Entity

# 2015-02-06, when AWS made most of them.
_CREATED_MS: Final = 1_423_247_940_000


def _policy(actions: Any, version: int, description: str) -> tuple[int, str, str]:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
    return version, description, json.dumps(document)


_READ_IAM: Final = [
    "iam:GenerateCredentialReport", "iam:GenerateServiceLastAccessedDetails", "iam:Get*", "iam:List*",
    "iam:SimulateCustomPolicy", "iam:SimulatePrincipalPolicy",
]  # fmt: skip
_POLICIES: Final = {
    "AdministratorAccess": _policy("*", 1, "Provides full access to AWS services and resources."),
    "AmazonS3FullAccess": _policy(["s3:*", "s3-object-lambda:*"], 2, "Provides full access to all buckets."),
    "AmazonS3ReadOnlyAccess": _policy(
        ["s3:Get*", "s3:List*", "s3:Describe*", "s3-object-lambda:Get*", "s3-object-lambda:List*"],
        3, "Provides read only access to all buckets.",
    ),
    "IAMFullAccess": _policy(
        ["iam:*", "organizations:DescribeAccount", "organizations:DescribeOrganization"],
        2, "Provides full access to IAM.",
    ),
    "IAMReadOnlyAccess": _policy(_READ_IAM, 4, "Provides read only access to IAM."),
}  # fmt: skip


def _entity(name: str, number: int) -> Entity:
    version, description, _ = _POLICIES[name]
    details = {"description": description, "default": f"v{version}", "last": version}
    return Entity(f"ANPAORCAS{number:012}", "", "aws", "policy", name, "/", _CREATED_MS, None, details)


BUILTIN: Final = {entity.arn: entity for entity in map(_entity, _POLICIES, range(1, len(_POLICIES) + 1))}


def builtin_document(policy: Entity) -> Document:
    """The only version of such a policy."""
    return Document(policy.details["default"], _POLICIES[policy.name][2], _CREATED_MS)
