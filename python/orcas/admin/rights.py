"""The actions that operations of the admin API need: the guard decides by this table, and docs/admin-api.md shows it.

An operation that is not in it is for root alone. So is what makes somebody root or as good as that, by another secret or
by content of others, what nobody can undo for all accounts together, and what lets the server reach other machines.
"""

from __future__ import annotations

from typing import Final

# Whoever has signed the request: the operation decides by itself, about whom it is asked.
SIGNED: Final = ""
# By method and path, the action that must be allowed, on the bucket that the path names or on the server.
ACTIONS: Final[dict[tuple[str, str], str]] = {
    ("POST", "/access"): SIGNED,
    ("POST", "/access/own"): SIGNED,
    ("POST", "/access/who"): SIGNED,
    ("GET", "/about"): "orcas:GetHealth",
    ("GET", "/accounts"): "orcas:ListAccounts",
    ("POST", "/accounts"): "orcas:CreateAccount",
    ("GET", "/audit"): "orcas:GetAuditLog",
    ("GET", "/audit/verify"): "orcas:GetAuditLog",
    ("POST", "/buckets/{bucket}/fork"): "orcas:ForkBucket",
    ("POST", "/buckets/{bucket}/restore"): "orcas:RestoreBucket",
    ("GET", "/buckets/{bucket}/snapshots"): "orcas:ListSnapshots",
    ("POST", "/buckets/{bucket}/snapshots"): "orcas:CreateSnapshot",
    ("DELETE", "/buckets/{bucket}/snapshots/{name}"): "orcas:DeleteSnapshot",
    ("POST", "/check"): "orcas:RunTask",
    ("GET", "/cluster"): "orcas:GetStats",
    ("POST", "/compact"): "orcas:RunTask",
    ("GET", "/disk"): "orcas:GetDisk",
    ("POST", "/gc"): "orcas:RunTask",
    ("GET", "/history"): "orcas:GetHistory",
    ("GET", "/jobs"): "orcas:ListJobs",
    ("GET", "/jobs/{name}"): "orcas:ListJobs",
    ("DELETE", "/jobs/{name}"): "orcas:CancelJob",
    ("GET", "/keys"): "orcas:ListKeys",
    ("GET", "/licences"): "orcas:GetLicences",
    ("POST", "/lifecycle/run"): "orcas:RunTask",
    ("GET", "/limits"): "orcas:GetLimits",
    ("PUT", "/limits"): "orcas:PutLimits",
    ("GET", "/log"): "orcas:GetLog",
    ("GET", "/origins"): "orcas:ListOrigins",
    ("GET", "/quotas"): "orcas:ListQuotas",
    ("PUT", "/quotas"): "orcas:PutQuota",
    ("GET", "/replication"): "orcas:ListReplication",
    ("GET", "/requests"): "orcas:GetRequests",
    ("GET", "/scrub"): "orcas:GetStats",
    ("GET", "/settings"): "orcas:GetSettings",
    ("GET", "/stats"): "orcas:GetStats",
    ("POST", "/stop"): "orcas:StopServer",
    ("GET", "/targets"): "orcas:ListTargets",
    ("GET", "/targets/{name}/dead"): "orcas:ListDeadLetters",
    ("POST", "/targets/{name}/discard"): "orcas:DiscardDeadLetters",
    ("POST", "/targets/{name}/resend"): "orcas:ResendDeadLetters",
    ("POST", "/targets/{name}/test"): "orcas:ResendDeadLetters",
    ("GET", "/tasks"): "orcas:ListTasks",
    ("POST", "/tasks/{name}"): "orcas:RunTask",
    ("GET", "/usage"): "orcas:GetUsage",
}
# The identities write these into the audit log themselves, with the name of whoever has asked.
AUDITED: Final = frozenset({"orcas:CreateAccount", "orcas:PutLimits"})
